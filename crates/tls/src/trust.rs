//! Whom a program believes that is no node and has nothing to show.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

use crate::handshake::drive;
use crate::identity::roots_in;
use crate::settings::client_of_nothing;
use crate::{Error, HandshakeError, Wire};

/// The authorities by which it knows a node.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Those whose certificates are in this file (PEM), as `identity/authority.pem` of a node.
    ///
    /// # Errors
    /// The file cannot be read or holds something else.
    pub fn read(authorities: &Path) -> Result<Self, Error> {
        Self::of(roots_in(authorities)?)
    }

    fn of(roots: RootCertStore) -> Result<Self, Error> {
        Ok(Self(Arc::new(client_of_nothing(roots, b"http/1.1")?)))
    }

    /// Calls a node, whose certificate must be for this host: a name or an address.
    ///
    /// # Errors
    /// It does not answer, or is not believed.
    pub async fn connect(&self, mut stream: TcpStream, host: &str) -> Result<Wire, HandshakeError> {
        let host = ServerName::try_from(host.to_owned())
            .map_err(|_| HandshakeError::Own(Error::Host { host: host.into() }))?;
        let end = UnbufferedClientConnection::new(Arc::clone(&self.0), host)?;
        let (_, keys) = drive(&mut stream, end, &mut Vec::new()).await?;
        Ok(Wire::sealed(stream, keys)?)
    }
}
