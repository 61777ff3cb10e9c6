//! The production core, with any of the policies that nodes can run.
//!
//! Every node has its [`Shard`]s, exactly as in a daemon; what they say to each other costs what the machine
//! says. Bytes are not modelled: a slot is a number.

mod choice;
mod network;
mod requests;
mod run;
mod steps;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use cards_core::{
    Access, BlockId, CommandKind, DiskWork, Duration, Generation, Input, Instant, Limits, Message, NodeId,
    OpId, Output, PgId, Placement, Shard, ShardConfig, Stats, VolumeSpec,
};
use cards_policies::BuiltIn;
use cards_policies::policy::is_auto;
use cards_policies::read_ahead::ReadAhead;
use cards_trace::Op;
use cards_user_policy::{Module, Modules};

use self::choice::Choice;
use self::requests::{PART_BITS, Pending};
use self::run::Run;
use self::steps::Steps;
use self::window::CommandWindow;
use super::{Counts, Engine};
use crate::kernel::{Io, IoToken, Kernel};
use crate::setup::{Setup, SetupError, Timing};

/// The nodes of a cluster.
pub struct Cluster {
    setup: Setup,
    /// All shards of node 0, then those of node 1, and so on.
    shards: Vec<Shard>,
    /// What each node knows of the module that is the policy, if it is one.
    modules: Vec<Arc<Modules>>,
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
    /// By node: what it sends.
    runs: Vec<Run>,
    /// Who chooses the policy, if that is `auto`.
    choice: Option<Choice>,
    /// Requests so far, with serial timing: what policies take for milliseconds.
    requests: u64,
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
        /// It has come with the one before.
        follows: bool,
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
impl Cluster {
    /// All nodes up, nothing cached.
    ///
    /// # Errors
    /// The policy is not one that nodes can run.
    pub fn new(setup: &Setup) -> Result<Self, SetupError> {
        if setup.module.is_none() {
            cards_policies::policy::build(&setup.policy)?;
        }
        let placement = Placement::new(setup.placement, setup.nodes);
        let named = BuiltIn::with_ghosts(setup.replacement, setup.ghosts);
        let choice = (setup.module.is_none() && is_auto(&setup.policy))
            .then(|| Choice::new(setup, Arc::clone(&named)));
        let (mut shards, mut modules) = (Vec::new(), Vec::new());
        for node in 0..setup.nodes {
            // A node that has given up a module tells no other.
            let of_node = setup.module.as_ref().map(|module| Modules::with(Arc::clone(&named), module));
            let algorithms = match of_node {
                Some(of_node) => {
                    modules.push(Arc::clone(&of_node));
                    of_node
                }
                None => choice.as_ref().map_or_else(|| Arc::clone(&named), Choice::algorithms),
            };
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
                    algorithms: Arc::clone(&algorithms),
                    placement: placement.clone(),
                    peer_timeout: PATIENCE,
                    // Nothing stalls here, and the papers have no such thing.
                    hedge: false,
                    disk_wait: PATIENCE,
                    marks: BTreeMap::new(),
                    park: true,
                    limits: Limits::default(),
                };
                let mut shard = Shard::new(config, setup.seed);
                for peer in (0..setup.nodes).filter(|&peer| peer != node) {
                    shard.handle(Instant(0), Input::PeerUp { node: NodeId(peer) });
                }
                shards.push(shard);
            }
        }
        Ok(Self {
            armed: vec![Instant::NEVER; shards.len()],
            shards,
            modules,
            volumes: Vec::new(),
            ios: Vec::new(),
            read_ahead: BTreeMap::new(),
            under_way: 0,
            writes: 0,
            window: CommandWindow::new(setup.nodes),
            steps: Steps::default(),
            runs: vec![Run::default(); setup.nodes.into()],
            choice,
            requests: 0,
            setup: setup.clone(),
        })
    }

    fn volume_id(&self, volume: u16) -> PgId {
        let disk_node = self.setup.disk_node(volume);
        PgId::plain(NodeId(disk_node), volume / self.setup.disk_nodes)
    }

    /// The trace's number of a volume.
    const fn volume_number(&self, id: PgId) -> u16 {
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
            primary: id.disk_node(),
            epoch: 0,
            name: format!("volume-{number}"),
            size_bytes: u64::from(u32::MAX) * u64::from(self.setup.block_bytes),
            block_bytes: self.setup.block_bytes,
            policy: self.setup.module.as_ref().map_or_else(|| self.setup.policy.clone(), Module::spec),
            read_only: false,
            content: 0,
            network_attached: self.setup.network_attached,
            coherence: self.setup.coherence,
            handover: self.setup.handover,
        };
        let generation = Generation(1);
        let disk_node = id.disk_node();
        for shard in 0..self.shards.len() as u32 {
            self.give(kernel, shard, Input::Volume { spec: spec.clone() });
            if self.node_of(shard) == disk_node.0 {
                self.give(kernel, shard, Input::WritesAllowed { volume: id });
                for node in (0..self.setup.nodes).map(NodeId).filter(|&node| node != disk_node) {
                    self.give(
                        kernel,
                        shard,
                        Input::CardAttached { volume: id, node, life: 1, generation, access: Access::Write },
                    );
                }
            }
        }
        for shard in 0..self.shards.len() as u32 {
            self.give(kernel, shard, Input::Lease { volume: id, until: Instant::NEVER });
            self.give(kernel, shard, Input::Attached { volume: id, generation, access: Access::Write });
        }
    }

    /// With serial timing a request takes a millisecond, for policies, whatever the machine is: so counts do not depend on it,
    /// and real nodes can be given the same time.
    fn advance_policy_clock(&mut self, kernel: &mut Kernel<ClusterEvent>) {
        if self.setup.timing != Timing::Serial {
            return;
        }
        self.requests += 1;
        let at = Some(Instant(self.requests * 1_000_000));
        (0..self.shards.len() as u32).for_each(|shard| self.give(kernel, shard, Input::PolicyClock { at }));
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
                Output::Disk { op, volume, work, .. } => {
                    let number = self.volume_number(volume);
                    let bytes = u64::from(self.setup.block_bytes);
                    let done = ClusterEvent::DiskDone { shard, op };
                    self.under_way += 1;
                    self.steps.disk_begins();
                    match work {
                        DiskWork::Read { block, .. } => {
                            kernel.read_disk(now, number.into(), block.into(), bytes, done);
                        }
                        DiskWork::Command { kind: CommandKind::Write, offset, length, .. } => {
                            let blocks = (offset + u64::from(length)).div_ceil(bytes) - offset / bytes;
                            let first = offset / bytes;
                            kernel.write_disk(now, number.into(), first, blocks, length.into(), done);
                        }
                        DiskWork::Command { .. } => kernel.at(now, done),
                    }
                }
                Output::Ready { token, block, slot, origin } => {
                    let token = token.0 >> PART_BITS;
                    let Pending { io, issued, .. } = self.ios[token as usize];
                    if let Some(io) = io {
                        let bytes = io.bytes_in(block.index.into(), self.setup.block_bytes);
                        let at = kernel.model.local_copy(now, node, bytes);
                        self.measure(origin, at.since(issued));
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
                Output::Patch { .. }
                | Output::Release { .. }
                | Output::Silent { .. }
                | Output::SyncFailed { .. }
                | Output::Unseal { .. }
                // No kernel keeps pages here.
                | Output::Withdraw { .. } => {}
            }
        }
        self.arm(kernel, shard);
    }

    fn arm(&mut self, kernel: &mut Kernel<ClusterEvent>, shard: u32) {
        if let Some((at, _)) = self.shards[shard as usize].next_timeout()
            && at < self.armed[shard as usize]
        {
            self.armed[shard as usize] = at;
            kernel.at(at, ClusterEvent::Timer { shard });
        }
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
        self.advance_policy_clock(kernel);
        self.ios[io.token as usize] =
            Pending { io: Some(io), parts, last: kernel.now(), issued: kernel.now() };
        let id = self.volume_id(io.volume);
        self.sample(kernel, &io, id);
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
            ClusterEvent::Arrive { to, from, message, follows } => {
                self.under_way -= 1;
                self.steps.crossed();
                self.arrive(kernel, (from, to), message, follows);
            }
            ClusterEvent::DiskDone { shard, op } => {
                self.under_way -= 1;
                self.steps.disk_ends();
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

    fn stored_by_node(&self) -> Vec<u64> {
        let nodes = self.shards.chunks(usize::from(self.setup.shards));
        nodes.map(|shards| shards.iter().map(|shard| shard.stats().stored_for_others).sum()).collect()
    }

    fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    fn policy_failure(&self) -> Option<String> {
        let of_node = |(node, modules): (usize, &Arc<Modules>)| {
            let (_, _, failure) = modules.fallbacks().all().into_iter().next()?;
            Some(format!("node {node}: {failure}"))
        };
        self.modules.iter().enumerate().find_map(of_node)
    }

    fn choices(&self) -> Vec<super::Choice> {
        self.choice.as_ref().map(Choice::made).unwrap_or_default()
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
