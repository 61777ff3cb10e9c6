//! The daemon of this node: what it has is not taken by another program.

use std::time::Duration;

use cards_admin::{Client, ClientError, Starting, Status};
use cards_config::{Config, Origin};

use super::finding::Finding;

const CHECK: &str = "daemon";

pub(super) enum Daemon {
    Away,
    Starting(Starting),
    Runs(Box<Status>),
    /// It has its socket, and does not answer.
    Silent(String),
}

impl Daemon {
    pub(super) fn of(config: &Config) -> Self {
        let status = Client::connect_within(&config.admin_socket(), Duration::from_millis(300))
            .and_then(|mut client| client.status_of_start());
        match status {
            Ok(status) if status.node != config.node || status.cluster != config.cluster => Self::Away,
            Ok(mut status) => match status.starting.take() {
                Some(starting) => Self::Starting(starting),
                None => Self::Runs(Box::new(status)),
            },
            Err(error @ ClientError::Io { .. }) => Self::Silent(error.to_string()),
            Err(_) => Self::Away,
        }
    }

    /// It has the ports and disks of this node.
    pub(super) const fn is_there(&self) -> bool {
        !matches!(self, Self::Away)
    }

    /// It serves: a disk of this node that it does not have was named after its start.
    pub(super) const fn runs(&self) -> bool {
        matches!(self, Self::Runs(_))
    }

    /// The bytes of a disk of this node, as it is served.
    pub(super) fn size(&self, disk: &str) -> Option<u64> {
        let Self::Runs(status) = self else { return None };
        let volume = status.volumes.iter().find(|volume| volume.name == disk)?;
        (volume.disk_node.as_deref() == Some(&status.node)).then_some(volume.size)
    }

    pub(super) fn findings(&self, config: &Config) -> Vec<Finding> {
        match self {
            Self::Away => vec![Finding::ok(CHECK, "does not run")],
            Self::Runs(status) => {
                let problems = status.problems.iter().map(|problem| {
                    Finding::warning(CHECK, problem.as_str(), "`cards status` says when it is over")
                });
                let mut found: Vec<_> = problems.chain(not_taken(status, config)).collect();
                if found.is_empty() {
                    found.push(Finding::ok(CHECK, "runs with the disks and cards of this configuration"));
                }
                found
            }
            Self::Silent(said) => {
                vec![Finding::problem(CHECK, said.as_str(), "leave it running until that is known")]
            }
            Self::Starting(starting) => {
                vec![Finding::warning(CHECK, starting.to_string(), "it goes on when that is there")]
            }
        }
    }
}

/// What the configuration has by now and the daemon, which was started before, has not.
fn not_taken(status: &Status, config: &Config) -> Option<Finding> {
    // Of managed disks it tells the volumes only; their check sees whether another process has them.
    let has = |disk: &cards_config::Disk| {
        matches!(disk.origin, Origin::Managed(_)) || status.disks.iter().any(|known| known.name == disk.name)
    };
    let has_card =
        |volume: &str| status.volumes.iter().any(|known| known.name == volume && known.attached.is_some());
    let disks = config.disks.iter().filter(|disk| !has(disk)).map(|disk| format!("disk {}", disk.name));
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
