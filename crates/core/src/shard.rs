//! One shard of a node: its part of the cache, and the requests about it.
//!
//! This file has the state, the dispatch of inputs and the path of a local hit. A volume has two machines: the [`card`] is
//! what this node does for its own clients, the [`primary`] is who orders the writes, at the node of the disk. What they
//! share is in [`coherence`] (which copies may be used: the only place that decides it), [`fetch`] (a block is missing),
//! [`evict`] (a block leaves, or comes from a node it left) and [`policies`] (where copies live).

mod card;
mod change;
mod coherence;
mod evict;
mod explain;
mod fetch;
mod limits;
mod numbers;
mod policies;
mod primary;
mod regions;
mod route;
mod volume;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::algorithms::Algorithms;
use crate::cache::{Cache, Mark};
use crate::ids::{BlockId, Generation, NodeId, OpId, PgId, RequestId, Slot, Stamp, Token, mix};
use crate::io::{Input, Landing, Origin, Output, Payload, Read};
use crate::message::{Body, IoError, Message};
use crate::persistence::Persistence;
use crate::placement::Placement;
use crate::policy::Effect;
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::timers::{Timer, Timers};
use crate::timing::ShardTiming;

use card::commands::Commands;
use card::withdraw::Withdrawals;
use coherence::Freshness;
use evict::Leaving;
use fetch::{Fetches, Pace};
use numbers::Numbers;
use primary::Primary;
use primary::answered::Place;
use primary::commands::DiskCommand;
use primary::handover::Writers;
use primary::queue::Queue;
use volume::Volume;

pub use explain::{CardView, Explanation, HolderView};
pub use fetch::UnderWay;
pub use limits::{Limit, Limits, Reached};
pub use primary::answered::SLOTS_MAX;
pub use primary::marks::Marks;
pub use primary::seal::Quiet;
pub use regions::{Bounds, judge};
pub use route::Route;

/// What a shard is told at its start.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// This node.
    pub node: NodeId,
    /// Members of the cluster.
    pub nodes: u16,
    /// Which life of this node: higher than in all earlier ones.
    pub incarnation: u64,
    /// This shard's number.
    pub shard: u16,
    /// Shards of a node: a power of two, the same at all nodes.
    pub shards: u16,
    /// Blocks this shard caches.
    pub capacity_blocks: u32,
    /// Bytes of a block: those of all volumes it will hear of.
    pub block_bytes: u32,
    /// Where copies live, and which block leaves when room is needed.
    pub algorithms: Arc<dyn Algorithms>,
    /// The homes of blocks: made once and shared by all shards.
    pub placement: Placement,
    /// A request to a peer that takes longer is repeated to the disk node.
    pub peer_timeout: Duration,
    /// A request to a peer that takes several times as long as usual is made to the disk node as well, if few are.
    pub hedge: bool,
    /// A request that the disk node has not answered by then fails.
    pub disk_wait: Duration,
    /// What the last life of this node has left of its disks' volumes: each counts as written everywhere otherwise.
    pub marks: BTreeMap<PgId, Marks>,
    /// A request that reaches a node which is fetching the block itself waits for it there. Off: it goes on
    /// to the disk node, as in the paper.
    pub park: bool,
    /// How much is remembered.
    pub limits: Limits,
}

/// See the module's head.
pub struct Shard {
    config: ShardConfig,
    timing: ShardTiming,
    /// As they were configured, whatever is cached.
    limits: Limits,
    now: Instant,
    /// What policies take for the time, if it is not `now`.
    policy_clock: Option<Instant>,
    placement: Placement,
    volumes: BTreeMap<PgId, Volume>,
    cache: Cache,
    fetches: Fetches,
    pace: Pace,
    leaving: BTreeMap<BlockId, Leaving>,
    commands: Commands,
    numbers: Numbers,
    disk_commands: BTreeMap<OpId, DiskCommand>,
    /// Of those, this node's clients' that change a volume whose term at this node is over.
    late_commands: BTreeMap<PgId, BTreeSet<OpId>>,
    writers: Writers,
    withdrawals: Withdrawals,
    /// Commands that wait for an earlier one on the same blocks, oldest first.
    held_commands: Queue,
    /// Commands that come are left to the next life.
    closing: bool,
    up: Vec<bool>,
    free_of: Vec<u16>,
    load_of: Vec<u32>,
    timers: Timers,
    last_request: u64,
    last_op: u64,
    outputs: VecDeque<Output>,
    effects: Vec<Effect>,
    random: u64,
    stats: Stats,
    reached: Reached,
}

impl Shard {
    /// An empty shard. Policies that choose at random do so from the seed, the node and the shard.
    ///
    /// # Panics
    /// If `shards` is no power of two.
    #[must_use]
    pub fn new(config: ShardConfig, seed: u64) -> Self {
        assert!(config.shards.is_power_of_two() && config.shard < config.shards);
        let capacity = config.capacity_blocks.max(1);
        let limits = config.limits;
        let config = ShardConfig { limits: limits.with_caches(config.nodes.into(), capacity), ..config };
        let in_flight = (capacity / 32).clamp(16, 256);
        let nodes = usize::from(config.nodes);
        Self {
            now: Instant(0),
            policy_clock: None,
            placement: config.placement.clone(),
            volumes: BTreeMap::new(),
            cache: Cache::new(capacity, in_flight, config.algorithms.replacer(capacity)),
            fetches: Fetches::default(),
            pace: Pace::default(),
            leaving: BTreeMap::new(),
            commands: Commands::default(),
            numbers: Numbers::default(),
            disk_commands: BTreeMap::new(),
            late_commands: BTreeMap::new(),
            writers: Writers::default(),
            withdrawals: Withdrawals::default(),
            held_commands: Queue::default(),
            closing: false,
            up: vec![false; nodes],
            free_of: vec![u16::MAX; nodes],
            load_of: vec![0; nodes],
            timers: Timers::default(),
            last_request: config.incarnation << 20,
            last_op: 0,
            outputs: VecDeque::new(),
            effects: Vec::new(),
            random: mix(seed ^ u64::from(config.node.0) << 32 ^ u64::from(config.shard)),
            stats: Stats::default(),
            reached: Reached::default(),
            limits,
            timing: ShardTiming::new(&config),
            config,
        }
    }

    /// Slots of the shard's arena: for the blocks it caches and for those on their way.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.cache.slots()
    }

    /// What the shard has done so far.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Blocks of a volume that are cached here.
    #[must_use]
    pub fn cached(&self, volume: PgId) -> u64 {
        self.cache.resident_slots().filter(|&slot| self.cache.block(slot).volume == volume).count() as u64
    }

    /// Commands of this node that were given up and may yet be done.
    #[must_use]
    pub fn doubts(&self) -> usize {
        self.commands.doubts()
    }

    /// Slots that hold nothing and wait for nothing.
    #[must_use]
    pub const fn free_slots(&self) -> u32 {
        self.cache.free_slots()
    }

    /// All blocks cached here.
    #[must_use]
    pub const fn resident(&self) -> u32 {
        self.cache.resident()
    }

    /// Of these, blocks that stay: see [`Input::Retain`].
    #[must_use]
    pub const fn retained(&self) -> u32 {
        self.cache.retained()
    }

    /// Whether a copy of the block is cached here.
    #[must_use]
    pub fn contains(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some()
    }

    /// The two ids of a block's index entry: previous and next (CARDs, section 3).
    #[must_use]
    pub fn index_entry(&self, block: BlockId) -> (Option<NodeId>, Option<NodeId>) {
        let entry = self.cache.entry(block);
        (entry.previous, entry.next)
    }

    /// Bytes of metadata, all tables together.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        let directory = |v: &Volume| v.primary.as_ref().map_or(0, |primary| primary.directory.bytes());
        let locks = self.volumes.values().map(|v| v.card.held.bytes() + directory(v)).sum::<usize>();
        self.cache.index_bytes() + self.writers.bytes() + locks
    }

    /// Says which blocks the next inputs are about. That changes nothing but how long they take.
    pub fn approach(&self, blocks: impl Iterator<Item = BlockId> + Clone) {
        self.cache.approach(blocks);
    }

    /// A client wants a block. On a hit, nothing is allocated and no output made.
    pub fn read(&mut self, now: Instant, token: Token, block: BlockId) -> Read {
        self.now = now;
        let freshness = self.freshness(block);
        if let Freshness::Fresh(slot) = freshness {
            let origin = self.use_copy(slot);
            self.count_read(origin);
            self.cache.pin(slot);
            return Read::Hit(slot, origin);
        }
        self.read_missing(token, block, freshness);
        self.settle();
        Read::Pending
    }

    /// Notes the use of a resident copy; where it came from, the first time, if it was fetched ahead.
    fn use_copy(&mut self, slot: Slot) -> Origin {
        let origin = match (self.cache.is(slot, Mark::AHEAD), self.cache.is(slot, Mark::FROM_DISK)) {
            (false, _) => Origin::Local,
            (true, false) => Origin::Remote,
            (true, true) => Origin::Disk,
        };
        // A replica that was fetched ahead keeps its turn at the read that it was fetched for: those that are still to be read have come later.
        let is_due = self.cache.is(slot, Mark::AHEAD) && self.cache.is(slot, Mark::REPLICA);
        self.cache.mark_used(slot);
        match is_due {
            true => self.cache.data.used(slot, self.policy_now()),
            false => self.touch(slot),
        }
        origin
    }

    fn touch(&mut self, slot: Slot) {
        self.cache.touch(slot);
        self.cache.data.used(slot, self.policy_now());
    }

    const fn count_read(&mut self, origin: Origin) {
        self.stats.reads += 1;
        match origin {
            Origin::Local => self.stats.local_hits += 1,
            Origin::Remote => self.stats.remote_hits += 1,
            Origin::Disk => self.stats.disk_reads += 1,
        }
    }

    /// A user of a slot is done with it. Poll for outputs afterwards.
    pub fn unpin(&mut self, slot: Slot) {
        self.release(slot);
        self.settle();
    }

    /// A user of a slot is done with it and has the block in a cache of its own: the copy here makes room, unless
    /// it is to stay or somebody else uses it. Poll for outputs afterwards.
    pub fn unpin_and_drop(&mut self, slot: Slot) {
        let last = self.cache.is_resident(slot)
            && self.cache.pins(slot) == 1
            && !self.cache.is(slot, Mark::HIDDEN)
            && !self.cache.is(slot, Mark::RETAINED);
        self.release(slot);
        // Who was waiting for a slot may have taken this one.
        if last && self.cache.is_resident(slot) && self.cache.frames().is_idle(slot.0) {
            self.forget_copy(slot);
        }
        self.settle();
    }

    /// Unpins a slot. If the cache has grown too large because all of it was in use, it can shrink now.
    fn release(&mut self, slot: Slot) {
        if self.cache.unpin(slot) {
            self.resume_slot_waiters();
        } else if self.cache.is_overfull() {
            self.make_room();
        }
    }

    /// Where the payload of an arriving message goes; asked once, before it is received.
    pub fn landing(&mut self, from: NodeId, message: &Message) -> Landing {
        match message.body {
            // What nobody gives it, it cannot have from this volume.
            Body::Data { .. } | Body::Store { .. } if !self.allows(message.volume, from) => Landing::Discard,
            Body::Data { request, block, as_of, .. } => {
                self.land_data(request, BlockId::new(message.volume, block), as_of)
            }
            Body::Store { block, as_of, .. } => self.land_store(BlockId::new(message.volume, block), as_of),
            Body::Command { .. } => self.land_command(from, message),
            Body::Read { .. }
            | Body::Nack { .. }
            | Body::StoreAck { .. }
            | Body::Note { .. }
            | Body::Invalidate { .. }
            | Body::InvalidateAck { .. }
            | Body::Acquire { .. }
            | Body::Granted { .. }
            | Body::Probe { .. }
            | Body::Void { .. }
            | Body::CommandDone { .. } => Landing::Discard,
        }
    }

    /// Takes one input. Drain the outputs before the next.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Read { token, block } => {
                if let Read::Hit(slot, origin) = self.read(now, token, block) {
                    self.outputs.push_back(Output::Ready { token, block, slot, origin });
                }
            }
            Input::ReadAhead { block } => self.read_ahead(block),
            Input::Command { token, volume, kind, offset, length, fua, payload } => {
                self.client_command(token, volume, kind, offset, length, fua, payload);
            }
            Input::Message { from, message, payload } => self.message(from, message, payload),
            Input::LandingAborted { slot } => self.landing_aborted(slot),
            Input::DiskDone { op, result } => self.disk_done(op, result),
            Input::Timeout => self.timeout(),
            Input::PeerUp { node } => self.peer_up(node),
            Input::PeerDown { node } => self.peer_down(node),
            Input::Members { placement } => self.members_changed(placement),
            Input::Volume { spec } => self.volume_known(spec),
            Input::Attached { volume, generation, access } => self.attached(volume, generation, access),
            Input::RepeatFrom { volume, generation } => {
                if let Some(card) = self.card_mut(volume) {
                    card.repeat_from = generation;
                }
            }
            Input::Allowed { volume, nodes } => {
                if let Some(volume) = self.volumes.get_mut(&volume) {
                    volume.allowed = nodes;
                }
            }
            Input::LeaveCopies { volume, leave } => {
                if let Some(card) = self.card_mut(volume) {
                    card.leave_copies = leave;
                }
            }
            Input::Lease { volume, until } => self.leased(volume, until),
            Input::Leases { leases } => {
                leases.iter().for_each(|&(volume, until)| self.leased(volume, until));
            }
            Input::Suspended { volume } => self.suspended(volume),
            Input::CardAttached { volume, node, life, generation, access } => {
                self.card_attached(volume, (node, life), generation, access);
            }
            Input::CardFenced { volume, node } => self.card_fenced(volume, node),
            Input::CardLost { volume, node } => self.card_lost(volume, node),
            Input::CardDetached { volume, node } => self.card_detached(volume, node),
            Input::WritesAllowed { volume } => self.writes_allowed(volume),
            Input::Marks { volume, marks } => {
                self.config.marks.insert(volume, marks);
            }
            Input::Persistence { volume, life, loss } => self.persistence_is(volume, life, loss),
            Input::Unsealed { volume } => self.unsealed(volume),
            Input::Hold { volume } => self.hold(volume),
            Input::Right { volume, until } => self.right_lasts(volume, until),
            Input::Pages { volume, kept } => self.pages_kept(volume, kept),
            Input::Withdrawn { id } => self.withdrawn(id),
            Input::Closing => self.closing = true,
            Input::DropCaches => self.drop_caches(),
            Input::PolicyClock { at } => self.set_policy_clock(at),
            Input::PolicyChosen { volume } => self.policy_chosen(volume),
            Input::Retain { volume, ranges } => {
                self.cache.retain(volume, ranges.to_vec());
                self.make_room();
            }
        }
        self.settle();
    }

    /// The next output, until there is none.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to come back with [`Input::Timeout`], and why.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, Timer)> {
        self.timers.next()
    }

    /// Nothing is under way: no fetch, no write, no block on its way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.fetches.is_empty()
            && self.leaving.is_empty()
            && self.commands.is_empty()
            && self.has_no_commands()
            && self.withdrawals.len() == 0
            && self.volumes.values().flat_map(|v| &v.primary).all(|primary| primary.has_room())
    }

    /// Nothing is being done to this node's disks for anybody.
    #[must_use]
    pub fn has_no_commands(&self) -> bool {
        self.disk_commands.is_empty()
            && self.held_commands.is_empty()
            && self.volumes.values().flat_map(|v| &v.primary).all(|primary| primary.unjudged.is_none())
    }

    /// Entries of tables that belong to something under way or to a card that is gone: none when nothing is.
    #[must_use]
    pub fn table_entries(&self) -> usize {
        let primaries = self.volumes.values().filter_map(|volume| volume.primary.as_deref());
        self.fetches.len()
            + self.leaving.len()
            + self.commands.len()
            + self.commands.followers()
            + self.numbers.len()
            + self.disk_commands.len()
            + self.held_commands.len()
            + self.withdrawals.len()
            + primaries.map(Primary::table_entries).sum::<usize>()
    }

    /// Copies of volumes with promised contents that may be used now.
    pub fn usable_copies(&self, now: Instant) -> impl Iterator<Item = (BlockId, Slot)> {
        let shown = self.cache.resident_slots().filter(|&slot| !self.cache.is(slot, Mark::HIDDEN));
        shown.map(|slot| (self.cache.block(slot), slot)).filter(move |&(block, _)| {
            let volume = self.volumes.get(&block.volume);
            volume.is_some_and(|v| v.confirms() && v.may_use_copies(now)) && !self.is_being_written(block)
        })
    }

    /// This node's card of another node's volume, and up to which write all are complete by its primary's word.
    #[must_use]
    pub fn heard(&self, volume: PgId) -> Option<(Generation, Stamp)> {
        let volume = self.volumes.get(&volume).filter(|volume| volume.primary.is_none())?;
        Some((volume.card.generation?, volume.card.heard))
    }

    /// At a primary: the stamp before all of its term, and the one up to which all writes are complete.
    #[must_use]
    pub fn complete(&self, volume: PgId) -> Option<(Stamp, Stamp)> {
        self.primary(volume).map(|primary| (primary.first, primary.through()))
    }

    /// At a primary: a write to the block has begun, and is not complete.
    #[must_use]
    pub fn is_in_hand(&self, block: BlockId) -> bool {
        self.primary(block.volume).is_some_and(|primary| primary.writing.contains(&block.index))
    }

    /// How often each limit was reached in this life.
    #[must_use]
    pub const fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        self.cache.check();
        self.fetches.check();
        self.check_locks();
        self.volumes.values().flat_map(|v| &v.primary).for_each(|primary| primary.directory.check());
        self.check_bounds();
        let pinned = self.cache.resident_slots().filter(|&slot| self.cache.pins(slot) > 0).count() as u32;
        let free = self.cache.free_slots();
        assert!(
            pinned + free <= self.cache.slots(),
            "every slot is free, or somebody's: {pinned} pinned and {free} free of {}",
            self.cache.slots()
        );
        assert!(
            self.timers.len()
                <= 4 * (1
                    + self.fetches.len()
                    + self.commands.len()
                    + self.disk_commands.len()
                    + self.leaving.len()
                    + self.volumes.len()),
            "timers belong to something"
        );
    }

    fn message(&mut self, from: NodeId, message: Message, payload: Payload) {
        self.stats.messages_received += 1;
        let known = message.shard == self.config.shard
            && usize::from(from.0) < self.up.len()
            && from != self.config.node
            && self.volumes.contains_key(&message.volume);
        if !known {
            self.put_back(payload);
            return;
        }
        self.free_of[usize::from(from.0)] = message.free;
        self.hear(from, message.volume, message.through);
        // A confirmation is no such word: it names the card that was asked, whichever its node has.
        if let Body::Acquire { generation, .. }
        | Body::Command { generation, .. }
        | Body::Probe { generation, .. }
        | Body::Void { generation, .. } = message.body
        {
            self.card_speaks(message.volume, from, generation);
        }
        let block = |index| BlockId::new(message.volume, index);
        match message.body {
            Body::Read { request, block: index, requester, hops, leave_copy, read_ahead, from_disk } => {
                if usize::from(requester.0) < self.up.len() {
                    let read =
                        fetch::PeerRead { request, requester, hops, leave_copy, read_ahead, from_disk };
                    self.peer_read(from, block(index), read);
                }
            }
            Body::Data { request, block: index, source, as_of, oldest_ms } => {
                let delivery =
                    crate::policy::Delivery { from, source, oldest_ms, for_others: false, ahead: false };
                self.data(request, block(index), delivery, as_of, payload);
            }
            Body::Nack { request, block: index, error } => self.nack(from, request, block(index), error),
            Body::Store { block: index, class, depth, evictor, previous, as_of, age_ms, oldest_ms } => {
                let store = evict::Store { class, depth, evictor, previous, as_of, age_ms, oldest_ms };
                self.store(from, block(index), store, payload);
            }
            Body::StoreAck { block: index, .. } => self.store_ack(from, block(index)),
            Body::Note { block: index, note } => self.note(from, block(index), note),
            Body::Invalidate { generation, stamp, block: first, count } => {
                self.invalidate(from, message.volume, generation, stamp, first, count);
            }
            Body::InvalidateAck { generation, stamp, block, released, turn } => {
                self.invalidate_ack(from, message.volume, generation, stamp, block, (released, turn));
            }
            Body::Acquire { generation, block, turn, ahead } => {
                self.acquire((from, generation), message.volume, block, (turn, ahead));
            }
            Body::Granted { generation, block, grant, ahead } => {
                self.granted((from, generation), message.volume, block, grant, ahead);
            }
            Body::Command { generation, request, slot, kind, offset, length, fua, again, turn, origin } => {
                let command = primary::commands::PeerCommand {
                    generation,
                    request,
                    slot,
                    change: change::Change::new(kind, offset, length),
                    fua,
                    again,
                    turn,
                    origin: origin.map(|origin| *origin),
                };
                self.peer_command(from, message.volume, command, payload);
            }
            Body::Probe { generation, request, slot, block, turn } => {
                let asked = primary::commands::Asked { place: Place { slot, request }, block, turn };
                self.probe(from, message.volume, generation, asked);
            }
            Body::Void { generation, request, slot } => {
                self.void(from, message.volume, generation, Place { slot, request });
            }
            Body::CommandDone { generation, request, stamp, persistence, result, turn, bounds } => {
                let answer = card::commands::Answer { stamp, persistence, result, turn, bounds };
                self.command_done(from, generation, request, answer);
            }
        }
    }

    fn timeout(&mut self) {
        while let Some(timer) = self.timers.due(self.now) {
            match timer {
                Timer::Fetch(request) => self.fetch_timeout(request),
                Timer::Command(request) => self.command_timeout(request),
                Timer::Later => self.give_up_later_commands(),
                Timer::Invalidate(op) => self.invalidate_timeout(op),
                Timer::Revoke(volume) => self.revoke_timeout(volume),
                Timer::Leaving(block) => self.forget_leaving(block),
                Timer::Answers(volume) => self.forget_answers(volume),
                Timer::Policy(volume) => self.tick_policy(volume),
            }
        }
    }

    fn disk_done(&mut self, op: OpId, result: Result<(), IoError>) {
        if self.disk_commands.contains_key(&op) {
            self.disk_command_done(op, result);
        } else {
            self.disk_read_done(op, result);
        }
    }

    fn peer_up(&mut self, node: NodeId) {
        if let Some(up) = self.up.get_mut(usize::from(node.0)) {
            *up = true;
            self.ask_again(node);
            self.send_commands_again(node);
        }
    }

    fn peer_down(&mut self, node: NodeId) {
        if let Some(up) = self.up.get_mut(usize::from(node.0)) {
            *up = false;
            self.free_of[usize::from(node.0)] = u16::MAX;
            self.ask_elsewhere(node);
            self.forget_leaving_to(node);
        }
    }

    /// Where copies are looked for and sent to changes; what is here stays, and is found by whoever still looks here.
    fn members_changed(&mut self, placement: Placement) {
        let nodes = self.up.len().max(usize::from(placement.bound()));
        self.up.resize(nodes, false);
        self.free_of.resize(nodes, u16::MAX);
        let limits = self.limits.with_caches(nodes, self.cache.capacity());
        self.config.limits = limits;
        self.volumes.values_mut().flat_map(|v| &mut v.primary).for_each(|p| p.directory.limit(&limits));
        self.placement = placement;
        self.load_of.clear();
        self.load_of.resize(nodes, 0);
        for slot in self.cache.resident_slots() {
            self.load_of[usize::from(self.placement.home(self.cache.block(slot)).0)] += 1;
        }
    }

    fn is_up(&self, node: NodeId) -> bool {
        node == self.config.node || self.up.get(usize::from(node.0)).copied().unwrap_or(false)
    }

    fn send(&mut self, to: NodeId, volume: PgId, body: Body, payload: Payload) {
        debug_assert!(to != self.config.node, "a node sends itself no messages");
        self.stats.messages_sent += 1;
        let free = self.cache.free_places();
        let message = Message {
            volume,
            shard: self.config.shard,
            through: self.primary(volume).map_or(Stamp(0), |primary| primary.through_for(to)),
            free: if self.may_hold(volume) { u16::try_from(free).unwrap_or(u16::MAX - 1) } else { 0 },
            body,
        };
        self.outputs.push_back(Output::Send { to, message, payload });
    }

    fn may_hold(&self, volume: PgId) -> bool {
        self.volumes.get(&volume).is_some_and(|v| v.may_use_copies(self.now))
    }

    /// Whether contents of the volume may be given to the node, or come from it.
    fn allows(&self, volume: PgId, node: NodeId) -> bool {
        self.volumes.get(&volume).is_some_and(|v| v.allows(node))
    }

    /// A client's command has ended, as far as the client is concerned.
    fn tell_done(&mut self, token: Token, persistence: Persistence, result: Result<(), IoError>) {
        self.numbers.end(token);
        self.outputs.push_back(Output::Done { token, persistence, result });
    }

    /// Gives up a payload that nobody wants.
    fn put_back(&mut self, payload: Payload) {
        match payload {
            Payload::None => {}
            Payload::Slot(slot) => self.release(slot),
            Payload::Buffer(buffer) => self.outputs.push_back(Output::Release { buffer }),
        }
    }

    fn next_request(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId(self.last_request)
    }

    fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    /// Makes a held slot the copy of a block, its own or hosted for another node; evicts others if there are too
    /// many.
    fn keep(&mut self, slot: Slot, block: BlockId, previous: Option<NodeId>, age_ms: u32, hosted: bool) {
        self.cache.index.put(block, crate::index::Entry::default());
        self.forget_leaving(block);
        let place = self.place(block.index);
        if let Some(volume) = self.volumes.get_mut(&block.volume) {
            volume.card.held.used(place, self.now);
        }
        self.cache.insert(slot, block, previous);
        if hosted {
            self.cache.mark(slot, Mark::HOSTED, true);
            self.cache.move_apart(slot);
        }
        self.cache.data.inserted(slot, self.policy_now(), age_ms);
        self.load_of[usize::from(self.placement.home(block).0)] += 1;
        self.make_room();
    }

    /// Ends the residence of a copy, whatever the reason.
    fn unkeep(&mut self, slot: Slot) {
        let block = self.cache.block(slot);
        self.load_of[usize::from(self.placement.home(block).0)] -= 1;
        let freed = self.cache.pins(slot) == 0;
        self.cache.remove(slot);
        if freed {
            self.resume_slot_waiters();
        }
    }

    fn drop_caches(&mut self) {
        let slots: Vec<Slot> = self.cache.resident_slots().collect();
        for slot in slots {
            if self.cache.frames().is_idle(slot.0) {
                self.unkeep(slot);
            }
        }
    }
}
