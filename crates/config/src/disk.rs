//! Disks a node contributes.

use std::path::PathBuf;
use std::time::Duration;

use cards_wire::nbd::client::Uri;
use serde::{Deserialize, Serialize};

use super::{Allow, PolicySpec, duration, size, uri};

/// One disk this node contributes; the volume on it has the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "DiskToml", into = "DiskToml")]
pub struct Disk {
    /// Name of the disk and of the volume, unique in the cluster.
    pub name: String,
    /// Where its bytes are: `path` or `uri`.
    pub origin: Origin,
    /// The policy of the volume. Default `hscc`.
    pub policy: PolicySpec,
    /// Nobody may write it. Default false.
    pub read_only: bool,
    /// Which nodes may attach it, and how, beside this one. Default: all, in all modes.
    pub allow: Option<Allow>,
    /// Opened with `O_DIRECT`, past the page cache of this machine. Default false.
    pub direct: bool,
    /// Whether this node keeps copies of what others read. Default `computer`.
    pub attached: Attached,
    /// How readers are kept from old contents. Default `confirmed`.
    pub coherence: Coherence,
    /// Where a node reads what another one has written. Default `cache`.
    pub handover: Handover,
    /// How requests of other nodes are answered. Default `event`.
    pub delivery: Delivery,
    /// Most reads and writes at the disk at a time; those beyond wait here, where the nodes whose they are take turns.
    /// Default 64.
    pub depth: usize,
    /// Modelled slow disk: added to each read. Default `0ms`.
    pub delay: Duration,
    /// Modelled slow disk: bytes per second; 0 is no limit. Default 0.
    pub rate: u64,
    /// Faults to inject, for tests, in the language of `cards_disk`. No key of the file.
    #[doc(hidden)]
    pub fault: Option<String>,
}

/// Where the bytes of a disk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file or block device of this machine.
    Path(PathBuf),
    /// The export of any NBD server.
    Nbd(Uri),
}

/// Exclusive caching (remote disk drivers, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attached {
    /// Computer-attached: the disk node keeps a copy of what it reads for others.
    #[default]
    Computer,
    /// Network-attached: the requester has the single copy.
    Network,
}

impl Attached {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computer => "computer",
            Self::Network => "network",
        }
    }
}

/// What readers of a volume are promised when somebody writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coherence {
    /// What is complete is seen by everybody: copies are gone before a write reaches the disk.
    #[default]
    Confirmed,
    /// The weaker promise of the CARDs paper (section 3): the policy has copies dropped after the write, and nobody waits
    /// for that.
    Policy,
}

impl Coherence {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Policy => "policy",
        }
    }
}

impl From<Coherence> for cards_core::Coherence {
    fn from(coherence: Coherence) -> Self {
        match coherence {
            Coherence::Confirmed => Self::Confirmed,
            Coherence::Policy => Self::Policy,
        }
    }
}

impl From<cards_core::Coherence> for Coherence {
    fn from(coherence: cards_core::Coherence) -> Self {
        match coherence {
            cards_core::Coherence::Confirmed => Self::Confirmed,
            cards_core::Coherence::Policy => Self::Policy,
        }
    }
}

/// How a block gets from the node that has written it to those that read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handover {
    /// Out of the writer's memory: nodes keep the blocks they have written whole.
    #[default]
    Cache,
    /// From the disk, unless the disk node has a copy. For volumes whose writers would keep what nobody reads.
    Disk,
}

impl Handover {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Disk => "disk",
        }
    }
}

impl From<Handover> for cards_core::Handover {
    fn from(handover: Handover) -> Self {
        match handover {
            Handover::Cache => Self::Cache,
            Handover::Disk => Self::Disk,
        }
    }
}

/// How the disk node gets from a request to its answer (remote disk drivers, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The completion of the disk sends the answer.
    #[default]
    Event,
    /// A thread per request waits for the disk.
    Thread,
    /// The receiver waits for the disk, one request after the other.
    Sync,
}

impl Delivery {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Thread => "thread",
            Self::Sync => "sync",
        }
    }
}

impl Disk {
    /// Requests at a disk at a time, unless the file says otherwise.
    pub const DEPTH: usize = 64;
    /// Those that can be asked for.
    pub const DEPTHS: std::ops::RangeInclusive<usize> = 1..=1024;

    /// The disk `name` at `origin` with the default of every other key.
    #[must_use]
    pub fn new(name: &str, origin: Origin) -> Self {
        Self {
            name: name.into(),
            origin,
            policy: PolicySpec::default(),
            read_only: false,
            allow: None,
            direct: false,
            attached: Attached::default(),
            coherence: Coherence::default(),
            handover: Handover::default(),
            delivery: Delivery::default(),
            depth: Self::DEPTH,
            delay: Duration::ZERO,
            rate: 0,
            fault: None,
        }
    }
}

const fn default_depth() -> usize {
    Disk::DEPTH
}

/// A disk as written: `path` and `uri` exclude each other.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskToml {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(with = "uri", skip_serializing_if = "Option::is_none", default)]
    uri: Option<Uri>,
    #[serde(default)]
    policy: PolicySpec,
    #[serde(default)]
    read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<Allow>,
    #[serde(default)]
    direct: bool,
    #[serde(default)]
    attached: Attached,
    #[serde(default)]
    coherence: Coherence,
    #[serde(default)]
    handover: Handover,
    #[serde(default)]
    delivery: Delivery,
    #[serde(default = "default_depth")]
    depth: usize,
    #[serde(with = "duration", default)]
    delay: Duration,
    #[serde(with = "size", default)]
    rate: u64,
}

/// A disk does not say, in one way, where its bytes are.
#[derive(Debug, thiserror::Error)]
enum OriginError {
    #[error("disk {0:?} has both path and uri; keep the one that is meant")]
    Both(String),
    #[error("disk {0:?} has neither path nor uri; add path = \"/dev/…\" or uri = \"nbd://host:port/export\"")]
    Neither(String),
}

impl TryFrom<DiskToml> for Disk {
    type Error = OriginError;

    fn try_from(raw: DiskToml) -> Result<Self, OriginError> {
        let origin = match (raw.path, raw.uri) {
            (Some(path), None) => Origin::Path(path),
            (None, Some(uri)) => Origin::Nbd(uri),
            (Some(_), Some(_)) => return Err(OriginError::Both(raw.name)),
            (None, None) => return Err(OriginError::Neither(raw.name)),
        };
        Ok(Self {
            name: raw.name,
            origin,
            policy: raw.policy,
            read_only: raw.read_only,
            allow: raw.allow,
            direct: raw.direct,
            attached: raw.attached,
            coherence: raw.coherence,
            handover: raw.handover,
            delivery: raw.delivery,
            depth: raw.depth,
            delay: raw.delay,
            rate: raw.rate,
            fault: None,
        })
    }
}

impl From<Disk> for DiskToml {
    fn from(disk: Disk) -> Self {
        let (path, uri) = match disk.origin {
            Origin::Path(path) => (Some(path), None),
            Origin::Nbd(uri) => (None, Some(uri)),
        };
        Self {
            name: disk.name,
            path,
            uri,
            policy: disk.policy,
            read_only: disk.read_only,
            allow: disk.allow,
            direct: disk.direct,
            attached: disk.attached,
            coherence: disk.coherence,
            handover: disk.handover,
            delivery: disk.delivery,
            depth: disk.depth,
            delay: disk.delay,
            rate: disk.rate,
        }
    }
}
