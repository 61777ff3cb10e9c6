//! The queues of a machine: CPUs, links and disks, each of which does one thing at a time, in order.
//!
//! Every part is a server that knows when it will be free. An operation that needs several parts takes
//! them one after the other; the time it returns is when it ends. Callers ask in the order of simulated time,
//! which makes each queue first come, first served. All times are nanoseconds: this is the innermost loop.

use std::time::Duration;

use crate::machine::Machine;
use cards_core::Instant;

/// A part that does one thing at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    free: u64,
}

impl Server {
    /// Takes on work of so many nanoseconds; returns when it is done.
    fn serve(&mut self, now: u64, work: u64) -> u64 {
        self.free = self.free.max(now).saturating_add(work);
        self.free
    }

    /// It can take on nothing else until then.
    fn hold_until(&mut self, at: u64) {
        self.free = self.free.max(at);
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
    /// Nanoseconds links have worked, both directions of all nodes.
    pub links_busy: u64,
    /// Nanoseconds channels of disks have worked.
    pub disks_busy: u64,
    /// Nanoseconds CPUs have worked on messages and copies.
    pub cpus_busy: u64,
}

/// Bytes of a disk that are read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where they begin on the disk, in bytes.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// They are written.
    pub is_write: bool,
}

/// Work of one disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskJob {
    pub(crate) disk: usize,
    /// The first block, with its volume.
    pub(crate) begin: (u32, u64),
    /// The block after the last one, if it is a read: what follows a write has to position.
    pub(crate) end: Option<(u32, u64)>,
    pub(crate) bytes: u64,
}

/// The parts of one machine at work.
#[derive(Debug)]
pub struct Model {
    machine: Machine,
    costs: Costs,
    nodes: Vec<Node>,
    disks: Vec<DiskQueue>,
    traffic: Traffic,
    /// When all CPUs, links and disks will have done what they were given.
    idle_at: u64,
}

#[derive(Debug, Default)]
struct Node {
    cpu: Server,
    /// Processes that compute share a CPU of their own: messages are handled at interrupt time.
    compute: Server,
    sends: Server,
    receives: Server,
}

#[derive(Debug, Default)]
struct DiskQueue {
    channels: Vec<Server>,
    /// Its bandwidth, which the channels share.
    bus: Server,
    /// Where the last access began or ended: from there a sorted queue goes on.
    heads: (u32, u64),
    /// The block after the last one accessed, or the byte, where a volume says which ([`Model::disk_access`]).
    next: Option<(u32, u64)>,
}

/// The machine's figures in nanoseconds, and in nanoseconds per byte.
#[derive(Debug)]
struct Costs {
    local_port: u64,
    half_remote_port: u64,
    local_copy: u64,
    remote_copy: u64,
    network_latency: u64,
    read_seek: u64,
    sequential_seek: u64,
    write_seek: u64,
    memory_byte: f64,
    network_byte: f64,
    /// All copies of the sender, and all of the receiver.
    sender_byte: f64,
    receiver_byte: f64,
    disk_byte: f64,
}

/// Bytes of a message without data, header included.
const MESSAGE_BYTES: u64 = 64;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Nanoseconds for so many bytes.
fn over(bytes: u64, per_byte: f64) -> u64 {
    (bytes as f64 * per_byte + 0.5) as u64
}

impl Costs {
    fn new(machine: &Machine) -> Self {
        let byte = |bandwidth: f64| 1e9 / bandwidth;
        let staging = byte(machine.staging_bandwidth);
        Self {
            local_port: nanos(machine.local_port),
            half_remote_port: nanos(machine.remote_port) / 2,
            local_copy: nanos(machine.local_copy),
            remote_copy: nanos(machine.remote_copy),
            network_latency: nanos(machine.network_latency),
            read_seek: nanos(machine.disk.read_seek),
            sequential_seek: nanos(machine.disk.sequential_seek),
            write_seek: nanos(machine.disk.write_seek),
            memory_byte: byte(machine.memory_bandwidth),
            network_byte: byte(machine.network_bandwidth),
            sender_byte: f64::from(machine.staging_copies / 2) * staging,
            receiver_byte: f64::from(machine.staging_copies.div_ceil(2)) * staging,
            disk_byte: byte(machine.disk.bandwidth),
        }
    }
}

impl Model {
    /// An idle machine of so many nodes.
    #[must_use]
    pub fn new(machine: Machine, nodes: u16) -> Self {
        let channels = usize::from(machine.disk.channels);
        let disk = || DiskQueue { channels: vec![Server::default(); channels], ..DiskQueue::default() };
        Self {
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            disks: (0..machine.disks).map(|_| disk()).collect(),
            traffic: Traffic::default(),
            idle_at: 0,
            costs: Costs::new(&machine),
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

    /// When CPUs, links and disks will have nothing to do, if they are given nothing more.
    #[must_use]
    pub const fn idle_at(&self) -> Instant {
        Instant(self.idle_at)
    }

    /// When the disks will.
    pub(crate) fn disks_idle_at(&self) -> Instant {
        let channels = self.disks.iter().flat_map(|disk| &disk.channels);
        Instant(channels.map(|channel| channel.free).max().unwrap_or(0))
    }

    /// When the links will.
    pub(crate) fn links_idle_at(&self) -> Instant {
        let links = self.nodes.iter().flat_map(|node| [node.sends.free, node.receives.free]);
        Instant(links.max().unwrap_or(0))
    }

    /// A message without data leaves a node; returns when it arrives. Half of its startup is the sender's, the
    /// other half the receiver's: give it to [`Self::receive`] on arrival. (To itself: the local startup, all at once.)
    pub fn send(&mut self, now: Instant, from: u16, to: u16) -> Instant {
        if from == to {
            return self.cpu(now.0, to, self.costs.local_port);
        }
        let sent = self.cpu(now.0, from, self.costs.half_remote_port);
        self.wire(sent.0, from, to, MESSAGE_BYTES)
    }

    /// A message with a block leaves a node; returns when it arrives. As [`Self::send`], with the startup of a remote copy
    /// and the sender's share of the copies to and from network buffers.
    pub fn send_data(&mut self, now: Instant, from: u16, to: u16, bytes: u64) -> Instant {
        if from == to {
            return self.local_copy(now, to, bytes);
        }
        let work = (self.costs.remote_copy / 2).saturating_add(over(bytes, self.costs.sender_byte));
        let sent = self.cpu(now.0, from, work);
        self.traffic.bytes_moved += bytes;
        self.wire(sent.0, from, to, MESSAGE_BYTES + bytes)
    }

    /// More of the message that the node has sent last, to the same node: only its bytes cost. Zero: another block is asked for.
    pub fn send_more(&mut self, now: Instant, from: u16, to: u16, bytes: u64) -> Instant {
        let sent = self.cpu(now.0, from, over(bytes, self.costs.sender_byte));
        self.traffic.bytes_moved += bytes;
        self.carry(sent.0, from, to, bytes)
    }

    /// More of the last message has arrived.
    pub fn receive_more(&mut self, now: Instant, at: u16, bytes: u64) -> Instant {
        self.cpu(now.0, at, over(bytes, self.costs.receiver_byte))
    }

    /// A message has arrived: the receiver's half of its startup. Returns when it can be acted upon.
    pub fn receive(&mut self, now: Instant, at: u16) -> Instant {
        self.cpu(now.0, at, self.costs.half_remote_port)
    }

    /// A block has arrived.
    pub fn receive_data(&mut self, now: Instant, at: u16, bytes: u64) -> Instant {
        let work = (self.costs.remote_copy / 2).saturating_add(over(bytes, self.costs.receiver_byte));
        self.cpu(now.0, at, work)
    }

    /// `initiator` has bytes copied from one node's memory to another's (PAFS-5): its CPU sets the copy up, the links
    /// carry it; the CPUs at the ends take no part. Returns when it is done.
    pub fn copy(&mut self, now: Instant, initiator: u16, from: u16, to: u16, bytes: u64) -> Instant {
        if from == to {
            let ready = self.cpu(now.0, initiator, self.costs.local_copy);
            return self.cpu(ready.0, from, over(bytes, self.costs.memory_byte));
        }
        let ready = self.cpu(now.0, initiator, self.costs.remote_copy);
        self.traffic.bytes_moved += bytes;
        self.wire(ready.0, from, to, bytes)
    }

    /// A copy within a node, by its CPU.
    pub fn local_copy(&mut self, now: Instant, at: u16, bytes: u64) -> Instant {
        self.cpu(now.0, at, self.costs.local_copy.saturating_add(over(bytes, self.costs.memory_byte)))
    }

    /// Work of a node's CPU on messages, requests and copies.
    pub fn work(&mut self, now: Instant, at: u16, work: Duration) -> Instant {
        self.cpu(now.0, at, nanos(work))
    }

    fn cpu(&mut self, now: u64, at: u16, work: u64) -> Instant {
        self.traffic.cpus_busy = self.traffic.cpus_busy.saturating_add(work);
        let done = self.nodes[usize::from(at)].cpu.serve(now, work);
        self.idle_at = self.idle_at.max(done);
        Instant(done)
    }

    /// A process computes, after those of its node that asked before it.
    pub fn compute(&mut self, now: Instant, at: u16, work: Duration) -> Instant {
        Instant(self.nodes[usize::from(at)].compute.serve(now.0, nanos(work)))
    }

    /// A message on the links of both ends.
    fn wire(&mut self, now: u64, from: u16, to: u16, bytes: u64) -> Instant {
        self.traffic.messages += 1;
        self.carry(now, from, to, bytes)
    }

    fn carry(&mut self, now: u64, from: u16, to: u16, bytes: u64) -> Instant {
        let time = over(bytes, self.costs.network_byte);
        self.traffic.links_busy = self.traffic.links_busy.saturating_add(time.saturating_mul(2));
        let begin = now.max(self.nodes[usize::from(from)].sends.free);
        let begin = begin.max(self.nodes[usize::from(to)].receives.free);
        let sent = begin.saturating_add(time);
        self.nodes[usize::from(from)].sends.hold_until(sent);
        self.nodes[usize::from(to)].receives.hold_until(sent);
        self.idle_at = self.idle_at.max(sent);
        Instant(sent.saturating_add(self.costs.network_latency))
    }

    /// The disk that has a block: striped, round robin (PAFS-8).
    #[must_use]
    pub fn disk_of(&self, volume: u32, block: u64) -> usize {
        ((block + u64::from(volume)) % self.disks.len() as u64) as usize
    }

    /// A disk reads consecutive bytes that count as `blocks` blocks, from `block` on. Returns when it is done.
    pub fn disk_read(&mut self, now: Instant, volume: u32, block: u64, blocks: u64, bytes: u64) -> Instant {
        let job = self.read_job(volume, block, blocks, bytes);
        self.begin(now, job)
    }

    /// What [`Self::disk_read`] has a disk do.
    pub(crate) fn read_job(&mut self, volume: u32, block: u64, blocks: u64, bytes: u64) -> DiskJob {
        self.traffic.disk_reads += blocks;
        let end = block + blocks * self.disks.len() as u64;
        DiskJob { disk: self.disk_of(volume, block), begin: (volume, block), end: Some((volume, end)), bytes }
    }

    /// A disk begins with a job when a channel is free. Returns when it is done.
    pub(crate) fn begin(&mut self, now: Instant, job: DiskJob) -> Instant {
        let disk = &mut self.disks[job.disk];
        let seek = match job.end {
            None => self.costs.write_seek,
            Some(_) if disk.next == Some(job.begin) => self.costs.sequential_seek,
            Some(_) => self.costs.read_seek,
        };
        disk.next = job.end;
        disk.heads = job.end.unwrap_or(job.begin);
        self.disk(now.0, job.disk, seek, job.bytes)
    }

    /// Where a disk's heads are.
    pub(crate) fn heads(&self, disk: usize) -> (u32, u64) {
        self.disks[disk].heads
    }

    /// Disks write consecutive blocks, each those that lie on it. Returns when all are done.
    pub fn disk_write(&mut self, now: Instant, volume: u32, block: u64, blocks: u64, bytes: u64) -> Instant {
        let jobs = self.write_jobs(volume, block, blocks, bytes);
        jobs.into_iter().fold(now, |done, job| done.max(self.begin(now, job)))
    }

    /// What [`Self::disk_write`] has disks do.
    pub(crate) fn write_jobs(&mut self, volume: u32, block: u64, blocks: u64, bytes: u64) -> Vec<DiskJob> {
        self.traffic.disk_writes += blocks;
        let disks = self.disks.len() as u64;
        let job = |first: u64| DiskJob {
            disk: self.disk_of(volume, block + first),
            begin: (volume, block + first),
            end: None,
            bytes: bytes * (blocks - first).div_ceil(disks) / blocks,
        };
        (0..blocks.min(disks)).map(job).collect()
    }

    /// A disk moves bytes that lie one after another on it, wherever a volume has them. As of blocks, a read that goes on where the last one
    /// has ended need not position, and a write always has to. Returns when it is done.
    pub fn disk_access(&mut self, now: Instant, disk: usize, access: Access) -> Instant {
        let Access { offset, bytes, is_write } = access;
        let blocks = bytes.div_ceil(self.machine.block_bytes.into());
        let sequential = !is_write && self.disks[disk].next == Some((0, offset));
        let seek = match (is_write, sequential) {
            (true, _) => self.costs.write_seek,
            (false, true) => self.costs.sequential_seek,
            (false, false) => self.costs.read_seek,
        };
        let counted = if is_write { &mut self.traffic.disk_writes } else { &mut self.traffic.disk_reads };
        *counted += blocks;
        self.disks[disk].next = (!is_write).then_some((0, offset + bytes));
        self.disk(now.0, disk, seek, bytes)
    }

    /// A disk positions for so long, then reads bytes: for who knows where its heads are. Returns when it is done.
    pub fn disk_move(&mut self, now: Instant, disk: usize, positioning: Duration, bytes: u64) -> Instant {
        self.traffic.disk_reads += bytes.div_ceil(self.machine.block_bytes.into());
        self.disks[disk].next = None;
        self.disk(now.0, disk, nanos(positioning), bytes)
    }

    /// A channel positions, then moves its bytes when the others have moved theirs.
    fn disk(&mut self, now: u64, disk: usize, seek: u64, bytes: u64) -> Instant {
        let transfer = over(bytes, self.costs.disk_byte);
        self.traffic.disks_busy = self.traffic.disks_busy.saturating_add(seek.saturating_add(transfer));
        let DiskQueue { channels, bus, .. } = &mut self.disks[disk];
        let Some(channel) = channels.iter_mut().min_by_key(|channel| channel.free) else {
            return Instant(now);
        };
        let done = bus.serve(channel.serve(now, seek), transfer);
        channel.hold_until(done);
        self.idle_at = self.idle_at.max(done);
        Instant(done)
    }
}
