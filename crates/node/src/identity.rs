//! By what this node proves to others who it is, and what follows for those who come.

use cards_tls::{Identity, Name, Service};

use crate::config::{Config, Listener, Tls};
use crate::serve::ServeError;

/// Who is refused by a configuration that is right, in words, and the start itself if this node has nothing to show.
#[must_use]
pub fn refuses(config: &Config) -> Vec<String> {
    let mut refused = Vec::new();
    match read(config).and_then(|identity| clients(config, identity.as_ref())) {
        Err(error) => refused.push(format!("the start: {error}")),
        Ok(service) => {
            for Listener { key, address, tls, .. } in config.listeners() {
                let at = format!("at {key} = {address:?}");
                match (tls, key) {
                    (Tls::Required, "nbd.tcp") => {
                        refused.push(format!("{at}: clients without TLS, or without a certificate"));
                    }
                    (Tls::Required, _) => refused.push(format!("{at}: requests without TLS")),
                    (Tls::Offered | Tls::Off, _) => {}
                }
                if key == "nbd.tcp" && service.is_some() && !config.clients.is_empty() {
                    refused
                        .push(format!("{at}: clients with a certificate that are not named in [[client]]"));
                }
            }
        }
    }
    refused
}

/// What clients come to over NBD and TLS; none if they cannot.
pub(crate) fn clients(config: &Config, identity: Option<&Identity>) -> Result<Option<Service>, ServeError> {
    match identity {
        Some(identity) if config.tls("nbd.tcp") != Tls::Off => {
            Ok(Some(Service::for_clients(identity, config.nbd.authority.as_deref())?))
        }
        _ => Ok(None),
    }
}

/// Reads it; none if the cluster is this machine, or told to do without.
///
/// # Errors
/// There is none, or it cannot be used.
pub(crate) fn read(config: &Config) -> Result<Option<Identity>, ServeError> {
    if config.insecure {
        if let Some(address) = config.beyond_this_machine() {
            tracing::warn!(
                "insecure: everybody who reaches {address} can read and write all volumes, and be any node"
            );
        }
        return Ok(None);
    }
    let files = config.identity_files();
    if config.identity.is_none() && !files.any() {
        return match config.beyond_this_machine() {
            None => match config.listeners().into_iter().find(Listener::needs_identity) {
                None => Ok(None),
                Some(Listener { key, address, .. }) => Err(ServeError::NoIdentityFor {
                    key,
                    dir: config.state_dir.join("identity"),
                    address: address.into(),
                }),
            },
            Some(address) => Err(ServeError::NoIdentity {
                node: config.node.clone(),
                dir: config.state_dir.join("identity"),
                address: address.into(),
            }),
        };
    }
    let name = Name::new(&config.cluster, &config.node);
    Ok(Some(Identity::load(&name, &files)?))
}
