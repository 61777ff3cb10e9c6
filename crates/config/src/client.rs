//! Which volumes a client over NBD and TLS may use.

use cards_tls::Client as Caller;
use serde::{Deserialize, Serialize};

use super::Config;

/// What a client may do. The cluster's clients are known by `name`, those of `nbd.authority` by `dns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// A client of the cluster, as `cards cluster client` has named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A client of `nbd.authority`, by a DNS name of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// The volumes. Default: all that are attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    /// `ro`: it only reads. Default `rw`: it may do what the attachment allows.
    #[serde(default)]
    pub mode: ClientMode,
}

/// What a client may do with a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientMode {
    /// Read.
    Ro,
    /// What the attachment allows.
    #[default]
    Rw,
}

impl Client {
    fn is(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Own(name) => self.name.as_ref() == Some(name),
            Caller::Other(names) => {
                self.dns.as_ref().is_some_and(|dns| names.iter().any(|name| name.eq_ignore_ascii_case(dns)))
            }
        }
    }

    fn has(&self, volume: &str) -> bool {
        self.volumes.as_ref().is_none_or(|volumes| volumes.iter().any(|name| name == volume))
    }
}

impl Config {
    /// What a client may do with a volume; none if nothing. Of several entries that fit, the first counts. Clients of the
    /// cluster may do everything while there is no entry at all; those of another authority never may without one.
    #[must_use]
    pub fn granted(&self, caller: &Caller, volume: &str) -> Option<ClientMode> {
        if self.clients.is_empty() && matches!(caller, Caller::Own(_)) {
            return Some(ClientMode::Rw);
        }
        let fits = |entry: &&Client| entry.is(caller) && entry.has(volume);
        self.clients.iter().find(fits).map(|entry| entry.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, volumes: Option<&[&str]>, mode: ClientMode) -> Client {
        let volumes = volumes.map(|volumes| volumes.iter().map(ToString::to_string).collect());
        Client { name: Some(name.into()), dns: None, volumes, mode }
    }

    #[test]
    fn clients_have_what_is_said_and_no_more() {
        let (own, other) =
            (|name: &str| Caller::Own(name.into()), |dns: &str| Caller::Other(vec![dns.into()]));
        let mut config = Config::new("lab", "n1");
        assert_eq!(config.granted(&own("anybody"), "disk"), Some(ClientMode::Rw));
        assert_eq!(config.granted(&other("n1.lab.cards"), "disk"), None);

        config.clients = vec![
            client("backup", Some(&["db"]), ClientMode::Rw),
            client("backup", None, ClientMode::Ro),
            client("app", Some(&["disk"]), ClientMode::Rw),
            client("none", Some(&[]), ClientMode::Rw),
        ];
        config.clients.push(Client {
            name: None,
            dns: Some("Far.example".into()),
            ..config.clients[2].clone()
        });
        assert_eq!(config.granted(&own("backup"), "db"), Some(ClientMode::Rw));
        assert_eq!(config.granted(&own("backup"), "disk"), Some(ClientMode::Ro));
        assert_eq!(config.granted(&own("app"), "disk"), Some(ClientMode::Rw));
        assert_eq!(config.granted(&own("app"), "db"), None);
        assert_eq!(config.granted(&own("none"), "db"), None);
        assert_eq!(config.granted(&own("anybody"), "disk"), None);
        assert_eq!(config.granted(&other("far.example"), "disk"), Some(ClientMode::Rw));
        // Names of one kind are not those of the other.
        assert_eq!(config.granted(&other("app"), "disk"), None);
        assert_eq!(config.granted(&own("Far.example"), "disk"), None);
    }
}
