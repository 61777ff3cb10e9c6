//! The hostile models of network, disks and computers, and the count of what they did.
//!
//! [`crate::options`] says which faults there are and which are not. In calm, nothing goes wrong, and things
//! take their time only.

mod disk;
mod host;
mod kernel;
mod network;
mod seen;
mod wire;

use std::collections::BTreeMap;

use cards_core::{Instant, NodeId, PgId};

use crate::efficiency::Traffic;
use crate::options::Options;
use crate::rng::Rng;

pub use seen::{Seen, Word};

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// A message was lost.
    Loss,
    /// A message was delivered twice.
    Duplicate,
    /// A message overtook another.
    Reorder,
    /// A message took far longer than others.
    Late,
    /// A payload broke off.
    Broken,
    /// A disk failed to read.
    ReadError,
    /// A disk failed to write.
    WriteError,
    /// A process died.
    Crash,
    /// A process with a disk died.
    DiskNodeCrash,
    /// A dead node came back.
    Restart,
    /// A node heard of a death late.
    LateNotice,
    /// A node never heard of a death.
    NoNotice,
    /// A disk took long.
    SlowDisk,
    /// Another node has become the primary of a volume.
    Move,
    /// A node stood still.
    Pause,
    /// A node stood still for longer than a lease.
    LongPause,
    /// A connection broke.
    Cut,
    /// A node died while a client there was writing.
    WriterCrash,
    /// A disk node died, and a node did not hear of its next incarnation for a while.
    Isolate,
    /// A message was lost because nothing arrived in its direction for a while.
    OneWay,
    /// A card has taken a volume for itself.
    Takeover,
    /// A member was declared dead while it was alive.
    DeclaredDead,
    /// A member gave its cards up and left.
    Leave,
    /// A node that was no member became one.
    Join,
    /// A node heard of the members late.
    LateView,
    /// No node heard of the members for a while.
    CoordinatorLoss,
    /// A clock ran at a rate of its own.
    Drift,
    /// A node came back without a proof that its last process had ended.
    Unproven,
    /// A kernel took long to let pages go.
    SlowWithdrawal,
    /// An answer that was to become a page was void when it came.
    VoidAnswer,
    /// A kernel had pages when its lease ran out.
    Lapse,
    /// A kernel had pages when its node's process had ended.
    Orphans,
    /// The machine of a disk lost its power, and what was written is gone.
    PowerLoss,
    /// A disk failed to sync.
    FailedSync,
    /// A card had as many commands under way as a small limit allows.
    SlotsFull,
    /// A node lived more often than a disk node with a small limit remembers.
    NodeLivesForgotten,
    /// A disk node lived more often than cards with a small limit remember.
    DiskNodeLivesForgotten,
    /// More blocks were written than a disk node with a small limit remembers the last writers of.
    WritersForgotten,
    /// More blocks were written in a life of a disk node than it remembers with a small limit.
    TouchedForgotten,
    /// A disk node revoked a lock, for with a small limit it remembers few.
    LockRevoked,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 39] = [
        Self::Loss,
        Self::Duplicate,
        Self::Reorder,
        Self::Late,
        Self::Broken,
        Self::ReadError,
        Self::WriteError,
        Self::Crash,
        Self::DiskNodeCrash,
        Self::Restart,
        Self::LateNotice,
        Self::NoNotice,
        Self::SlowDisk,
        Self::Pause,
        Self::LongPause,
        Self::Cut,
        Self::WriterCrash,
        Self::Isolate,
        Self::OneWay,
        Self::Takeover,
        Self::DeclaredDead,
        Self::Leave,
        Self::Join,
        Self::LateView,
        Self::CoordinatorLoss,
        Self::Drift,
        Self::Unproven,
        Self::SlowWithdrawal,
        Self::VoidAnswer,
        Self::Lapse,
        Self::Orphans,
        Self::PowerLoss,
        Self::FailedSync,
        Self::SlotsFull,
        Self::NodeLivesForgotten,
        Self::DiskNodeLivesForgotten,
        Self::WritersForgotten,
        Self::TouchedForgotten,
        Self::LockRevoked,
    ];
}

/// How often each fault was injected.
pub type Counts = BTreeMap<Fault, u64>;

/// The models.
#[derive(Debug)]
pub struct Faults {
    options: Options,
    network_rng: Rng,
    disk_rng: Rng,
    host_rng: Rng,
    kernel_rng: Rng,
    loss_rng: Rng,
    calm: bool,
    /// What was injected.
    pub counts: Counts,
    /// What was seen and not yet taken out, in order.
    pub seen: Vec<Seen>,
    /// When disks failed, in order.
    pub disk_errors: Vec<(Instant, PgId)>,
    /// What was sent.
    pub traffic: Traffic,
    /// Reads each volume's disk was asked for.
    pub disk_reads: BTreeMap<PgId, u64>,
    /// When the last message from one node to another arrives.
    last_arrival: BTreeMap<(NodeId, NodeId), Instant>,
    /// Until when nothing arrives that one node sends another.
    pub deaf_until: BTreeMap<(NodeId, NodeId), Instant>,
}

impl Faults {
    /// Models with the options' faults.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let mut faults = Self {
            network_rng: Rng::new(options.seed, 1),
            disk_rng: Rng::new(options.seed, 2),
            host_rng: Rng::new(options.seed, 3),
            kernel_rng: Rng::new(options.seed, 15),
            loss_rng: Rng::new(options.seed, 18),
            calm: false,
            counts: Counts::new(),
            seen: Vec::new(),
            disk_errors: Vec::new(),
            traffic: Traffic::default(),
            disk_reads: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            deaf_until: BTreeMap::new(),
            options: options.clone(),
        };
        (0..options.clocks.drifting()).for_each(|_| faults.count(Fault::Drift));
        faults
    }

    /// From now on nothing goes wrong.
    pub fn calm(&mut self) {
        self.calm = true;
    }

    /// Counts a fault.
    pub fn count(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
    }
}
