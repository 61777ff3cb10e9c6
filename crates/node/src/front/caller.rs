//! Who asks for a volume.

use std::fmt;

use cards_tls::Client;

use cards_config::{ClientMode, Config};

/// Who asks.
pub(super) enum Caller {
    /// Whoever can connect: over the unix socket, or in the clear where that is allowed.
    Anybody,
    /// A client that has proven who it is.
    Client(Client),
}

impl Caller {
    /// What it may do with a volume; none if nothing.
    pub(super) fn may(&self, config: &Config, volume: &str) -> Option<ClientMode> {
        match self {
            Self::Anybody => Some(ClientMode::Rw),
            Self::Client(client) => config.granted(client, volume),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anybody => f.write_str("a client"),
            Self::Client(client) => client.fmt(f),
        }
    }
}
