//! The daemon of this node: what it has is not taken by another program.

use std::io;
use std::path::Path;
use std::time::Duration;

use cards_admin::{Client, ClientError, Member, MemberState, Starting, Status};
use cards_config::{Config, Origin};

use super::finding::Finding;

const CHECK: &str = "daemon";
/// What to do where this user may not look.
pub(super) const AS_ROOT: &str = "run this as root or as the daemon's user (sudo)";

pub(super) enum Daemon {
    Away,
    Starting(Starting),
    Runs(Box<Status>),
    /// It has its socket, and does not answer.
    Silent(String),
    /// Whether it runs is not for this user to see, as this says.
    Hidden(String),
    /// At the socket that was named is one of another node, as this says.
    Other(String),
}

impl Daemon {
    /// That of a configuration, whose admin socket may be elsewhere.
    pub(super) fn of(config: &Config, socket: Option<&Path>) -> Self {
        match (
            Self::at(socket.unwrap_or(&config.admin_socket()), Some((&config.cluster, &config.node))),
            socket,
        ) {
            (Self::Other(_), None) => Self::Away,
            (found, _) => found,
        }
    }

    /// That of an admin socket. `whose`: cluster and node that it is to be of.
    pub(super) fn at(socket: &Path, whose: Option<(&str, &str)>) -> Self {
        let status = Client::connect_within(socket, Duration::from_millis(300))
            .and_then(|mut client| client.status_of_start());
        let is_other = |status: &Status| whose.is_some_and(|whose| whose != (&status.cluster, &status.node));
        match status {
            Ok(status) if is_other(&status) => Self::Other(format!(
                "the daemon at {} is node {} of cluster {}, of which this is not the configuration",
                socket.display(),
                status.node,
                status.cluster
            )),
            Ok(mut status) => match status.starting.take() {
                Some(starting) => Self::Starting(starting),
                None => Self::Runs(Box::new(status)),
            },
            Err(error @ ClientError::Io { .. }) => Self::Silent(error.to_string()),
            Err(ClientError::Connect { path, source })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Self::Hidden(format!("{}: {source}: whether it runs is not seen", path.display()))
            }
            Err(_) => Self::Away,
        }
    }

    /// It has the ports and disks of this node.
    pub(super) const fn is_there(&self) -> bool {
        !matches!(self, Self::Away | Self::Hidden(_) | Self::Other(_))
    }

    /// It may have the ports and disks of this node.
    pub(super) const fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden(_))
    }

    /// It serves: a disk of this node that it does not have was named after its start.
    pub(super) const fn runs(&self) -> bool {
        matches!(self, Self::Runs(_))
    }

    /// The node that leads the registry, as far as it knows.
    pub(super) fn registry_leader(&self) -> Option<&str> {
        let Self::Runs(status) = self else { return None };
        status.registry.as_ref()?.leader.as_deref()
    }

    /// If it knows the members and a node is none of them, perhaps since it was forgotten: one that is up in its place, with its address.
    pub(super) fn stands_for(&self, node: &str) -> Option<(&str, &str)> {
        let Self::Runs(status) = self else { return None };
        if status.members.iter().any(|member| member.name == node) {
            return None;
        }
        let is_up = |member: &&Member| matches!(member.state, MemberState::Here | MemberState::Up);
        // The one that leads knows best.
        let leads = |member: &&Member| self.registry_leader() == Some(&member.name);
        let mut up = status.members.iter().filter(is_up);
        let found = up.clone().find(leads).or_else(|| up.next())?;
        Some((&found.name, &found.address))
    }

    /// The bytes of a disk of this node, as it is served.
    pub(super) fn size(&self, disk: &str) -> Option<u64> {
        let Self::Runs(status) = self else { return None };
        let volume = status.volumes.iter().find(|volume| volume.name == disk)?;
        (volume.disk_node.as_deref() == Some(&status.node)).then_some(volume.size)
    }

    /// The first of these names that the cluster knows as a volume of another node, or of several: the daemon does not start beside it. And where
    /// that is.
    pub(super) fn elsewhere<'a>(
        &self,
        mut volumes: impl Iterator<Item = &'a str>,
    ) -> Option<(&'a str, String)> {
        let Self::Runs(status) = self else { return None };
        volumes.find_map(|volume| Some((volume, elsewhere(status, volume)?)))
    }

    pub(super) fn findings(&self, config: &Config) -> Vec<Finding> {
        match self {
            Self::Away => vec![Finding::ok(CHECK, "does not run")],
            Self::Runs(status) => {
                let found =
                    problems(status).chain(in_the_way(status, config)).chain(not_taken(status, config));
                or_well(found, "runs with the disks and cards of this configuration")
            }
            Self::Silent(_) | Self::Starting(_) | Self::Hidden(_) | Self::Other(_) => self.not_seen(),
        }
    }

    /// What is said of the daemon of a socket that was named, without a configuration.
    pub(super) fn findings_at(&self, socket: &Path) -> Vec<Finding> {
        match self {
            Self::Away => vec![Finding::problem(
                CHECK,
                format!("no daemon is at {}", socket.display()),
                "start it, or name the admin.sock in its runtime_dir with --socket",
            )],
            Self::Runs(status) => {
                or_well(problems(status), &format!("node {} of cluster {} runs", status.node, status.cluster))
            }
            Self::Silent(_) | Self::Starting(_) | Self::Hidden(_) | Self::Other(_) => self.not_seen(),
        }
    }

    fn not_seen(&self) -> Vec<Finding> {
        match self {
            Self::Away | Self::Runs(_) => Vec::new(),
            Self::Silent(said) => {
                vec![Finding::problem(CHECK, said.as_str(), "leave it running until that is known")]
            }
            Self::Starting(starting) => {
                vec![Finding::warning(CHECK, starting.to_string(), "it goes on when that is there")]
            }
            Self::Hidden(said) => vec![Finding::warning(CHECK, said.as_str(), AS_ROOT)],
            Self::Other(said) => vec![Finding::problem(
                CHECK,
                said.as_str(),
                "name the configuration of that node with --config, or the socket of this one",
            )],
        }
    }
}

fn problems(status: &Status) -> impl Iterator<Item = Finding> {
    status
        .problems
        .iter()
        .map(|problem| Finding::warning(CHECK, problem.as_str(), "`cards status` says when it is over"))
}

/// These findings, or that all is well.
fn or_well(found: impl Iterator<Item = Finding>, well: &str) -> Vec<Finding> {
    let mut found: Vec<_> = found.collect();
    if found.is_empty() {
        found.push(Finding::ok(CHECK, well));
    }
    found
}

/// Where the cluster has a volume of this name, if that is not at this node alone.
fn elsewhere(status: &Status, volume: &str) -> Option<String> {
    let known = status.volumes.iter().find(|known| known.name == volume)?;
    if known.is_over_nodes() {
        return Some("managed disks of several nodes".into());
    }
    let node = known.disk_node.as_ref().filter(|node| **node != status.node)?;
    Some(format!("a disk of node {node}"))
}

/// Plain disks that were added to the configuration under the name of another node's volume.
fn in_the_way<'a>(status: &'a Status, config: &'a Config) -> impl Iterator<Item = Finding> + 'a {
    let plain = config.disks.iter().filter(|disk| !matches!(disk.origin, Origin::Managed(_)));
    plain.filter_map(|disk| {
        let place = elsewhere(status, &disk.name)?;
        let says = format!(
            "disk {}: the cluster has a volume of this name, on {place}, so that the daemon does not start again with this disk",
            disk.name
        );
        Some(Finding::problem(CHECK, says, "give the disk another `name` in [[disk]], or take it out, before a restart"))
    })
}

/// What the configuration has by now and the daemon, which was started before, has not.
fn not_taken(status: &Status, config: &Config) -> Option<Finding> {
    // Of managed disks it tells the volumes only; their check sees whether another process has them.
    let has = |disk: &cards_config::Disk| {
        matches!(disk.origin, Origin::Managed(_)) || status.disks.iter().any(|known| known.name == disk.name)
    };
    let has_card =
        |volume: &str| status.volumes.iter().any(|known| known.name == volume && known.attached.is_some());
    let disks = config
        .disks
        .iter()
        .filter(|disk| !has(disk) && elsewhere(status, &disk.name).is_none())
        .map(|disk| format!("disk {}", disk.name));
    let cards = config.attach.iter().filter(|card| !has_card(&card.volume));
    let missing: Vec<_> = disks.chain(cards.map(|card| format!("[[attach]] {}", card.volume))).collect();
    (!missing.is_empty()).then(|| {
        Finding::warning(
            CHECK,
            format!("runs without what this configuration has by now: {}", missing.join(", ")),
            "restart it",
        )
    })
}
