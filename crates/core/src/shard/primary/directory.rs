//! The primary's directory: which cards may have copies of what, and the last writes, per region.
//!
//! It names at least what cards hold: a card is entered before it hears of a grant, or its command begins, and leaves
//! with its own word, or with the end of the card. Before a write only those are asked whom it names for the segment.
//! Who releases says so with a turn; a release that is older than the card's last acquire or command is ignored, since
//! the card holds what it was granted afterwards.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use core::ops::{Bound, Range};

use super::marks::Marks;
use super::revoke::Waiting;
use super::{PeerCard, Primary};
use crate::ids::{BlockId, Generation, NodeId, PgId, Stamp};
use crate::io::Payload;
use crate::message::{Ahead, Body, Grant};
use crate::mistakes::{Mistake, makes};
use crate::shard::regions::{Bounds, Place, Writes};
use crate::shard::{Limit, Limits, Shard};

/// See the module's head.
pub(in crate::shard) struct Directory {
    /// The last writes, by region.
    written: BTreeMap<u32, Writes>,
    /// The limit in regions that are not listed.
    default: Stamp,
    written_max: usize,
    /// What cards may hold, by region.
    holders: BTreeMap<(u32, NodeId), Holder>,
    holders_max: usize,
    /// How far the search for locks that are not used has come.
    hand: Option<(u32, NodeId)>,
}

/// What a card may hold in a region. That of a card which the node has not any more is none.
struct Holder {
    generation: Generation,
    held: u64,
    /// Of its last acquire or command.
    turn: u64,
    /// It has acquired something there again since the hand came by.
    warm: bool,
}

/// A lock that its card has not acquired anew for longer than others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Cold {
    pub(super) node: NodeId,
    pub(super) generation: Generation,
    pub(super) region: u32,
}

/// The cards of other nodes.
type Cards = BTreeMap<NodeId, PeerCard>;

fn is_current(cards: &Cards, node: NodeId, generation: Generation) -> bool {
    cards.get(&node).is_some_and(|card| card.generation == generation)
}

/// Locks that the hand goes past for each that is new.
const STEPS: usize = 16;

impl Directory {
    /// Of a primary whose life begins with this stamp: what was written before is known from its last life, or else not in
    /// detail.
    pub(in crate::shard) fn new(first: Stamp, marks: Option<&Marks>, limits: &Limits) -> Self {
        let mut directory = Self {
            written: BTreeMap::new(),
            default: if makes(Mistake::ForgetEarlierWrites) { Stamp(0) } else { first },
            written_max: limits.directory_regions,
            holders: BTreeMap::new(),
            holders_max: limits.directory_holders,
            hand: None,
        };
        let fits = |marks: &&Marks| marks.are_before(first) && marks.regions.len() <= directory.written_max;
        if let Some(marks) = marks.filter(fits) {
            let regions = marks.regions.iter();
            directory.written = regions.map(|&(number, bounds)| (number, Writes::before(bounds))).collect();
            directory.default = marks.default;
        }
        directory
    }

    /// The cluster has grown.
    pub(in crate::shard) fn limit(&mut self, limits: &Limits) {
        (self.written_max, self.holders_max) = (limits.directory_regions, limits.directory_holders);
    }

    /// For the next life.
    pub(in crate::shard) fn marks(&self) -> Marks {
        let regions = self.written.iter().map(|(&number, writes)| (number, writes.bounds()));
        let default = Bounds { base: self.default, ..Bounds::default() };
        Marks { default: self.default, regions: regions.filter(|(_, bounds)| *bounds != default).collect() }
    }

    pub(in crate::shard) fn bytes(&self) -> usize {
        self.written.len() * size_of::<(u32, Writes)>()
            + self.holders.len() * size_of::<((u32, NodeId), Holder)>()
    }

    /// Panics if it remembers more than it may.
    pub(in crate::shard) fn check(&self) {
        let (written, holders) = (self.written.len(), self.holders.len());
        assert!(written <= self.written_max, "{written} regions are remembered");
        assert!(holders <= self.holders_max, "{holders} locks are remembered");
    }

    pub(in crate::shard) fn bounds(&self, region: u32) -> Bounds {
        let default = Bounds { base: self.default, ..Bounds::default() };
        self.written.get(&region).map_or(default, Writes::bounds)
    }

    /// Something was written to the region in the interval of a stamp.
    fn is_written_in(&self, region: u32, stamp: Stamp) -> bool {
        self.written.get(&region).is_some_and(|writes| writes.is_in_interval_of(stamp))
    }

    /// A write has begun. Whether others were forgotten for it.
    pub(in crate::shard) fn write(&mut self, place: Place, stamp: Stamp) -> bool {
        let is_full = !self.written.contains_key(&place.region) && self.written.len() >= self.written_max;
        if is_full {
            self.forget_writes();
        }
        let writes = self.written.entry(place.region).or_insert_with(|| Writes::since(self.default));
        writes.write(place.segment, stamp);
        is_full
    }

    /// Half of the regions, those first that were written the longest ago: they are as good as written by the last of
    /// them.
    fn forget_writes(&mut self) {
        let mut all: Vec<(Stamp, u32)> =
            self.written.iter().map(|(&number, writes)| (writes.last(), number)).collect();
        let half = all.len() / 2;
        all.select_nth_unstable(half);
        for &(last, number) in &all[..=half] {
            self.written.remove(&number);
            self.default = self.default.max(last);
        }
    }

    /// A card may hold more from now on. All of it that it may hold; none if there is no room for it.
    fn enter(
        &mut self,
        node: NodeId,
        generation: Generation,
        region: u32,
        (held, turn): (u64, u64),
    ) -> Option<u64> {
        let is_full = self.holders.len() >= self.holders_max;
        let holder = match self.holders.entry((region, node)) {
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(place) => place.insert(Holder { generation, held, turn, warm: false }),
            Entry::Occupied(known) if known.get().generation == generation => {
                let holder = known.into_mut();
                holder.held |= held;
                holder.turn = holder.turn.max(turn);
                holder.warm = true;
                holder
            }
            Entry::Occupied(past) => {
                let holder = past.into_mut();
                *holder = Holder { generation, held, turn, warm: false };
                holder
            }
        };
        Some(holder.held)
    }

    /// Whether the card is not named there any more.
    pub(super) fn release(
        &mut self,
        (node, generation): (NodeId, Generation),
        region: u32,
        released: u64,
        turn: u64,
    ) -> bool {
        let Entry::Occupied(mut known) = self.holders.entry((region, node)) else { return false };
        let holder = known.get_mut();
        if holder.generation != generation || turn <= holder.turn && !makes(Mistake::ReleaseUnordered) {
            return false;
        }
        holder.held &= !released;
        let is_gone = holder.held == 0;
        if is_gone {
            known.remove();
        }
        is_gone
    }

    /// The card is named in the region.
    pub(super) fn knows(&self, node: NodeId, region: u32) -> bool {
        self.holders.contains_key(&(region, node))
    }

    /// So many are named that some are to be given up.
    pub(super) fn is_crowded(&self) -> bool {
        self.holders.len() >= self.holders_max - self.holders_max / 8
    }

    /// Goes on around all locks, and forgets those of cards that are gone. Those that were not used since it came by last, and
    /// of which `may_go` says so: at most two.
    pub(super) fn coldest(&mut self, cards: &Cards, may_go: impl Fn(&Cold) -> bool) -> Vec<Cold> {
        let (mut gone, mut cold) = (Vec::new(), Vec::<Cold>::new());
        for _ in 0..STEPS.min(self.holders.len() + 1) {
            let from = self.hand.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.holders.range_mut((from, Bound::Unbounded)).next();
            self.hand = next.as_ref().map(|&(&key, _)| key);
            let Some((&(region, node), holder)) = next else { continue };
            let found = Cold { node, generation: holder.generation, region };
            if !is_current(cards, node, holder.generation) {
                gone.push((region, node));
            } else if holder.warm {
                holder.warm = false;
            } else if !cold.contains(&found) && may_go(&found) {
                cold.push(found);
                if cold.len() == 2 {
                    break;
                }
            }
        }
        gone.into_iter().for_each(|key| _ = self.holders.remove(&key));
        cold
    }

    /// Whatever the card says.
    pub(super) fn strike(&mut self, cold: &Cold) {
        self.holders.remove(&(cold.region, cold.node));
    }

    /// The segments of a region that a card may hold.
    pub(in crate::shard) fn held(&self, node: NodeId, generation: Generation, region: u32) -> u64 {
        let holder = self.holders.get(&(region, node)).filter(|holder| holder.generation == generation);
        holder.map_or(0, |holder| holder.held)
    }

    /// Cards that may have copies in a segment, but for one.
    fn holders(&self, place: Place, except: NodeId, cards: &Cards) -> Vec<NodeId> {
        let of_region = (place.region, NodeId(0))..=(place.region, NodeId(u16::MAX));
        let others = self.holders.range(of_region).filter(|((_, node), holder)| {
            holder.held & place.bit() != 0 && *node != except && is_current(cards, *node, holder.generation)
        });
        if makes(Mistake::AskAll) {
            return cards.keys().copied().filter(|&node| node != except).collect();
        }
        others.map(|(&(_, node), _)| node).collect()
    }
}

impl Shard {
    /// Cards whose copies of the blocks must go before they are written.
    pub(in crate::shard) fn holders(&self, id: PgId, writer: NodeId, blocks: &Range<u32>) -> Vec<NodeId> {
        let place = self.place(blocks.start);
        self.primary(id).map_or_else(Vec::new, |p| p.directory.holders(place, writer, &p.cards))
    }

    /// A card wants a lock. It is granted at once: whoever writes there next asks the card first. It gets the whole region but for
    /// what was written lately, so that a writer and a reader of different segments do not meet. While the directory is
    /// full it is told nothing, and waits, or asks again.
    pub(in crate::shard) fn acquire(
        &mut self,
        (node, generation): (NodeId, Generation),
        id: PgId,
        index: u32,
        (turn, ahead): (u64, u8),
    ) {
        let acquire = Waiting { node, generation, index, turn, ahead, is_command: false };
        if !self.grant(acquire, id) {
            self.await_room(acquire, id);
        }
    }

    fn await_room(&mut self, acquire: Waiting, id: PgId) {
        let Some(primary) = self.primary_mut(id) else { return };
        let waits = primary.revocations.wait(acquire);
        self.reached.note(Limit::LocksWaiting, !waits);
        self.arm_revocations(id);
    }

    /// Whether there was room for it, or nobody wants it any more.
    pub(super) fn grant(&mut self, acquire: Waiting, id: PgId) -> bool {
        let Waiting { node, generation, index, turn, ahead, is_command } = acquire;
        let (place, all) = (self.place(index), self.all_segments());
        let Some(volume) = self.volumes.get(&id) else { return true };
        let within = u64::from(index) < volume.spec.blocks();
        let Some(primary) = volume.primary.as_ref().filter(|p| within && p.is_live(node, generation)) else {
            return true;
        };
        let bounds = primary.directory.bounds(place.region);
        let held = all & !bounds.written | place.bit();
        let card = (node, generation);
        if is_command {
            // Its card comes again, and is told of the lock with the answer.
            return self.enter(card, id, place.region, (place.bit(), turn)).is_some();
        }
        let Some(held) = self.enter(card, id, place.region, (held, turn)) else { return false };
        let ahead = self.grant_ahead(card, id, place.region, (turn, ahead));
        let grant = Grant { turn, held, bounds };
        self.send(node, id, Body::Granted { generation, block: index, grant, ahead }, Payload::None);
        true
    }

    /// The regions behind one, for a card that reads on: as far as nobody has written them lately, and nothing has to be
    /// revoked for it.
    fn grant_ahead(
        &mut self,
        (node, generation): (NodeId, Generation),
        id: PgId,
        region: u32,
        (turn, wanted): (u64, u8),
    ) -> Ahead {
        let (all, mut ahead) = (self.all_segments(), Ahead::default());
        for next in (1..=u32::from(wanted.min(Ahead::MAX))).map_while(|n| region.checked_add(n)) {
            let (first, _) = self.ends_of_region(next);
            let Some(volume) = self.volumes.get_mut(&id) else { break };
            let within = u64::from(first) < volume.spec.blocks();
            let Some(primary) = volume.primary.as_mut().filter(|_| within) else { break };
            let (last, directory) = (primary.last_stamp, &mut primary.directory);
            if directory.is_crowded() || directory.is_written_in(next, last) {
                break;
            }
            let Some(_) = directory.enter(node, generation, next, (all, turn)) else { break };
            let bounds = directory.bounds(next);
            ahead.bound = ahead.bound.max(bounds.base).max(bounds.version);
            ahead.regions += 1;
        }
        ahead
    }

    fn enter(
        &mut self,
        (node, generation): (NodeId, Generation),
        id: PgId,
        region: u32,
        (held, turn): (u64, u64),
    ) -> Option<u64> {
        self.make_room_for_lock(id, node, region);
        let entered = self.primary_mut(id)?.directory.enter(node, generation, region, (held, turn));
        self.reached.note(Limit::DirectoryHolders, entered.is_none());
        entered
    }

    /// A command is an acquire of what it changes: while it may have been applied, and its sender does not know, no
    /// other card writes there without asking the sender. Whether there is room for that.
    pub(in crate::shard) fn enter_commander(
        &mut self,
        card: (NodeId, Generation),
        id: PgId,
        blocks: &Range<u32>,
        turn: u64,
    ) -> bool {
        if blocks.is_empty()
            || makes(Mistake::NoCommandLock)
            || self.volumes.get(&id).is_none_or(|volume| !volume.confirms())
        {
            return true;
        }
        let place = self.place(blocks.start);
        let has_room = self.enter(card, id, place.region, (place.bit(), turn)).is_some();
        let ((node, generation), index) = (card, blocks.start);
        if has_room && let Some(primary) = self.primary_mut(id) {
            primary.revocations.came(node, index);
        } else {
            let acquire = Waiting { node, generation, index, turn, ahead: 0, is_command: true };
            self.await_room(acquire, id);
        }
        has_room
    }

    /// What the answer to a command grants: what the command acquired.
    pub(in crate::shard) fn grant_of(&self, node: NodeId, id: PgId, blocks: &Range<u32>, turn: u64) -> Grant {
        let place = self.place(blocks.start);
        let named = self.primary(id).filter(|p| !blocks.is_empty() && p.names(node, place));
        named.map_or_else(Grant::default, |primary| {
            let bounds = primary.directory.bounds(place.region);
            Grant { turn, held: place.bit(), bounds }
        })
    }

    /// Whether a card may hold the lock on a block, as far as the directory knows. None for a card that it does
    /// not know.
    #[must_use]
    pub fn may_hold_lock(&self, node: NodeId, generation: Generation, block: BlockId) -> Option<bool> {
        let primary = self.primary(block.volume)?;
        primary.is_live(node, generation).then(|| primary.names(node, self.place(block.index)))
    }
}

impl Primary {
    /// The directory names the node's card for a segment.
    fn names(&self, node: NodeId, place: Place) -> bool {
        let held = |card: &PeerCard| self.directory.held(node, card.generation, place.region);
        self.cards.get(&node).is_some_and(|card| held(card) & place.bit() != 0)
    }
}
