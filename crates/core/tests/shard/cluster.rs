//! Shards talking to each other over a network that keeps order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cards_core::*;
use cards_policies::{BuiltIn, Replacement};

pub(crate) const V: PgId = PgId::plain(NodeId(0), 0);
pub(crate) const BLOCK_BYTES: u32 = 4096;
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_millis(500);
pub(crate) const DISK_WAIT: Duration = Duration::from_secs(30);

/// Nodes of one shard each. Node 0 has the disk.
pub(crate) struct Cluster {
    pub(crate) setup: Setup,
    pub(crate) nodes: Vec<Shard>,
    pub(crate) wire: VecDeque<(NodeId, NodeId, Message, Payload)>,
    /// What each node's clients were answered.
    pub(crate) answers: Vec<(NodeId, Output)>,
    pub(crate) disk_reads: u32,
    pub(crate) disk_writes: u32,
    pub(crate) log: Vec<String>,
    pub(crate) now: Instant,
    pub(crate) hold_disk: bool,
    pub(crate) disk: VecDeque<(NodeId, OpId)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) nodes: u16,
    pub(crate) capacity: u32,
    pub(crate) policy: &'static str,
    pub(crate) network_attached: bool,
    pub(crate) coherence: Coherence,
    pub(crate) read_only: bool,
    pub(crate) handover: Handover,
    /// Until when all cards may use copies.
    pub(crate) lease: Instant,
    /// None: the real ones.
    pub(crate) limits: Option<Limits>,
    pub(crate) hedge: bool,
    /// None: those with names, with LRU.
    pub(crate) algorithms: Option<&'static Arc<dyn Algorithms>>,
}

pub(crate) const SETUP: Setup = Setup {
    nodes: 3,
    capacity: 8,
    policy: "hscc load=home",
    network_attached: false,
    coherence: Coherence::Confirmed,
    read_only: false,
    handover: Handover::Cache,
    lease: Instant::NEVER,
    limits: None,
    hedge: false,
    algorithms: None,
};

impl Setup {
    pub(crate) fn spec(&self) -> VolumeSpec {
        VolumeSpec {
            id: V,
            primary: NodeId(0),
            epoch: 1,
            name: "disk".to_string(),
            size_bytes: 1 << 30,
            block_bytes: BLOCK_BYTES,
            policy: self.policy.to_string(),
            read_only: self.read_only,
            content: 0,
            network_attached: self.network_attached,
            coherence: self.coherence,
            handover: self.handover,
        }
    }

    pub(crate) fn config(&self, node: u16, incarnation: u64) -> ShardConfig {
        ShardConfig {
            node: NodeId(node),
            nodes: self.nodes,
            incarnation,
            shard: 0,
            shards: 1,
            capacity_blocks: self.capacity,
            block_bytes: BLOCK_BYTES,
            algorithms: self.algorithms.map_or_else(|| BuiltIn::with(Replacement::Lru), Arc::clone),
            placement: self.placement(),
            peer_timeout: PEER_TIMEOUT,
            hedge: self.hedge,
            disk_wait: DISK_WAIT,
            marks: BTreeMap::new(),
            park: true,
            limits: self.limits.unwrap_or_default(),
        }
    }

    pub(crate) fn placement(&self) -> Placement {
        Placement::new(PlacementKind::Modulo, self.nodes)
    }
}

impl Cluster {
    /// All cards hold the locks on the first region.
    pub(crate) fn new(setup: Setup) -> Self {
        let mut cluster = Self::cold(setup);
        for node in 1..setup.nodes {
            cluster.nodes[usize::from(node)].acquire_lock(BlockId::new(V, 0));
            cluster.drain(node);
        }
        cluster.run();
        cluster.log.clear();
        cluster
    }

    /// No card holds a lock.
    pub(crate) fn cold(setup: Setup) -> Self {
        let mut cluster = Self {
            setup,
            nodes: (0..setup.nodes).map(|node| Shard::new(setup.config(node, 1), 1)).collect(),
            wire: VecDeque::new(),
            answers: Vec::new(),
            disk_reads: 0,
            disk_writes: 0,
            log: Vec::new(),
            now: Instant(0),
            hold_disk: false,
            disk: VecDeque::new(),
        };
        for node in 0..setup.nodes {
            cluster.give(node, Input::Volume { spec: setup.spec() });
            for peer in (0..setup.nodes).filter(|&p| p != node) {
                cluster.give(node, Input::PeerUp { node: NodeId(peer) });
            }
        }
        cluster.give(0, Input::WritesAllowed { volume: V });
        for node in 0..setup.nodes {
            let generation = Generation(u64::from(node) + 1);
            if node > 0 {
                cluster.give(
                    0,
                    Input::CardAttached {
                        volume: V,
                        node: NodeId(node),
                        life: 1,
                        generation,
                        access: Access::Write,
                    },
                );
            }
            cluster.give(node, Input::Attached { volume: V, generation, access: Access::Write });
            cluster.give(node, Input::Lease { volume: V, until: setup.lease });
        }
        cluster.run();
        cluster.log.clear();
        cluster
    }

    pub(crate) fn give(&mut self, node: u16, input: Input) {
        let shard = &mut self.nodes[usize::from(node)];
        shard.handle(self.now, input);
        self.drain(node);
    }

    pub(crate) fn drain(&mut self, node: u16) {
        let me = NodeId(node);
        while let Some(output) = self.nodes[usize::from(node)].poll() {
            match output {
                Output::Send { to, message, payload } => {
                    self.log.push(format!("{me:?}->{to:?} {}", brief(&message.body)));
                    self.wire.push_back((me, to, message, payload));
                }
                Output::Disk { op, work, .. } => {
                    match work {
                        DiskWork::Read { .. } => self.disk_reads += 1,
                        DiskWork::Command { .. } => self.disk_writes += 1,
                    }
                    self.disk.push_back((me, op));
                }
                output => self.answers.push((me, output)),
            }
        }
        self.nodes[usize::from(node)].check();
    }

    /// Until nothing moves any more.
    pub(crate) fn run(&mut self) {
        loop {
            if let Some((from, to, message, payload)) = self.wire.pop_front() {
                self.arrive(from, to, message, payload);
            } else if !self.hold_disk
                && let Some((node, op)) = self.disk.pop_front()
            {
                self.give(node.0, Input::DiskDone { op, result: Ok(()) });
            } else {
                return;
            }
        }
    }

    pub(crate) fn arrive(&mut self, from: NodeId, to: NodeId, message: Message, payload: Payload) {
        let landed = match payload {
            Payload::None => Payload::None,
            Payload::Slot(_) | Payload::Buffer(_) => {
                match self.nodes[usize::from(to.0)].landing(from, &message) {
                    Landing::Slot(slot) => Payload::Slot(slot),
                    Landing::Buffer => Payload::Buffer(BufferId(99)),
                    Landing::Discard => Payload::None,
                }
            }
        };
        if let Payload::Slot(slot) = payload {
            self.nodes[usize::from(from.0)].unpin(slot);
            self.drain(from.0);
        }
        self.give(to.0, Input::Message { from, message, payload: landed });
    }

    /// Reads a block at a node to the end; what was said on the way, but for locks.
    pub(crate) fn read(&mut self, node: u16, index: u32) -> Vec<String> {
        self.log.clear();
        let block = BlockId::new(V, index);
        match self.nodes[usize::from(node)].read(self.now, Token(7), block) {
            Read::Hit(slot, _) => self.nodes[usize::from(node)].unpin(slot),
            Read::Pending => {
                self.drain(node);
                self.run();
                self.finish_reads();
            }
        }
        let of_blocks = |line: &&String| !line.contains("acquire") && !line.contains("granted");
        self.log.iter().filter(of_blocks).cloned().collect()
    }

    pub(crate) fn finish_reads(&mut self) {
        let answers = core::mem::take(&mut self.answers);
        for (node, output) in answers {
            match output {
                Output::Ready { slot, .. } => {
                    self.nodes[usize::from(node.0)].unpin(slot);
                    self.drain(node.0);
                }
                output => self.answers.push((node, output)),
            }
        }
        self.run();
    }

    pub(crate) fn write(&mut self, node: u16, index: u32) {
        let offset = u64::from(index) * u64::from(BLOCK_BYTES);
        let kind = CommandKind::Write;
        let payload = Payload::Buffer(BufferId(1));
        let input = Input::Command {
            token: Token(8),
            volume: V,
            kind,
            offset,
            length: BLOCK_BYTES,
            fua: false,
            payload,
        };
        self.give(node, input);
        self.run();
    }

    pub(crate) fn stats(&self, node: u16) -> Stats {
        *self.nodes[usize::from(node)].stats()
    }

    pub(crate) fn has(&self, node: u16, index: u32) -> bool {
        self.nodes[usize::from(node)].contains(BlockId::new(V, index))
    }

    /// A block whose home is `node`.
    pub(crate) fn homed_at(&self, node: u16) -> u32 {
        let placement = self.setup.placement();
        (0..).find(|&i| placement.home(BlockId::new(V, i)) == NodeId(node)).unwrap()
    }
}

pub(crate) fn brief(body: &Body) -> String {
    match body {
        Body::Read { block, requester, .. } => format!("read {block} for {requester:?}"),
        Body::Data { block, source, .. } => format!("data {block} from {source:?}"),
        Body::Store { block, class, .. } => format!("store {block} {class:?}"),
        Body::StoreAck { block, outcome } => format!("stored {block} {outcome:?}"),
        Body::Note { block, note } => format!("note {block} {note:?}"),
        Body::Invalidate { block, count, .. } => format!("invalidate {block}+{count}"),
        Body::InvalidateAck { .. } => "invalidated".to_string(),
        Body::Acquire { block, .. } => format!("acquire {block}"),
        Body::Granted { block, .. } => format!("granted {block}"),
        Body::Command { kind, .. } => format!("command {kind:?}"),
        Body::Probe { .. } => "probe".into(),
        Body::Void { .. } => "void".into(),
        Body::CommandDone { result, .. } => format!("done {result:?}"),
        Body::Nack { error, .. } => format!("nack {error:?}"),
    }
}
