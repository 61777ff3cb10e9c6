//! Which way a read goes: the only place that decides it.
//!
//! It changes nothing. A fetch and a peer's request do what it says ([`super::fetch`]), and who only wants to know is told the
//! same ([`super::explain`]).

use super::Shard;
use super::coherence::Freshness;
use crate::ids::{BlockId, NodeId};
use crate::message::IoError;
use crate::policy::Asker;

/// What happens to a read at one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// A copy is here that may be used.
    Served,
    /// It waits for the fetch that is under way.
    Joins,
    /// It waits until the card may be used.
    WaitsForCard,
    /// It waits until the write to the block has ended.
    WaitsForWrite,
    /// It waits for the lock on the copy that is here.
    WaitsForLock,
    /// This node's disk is read.
    Disk,
    /// Another node is asked.
    Asks {
        /// Which.
        node: NodeId,
        /// It is to pass the question to nobody but the primary.
        from_disk: bool,
    },
    /// It fails.
    Fails(IoError),
}

/// Nodes a request passes through at most before it goes to the primary.
const HOPS: u8 = 4;

impl Shard {
    /// What happens to a read that has just come, of a client of this node or of another node; `freshness` is the block's.
    pub(super) fn route(&self, block: BlockId, asker: Asker, freshness: Freshness) -> Route {
        let own = asker.via == self.config.node;
        if !own && asker.requester == self.config.node {
            // Nobody had it, and the request has come back to where the disk is.
            return Route::Disk;
        }
        if let Some(error) = self.refusal(block, asker.requester).filter(|_| !own) {
            return Route::Fails(error);
        }
        if !own && !self.allows(block.volume, asker.requester) {
            // The primary knows whether it may: this node's list may be of before the requester came.
            return self.to_primary(block, asker);
        }
        let is_here = matches!(freshness, Freshness::Fresh(_) | Freshness::Leaving(_));
        let waits = || self.fetches.is_under_way(block) && !own && self.fetches_for(block, asker, freshness);
        if is_here || waits() || self.joins(block, asker) {
            let here = if is_here { Route::Served } else { Route::Joins };
            return self.relieved(block, asker).map_or(here, |node| Route::Asks { node, from_disk: false });
        }
        let onward = self.onward(block, asker);
        match freshness {
            _ if !own && onward != Route::Disk => onward,
            Freshness::LeaseExpired => Route::WaitsForCard,
            Freshness::BeingWritten => Route::WaitsForWrite,
            Freshness::NotHeld if self.contains(block) => Route::WaitsForLock,
            _ => onward,
        }
    }

    /// Where a read goes that waits for nothing here: whom the policy names, else the last writer, else the primary.
    pub(super) fn onward(&self, block: BlockId, asker: Asker) -> Route {
        let Asker { requester, via, hops, failed } = asker;
        if let Some(node) = self.named(block, asker) {
            return Route::Asks { node, from_disk: false };
        }
        // An asker that repeats its question wants the disk, and who sends the question back has nothing.
        let is_in_vain = |node: NodeId| failed && (via == requester || via == node);
        let writer = self.last_writer(block, requester).filter(|&node| !is_in_vain(node));
        match writer {
            Some(node) if hops < HOPS => Route::Asks { node, from_disk: true },
            _ => self.to_primary(block, asker),
        }
    }

    /// Where a read goes that asks no peer.
    fn to_primary(&self, block: BlockId, Asker { via, hops, failed, .. }: Asker) -> Route {
        let (me, primary) = (self.config.node, self.primary_of(block.volume));
        match primary == me {
            true => Route::Disk,
            // It was sent here as to the primary. While that moves, two nodes may take each other for it.
            false if hops > HOPS => Route::Fails(IoError::Busy),
            false => Route::Asks { node: primary, from_disk: failed || via != me },
        }
    }

    /// Whom the policy names, if that node can be asked.
    pub(super) fn named(&self, block: BlockId, asker: Asker) -> Option<NodeId> {
        if asker.hops >= HOPS || asker.failed {
            return None;
        }
        self.policy_route(block, asker).filter(|&named| self.may_be_asked(named, block, asker))
    }

    /// Who answers in this node's place, if that node can be asked.
    fn relieved(&self, block: BlockId, asker: Asker) -> Option<NodeId> {
        let is_direct = asker.via == asker.requester && asker.via != self.config.node && asker.hops == 0;
        if !is_direct || asker.failed {
            return None;
        }
        self.policy_relieved(block, asker).filter(|&node| self.may_be_asked(node, block, asker))
    }

    fn may_be_asked(&self, node: NodeId, block: BlockId, asker: Asker) -> bool {
        let is_other = node != self.config.node && node != asker.requester;
        is_other && self.is_up(node) && self.allows(block.volume, node)
    }

    /// Whether the policy has another node's read wait for a fetch of this node's, or begin one for those that ask next: one that has not asked that node, which might wait in turn, and
    /// that has a slot, since slots might be taken by what waits here.
    pub(super) fn fetches_for(&self, block: BlockId, asker: Asker, freshness: Freshness) -> bool {
        let is_direct = asker.via == asker.requester && asker.hops == 0 && !asker.failed;
        let is_missing =
            matches!(freshness, Freshness::Missing | Freshness::NotHeld) && !self.contains(block);
        is_direct
            && is_missing
            && self.primary(block.volume).is_none()
            && !self.fetches.has_asked(block, asker.requester)
            && self.fetches.has_slot(block).unwrap_or_else(|| self.spare_slots_left())
            && self.policy_fetches_for(block, asker)
    }

    /// Why the primary refuses to give another node the block.
    fn refusal(&self, block: BlockId, requester: NodeId) -> Option<IoError> {
        let volume = self.volumes.get(&block.volume)?;
        let primary = volume.primary.as_ref()?;
        if u64::from(block.index) >= volume.spec.blocks() {
            return Some(IoError::Invalid);
        }
        (!primary.cards.contains_key(&requester)).then_some(IoError::NotAttached)
    }

    /// Whether a read waits for the fetch of the block that is under way. Waiting for one another in a circle would end with
    /// a timeout: nodes wait for the primary, for those of lower numbers, and where a policy vouches for it; and for none that has no slot, since
    /// those may be taken by what waits here. If the policy has nodes wait at a home whatever their numbers, that home, which they have asked,
    /// waits for none of them: not even for the last writer, to which the primary may have sent its question on. Nor does any other node, since
    /// that home may have the last writer wait for this very node.
    fn joins(&self, block: BlockId, asker: Asker) -> bool {
        let may_park = self.config.park
            && (self.config.node < asker.requester || self.policy_vouches(block, asker))
            && self.may_hold(block.volume)
            && !((self.fetches.has_asked(block, asker.requester) || asker.failed)
                && self.policy_has_fetches_for_others(block.volume));
        let always = asker.via == self.config.node || self.primary(block.volume).is_some();
        self.fetches.has_slot(block).is_some_and(|has_slot| always || may_park && has_slot)
    }
}
