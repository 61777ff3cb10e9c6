//! What FLUSH or FUA has acknowledged is durable: the disk was made to keep it, after all of it was there.
//!
//! When a flush is answered, an operation of the disk that makes it keep everything has begun after the request and
//! ended well before the answer, and each sector holds the last write that any client was told of before the request,
//! or one that is not older: in the page cache what any client was told of; durably, what the card itself has
//! acknowledged, and what any card has since writes of the volume were lost last. A card is told once of what it has lost:
//! what it had acknowledged before a flush that failed because of a loss is owed no more, and such a flush has something
//! to tell.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cards_core::{DiskWork, Instant, NodeId, PgId};
use cards_world::{World, initial_tag};

use crate::faults::{Faults, Seen};
use crate::history::{History, Op, Step};
use crate::workload::Ticket;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Durability {
    /// Operations that make a disk keep something: when they began and ended, and what was written with them.
    kept: BTreeMap<PgId, Vec<Kept>>,
    /// The unflushed writes of each card: of a life of a node.
    owed: BTreeMap<(PgId, NodeId, u64), Vec<Owed>>,
    /// When writes of a volume were lost last.
    lost: BTreeMap<PgId, Step>,
}

/// A write that its card has acknowledged.
#[derive(Debug)]
struct Owed {
    sectors: Range<u64>,
    invoked: Step,
    acknowledged: Step,
    at: Instant,
}

#[derive(Debug)]
struct Kept {
    from: Instant,
    to: Instant,
    /// First byte and length of a write; none: everything.
    range: Option<(u64, u32)>,
}

impl Durability {
    pub(super) fn saw(&mut self, seen: &Seen) {
        let (from, to, volume, work) = match *seen {
            Seen::Disk { at, volume, work, done, ok: true } => (at, done, volume, work),
            Seen::Ended { began, at, volume, work } => (began, at, volume, work),
            _ => return,
        };
        let DiskWork::Command { kind, offset, length, fua, .. } = work else { return };
        let flush = kind.is_flush();
        if flush || fua {
            let range = (!flush).then_some((offset, length));
            self.kept.entry(volume).or_default().push(Kept { from, to, range });
        }
    }

    /// A write is acknowledged that need not be durable.
    pub(super) fn acknowledged(
        &mut self,
        (life, now, at): (u64, Step, Instant),
        ticket: &Ticket,
        (first, bytes): (u64, u32),
        sector_bytes: u32,
    ) {
        let bytes_end = first + u64::from(bytes);
        let sectors = first / u64::from(sector_bytes)..bytes_end / u64::from(sector_bytes);
        let owed = self.owed.entry((ticket.volume, ticket.node, life)).or_default();
        owed.push(Owed { sectors, invoked: ticket.invoked, acknowledged: now, at });
    }

    /// Writes of a volume were lost.
    pub(super) fn lost(&mut self, volume: PgId, now: Step) {
        self.lost.insert(volume, now);
    }

    /// A flush has told its card of a loss. What the card has acknowledged by when its node has taken the flush came before.
    pub(super) fn told(&mut self, ticket: &Ticket, life: u64, taken: Instant) -> Result<(), String> {
        if !self.lost.contains_key(&ticket.volume) {
            return Err(format!("{ticket:?} tells of a loss, and there was none"));
        }
        let taken = (ticket.at < taken).then_some(taken);
        self.settle(ticket, life, taken);
        Ok(())
    }

    /// What was acknowledged before the flush is not owed any more.
    fn settle(&mut self, ticket: &Ticket, life: u64, taken: Option<Instant>) {
        if let Some(owed) = self.owed.get_mut(&(ticket.volume, ticket.node, life)) {
            owed.retain(|owed| {
                owed.acknowledged > ticket.invoked && taken.is_none_or(|taken| owed.at > taken)
            });
        }
    }

    /// Judges a flush, or a write that was to be durable, that was answered at `at`.
    pub(super) fn judge(
        &mut self,
        world: &World<Faults>,
        history: &History,
        ticket: &Ticket,
        range: Option<(u64, u32)>,
        (at, doubtful): (Instant, &BTreeSet<(PgId, u64)>),
    ) -> Result<(), String> {
        if world.is_mirror(ticket.volume) {
            return self.judge_columns(world, history, ticket, range);
        }
        let kept = self.kept.get(&ticket.volume).into_iter().flatten();
        let mut kept = kept.filter(|kept| ticket.at <= kept.from && kept.to <= at);
        if !kept.any(|kept| kept.range.is_none() || kept.range == range) {
            return Err(format!(
                "{ticket:?} is durable, a client was told, but the disk was not made to keep it"
            ));
        }
        if range.is_some() {
            return Ok(());
        }
        let media = world.media(ticket.volume);
        let lost = self.lost.get(&ticket.volume).copied();
        let life = world.life(ticket.node);
        let own = self.owed.get(&(ticket.volume, ticket.node, life)).into_iter().flatten();
        let own: Vec<&Owed> = own.filter(|owed| owed.acknowledged < ticket.invoked).collect();
        for ((_, sector), ops) in history.of_volume(ticket.volume) {
            if doubtful.contains(&(ticket.volume, sector / u64::from(world.config().sectors))) {
                continue;
            }
            let initial = initial_tag(ticket.volume, sector);
            let told = || ops.iter().filter(|op| op.write && op.returned < ticket.invoked);
            let since =
                told().filter(|op| lost.is_none_or(|lost| op.invoked > lost)).map(|op| op.invoked).max();
            let own = own.iter().filter(|owed| owed.sectors.contains(&sector)).map(|owed| owed.invoked).max();
            for (what, tag, last) in
                [("has", media.tag(sector), since), ("keeps", media.durable(sector), since.max(own))]
            {
                if last.is_some_and(|last| is_lost(ops, tag, initial, last)) {
                    return Err(format!(
                        "{ticket:?} is answered, but sector {sector} {what} {tag:#x}, older than what was acknowledged before"
                    ));
                }
            }
        }
        self.settle(ticket, life, None);
        Ok(())
    }
}

impl Durability {
    /// A column of a group has become in sync: it has all writes that any client was told of.
    pub(super) fn admitted(
        &self,
        world: &World<Faults>,
        history: &History,
        volume: PgId,
        node: NodeId,
    ) -> Result<(), String> {
        let Some((_, media)) = world.columns_in_sync(volume).find(|(other, _)| *other == node) else {
            return Ok(());
        };
        let lost = self.lost.get(&volume).copied();
        for ((_, sector), ops) in history.of_volume(volume) {
            let told = ops.iter().filter(|op| op.write && op.returned != Step::MAX);
            let last = told.filter(|op| lost.is_none_or(|lost| op.invoked > lost)).map(|op| op.invoked).max();
            let tag = media.tag(sector);
            if last.is_some_and(|last| is_lost(ops, tag, initial_tag(volume, sector), last)) {
                return Err(format!(
                    "the column of {volume:?} at {node:?} is in sync, but sector {sector} has {tag:#x}, older than what was acknowledged"
                ));
            }
        }
        Ok(())
    }

    /// The same for a volume whose medium is a group of copies: all columns in sync have it, and keep it.
    fn judge_columns(
        &mut self,
        world: &World<Faults>,
        history: &History,
        ticket: &Ticket,
        range: Option<(u64, u32)>,
    ) -> Result<(), String> {
        let sector_bytes = u64::from(world.config().block_bytes / world.config().sectors);
        let sectors =
            range.map(|(first, bytes)| first / sector_bytes..(first + u64::from(bytes)) / sector_bytes);
        let lost = self.lost.get(&ticket.volume).copied();
        let life = world.life(ticket.node);
        let own = self.owed.get(&(ticket.volume, ticket.node, life)).into_iter().flatten();
        let own: Vec<&Owed> = own.filter(|owed| owed.acknowledged < ticket.invoked).collect();
        for ((_, sector), ops) in history.of_volume(ticket.volume) {
            if sectors.as_ref().is_some_and(|sectors| !sectors.contains(&sector)) {
                continue;
            }
            let initial = initial_tag(ticket.volume, sector);
            // What was to be durable itself has just been answered: it was noted in the step before it was asked for.
            let is_it = |op: &Op| sectors.is_some() && op.invoked + 1 == ticket.invoked;
            let told = ops.iter().filter(|op| op.write && (op.returned < ticket.invoked || is_it(op)));
            let since =
                told.filter(|op| lost.is_none_or(|lost| op.invoked > lost)).map(|op| op.invoked).max();
            let own = own.iter().filter(|owed| owed.sectors.contains(&sector)).map(|owed| owed.invoked).max();
            for (node, media) in world.columns_in_sync(ticket.volume) {
                for (what, tag, last) in
                    [("has", media.tag(sector), since), ("keeps", media.durable(sector), since.max(own))]
                {
                    if last.is_some_and(|last| is_lost(ops, tag, initial, last)) {
                        return Err(format!(
                            "{ticket:?} is answered, but sector {sector} {what} {tag:#x} at {node:?}, older than what was acknowledged before"
                        ));
                    }
                }
            }
        }
        if range.is_none() {
            self.settle(ticket, life, None);
        }
        Ok(())
    }
}

/// Whether what the sector has is older than the write that began then.
fn is_lost(ops: &[Op], tag: u64, initial: u64, last: Step) -> bool {
    let newest = ops.iter().filter(|op| op.write && op.tag == tag).map(|op| op.returned).max();
    newest.map_or(tag == initial, |newest| newest < last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(invoked: u64, returned: u64, tag: u64) -> Op {
        Op { invoked, returned, write: true, tag }
    }

    #[test]
    fn what_was_acknowledged_before_a_flush_is_there() {
        let ops = [write(1, 2, 10), write(3, 4, 11), write(5, u64::MAX, 12)];
        assert!(!is_lost(&ops, 11, 7, 3));
        assert!(!is_lost(&ops, 12, 7, 3), "an open write may have come later");
        assert!(is_lost(&ops, 10, 7, 3));
        assert!(is_lost(&ops, 7, 7, 3), "as before all writes");
        assert!(!is_lost(&ops, 10, 7, 1), "the second was not acknowledged before it");
    }

    #[test]
    fn of_two_writes_at_the_same_time_either_may_be_last() {
        let ops = [write(1, 5, 10), write(2, 4, 11)];
        assert!(!is_lost(&ops, 10, 7, 2) && !is_lost(&ops, 11, 7, 2));
        assert!(is_lost(&ops, 7, 7, 2));
    }
}
