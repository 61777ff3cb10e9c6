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

use cards_core::{Instant, Limit, NodeId, PgId};

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
    /// A disk node died while a disk was sealed.
    SealedCrash,
    /// The machine of a sealed disk lost its power.
    SealedPowerLoss,
    /// A write was said to be done and is not on the disk.
    LostWrite,
    /// A disk wrote or read somewhere else.
    Misdirected,
    /// A disk read what was there before all writes.
    OldRead,
    /// A write of a process that had died reached the disk when the next one was working.
    LateWrite,
    /// A disk was full for a while.
    FullDisk,
    /// A message of a connection overtook one of the connection before.
    TwoConnections,
    /// The clock of a machine began again when it had lost its power.
    ClockRestart,
    /// The time of day was set forward between two lives of a node.
    TimeStep,
    /// The disk node of one volume was dead while others were in use.
    DeadPrimary,
    /// A member that may attach no volume asked another one for a block.
    Prying,
    /// A peer's answer was late, and the disk node was asked as well.
    Hedged,
    /// A limit was reached.
    Reached(Limit),
}

impl Fault {
    /// All kinds but for limits.
    const ALL: [Self; 47] = [
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
        Self::Move,
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
        Self::SealedCrash,
        Self::SealedPowerLoss,
        Self::LostWrite,
        Self::Misdirected,
        Self::OldRead,
        Self::LateWrite,
        Self::FullDisk,
        Self::TwoConnections,
        Self::ClockRestart,
        Self::TimeStep,
        Self::DeadPrimary,
        Self::Prying,
        Self::Hedged,
    ];

    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Limit::ALL.into_iter().map(Self::Reached))
    }
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
    lie_rng: Rng,
    life_rng: Rng,
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
    /// Disks that are full until then.
    full_until: BTreeMap<PgId, Instant>,
    /// When each node's clock showed zero, if that was not at the beginning.
    clocks_began: BTreeMap<NodeId, Instant>,
    /// When the last message from one node to another arrives on their connection ...
    last_arrival: BTreeMap<(NodeId, NodeId), Instant>,
    /// ... and on the one before.
    before: BTreeMap<(NodeId, NodeId), Instant>,
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
            lie_rng: Rng::new(options.seed, 45),
            life_rng: Rng::new(options.seed, 46),
            calm: false,
            counts: Counts::new(),
            seen: Vec::new(),
            disk_errors: Vec::new(),
            traffic: Traffic::default(),
            disk_reads: BTreeMap::new(),
            full_until: BTreeMap::new(),
            clocks_began: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            before: BTreeMap::new(),
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

    /// From now on `from` sends on another connection, which does not wait for what is under way on the last one.
    pub fn reconnected(&mut self, from: NodeId, to: NodeId) {
        if let Some(last) = self.last_arrival.remove(&(from, to)) {
            self.before.insert((from, to), last);
        }
    }

    /// Counts a fault.
    pub fn count(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
    }
}
