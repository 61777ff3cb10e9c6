//! A block is missing: one fetch for all who wait for it.
//!
//! A fetch goes through these states: it waits (for the card to be attached, for a write to the block to
//! end, for a free slot), it has asked a node, or the disk of this node is reading. It ends when the block
//! is there and fresh, or when nobody has answered for [`super::ShardConfig::disk_wait`]. A lock that the card
//! does not hold yet is asked for beside the block: whichever comes first waits for the other.
//!
//! This file has its begin and its questions. What is asked of this node is in [`peer_read`], what it is
//! answered in [`answer`], what makes it go on in [`progress`], and its end in [`end`].

mod answer;
mod end;
mod explain;
mod fetches;
mod pace;
mod peer_read;
mod progress;
mod waiter;

use self::waiter::{Waiter, Waiters};
use super::Shard;
use super::card::later::Hindrance;
use super::coherence::Freshness;
use super::route::Route;
use crate::ids::{BlockId, NodeId, OpId, RequestId, Slot, Stamp, Token};
use crate::io::{DiskWork, Origin, Output, Payload};
use crate::message::{Body, IoError};
use crate::policy::{Asker, Delivery};
use crate::time::{Duration, Instant};
use crate::timers::{Timer, Timers};

pub use self::explain::UnderWay;
pub(super) use self::fetches::Fetches;
pub(super) use self::pace::Pace;
pub(super) use self::peer_read::PeerRead;

struct Fetch {
    request: RequestId,
    block: BlockId,
    /// Reserved for the block, pinned once.
    slot: Option<Slot>,
    state: State,
    waiters: Waiters,
    /// Only the primary will do: a hint was wrong, slow or stale.
    from_disk_node: bool,
    /// Somebody is receiving into the slot.
    landing: bool,
    /// Who waited when it was asked for, and for what.
    asked: Option<Asked>,
    /// When a node was asked that the primary can stand in for, if one was and has not answered.
    asked_at: Option<Instant>,
    /// The node that was asked first, this one for its own disk, and when.
    first_asked: Option<(NodeId, Instant)>,
    /// The primary was asked as well, since the answer was late.
    hedged: bool,
    /// The block was written after the disk began to read it.
    overtaken: bool,
    /// It is in the slot, and is judged by its stamp when the card has its lock.
    arrived: Option<(Delivery, Stamp)>,
    /// It had to wait for a write to the block. Writes that come later wait for it, or it might never end.
    passed_over: bool,
    ahead: bool,
    /// For others that may ask for the block next, since one has.
    is_copy: bool,
    /// A stale answer leads to another question at once, but not again before this: were answers repeated on
    /// their way, questions and answers would multiply.
    patient_until: Instant,
    /// Since when it waits for the card's lock, if it does.
    unlocked_since: Option<Instant>,
    deadline: Instant,
    give_up: Instant,
}

/// What is enough for those who wait already. A read may return whatever was current at some time while it waited, so a
/// delivery that is as of their bound is for them, also if a write has made it stale on its way: they might wait for
/// ever beside writes that follow each other. It is no copy, and nothing for who comes later.
#[derive(Clone, Copy)]
struct Asked {
    /// The first of [`Fetch::waiters`].
    waiters: usize,
    /// The block's when they waited, under the lock: contents as of it include every write that was complete then.
    bound: Stamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In [`Fetches::ready`].
    Ready,
    /// For the card, or for a write to the block.
    Waiting,
    /// For this card's lock: the block is here, parked or just delivered.
    AwaitingLock,
    /// Among the waiters for slots.
    NoSlot,
    Asked(NodeId),
    Disk(OpId),
}

impl Fetch {
    fn new(request: RequestId, block: BlockId, ahead: bool, give_up: Instant) -> Self {
        Self {
            request,
            block,
            slot: None,
            state: State::Ready,
            waiters: Waiters::default(),
            from_disk_node: false,
            landing: false,
            asked: None,
            asked_at: None,
            first_asked: None,
            hedged: false,
            overtaken: false,
            arrived: None,
            passed_over: false,
            ahead,
            is_copy: false,
            patient_until: Instant(0),
            unlocked_since: None,
            // It is about to be taken further, and gets its timer then.
            deadline: Instant::NEVER,
            give_up,
        }
    }

    fn ahead_or_peers_only(&self) -> bool {
        self.waiters.iter().all(Waiter::is_peer)
    }

    /// It waits for no lock any more: for how long it did.
    fn unlocked_for(&mut self, now: Instant) -> Duration {
        self.unlocked_since.take().map_or(Duration::ZERO, |since| now.since(since))
    }

    const fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked(_))
    }

    /// The primary was asked only because another node is late, and that one may answer until then.
    fn late_until(&self, now: Instant, peer: Duration) -> Option<Instant> {
        self.asked_at.map(|at| at + peer).filter(|&until| self.hedged && now < until)
    }

    /// It is woken then, whatever was said before.
    fn wake_at(&mut self, at: Instant, timers: &mut Timers) {
        timers.clear(self.deadline, Timer::Fetch(self.request));
        self.deadline = at;
        timers.set(self.deadline, Timer::Fetch(self.request));
    }
}

impl Shard {
    /// A client wants a block that is not here (or not to be used now).
    pub(super) fn read_missing(&mut self, token: Token, block: BlockId, freshness: Freshness) {
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
        match freshness {
            Freshness::Leaving(slot) => self.ready(token, block, slot, Origin::Local),
            _ => self.join(block, Some(Waiter::Client(token))),
        }
    }

    pub(super) fn read_ahead(&mut self, block: BlockId) {
        let exists =
            self.volumes.get(&block.volume).is_some_and(|v| u64::from(block.index) < v.spec.blocks());
        // Reading ahead must not drive out what is in use: it takes free slots only.
        let room = self.cache.free_slots() > self.cache.slots() / 64 + 1;
        let missing = matches!(self.freshness(block), Freshness::Missing | Freshness::NotHeld);
        if exists && room && missing && !self.contains(block) && self.fetches.of_block(block).is_none() {
            self.stats.read_ahead += 1;
            self.join(block, None);
        }
    }

    /// Waits for the fetch of the block, which begins now unless it is under way.
    fn join(&mut self, block: BlockId, waiter: Option<Waiter>) {
        if self.fetches.of_block(block).is_none() {
            let request = self.next_request();
            let give_up = self.now + self.timing.give_up;
            self.fetches.insert(Fetch::new(request, block, waiter.is_none(), give_up));
            self.fetches.ready.push_back(request);
        }
        let Some(fetch) = self.fetches.of_block_mut(block) else { return };
        let Some(waiter) = waiter else { return };
        if fetch.waiters.push(waiter) {
            fetch.ahead &= waiter.is_peer();
        }
    }

    /// Takes every fetch that can go on as far as it goes.
    #[inline]
    pub(super) fn settle(&mut self) {
        if !self.fetches.is_settled() {
            self.settle_all();
        }
        while self.fetches.lacks_slots() && self.give_way() {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        loop {
            while let Some(request) = self.fetches.ready.pop_front() {
                self.advance(request);
            }
            let made_way = core::mem::take(&mut self.fetches.made_way);
            if made_way.is_empty() {
                return;
            }
            made_way.iter().for_each(|&block| self.held_commands.wake(block));
            self.start_woken_commands();
            made_way.into_iter().for_each(|block| self.start_later_commands(Hindrance::Read(block)));
        }
    }

    fn advance(&mut self, request: RequestId) {
        let Some(fetch) = self.fetches.get(request) else { return };
        let block = fetch.block;
        let (reserved, has_arrived) = (fetch.slot, fetch.arrived.is_some());
        match self.freshness(block) {
            freshness @ (Freshness::LeaseExpired | Freshness::BeingWritten) => {
                if let Some(fetch) = self.fetches.get_mut(request) {
                    fetch.passed_over |= freshness == Freshness::BeingWritten;
                    fetch.arrived = None;
                }
                self.wait_in(request, State::Waiting);
                return;
            }
            Freshness::NotHeld => {
                self.acquire_lock(block);
                if self.contains(block) || has_arrived {
                    self.await_lock(request);
                    return;
                }
            }
            Freshness::Fresh(slot) => {
                // A write has just ended, another node has stored the block here meanwhile, or it was parked.
                self.finish_from_cache(request, slot);
                return;
            }
            Freshness::Missing | Freshness::Leaving(_) => {
                if let Some((delivery, as_of)) = self.fetches.get_mut(request).and_then(|f| f.arrived.take())
                    && let Some(slot) = reserved
                    && self.judge_arrived(request, block, as_of)
                {
                    self.finish(request, slot, delivery);
                    return;
                }
            }
        }
        let place = self.place(block.index);
        if let Some(volume) = self.volumes.get_mut(&block.volume) {
            volume.card.held.used(place, self.now);
        }
        let failed = self.fetches.get(request).is_some_and(|fetch| fetch.from_disk_node);
        let own_disk = self.primary(block.volume).is_some();
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
        self.fetches.give_slot(request, slot);
        let asker = Asker::own(self.config.node, failed);
        let route = self.onward(block, asker);
        if !failed {
            self.asked(block, asker, route);
        }
        match route {
            Route::Asks { node, from_disk } => self.ask(request, node, from_disk),
            _ => self.read_disk(request, block, slot),
        }
    }

    fn await_lock(&mut self, request: RequestId) {
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        fetch.unlocked_since = Some(self.now);
        let block = fetch.block;
        self.fetches.by_lock.insert(self.lock_wait(request, block));
        self.stats.lock_waits += 1;
        self.wait_in(request, State::AwaitingLock);
    }

    /// Tells the policy of a read, and where it went (or would have gone, were there no fetch to wait for).
    fn asked(&mut self, block: BlockId, asker: Asker, route: Route) {
        let to = match route {
            Route::Asks { node, from_disk: false } => Some(node),
            Route::Joins => self.named(block, asker),
            _ => None,
        };
        self.with_policy(block.volume, |policy, cx| policy.asked(cx, block, asker, to));
    }

    /// Asks a node; if only the disk would do otherwise, it passes the question to no other node but the disk's.
    fn ask(&mut self, request: RequestId, target: NodeId, from_disk: bool) {
        let Some(block) = self.fetches.get(request).map(|fetch| fetch.block) else { return };
        let is_primary = target == self.primary_of(block.volume);
        // What the card holds no lock on may have been written without a word to it.
        let bound = self.holds(block).then(|| self.bound(block));
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        fetch.overtaken = false;
        fetch.asked = bound.map(|bound| Asked { waiters: fetch.waiters.len(), bound });
        fetch.asked_at = fetch.asked_at.or((!is_primary).then_some(self.now));
        fetch.first_asked = fetch.first_asked.or(Some((target, self.now)));
        let ahead = fetch.ahead;
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
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        fetch.overtaken = false;
        fetch.first_asked = fetch.first_asked.or(Some((self.config.node, self.now)));
        let read_ahead = fetch.ahead;
        let card = fetch.waiters.first_peer().unwrap_or(self.config.node);
        self.fetches.by_op.insert(op, request);
        self.wait_in(request, State::Disk(op));
        let work = DiskWork::Read { block: block.index, slot, read_ahead };
        self.outputs.push_back(Output::Disk { op, volume: block.volume, card, work });
    }

    /// Enters a state; a node that was asked has a limited time to answer.
    fn wait_in(&mut self, request: RequestId, state: State) {
        let Some(fetch) = self.fetches.get(request) else { return };
        let primary = self.primary_of(fetch.block.volume);
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        fetch.state = state;
        let deadline = match state {
            State::Asked(node) if node == primary => {
                // A question that is lost is repeated in time, however little is left, and the less often the longer all others wait, too.
                let half = (fetch.give_up.since(self.now) / 2).max(self.timing.peer);
                let waited = fetch.first_asked.map_or(Duration::ZERO, |(_, at)| self.now.since(at));
                fetch.give_up.min(self.now + self.timing.primary.max(waited).min(half))
            }
            State::Asked(_)
                if self.config.hedge && !fetch.landing && !fetch.from_disk_node && !fetch.hedged =>
            {
                fetch.give_up.min(self.now + self.pace.late().min(self.timing.peer))
            }
            State::Asked(_) | State::AwaitingLock => fetch.give_up.min(self.now + self.timing.peer),
            State::Disk(_) => Instant::NEVER,
            State::Ready | State::Waiting | State::NoSlot => fetch.give_up,
        };
        fetch.wake_at(deadline, &mut self.timers);
    }
}
