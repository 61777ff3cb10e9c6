//! A block is missing: one fetch for all who wait for it.
//!
//! A fetch goes through these states: it waits (for the card to be attached, for a write to the block to
//! end, for a free slot), it has asked a node, or the disk of this node is reading. It ends when the block
//! is there and fresh, or when nobody has answered for [`super::ShardConfig::disk_wait`].

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::Shard;
use crate::cache::{Cache, Mark};
use crate::ids::{BlockId, NodeId, OpId, RequestId, Slot, Stamp, Token, VolumeId};
use crate::io::{DiskWork, Landing, Origin, Output, Payload};
use crate::message::{Body, IoError, Source};
use crate::policy::{Answer, Delivery, Request, Target};
use crate::time::Instant;
use crate::timers::Timer;

/// All fetches of a shard.
#[derive(Default)]
pub(super) struct Fetches {
    by_request: BTreeMap<RequestId, Fetch>,
    by_block: BTreeMap<BlockId, RequestId>,
    /// Those that this node's disk is reading for.
    by_op: BTreeMap<OpId, RequestId>,
    /// Fetches that can go on, in order.
    ready: VecDeque<RequestId>,
    /// Fetches from this node's disk that wait for a slot, in order. They end by themselves.
    disk_waiters: VecDeque<RequestId>,
    /// The others that do. They end when other nodes answer, so they never take the last slots: two nodes
    /// that wait for each other's disks would wait for ever.
    peer_waiters: VecDeque<RequestId>,
}

pub(super) struct Fetch {
    block: BlockId,
    /// Reserved for the block, pinned once.
    slot: Option<Slot>,
    state: State,
    waiters: Vec<Waiter>,
    /// Only the disk node will do: a hint was wrong, slow or stale.
    from_disk_node: bool,
    /// Somebody is receiving into the slot.
    landing: bool,
    /// The block was written after the disk began to read it.
    overtaken: bool,
    ahead: bool,
    /// A stale answer leads to another question at once, but not again before this: were answers repeated on
    /// their way, questions and answers would multiply.
    patient_until: Instant,
    deadline: Instant,
    give_up: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In [`Fetches::ready`].
    Ready,
    /// For the card, or for a write to the block.
    Waiting,
    /// Among the waiters for slots.
    NoSlot,
    Asked(NodeId),
    Disk(OpId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiter {
    Client(Token),
    Peer { node: NodeId, request: RequestId, leave_copy: bool },
}

/// A [`Body::Read`], without the block.
#[derive(Clone, Copy)]
pub(super) struct PeerRead {
    pub(super) request: RequestId,
    pub(super) requester: NodeId,
    pub(super) hops: u8,
    pub(super) leave_copy: bool,
    pub(super) read_ahead: bool,
    pub(super) from_disk: bool,
}

/// Nodes a request passes through at most before it goes to the disk node.
const HOPS: u8 = 4;

impl Fetches {
    pub(super) fn is_empty(&self) -> bool {
        self.by_request.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_request.len()
    }

    pub(super) fn check(&self) {
        assert_eq!(self.by_request.len(), self.by_block.len(), "one fetch per block");
        for (request, fetch) in &self.by_request {
            assert_eq!(self.by_block.get(&fetch.block), Some(request));
            assert!(fetch.state != State::Ready, "inputs end with all fetches under way or waiting");
        }
    }
}

impl Shard {
    /// A client wants a block that is not here (or not to be used now).
    pub(super) fn read_missing(&mut self, token: Token, block: BlockId) {
        let error = match self.volumes.get(&block.volume) {
            None => Some(IoError::NotAttached),
            Some(volume) if u64::from(block.index) >= volume.spec.blocks() => Some(IoError::Invalid),
            Some(_) => None,
        };
        if let Some(error) = error {
            self.stats.failed += 1;
            self.outputs.push_back(Output::Failed { token, block, error });
            return;
        }
        if self.may_hold(block.volume)
            && let Some(leaving) = self.leaving.get(&block)
        {
            let slot = leaving.slot;
            self.cache.pin(slot);
            self.count_read(Origin::Local);
            self.outputs.push_back(Output::Ready { token, block, slot, origin: Origin::Local });
            return;
        }
        self.join(block, Some(Waiter::Client(token)));
    }

    pub(super) fn read_ahead(&mut self, block: BlockId) {
        let exists =
            self.volumes.get(&block.volume).is_some_and(|v| u64::from(block.index) < v.spec.blocks());
        // Reading ahead must not drive out what is in use: it takes free slots only.
        let room = self.cache.free_slots() > self.cache.slots() / 64 + 1;
        if exists
            && room
            && self.may_hold(block.volume)
            && self.cache.lookup(block).is_none()
            && !self.leaving.contains_key(&block)
            && !self.fetches.by_block.contains_key(&block)
        {
            self.stats.read_ahead += 1;
            self.join(block, None);
        }
    }

    /// Waits for the fetch of the block, which begins now unless it is under way.
    fn join(&mut self, block: BlockId, waiter: Option<Waiter>) {
        let request = match self.fetches.by_block.get(&block) {
            Some(&request) => request,
            None => {
                let request = self.next_request();
                let give_up = self.now + self.config.disk_wait;
                let fetch = Fetch {
                    block,
                    slot: None,
                    state: State::Ready,
                    waiters: Vec::new(),
                    from_disk_node: false,
                    landing: false,
                    overtaken: false,
                    ahead: waiter.is_none(),
                    patient_until: Instant(0),
                    // It is about to be taken further, and gets its timer then.
                    deadline: Instant::NEVER,
                    give_up,
                };
                self.fetches.by_request.insert(request, fetch);
                self.fetches.by_block.insert(block, request);
                self.fetches.ready.push_back(request);
                request
            }
        };
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        let Some(waiter) = waiter else { return };
        let again = matches!(waiter, Waiter::Peer { node, request, .. }
            if fetch.waiters.iter().any(|w| matches!(w, Waiter::Peer { node: n, request: r, .. } if (*n, *r) == (node, request))));
        if !again {
            fetch.ahead &= matches!(waiter, Waiter::Peer { .. });
            fetch.waiters.push(waiter);
        }
    }

    /// Takes every fetch that can go on as far as it goes.
    pub(super) fn settle(&mut self) {
        while let Some(request) = self.fetches.ready.pop_front() {
            self.advance(request);
        }
    }

    fn advance(&mut self, request: RequestId) {
        let Some(fetch) = self.fetches.by_request.get(&request) else { return };
        let block = fetch.block;
        let from_disk_node = fetch.from_disk_node;
        let reserved = fetch.slot;
        if !self.may_hold(block.volume) || self.is_being_written(block) {
            self.wait_in(request, State::Waiting);
            return;
        }
        if let Some(slot) = self.cache.lookup(block) {
            // A write has just ended, or another node has stored the block here meanwhile.
            self.finish_from_cache(request, slot);
            return;
        }
        let own_disk = block.volume.disk_node() == self.config.node;
        let may_take = own_disk || self.spare_slots_left();
        let Some(slot) = reserved.or_else(|| if may_take { self.cache.take() } else { None }) else {
            self.stats.slot_waits += 1;
            self.wait_in(request, State::NoSlot);
            match own_disk {
                true => self.fetches.disk_waiters.push_back(request),
                false => self.fetches.peer_waiters.push_back(request),
            }
            return;
        };
        if let Some(fetch) = self.fetches.by_request.get_mut(&request) {
            fetch.slot = Some(slot);
        }
        let target = if from_disk_node { block.volume.disk_node() } else { self.choose(block) };
        if target == self.config.node {
            self.read_disk(request, block, slot);
        } else {
            self.ask(request, target);
        }
    }

    /// Whom the policy would ask; this node stands for its own disk.
    fn choose(&mut self, block: BlockId) -> NodeId {
        let (me, disk_node) = (self.config.node, block.volume.disk_node());
        let target = self.with_policy(block.volume, |policy, cx| match policy.lookup(cx, block) {
            Target::DiskNode => disk_node,
            // The home's own miss is a request to itself.
            Target::Node(node) if node == me => {
                let request = Request::Read { requester: me, via: me, failed: false };
                match policy.handle_request(cx, block, request) {
                    Answer::Forward(node) if node != me => node,
                    _ => disk_node,
                }
            }
            Target::Node(node) => node,
        });
        target.filter(|&node| node != me && self.is_up(node)).unwrap_or(disk_node)
    }

    fn ask(&mut self, request: RequestId, target: NodeId) {
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        fetch.overtaken = false;
        let (block, ahead, from_disk) = (fetch.block, fetch.ahead, fetch.from_disk_node);
        let leave_copy = self.volumes.get(&block.volume).is_some_and(|v| v.leaves_copies());
        let body = Body::Read {
            request,
            block: block.index,
            requester: self.config.node,
            hops: 0,
            leave_copy,
            read_ahead: ahead,
            from_disk,
        };
        self.send(target, block.volume, body, Payload::None);
        self.wait_in(request, State::Asked(target));
    }

    fn read_disk(&mut self, request: RequestId, block: BlockId, slot: Slot) {
        let op = self.next_op();
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        fetch.overtaken = false;
        let read_ahead = fetch.ahead;
        self.fetches.by_op.insert(op, request);
        self.wait_in(request, State::Disk(op));
        let work = DiskWork::Read { block: block.index, slot, read_ahead };
        self.outputs.push_back(Output::Disk { op, volume: block.volume, work });
    }

    /// Enters a state; a node that was asked has a limited time to answer.
    fn wait_in(&mut self, request: RequestId, state: State) {
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        fetch.state = state;
        let deadline = match state {
            // Nobody can stand in for the disk node, and it may have a long queue.
            State::Asked(node) if node == fetch.block.volume.disk_node() => {
                fetch.give_up.min(self.now + self.config.peer_timeout * 4)
            }
            State::Asked(_) => fetch.give_up.min(self.now + self.config.peer_timeout),
            State::Disk(_) => Instant::NEVER,
            State::Ready | State::Waiting | State::NoSlot => fetch.give_up,
        };
        if fetch.deadline != Instant::NEVER {
            self.timers.clear(fetch.deadline, Timer::Fetch(request));
        }
        fetch.deadline = deadline;
        if deadline != Instant::NEVER {
            self.timers.set(deadline, Timer::Fetch(request));
        }
    }

    fn make_ready(&mut self, request: RequestId) {
        if let Some(fetch) = self.fetches.by_request.get_mut(&request)
            && fetch.state != State::Ready
        {
            fetch.state = State::Ready;
            self.fetches.ready.push_back(request);
        }
    }

    pub(super) fn fetch_timeout(&mut self, request: RequestId) {
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        if self.now >= fetch.give_up {
            self.fail(request, IoError::Io);
        } else if fetch.landing {
            // The answer is arriving: its end, or its failure, will be told.
            let asked = fetch.state;
            self.wait_in(request, asked);
        } else {
            self.stats.retries += 1;
            fetch.from_disk_node = true;
            self.make_ready(request);
        }
    }

    /// A peer is back: what it was asked for it may never have heard of.
    pub(super) fn ask_again(&mut self, node: NodeId) {
        self.ask_elsewhere(node);
    }

    /// A peer is gone: what it was asked for is asked of the disk node.
    pub(super) fn ask_elsewhere(&mut self, node: NodeId) {
        let fetches = self.fetches.by_request.iter_mut();
        let mut asked = Vec::new();
        for (&request, fetch) in fetches.filter(|(_, f)| f.state == State::Asked(node) && !f.landing) {
            fetch.from_disk_node = true;
            asked.push(request);
        }
        let up = self.is_up(node);
        for request in asked {
            // Asking a disk node that is away is left to the timer.
            if up || self.fetches.by_request.get(&request).is_some_and(|f| f.block.volume.disk_node() != node)
            {
                self.make_ready(request);
            }
        }
    }

    /// The volume can be used (again).
    pub(super) fn resume_volume(&mut self, id: VolumeId) {
        let waiting = self.fetches.by_request.iter();
        let waiting: Vec<RequestId> = waiting
            .filter(|(_, f)| f.block.volume == id && f.state == State::Waiting)
            .map(|(&request, _)| request)
            .collect();
        waiting.into_iter().for_each(|request| self.make_ready(request));
        self.send_commands_again(id.disk_node());
    }

    /// The block has come by another way: its fetch need not wait for an answer.
    pub(super) fn resume_fetch(&mut self, block: BlockId) {
        if let Some(&request) = self.fetches.by_block.get(&block)
            && self
                .fetches
                .by_request
                .get(&request)
                .is_some_and(|f| !f.landing && matches!(f.state, State::Waiting | State::Asked(_)))
        {
            self.make_ready(request);
        }
    }

    /// A write to the block has ended.
    pub(super) fn resume_block(&mut self, block: BlockId) {
        if let Some(&request) = self.fetches.by_block.get(&block)
            && self.fetches.by_request.get(&request).is_some_and(|f| f.state == State::Waiting)
        {
            self.make_ready(request);
        }
    }

    /// Slots are free beyond those that reads of this node's own disk may need.
    fn spare_slots_left(&self) -> bool {
        let spare = self.cache.slots() - self.cache.capacity();
        self.cache.free_slots() > spare / 4
    }

    /// A slot has become free: whoever waits for one goes on, as far as the free ones reach.
    pub(super) fn resume_slot_waiters(&mut self) {
        let free = self.cache.free_slots() as usize;
        let kept_back = (self.cache.slots() - self.cache.capacity()) as usize / 4;
        let fetches = &self.fetches.by_request;
        let waits = |request: &RequestId| fetches.get(request).is_some_and(|f| f.state == State::NoSlot);
        // Fetches that have failed meanwhile take nobody's turn.
        let take = |queue: &mut VecDeque<RequestId>, most: usize| {
            let mut go = Vec::new();
            while go.len() < most
                && let Some(request) = queue.pop_front()
            {
                go.extend(Some(request).filter(waits));
            }
            go
        };
        let mut go = take(&mut self.fetches.disk_waiters, free);
        let most = (free - go.len()).saturating_sub(kept_back);
        go.extend(take(&mut self.fetches.peer_waiters, most));
        go.into_iter().for_each(|request| self.make_ready(request));
    }

    /// A write to the block begins: what the disk is reading now is old or torn, what is on its way is old.
    pub(super) fn overtake(&mut self, block: BlockId) {
        if let Some(request) = self.fetches.by_block.get(&block)
            && let Some(fetch) = self.fetches.by_request.get_mut(request)
        {
            fetch.overtaken = true;
        }
    }

    /// A peer wants a block.
    pub(super) fn peer_read(&mut self, from: NodeId, block: BlockId, read: PeerRead) {
        let me = self.config.node;
        let Some(volume) = self.volumes.get(&block.volume) else { return };
        let request = Request::Read { requester: read.requester, via: from, failed: read.from_disk };
        if read.requester == me {
            // Nobody had it, and the request came back to where the disk is.
            self.with_policy(block.volume, |policy, cx| policy.handle_request(cx, block, request));
            self.ask_disk_node(read.request, block);
            return;
        }
        let waiter =
            Waiter::Peer { node: read.requester, request: read.request, leave_copy: read.leave_copy };
        if volume.at_disk_node {
            let refused = if u64::from(block.index) >= volume.spec.blocks() {
                Some(IoError::Invalid)
            } else if !volume.desk.cards.contains_key(&read.requester) {
                Some(IoError::NotAttached)
            } else {
                None
            };
            if let Some(error) = refused {
                let nack = Body::Nack { request: read.request, block: block.index, error };
                self.send(read.requester, block.volume, nack, Payload::None);
                return;
            }
        }
        let at_disk_node = volume.at_disk_node;
        let holds = self.may_hold(block.volume);
        let served =
            |cache: &Cache| cache.lookup(block).filter(|&slot| holds && !cache.is(slot, Mark::LOCKED));
        // A use; the policy may have it otherwise.
        if let Some(slot) = served(&self.cache) {
            self.touch(slot);
        }
        let answer = self
            .with_policy(block.volume, |policy, cx| policy.handle_request(cx, block, request))
            .unwrap_or(Answer::DiskNode);
        if holds {
            if let Some(slot) = served(&self.cache) {
                self.cache.mark(slot, Mark::HOSTED, false);
                self.deliver(slot, block, read.requester, read.request, Source::Cache);
                if answer == Answer::Give {
                    self.unkeep(slot);
                }
                return;
            }
            if let Some(leaving) = self.leaving.get(&block) {
                self.deliver(leaving.slot, block, read.requester, read.request, Source::Cache);
                return;
            }
        }
        let onward = match answer {
            Answer::Forward(node) if read.hops < HOPS && !read.from_disk => {
                Some(node).filter(|&node| node != me && node != read.requester && self.is_up(node))
            }
            _ => None,
        };
        // Waiting for one another in a circle would end with a timeout: nodes wait for higher ones only.
        let under_way = self.fetches.by_block.contains_key(&block);
        let may_park = self.config.park && me < read.requester && self.may_hold(block.volume);
        if at_disk_node && (onward.is_none() || under_way) || under_way && may_park {
            if under_way {
                self.stats.joined += 1;
            }
            self.join(block, Some(waiter));
            if let Some(&request) = self.fetches.by_block.get(&block)
                && let Some(fetch) = self.fetches.by_request.get_mut(&request)
            {
                fetch.ahead = if under_way { fetch.ahead } else { read.read_ahead };
                if at_disk_node {
                    // A peer that asks here is not sent to other peers again, nor made to wait for one.
                    self.ask_disk_node(request, block);
                }
            }
            return;
        }
        let to = onward.unwrap_or(block.volume.disk_node());
        if onward.is_none() && read.hops > 0 {
            self.stats.stale_hints += 1;
        }
        self.stats.passed_on += 1;
        let body = Body::Read {
            request: read.request,
            block: block.index,
            requester: read.requester,
            hops: read.hops.saturating_add(1),
            leave_copy: read.leave_copy,
            read_ahead: read.read_ahead,
            from_disk: onward.is_none(),
        };
        self.send(to, block.volume, body, Payload::None);
    }

    /// Turns a fetch to the disk node, unless an answer is arriving.
    fn ask_disk_node(&mut self, request: RequestId, block: BlockId) {
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        if fetch.block != block || fetch.landing {
            return;
        }
        fetch.from_disk_node = true;
        if matches!(fetch.state, State::Asked(_)) {
            self.make_ready(request);
        }
    }

    /// Sends a block to the node that wants it, which thereby is the next in the list of its copies.
    fn deliver(&mut self, slot: Slot, block: BlockId, to: NodeId, request: RequestId, source: Source) {
        match source {
            Source::Cache => self.stats.served += 1,
            Source::Disk => self.stats.served_from_disk += 1,
        }
        if self.cache.is_resident(slot) {
            self.cache.set_next(slot, Some(to));
        }
        self.cache.pin(slot);
        let as_of = self.as_of(block.volume);
        let oldest_ms = self.oldest_ms();
        let body = Body::Data { request, block: block.index, source, as_of, oldest_ms };
        self.send(to, block.volume, body, Payload::Slot(slot));
    }

    pub(super) fn land_data(&mut self, request: RequestId, block: BlockId, as_of: Stamp) -> Landing {
        let fresh = self.volumes.get(&block.volume).is_some_and(|v| v.is_fresh(block.index, as_of));
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return Landing::Discard };
        let Some(slot) = fetch.slot else { return Landing::Discard };
        let asked = matches!(fetch.state, State::Asked(_));
        if fetch.block != block || fetch.landing || !asked || !fresh {
            return Landing::Discard;
        }
        fetch.landing = true;
        self.cache.pin(slot);
        Landing::Slot(slot)
    }

    pub(super) fn landing_aborted(&mut self, slot: Slot) {
        let landing = self.fetches.by_request.iter_mut().find(|(_, f)| f.landing && f.slot == Some(slot));
        if let Some((&request, fetch)) = landing {
            fetch.landing = false;
            fetch.from_disk_node = true;
            if matches!(fetch.state, State::Asked(_)) {
                self.make_ready(request);
            }
        }
        self.put_back(Payload::Slot(slot));
    }

    pub(super) fn data(
        &mut self,
        request: RequestId,
        block: BlockId,
        delivery: Delivery,
        as_of: Stamp,
        payload: Payload,
    ) {
        let from = delivery.from;
        let fresh = self.volumes.get(&block.volume).is_some_and(|v| v.is_fresh(block.index, as_of));
        let confirms = self.volumes.get(&block.volume).is_some_and(|v| v.confirms());
        let usable = self.may_hold(block.volume) && !self.is_being_written(block);
        let landed = match payload {
            Payload::Slot(slot) => self
                .fetches
                .by_request
                .get_mut(&request)
                .filter(|f| f.landing && f.slot == Some(slot) && f.block == block)
                .map(|fetch| {
                    fetch.landing = false;
                    // Where stamps tell nothing, whatever was under way when the block was written is stale.
                    (slot, fetch.state, !confirms && fetch.overtaken)
                }),
            Payload::None | Payload::Buffer(_) => None,
        };
        self.put_back(payload);
        let Some((slot, state, overtaken)) = landed else {
            self.data_refused(request, block, from, fresh);
            return;
        };
        if !fresh || overtaken || !usable || !matches!(state, State::Asked(_)) {
            self.data_refused(request, block, from, fresh);
            return;
        }
        self.finish(request, slot, delivery);
    }

    /// A delivery that cannot be used: ask the disk node, unless the block waits anyway.
    fn data_refused(&mut self, request: RequestId, block: BlockId, from: NodeId, fresh: bool) {
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        if fetch.block != block || fetch.landing || !matches!(fetch.state, State::Asked(_)) {
            return;
        }
        if !fresh {
            self.stats.refused_as_stale += 1;
        }
        let first = !core::mem::replace(&mut fetch.from_disk_node, true);
        if self.now < fetch.patient_until {
            fetch.deadline_in(fetch.patient_until, request, &mut self.timers);
        } else if first || from == block.volume.disk_node() {
            fetch.patient_until = self.now + super::coherence::RESEND;
            self.make_ready(request);
        }
    }

    pub(super) fn nack(&mut self, from: NodeId, request: RequestId, block: BlockId, error: IoError) {
        let Some(fetch) = self.fetches.by_request.get_mut(&request) else { return };
        if fetch.block != block || fetch.landing || !matches!(fetch.state, State::Asked(_)) {
            return;
        }
        if from == block.volume.disk_node() && !matches!(error, IoError::NotAttached | IoError::Busy) {
            self.fail(request, error);
        } else {
            fetch.from_disk_node = true;
            fetch.deadline_in(self.now + super::coherence::RESEND, request, &mut self.timers);
        }
    }

    pub(super) fn disk_read_done(&mut self, op: OpId, result: Result<(), IoError>) {
        let Some(request) = self.fetches.by_op.remove(&op) else { return };
        let Some(fetch) = self.fetches.by_request.get(&request) else { return };
        if fetch.state != State::Disk(op) {
            return;
        }
        let Some(slot) = fetch.slot else { return };
        let overtaken = fetch.overtaken || self.is_being_written(fetch.block);
        match result {
            Ok(()) if overtaken => self.make_ready(request),
            Ok(()) => {
                let from = self.config.node;
                let delivery = Delivery { from, source: Source::Disk, oldest_ms: 0, for_others: false };
                self.finish(request, slot, delivery);
            }
            Err(error) => self.fail(request, error),
        }
    }

    fn end(&mut self, request: RequestId) -> Option<Fetch> {
        let fetch = self.fetches.by_request.remove(&request)?;
        self.fetches.by_block.remove(&fetch.block);
        if fetch.deadline != Instant::NEVER {
            self.timers.clear(fetch.deadline, Timer::Fetch(request));
        }
        Some(fetch)
    }

    /// The block is in the fetch's slot: keep it (unless the disk node has read it for others only), and
    /// give it to all who wait.
    fn finish(&mut self, request: RequestId, slot: Slot, delivery: Delivery) {
        let source = delivery.source;
        let Some(fetch) = self.end(request) else { return };
        let block = fetch.block;
        let for_others_only = fetch.ahead_or_peers_only()
            && source == Source::Disk
            && self.config.node == block.volume.disk_node()
            && !fetch.waiters.iter().any(|w| matches!(w, Waiter::Peer { leave_copy: true, .. }))
            && !fetch.waiters.is_empty();
        if !for_others_only && self.cache.lookup(block).is_none() {
            self.keep(slot, block, Some(delivery.from), 0, false);
            if self.cache.is_resident(slot) {
                self.cache.mark(slot, Mark::AHEAD, fetch.ahead && fetch.waiters.is_empty());
                self.cache.mark(slot, Mark::FROM_DISK, source == Source::Disk);
                let for_others = fetch.ahead_or_peers_only() && !fetch.waiters.is_empty();
                let delivery = Delivery { for_others, ..delivery };
                self.with_policy(block.volume, |policy, cx| policy.filled(cx, block, delivery));
            }
        }
        self.hand_out(&fetch, slot, Origin::delivered(source), source);
        self.put_back(Payload::Slot(slot));
    }

    /// The block is resident after all; the fetch's own slot is not needed.
    fn finish_from_cache(&mut self, request: RequestId, slot: Slot) {
        let Some(fetch) = self.end(request) else { return };
        if let Some(reserved) = fetch.slot {
            self.put_back(Payload::Slot(reserved));
        }
        let origin = if fetch.waiters.is_empty() { Origin::Local } else { self.use_copy(slot) };
        self.hand_out(&fetch, slot, origin, Source::Cache);
    }

    fn hand_out(&mut self, fetch: &Fetch, slot: Slot, origin: Origin, source: Source) {
        for waiter in &fetch.waiters {
            match *waiter {
                Waiter::Client(token) => {
                    self.count_read(origin);
                    self.cache.pin(slot);
                    self.outputs.push_back(Output::Ready { token, block: fetch.block, slot, origin });
                }
                Waiter::Peer { node, request, .. } => {
                    // What this node had from a peer it serves out of its cache.
                    let source = if self.config.node == fetch.block.volume.disk_node() {
                        source
                    } else {
                        Source::Cache
                    };
                    self.deliver(slot, fetch.block, node, request, source);
                }
            }
        }
    }

    fn fail(&mut self, request: RequestId, error: IoError) {
        let Some(fetch) = self.end(request) else { return };
        for waiter in &fetch.waiters {
            match *waiter {
                Waiter::Client(token) => {
                    self.stats.failed += 1;
                    self.outputs.push_back(Output::Failed { token, block: fetch.block, error });
                }
                Waiter::Peer { node, request, .. } => {
                    let nack = Body::Nack { request, block: fetch.block.index, error };
                    self.send(node, fetch.block.volume, nack, Payload::None);
                }
            }
        }
        if let Some(slot) = fetch.slot {
            self.put_back(Payload::Slot(slot));
        }
    }
}

impl Fetch {
    fn ahead_or_peers_only(&self) -> bool {
        self.waiters.iter().all(|w| matches!(w, Waiter::Peer { .. }))
    }

    fn deadline_in(&mut self, at: Instant, request: RequestId, timers: &mut crate::timers::Timers) {
        timers.clear(self.deadline, Timer::Fetch(request));
        self.deadline = at.min(self.give_up);
        timers.set(self.deadline, Timer::Fetch(request));
    }
}
