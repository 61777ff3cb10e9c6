//! By what this node proves to others who it is.

use cards_tls::{Identity, Name};

use crate::config::Config;
use crate::serve::ServeError;

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
            None => Ok(None),
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
