//! The locks of this node's card: in which segments it may use copies.
//!
//! A card holds what it was granted, and nothing when it is attached. A copy in a segment that it does not hold is
//! *parked*: it is kept, unusable, with the stamp that it is good as of ([`Mark::PARKED`]), and judged when its segment
//! is granted again. So neither a card that is attached anew nor a restart of the primary empties a cache.
//!
//! A card that is asked to drop copies releases with its answer all segments of the region that it does not need. Its
//! *turns* count acquires, commands and releases: a grant for a turn before the last release of the region is void,
//! since the primary may have forgotten it by then.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, PgId, Slot, Stamp};
use crate::io::Payload;
use crate::message::{Ahead, Body, Grant};
use crate::mistakes::{Mistake, makes};
use crate::shard::regions::{Bounds, Place, judge, segments};
use crate::shard::volume::Volume;
use crate::shard::{Limit, Shard};
use crate::time::{Duration, Instant};

/// What the card holds, and what it knows of the regions that it has copies in.
#[derive(Default)]
pub(in crate::shard) struct Held {
    regions: BTreeMap<u32, Region>,
    turn: u64,
    /// The turn by which a region was forgotten last: for one that is not listed, grants for earlier turns are void.
    forgot_at: u64,
    /// A region was forgotten of which a kernel may have pages.
    forgot_pages: bool,
}

struct Region {
    /// Segments in which copies may be used.
    held: u64,
    /// Those of them in which a block was kept or fetched since.
    used: u64,
    /// Segments of which a kernel may have pages from before this entry was made.
    paged: u64,
    bounds: Bounds,
    /// The turn of the last release: grants for earlier turns are void.
    released: u64,
    /// All parked copies of the region include the complete writes up to this one. None: there are none.
    parked_as_of: Option<Stamp>,
    /// The lock was asked for and not granted yet; it is asked for again then.
    asked_until: Instant,
    last_use: Instant,
    /// When it was seen last that copies had been read here.
    read_at: Instant,
}

impl Region {
    /// Nothing was read here lately, as far as that was looked for.
    fn is_unread(&self, now: Instant, unread: Duration) -> bool {
        now >= self.last_use.max(self.read_at) + unread
    }
}

/// What a card releases in a region.
#[derive(Clone, Copy, Default)]
pub(in crate::shard) struct Release {
    pub(in crate::shard) segments: u64,
    /// Those of them of which a kernel may have pages.
    pub(in crate::shard) used: u64,
    pub(in crate::shard) turn: u64,
}

impl Held {
    pub(in crate::shard) fn holds(&self, place: Place) -> bool {
        self.regions.get(&place.region).is_some_and(|region| region.held & place.bit() != 0)
    }

    /// The last write that contents of the segment must include.
    pub(in crate::shard) fn bound(&self, place: Place) -> Option<Stamp> {
        self.regions.get(&place.region).map(|region| region.bounds.of(place.segment))
    }

    pub(in crate::shard) fn bytes(&self) -> usize {
        self.regions.len() * size_of::<(u32, Region)>()
    }

    /// None of the locks of another description of the volume; turns go on.
    pub(in crate::shard) fn after(before: &Self) -> Self {
        let Self { turn, forgot_pages, .. } = *before;
        Self { turn, forgot_at: turn, forgot_pages, ..Self::default() }
    }

    /// All segments that are held.
    pub(in crate::shard) fn places(&self) -> impl Iterator<Item = Place> {
        self.regions
            .iter()
            .flat_map(|(&region, known)| segments(known.held).map(move |segment| Place { region, segment }))
    }

    /// The segments of a region that are held.
    pub(in crate::shard) fn of_region(&self, region: u32) -> u64 {
        self.regions.get(&region).map_or(0, |region| region.held)
    }

    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// The region's entry. A new one knows of no grant yet: those on their way are void.
    fn region(&mut self, number: u32, now: Instant) -> &mut Region {
        let turn = &mut self.turn;
        let paged = if self.forgot_pages { u64::MAX } else { 0 };
        let region = self.regions.entry(number).or_insert_with(|| {
            *turn += 1;
            Region {
                held: 0,
                used: 0,
                paged,
                bounds: Bounds::default(),
                released: *turn,
                parked_as_of: None,
                asked_until: Instant(0),
                last_use: now,
                read_at: Instant(0),
            }
        });
        region.last_use = now;
        region
    }

    /// The entry of a region that a grant for a turn names beyond what was asked for; none, if the card may have released it
    /// since.
    fn region_ahead(&mut self, number: u32, turn: u64, (now, most): (Instant, usize)) -> Option<&mut Region> {
        let late = makes(Mistake::LateGranted);
        match self.regions.get(&number) {
            Some(known) if turn <= known.released && !late => return None,
            None if turn <= self.forgot_at && !late || self.regions.len() >= most => return None,
            Some(_) | None => {}
        }
        let forgot_at = self.forgot_at;
        let is_new = !self.regions.contains_key(&number);
        let region = self.region(number, now);
        if is_new {
            region.released = forgot_at;
        }
        Some(region)
    }

    fn forget(&mut self, number: u32) {
        self.regions.remove(&number);
        self.forgot_at = self.turn;
    }

    /// A block of the segment is kept or fetched here.
    pub(in crate::shard) fn used(&mut self, place: Place, now: Instant) {
        if let Some(region) = self.regions.get_mut(&place.region) {
            region.used |= place.bit() & region.held;
            region.last_use = now;
        }
    }

    /// A copy in the region, as of a stamp, is parked.
    pub(in crate::shard) fn parked(&mut self, number: u32, as_of: Stamp, now: Instant) {
        let parked_as_of = &mut self.region(number, now).parked_as_of;
        *parked_as_of = Some(parked_as_of.map_or(as_of, |known| known.min(as_of)));
    }

    /// As of which stamp parked copies in the region are good, if there are any.
    pub(in crate::shard) fn parked_as_of(&self, number: u32) -> Option<Stamp> {
        self.regions.get(&number)?.parked_as_of
    }

    /// This node's own write is complete: contents from before it are old, even if what its answer grants is void.
    pub(in crate::shard) fn wrote(&mut self, place: Place, stamp: Stamp) {
        if let Some(region) = self.regions.get_mut(&place.region).filter(|_| stamp > Stamp(0)) {
            region.bounds.write(place.segment, stamp);
        }
    }

    /// A command of this node's client is sent. As the primary takes it for an acquire, its answer is a grant.
    pub(in crate::shard) fn command(&mut self, place: Place, now: Instant) -> u64 {
        self.region(place.region, now);
        self.next_turn()
    }
}

impl Shard {
    /// Asks the primary for the lock on a block, and on what was not written lately around it, ahead of the first read:
    /// nothing if this is the primary, or the region's was asked for a moment ago.
    pub fn acquire_lock(&mut self, block: BlockId) {
        let (now, again) = (self.now, self.now + self.timing.peer);
        let place = self.place(block.index);
        let Some(volume) = self.volumes.get_mut(&block.volume) else { return };
        let Some(generation) = volume.card.generation.filter(|_| volume.primary.is_none()) else { return };
        let region = volume.card.held.region(place.region, now);
        if region.asked_until > now {
            return;
        }
        region.asked_until = again;
        let turn = volume.card.held.next_turn();
        self.stats.locks_asked += 1;
        self.limit_regions(block.volume);
        let ahead = self.regions_ahead(block.volume, place.region);
        let body = Body::Acquire { generation, block: block.index, turn, ahead };
        self.send(self.primary_of(block.volume), block.volume, body, Payload::None);
    }

    /// How many regions behind one are asked for with it: none, unless the card reads on from the one before.
    fn regions_ahead(&self, id: PgId, region: u32) -> u8 {
        let Some(card) = self.card(id) else { return 0 };
        let reads_on = region.checked_sub(1).is_some_and(|before| card.held.of_region(before) != 0);
        let room = self.regions_max().saturating_sub(card.held.regions.len());
        if reads_on { room.min(Ahead::MAX.into()) as u8 } else { 0 }
    }

    pub(in crate::shard) fn granted(
        &mut self,
        (from, generation): (NodeId, Generation),
        id: PgId,
        index: u32,
        grant: Grant,
        ahead: Ahead,
    ) {
        let volume = self.volumes.get(&id).filter(|v| v.card.generation == Some(generation));
        if volume.is_some_and(|volume| volume.spec.primary == from) {
            let place = self.place(index);
            self.take_grant(id, place, grant);
            self.take_ahead(id, place.region, grant.turn, ahead);
            let regions = u32::from(ahead.regions.min(Ahead::MAX));
            (place.region..=place.region.saturating_add(regions))
                .for_each(|region| self.resume_locked(id, region));
        }
    }

    fn take_ahead(&mut self, id: PgId, region: u32, turn: u64, Ahead { regions, bound }: Ahead) {
        let (all, limits) = (self.all_segments(), (self.now, self.regions_max()));
        for number in (1..=u32::from(regions.min(Ahead::MAX))).map_while(|n| region.checked_add(n)) {
            let Some(card) = self.card_mut(id) else { return };
            let Some(region) = card.held.region_ahead(number, turn, limits) else { continue };
            region.bounds.learn(Bounds { base: bound, ..Bounds::default() });
            let (granted, parked_as_of) = (all & !region.held, region.parked_as_of.take());
            region.held = all;
            if let Some(as_of) = parked_as_of {
                self.unpark(id, number, granted, as_of);
            }
        }
    }

    /// The primary's word about a region. Returns whether it was a grant, and not void.
    pub(in crate::shard) fn take_grant(&mut self, id: PgId, place: Place, grant: Grant) -> bool {
        let all = self.all_segments();
        let Some(volume) = self.volumes.get_mut(&id) else { return false };
        let Some(region) = volume.card.held.regions.get_mut(&place.region) else { return false };
        if grant.turn <= region.released && !makes(Mistake::LateGranted) {
            // A fetch that waits for it asks again.
            region.asked_until = Instant(0);
            return false;
        }
        region.asked_until = Instant(0);
        region.bounds.learn(grant.bounds);
        let granted = grant.held & all & !region.held;
        region.held |= granted;
        let parked_as_of = region.parked_as_of.filter(|_| granted != 0);
        if region.held == all {
            region.parked_as_of = None;
        }
        if let Some(as_of) = parked_as_of {
            self.unpark(id, place.region, granted, as_of);
        }
        true
    }

    /// Parked copies in segments that have just been granted become usable, or go.
    fn unpark(&mut self, id: PgId, region: u32, granted: u64, as_of: Stamp) {
        for segment in segments(granted) {
            let place = Place { region, segment };
            for index in self.indices(place) {
                let block = BlockId::new(id, index);
                let Some(slot) = self.cache.lookup(block).filter(|&slot| self.cache.is(slot, Mark::PARKED))
                else {
                    continue;
                };
                if judge(as_of, self.bound(block)) || makes(Mistake::KeepUnjudged) {
                    self.cache.mark(slot, Mark::PARKED, false);
                    self.stats.copies_kept += 1;
                    if let Some(volume) = self.volumes.get_mut(&id) {
                        volume.card.held.used(place, self.now);
                    }
                } else {
                    self.stats.copies_outdated += 1;
                    self.unkeep(slot);
                }
            }
        }
    }

    /// Parks a copy that has come without a lock, and asks for that.
    pub(in crate::shard) fn park(&mut self, slot: Slot, block: BlockId, as_of: Stamp) {
        let place = self.place(block.index);
        if let Some(volume) = self.volumes.get_mut(&block.volume) {
            volume.card.held.parked(place.region, as_of, self.now);
            self.cache.mark(slot, Mark::PARKED, true);
            self.acquire_lock(block);
        }
    }

    /// The card is void: it holds nothing, and its copies are parked.
    pub(in crate::shard) fn park_copies(&mut self, id: PgId) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let heard = volume.card.heard;
        let turn = volume.card.held.next_turn();
        for region in volume.card.held.regions.values_mut() {
            if region.held != 0 {
                // What was parked before is as of an earlier time.
                region.parked_as_of = Some(region.parked_as_of.map_or(heard, |as_of| as_of.min(heard)));
            }
            (region.held, region.used, region.released) = (0, 0, turn);
            // The driver has all of them go with the card.
            region.paged = 0;
            region.asked_until = Instant(0);
        }
        volume.card.held.forgot_pages = false;
        volume.card.held.forgot_at = turn;
        volume.card.held.regions.retain(|_, region| region.parked_as_of.is_some());
        for slot in self.slots_of(id) {
            if self.cache.is(slot, Mark::LOCKED) {
                // A write to it is under way: what it will be is not known.
                self.unkeep(slot);
            } else {
                self.cache.mark(slot, Mark::PARKED, true);
            }
        }
    }

    /// The region's locks after an invalidation of blocks in one segment: the card has dropped its copies of these
    /// blocks.
    pub(in crate::shard) fn release_around(
        &mut self,
        id: PgId,
        blocks: &Range<u32>,
        stamp: Stamp,
    ) -> Release {
        let place = self.place(blocks.start);
        let busy = self.commanded(id, place.region);
        let is_free = self.is_free(id, place);
        let used = match self.card_mut(id).and_then(|card| card.held.regions.get_mut(&place.region)) {
            Some(region) => {
                region.bounds.write(place.segment, stamp);
                region.used & !place.bit() | if is_free { 0 } else { place.bit() }
            }
            None => 0,
        };
        self.release_segments(id, place.region, !(used | busy), busy)
    }

    /// The primary revokes the locks on a region: all are released but those that are just being used.
    pub(in crate::shard) fn release_region(&mut self, id: PgId, region: u32) -> Release {
        let busy = self.commanded(id, region) | self.fetched(id, region);
        self.release_segments(id, region, !busy, busy)
    }

    /// Releases segments of a region, unless it has asked for locks there; all but the busy ones if it knows nothing of the
    /// region.
    fn release_segments(&mut self, id: PgId, number: u32, released: u64, busy: u64) -> Release {
        let now = self.now;
        let Some(card) = self.card_mut(id) else { return Release::default() };
        let Some(region) = card.held.regions.get_mut(&number) else {
            // A grant on its way will find no entry. It may have held all of it before it was forgotten.
            let turn = card.held.next_turn();
            card.held.forgot_at = turn;
            return Release { segments: !busy, used: !busy, turn };
        };
        if released == 0 || region.asked_until > now {
            // It will be granted what it has asked for. To void that would make a reader ask for ever beside a writer.
            return Release::default();
        }
        let given_up = region.held & released;
        let (copied, used) = (region.used & released, (region.used | region.paged) & released);
        region.held &= !released;
        region.used &= !released;
        region.paged &= !released;
        let turn = card.held.next_turn();
        if let Some(region) = card.held.regions.get_mut(&number) {
            region.released = turn;
        }
        self.stats.locks_given_up += u64::from(given_up != 0);
        self.park_segments(id, number, copied);
        if let Some(card) = self.card_mut(id)
            && card.held.regions.get(&number).is_some_and(|r| r.held == 0 && r.parked_as_of.is_none())
            && busy == 0
        {
            card.held.forget(number);
        }
        Release { segments: released, used, turn }
    }

    /// Copies in segments that have just been released.
    fn park_segments(&mut self, id: PgId, region: u32, released: u64) {
        let mut is_any = false;
        for segment in segments(released) {
            for block in self.indices(Place { region, segment }).map(|index| BlockId::new(id, index)) {
                self.forget_leaving(block);
                let copy = self.cache.lookup(block).filter(|&slot| !self.cache.is(slot, Mark::PARKED));
                match copy {
                    Some(slot) if self.cache.is(slot, Mark::LOCKED) => self.unkeep(slot),
                    Some(slot) => {
                        self.cache.mark(slot, Mark::PARKED, true);
                        is_any = true;
                    }
                    None => {}
                }
            }
        }
        if let Some(card) = self.card_mut(id).filter(|_| is_any)
            && let Some(known) = card.held.regions.get_mut(&region)
        {
            known.parked_as_of = Some(known.parked_as_of.map_or(card.heard, |as_of| as_of.min(card.heard)));
        }
    }

    /// Segments of the region with blocks that will have come soon. A fetch that waits for a slot keeps no lock: who has the
    /// slots may wait for locks.
    fn fetched(&self, id: PgId, region: u32) -> u64 {
        let places =
            self.fetches.blocks_to_come().filter(|block| block.volume == id).map(|b| self.place(b.index));
        places.filter(|place| place.region == region).fold(0, |set, place| set | place.bit())
    }

    /// Segments of the region with commands of this node's clients that the primary may have in hand. They are not
    /// released: others' writes there must go on asking this card, which tells it whether a command may be repeated.
    fn commanded(&self, id: PgId, region: u32) -> u64 {
        let (first, last) = self.ends_of_region(region);
        let written = self.commands.blocks_written(id, first..=last);
        written.fold(0, |set, index| set | self.place(index).bit())
    }

    /// No copy of the segment's blocks is on its way in or out, and none is here that was read lately.
    fn is_free(&mut self, id: PgId, place: Place) -> bool {
        let (mut copied, mut read) = (false, false);
        for block in self.indices(place).map(|index| BlockId::new(id, index)) {
            if self.leaving.contains_key(&block) || self.fetches.is_under_way(block) {
                return false;
            }
            if let Some(slot) = self.cache.lookup(block).filter(|&slot| !self.cache.is(slot, Mark::PARKED)) {
                copied = true;
                read |= self.cache.is(slot, Mark::READ);
                self.cache.mark(slot, Mark::READ, false);
            }
        }
        let (now, unread) = (self.now, self.timing.unread);
        let region = self.card_mut(id).and_then(|card| card.held.regions.get_mut(&place.region));
        region.is_none_or(|region| {
            if read {
                region.read_at = now;
            }
            !copied || region.is_unread(now, unread)
        })
    }

    /// Regions of a volume that this node remembers at most.
    fn regions_max(&self) -> usize {
        (self.cache.slots() as usize / 8).max(self.config.limits.card_regions)
    }

    /// Regions of which this node remembers something are bounded: those go with the fewest copies that were read since it was
    /// looked the last time, of these those with the fewest copies, of these the coldest.
    pub(in crate::shard) fn limit_regions(&mut self, id: PgId) {
        let most = self.regions_max();
        if self.volumes.get(&id).is_none_or(|volume| volume.card.held.regions.len() <= most) {
            return;
        }
        // Reads that hit do not come by here: that a region is in use shows in its copies.
        let mut copies: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let slots: Vec<Slot> =
            self.cache.resident_slots().filter(|&slot| self.cache.block(slot).volume == id).collect();
        for slot in slots {
            let (read, all) = copies.entry(self.place(self.cache.block(slot).index).region).or_default();
            *read += u32::from(self.cache.is(slot, Mark::READ));
            *all += 1;
            self.cache.mark(slot, Mark::READ, false);
        }
        let now = self.now;
        let Some(card) = self.card_mut(id) else { return };
        let warmth = |(&number, region): (&u32, &mut Region)| {
            let copies = copies.get(&number).copied().unwrap_or_default();
            if copies.0 > 0 {
                region.read_at = now;
            }
            (copies, region.last_use, number)
        };
        let mut all: Vec<_> = card.held.regions.iter_mut().map(warmth).collect();
        self.reached.note(Limit::CardRegions, true);
        // A share of them at once, so that a scan over all is rare.
        let gone = all.len() - most + most / 8;
        let last = all.len() - 1;
        all.select_nth_unstable(gone.min(last));
        for (_, _, number) in all.into_iter().take(gone) {
            self.forget_region(id, number);
        }
    }

    fn forget_region(&mut self, id: PgId, number: u32) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        if volume.card.held.regions.get(&number).is_none_or(|region| region.asked_until > self.now) {
            return;
        }
        volume.card.held.forget(number);
        volume.card.held.forgot_pages |= volume.card.pages;
        for segment in segments(self.all_segments()) {
            for index in self.indices(Place { region: number, segment }) {
                self.drop_copy(BlockId::new(id, index));
            }
        }
    }

    /// At a card: of each segment whose lock it holds the first block, with the card.
    pub fn held_segments(&self) -> impl Iterator<Item = (PgId, Generation, BlockId)> {
        let cards = self.volumes.iter().filter(|(_, volume)| volume.primary.is_none());
        cards.flat_map(move |(&id, Volume { card, .. })| {
            card.generation.into_iter().flat_map(move |generation| {
                let blocks = card.held.places().filter_map(move |place| self.indices(place).next());
                blocks.map(move |index| (id, generation, BlockId::new(id, index)))
            })
        })
    }

    /// Panics when a copy could be used without a lock, or a lock not be found.
    pub(in crate::shard) fn check_locks(&self) {
        for slot in self.cache.resident_slots() {
            let block = self.cache.block(slot);
            let parked = self.cache.is(slot, Mark::PARKED);
            if self.is_locked_by_card(block.volume) {
                let place = self.place(block.index);
                let held = &self.volumes[&block.volume].card.held;
                assert_eq!(parked, !held.holds(place), "{block:?} is parked if its segment is not held");
                let region = held.regions.get(&place.region);
                assert!(region.is_some_and(|r| if parked {
                    r.parked_as_of.is_some()
                } else {
                    r.used & place.bit() != 0
                }));
            } else {
                assert!(!parked, "{block:?} needs no lock");
            }
        }
        for block in self.leaving.keys() {
            assert!(self.holds(*block), "{block:?} is on its way out without a lock");
        }
    }
}
