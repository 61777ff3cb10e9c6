//! The queues of a machine: CPUs, links and disks, each of which does one thing at a time, in order.
//!
//! Every part is a [`Server`] that knows when it will be free. An operation that needs several parts takes
//! them one after the other; the time it returns is when it ends. Callers ask in the order of simulated time,
//! which makes each queue first come, first served.

use std::time::Duration;

use crate::machine::Machine;
use cards_core::Instant;

/// A part that does one thing at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server {
    free: Instant,
    busy: Duration,
}

impl Server {
    /// Takes on work of this length; returns when it is done.
    pub fn serve(&mut self, now: Instant, work: Duration) -> Instant {
        self.free = self.free.max(now) + work;
        self.busy += work;
        self.free
    }

    /// How long it has worked.
    #[must_use]
    pub const fn busy(&self) -> Duration {
        self.busy
    }

    /// When it will be free.
    #[must_use]
    pub const fn free(&self) -> Instant {
        self.free
    }
}

/// What has gone over the network and to the disks so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Messages between nodes, with or without data.
    pub messages: u64,
    /// Bytes of data between nodes.
    pub bytes_moved: u64,
    /// Blocks read from disks.
    pub disk_reads: u64,
    /// Blocks written to disks.
    pub disk_writes: u64,
    /// Time links have worked, both directions of all nodes.
    pub links_busy: Duration,
    /// Time disks have worked.
    pub disks_busy: Duration,
    /// Time CPUs have worked on messages and copies.
    pub cpus_busy: Duration,
}

/// The parts of one machine at work.
#[derive(Debug)]
pub struct Model {
    machine: Machine,
    nodes: Vec<Node>,
    disks: Vec<DiskQueue>,
    traffic: Traffic,
}

#[derive(Debug, Default)]
struct Node {
    cpu: Server,
    /// Processes that compute share a CPU of their own: messages are handled at interrupt time.
    compute: Server,
    sends: Server,
    receives: Server,
}

#[derive(Debug)]
struct DiskQueue {
    channels: Vec<Server>,
    /// The block after the last one accessed.
    next: Option<(u16, u64)>,
}

/// Bytes of a message without data, header included.
const MESSAGE_BYTES: u64 = 64;

impl Model {
    /// An idle machine of so many nodes.
    #[must_use]
    pub fn new(machine: Machine, nodes: u16) -> Self {
        let channels = usize::from(machine.disk.channels);
        let disk = || DiskQueue { channels: vec![Server::default(); channels], next: None };
        Self {
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            disks: (0..machine.disks).map(|_| disk()).collect(),
            traffic: Traffic::default(),
            machine,
        }
    }

    /// The machine.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How many nodes it has.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// What has happened so far.
    #[must_use]
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// A message without data leaves a node; returns when it arrives. Half of its startup is the sender's, the
    /// other half the receiver's: give it to [`Self::receive`] on arrival. (To itself: the local startup, all at once.)
    pub fn send(&mut self, now: Instant, from: u16, to: u16) -> Instant {
        if from == to {
            return self.work(now, to, self.machine.local_port);
        }
        let sent = self.work(now, from, self.machine.remote_port / 2);
        self.wire(sent, from, to, MESSAGE_BYTES)
    }

    /// A message with a block leaves a node; returns when it arrives. As [`Self::send`], with the startup of a remote copy
    /// and the sender's share of the copies to and from network buffers.
    pub fn send_data(&mut self, now: Instant, from: u16, to: u16, bytes: u64) -> Instant {
        if from == to {
            return self.local_copy(now, to, bytes);
        }
        let copies = self.staging(bytes, self.machine.staging_copies / 2);
        let sent = self.work(now, from, self.machine.remote_copy / 2 + copies);
        self.traffic.bytes_moved += bytes;
        self.wire(sent, from, to, MESSAGE_BYTES + bytes)
    }

    /// A message has arrived: the receiver's half of its startup. Returns when it can be acted upon.
    pub fn receive(&mut self, now: Instant, at: u16) -> Instant {
        self.work(now, at, self.machine.remote_port / 2)
    }

    /// A block has arrived.
    pub fn receive_data(&mut self, now: Instant, at: u16, bytes: u64) -> Instant {
        let copies = self.staging(bytes, self.machine.staging_copies.div_ceil(2));
        self.work(now, at, self.machine.remote_copy / 2 + copies)
    }

    fn staging(&self, bytes: u64, copies: u8) -> Duration {
        Machine::transfer(bytes, self.machine.staging_bandwidth) * u32::from(copies)
    }

    /// `initiator` has bytes copied from one node's memory to another's (PAFS-5): its CPU sets the copy up, the links
    /// carry it; the CPUs at the ends take no part. Returns when it is done.
    pub fn copy(&mut self, now: Instant, initiator: u16, from: u16, to: u16, bytes: u64) -> Instant {
        if from == to {
            let ready = self.work(now, initiator, self.machine.local_copy);
            let move_it = Machine::transfer(bytes, self.machine.memory_bandwidth);
            return self.work(ready, from, move_it);
        }
        let ready = self.work(now, initiator, self.machine.remote_copy);
        self.traffic.bytes_moved += bytes;
        self.wire(ready, from, to, bytes)
    }

    /// A copy within a node, by its CPU.
    pub fn local_copy(&mut self, now: Instant, at: u16, bytes: u64) -> Instant {
        let work = self.machine.local_copy_of(bytes);
        self.work(now, at, work)
    }

    /// Work of a node's CPU on messages, requests and copies.
    pub fn work(&mut self, now: Instant, at: u16, work: Duration) -> Instant {
        self.traffic.cpus_busy += work;
        self.nodes[usize::from(at)].cpu.serve(now, work)
    }

    /// A process computes, after those of its node that asked before it.
    pub fn compute(&mut self, now: Instant, at: u16, work: Duration) -> Instant {
        self.nodes[usize::from(at)].compute.serve(now, work)
    }

    /// Bytes on the links of both ends.
    fn wire(&mut self, now: Instant, from: u16, to: u16, bytes: u64) -> Instant {
        self.traffic.messages += 1;
        let time = Machine::transfer(bytes, self.machine.network_bandwidth);
        self.traffic.links_busy += time * 2;
        let begin = now
            .max(self.nodes[usize::from(from)].sends.free())
            .max(self.nodes[usize::from(to)].receives.free());
        self.nodes[usize::from(from)].sends.serve(begin, time);
        self.nodes[usize::from(to)].receives.serve(begin, time) + self.machine.network_latency
    }

    /// The disk that has a block: striped, round robin (PAFS-8).
    #[must_use]
    pub fn disk_of(&self, volume: u16, block: u64) -> usize {
        ((block + u64::from(volume)) % self.disks.len() as u64) as usize
    }

    /// A disk reads consecutive bytes that count as `blocks` blocks, from `block` on. Returns when it is done.
    pub fn disk_read(&mut self, now: Instant, volume: u16, block: u64, blocks: u64, bytes: u64) -> Instant {
        self.traffic.disk_reads += blocks;
        let stride = self.disks.len() as u64;
        let disk = self.disk_of(volume, block);
        let sequential = self.disks[disk].next == Some((volume, block));
        let seek = if sequential { self.machine.disk.sequential_seek } else { self.machine.disk.read_seek };
        self.disks[disk].next = Some((volume, block + blocks * stride));
        self.disk(now, disk, seek + Machine::transfer(bytes, self.machine.disk.bandwidth))
    }

    /// A disk writes, as [`Self::disk_read`] reads.
    pub fn disk_write(&mut self, now: Instant, volume: u16, block: u64, blocks: u64, bytes: u64) -> Instant {
        self.traffic.disk_writes += blocks;
        let disk = self.disk_of(volume, block);
        self.disks[disk].next = None;
        let work = self.machine.disk.write_seek + Machine::transfer(bytes, self.machine.disk.bandwidth);
        self.disk(now, disk, work)
    }

    fn disk(&mut self, now: Instant, disk: usize, work: Duration) -> Instant {
        self.traffic.disks_busy += work;
        let earliest = self.disks[disk].channels.iter_mut().min_by_key(|channel| channel.free());
        earliest.map_or(now, |channel| channel.serve(now, work))
    }
}
