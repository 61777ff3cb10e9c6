//! What has been asked for arrives, or does not.

use super::{State, Waiter};
use crate::ids::{BlockId, NodeId, OpId, RequestId, Slot, Stamp};
use crate::io::{Landing, Payload};
use crate::message::{IoError, Source};
use crate::mistakes::{Mistake, makes};
use crate::policy::Delivery;
use crate::shard::Shard;
use crate::shard::coherence::Freshness;
use crate::shard::regions::judge;

impl Shard {
    pub(in crate::shard) fn land_data(
        &mut self,
        request: RequestId,
        block: BlockId,
        as_of: Stamp,
    ) -> Landing {
        let wanted =
            !self.holds(block) || self.is_fresh(block, as_of) || self.was_current(request, block, as_of);
        let Some(fetch) = self.fetches.get_mut(request) else { return Landing::Discard };
        let Some(slot) = fetch.slot else { return Landing::Discard };
        let asked = fetch.is_asked();
        if fetch.block != block || fetch.landing || !asked || !wanted {
            return Landing::Discard;
        }
        fetch.landing = true;
        self.cache.pin(slot);
        Landing::Slot(slot)
    }

    pub(in crate::shard) fn landing_aborted(&mut self, slot: Slot) {
        let landing = self.fetches.iter_mut().find(|fetch| fetch.landing && fetch.slot == Some(slot));
        if let Some(fetch) = landing {
            fetch.landing = false;
            fetch.from_disk_node = true;
            if fetch.is_asked() {
                let request = fetch.request;
                self.make_ready(request);
            }
        }
        self.put_back(Payload::Slot(slot));
    }

    pub(in crate::shard) fn data(
        &mut self,
        request: RequestId,
        block: BlockId,
        delivery: Delivery,
        as_of: Stamp,
        payload: Payload,
    ) {
        let from = delivery.from;
        let freshness = self.freshness(block);
        let holds = self.holds(block);
        let refused = makes(Mistake::RefuseDeliveries)
            && self.fetches.get(request).is_some_and(|fetch| !fetch.from_disk_node);
        let fresh = !refused && (!holds || self.is_fresh(block, as_of));
        let confirms = self.volumes.get(&block.volume).is_some_and(|v| v.confirms());
        let usable = !matches!(freshness, Freshness::LeaseExpired | Freshness::BeingWritten);
        let landed = match payload {
            Payload::Slot(slot) => self
                .fetches
                .get_mut(request)
                .filter(|f| f.landing && f.slot == Some(slot) && f.block == block)
                .map(|fetch| {
                    fetch.landing = false;
                    let measured = fetch.hedged || !fetch.from_disk_node;
                    if let Some(asked_at) = fetch.asked_at.take().filter(|_| measured) {
                        self.pace.answered(self.now.since(asked_at));
                    }
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
        let asked = matches!(state, State::Asked(_));
        if !fresh || overtaken || !usable || !asked {
            let given = !fresh && !refused && usable && asked && self.was_current(request, block, as_of);
            self.data_refused(request, block, from, fresh || given);
            if given {
                self.give_stale(request, slot, delivery.source);
            }
            return;
        }
        if holds {
            self.finish(request, slot, delivery);
        } else if let Some(fetch) = self.fetches.get_mut(request) {
            fetch.arrived = Some((delivery, as_of));
            self.acquire_lock(block);
            self.await_lock(request);
        }
    }

    /// Whether contents as of a stamp were current after the block was asked for, see [`super::Asked`].
    fn was_current(&self, request: RequestId, block: BlockId, as_of: Stamp) -> bool {
        let is_past = self.card(block.volume).is_none_or(|card| card.is_past(as_of));
        let asked = self.fetches.get(request).and_then(|fetch| fetch.asked);
        asked.is_some_and(|asked| !is_past && judge(as_of, asked.bound))
    }

    /// Whether what has come before its lock may be used now that the card has this. If not, the primary is asked.
    pub(super) fn judge_arrived(&mut self, request: RequestId, block: BlockId, as_of: Stamp) -> bool {
        let fresh = self.is_fresh(block, as_of);
        if !fresh && let Some(fetch) = self.fetches.get_mut(request) {
            fetch.from_disk_node = true;
            self.stats.refused_as_stale += 1;
        }
        fresh
    }

    /// A delivery that cannot be used: ask the primary, unless the block waits anyway.
    fn data_refused(&mut self, request: RequestId, block: BlockId, from: NodeId, fresh: bool) {
        let from_primary = from == self.primary_of(block.volume);
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        if fetch.block != block || fetch.landing || !fetch.is_asked() {
            return;
        }
        if !fresh {
            self.stats.refused_as_stale += 1;
        }
        fetch.asked_at = fetch.asked_at.filter(|_| from_primary);
        let first = !core::mem::replace(&mut fetch.from_disk_node, true);
        if self.now < fetch.patient_until {
            fetch.wake_at(fetch.patient_until.min(fetch.give_up), &mut self.timers);
        } else if first || from_primary {
            fetch.patient_until = self.now + self.timing.resend;
            self.make_ready(request);
        }
    }

    pub(in crate::shard) fn nack(
        &mut self,
        from: NodeId,
        request: RequestId,
        block: BlockId,
        error: IoError,
    ) {
        let from_primary = from == self.primary_of(block.volume);
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        if fetch.block != block || fetch.landing || !fetch.is_asked() {
            return;
        }
        if from_primary && !matches!(error, IoError::NotAttached | IoError::Busy) {
            // Without the second question nobody would have heard of a failure. If there is no other answer, it is asked again.
            match fetch.late_until(self.now, self.timing.peer) {
                Some(until) => fetch.wake_at(until.min(fetch.give_up), &mut self.timers),
                None => self.fail(request, error),
            }
        } else {
            fetch.asked_at = fetch.asked_at.filter(|_| from_primary);
            fetch.from_disk_node = true;
            fetch.wake_at(fetch.give_up.min(self.now + self.timing.resend), &mut self.timers);
        }
    }

    pub(in crate::shard) fn disk_read_done(&mut self, op: OpId, result: Result<(), IoError>) {
        let Some(request) = self.fetches.by_op.remove(&op) else { return };
        let Some(fetch) = self.fetches.get(request) else { return };
        if fetch.state != State::Disk(op) {
            return;
        }
        let Some(slot) = fetch.slot else { return };
        let volume = fetch.block.volume;
        let overtaken = fetch.overtaken
            || matches!(self.freshness(fetch.block), Freshness::LeaseExpired | Freshness::BeingWritten);
        match result {
            Ok(()) if overtaken => {
                if let Some(fetch) = self.fetches.get_mut(request) {
                    fetch.passed_over = true;
                }
                self.make_ready(request);
            }
            Ok(()) => {
                let from = self.config.node;
                let delivery =
                    Delivery { from, source: Source::Disk, oldest_ms: 0, for_others: false, ahead: false };
                self.finish(request, slot, delivery);
            }
            // It was this node's to read when it began.
            Err(_) if fetch.overtaken || self.primary(volume).is_none() => self.make_ready(request),
            // What the late node has said while the disk was read was read past: it is asked again, once. No peer waits for that.
            Err(_)
                if fetch.late_until(self.now, self.timing.peer).is_some()
                    && !fetch.waiters.iter().any(Waiter::is_peer) =>
            {
                if let Some(fetch) = self.fetches.get_mut(request) {
                    (fetch.from_disk_node, fetch.asked_at) = (false, None);
                }
                self.make_ready(request);
            }
            Err(error) => self.fail(request, error),
        }
    }
}
