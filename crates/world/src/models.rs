//! What a world leaves open: how long things take and what goes wrong.

use std::ops::Range;

use cards_core::{ControlMessage, DiskWork, Duration, Instant, IoError, Message, NodeId, PgId};

/// All models of a world.
pub trait Models: Network + Disk + Host + Kernel {}

impl<M: Network + Disk + Host + Kernel> Models for M {}

/// One message on its way.
#[derive(Clone, Copy, Debug)]
pub enum Parcel<'a> {
    /// Between shards.
    Shard {
        /// The message.
        message: &'a Message,
        /// Bytes of its payload.
        payload_bytes: u32,
    },
    /// Between the nodes' control parts.
    Control(&'a ControlMessage),
    /// Between the columns of a group.
    Group {
        /// The volume.
        volume: PgId,
        /// Bytes of its payload.
        payload_bytes: u32,
    },
}

/// One arrival of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Until its head has arrived.
    pub delay: Duration,
    /// From then until its payload has.
    pub transfer: Duration,
    /// The connection breaks at the end of `transfer`: the payload never completes.
    pub broken: bool,
}

/// The network.
pub trait Network {
    /// Decides when, and how often, a message from `from` arrives at `to`: adds its deliveries (none: lost).
    fn deliver(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        parcel: Parcel<'_>,
        deliveries: &mut Vec<Delivery>,
    );
}

/// How one disk operation goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskTiming {
    /// When the first and the second half of its sectors reach or leave the medium, counted from the start
    /// and not after `done`; `None`: never. A write that fails may have done one half.
    pub halves: [Option<Duration>; 2],
    /// When it completes.
    pub done: Duration,
    /// Its result.
    pub result: Result<(), IoError>,
    /// The disk says one thing and does another.
    pub lie: Option<Lie>,
}

/// What a disk does that it does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// A write never reaches the medium.
    Lost,
    /// It reads or writes from this block on.
    Elsewhere(u32),
    /// It reads what was there before all writes.
    Old,
}

/// The disks.
pub trait Disk {
    /// Decides how an operation goes that starts now.
    fn start(&mut self, now: Instant, volume: PgId, work: &DiskWork) -> DiskTiming;

    /// These tags are on the medium now, from this sector on.
    fn wrote(&mut self, volume: PgId, first: u64, tags: &[u64]) {
        let _ = (volume, first, tags);
    }

    /// An operation has succeeded earlier than was decided, since the medium lets nobody in any more who is not the next
    /// primary.
    fn ended(&mut self, began: Instant, now: Instant, volume: PgId, work: &DiskWork) {
        let _ = (began, now, volume, work);
    }

    /// The process dies with half of a write not yet on the medium: does the operating system finish it?
    fn finishes_after_crash(&mut self, volume: PgId) -> bool {
        let _ = volume;
        true
    }

    /// If it does not: nevertheless these sectors will reach the medium after this time, whoever writes them meanwhile.
    fn lands_late(&mut self, volume: PgId, sectors: Range<u64>) -> Option<Duration> {
        let _ = (volume, sectors);
        None
    }

    /// The machine loses its power: does what one write has made of a sector, and no sync covers, survive?
    fn survives_power_loss(&mut self, volume: PgId) -> bool {
        let _ = volume;
        true
    }
}

/// The computer a node runs on.
pub trait Host {
    /// What the node's clock shows at `now`. While the machine runs it never goes back, and never stops for ever.
    fn clock(&self, node: NodeId, now: Instant) -> Instant {
        let _ = node;
        now
    }

    /// When the node's clock shows `shown`: the first instant for which [`Self::clock`] is not before it.
    fn shows(&self, node: NodeId, shown: Instant) -> Instant {
        let _ = node;
        shown
    }

    /// The node's machine starts again: its clock may, too.
    fn rebooted(&mut self, node: NodeId, now: Instant) {
        let _ = (node, now);
    }

    /// The node stands still from now until then.
    fn stands_still(&mut self, node: NodeId, time: Duration) {
        let _ = (node, time);
    }

    /// By how much the number of the node's next life is more than one above that of its last. It is made from the time of
    /// day, which may be set forward meanwhile.
    fn skipped_lives(&mut self, node: NodeId) -> u64 {
        let _ = node;
        0
    }

    /// When a timer due at `due` fires (not before), by the time of the world.
    fn timer(&mut self, node: NodeId, due: Instant) -> Instant {
        let _ = node;
        due
    }

    /// How long a slot stays pinned while `bytes` leave it for another node.
    fn send(&mut self, now: Instant, node: NodeId, bytes: u32) -> Duration;

    /// How long a slot stays pinned while `bytes` leave it for a client.
    fn reply(&mut self, now: Instant, node: NodeId, bytes: u32) -> Duration;
}

/// Why pages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A write will follow.
    Wanted,
    /// The lease has run out.
    Lapsed,
    /// The node's process has ended.
    Orphaned,
}

/// The kernels that have volumes as local devices.
pub trait Kernel {
    /// How long a word is under way between a node and its device of `volume`, in either direction.
    fn word(&mut self, node: NodeId, volume: PgId) -> Duration;

    /// How long an answer of the node is under way to its device. Words and notices may overtake it.
    fn answer(&mut self, node: NodeId, volume: PgId) -> Duration;

    /// How long it takes until pages are gone. Until then they are used.
    fn withdraw(&mut self, node: NodeId, volume: PgId, why: Why) -> Duration;

    /// When a device notices that its node's process has ended.
    fn notice(&mut self, node: NodeId, volume: PgId) -> Duration;
}
