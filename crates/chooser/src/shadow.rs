//! One candidate's cluster: shards that talk to each other, a message at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cards_advise::Access as Use;
use cards_core::{
    Access, BlockId, Body, BufferId, Coherence, CommandKind, DiskWork, Duration, Generation, Handover, Input,
    Instant, Landing, Limits, Message, NodeId, OpId, Output, Payload, PgId, Placement, PlacementKind, Read,
    Shard, ShardConfig, Token, VolumeSpec,
};
use cards_policies::{BuiltIn, Replacement};

use crate::costs::Costs;
use crate::path::Path;

/// What all shadows of a volume have in common. The first node has the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Blocks of each node's cache, scaled down to the sample.
    pub caches: Vec<u32>,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Which block leaves a cache.
    pub replacement: Replacement,
    /// The disk node keeps no copies of what others read.
    pub network_attached: bool,
    /// How blocks get their homes.
    pub placement: PlacementKind,
}

/// A cluster with one policy.
pub struct Shadow {
    nodes: Vec<Shard>,
    block_bytes: u32,
    now: Instant,
    /// By time, then by the order in which they were caused.
    queue: BinaryHeap<Reverse<(Instant, u64)>>,
    events: BTreeMap<u64, Event>,
    caused: u64,
    costs: Costs,
    /// Of the read under way, when it is answered.
    answer: Option<Path>,
    /// All steps since the last [`Self::refer`].
    steps: Path,
}

#[derive(Debug)]
struct Event {
    to: u16,
    what: What,
    /// What it took from the reference that has caused it until now.
    path: Path,
}

#[derive(Debug)]
enum What {
    Message { from: u16, message: Message },
    DiskDone(OpId),
}

/// No message is lost here, so nothing is repeated.
const PATIENCE: Duration = Duration::from_nanos(u64::MAX);
const VOLUME: PgId = PgId::plain(NodeId(0), 0);
/// Events of one reference at most: a policy that keeps sending is worth nothing.
const EVENTS_MAX: u32 = 10_000;

impl Shadow {
    /// An empty cluster with this policy; none if nodes cannot run it.
    #[must_use]
    pub fn new(cluster: &Cluster, policy: &str) -> Option<Self> {
        cards_policies::policy::build(policy).ok()?;
        let number = u16::try_from(cluster.caches.len()).ok().filter(|&nodes| nodes > 0)?;
        let placement = Placement::new(cluster.placement, number);
        let algorithms = BuiltIn::with(cluster.replacement);
        let nodes = (0..number).zip(&cluster.caches).map(|(node, &cache)| {
            let config = ShardConfig {
                node: NodeId(node),
                nodes: number,
                incarnation: 1,
                shard: 0,
                shards: 1,
                capacity_blocks: cache.max(1),
                block_bytes: cluster.block_bytes,
                algorithms: algorithms.clone(),
                placement: placement.clone(),
                peer_timeout: PATIENCE,
                hedge: false,
                disk_wait: PATIENCE,
                marks: BTreeMap::new(),
                park: true,
                limits: Limits::default(),
            };
            Shard::new(config, 1)
        });
        let mut shadow = Self {
            nodes: nodes.collect(),
            block_bytes: cluster.block_bytes,
            now: Instant(0),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            caused: 0,
            costs: Costs::default(),
            answer: None,
            steps: Path::default(),
        };
        shadow.attach(cluster, policy);
        Some(shadow)
    }

    fn attach(&mut self, cluster: &Cluster, policy: &str) {
        let spec = VolumeSpec {
            id: VOLUME,
            primary: NodeId(0),
            epoch: 0,
            name: "shadow".into(),
            size_bytes: u64::from(u32::MAX) * u64::from(cluster.block_bytes),
            block_bytes: cluster.block_bytes,
            policy: policy.into(),
            read_only: false,
            content: 0,
            network_attached: cluster.network_attached,
            coherence: Coherence::Confirmed,
            handover: Handover::Cache,
        };
        let (generation, access) = (Generation(1), Access::Write);
        let nodes = self.nodes.len() as u16;
        for node in 0..nodes {
            for peer in (0..nodes).filter(|&peer| peer != node) {
                self.give(node, Input::PeerUp { node: NodeId(peer) });
            }
            self.give(node, Input::Volume { spec: spec.clone() });
        }
        self.give(0, Input::WritesAllowed { volume: VOLUME });
        for node in 1..nodes {
            let node = NodeId(node);
            self.give(0, Input::CardAttached { volume: VOLUME, node, life: 1, generation, access });
        }
        for node in 0..nodes {
            self.give(node, Input::Lease { volume: VOLUME, until: Instant::NEVER });
            self.give(node, Input::Attached { volume: VOLUME, generation, access });
        }
        self.settle();
    }

    /// What steps take from now on, as policies measure it.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// A client of a node refers to a block, at a time that is not earlier than that of the reference before. What a read waited for,
    /// and the steps beside it; all steps of a write are beside.
    pub fn refer(&mut self, at: Instant, node: u16, index: u32, access: Use) -> (Path, Path) {
        self.now = self.now.max(at);
        for node in 0..self.nodes.len() as u16 {
            if self.nodes[usize::from(node)].next_timeout().is_some_and(|(at, _)| at <= self.now) {
                self.give(node, Input::Timeout);
            }
        }
        if usize::from(node) >= self.nodes.len() {
            return (Path::default(), Path::default());
        }
        self.answer = None;
        match access {
            Use::Read => self.read(node, BlockId::new(VOLUME, index)),
            Use::Write | Use::PartialWrite => {
                let length = if access == Use::Write { self.block_bytes } else { self.block_bytes / 2 };
                let input = Input::Command {
                    token: Token(1),
                    volume: VOLUME,
                    kind: CommandKind::Write,
                    offset: u64::from(index) * u64::from(self.block_bytes),
                    length,
                    fua: false,
                    payload: Payload::Buffer(BufferId(0)),
                };
                self.give(node, input);
            }
        }
        self.settle();
        let path = self.answer.take().unwrap_or_default();
        (path, std::mem::take(&mut self.steps) - path)
    }

    /// Blocks in all caches, copies included.
    #[must_use]
    pub fn cached(&self) -> u64 {
        self.nodes.iter().map(|shard| u64::from(shard.resident())).sum()
    }

    /// Bytes of the shards' tables.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.nodes.iter().map(Shard::index_bytes).sum()
    }

    fn read(&mut self, node: u16, block: BlockId) {
        match self.nodes[usize::from(node)].read(self.now, Token(0), block) {
            Read::Hit(slot, _) => self.nodes[usize::from(node)].unpin(slot),
            Read::Pending => {}
        }
        self.drain(node, Path::default());
    }

    fn give(&mut self, node: u16, input: Input) {
        self.nodes[usize::from(node)].handle(self.now, input);
        self.drain(node, Path::default());
    }

    /// Until nothing is under way.
    fn settle(&mut self) {
        for _ in 0..EVENTS_MAX {
            let Some(Reverse((at, number))) = self.queue.pop() else { return };
            let Some(Event { to, what, path }) = self.events.remove(&number) else { continue };
            self.now = self.now.max(at);
            let shard = &mut self.nodes[usize::from(to)];
            match what {
                What::DiskDone(op) => shard.handle(self.now, Input::DiskDone { op, result: Ok(()) }),
                What::Message { from, message } => {
                    let from = NodeId(from);
                    let payload = match message.body.has_payload().then(|| shard.landing(from, &message)) {
                        Some(Landing::Slot(slot)) => Payload::Slot(slot),
                        Some(Landing::Buffer) => Payload::Buffer(BufferId(0)),
                        Some(Landing::Discard) | None => Payload::None,
                    };
                    shard.handle(self.now, Input::Message { from, message, payload });
                }
            }
            self.drain(to, path);
        }
    }

    fn drain(&mut self, node: u16, path: Path) {
        while let Some(output) = self.nodes[usize::from(node)].poll() {
            match output {
                Output::Send { to, message, payload } => {
                    if let Payload::Slot(slot) = payload {
                        self.nodes[usize::from(node)].unpin(slot);
                    }
                    let (step, takes) = self.message(&message.body, payload);
                    self.steps = self.steps + step;
                    self.cause(to.0, takes, What::Message { from: node, message }, path + step);
                }
                Output::Disk { op, work, .. } => {
                    let (step, takes) = match work {
                        DiskWork::Read { .. } => (Path { disks: 1, ..Path::default() }, self.costs.disk()),
                        // All candidates write as much.
                        DiskWork::Command { .. } => (Path::default(), Duration::ZERO),
                    };
                    self.steps = self.steps + step;
                    self.cause(node, takes, What::DiskDone(op), path + step);
                }
                Output::Ready { slot, .. } => {
                    self.answer = self.answer.or(Some(path));
                    self.nodes[usize::from(node)].unpin(slot);
                }
                Output::Failed { .. }
                | Output::Done { .. }
                | Output::Patch { .. }
                | Output::Release { .. }
                | Output::Silent { .. }
                | Output::SyncFailed { .. }
                | Output::Unseal { .. }
                | Output::Withdraw { .. } => {}
            }
        }
    }

    /// What a message counts as, and takes.
    fn message(&self, body: &Body, payload: Payload) -> (Path, Duration) {
        match body {
            // A lock is for a region of blocks, most of which the sample does not have: it would count too often.
            Body::Acquire { .. } | Body::Granted { .. } => (Path::default(), Duration::ZERO),
            _ if payload == Payload::None => (Path { hops: 1, ..Path::default() }, self.costs.hop()),
            _ => (Path { blocks: 1, ..Path::default() }, self.costs.block()),
        }
    }

    fn cause(&mut self, to: u16, takes: Duration, what: What, path: Path) {
        self.caused += 1;
        self.events.insert(self.caused, Event { to, what, path });
        self.queue.push(Reverse((self.now + takes, self.caused)));
    }
}
