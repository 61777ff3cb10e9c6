//! Which copies may be used: any number of readers and writers, and invalidation acknowledged before each write.
//!
//! The primary orders the writes to each shard of a volume by a [`Stamp`]. Before a write reaches the disk, every card of
//! another node that may have copies of its blocks ([`super::primary::directory`]) drops them and acknowledges; until the
//! write is complete the primary serves none of these blocks.
//!
//! A card uses a copy if it holds the lock on the copy's segment ([`super::card::held`]), and its lease runs. Whether
//! contents are new enough is judged once, when they begin to be usable: when they arrive, or when their segment is
//! locked again. They must include the last write that the card must count with there ([`super::regions::Bounds`]). From
//! then on only an invalidation or the loss of the lock takes them away. So a usable copy includes every complete write
//! to its block, whatever the network does to messages, and a write in one region costs nothing in another.
//!
//! The primary's own node needs no lock, since no write begins without it: it uses no copy of a block that is being
//! written.
//!
//! A card that does not acknowledge holds writes up until its lease has ended at the primary, by when it has ended at the
//! card too and the card uses no copies (see [`crate::Control`]).

use super::Shard;
use super::regions::judge;
use crate::cache::Mark;
use crate::ids::{BlockId, PgId, Slot, Stamp};
use crate::mistakes::{Mistake, makes};

/// Whether a copy of a block may be used here now, and why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Freshness {
    /// The card is not attached, its lease may be over, or the primary's disk may have lost what cards still use.
    LeaseExpired,
    /// A write to the block is under way that this node knows of: it is neither read nor fetched.
    BeingWritten,
    /// The card has no lock on the block. A copy here is parked.
    NotHeld,
    /// There is no copy.
    Missing,
    /// A copy is on its way to another node, and may be used until that has it.
    Leaving(Slot),
    /// The resident copy may be used.
    Fresh(Slot),
}

impl Shard {
    /// Whether this node may use a copy of the block now: asked alike before it serves a client or a peer, takes a block in,
    /// or sends one out. The marks of a resident copy say the same as the tables: it is locked while it is written, and
    /// parked while the card has no lock on it. So a hit looks nothing else up.
    pub(super) fn freshness(&self, block: BlockId) -> Freshness {
        if !self.may_hold(block.volume) {
            return Freshness::LeaseExpired;
        }
        match self.cache.lookup(block) {
            Some(slot) if !self.cache.is(slot, Mark::HIDDEN) => Freshness::Fresh(slot),
            _ if self.is_being_written(block) => Freshness::BeingWritten,
            _ if !self.holds(block) => Freshness::NotHeld,
            Some(slot) => Freshness::Fresh(slot),
            None => self
                .leaving
                .get(&block)
                .map_or(Freshness::Missing, |leaving| Freshness::Leaving(leaving.slot)),
        }
    }

    /// The block's copy, whether or not it may be used, is subject to the locks of this node's card.
    pub(super) fn is_locked_by_card(&self, id: PgId) -> bool {
        self.volumes.get(&id).is_some_and(|v| v.primary.is_none() && !v.needs_no_lease())
    }

    /// This node's card holds the lock on the block, or needs none.
    #[must_use]
    pub fn holds(&self, block: BlockId) -> bool {
        let Some(volume) = self.volumes.get(&block.volume) else { return false };
        volume.primary.is_some()
            || volume.needs_no_lease()
            || volume.card.held.holds(self.place(block.index))
            || makes(Mistake::UseReleased)
    }

    /// The last write that contents of the block must include to become usable here.
    pub(super) fn bound(&self, block: BlockId) -> Stamp {
        let place = self.place(block.index);
        let Some(volume) = self.volumes.get(&block.volume) else { return Stamp(u64::MAX) };
        match &volume.primary {
            Some(primary) => primary.directory.bounds(place.region).of(place.segment),
            // Nobody writes it; it may have been another one before the primary's last start.
            None if volume.needs_no_lease() => volume.card.heard,
            None => volume.card.held.bound(place).unwrap_or(Stamp(u64::MAX)),
        }
    }

    /// Whether contents of a block as of a stamp include every write to it that is complete, or that this card has
    /// acknowledged the invalidation of.
    pub(super) fn is_fresh(&self, block: BlockId, as_of: Stamp) -> bool {
        let Some(volume) = self.volumes.get(&block.volume) else { return false };
        // Where nobody writes, stamps tell contents from those that were there before the primary's last start.
        !volume.confirms() && !volume.spec.read_only
            || makes(Mistake::UseStale)
            || !volume.card.is_past(as_of) && judge(as_of, self.bound(block))
    }

    /// As of which stamp this node's copy of the block is good.
    pub(super) fn as_of(&self, block: BlockId) -> Stamp {
        self.volumes.get(&block.volume).map_or(Stamp(0), |volume| volume.as_of(block.index))
    }

    /// A write to the block is under way that this node knows of.
    pub(super) fn is_being_written(&self, block: BlockId) -> bool {
        self.commands.is_writing(block)
            || self
                .primary(block.volume)
                .is_some_and(|p| p.writing.contains(&block.index) && !makes(Mistake::ServeUnderWrite))
    }
}
