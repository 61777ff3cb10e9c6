//! The NBD endpoints of a node.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::uri::is_loopback;
use super::{duration, size};

/// Where the attached volumes are exported over NBD, and what one client may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nbd {
    /// Path of a unix socket. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<PathBuf>,
    /// Address and port of a TCP socket. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// Most connections at a time, over both endpoints. Default 100.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// A client that has not finished its handshake after this long is dropped. Default `10s`.
    #[serde(with = "duration", default = "default_handshake")]
    pub handshake: Duration,
    /// Bytes in flight one connection may hold, in bytes: it is read no further until it takes its
    /// replies. At least the largest request, 32 MiB. Default `64M`.
    #[serde(with = "size", default = "default_in_flight")]
    pub in_flight: u64,
}

impl Nbd {
    /// Smallest allowed `in_flight`: a request of the largest size must fit.
    pub const IN_FLIGHT_MIN: u64 = 32 << 20;

    /// The TCP address if it is not one of the machine alone: whoever reaches it needs no leave.
    #[must_use]
    pub fn open_to_others(&self) -> Option<&str> {
        let address = self.tcp.as_deref()?;
        (!is_loopback(address)).then_some(address)
    }
}

impl Default for Nbd {
    fn default() -> Self {
        Self {
            unix: None,
            tcp: None,
            connections: default_connections(),
            handshake: default_handshake(),
            in_flight: default_in_flight(),
        }
    }
}

fn default_connections() -> u32 {
    100
}

fn default_handshake() -> Duration {
    Duration::from_secs(10)
}

fn default_in_flight() -> u64 {
    64 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machine_itself_reaches_its_loopback() {
        let open = |tcp: &str| {
            Nbd { tcp: Some(tcp.into()), ..Nbd::default() }.open_to_others().map(ToOwned::to_owned)
        };
        for tcp in ["127.0.0.1:10809", "[::1]:10809", "localhost:10809"] {
            assert_eq!(open(tcp), None);
        }
        for tcp in ["0.0.0.0:10809", "[::]:10809", "10.0.0.1:10809", "n1.lan:10809"] {
            assert_eq!(open(tcp).as_deref(), Some(tcp));
        }
        assert_eq!(Nbd::default().open_to_others(), None);
    }
}
