//! Connections of those that are no nodes: clients of volumes, who prove who they are, and of HTTP, who do that
//! otherwise. To all of them a node shows its own certificate.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::UnbufferedServerConnection;
use rustls::server::danger::ClientCertVerifier;
use tokio::net::TcpStream;

use crate::certificate::Says;
use crate::client::{Client, names, own};
use crate::handshake::drive;
use crate::identity::roots_in;
use crate::settings::{callers, server_of_clients, server_of_strangers};
use crate::{Error, Fingerprint, HandshakeError, Identity, Wire};

/// What a node offers to those that are no nodes.
#[derive(Clone)]
pub struct Service {
    identity: Identity,
    callers: Callers,
}

/// Who may come.
#[derive(Clone)]
enum Callers {
    /// Clients of the cluster, and those of other authorities.
    Clients(Option<Arc<dyn ClientCertVerifier>>),
    /// Everybody.
    Everybody,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Service {
    /// For clients of the cluster, and for those of other authorities, whose certificates are in this file (PEM).
    ///
    /// # Errors
    /// The file cannot be read or holds something else.
    pub fn for_clients(identity: &Identity, others: Option<&Path>) -> Result<Self, Error> {
        let others = others.map(|path| callers(&Arc::new(roots_in(path)?))).transpose()?;
        Ok(Self { identity: identity.clone(), callers: Callers::Clients(others) })
    }

    /// For whoever comes, over HTTP.
    #[must_use]
    pub fn for_http(identity: &Identity) -> Self {
        Self { identity: identity.clone(), callers: Callers::Everybody }
    }

    /// Answers a caller: its connection, and who it is if it must say so.
    ///
    /// # Errors
    /// It shows nothing that is believed, does not believe this node, or goes.
    pub async fn accept(
        &self,
        mut stream: TcpStream,
    ) -> Result<(Wire, Option<(Client, Fingerprint)>), HandshakeError> {
        let now = self.identity.now();
        let (config, believed) = match &self.callers {
            Callers::Everybody => (server_of_strangers(&now, b"http/1.1")?, None),
            Callers::Clients(others) => {
                let cluster = callers(&now.authorities)?;
                let name = self.identity.name().cluster.clone();
                let believed = Arc::new(Believed { name, cluster, others: others.clone() });
                (server_of_clients(&now, Arc::clone(&believed))?, Some(believed))
            }
        };
        let end = UnbufferedServerConnection::new(Arc::new(config))?;
        let (chain, keys) = drive(&mut stream, end, &mut Vec::new()).await?;
        let client = match believed {
            None => None,
            Some(believed) => {
                let (shown, between) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
                let client = believed.who(shown, between, UnixTime::now())?;
                let key = Says::of(shown).ok_or(rustls::Error::NoCertificatesPresented)?.key;
                if self.identity.has_revoked(&key) {
                    let who = names(shown).into_iter().next().unwrap_or_default();
                    let why = "by `cards cluster client NAME --revoke`";
                    return Err(HandshakeError::Revoked { who, why });
                }
                Some((client, key))
            }
        };
        Ok((Wire::sealed(stream, keys)?, client))
    }
}

/// Whose clients may come.
#[derive(Debug)]
pub(crate) struct Believed {
    /// The cluster.
    name: String,
    cluster: Arc<dyn ClientCertVerifier>,
    others: Option<Arc<dyn ClientCertVerifier>>,
}

impl Believed {
    /// Whose certificate it is. What the cluster's authority has signed is a client's, or is refused: nodes have no
    /// business here, and their keys are not to be carried to where clients are.
    pub(crate) fn who(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Client, rustls::Error> {
        let refused = match self.cluster.verify_client_cert(shown, between, now) {
            Ok(_) => {
                return own(shown, &self.name)
                    .map(Client::Own)
                    .ok_or_else(|| CertificateError::InvalidPurpose.into());
            }
            Err(refused) => refused,
        };
        match &self.others {
            Some(others) if others.verify_client_cert(shown, between, now).is_ok() => {
                Ok(Client::Other(names(shown)))
            }
            _ => Err(refused),
        }
    }

    /// The verifier by whose rules signatures of the handshake are checked: all have the same.
    pub(crate) fn rules(&self) -> &dyn ClientCertVerifier {
        &*self.cluster
    }
}

#[cfg(test)]
mod tests;
