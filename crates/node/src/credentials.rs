//! What the configuration has this node prove itself with, and whom it refuses.

use cards_config::{Config, Listener, Tls};
use cards_tls::{Identity, Name, Service};

use crate::error::ServeError;

/// Who is refused by a configuration that is right, in words.
///
/// # Errors
/// The start is: this node has nothing to show, or it cannot be used.
pub fn refuses(config: &Config) -> Result<Vec<String>, ServeError> {
    let mut refused = Vec::new();
    let service = read(config).and_then(|identity| clients(config, identity.as_ref()))?;
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
            refused.push(format!("{at}: clients with a certificate that are not named in [[client]]"));
        }
    }
    Ok(refused)
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
pub fn read(config: &Config) -> Result<Option<Identity>, ServeError> {
    if config.insecure {
        if let Some(address) = config.beyond_this_machine() {
            tracing::warn!(
                "insecure: everybody who reaches {address} can read and write all volumes, and be any node"
            );
        }
        return Ok(None);
    }
    let files = config.identity_files();
    if let Some(error) = files.hidden() {
        return Err(error.into());
    }
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
    let identity = Identity::load(&name, &files)?;
    // The keeper signs for itself when it starts.
    let signs = config.is_keeper() && config.authority().exists();
    if identity.ends().is_some() || signs {
        return Ok(Some(identity));
    }
    let remedy = match config.identity {
        Some(_) => "compare this machine's clock with another's, or have it signed anew".into(),
        None => format!(
            "compare this machine's clock with another's; if it is right, remove {} and run `cards join --token` with a token of \
             `cards cluster token --rejoin {}` on the keeper's machine",
            config.state_dir.join("identity").display(),
            config.node
        ),
    };
    Err(ServeError::NotBelieved { certificate: files.certificate, remedy })
}
