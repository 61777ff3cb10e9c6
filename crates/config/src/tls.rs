//! Whether those who connect over TCP speak TLS.

use serde::{Deserialize, Serialize};

use super::uri::is_loopback;

/// Whether those who connect to an address speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// They must.
    Required,
    /// They can.
    Offered,
    /// They cannot: whoever is in between reads and changes what is said.
    Off,
}

/// An address where others than nodes connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener<'a> {
    /// Its key in the configuration.
    pub key: &'static str,
    /// The address, with its port.
    pub address: &'a str,
    /// Whether they speak TLS. On this machine they can, if there is something to show them.
    pub tls: Tls,
    /// The configuration says so.
    pub is_said: bool,
}

impl<'a> Listener<'a> {
    /// What is said of it, or else what holds: other machines must, unless the whole cluster does without.
    pub(super) fn new(key: &'static str, address: &'a str, said: Option<Tls>, insecure: bool) -> Self {
        let tls = match said {
            Some(tls) => tls,
            None if insecure => Tls::Off,
            None if is_loopback(address) => Tls::Offered,
            None => Tls::Required,
        };
        Self { key, address, tls, is_said: said.is_some() }
    }

    /// This node needs something to show to whoever connects.
    #[must_use]
    pub fn needs_identity(&self) -> bool {
        self.tls == Tls::Required || self.tls == Tls::Offered && self.is_said
    }

    /// Other machines can connect, and need not encrypt what they say.
    #[must_use]
    pub fn is_in_clear(&self) -> bool {
        self.tls != Tls::Required && !is_loopback(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_must_unless_somebody_says_otherwise() {
        let tls = |address, said, insecure| Listener::new("nbd.tcp", address, said, insecure).tls;
        for address in ["0.0.0.0:10809", "[::]:10809", "10.0.0.1:10809", "n1.lan:10809"] {
            assert_eq!(tls(address, None, false), Tls::Required);
            assert_eq!(tls(address, None, true), Tls::Off);
            assert_eq!(tls(address, Some(Tls::Off), false), Tls::Off);
            assert!(Listener::new("nbd.tcp", address, Some(Tls::Offered), false).is_in_clear());
        }
        for address in ["127.0.0.1:10809", "[::1]:10809", "localhost:10809"] {
            assert_eq!(tls(address, None, false), Tls::Offered);
            let listener = Listener::new("nbd.tcp", address, None, false);
            assert!(!listener.needs_identity() && !listener.is_in_clear());
            assert!(Listener::new("nbd.tcp", address, Some(Tls::Offered), false).needs_identity());
        }
    }
}
