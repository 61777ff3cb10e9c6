//! A peer wants a block.

use super::Waiter;
use crate::cache::Mark;
use crate::ids::{BlockId, NodeId, RequestId, Slot};
use crate::io::Payload;
use crate::message::{Body, IoError, Source};
use crate::policy::Asker;
use crate::shard::Shard;
use crate::shard::coherence::Freshness;
use crate::shard::route::Route;

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

impl PeerRead {
    const fn asker(&self, via: NodeId) -> Asker {
        Asker { requester: self.requester, via, hops: self.hops, failed: self.from_disk }
    }
}

impl Shard {
    /// A peer wants a block.
    pub(in crate::shard) fn peer_read(&mut self, from: NodeId, block: BlockId, read: PeerRead) {
        let PeerRead { request, requester, .. } = read;
        if requester == self.config.node && from == self.primary_of(block.volume) {
            // The other takes this node for the primary. One of the two has yet to hear of a move.
            self.nack(from, request, block, IoError::Busy);
            return;
        }
        let asker = read.asker(from);
        self.forget_writer(from, block, &read);
        let freshness = self.freshness(block);
        let route = self.route(block, asker, freshness);
        match freshness {
            // A use, also if another node answers; the policy may have it otherwise.
            Freshness::Fresh(slot) if !matches!(route, Route::Fails(_)) => {
                self.cache.mark(slot, Mark::READ, true);
                self.touch(slot);
            }
            // It is parked: others' next questions find it usable.
            Freshness::NotHeld if self.contains(block) => self.acquire_lock(block),
            _ => {}
        }
        match (route, freshness) {
            (Route::Served, Freshness::Fresh(slot) | Freshness::Leaving(slot)) => {
                // It stays until it is sent, whatever the policy has dropped.
                self.cache.pin(slot);
                self.asked(block, asker, route);
                if let Freshness::Fresh(_) = freshness {
                    self.cache.mark(slot, Mark::UNUSED, false);
                    // Only the primary sends here what it would have to read.
                    let handed_over = read.from_disk && self.primary(block.volume).is_none();
                    self.stats.handed_over += u64::from(handed_over);
                }
                self.deliver(slot, block, requester, request, Source::Cache);
                self.release(slot);
            }
            (Route::Fails(error), _) => {
                let nack = Body::Nack { request, block: block.index, error };
                self.send(requester, block.volume, nack, Payload::None);
            }
            (Route::Asks { node, from_disk }, _) => {
                let fetches = self.fetches_for(block, asker, freshness);
                self.asked(block, asker, route);
                self.pass_on(node, block, read, from_disk);
                if fetches && from_disk {
                    self.fetch_copy(block);
                }
            }
            _ if requester == self.config.node => {
                self.asked(block, asker, route);
                self.came_back(from, request, block);
            }
            _ => {
                self.asked(block, asker, route);
                self.join_peer(block, read);
            }
        }
    }

    /// Fetches a block that a peer has asked for, for those that ask next. That one waits for the primary, which reads the disk once for
    /// both: so its answer comes a hop sooner.
    fn fetch_copy(&mut self, block: BlockId) {
        self.join(block, None);
        if let Some(fetch) = self.fetches.of_block_mut(block) {
            fetch.is_copy = true;
        }
    }

    /// A peer waits for the fetch of the block.
    fn join_peer(&mut self, block: BlockId, read: PeerRead) {
        let PeerRead { request, requester, leave_copy, .. } = read;
        let under_way = self.fetches.is_under_way(block);
        self.stats.joined += u64::from(under_way);
        self.join(block, Some(Waiter::Peer { node: requester, request, leave_copy }));
        let is_primary = self.primary(block.volume).is_some();
        if let Some(fetch) = self.fetches.of_block_mut(block) {
            fetch.ahead = if under_way { fetch.ahead } else { read.read_ahead };
            let request = fetch.request;
            if is_primary {
                // A peer that asks here is not sent to other peers again, nor made to wait for one.
                self.ask_disk_node(request, block);
            }
        }
    }

    fn pass_on(&mut self, to: NodeId, block: BlockId, read: PeerRead, from_disk: bool) {
        let is_primary = self.primary(block.volume).is_some();
        self.stats.stale_hints += u64::from(from_disk && !is_primary && read.hops > 0);
        self.stats.passed_on += 1;
        if is_primary && from_disk && read.leave_copy {
            self.writers.set_reader(block, read.requester);
        }
        let PeerRead { request, requester, hops, leave_copy, read_ahead, .. } = read;
        let hops = hops.saturating_add(1);
        let body =
            Body::Read { request, block: block.index, requester, hops, leave_copy, read_ahead, from_disk };
        self.send(to, block.volume, body, Payload::None);
    }

    /// A question of this node's comes back from `from`, without an answer: the primary is asked. If this is another node and was
    /// asked before, nodes differ about the primary, and the next question waits for the news: at once it would go the same round.
    fn came_back(&mut self, from: NodeId, request: RequestId, block: BlockId) {
        let was_asked = self.fetches.get(request).is_some_and(|fetch| fetch.from_disk_node);
        match was_asked && self.primary(block.volume).is_none() {
            true => self.nack(from, request, block, IoError::Busy),
            false => self.ask_disk_node(request, block),
        }
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
