//! All fetches of a shard: found by their requests, and by their blocks.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::{Fetch, State};
use crate::ids::{BlockId, NodeId, OpId, PgId, RequestId, Slot, mix};
use crate::table::Table;

/// See the module's head.
pub(in crate::shard) struct Fetches {
    places: Vec<Option<Fetch>>,
    /// Places without a fetch.
    vacant: Vec<u32>,
    /// Fetches that have slots, by their groups. None is left out that ever had one.
    with_slots: BTreeMap<PgId, usize>,
    /// From requests to places.
    by_request: Table,
    /// From blocks to places: there is one fetch of a block.
    by_block: Table,
    /// Those that this node's disk is reading for.
    pub(super) by_op: BTreeMap<OpId, RequestId>,
    /// Fetches that can go on, in order.
    pub(super) ready: VecDeque<RequestId>,
    /// Those that wait for the lock on a region.
    pub(super) by_lock: BTreeSet<(PgId, u32, RequestId)>,
    /// Fetches from this node's disk that wait for a slot, in order. They end by themselves.
    pub(super) disk_waiters: VecDeque<RequestId>,
    /// The others that do. They end when other nodes answer, so they never take the last slots: two nodes
    /// that wait for each other's disks would wait for ever.
    pub(super) peer_waiters: VecDeque<RequestId>,
    /// Of fetches that have ended and writes may have waited for.
    pub(super) made_way: Vec<BlockId>,
}

/// Places at first.
const PLACES: u32 = 16;

/// A table for so many places: half empty, so that searches end soon.
fn table(places: u32) -> Table {
    Table::new(places as usize * 2, places)
}

impl Default for Fetches {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            vacant: Vec::new(),
            with_slots: BTreeMap::new(),
            by_request: table(PLACES),
            by_block: table(PLACES),
            by_op: BTreeMap::new(),
            ready: VecDeque::new(),
            by_lock: BTreeSet::new(),
            disk_waiters: VecDeque::new(),
            peer_waiters: VecDeque::new(),
            made_way: Vec::new(),
        }
    }
}

const fn hash(request: RequestId) -> u64 {
    mix(request.0)
}

impl Fetches {
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(in crate::shard) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    fn at(&self, place: u32) -> Option<&Fetch> {
        self.places[place as usize].as_ref()
    }

    fn place(&self, request: RequestId) -> Option<u32> {
        self.by_request.find(hash(request), |place| self.at(place).is_some_and(|f| f.request == request))
    }

    fn place_of_block(&self, block: BlockId) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        self.by_block.find(block.hash(), |place| self.at(place).is_some_and(|f| f.block == block))
    }

    pub(super) fn get(&self, request: RequestId) -> Option<&Fetch> {
        self.at(self.place(request)?)
    }

    pub(super) fn get_mut(&mut self, request: RequestId) -> Option<&mut Fetch> {
        let place = self.place(request)?;
        self.places[place as usize].as_mut()
    }

    pub(super) fn of_block(&self, block: BlockId) -> Option<&Fetch> {
        self.at(self.place_of_block(block)?)
    }

    /// The blocks that have been asked for and not come yet.
    pub(in crate::shard) fn blocks_to_come(&self) -> impl Iterator<Item = BlockId> {
        let is_to_come = |fetch: &&Fetch| matches!(fetch.state, State::Asked(_) | State::Disk(_));
        self.places.iter().flatten().filter(is_to_come).map(|fetch| fetch.block)
    }

    /// Somebody waits for the block.
    pub(in crate::shard) fn is_under_way(&self, block: BlockId) -> bool {
        self.place_of_block(block).is_some()
    }

    /// Whether the fetch of the block, if there is one, has a slot.
    pub(in crate::shard) fn has_slot(&self, block: BlockId) -> Option<bool> {
        self.of_block(block).map(|fetch| fetch.slot.is_some())
    }

    /// The fetch has the slot from now on, in place of the one that it may have had.
    pub(super) fn give_slot(&mut self, request: RequestId, slot: Slot) {
        let Some(fetch) = self.get_mut(request) else { return };
        let volume = fetch.block.volume;
        if fetch.slot.replace(slot).is_none() {
            *self.with_slots.entry(volume).or_default() += 1;
        }
    }

    /// The fetch has no slot any more.
    pub(super) fn take_slot(&mut self, request: RequestId) {
        let had = self.get_mut(request).and_then(|fetch| fetch.slot.take().map(|_| fetch.block.volume));
        self.slot_is_gone(had);
    }

    fn slot_is_gone(&mut self, volume: Option<PgId>) {
        if let Some(with_slots) = volume.and_then(|volume| self.with_slots.get_mut(&volume)) {
            *with_slots -= 1;
        }
    }

    /// Fetches of the groups that have slots.
    pub(super) fn with_slots(&self, is_it: impl Fn(PgId) -> bool) -> usize {
        self.with_slots.iter().filter(|&(&volume, _)| is_it(volume)).map(|(_, with_slots)| with_slots).sum()
    }

    /// Fetches may be waiting for slots.
    #[inline]
    pub(super) fn lacks_slots(&self) -> bool {
        !self.disk_waiters.is_empty() || !self.peer_waiters.is_empty()
    }

    /// The fetch whose turn is next when a slot becomes free.
    pub(super) fn first_without_slot(&mut self) -> Option<RequestId> {
        loop {
            let queue = if self.disk_waiters.is_empty() { &self.peer_waiters } else { &self.disk_waiters };
            let request = *queue.front()?;
            if self.get(request).is_some_and(|fetch| fetch.state == State::NoSlot) {
                return Some(request);
            }
            let queue =
                if self.disk_waiters.is_empty() { &mut self.peer_waiters } else { &mut self.disk_waiters };
            queue.pop_front();
        }
    }

    /// The fetch of the block has asked the node, and waits for the answer.
    pub(in crate::shard) fn has_asked(&self, block: BlockId, node: NodeId) -> bool {
        self.of_block(block).is_some_and(|fetch| fetch.state == State::Asked(node))
    }

    /// Somebody has waited for the block while it was written: the next write waits in turn.
    pub(in crate::shard) fn goes_first(&self, block: BlockId) -> bool {
        self.of_block(block).is_some_and(|fetch| fetch.passed_over && !fetch.waiters.is_empty())
    }

    pub(super) fn of_block_mut(&mut self, block: BlockId) -> Option<&mut Fetch> {
        let place = self.place_of_block(block)?;
        self.places[place as usize].as_mut()
    }

    /// In no useful order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Fetch> {
        self.places.iter_mut().flatten()
    }

    /// None can go on now.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.ready.is_empty() && self.made_way.is_empty()
    }

    /// The requests of fetches for which `is_it` says so, the oldest first.
    pub(super) fn requests_of(&self, is_it: impl Fn(&Fetch) -> bool) -> Vec<RequestId> {
        let found = self.places.iter().flatten().filter(|fetch| is_it(fetch));
        let mut requests: Vec<RequestId> = found.map(|fetch| fetch.request).collect();
        requests.sort_unstable();
        requests
    }

    /// Adds a fetch; there is none of its block.
    pub(super) fn insert(&mut self, fetch: Fetch) {
        let place = match self.vacant.pop() {
            Some(place) => place,
            None => {
                self.make_places();
                self.places.push(None);
                self.places.len() as u32 - 1
            }
        };
        self.by_request.insert(hash(fetch.request), place);
        self.by_block.insert(fetch.block.hash(), place);
        self.places[place as usize] = Some(fetch);
    }

    /// Larger tables, if there is a fetch at each place they know.
    fn make_places(&mut self) {
        let len = self.places.len() as u32;
        if len < PLACES || !len.is_power_of_two() {
            return;
        }
        (self.by_request, self.by_block) = (table(len * 2), table(len * 2));
        for (place, fetch) in (0..).zip(&self.places) {
            if let Some(fetch) = fetch {
                self.by_request.insert(hash(fetch.request), place);
                self.by_block.insert(fetch.block.hash(), place);
            }
        }
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<Fetch> {
        let place = self.place(request)?;
        let fetch = self.places[place as usize].take()?;
        self.slot_is_gone(fetch.slot.map(|_| fetch.block.volume));
        let places = &self.places;
        let other = |place: u32| places[place as usize].as_ref();
        let request_hash = |place| other(place).map_or(0, |fetch| hash(fetch.request));
        let block_hash = |place| other(place).map_or(0, |fetch| fetch.block.hash());
        self.by_request.remove(hash(request), place, request_hash);
        self.by_block.remove(fetch.block.hash(), place, block_hash);
        self.vacant.push(place);
        Some(fetch)
    }

    pub(in crate::shard) fn check(&self) {
        for (place, fetch) in (0..).zip(&self.places) {
            let Some(fetch) = fetch else { continue };
            assert_eq!(self.place(fetch.request), Some(place));
            assert_eq!(self.place_of_block(fetch.block), Some(place), "one fetch per block");
            assert!(fetch.state != State::Ready, "inputs end with all fetches under way or waiting");
        }
        let with_slots = self.places.iter().flatten().filter(|fetch| fetch.slot.is_some()).count();
        assert_eq!(self.with_slots(|_| true), with_slots, "those that have slots are counted");
        let awaiting =
            self.places.iter().flatten().filter(|fetch| fetch.state == State::AwaitingLock).count();
        assert_eq!(self.by_lock.len(), awaiting, "those that wait for locks are listed");
        let found = |table: &Table| table.slots().count();
        assert_eq!((found(&self.by_request), found(&self.by_block)), (self.len(), self.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    fn fetch(number: u64) -> Fetch {
        let block = BlockId::new(PgId(0), number as u32);
        Fetch { state: State::Waiting, ..Fetch::new(RequestId(number), block, true, Instant::NEVER) }
    }

    #[test]
    fn fetches_are_found_while_there_are_ever_more_and_again_fewer() {
        let mut fetches = Fetches::default();
        for number in 0..1000 {
            fetches.insert(fetch(number));
            if number % 3 == 0 {
                let gone = fetches.remove(RequestId(number / 2)).map(|fetch| fetch.request);
                assert!(gone.is_none_or(|request| request == RequestId(number / 2)));
            }
        }
        fetches.check();
        let requests = fetches.requests_of(|_| true);
        assert!(requests.is_sorted() && requests.len() == fetches.len());
        for request in requests {
            let block = BlockId::new(PgId(0), request.0 as u32);
            assert_eq!(fetches.of_block(block).map(|fetch| fetch.request), Some(request));
            assert!(fetches.remove(request).is_some() && fetches.get(request).is_none());
            assert!(fetches.of_block(block).is_none());
        }
        assert!(fetches.is_empty());
    }
}
