//! Copies beyond the cache: pages that a kernel keeps of a volume which it has as a local device (GAP-7).
//!
//! The shard cannot drop them. It asks the driver to ([`Output::Withdraw`]) and goes on with what depends on it when
//! told that they are gone ([`Input::Withdrawn`]). Pages come into being by reads of this node's clients, so they are as
//! good as copies in the cache as long as they go where those would have gone:
//!
//! - before a card confirms an invalidation: from all blocks on which it gives its lock up with it,
//! - before a command of this node's clients leaves for the primary,
//! - before the primary changes its disk,
//! - and, at the word of [`crate::Control`], all of them before the primary hears that a card was void.
//!
//! Until then reads of these blocks do not wait for the driver, but they do wait for the write, as always; so the
//! driver must not wait for reads, but for a bounded time, before it says that pages are gone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::ids::{NodeId, OpId, PgId, RequestId, Stamp, WithdrawalId};
use crate::io::{Output, Payload};
use crate::message::Body;
use crate::mistakes::{Mistake, makes};
use crate::shard::Shard;
use crate::shard::regions::{Place, SEGMENT, segments};

/// What waits for pages to go.
#[derive(Default)]
pub(in crate::shard) struct Withdrawals {
    last: u64,
    open: BTreeMap<WithdrawalId, Then>,
}

/// What is done when they are gone.
enum Then {
    /// The invalidation is confirmed to the primary.
    Confirm { to: NodeId, volume: PgId, stamp: Stamp, body: Body },
    /// The command of a client of this node is sent.
    Send(RequestId),
    /// At the primary: this node has no copies of the command's blocks.
    Write(OpId),
}

impl Withdrawals {
    pub(in crate::shard) fn len(&self) -> usize {
        self.open.len()
    }
}

impl Shard {
    pub(in crate::shard) fn pages_kept(&mut self, id: PgId, kept: bool) {
        if let Some(card) = self.card_mut(id) {
            card.pages = kept;
        }
    }

    /// Whether somebody at this node keeps pages of the volume.
    pub(in crate::shard) fn has_pages(&self, id: PgId) -> bool {
        self.card(id).is_some_and(|card| card.pages)
    }

    /// Whether the primary asked before for the same, and its answer waits for pages to go.
    pub(in crate::shard) fn is_confirming(&self, id: PgId, (asked, first): (Stamp, u32)) -> bool {
        let same = |then: &Then| {
            matches!(then, Then::Confirm { volume, stamp, body: Body::InvalidateAck { block, .. }, .. }
                if (*volume, *stamp, *block) == (id, asked, first))
        };
        self.withdrawals.open.values().any(same)
    }

    /// Confirms an invalidation of `blocks`, when no pages are left of them and of the segments `released`.
    pub(in crate::shard) fn confirm(
        &mut self,
        to: NodeId,
        id: PgId,
        (blocks, released): (Range<u32>, u64),
        stamp: Stamp,
        body: Body,
    ) {
        if !self.has_pages(id) || makes(Mistake::ConfirmBeforeWithdrawn) {
            self.send(to, id, body, Payload::None);
            return;
        }
        let region = self.place(blocks.start).region;
        let released = segments(released).filter_map(|segment| {
            let first = self.indices(Place { region, segment }).next()?;
            Some(first..first.saturating_add(SEGMENT))
        });
        let mut ranges: Vec<Range<u32>> = released.collect();
        if !blocks.is_empty() && !ranges.iter().any(|range| range.contains(&blocks.start)) {
            ranges.push(blocks);
        }
        self.withdraw(id, ranges, Then::Confirm { to, volume: id, stamp, body });
    }

    /// Has the pages go that a command of this node's client changes. Whether it must wait for that.
    pub(in crate::shard) fn withdraw_for_client(
        &mut self,
        id: PgId,
        blocks: Range<u32>,
        request: RequestId,
    ) -> bool {
        let must = self.has_pages(id) && !blocks.is_empty() && !makes(Mistake::ForgetOwnPages);
        if must {
            self.withdraw(id, Vec::from([blocks]), Then::Send(request));
        }
        must
    }

    /// At the primary: has the pages go that a command changes, if there can be any.
    pub(in crate::shard) fn withdraw_for_disk(&mut self, id: PgId, blocks: Range<u32>, op: OpId) {
        self.withdraw(id, Vec::from([blocks]), Then::Write(op));
    }

    fn withdraw(&mut self, volume: PgId, blocks: Vec<Range<u32>>, then: Then) {
        self.withdrawals.last += 1;
        let id = WithdrawalId(self.withdrawals.last);
        self.withdrawals.open.insert(id, then);
        self.stats.withdrawals += 1;
        self.outputs.push_back(Output::Withdraw { id, volume, blocks });
    }

    /// The pages are gone.
    pub(in crate::shard) fn withdrawn(&mut self, id: WithdrawalId) {
        match self.withdrawals.open.remove(&id) {
            Some(Then::Confirm { to, volume, body, .. }) => self.send(to, volume, body, Payload::None),
            Some(Then::Send(request)) => self.release_command(request),
            Some(Then::Write(op)) => self.confirmed(op, self.config.node),
            None => {}
        }
    }
}
