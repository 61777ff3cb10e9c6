//! What a world leaves open: how long things take and what goes wrong.

use cards_core::{ControlMessage, DiskWork, Duration, Instant, IoError, Message, NodeId, VolumeId};

/// All models of a world.
pub trait Models: Network + Disk + Host {}

impl<M: Network + Disk + Host> Models for M {}

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
}

/// The disks.
pub trait Disk {
    /// Decides how an operation goes that starts now.
    fn start(&mut self, now: Instant, volume: VolumeId, work: &DiskWork) -> DiskTiming;

    /// The process dies with half of a write not yet on the medium: does the operating system finish it?
    fn finishes_after_crash(&mut self, volume: VolumeId) -> bool {
        let _ = volume;
        true
    }
}

/// The computer a node runs on.
pub trait Host {
    /// When a timer due at `due` fires (not before).
    fn timer(&mut self, node: NodeId, due: Instant) -> Instant {
        let _ = node;
        due
    }

    /// How long a slot stays pinned while `bytes` leave it for another node.
    fn send(&mut self, now: Instant, node: NodeId, bytes: u32) -> Duration;

    /// How long a slot stays pinned while `bytes` leave it for a client.
    fn reply(&mut self, now: Instant, node: NodeId, bytes: u32) -> Duration;
}
