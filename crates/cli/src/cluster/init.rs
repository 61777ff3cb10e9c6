//! `cards cluster init`: the authority of a new cluster, and the identity of its first node.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::{Config, Coordinator, EmbeddedHome, duration};
use cards_tls::{Authority, Files};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::output;
use crate::this_machine::{self, identity_dir, with_state_dir};

/// Make the authority of a new cluster here, and this node's identity
///
/// The authority signs for each node who it is; nodes believe nobody else. This node is to keep the registry: it signs for
/// machines that join with a token. Whoever has authority.key can be any node: keep a copy where it is safe.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards cluster init lab
  cards cluster init lab --host 10.0.0.1 --host store1.lan
  cards cluster init lab --node n1 --state-dir /srv/cards --json")]
pub(crate) struct Init {
    /// Name of the cluster
    cluster: String,

    /// Name of this node [default: the machine's]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// A name or an address by which clients over TLS will call this machine; any number of times [default: the
    /// machine's name]
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,

    /// How long certificates of nodes are believed, of this one and of those that it signs for: s, m or h. Nodes renew them when
    /// two thirds are over; some seconds are for tests
    #[arg(long, value_name = "TIME", default_value = "8760h", value_parser = duration::parse)]
    ttl: Duration,

    /// Directory of what the node must not forget
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cards")]
    state_dir: PathBuf,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// The shortest life of a certificate that can be renewed in time.
const TTL_MIN: Duration = Duration::from_secs(3);
/// The longest.
const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What `--json` prints.
#[derive(Serialize)]
struct Made<'a> {
    cluster: &'a str,
    node: &'a str,
    /// The directory of the authority.
    authority: &'a Path,
    /// The directory of this node's identity.
    identity: &'a Path,
    /// SHA-256 of the authority's certificate.
    fingerprint: String,
}

impl Init {
    pub(crate) fn run(self) -> Result<(), Error> {
        let node = match &self.node {
            Some(node) => node.clone(),
            None => this_machine::name()?,
        };
        check(&self.cluster, &node)?;
        let hosts = self.hosts()?;
        if self.ttl < TTL_MIN || self.ttl > TTL_MAX {
            return Err(Error::Usage { problem: "--ttl: use 3s to 87600h".into() });
        }
        let (authority_dir, identity) = (self.state_dir.join("authority"), identity_dir(&self.state_dir));
        if is_filled(&authority_dir) {
            return Err(Error::Usage {
                problem: format!(
                    "{} is there already: a cluster's authority is kept here; `cards cluster token` makes tokens for it. For a \
                     new cluster remove it and {}: then the old one's nodes can have nobody join any more",
                    authority_dir.display(),
                    identity.display()
                ),
            });
        }
        if is_filled(&identity) {
            return Err(Error::Usage {
                problem: format!(
                    "{} is there already: this machine is a node of a cluster; remove it if it is not to be that any more, or \
                     name another --state-dir",
                    identity.display()
                ),
            });
        }
        let authority = Authority::create(&self.cluster)?;
        cards_tls::place(&authority_dir, |dir| {
            authority.save(&dir.join("authority.pem"), &dir.join("authority.key"))
        })?;
        let equipped = cards_tls::place(&identity, |dir| {
            authority.equip_for(&node, &hosts, &Files::within(dir), self.ttl)
        });
        if let Err(error) = equipped {
            // Nobody has seen it yet: what was wrong can be corrected on the same command line.
            let _ = fs::remove_dir_all(&authority_dir);
            return Err(error.into());
        }
        let fingerprint = authority.fingerprint().to_string();
        if self.json {
            return output::print_json(&Made {
                cluster: &self.cluster,
                node: &node,
                authority: &authority_dir,
                identity: &identity,
                fingerprint,
            });
        }
        let (cluster, key) = (&self.cluster, authority_dir.join("authority.key"));
        let state = with_state_dir(&self.state_dir);
        output::print(&format!(
            "The authority of cluster {cluster}: {}\nThis machine is node {node}: {}\n\nKeep a copy of {} where it is safe: \
             whoever has it can be any node.\nNext, here, with an address that the other machines reach:\n  \
             cards join {cluster} --coordinator {node}@HOST:7400 --node {node}{state}\nThen for each other \
             machine a token, to join with there:\n  cards cluster token{state}\n",
            authority_dir.display(),
            identity.display(),
            key.display(),
        ))
    }
}

impl Init {
    /// As what this machine is known to clients that are no nodes.
    fn hosts(&self) -> Result<Vec<String>, Error> {
        if !self.host.is_empty() {
            self.host.iter().try_for_each(|host| cards_tls::check_host(host))?;
            return Ok(self.host.clone());
        }
        // Not every machine has a name that others can use: then there is only what every node has.
        Ok(this_machine::name().ok().filter(|name| cards_tls::check_host(name).is_ok()).into_iter().collect())
    }
}

/// Names that no configuration can have are refused before there is a certificate for them.
fn check(cluster: &str, node: &str) -> Result<(), Error> {
    let mut config = Config::new(cluster, node);
    config.address = Some("127.0.0.1:7400".into());
    config.coordinator = Some(Coordinator::Embedded(EmbeddedHome::new(node, "127.0.0.1:7400")));
    config.validate().map_err(|problem| Error::Usage { problem: problem.to_string() })?;
    cards_tls::Name::new(cluster, node).dns()?;
    Ok(())
}

fn is_filled(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut files| files.next().is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use crate::cli::Cli;

    fn init(dir: &std::path::Path, cluster: &str, node: &str) -> Result<(), String> {
        let dir = dir.display().to_string();
        let line = ["cards", "cluster", "init", cluster, "--node", node, "--state-dir", &dir, "--json"];
        Cli::try_parse_from(line).unwrap().run().map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn an_authority_is_made_once() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("state");
        for (cluster, node) in [("", "n1"), ("lab", ""), ("lab", "a/b"), ("lab", &"a".repeat(64))] {
            init(&dir, cluster, node).unwrap_err();
            assert!(!dir.exists(), "{cluster:?} {node:?}");
        }
        init(&dir, "lab", "n1").unwrap();
        for (file, mode) in [
            ("authority", 0o700),
            ("authority/authority.key", 0o600),
            ("authority/authority.pem", 0o644),
            ("identity", 0o700),
            ("identity/node.key", 0o600),
        ] {
            let is = std::fs::metadata(dir.join(file)).unwrap().permissions().mode() & 0o777;
            assert_eq!(is, mode, "{file}");
        }
        let refused = init(&dir, "lab", "n1").unwrap_err();
        assert!(refused.contains("authority is there already") && refused.contains("token"), "{refused}");
        std::fs::remove_dir_all(dir.join("authority")).unwrap();
        let refused = init(&dir, "lab", "n1").unwrap_err();
        assert!(refused.contains("identity is there already"), "{refused}");
        assert!(!dir.join("authority").exists());
    }
}
