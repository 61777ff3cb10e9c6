//! What a daemon says about itself and about the volumes it knows.

use cards_config::{Coherence, Limit, Mode, PolicySpec, ReadAhead, replacement};
use cards_policies::Replacement;
use serde::{Deserialize, Serialize};

use super::{
    Auto, Counters, DiskCounters, Io, Mirror, Refusal, RefusalKind, Registry, ScrubState, SlowRequests,
    Starting, Striped,
};

/// Everything about one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of this node.
    pub node: String,
    /// What keeps the list of members; none if the node is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<String>,
    /// Which nodes keep it; none if the node is alone, with etcd, or before it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    /// The version of the list of members that this node knows; zero if the node is alone.
    #[serde(default)]
    pub epoch: u64,
    /// Version of the daemon.
    pub version: String,
    /// Nodes prove to each other who they are, and encrypt what they say.
    #[serde(default)]
    pub secure: bool,
    /// The keys of the addresses where other machines may connect without TLS: `nbd.tcp`, `api.listen`, `web.listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_clear: Vec<String>,
    /// When this node's certificate ends: seconds since 1970 (UTC). None without one, or if nobody believes it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends_s: Option<u64>,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// When this was counted, by the node's clock: milliseconds since 1970 (UTC).
    #[serde(default)]
    pub time_ms: u64,
    /// Address and port of the web listener: the dashboard is at `http://` + this, or `https://` where TLS is required.
    /// None if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// The unix socket of its NBD server, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<std::path::PathBuf>,
    /// The most that clients of this node may have of all its cards together; none if that is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The daemon does not serve yet, and this is why; the rest of the status is empty then. None once it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<Starting>,
    /// All members are up and all attached volumes are ready.
    pub healthy: bool,
    /// If not: what is wrong and what to do, one sentence each, the most harmful first.
    pub problems: Vec<String>,
    /// Of these, what has failed in the last minutes, by disk or volume and cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// All members, in the order of their numbers; this node too.
    pub members: Vec<Member>,
    /// All volumes of the cluster this node knows.
    pub volumes: Vec<Volume>,
    /// This node's cache.
    pub cache: Cache,
    /// How this node's disks are read.
    pub disk_engine: DiskEngine,
    /// What this node counted.
    pub counters: Counters,
    /// Requests of its clients that took long: the last and the slowest few.
    #[serde(default)]
    pub slow: SlowRequests,
    /// Volumes of which a flush has failed here because writes were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Lost>,
    /// The disks this node contributes.
    pub disks: Vec<Disk>,
}

impl Status {
    /// The answer of a daemon that does not serve yet to every request but [`Status`](super::Request::Status).
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.starting.as_ref()?;
        Some(Refusal { kind: RefusalKind::Starting, message: self.headline() })
    }
}

/// One member, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Address of its peer port.
    pub address: String,
    /// Whether this node can talk to it.
    pub state: MemberState,
    /// Why not, if it is known: refused by name, or the last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For how long it has said nothing although it should, in milliseconds: a suspicion while it is [`MemberState::Up`], and
    /// certain when it is [`MemberState::Down`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// How what the two nodes say to each other is kept from others; none without a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Bytes sent to it since this node started.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes received from it since this node started.
    #[serde(default)]
    pub bytes_received: u64,
    /// Blocks and frames from it that were not as it had sent them, since this node started.
    #[serde(default)]
    pub checksum_errors: u64,
}

/// How what two nodes say to each other is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// TLS 1.3, by the kernel.
    Kernel,
    /// TLS 1.3, by the daemon: the kernel had no TLS when they connected.
    Daemon,
    /// Not at all.
    None,
}

impl From<cards_tls::Encryption> for Encryption {
    fn from(encryption: cards_tls::Encryption) -> Self {
        match encryption {
            cards_tls::Encryption::None => Self::None,
            cards_tls::Encryption::Daemon => Self::Daemon,
            cards_tls::Encryption::Kernel => Self::Kernel,
        }
    }
}

/// Whether this node can talk to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// This node itself.
    Here,
    /// Connected.
    Up,
    /// Not yet connected.
    Connecting,
    /// It was connected, did not answer in time, or is connected and silent.
    Down,
    /// Of another cluster or version, or another size of blocks.
    Refused,
    /// Declared dead by the coordinator.
    Dead,
    /// It has left the cluster.
    Left,
}

/// One volume of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The node that has the disk; none while nobody has announced it.
    pub disk_node: Option<String>,
    /// Its size, in bytes; 0 while unknown, which is null in JSON.
    #[serde(with = "zero_as_null")]
    pub size: u64,
    /// The unit of caching, in bytes; 0 while unknown, which is null in JSON.
    #[serde(with = "zero_as_null")]
    pub block: u32,
    /// Its policy; none while unknown.
    pub policy: Option<PolicySpec>,
    /// What `auto` does for it, if that is its policy: `policy` is then what it has in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<Auto>,
    /// How readers are kept from old contents; none while unknown.
    pub coherence: Option<Coherence>,
    /// Nobody can write it; none while unknown.
    pub read_only: Option<bool>,
    /// Whether clients can be served here.
    pub state: VolumeState,
    /// Why not, if so; of a ready one, what is still to come after a restart of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The card here, if it is attached.
    pub attached: Option<Card>,
    /// Its blocks in this node's cache.
    pub cached_blocks: u64,
    /// What clients of this node have asked of it.
    #[serde(default)]
    pub io: Io,
    /// Its copies, if it is one group on managed disks of several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Box<Mirror>>,
    /// Its parts, if it is shared among several groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub striped: Option<Box<Striped>>,
    /// When it is scrubbed by itself, if it has checksums, as far as this node knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubState>,
}

impl Volume {
    /// Whether it is on managed disks of several nodes.
    #[must_use]
    pub const fn is_over_nodes(&self) -> bool {
        self.mirror.is_some() || self.striped.is_some()
    }
}

/// Whether clients can be served from a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeState {
    /// The disk node answers.
    Ready,
    /// The disk node has not announced it yet.
    Waiting,
    /// The disk node, or the disk, does not answer; cached blocks are served.
    Offline,
    /// The disk node does not let it be attached so.
    Refused,
}

/// The last flush of a volume that failed at this node because writes were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The volume.
    pub volume: String,
    /// The node that has the disk.
    pub disk_node: String,
    /// When, by this node's clock: milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Why: `a sync failed`, or `the machine lost power, or the journal of the disk was lost`; of a volume with copies, that all in sync ended at once.
    pub reason: String,
}

/// The attachment of a volume at this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// What its clients may do: of a read-only volume they read, whatever was asked for.
    pub mode: Mode,
    /// How far sequential reads run ahead.
    pub read_ahead: ReadAhead,
    /// NBD clients that use it now.
    pub clients: u32,
    /// The most that they may have of it; none if that is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The local device that it is here, with its (major, minor) (CARDs, section 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<super::Device>,
}

/// A node's cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// Memory for data, in bytes.
    pub bytes: u64,
    /// Slots of the smallest block in use, or of 4 KiB while no volume is known.
    pub blocks: u64,
    /// Bytes of data that are cached.
    pub used: u64,
    /// Of these, bytes of pinned blocks.
    #[serde(default)]
    pub pinned: u64,
    /// Memory for what is known of blocks, in bytes: those in the cache, hints to those of other nodes, and of the volumes of
    /// this node who holds locks. The latter two do not grow with the cache.
    pub index_bytes: u64,
    /// Which block leaves.
    #[serde(with = "replacement")]
    pub replacement: Replacement,
}

/// How a node's disks are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskEngine {
    /// Chosen at start.
    pub kind: DiskEngineKind,
    /// Why: what the kernel answered.
    pub reason: String,
}

/// The ways to read disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskEngineKind {
    /// One ring per data thread.
    IoUring,
    /// A pool of threads with `pread` and `pwrite`.
    Threads,
    /// This node contributes no disk.
    None,
}

impl DiskEngineKind {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
            Self::None => "none",
        }
    }
}

/// A disk this node contributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Its path, or where its server has it, without what may be secret; empty if the daemon is of a release that does not say.
    #[serde(default)]
    pub origin: String,
    /// The managed disk that it is a volume of, or has a copy on, as it was formatted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<String>,
    /// Errors that it has reported since the daemon started.
    #[serde(default)]
    pub errors: u64,
    /// Bytes of it that are known not to be what was written there, by checksums: found by reads and scrubs of this daemon, and not
    /// written since.
    #[serde(default)]
    pub damaged: u64,
    /// The room for what was never written, if the disk is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
    /// What it was asked for.
    #[serde(flatten)]
    pub counters: DiskCounters,
}

/// What a disk that is a file still needs of its file system, and what is left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes of the disk that have no place on the file system yet: never written, or trimmed.
    pub unwritten: u64,
    /// Bytes that the daemon can still write there.
    pub free: u64,
}

/// A number that is never 0, if it is known.
mod zero_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<N, S>(number: &N, serializer: S) -> Result<S::Ok, S::Error>
    where
        N: Serialize + Default + PartialEq,
        S: Serializer,
    {
        Some(number).filter(|&number| *number != N::default()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, N, D>(deserializer: D) -> Result<N, D::Error>
    where
        N: Deserialize<'de> + Default,
        D: Deserializer<'de>,
    {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }
}
