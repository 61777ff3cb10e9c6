//! The production core, with any of the policies that nodes can run.
//!
//! Every node has its [`Shard`]s, exactly as in a daemon; what they say to each other costs what the machine
//! says. Bytes are not modelled: a slot is a number.

mod window;

use std::collections::{BTreeMap, VecDeque};

use cards_core::read_ahead::{ReadAhead, Window};
use cards_core::{
    Access, BlockId, Body, BufferId, CommandKind, DiskWork, Duration, Generation, Input, Instant, Landing, Message,
    NodeId, OpId, Output, Payload, Placement, Read, STRIPE_BLOCKS, Shard, ShardConfig, Stats, Token,
    VolumeId, VolumeSpec,
};
use cards_trace::Op;

use self::window::{CommandWindow, Rest};
use super::{Counts, Engine};
use crate::kernel::{Io, IoToken, Kernel};
use crate::setup::{Setup, SetupError, Timing};

/// The nodes of a cluster.
pub struct Cluster {
    setup: Setup,
    /// All shards of node 0, then those of node 1, and so on.
    shards: Vec<Shard>,
    /// When each has an event scheduled for its timers.
    armed: Vec<Instant>,
    /// By the trace's number: whether it has been attached.
    volumes: Vec<bool>,
    ios: Vec<Pending>,
    /// By process and volume.
    read_ahead: BTreeMap<(u32, u16), ReadAhead>,
    /// Messages, disk operations and requests under way.
    under_way: u64,
    writes: u64,
    window: CommandWindow,
    steps: Steps,
}

/// With [`Timing::Serial`], messages cross one at a time, too: what nodes learn of each other depends on the order in
/// which messages arrive, and with the speeds of parts that would be another one on every machine. Here the order does
/// not depend on them, and a cluster of real nodes can be made to do the same.
///
/// A step is what a message (or a request) leads to at its receiver, disk operations included. What is to be sent then
/// goes to the end of the queue, by receiver.
#[derive(Default)]
struct Steps {
    queue: VecDeque<Held>,
    /// Of the step under way.
    fresh: Vec<Held>,
    crossing: bool,
    disks: u32,
}

/// A message that waits for its turn.
struct Held {
    at: Instant,
    shard: u32,
    to: NodeId,
    message: Message,
    payload: Payload,
}

/// A request that some blocks are missing for.
#[derive(Clone, Copy, Default)]
struct Pending {
    io: Option<Io>,
    parts: u32,
    last: Instant,
}

/// What happens to a cluster.
pub enum ClusterEvent {
    /// A message has crossed the network.
    Arrive {
        /// The receiver.
        to: u16,
        /// The sender.
        from: u16,
        /// What it says.
        message: Message,
    },
    /// A disk is done.
    DiskDone {
        /// Which shard had asked.
        shard: u32,
        /// For what.
        op: OpId,
    },
    /// A shard's timer.
    Timer {
        /// Whose.
        shard: u32,
    },
}

/// No message is ever lost here, so whoever waits waits for a queue: for ever, if need be.
const PATIENCE: Duration = Duration::from_nanos(u64::MAX);
/// Where the number of a request ends in a token and the number of the block begins.
const PART_BITS: u32 = 32;

impl Cluster {
    /// All nodes up, nothing cached.
    ///
    /// # Errors
    /// The policy is not one that nodes can run.
    pub fn new(setup: &Setup) -> Result<Self, SetupError> {
        cards_core::policy::build(&setup.policy)?;
        let placement = Placement::new(setup.placement, setup.nodes);
        let mut shards = Vec::new();
        for node in 0..setup.nodes {
            for shard in 0..setup.shards {
                let capacity = setup.cache_of(node) / u32::from(setup.shards);
                let config = ShardConfig {
                    node: NodeId(node),
                    nodes: setup.nodes,
                    incarnation: 1,
                    shard,
                    shards: setup.shards,
                    capacity_blocks: capacity,
                    block_bytes: setup.block_bytes,
                    replacement: setup.replacement,
                    placement: placement.clone(),
                    peer_timeout: PATIENCE,
                    disk_wait: PATIENCE,
                    park: true,
                };
                let mut shard = Shard::new(config, setup.seed);
                for peer in (0..setup.nodes).filter(|&peer| peer != node) {
                    shard.handle(Instant(0), Input::PeerUp { node: NodeId(peer) });
                }
                shard.handle(Instant(0), Input::WritesAllowed);
                shards.push(shard);
            }
        }
        Ok(Self {
            armed: vec![Instant::NEVER; shards.len()],
            shards,
            volumes: Vec::new(),
            ios: Vec::new(),
            read_ahead: BTreeMap::new(),
            under_way: 0,
            writes: 0,
            window: CommandWindow::new(setup.nodes),
            steps: Steps::default(),
            setup: setup.clone(),
        })
    }

    fn volume_id(&self, volume: u16) -> VolumeId {
        let disk_node = self.setup.disk_node(volume);
        VolumeId::new(NodeId(disk_node), volume / self.setup.disk_nodes)
    }

    /// The trace's number of a volume.
    const fn volume_number(&self, id: VolumeId) -> u16 {
        id.disk() * self.setup.disk_nodes + id.disk_node().0
    }

    /// Attaches a card of the volume at every node (CARD-3).
    fn attach(&mut self, kernel: &mut Kernel<ClusterEvent>, number: u16) {
        let known = usize::from(number) < self.volumes.len() && self.volumes[usize::from(number)];
        if known {
            return;
        }
        self.volumes.resize(self.volumes.len().max(usize::from(number) + 1), false);
        self.volumes[usize::from(number)] = true;
        let id = self.volume_id(number);
        let spec = VolumeSpec {
            id,
            name: format!("volume-{number}"),
            size_bytes: u64::from(u32::MAX) * u64::from(self.setup.block_bytes),
            block_bytes: self.setup.block_bytes,
            policy: self.setup.policy.clone(),
            read_only: false,
            network_attached: self.setup.network_attached,
            coherence: self.setup.coherence,
        };
        let generation = Generation(1);
        let disk_node = id.disk_node();
        for shard in 0..self.shards.len() as u32 {
            self.give(kernel, shard, Input::Volume { spec: spec.clone() });
            if self.node_of(shard) == disk_node.0 {
                for node in (0..self.setup.nodes).map(NodeId).filter(|&node| node != disk_node) {
                    let access = Access::Write;
                    self.give(kernel, shard, Input::CardAttached { volume: id, node, generation, access });
                }
            }
        }
        for shard in 0..self.shards.len() as u32 {
            self.give(kernel, shard, Input::Lease { volume: id, until: Instant::NEVER });
            self.give(kernel, shard, Input::Attached { volume: id, generation });
        }
    }

    const fn node_of(&self, shard: u32) -> u16 {
        (shard / self.setup.shards as u32) as u16
    }

    fn shard_at(&self, node: u16, block: BlockId) -> u32 {
        u32::from(node) * u32::from(self.setup.shards) + u32::from(block.shard(self.setup.shards))
    }

    /// Gives a shard an input and does what it wants done.
    fn give(&mut self, kernel: &mut Kernel<ClusterEvent>, shard: u32, input: Input) {
        let now = kernel.now();
        self.shards[shard as usize].handle(now, input);
        self.drain(kernel, now, shard);
    }

    fn drain(&mut self, kernel: &mut Kernel<ClusterEvent>, now: Instant, shard: u32) {
        let node = self.node_of(shard);
        while let Some(output) = self.shards[shard as usize].poll() {
            match output {
                Output::Send { to, message, payload } => {
                    self.send(kernel, now, shard, to, message, payload);
                }
                Output::Disk { op, volume, work } => {
                    let number = self.volume_number(volume);
                    let bytes = u64::from(self.setup.block_bytes);
                    let at = match work {
                        DiskWork::Read { block, .. } => {
                            kernel.model.disk_read(now, number, block.into(), 1, bytes)
                        }
                        DiskWork::Command { kind: CommandKind::Write, offset, length, .. } => {
                            let blocks = (offset + u64::from(length)).div_ceil(bytes) - offset / bytes;
                            kernel.model.disk_write(now, number, offset / bytes, blocks, length.into())
                        }
                        DiskWork::Command { .. } => now,
                    };
                    self.under_way += 1;
                    self.steps.disks += 1;
                    kernel.at(at, ClusterEvent::DiskDone { shard, op });
                }
                Output::Ready { token, block, slot, .. } => {
                    let token = token.0 >> PART_BITS;
                    if let Some(io) = self.ios[token as usize].io {
                        let bytes = io.bytes_in(block.index.into(), self.setup.block_bytes);
                        let at = kernel.model.local_copy(now, node, bytes);
                        self.part_done(kernel, token as IoToken, at);
                    }
                    self.shards[shard as usize].unpin(slot);
                }
                Output::Failed { token, .. } => {
                    self.part_done(kernel, (token.0 >> PART_BITS) as IoToken, now);
                }
                Output::Done { token, .. } => {
                    self.window.done(node);
                    self.part_done(kernel, (token.0 >> PART_BITS) as IoToken, now);
                }
                Output::Patch { .. } | Output::Release { .. } | Output::Reattach { .. } => {}
            }
        }
        self.arm(kernel, shard);
    }

    fn send(
        &mut self,
        kernel: &mut Kernel<ClusterEvent>,
        now: Instant,
        shard: u32,
        to: NodeId,
        message: Message,
        payload: Payload,
    ) {
        let from = self.node_of(shard);
        if matches!(message.body, Body::Sync { .. } | Body::Synced { .. }) {
            // Volumes are attached before the trace begins, if only it were known which.
            self.tell(kernel, to, NodeId(from), message);
            return;
        }
        self.under_way += 1;
        let held = Held { at: now, shard, to, message, payload };
        match self.setup.timing {
            Timing::Serial => self.steps.fresh.push(held),
            Timing::Trace | Timing::Fast => self.cross(kernel, held),
        }
    }

    /// A message leaves.
    fn cross(&mut self, kernel: &mut Kernel<ClusterEvent>, held: Held) {
        let Held { at: now, shard, to, message, payload } = held;
        let from = self.node_of(shard);
        let bytes = match (&message.body, payload) {
            (Body::Command { length, .. }, Payload::Buffer(_)) => u64::from(*length),
            (_, Payload::None) => 0,
            _ => u64::from(self.setup.block_bytes),
        };
        let at = match bytes {
            0 => kernel.model.send(now, from, to.0),
            bytes => kernel.model.send_data(now, from, to.0, bytes),
        };
        kernel.at(at, ClusterEvent::Arrive { to: to.0, from, message });
        // There are no bytes, so they need not wait for the link.
        if let Payload::Slot(slot) = payload {
            self.shards[shard as usize].unpin(slot);
        }
    }

    /// The next message crosses, if all that the last one has led to is done.
    fn step(&mut self, kernel: &mut Kernel<ClusterEvent>) {
        if self.steps.crossing || self.steps.disks > 0 || self.setup.timing != Timing::Serial {
            return;
        }
        self.steps.fresh.sort_by_key(|held| (held.shard / u32::from(self.setup.shards), held.to));
        self.steps.queue.extend(self.steps.fresh.drain(..));
        if let Some(mut held) = self.steps.queue.pop_front() {
            self.steps.crossing = true;
            held.at = held.at.max(kernel.now());
            let (at, shard) = (held.at, held.shard);
            self.cross(kernel, held);
            self.drain(kernel, at, shard);
        }
    }

    /// A message without a payload arrives at once and costs nothing.
    fn tell(&mut self, kernel: &mut Kernel<ClusterEvent>, to: NodeId, from: NodeId, message: Message) {
        let shard = u32::from(to.0) * u32::from(self.setup.shards) + u32::from(message.shard);
        self.give(kernel, shard, Input::Message { from, message, payload: Payload::None });
    }

    fn arm(&mut self, kernel: &mut Kernel<ClusterEvent>, shard: u32) {
        if let Some((at, _)) = self.shards[shard as usize].next_timeout()
            && at < self.armed[shard as usize]
        {
            self.armed[shard as usize] = at;
            kernel.at(at, ClusterEvent::Timer { shard });
        }
    }

    fn part_done(&mut self, kernel: &mut Kernel<ClusterEvent>, token: IoToken, at: Instant) {
        let pending = &mut self.ios[token as usize];
        pending.parts -= 1;
        pending.last = pending.last.max(at);
        if pending.parts == 0 {
            pending.io = None;
            let last = pending.last;
            self.under_way -= 1;
            kernel.complete(token, last);
        }
    }

    fn read(&mut self, kernel: &mut Kernel<ClusterEvent>, io: &Io, id: VolumeId) {
        for block in io.first..io.first + u64::from(io.blocks) {
            let now = kernel.now();
            let id = BlockId::new(id, block as u32);
            let shard = self.shard_at(io.node, id);
            let token = Token(u64::from(io.token) << PART_BITS | u64::from(block as u32));
            match self.shards[shard as usize].read(now, token, id) {
                Read::Hit(slot) => {
                    self.shards[shard as usize].unpin(slot);
                    let bytes = io.bytes_in(block, self.setup.block_bytes);
                    let at = kernel.model.local_copy(now, io.node, bytes);
                    self.part_done(kernel, io.token, at);
                }
                Read::Pending => self.drain(kernel, now, shard),
            }
        }
    }

    /// Fetches what the process will probably read next.
    fn run_ahead(&mut self, kernel: &mut Kernel<ClusterEvent>, io: &Io, id: VolumeId) {
        let (window, block_bytes) = (self.setup.read_ahead, self.setup.block_bytes);
        if window == Window::Off {
            return;
        }
        let detector = self
            .read_ahead
            .entry((io.process, io.volume))
            .or_insert_with(|| ReadAhead::new(window, block_bytes));
        let Some(range) = detector.on_read(io.offset, io.bytes) else { return };
        let block = u64::from(block_bytes);
        for index in range.start / block..range.end.div_ceil(block).min(u64::from(u32::MAX)) {
            let block = BlockId::new(id, index as u32);
            let shard = self.shard_at(io.node, block);
            self.give(kernel, shard, Input::ReadAhead { block });
        }
    }

    /// Writes and trims go in commands of one stripe each.
    fn command(&mut self, kernel: &mut Kernel<ClusterEvent>, io: &Io, volume: VolumeId, kind: CommandKind) {
        let end = io.offset + u64::from(io.bytes);
        self.window.push(io.node, Rest { token: io.token, volume, kind, offset: io.offset, end });
        self.send_commands(kernel, io.node);
    }

    /// Sends what may be sent of the commands that wait.
    fn send_commands(&mut self, kernel: &mut Kernel<ClusterEvent>, node: u16) {
        let block_bytes = u64::from(self.setup.block_bytes);
        while let Some(command) = self.window.next(node, u64::from(STRIPE_BLOCKS) * block_bytes) {
            let Rest { token, volume, kind, offset, end } = command;
            let shard = self.shard_at(node, BlockId::new(volume, (offset / block_bytes) as u32));
            let payload = match kind {
                CommandKind::Write => Payload::Buffer(BufferId(0)),
                _ => Payload::None,
            };
            let token = Token(u64::from(token) << PART_BITS);
            let length = (end - offset) as u32;
            let input = Input::Command { token, volume, kind, offset, length, fua: false, payload };
            self.give(kernel, shard, input);
        }
    }

    /// Nodes whose commands have ended send others.
    fn go_on_with_commands(&mut self, kernel: &mut Kernel<ClusterEvent>) {
        while let Some(node) = self.window.freed() {
            self.send_commands(kernel, node);
        }
    }

    fn parts_of(&self, io: &Io) -> u32 {
        match io.op {
            Op::Read => io.blocks,
            Op::Write | Op::Trim => {
                let stripe = u64::from(STRIPE_BLOCKS);
                let last = io.first + u64::from(io.blocks).max(1) - 1;
                if io.blocks == 0 { 0 } else { (last / stripe - io.first / stripe + 1) as u32 }
            }
            Op::Flush | Op::Open | Op::Close | Op::Send { .. } => 0,
        }
    }

    fn arrive(&mut self, kernel: &mut Kernel<ClusterEvent>, to: u16, from: u16, message: Message) {
        let shard = u32::from(to) * u32::from(self.setup.shards) + u32::from(message.shard);
        let now = kernel.now();
        let payload = if message.body.has_payload() {
            match self.shards[shard as usize].landing(NodeId(from), &message) {
                Landing::Slot(slot) => Payload::Slot(slot),
                Landing::Buffer => Payload::Buffer(BufferId(0)),
                Landing::Discard => Payload::None,
            }
        } else {
            Payload::None
        };
        let bytes = match (&message.body, payload) {
            (_, Payload::None) => 0,
            (Body::Command { length, .. }, _) => u64::from(*length),
            _ => u64::from(self.setup.block_bytes),
        };
        let serves = matches!(message.body, Body::Read { .. } | Body::Command { .. });
        let mut ready = match bytes {
            0 => kernel.model.receive(now, to),
            bytes => kernel.model.receive_data(now, to, bytes),
        };
        if serves {
            let service = kernel.model.machine().service;
            ready = kernel.model.work(ready, to, service);
        }
        let input = Input::Message { from: NodeId(from), message, payload };
        self.shards[shard as usize].handle(now, input);
        self.drain(kernel, ready, shard);
    }
}

impl Engine for Cluster {
    type Event = ClusterEvent;

    fn submit(&mut self, kernel: &mut Kernel<ClusterEvent>, io: Io) {
        self.attach(kernel, io.volume);
        if self.ios.len() <= io.token as usize {
            self.ios.resize(io.token as usize + 1, Pending::default());
        }
        let parts = self.parts_of(&io);
        if parts == 0 {
            // Metadata is nobody's business here: there are no files, only blocks.
            kernel.complete(io.token, kernel.now());
            return;
        }
        self.under_way += 1;
        self.ios[io.token as usize] = Pending { io: Some(io), parts, last: kernel.now() };
        let id = self.volume_id(io.volume);
        match io.op {
            Op::Read => {
                self.read(kernel, &io, id);
                self.run_ahead(kernel, &io, id);
            }
            Op::Write => {
                self.writes += u64::from(io.blocks);
                self.command(kernel, &io, id, CommandKind::Write);
            }
            _ => self.command(kernel, &io, id, CommandKind::Trim),
        }
        self.go_on_with_commands(kernel);
        self.step(kernel);
    }

    fn event(&mut self, kernel: &mut Kernel<ClusterEvent>, event: ClusterEvent) {
        match event {
            ClusterEvent::Arrive { to, from, message } => {
                self.under_way -= 1;
                self.steps.crossing = false;
                self.arrive(kernel, to, from, message);
            }
            ClusterEvent::DiskDone { shard, op } => {
                self.under_way -= 1;
                self.steps.disks -= 1;
                self.give(kernel, shard, Input::DiskDone { op, result: Ok(()) });
            }
            ClusterEvent::Timer { shard } => {
                self.armed[shard as usize] = Instant::NEVER;
                // A message that waits for its turn is not late.
                let waits = self.setup.timing == Timing::Serial && !self.shards[shard as usize].is_quiet();
                if !waits {
                    self.give(kernel, shard, Input::Timeout);
                }
            }
        }
        self.go_on_with_commands(kernel);
        self.step(kernel);
    }

    fn counts(&self) -> Counts {
        let mut stats = Stats::default();
        self.shards.iter().for_each(|shard| stats.add(shard.stats()));
        Counts {
            local_hits: stats.local_hits,
            remote_hits: stats.remote_hits,
            disk_reads: stats.disk_reads,
            writes: self.writes,
            forwarded: stats.forwarded,
            stored_for_others: stats.stored_for_others,
            stored_in_vain: stats.stored_in_vain,
            evictions: stats.evictions,
            invalidations: stats.invalidations,
            stale_hints: stats.stale_hints,
            ..Counts::default()
        }
    }

    fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    fn table_bytes(&self) -> usize {
        self.shards.iter().map(Shard::index_bytes).sum()
    }

    fn cached_blocks(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.resident())).sum()
    }

    fn check(&self, _now: Instant) {
        self.shards.iter().for_each(Shard::check);
    }
}
