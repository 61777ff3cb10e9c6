//! Shards and controls of a whole cluster in one thread, without clocks, sockets or disks: what one says, the other hears.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use cards_core::{
    Access, BlockId, BufferId, Coherence, CommandKind, Control, ControlConfig, ControlInput, ControlMessage,
    ControlOutput, Duration, Handover, Input, Instant, Landing, Limits, Message, NoLimits, NodeId, OpId,
    Output, Payload, PgId, Placement, PlacementKind, Read, Shard, ShardConfig, Token, VolumeSpec,
};
use cards_policies::{BuiltIn, Replacement};

use crate::proc::cpu::thread_ns;

/// Bytes of a block.
const BLOCK: u32 = 4096;
/// Blocks that a node can cache.
pub(super) const CAPACITY: u32 = 64;
/// The node that has the disks.
const PRIMARY: NodeId = NodeId(0);
/// How long leases are.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// How exactly time passes.
const TICK: Duration = Duration::from_millis(10);

/// See the module's head.
pub(super) struct Cluster {
    nodes: Vec<Node>,
    now: Instant,
    mail: Vec<Letter>,
    disk: VecDeque<OpId>,
    /// Messages that were sent.
    pub(super) messages: u64,
    /// Processor time at the disk node.
    pub(super) primary_ns: u64,
    /// Commands that were done, cards that were attached, blocks that came.
    pub(super) done: u64,
}

struct Node {
    control: Control,
    shard: Shard,
}

struct Letter {
    from: NodeId,
    to: NodeId,
    word: Word,
}

enum Word {
    Shard(Message, Payload),
    Control(ControlMessage),
}

/// The volume on disk number `disk`.
fn volume(disk: u16) -> PgId {
    PgId::plain(PRIMARY, disk)
}

fn spec(disk: u16) -> VolumeSpec {
    VolumeSpec {
        id: volume(disk),
        primary: volume(disk).disk_node(),
        epoch: 1,
        name: format!("disk{disk}"),
        size_bytes: 1 << 40,
        block_bytes: BLOCK,
        policy: "rd".to_owned(),
        read_only: false,
        content: 0,
        network_attached: false,
        coherence: Coherence::Confirmed,
        handover: Handover::Disk,
    }
}

impl Cluster {
    /// A disk node with so many disks and so many other nodes, which have met and have no cards yet.
    pub(super) fn new(cards: u16, disks: u16) -> Self {
        let placement = Placement::new(PlacementKind::Modulo, cards + 1);
        let specs: Vec<VolumeSpec> = (0..disks).map(spec).collect();
        let node = |node: u16| {
            let config = ControlConfig {
                node: NodeId(node),
                nodes: cards + 1,
                incarnation: 1,
                algorithms: BuiltIn::with(Replacement::Lru),
                rights: Arc::new(NoLimits),
                lease: LEASE,
                disk_wait: Duration::from_secs(30),
                disks: if node == PRIMARY.0 { specs.clone() } else { Vec::new() },
                journals: Vec::new(),
                acquainted: Vec::new(),
                cards: Default::default(),
            };
            let shard = ShardConfig {
                node: NodeId(node),
                nodes: cards + 1,
                incarnation: 1,
                shard: 0,
                shards: 1,
                capacity_blocks: CAPACITY,
                block_bytes: BLOCK,
                algorithms: BuiltIn::with(Replacement::Lru),
                marks: BTreeMap::new(),
                placement: placement.clone(),
                peer_timeout: Duration::from_millis(500),
                hedge: false,
                disk_wait: Duration::from_secs(30),
                park: true,
                limits: Limits::default(),
            };
            Node { control: Control::new(config, Instant(0)), shard: Shard::new(shard, 1) }
        };
        let mut cluster = Self {
            nodes: (0..=cards).map(node).collect(),
            now: Instant(0),
            mail: Vec::new(),
            disk: VecDeque::new(),
            messages: 0,
            primary_ns: 0,
            done: 0,
        };
        cluster.drain_control(PRIMARY);
        for card in (1..=cards).map(NodeId) {
            cluster.meet(PRIMARY, card, Vec::new());
            cluster.meet(card, PRIMARY, specs.clone());
        }
        cluster.run();
        cluster
    }

    fn meet(&mut self, node: NodeId, peer: NodeId, disks: Vec<VolumeSpec>) {
        self.control(node, ControlInput::PeerUp { node: peer, incarnation: 1, succeeds: None, disks });
        self.shard(node, Input::PeerUp { node: peer });
    }

    /// Attaches a disk at a node, to write.
    pub(super) fn attach(&mut self, node: u16, disk: u16) {
        let (policy, access) = (String::new(), Access::Write);
        let input = ControlInput::Attach {
            token: Token(1),
            volume: volume(disk),
            policy,
            access,
            takeover: false,
            succeeds: None,
            first: None,
        };
        self.control(NodeId(node), input);
        self.run();
    }

    /// Writes blocks of the first disk, all at the same time.
    pub(super) fn write(&mut self, node: u16, blocks: impl Iterator<Item = u32>) {
        for block in blocks {
            let input = Input::Command {
                token: Token(u64::from(block)),
                volume: volume(0),
                kind: CommandKind::Write,
                offset: u64::from(block) * u64::from(BLOCK),
                length: BLOCK,
                fua: false,
                payload: Payload::Buffer(BufferId(u64::from(block))),
            };
            self.shard(NodeId(node), input);
        }
        self.run();
    }

    /// Reads a block of the first disk at a node.
    pub(super) fn read(&mut self, node: u16, block: u32) {
        let shard = &mut self.nodes[usize::from(node)].shard;
        match shard.read(self.now, Token(1), BlockId::new(volume(0), block)) {
            Read::Hit(slot, _) => {
                shard.unpin(slot);
                self.done += 1;
            }
            Read::Pending => self.drain_shard(NodeId(node)),
        }
        self.run();
    }

    /// Lets time pass for the controls.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = end.min(self.now + TICK);
            for node in 0..self.nodes.len() {
                if self.nodes[node].control.next_timeout().is_some_and(|(at, _)| at <= self.now) {
                    let begin = thread_ns();
                    self.control(NodeId(node as u16), ControlInput::Timeout);
                    self.primary_ns += if node == 0 { thread_ns() - begin } else { 0 };
                }
            }
            self.run();
        }
    }

    /// Nanoseconds to ask the disk node's control and shard when they want to be woken, and to wake each for nothing.
    pub(super) fn idle_ns(&mut self) -> [f64; 4] {
        const TIMES: u32 = 1000;
        fn timed(mut work: impl FnMut()) -> f64 {
            let begin = thread_ns();
            (0..TIMES).for_each(|_| work());
            (thread_ns() - begin) as f64 / f64::from(TIMES)
        }
        let (now, Node { control, shard }) = (self.now, &mut self.nodes[0]);
        [
            timed(|| _ = std::hint::black_box(control.next_timeout())),
            timed(|| control.handle(now, ControlInput::Timeout)),
            timed(|| _ = std::hint::black_box(shard.next_timeout())),
            timed(|| shard.handle(now, Input::Timeout)),
        ]
    }

    /// Bytes of memory that shards and controls give back: the disk node's, and those of all others together.
    pub(super) fn bytes(self) -> Option<[[f64; 2]; 2]> {
        let mut nodes = self.nodes;
        let others = nodes.split_off(1);
        let freed = |nodes: Vec<Node>| {
            let (controls, shards): (Vec<Control>, Vec<Shard>) =
                nodes.into_iter().map(|Node { control, shard }| (control, shard)).unzip();
            let all = heap_bytes()? as f64;
            shards.into_iter().for_each(drop);
            let rest = heap_bytes()? as f64;
            controls.into_iter().for_each(drop);
            Some([all - rest, rest - heap_bytes()? as f64])
        };
        Some([freed(nodes)?, freed(others)?])
    }

    /// What the disk node's shard says of its tables.
    pub(super) fn index_bytes(&self) -> usize {
        self.nodes[0].shard.index_bytes()
    }

    /// Blocks in the caches of all nodes but the disk node.
    pub(super) fn cached(&self) -> u64 {
        self.nodes[1..].iter().map(|node| u64::from(node.shard.resident())).sum()
    }

    /// Locks that the disk node has revoked.
    pub(super) fn revoked(&self) -> u64 {
        self.nodes[0].shard.stats().locks_revoked
    }

    /// Until nothing moves any more. What comes to the disk node in one turn is timed together.
    fn run(&mut self) {
        while !self.mail.is_empty() || !self.disk.is_empty() {
            let (mail, disk) = (mem::take(&mut self.mail), mem::take(&mut self.disk));
            let (to_primary, to_cards): (Vec<Letter>, Vec<Letter>) =
                mail.into_iter().partition(|letter| letter.to == PRIMARY);
            let begin = thread_ns();
            to_primary.into_iter().for_each(|letter| self.deliver(letter));
            for op in disk {
                self.shard(PRIMARY, Input::DiskDone { op, result: Ok(()) });
            }
            self.primary_ns += thread_ns() - begin;
            to_cards.into_iter().for_each(|letter| self.deliver(letter));
        }
    }

    fn deliver(&mut self, Letter { from, to, word }: Letter) {
        let (message, payload) = match word {
            Word::Control(message) => return self.control(to, ControlInput::Message { from, message }),
            Word::Shard(message, payload) => (message, payload),
        };
        let landed = match payload {
            Payload::None => Payload::None,
            Payload::Slot(_) | Payload::Buffer(_) => {
                match self.nodes[usize::from(to.0)].shard.landing(from, &message) {
                    Landing::Slot(slot) => Payload::Slot(slot),
                    Landing::Buffer => Payload::Buffer(BufferId(0)),
                    Landing::Discard => Payload::None,
                }
            }
        };
        if let Payload::Slot(slot) = payload {
            self.nodes[usize::from(from.0)].shard.unpin(slot);
            self.drain_shard(from);
        }
        self.shard(to, Input::Message { from, message, payload: landed });
    }

    fn control(&mut self, node: NodeId, input: ControlInput) {
        self.nodes[usize::from(node.0)].control.handle(self.now, input);
        self.drain_control(node);
    }

    fn drain_control(&mut self, node: NodeId) {
        while let Some(output) = self.nodes[usize::from(node.0)].control.poll() {
            match output {
                ControlOutput::Send { to, message } => self.send(node, to, Word::Control(message)),
                ControlOutput::Shards { input } => self.shard(node, input),
                ControlOutput::AttachDone { result: Ok(_), .. } => self.done += 1,
                _ => {}
            }
        }
    }

    fn shard(&mut self, node: NodeId, input: Input) {
        self.nodes[usize::from(node.0)].shard.handle(self.now, input);
        self.drain_shard(node);
    }

    fn drain_shard(&mut self, node: NodeId) {
        while let Some(output) = self.nodes[usize::from(node.0)].shard.poll() {
            match output {
                Output::Send { to, message, payload } => self.send(node, to, Word::Shard(message, payload)),
                Output::Disk { op, .. } => self.disk.push_back(op),
                Output::Done { result: Ok(()), .. } => self.done += 1,
                Output::Ready { slot, .. } => {
                    self.done += 1;
                    self.nodes[usize::from(node.0)].shard.unpin(slot);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, word: Word) {
        self.messages += 1;
        self.mail.push(Letter { from, to, word });
    }
}

/// Bytes that are allocated, where the C library tells.
fn heap_bytes() -> Option<usize> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallinfo2 has no preconditions.
        let info = unsafe { libc::mallinfo2() };
        Some(info.uordblks + info.hblkhd)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}
