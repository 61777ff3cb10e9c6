//! What a shard knows of a block, and what a read of it would do now, with nothing changed.
//!
//! The course of a read is that of [`super::fetch`], step by step, without its effects: the policy is asked through
//! methods that cannot change it. Each shard tells its own step; who follows them from node to node has the way that
//! the read would take, as long as nothing else happens.

use alloc::vec::Vec;

use super::Shard;
use super::fetch::{HOPS, UnderWay};
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, Stamp};
use crate::message::IoError;
use crate::policy::{Asked, Context, Policy, Target};
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
    pub course: Course,
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

/// What happens to a read at one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Course {
    /// A copy is here that may be used.
    Served,
    /// It waits for the fetch that is under way.
    Joins,
    /// It waits until the card may be used.
    WaitsForCard,
    /// It waits until the write to the block has ended.
    WaitsForWrite,
    /// This node's disk is read.
    Disk,
    /// Another node is asked.
    Asks {
        /// Which.
        node: NodeId,
        /// It is to pass the question to nobody but the primary.
        from_disk: bool,
    },
    /// The policy throws dice.
    Chance,
    /// It fails.
    Fails(IoError),
}

/// A request of another node that has not been made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inquirer {
    /// Who would want the block.
    pub requester: NodeId,
    /// Who would send the request here.
    pub via: NodeId,
    /// Nodes it would have passed before this one.
    pub hops: u8,
    /// As in [`Course::Asks`].
    pub from_disk: bool,
}

impl Shard {
    /// What this shard knows of the block; none if it does not know the volume, or the block is beyond its end.
    pub fn explain(&mut self, now: Instant, block: BlockId) -> Option<Explanation> {
        let now = self.now.max(now);
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
        let mut explanation = Explanation {
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
            course: Course::Chance,
            asks_lock: false,
            holders: holders.collect(),
            last_writer: self.last_writer(block, self.config.node),
        };
        explanation.course = self.course(now, block);
        let goes_out = matches!(explanation.course, Course::Asks { .. } | Course::Disk | Course::Chance);
        explanation.asks_lock = goes_out && !self.holds(block);
        Some(explanation)
    }

    /// What a request of another node for the block would lead to here.
    pub fn explain_request(&mut self, now: Instant, block: BlockId, inquirer: Inquirer) -> Option<Course> {
        let now = self.now.max(now);
        let (me, disk_node) = (self.config.node, self.primary_of(block.volume));
        let Inquirer { requester, via, hops, from_disk } = inquirer;
        let volume = self.volumes.get(&block.volume)?;
        if requester == me {
            // It has come back to where the disk is.
            return Some(Course::Disk);
        }
        if let Some(primary) = &volume.primary {
            if u64::from(block.index) >= volume.spec.blocks() {
                return Some(Course::Fails(IoError::Invalid));
            }
            if !primary.cards.contains_key(&requester) {
                return Some(Course::Fails(IoError::NotAttached));
            }
        }
        if self.serves(now, block) {
            return Some(Course::Served);
        }
        let (is_primary, holds) = (volume.primary.is_some(), volume.may_use_copies(now));
        let under_way = self.under_way(block).is_some();
        let (random, holder) = self.consult(now, block, |policy, cx| {
            (policy.is_random(), policy.would_pass_to(cx, block, Asked { requester, via, failed: from_disk }))
        })?;
        let may_pass = hops < HOPS && !from_disk;
        if random && may_pass {
            return Some(Course::Chance);
        }
        let holder = holder.filter(|&node| may_pass && node != me && node != requester && self.is_up(node));
        let has_failed = holder.is_none();
        let insists = from_disk && requester == via;
        let writer = self.last_writer(block, requester).filter(|&writer| {
            // Who sends the request back has nothing.
            is_primary && hops < HOPS && !insists && !(from_disk && writer == via)
        });
        let onward = holder.or(writer);
        let may_park = self.config.park && me < requester && holds;
        Some(match onward {
            _ if under_way && (is_primary || may_park) => Course::Joins,
            None if is_primary && self.is_being_written(block) => Course::WaitsForWrite,
            None if is_primary => Course::Disk,
            onward => Course::Asks { node: onward.unwrap_or(disk_node), from_disk: has_failed },
        })
    }

    /// What the read of a client would do.
    fn course(&mut self, now: Instant, block: BlockId) -> Course {
        if self.serves(now, block) {
            return Course::Served;
        }
        if self.under_way(block).is_some() {
            return Course::Joins;
        }
        if !self.volumes.get(&block.volume).is_some_and(|volume| volume.may_use_copies(now)) {
            return Course::WaitsForCard;
        }
        if self.is_being_written(block) {
            return Course::WaitsForWrite;
        }
        let (me, disk_node) = (self.config.node, self.primary_of(block.volume));
        let itself = Asked { requester: me, via: me, failed: false };
        let target = self.consult(now, block, |policy, cx| match policy.would_ask(cx, block) {
            _ if policy.is_random() => None,
            Target::Node(node) if node == me => policy.would_pass_to(cx, block, itself).or(Some(disk_node)),
            Target::Node(node) => Some(node),
            Target::DiskNode => Some(disk_node),
        });
        let Some(target) = target.flatten() else { return Course::Chance };
        let target = Some(target).filter(|&node| node != me && self.is_up(node)).unwrap_or(disk_node);
        match self.last_writer(block, me) {
            _ if target != me => Course::Asks { node: target, from_disk: false },
            Some(writer) => Course::Asks { node: writer, from_disk: true },
            None => Course::Disk,
        }
    }

    /// Whether a copy is here that may be used.
    fn serves(&self, now: Instant, block: BlockId) -> bool {
        let holds = self.volumes.get(&block.volume).is_some_and(|volume| volume.may_use_copies(now));
        let cached = self.cache.lookup(block).is_some_and(|slot| !self.cache.is(slot, Mark::HIDDEN));
        holds && self.holds(block) && (cached || self.leaving.contains_key(&block))
    }

    /// Asks the policy something. Neither it nor what it sees can change by that: both references are shared.
    fn consult<T>(
        &mut self,
        now: Instant,
        block: BlockId,
        ask: impl FnOnce(&dyn Policy, &Context<'_>) -> T,
    ) -> Option<T> {
        let (policy, context) = self.policy(now, block.volume)?;
        Some(ask(policy, &context))
    }
}
