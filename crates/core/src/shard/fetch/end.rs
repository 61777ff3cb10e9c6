//! A fetch ends: all who wait get the block, or hear why not.

use super::{Fetch, Waiter};
use crate::cache::Mark;
use crate::ids::{BlockId, RequestId, Slot, Token};
use crate::io::{Origin, Output, Payload};
use crate::message::{Body, IoError, Source};
use crate::mistakes::{Mistake, makes};
use crate::policy::{Delivery, Fetched};
use crate::shard::Shard;
use crate::timers::Timer;

impl Shard {
    fn end(&mut self, request: RequestId) -> Option<Fetch> {
        let mut fetch = self.fetches.remove(request)?;
        self.stats.lock_wait_us += fetch.unlocked_for(self.now).as_micros() as u64;
        self.fetches.by_lock.remove(&self.lock_wait(request, fetch.block));
        self.timers.clear(fetch.deadline, Timer::Fetch(request));
        self.fetches.made_way.extend(fetch.passed_over.then_some(fetch.block));
        Some(fetch)
    }

    /// The block is in the fetch's slot: keep it (unless the primary has read it for others only), and
    /// give it to all who wait.
    pub(in crate::shard) fn finish(&mut self, request: RequestId, slot: Slot, delivery: Delivery) {
        let source = delivery.source;
        let Some(fetch) = self.end(request) else { return };
        let block = fetch.block;
        self.tell_fetched(&fetch, delivery);
        let for_others_only = fetch.ahead_or_peers_only()
            && delivery.from == self.config.node
            && !fetch.waiters.iter().any(|w| matches!(w, Waiter::Peer { leave_copy: true, .. }))
            && !fetch.waiters.is_empty();
        let ahead = fetch.ahead && fetch.waiters.is_empty() && !fetch.is_copy;
        let for_others = fetch.ahead_or_peers_only() && (fetch.is_copy || !fetch.waiters.is_empty());
        let delivery = Delivery { for_others, ahead, ..delivery };
        if !for_others_only
            && self.cache.lookup(block).is_none()
            && self.with_policy(block.volume, |policy, cx| policy.keeps(cx, block, delivery)) != Some(false)
        {
            self.keep(slot, block, Some(delivery.from), 0, false);
            if self.cache.is_resident(slot) {
                self.cache.mark(slot, Mark::AHEAD, ahead);
                self.cache.mark(slot, Mark::FROM_DISK, source == Source::Disk);
                self.with_policy(block.volume, |policy, cx| policy.filled(cx, block, delivery));
            }
        }
        // Whether or not it is kept here: a kernel may keep pages of what its clients get, which go where the lock goes.
        let place = self.place(block.index);
        if let Some(volume) = self.volumes.get_mut(&block.volume) {
            volume.card.held.used(place, self.now);
        }
        self.hand_out(&fetch, slot, Origin::delivered(source), source);
        self.put_back(Payload::Slot(slot));
    }

    /// Tells the policy what the block has cost.
    fn tell_fetched(&mut self, fetch: &Fetch, Delivery { from, source, .. }: Delivery) {
        let Some((asked, at)) = fetch.first_asked else { return };
        let took = self.policy_clock.is_none().then(|| self.now.since(at));
        let fetched = Fetched { asked, from, source, took };
        self.with_policy(fetch.block.volume, |policy, cx| policy.fetched(cx, fetch.block, fetched));
    }

    /// What is in the fetch's slot was current while the first clients waited, and is stale. The others go on waiting.
    pub(super) fn give_stale(&mut self, request: RequestId, slot: Slot, source: Source) {
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        let (block, first) = (fetch.block, fetch.asked.take().map_or(0, |asked| asked.waiters));
        let clients =
            fetch.waiters.take_clients(if makes(Mistake::GiveStaleToAll) { usize::MAX } else { first });
        if clients.is_empty() {
            return;
        }
        let is_over = fetch.waiters.is_empty();
        self.fetches.take_slot(request);
        for token in clients {
            self.ready(token, block, slot, Origin::delivered(source));
        }
        self.put_back(Payload::Slot(slot));
        if is_over {
            self.end(request);
        }
    }

    pub(super) fn ready(&mut self, token: Token, block: BlockId, slot: Slot, origin: Origin) {
        self.count_read(origin);
        self.cache.pin(slot);
        self.outputs.push_back(Output::Ready { token, block, slot, origin });
    }

    /// The block is resident after all; the fetch's own slot is not needed.
    pub(super) fn finish_from_cache(&mut self, request: RequestId, slot: Slot) {
        let Some(fetch) = self.end(request) else { return };
        if let Some(reserved) = fetch.slot {
            self.put_back(Payload::Slot(reserved));
        }
        let origin = if fetch.waiters.is_empty() { Origin::Local } else { self.use_copy(slot) };
        self.hand_out(&fetch, slot, origin, Source::Cache);
    }

    fn hand_out(&mut self, fetch: &Fetch, slot: Slot, origin: Origin, source: Source) {
        let is_primary = self.primary(fetch.block.volume).is_some();
        for waiter in fetch.waiters.iter() {
            match *waiter {
                Waiter::Client(token) => self.ready(token, fetch.block, slot, origin),
                Waiter::Peer { node, request, .. } => {
                    // What this node had from a peer it serves out of its cache.
                    let source = if is_primary { source } else { Source::Cache };
                    self.deliver(slot, fetch.block, node, request, source);
                }
            }
        }
    }

    pub(super) fn fail(&mut self, request: RequestId, error: IoError) {
        let Some(fetch) = self.end(request) else { return };
        for waiter in fetch.waiters.iter() {
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
