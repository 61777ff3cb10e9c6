//! A peer wants a block.

use super::Waiter;
use crate::cache::Mark;
use crate::ids::{BlockId, NodeId, RequestId, Slot};
use crate::io::Payload;
use crate::message::{Body, IoError, Source};
use crate::policy::{Answer, Request};
use crate::shard::Shard;

/// A [`Body::Read`], without the block.
#[derive(Clone, Copy)]
pub(in crate::shard) struct PeerRead {
    pub(in crate::shard) request: RequestId,
    pub(in crate::shard) requester: NodeId,
    pub(in crate::shard) hops: u8,
    pub(in crate::shard) leave_copy: bool,
    pub(in crate::shard) read_ahead: bool,
    pub(in crate::shard) from_disk: bool,
}

/// Nodes a request passes through at most before it goes to the primary.
pub(in crate::shard) const HOPS: u8 = 4;

impl Shard {
    /// A peer wants a block.
    pub(in crate::shard) fn peer_read(&mut self, from: NodeId, block: BlockId, read: PeerRead) {
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
        if let Some(primary) = &volume.primary {
            let refused = if u64::from(block.index) >= volume.spec.blocks() {
                Some(IoError::Invalid)
            } else if !primary.cards.contains_key(&read.requester) {
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
        let is_primary = volume.primary.is_some();
        let holds = self.may_hold(block.volume) && self.holds(block);
        let copy = self.cache.lookup(block);
        if copy.is_some() && !holds {
            // It is parked: others' next questions find it usable.
            self.acquire_lock(block);
        }
        let served = copy.filter(|&slot| holds && !self.cache.is(slot, Mark::LOCKED));
        // A use; the policy may have it otherwise.
        if let Some(slot) = served {
            self.touch(slot);
        }
        let answer = self
            .with_policy(block.volume, |policy, cx| policy.handle_request(cx, block, request))
            .unwrap_or(Answer::DiskNode);
        // The policy may have dropped it.
        let is_here = |&slot: &Slot| self.cache.is_resident(slot) && self.cache.block(slot) == block;
        if holds {
            if let Some(slot) = served.filter(is_here) {
                self.cache.mark(slot, Mark::UNUSED, false);
                self.deliver(slot, block, read.requester, read.request, Source::Cache);
                // Only the primary sends here what it would have to read.
                self.stats.handed_over += u64::from(read.from_disk && !is_primary);
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
        // Waiting for one another in a circle would end with a timeout: nodes wait for higher ones only, and for none that
        // has no slot, since those may be taken by what waits here.
        let under_way = self.fetches.of_block(block).is_some();
        let has_slot = self.fetches.of_block(block).is_some_and(|fetch| fetch.slot.is_some());
        let may_park = self.config.park && has_slot && me < read.requester && self.may_hold(block.volume);
        let has_failed = onward.is_none();
        let onward = match is_primary && read.hops < HOPS {
            true => onward.or_else(|| self.last_writer_for(from, block, &read)),
            false => onward,
        };
        if is_primary && (onward.is_none() || under_way) || under_way && may_park {
            if under_way {
                self.stats.joined += 1;
            }
            self.join(block, Some(waiter));
            if let Some(fetch) = self.fetches.of_block_mut(block) {
                fetch.ahead = if under_way { fetch.ahead } else { read.read_ahead };
                let request = fetch.request;
                if is_primary {
                    // A peer that asks here is not sent to other peers again, nor made to wait for one.
                    self.ask_disk_node(request, block);
                }
            }
            return;
        }
        if read.hops > HOPS {
            // It was sent here as to the primary. While that moves, two nodes may take each other for it.
            let nack = Body::Nack { request: read.request, block: block.index, error: IoError::Busy };
            self.send(read.requester, block.volume, nack, Payload::None);
            return;
        }
        let to = onward.unwrap_or(self.primary_of(block.volume));
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
            from_disk: has_failed,
        };
        self.send(to, block.volume, body, Payload::None);
    }

    /// Turns a fetch to the primary, unless an answer is arriving.
    fn ask_disk_node(&mut self, request: RequestId, block: BlockId) {
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        if fetch.block != block || fetch.landing {
            return;
        }
        fetch.from_disk_node = true;
        if fetch.is_asked() {
            self.make_ready(request);
        }
    }

    /// Sends a block to the node that wants it, which thereby is the next in the list of its copies.
    pub(super) fn deliver(
        &mut self,
        slot: Slot,
        block: BlockId,
        to: NodeId,
        request: RequestId,
        source: Source,
    ) {
        match source {
            Source::Cache => self.stats.served += 1,
            Source::Disk => self.stats.served_from_disk += 1,
        }
        if self.cache.is_resident(slot) {
            self.cache.set_next(slot, Some(to));
        }
        self.cache.pin(slot);
        let as_of = self.as_of(block);
        let oldest_ms = self.oldest_ms();
        let body = Body::Data { request, block: block.index, source, as_of, oldest_ms };
        self.send(to, block.volume, body, Payload::Slot(slot));
    }
}
