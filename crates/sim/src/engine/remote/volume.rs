//! A disk with documents that web servers read: what it is, and how they come to its blocks.

use std::time::Duration;

use cards_core::Instant;

use crate::machine::Machine;
use crate::setup::{Setup, SetupError};

/// A disk with documents, read only, and the servers that read it. Every node is a server, but for the last one where the disk is at a node of
/// its own.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoteDisk {
    /// Where the disk is.
    pub attachment: Attachment,
    /// Bytes of the partition with the documents: what the heads move over.
    pub partition_bytes: u64,
    /// Share of the documents of more than a block that are not contiguous: one figure for all disks, or one for each.
    pub fragmented: Vec<f64>,
    /// Blocks that a server reads ahead of a document, at most.
    pub read_ahead: u32,
    /// How the disk moves its heads.
    pub heads: Heads,
    /// The network to the servers' clients, which all of them share, and of NFS.
    pub ethernet: Ethernet,
}

/// Where the disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attachment {
    /// A disk at each server, all with the same documents.
    Local,
    /// At the first server; the others read it through the remote disk driver (RDD-4).
    Computer(Delivery),
    /// At the last node, which is no server: all servers read it through the remote disk driver (RDD-4, RDD-11).
    Network(Delivery),
    /// At the last node, a file server with so many threads.
    Nfs(u16),
}

/// How the node with the disk answers (RDD-5 to RDD-7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// A block is read and sent, then the next one.
    Sync,
    /// A thread launches what waits, so many blocks at most, sleeps until the first is there, and sends them one after the other; it takes the
    /// next blocks when the last one is sent.
    Thread(u32),
    /// What arrives goes to the disk, and is sent when it has been read.
    Event,
}

/// How a disk moves its heads: half a turn, a settling time, and what grows with the square root of the way. Positions drawn at random
/// from all of the partition take the machine's `disk.read_seek` on average.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    /// A turn of the platters.
    pub turn: Duration,
    /// To the next track.
    pub settle: Duration,
    /// The heads pass over so many blocks rather than position.
    pub passed: u64,
    /// Blocks of a request, at most: neighbours that wait are read together.
    pub merged: u32,
}

/// A network beside that of the machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ethernet {
    /// In bytes per second, in each direction.
    pub bandwidth: f64,
    /// Of the processor at each end of an NFS message.
    pub startup: Duration,
    /// On the wire and in the switch.
    pub latency: Duration,
}

impl RemoteDisk {
    /// How many of the nodes are servers.
    pub(super) const fn servers(&self, nodes: u16) -> u16 {
        match self.attachment {
            Attachment::Local | Attachment::Computer(_) => nodes,
            Attachment::Network(_) | Attachment::Nfs(_) => nodes.saturating_sub(1),
        }
    }

    /// The node with the disk that a server reads.
    pub(super) const fn host(&self, server: u16, nodes: u16) -> u16 {
        match self.attachment {
            Attachment::Local => server,
            Attachment::Computer(_) => 0,
            Attachment::Network(_) | Attachment::Nfs(_) => nodes - 1,
        }
    }

    /// Of a disk.
    pub(super) fn fragmented_at(&self, disk: u16) -> f64 {
        let shares = &self.fragmented;
        shares.get(usize::from(disk)).or(shares.last()).copied().unwrap_or(0.0)
    }

    /// Checks that it can be built.
    ///
    /// # Errors
    /// [`SetupError::Bad`] names the parameter.
    pub(crate) fn check(&self, setup: &Setup) -> Result<(), SetupError> {
        let bad = |parameter, value: String, want| Err(SetupError::Bad { parameter, value, want });
        if self.servers(setup.nodes) == 0 {
            return bad("nodes", setup.nodes.to_string(), "one for the disk, and at least one server");
        }
        let disks = setup.machine.disks;
        match self.attachment {
            Attachment::Local if disks != setup.nodes => {
                return bad("disks", disks.to_string(), "one at each node");
            }
            Attachment::Local => {}
            _ if disks != 1 => return bad("disks", disks.to_string(), "the one that is shared"),
            Attachment::Nfs(0) => return bad("NFS threads", "0".into(), "at least 1"),
            Attachment::Network(Delivery::Thread(0)) | Attachment::Computer(Delivery::Thread(0)) => {
                return bad("blocks of a batch", "0".into(), "at least 1");
            }
            _ => {}
        }
        if self.fragmented.is_empty() {
            return bad("fragmented", "no figure".into(), "one for all disks, or one for each");
        }
        if let Some(share) = self.fragmented.iter().find(|&share| !(0.0..=1.0).contains(share)) {
            return bad("fragmented", share.to_string(), "a share from 0 to 1");
        }
        if self.heads.merged == 0 {
            return bad("merged blocks", "0".into(), "at least 1");
        }
        let blocks = self.partition_bytes / u64::from(setup.block_bytes);
        if blocks == 0 || blocks > u64::from(u32::MAX) {
            return bad("partition", self.partition_bytes.to_string(), "1 to 2^32 blocks");
        }
        if !(self.ethernet.bandwidth.is_finite() && self.ethernet.bandwidth >= 1.0) {
            return bad("ethernet", self.ethernet.bandwidth.to_string(), "bytes per second, at least 1");
        }
        let least = self.heads.turn / 2 + self.heads.settle;
        if setup.machine.disk.read_seek < least {
            let value = format!("{:?}", setup.machine.disk.read_seek);
            return bad("disk.read_seek_us", value, "at least half a turn and the settling");
        }
        Ok(())
    }
}

/// A direction of a network.
#[derive(Debug, Default)]
pub(super) struct Link {
    free: Instant,
}

impl Link {
    /// Bytes that may leave from `ready` on are on the wire; returns when the last one has been sent.
    pub(super) fn send(&mut self, ready: Instant, bytes: u64, bandwidth: f64) -> Instant {
        let begin = self.free.max(ready);
        self.free = begin + Machine::transfer(bytes, bandwidth);
        self.free
    }
}
