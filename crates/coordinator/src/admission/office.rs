//! Who signs for new machines: whoever keeps the registry, if the authority is there as well.

use std::path::Path;
use std::sync::Arc;

use cards_tls::{Authority, Identity, Name, PublicKey};
use serde::{Deserialize, Serialize};

use crate::embedded::Embedded;
use crate::record::MemberState;
use crate::registry::check_name;
use crate::wire::Sign;

use super::token::{Secret, from_base64};
use super::tokens::{Granted, Tokens, Unused};
use super::{NotAdmitted, TokenId};

/// Most names and addresses of a machine.
const HOSTS_MAX: usize = 16;

/// The cluster's authority and its tokens.
#[derive(Clone, Debug)]
pub struct Office {
    authority: Arc<Authority>,
    tokens: Tokens,
    /// Its own node.
    keeper: String,
}

/// What a machine gets to become a node, all PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Its certificate.
    pub certificate: String,
    /// That of the cluster's authority.
    pub authority: String,
}

/// Why there is no signature.
pub(crate) enum Unsigned {
    /// The request is none.
    Malformed(String),
    /// The machine must not become that node.
    NotAdmitted(NotAdmitted),
    /// The keeper cannot tell.
    Failed(String),
}

impl From<Unused> for Unsigned {
    fn from(error: Unused) -> Self {
        match error {
            Unused::NotAdmitted(why) => Self::NotAdmitted(why),
            Unused::Tokens(error) => Self::Failed(error.to_string()),
        }
    }
}

impl Office {
    /// That of the authority in this directory; none if its key is not there.
    ///
    /// # Errors
    /// The authority cannot be used, or the node does not believe what it signs.
    pub fn open(dir: &Path, identity: &Identity) -> Result<Option<Self>, cards_tls::Error> {
        let (certificate, key) = (dir.join("authority.pem"), dir.join("authority.key"));
        if !key.exists() {
            return Ok(None);
        }
        let Name { cluster, node } = identity.name();
        let authority = Authority::load(cluster, &certificate, &key)?;
        if !identity.believes(&authority.fingerprint()) {
            let problem = "this node's identity is of another authority; bring the one that has signed it, or take this one away";
            return Err(cards_tls::Error::Content { path: certificate, problem: problem.into() });
        }
        let tokens = Tokens::within(dir);
        Ok(Some(Self { authority: Arc::new(authority), tokens, keeper: node.clone() }))
    }

    /// Signs for a machine that may become a node. Its token has one use less before there is a signature.
    pub(crate) async fn sign(&self, registry: &Embedded, asked: &Sign) -> Result<Admission, Unsigned> {
        let Sign { token, node, hosts, .. } = asked;
        let malformed = |what: &str| Unsigned::Malformed(format!("the {what} is none"));
        let secret = Secret::received(&asked.secret).ok_or_else(|| malformed("secret"))?;
        let key = PublicKey(from_base64(&asked.key).ok_or_else(|| malformed("public key"))?);
        // Who has no token learns nothing of the registry.
        let granted = self.blocking(*token, &secret, node, Tokens::check).await?;
        if hosts.len() > HOSTS_MAX {
            return Err(malformed("list of hosts"));
        }
        let bad = |error: cards_tls::Error| NotAdmitted::BadName { problem: error.to_string() };
        hosts
            .iter()
            .try_for_each(|host| cards_tls::check_host(host))
            .map_err(|e| Unsigned::NotAdmitted(bad(e)))?;
        self.is_free(registry, node, &granted).await?;
        self.blocking(*token, &secret, node, Tokens::spend).await?;
        let certificate =
            self.authority.sign(node, hosts, &key).map_err(|e| Unsigned::Failed(e.to_string()))?;
        Ok(Admission { certificate, authority: self.authority.certificate().into() })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        token: TokenId,
        secret: &Secret,
        node: &str,
        work: fn(&Tokens, TokenId, &Secret, &str) -> Result<T, Unused>,
    ) -> Result<T, Unsigned> {
        let (tokens, secret, node) = (self.tokens.clone(), secret.clone(), node.to_owned());
        let done = tokio::task::spawn_blocking(move || work(&tokens, token, &secret, &node)).await;
        Ok(done.map_err(|error| Unsigned::Failed(error.to_string()))??)
    }

    /// The name can be this machine's.
    async fn is_free(&self, registry: &Embedded, node: &str, granted: &Granted) -> Result<(), Unsigned> {
        let bad = |problem| Unsigned::NotAdmitted(NotAdmitted::BadName { problem });
        check_name("node", node).map_err(|refusal| bad(refusal.to_string()))?;
        Name::new(registry.cluster(), node).dns().map_err(|error| bad(error.to_string()))?;
        let view = registry.view().await.map_err(|error| Unsigned::Failed(error.to_string()))?;
        let why = match view.members.get(node) {
            // Whatever the registry says yet.
            _ if node == self.keeper => NotAdmitted::KeepersName { node: node.into() },
            Some(member) if member.state.is_live() => {
                NotAdmitted::NameInUse { node: node.into(), address: member.address.clone() }
            }
            Some(member) if granted.rejoin.is_none() => {
                let state = match member.state {
                    MemberState::Dead => "died".into(),
                    state => state.to_string(),
                };
                NotAdmitted::NameTaken { node: node.into(), state }
            }
            _ => return Ok(()),
        };
        Err(Unsigned::NotAdmitted(why))
    }
}
