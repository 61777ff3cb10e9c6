//! What a policy sees of its node, and what it can have done.

use alloc::vec::Vec;
use core::ops::Deref;

use super::Room;
use crate::cache::{Cache, Mark};
use crate::ids::{BlockId, NodeId, PgId, mix};
use crate::index::Entry;
use crate::message::Note;
use crate::placement::Placement;
use crate::time::Instant;

/// Something a policy wants done besides its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send a note about a block.
    Note {
        /// To whom.
        to: NodeId,
        /// About which block.
        block: BlockId,
        /// What it says.
        note: Note,
    },
    /// Drop this node's copy of a block.
    Discard(BlockId),
    /// The same, since the block was written: counted as an invalidation.
    Invalidate(BlockId),
    /// Call [`super::Policy::tick`] at this time.
    WakeAt(Instant),
}

/// What a policy sees of its shard. `C` is how it is lent the cache: to look at, or (in a [`Context`]) to change.
pub struct View<'a, C = &'a Cache> {
    pub(crate) now: Instant,
    /// The state of the random numbers.
    pub(crate) random: u64,
    pub(crate) me: NodeId,
    pub(crate) volume: PgId,
    pub(crate) primary: NodeId,
    pub(crate) placement: &'a Placement,
    pub(crate) cache: C,
    /// Free places of each node's shard, as it said last; [`u16::MAX`] before it said anything.
    pub(crate) free_of: &'a [u16],
    pub(crate) up: &'a [bool],
    /// Blocks cached here by their home.
    pub(crate) load_of: &'a [u32],
    /// Whether this node may hold copies of the volume.
    pub(crate) attached: bool,
    /// Whether [`super::Policy::keep_consistency`] is called for the volume.
    pub(crate) invalidates: bool,
    /// Whether the primary keeps copies of what other nodes read.
    pub(crate) leaves_copies: bool,
}

/// What a policy sees, and may change.
pub struct Context<'a> {
    pub(crate) view: View<'a, &'a mut Cache>,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl<'a> Deref for Context<'a> {
    type Target = View<'a, &'a mut Cache>;

    fn deref(&self) -> &Self::Target {
        &self.view
    }
}

/// How many old blocks a search for a duplicate looks at.
const TAIL: usize = 64;

impl<C: Deref<Target = Cache>> View<'_, C> {
    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The number below `bound` (zero if that is zero) that [`Context::random`] would give as the `nth` from now on, the next
    /// one being the first: the same until it is called.
    #[must_use]
    pub fn draw(&self, nth: u64, bound: u64) -> u64 {
        let drawn = mix(self.random.wrapping_add(nth));
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }

    /// This node.
    #[must_use]
    pub const fn me(&self) -> NodeId {
        self.me
    }

    /// The volume's primary, which has the disk. (In the papers and in the policies' names: the disk node.)
    #[must_use]
    pub const fn disk_node(&self) -> NodeId {
        self.primary
    }

    /// The volume.
    #[must_use]
    pub const fn volume(&self) -> PgId {
        self.volume
    }

    /// Whether this node may hold copies of the volume.
    #[must_use]
    pub const fn may_hold(&self) -> bool {
        self.attached
    }

    /// All nodes, in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<C> {
        let members = self.placement.shared_members();
        (0..members.len()).map(move |position| members[position])
    }

    /// One more than the highest number of a node.
    #[must_use]
    pub fn node_bound(&self) -> u16 {
        self.placement.bound()
    }

    /// Whether a node can be reached, as far as is known.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up.get(usize::from(node.0)).copied().unwrap_or(false)
    }

    /// Whether the policy itself must have other nodes' copies dropped after a write.
    #[must_use]
    pub const fn invalidates(&self) -> bool {
        self.invalidates
    }

    /// Whether the disk node keeps copies of what other nodes read, as far as this node asks it to.
    #[must_use]
    pub const fn leaves_copies(&self) -> bool {
        self.leaves_copies
    }

    /// The block's home.
    #[must_use]
    pub fn home(&self, block: BlockId) -> NodeId {
        self.placement.home(block)
    }

    /// Whether a copy is here that is not being written. (It can be served if the card has the lock on it.)
    #[must_use]
    pub fn cached(&self, block: BlockId) -> bool {
        self.attached && self.cache.lookup(block).is_some_and(|slot| !self.cache.is(slot, Mark::LOCKED))
    }

    /// Whether a copy of the block is here, usable or not.
    #[must_use]
    pub fn is_resident(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some()
    }

    /// The block's index entry.
    #[must_use]
    pub fn entry(&self, block: BlockId) -> Entry {
        self.cache.entry(block)
    }

    /// Whether a stored block would find room of this kind.
    #[must_use]
    pub fn has_room(&self, room: Room) -> bool {
        self.attached && self.victim_for(room).is_ok()
    }

    /// The block that a stored one displaces: none needed, or this one, or there is no room.
    pub(crate) fn victim_for(&self, room: Room) -> Result<Option<crate::ids::Slot>, ()> {
        if self.cache.free_places() > 0 {
            return Ok(None);
        }
        let fits = |slot: &crate::ids::Slot| {
            self.cache.frames().is_idle(slot.0)
                && !self.cache.is(*slot, Mark::RETAINED)
                && match room {
                    Room::Free => false,
                    Room::Duplicate => self.cache.next(*slot).is_some(),
                    Room::Unread => self.cache.is(*slot, Mark::AHEAD),
                    Room::Evict | Room::Of(_) => true,
                }
        };
        match room {
            Room::Free => Err(()),
            Room::Evict => Ok(None),
            Room::Of(block) => self.cache.lookup(block).filter(fits).map(Some).ok_or(()),
            Room::Duplicate | Room::Unread => self.cache.tail().take(TAIL).find(fits).map(Some).ok_or(()),
        }
    }

    /// Blocks this cache holds at most, and how many it holds.
    #[must_use]
    pub fn capacity(&self) -> (u32, u32) {
        (self.cache.capacity(), self.cache.resident())
    }

    /// The next candidates for eviction, the likeliest first: those that nobody is using.
    pub fn tail(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.cache
            .tail()
            .filter(|slot| self.cache.frames().is_idle(slot.0))
            .map(|slot| self.cache.block(slot))
    }

    /// Whether the block is here for another node and has not been used here since.
    #[must_use]
    pub fn is_hosted(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some_and(|slot| self.cache.is(slot, Mark::HOSTED))
    }

    /// Whether the block is here, in the part of the cache that [`super::Policy::set_apart`] asks for.
    #[must_use]
    pub fn is_apart(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some_and(|slot| self.cache.is_apart(slot))
    }

    /// Whether the block is here, as a replica.
    #[must_use]
    pub fn is_replica(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some_and(|slot| self.cache.is(slot, Mark::REPLICA))
    }

    /// Whether the block is here, was fetched ahead, and no client has read it yet.
    #[must_use]
    pub fn is_unread(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some_and(|slot| self.cache.is(slot, Mark::AHEAD))
    }

    /// Whether the block is here and not new, in a replacement that tells new blocks from others.
    #[must_use]
    pub fn is_main(&self, block: BlockId) -> bool {
        self.cache.lookup(block).is_some_and(|slot| self.cache.is(slot, Mark::MAIN))
    }

    /// Milliseconds since the block was last used here; zero if it is not here.
    #[must_use]
    pub fn age_ms(&self, block: BlockId) -> u32 {
        self.cache.lookup(block).map_or(0, |slot| self.cache.data.age_ms(slot, self.now))
    }

    /// The policy's own word on a block that is here; zero at first.
    #[must_use]
    pub fn tag(&self, block: BlockId) -> u32 {
        self.cache.lookup(block).map_or(0, |slot| self.cache.data.tag(slot))
    }

    /// Free places at a node, as it said last.
    #[must_use]
    pub fn free_at(&self, node: NodeId) -> u16 {
        self.free_of.get(usize::from(node.0)).copied().unwrap_or(0)
    }

    /// Blocks cached here whose home a node is.
    #[must_use]
    pub fn cached_for(&self, node: NodeId) -> u32 {
        self.load_of.get(usize::from(node.0)).copied().unwrap_or(0)
    }

    /// The other node that has the most free places, as they said last: of equal ones the next from `turn` on, in their
    /// circle. None if nobody has any.
    #[must_use]
    pub fn freest(&self, turn: u16) -> Option<NodeId> {
        // Of who has not said anything nobody knows better.
        self.highest(turn, self.free_of, |free| if free == u16::MAX { u32::MAX } else { free.into() })
    }

    /// The other node that is home to the fewest blocks cached here (HSCC-8), of equal ones as with [`Self::freest`].
    #[must_use]
    pub fn least_cached_for(&self, turn: u16) -> Option<NodeId> {
        // All blocks of all nodes would not be as many.
        self.highest(turn, self.load_of, |blocks| u32::MAX - blocks)
    }

    /// A plain pass that ends at the highest rank that there is, since this is done for each evicted block, over the nodes of
    /// the cluster. Rank 0 is out of the question.
    fn highest<T: Copy>(&self, turn: u16, values: &[T], rank: impl Fn(T) -> u32) -> Option<NodeId> {
        let nodes = values.len().min(self.up.len());
        let (values, up) = (&values[..nodes], &self.up[..nodes]);
        let (me, turn) = (usize::from(self.me.0), usize::from(turn).min(nodes));
        let (mut best, mut found) = (0, None);
        for node in (turn..nodes).chain(0..turn) {
            let rank = if up[node] && node != me { rank(values[node]) } else { 0 };
            if rank > best {
                (best, found) = (rank, Some(NodeId(node as u16)));
                if best == u32::MAX {
                    break;
                }
            }
        }
        found
    }
}

impl Context<'_> {
    /// A number below `bound` (zero if that is zero), evenly distributed, the same in every run from the same seed.
    pub fn random(&mut self, bound: u64) -> u64 {
        let drawn = self.draw(1, bound);
        self.view.random = self.random.wrapping_add(1);
        drawn
    }

    /// Sets who asked for the block last. (Nobody follows itself.)
    pub fn set_next(&mut self, block: BlockId, next: Option<NodeId>) {
        let next = next.filter(|&node| node != self.me);
        match self.view.cache.lookup(block) {
            Some(slot) => self.view.cache.set_next(slot, next),
            None => {
                let entry = self.view.cache.index.get(block);
                self.view.cache.index.put(block, Entry { next, ..entry });
            }
        }
    }

    /// Forgets the entry of a block that is not here; of one that is, who asked for it last.
    pub fn forget(&mut self, block: BlockId) {
        match self.view.cache.lookup(block) {
            Some(slot) => self.view.cache.set_next(slot, None),
            None => _ = self.view.cache.index.put(block, Entry::default()),
        }
    }

    /// Sets the policy's own word on a block, if it is here.
    pub fn set_tag(&mut self, block: BlockId, tag: u32) {
        if let Some(slot) = self.view.cache.lookup(block) {
            self.view.cache.data.set_tag(slot, tag);
        }
    }

    /// Says whether a block that is here is a replica: a copy of what another node keeps. Replicas are in a queue of their own, see
    /// [`super::Policy::replica_goes`].
    pub fn set_replica(&mut self, block: BlockId, on: bool) {
        if let Some(slot) = self.view.cache.lookup(block) {
            self.view.cache.set_replica(slot, on);
        }
    }

    /// Sends a note about a block, if it goes to another node.
    pub fn note(&mut self, to: NodeId, block: BlockId, note: Note) {
        if to != self.me {
            self.effects.push(Effect::Note { to, block, note });
        }
    }

    /// Counts as a use of a block, if it is here.
    pub fn refresh(&mut self, block: BlockId) {
        if let Some(slot) = self.view.cache.lookup(block) {
            self.view.cache.touch(slot);
            self.view.cache.data.used(slot, self.view.now);
        }
    }

    /// Makes a block the next victim, if it is here: it was of use elsewhere, not here.
    pub fn cool(&mut self, block: BlockId) {
        if let Some(slot) = self.view.cache.lookup(block) {
            self.view.cache.cool(slot);
        }
    }

    /// Has [`super::Policy::tick`] called at this time.
    pub fn wake_at(&mut self, at: Instant) {
        self.effects.push(Effect::WakeAt(at));
    }

    /// Drops this node's copy of a block, once the policy has answered: it is not needed here.
    pub fn discard(&mut self, block: BlockId) {
        self.effects.push(Effect::Discard(block));
    }

    /// Drops this node's copy of a block, once the policy has answered: another node has written the block.
    pub fn invalidate(&mut self, block: BlockId) {
        self.effects.push(Effect::Invalidate(block));
    }
}
