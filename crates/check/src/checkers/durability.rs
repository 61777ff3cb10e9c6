//! What FLUSH or FUA has acknowledged is durable: the disk was made to keep it, after all of it was there.
//!
//! When a flush is answered, an operation of the disk that makes it keep everything has begun after the request and
//! ended well before the answer, and each sector holds the last write that any client was told of before the request,
//! or one that is not older.

use std::collections::BTreeMap;

use cards_core::{CommandKind, DiskWork, Instant, VolumeId};
use cards_world::{World, initial_tag};

use crate::faults::{Faults, Seen};
use crate::history::{History, Op};
use crate::workload::Ticket;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Durability {
    /// Operations that make a disk keep something: when they began and ended, and what was written with them.
    kept: BTreeMap<VolumeId, Vec<Kept>>,
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
        let &Seen::Disk {
            at,
            volume,
            work: DiskWork::Command { kind, offset, length, fua, .. },
            done,
            ok: true,
        } = seen
        else {
            return;
        };
        let flush = kind == CommandKind::Flush;
        if flush || fua {
            let range = (!flush).then_some((offset, length));
            self.kept.entry(volume).or_default().push(Kept { from: at, to: done, range });
        }
    }

    /// Judges a flush, or a write that was to be durable, that was answered at `at`.
    pub(super) fn judge(
        &self,
        world: &World<Faults>,
        history: &History,
        ticket: &Ticket,
        range: Option<(u64, u32)>,
        at: Instant,
    ) -> Result<(), String> {
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
        for ((_, sector), ops) in history.of_volume(ticket.volume) {
            let tag = media.tag(sector);
            if is_lost(ops, tag, initial_tag(ticket.volume, sector), ticket.invoked) {
                return Err(format!(
                    "{ticket:?} is answered, but sector {sector} has {tag:#x}, older than what was acknowledged before"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a write was acknowledged before `flushed` and what the sector has is older.
fn is_lost(ops: &[Op], tag: u64, initial: u64, flushed: u64) -> bool {
    let writes = || ops.iter().filter(|op| op.write);
    let last = writes().filter(|op| op.returned < flushed).map(|op| op.invoked).max();
    let Some(last) = last else { return false };
    let newest = writes().filter(|op| op.tag == tag).map(|op| op.returned).max();
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
        assert!(!is_lost(&ops, 11, 7, 6));
        assert!(!is_lost(&ops, 12, 7, 6), "an open write may have come later");
        assert!(is_lost(&ops, 10, 7, 6));
        assert!(is_lost(&ops, 7, 7, 6), "as before all writes");
        assert!(!is_lost(&ops, 10, 7, 4), "the second was not acknowledged before it");
    }

    #[test]
    fn of_two_writes_at_the_same_time_either_may_be_last() {
        let ops = [write(1, 5, 10), write(2, 4, 11)];
        assert!(!is_lost(&ops, 10, 7, 6) && !is_lost(&ops, 11, 7, 6));
        assert!(is_lost(&ops, 7, 7, 6));
    }
}
