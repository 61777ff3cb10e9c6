//! Everything that can differ from run to run, drawn from the seed.
//!
//! # What CARDs claim to survive
//!
//! - Messages: lost, repeated, late, reordered; payloads that break off in the middle. A connection does not
//!   outlive the process at either end.
//! - Nodes: process death at any time, with or without restart, the disk node's included; standing still for
//!   longer than a lease; notice of a death early, late or never. A disk node always comes back.
//! - Power: the machine of a disk node dies, and of what was not flushed any part is gone, each write of each sector for
//!   itself. (Not of a node with local devices: they would be gone, too.) Otherwise the contents of disks survive.
//! - Connections: broken without reason, at one end first; replaced while messages are under way on them.
//! - Clocks: each at its own rate, none a third faster than another or more; at zero again when a machine comes back.
//!   (Neither what lies beyond that is claimed nor a clock that stops with its node, and `--drift beyond` and `stop` show that
//!   they are noticed.) The time of day, of which the numbers of lives are made, is set forward.
//! - Succession: a node that comes back without a proof that its last process has ended.
//! - Devices: kernels that keep pages, take long to let them go, and notice late that their node's process has ended;
//!   devices that go on while their node stands still or is dead, and come and go. Words between a device and its node come
//!   in order. A device lets all pages go when the lease that it was told of has run out, by when the disk node has waited
//!   for one and a half; and a node starts when its devices have no pages that they got from its last process.
//! - Primaries of volumes that all nodes reach: they move, at any time, from nodes that do not stand still to nodes that run.
//!   The medium takes nothing of the last one any more; what that had under way has reached it by then or never will. It
//!   loses its power with its primary only.
//! - Takeovers: a card that has a volume for itself, while others go on writing.
//! - Members: views that come late, in an order of their own at each node but never backwards, or not at all while the
//!   coordinator is lost; members that leave, or are declared dead while they live, and come back.
//! - Disks: slow, failing reads and writes, full for a while; a failed write may have done half of its work. A sync that
//!   fails saves nothing of what was written before, and no later one does.
//! - Disks that lie: lost, misdirected and late writes, misdirected and outdated reads. Nothing is claimed of the blocks
//!   concerned, everything of all others.
//!
//! Not claimed (and not injected): other wrong bytes from disk or wire, loss of a disk, two
//! processes of one node at the same time, a writer's volume under [`cards_core::Coherence::Policy`] being coherent.

mod clocks;
mod draw;
mod first;
mod limits;
mod lone;
mod mirrors;
mod second;
mod shapes;
mod told;

use cards_core::{Duration, NodeId, PgId, VolumeSpec};
use cards_world::WorldConfig;

pub use clocks::Clocks;

/// What a run is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Faults, then calm.
    Storm,
    /// No faults; all nodes read a cold volume that fits in any cache, once.
    ColdRead,
}

/// All options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed they were drawn from.
    pub seed: u64,
    /// What the run is about.
    pub mode: Mode,
    /// The nodes, their disks, and their timing.
    pub world: WorldConfig,
    /// The only node that writes. Only the disk node's process fails then, so nobody is told of an error.
    pub lone: Option<NodeId>,
    /// Commands that a writer sends at the same time, at most.
    pub at_once: u32,
    /// Clients of each node.
    pub clients: u32,
    /// Writers of each volume that can be written.
    pub writers: u32,
    /// Cards that may only read, never the disk node's.
    pub readers: Vec<(NodeId, PgId)>,
    /// How long they work before the faults stop.
    pub storm: Duration,
    /// Longest pause of a client between two requests; most are much shorter.
    pub think: Duration,
    /// Reads go around in a working set of so many blocks that moves on.
    pub hot_blocks: u32,
    /// Writes that go anywhere and not to the working set, per mille.
    pub writes_elsewhere: u32,
    /// Clients ask for blocks ahead of their use.
    pub read_ahead: bool,
    /// Clients have blocks stay in the cache of their node, and others instead of them.
    pub retains: bool,
    /// Messages.
    pub network: NetworkOptions,
    /// Disks.
    pub disk: DiskOptions,
    /// Nodes and connections.
    pub nodes: NodeOptions,
    /// What disks lose that was not flushed.
    pub losses: LossOptions,
    /// Cards that take a volume for themselves.
    pub takeovers: TakeoverOptions,
    /// The local devices, if there are any.
    pub devices: DeviceOptions,
    /// The coordinator and the members.
    pub members: MemberOptions,
    /// Disks that do not do what they say.
    pub lies: LieOptions,
    /// Nodes whose clients attach cards and use them for nothing.
    pub idle: Vec<NodeId>,
    /// A volume with one writer, of small writes that follow each other in its first blocks, and readers of all others.
    pub log: Option<PgId>,
    /// A disk node that is dead for most of the storm, and whose volumes alone have to wait for it.
    pub dead: Option<NodeId>,
    /// Of so many blocks that follow each other clients use the first, and a few behind it.
    pub stride: u32,
    /// No process with a column ends while another column is away: nothing is lost, nothing is in doubt.
    pub one_at_a_time: bool,
    /// How fast each node's clock is.
    pub clocks: Clocks,
    /// In a cold read, clients of each node that want each block at the same time.
    pub readers_of_block: u32,
}

impl Options {
    /// Blocks of a volume that clients choose from.
    pub(crate) fn spots(&self, spec: &VolumeSpec) -> u32 {
        spec.blocks().div_ceil(u64::from(self.stride)) as u32
    }

    /// Their numbers.
    pub(crate) fn spot(&self, number: u32) -> u32 {
        number * self.stride
    }

    /// After this time a question to the disk node is repeated, which it may have passed to a node that is dead.
    pub(crate) fn repetition(&self) -> Duration {
        self.world.peer_timeout * 4
    }
}

/// How messages travel. Rates are per mille.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// Shortest way.
    pub delay_min: Duration,
    /// Added to it, mostly much less.
    pub delay_spread: Duration,
    /// A message now and then takes longer by up to this.
    pub delay_rare: Duration,
    /// How often.
    pub rare: u32,
    /// Messages overtake each other; otherwise each pair of nodes has a queue.
    pub reorder: bool,
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Payloads that break off.
    pub broken: u32,
}

/// How disks behave. Rates are per mille.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Shortest operation.
    pub latency_min: Duration,
    /// Added to it, mostly much less.
    pub latency_spread: Duration,
    /// Failing reads.
    pub read_errors: u32,
    /// Failing writes, trims, flushes.
    pub write_errors: u32,
    /// Writes at which the disk is full, for a while.
    pub fills: u32,
}

/// What happens to nodes during the storm: mean time between two events of a kind, zero for never.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// A node's process dies.
    pub crash_every: Duration,
    /// A dead node stays dead for up to this.
    pub downtime: Duration,
    /// Of those that have no disk, so many per mille stay dead.
    pub stays_dead: u32,
    /// A node stands still.
    pub pause_every: Duration,
    /// For up to this.
    pub pause: Duration,
    /// A connection breaks.
    pub cut_every: Duration,
    /// And comes back within this.
    pub cut: Duration,
    /// A node does not hear another one, which hears it, for up to [`Self::cut`].
    pub deafen_every: Duration,
    /// Notice of a death comes within this; per mille of them never.
    pub notice: Duration,
    /// Notices that never come, per mille.
    pub no_notice: u32,
    /// A member hears nothing of a disk node's next life for a while, per mille of the disk nodes' deaths.
    pub isolate: u32,
    /// A node that comes back cannot prove that its last process has ended, per mille.
    pub unproven: u32,
    /// The primary of a volume that all nodes reach moves to another node.
    pub move_every: Duration,
    /// A volume gets another policy.
    pub switch_every: Duration,
    /// Two nodes begin another connection, each in its own time, while messages are under way on the last one.
    pub reconnect_every: Duration,
    /// A member that may attach no volume asks another one for a block.
    pub pry_every: Duration,
    /// A unit of a column of a group does not fit its checksum any more, or a part of the group is scrubbed.
    pub rot_every: Duration,
    /// A column of a group gives way to one at another node.
    pub replace_every: Duration,
    /// A client detaches a card and attaches it again, per mille of its requests.
    pub detach: u32,
    /// Timers fire late by up to this.
    pub timer_late: Duration,
}

/// Losses of what was written and not flushed. Rates are per mille.
#[derive(Clone, Debug, Default)]
pub struct LossOptions {
    /// Deaths of a process with a disk that are losses of its machine's power.
    pub power: u32,
    /// Syncs that fail.
    pub failed_syncs: u32,
}

/// What disks do in place of what they say. Rates are per mille.
#[derive(Clone, Copy, Debug, Default)]
pub struct LieOptions {
    /// Writes that are said to be done, and are not there.
    pub lost: u32,
    /// Writes and reads that go somewhere else.
    pub elsewhere: u32,
    /// Reads of what was there before all writes.
    pub old: u32,
    /// Writes that the death of a process has interrupted, and that land later.
    pub late: u32,
}

/// Takeovers during the storm.
#[derive(Clone, Debug, Default)]
pub struct TakeoverOptions {
    /// Mean time between two; zero for never.
    pub every: Duration,
    /// A card has its volume for itself for up to this, and two leases.
    pub hold: Duration,
}

/// Local devices and the kernels that keep pages of them.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Clients of each device.
    pub clients: u32,
    /// A word between a device and its node takes up to this.
    pub word: Duration,
    /// Pages that are withdrawn are gone within this, most much sooner ...
    pub withdraw: Duration,
    /// ... and now and then, per mille, like answers to reads, ...
    pub slow: u32,
    /// ... within this.
    pub withdraw_slow: Duration,
    /// A device notices within this that its node's process has ended.
    pub notice: Duration,
    /// Mean time until a device's user goes, to come back; zero for never.
    pub close_every: Duration,
}

/// What the coordinator does during the storm: mean time between two events of a kind, zero for never.
#[derive(Clone, Debug, Default)]
pub struct MemberOptions {
    /// A member leaves, is declared dead, or comes back.
    pub change_every: Duration,
    /// Nodes hear of a view within this.
    pub late: Duration,
    /// The coordinator is lost.
    pub lose_every: Duration,
    /// For up to this; no node hears of a view meanwhile.
    pub lost: Duration,
}
