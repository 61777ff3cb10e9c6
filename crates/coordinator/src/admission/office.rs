//! Who signs for new machines: the node that has the cluster's authority, whoever leads the registry.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cards_tls::{Authority, Fingerprint, Identity, Name, PublicKey, Shown};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::error::Error;
use crate::ids::WallClock;
use crate::local::Local;
use crate::record::{Certificate, MemberState};
use crate::refusal::Refusal;
use crate::registry::check_name;
use crate::view::View;
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
    /// Of its own node. What is signed is believed for as long as that one's certificate.
    identity: Identity,
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
#[derive(Debug, thiserror::Error)]
pub enum Unsigned {
    /// The request is none.
    #[error("{0}")]
    Malformed(String),
    /// The machine must not become that node.
    #[error(transparent)]
    NotAdmitted(NotAdmitted),
    /// The keeper cannot tell.
    #[error("{0}")]
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
        let authority = Authority::load(&identity.name().cluster, &certificate, &key)?;
        if !identity.believes(&authority.fingerprint()) {
            let problem = "this node's identity is of another authority; bring the one that has signed it, or take this one away";
            return Err(cards_tls::Error::Content { path: certificate, problem: problem.into() });
        }
        let tokens = Tokens::within(dir);
        Ok(Some(Self { authority: Arc::new(authority), tokens, identity: identity.clone() }))
    }

    /// Signs for a machine that may become a node. Its token has one use less, and its name is taken, before there is a
    /// signature. A machine that asks again with the same key has its answer again: the answer is of no use without the key.
    pub(crate) async fn sign(&self, registry: &Local, asked: &Sign) -> Result<Admission, Unsigned> {
        let Sign { token, node, hosts, .. } = asked;
        let malformed = |what: &str| Unsigned::Malformed(format!("the {what} is none"));
        let secret = Secret::received(&asked.secret).ok_or_else(|| malformed("secret"))?;
        let p256 = || PublicKey::from_bytes(&from_base64::<65>(&asked.key)?);
        // Machines with an earlier release have keys of Ed25519.
        let ed25519 = || PublicKey::from_bytes(&from_base64::<32>(&asked.key)?);
        let key = p256().or_else(ed25519).ok_or_else(|| malformed("public key"))?;
        // Who has no token learns nothing of the registry.
        let granted = match self.blocking(*token, &secret, node, Tokens::check).await {
            Ok(granted) => Some(granted),
            Err(Unsigned::NotAdmitted(NotAdmitted::UsedUp { .. })) => None,
            Err(why) => return Err(why),
        };
        if hosts.len() > HOSTS_MAX {
            return Err(malformed("list of hosts"));
        }
        let bad = |problem| Unsigned::NotAdmitted(NotAdmitted::BadName { problem });
        hosts
            .iter()
            .try_for_each(|host| cards_tls::check_host(host))
            .map_err(|error| bad(error.to_string()))?;
        check_name("node", node).map_err(|refusal| bad(refusal.to_string()))?;
        let name = Name::new(registry.cluster(), node);
        let dns = name.dns().map_err(|error| bad(error.to_string()))?;
        let view = registry.view().await.map_err(|error| Unsigned::Failed(error.to_string()))?;
        let is_own = |known: &&Certificate| known.name == dns && known.key == key.fingerprint();
        let is_again =
            view.certificates.iter().find(is_own).is_some_and(|known| known.is_good(WallClock::now()));
        if !is_again {
            let granted = granted.ok_or(Unsigned::NotAdmitted(NotAdmitted::UsedUp { token: *token }))?;
            self.is_free(&view, &name, &key.fingerprint(), &granted)?;
            self.blocking(*token, &secret, node, Tokens::spend).await?;
        }
        self.certify(registry, &name, hosts, &key, true).await
    }

    /// Signs for a node that has shown its certificate, anew: of the same name, hosts and key, and for the host of the address
    /// (`host:port`) where others reach it now.
    ///
    /// # Errors
    /// The certificate is not one that the cluster's authority makes, or was revoked.
    pub async fn renew(
        &self,
        registry: &Local,
        shown: &Shown,
        name: &Name,
        address: Option<&str>,
    ) -> Result<Admission, Unsigned> {
        let key = shown.public_key().filter(|_| shown.is(name)).ok_or_else(|| {
            Unsigned::Malformed(format!(
                "the certificate to renew is not one of the cluster's authority for node {0}: have the node join again with a token (`cards cluster token \
                 --rejoin {0}` on the keeper's machine)",
                name.node
            ))
        })?;
        let mut hosts = shown.hosts();
        if let Some(host) = address.and_then(cards_tls::host_to_sign).filter(|host| !shown.is_for_host(host))
        {
            // Those that it had before may be of addresses that it has not any more.
            hosts.insert(0, host.to_owned());
        }
        hosts.truncate(HOSTS_MAX + 3);
        self.certify(registry, name, &hosts, &key, false).await
    }

    /// Signs. The certificate is in the registry, durably, before it is handed out.
    async fn certify(
        &self,
        registry: &Local,
        name: &Name,
        hosts: &[String],
        key: &PublicKey,
        alone: bool,
    ) -> Result<Admission, Unsigned> {
        let failed = |error: cards_tls::Error| Unsigned::Failed(error.to_string());
        let signed = match self.identity.life() {
            Duration::ZERO => self.authority.sign(&name.node, hosts, key),
            life => self.authority.sign_for(&name.node, hosts, key, life),
        };
        let certificate = signed.map_err(failed)?;
        let known = Shown::in_pem(&certificate).and_then(|shown| Certificate::of(&shown, name));
        let known =
            known.ok_or_else(|| Unsigned::Failed("the certificate that was made is none".to_owned()))?;
        match registry.submit(Change::Certify { certificate: known, alone }).await {
            Ok(_) => Ok(Admission { certificate, authority: self.authority.certificate().into() }),
            Err(Error::Refused(Refusal::Revoked { name })) => {
                Err(Unsigned::NotAdmitted(NotAdmitted::KeyKnown { name }))
            }
            Err(error) => Err(Unsigned::Failed(error.to_string())),
        }
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
    fn is_free(
        &self,
        view: &View,
        name: &Name,
        key: &Fingerprint,
        granted: &Granted,
    ) -> Result<(), Unsigned> {
        let (node, now) = (&name.node, WallClock::now());
        let is_known = |known: &&Certificate| known.key == *key && (known.revoked || known.is_good(now));
        let is_taken =
            |known: &&Certificate| name.dns().is_ok_and(|dns| dns == known.name) && known.is_good(now);
        let why = match view.members.get(node) {
            // Whatever the registry says yet.
            _ if *name == *self.identity.name() => NotAdmitted::KeepersName { node: node.clone() },
            Some(member) if member.state.is_live() => {
                NotAdmitted::NameInUse { node: node.clone(), address: member.address.clone() }
            }
            Some(member) if granted.rejoin.is_none() => {
                let state = match member.state {
                    MemberState::Dead => "died".into(),
                    state => state.to_string(),
                };
                NotAdmitted::NameTaken { node: node.clone(), state }
            }
            _ => {
                let mut known = view.certificates.iter();
                match (known.clone().find(is_known), known.find(is_taken)) {
                    (Some(known), _) => NotAdmitted::KeyKnown { name: known.name.clone() },
                    (None, Some(known)) if granted.rejoin.is_none() => {
                        let days = known.ends.saturating_sub(now.0 / 1000) / 86_400;
                        NotAdmitted::NameCertified { node: node.clone(), days }
                    }
                    _ => return Ok(()),
                }
            }
        };
        Err(Unsigned::NotAdmitted(why))
    }
}
