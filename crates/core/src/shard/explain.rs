//! What a shard knows of a block, and what a read of it would do now, with nothing changed.
//!
//! Each shard tells its own step, by [`super::route`]; who follows them from node to node has the way that the read would
//! take, as long as nothing else happens.

use alloc::vec::Vec;

use super::Shard;
use super::coherence::Freshness;
use super::fetch::UnderWay;
use super::route::Route;
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, Stamp};
use crate::policy::Asker;
use crate::time::Instant;

/// What a shard knows of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The block's home.
    pub home: NodeId,
    /// A copy is here.
    pub cached: bool,
    /// It may not be used: its block is being written.
    pub locked: bool,
    /// It is here for another node, and has not been used here since.
    pub hosted: bool,
    /// It was read ahead, and has not been used since.
    pub ahead: bool,
    /// A copy is on its way to this node, and serves until that has it.
    pub leaving_to: Option<NodeId>,
    /// A fetch of it is under way.
    pub under_way: Option<UnderWay>,
    /// It is being written, by a client here or (at the primary) by anybody.
    pub is_being_written: bool,
    /// Who delivered the copy here, by the index entry (HSCC-4).
    pub previous: Option<NodeId>,
    /// Who asked for the block last, by the index entry.
    pub next: Option<NodeId>,
    /// Who has a copy, as the policy believes without the index.
    pub believed_holders: Vec<NodeId>,
    /// This node's card.
    pub card: Option<CardView>,
    /// The first and the last block of the range around it on which this card holds the lock.
    pub held: Option<(u32, u32)>,
    /// What the read of a client here would do.
    pub route: Route,
    /// Before that, the card would ask the primary for its lock.
    pub asks_lock: bool,
    /// At the primary: the cards of other nodes.
    pub holders: Vec<HolderView>,
    /// At the primary: who has written the block last and is likely to have it.
    pub last_writer: Option<NodeId>,
}

/// This node's card of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardView {
    /// Which card.
    pub generation: Generation,
    /// Writes up to here are complete, as far as the card was told.
    pub heard: Stamp,
    /// Copies may be used until then; none: for ever, as nobody can write the volume, or it has no promises.
    pub lease_until: Option<Instant>,
}

/// Another node's card, as the primary knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HolderView {
    /// Whose.
    pub node: NodeId,
    /// Which card.
    pub generation: Generation,
    /// It may not write.
    pub reads_only: bool,
    /// Nobody can confirm anything on its behalf.
    pub lost: bool,
    /// The first and the last block of the range around the block on which it may hold the lock.
    pub held: Option<(u32, u32)>,
}

impl Shard {
    /// What this shard knows of the block; none if it does not know the volume, or the block is beyond its end.
    pub fn explain(&mut self, now: Instant, block: BlockId) -> Option<Explanation> {
        self.now = self.now.max(now);
        let route = self.route(block, Asker::own(self.config.node, false), self.freshness(block));
        let volume = self.volumes.get(&block.volume).filter(|v| u64::from(block.index) < v.spec.blocks())?;
        let place = self.place(block.index);
        let holders = volume.primary.iter().flat_map(|primary| {
            primary.cards.iter().map(|(&node, card)| HolderView {
                node,
                generation: card.generation,
                reads_only: card.reads_only,
                lost: card.lost,
                held: self.run(primary.directory.held(node, card.generation, place.region), place),
            })
        });
        let leased = self.is_locked_by_card(block.volume);
        let card = volume.card.generation.map(|generation| CardView {
            generation,
            heard: volume.card.heard,
            lease_until: leased.then_some(volume.card.lease_until),
        });
        let slot = self.cache.lookup(block);
        let is = |mark| slot.is_some_and(|slot| self.cache.is(slot, mark));
        let (previous, next) = self.index_entry(block);
        let explanation = Explanation {
            home: self.placement.home(block),
            cached: slot.is_some(),
            locked: is(Mark::LOCKED),
            hosted: is(Mark::HOSTED),
            ahead: is(Mark::AHEAD),
            leaving_to: self.leaving.get(&block).map(|leaving| leaving.to),
            under_way: self.under_way(block),
            is_being_written: self.is_being_written(block),
            previous,
            next,
            believed_holders: volume.policy.believed_holders(block),
            card,
            held: self.run(volume.card.held.of_region(place.region), place),
            asks_lock: route != Route::Joins && self.freshness(block) == Freshness::NotHeld,
            route,
            holders: holders.collect(),
            last_writer: self.last_writer(block, self.config.node),
        };
        Some(explanation)
    }

    /// What a request of another node for the block would lead to here.
    pub fn explain_request(&mut self, now: Instant, block: BlockId, asker: Asker) -> Option<Route> {
        self.now = self.now.max(now);
        self.volumes.contains_key(&block.volume).then(|| self.route(block, asker, self.freshness(block)))
    }
}
