//! Steps that have begun.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_admin::SpanName;
use cards_core::{Instant, NodeId, OpId, PgId, Stamp};

use super::trace::Trace;
use crate::step::Target;

/// So many may be open. The end of one may never be seen: its node dies, or the request is answered another way.
const OPEN_MAX: usize = 1024;
/// After this time the end of a step is not expected any more.
const LOST: Duration = Duration::from_secs(60);

/// Which step of a request at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// All of it.
    Root,
    /// Another node is asked.
    Ask,
    /// It is here, and neither answered nor passed on.
    Serve,
    /// This node has to confirm this write.
    Invalidate(NodeId, Stamp),
    /// The disk works on it.
    Disk(OpId),
}

/// A step, as far as its beginning says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) name: SpanName,
    pub(super) target: Target,
    pub(super) peer: Option<NodeId>,
    pub(super) at: Instant,
}

/// What has begun, by request.
#[derive(Default)]
pub(super) struct Open(BTreeMap<(Trace, Part), Begun>);

impl Open {
    /// Adds a step, unless it has begun already. The oldest one is given up if there is no room or it is lost.
    pub(super) fn begin(&mut self, trace: Trace, part: Part, begun: Begun) -> Option<(Trace, Begun)> {
        if self.0.contains_key(&(trace, part)) {
            return None;
        }
        let oldest = self.0.iter().min_by_key(|(_, begun)| begun.at);
        let oldest =
            oldest.filter(|(_, oldest)| self.0.len() >= OPEN_MAX || begun.at.since(oldest.at) > LOST);
        let oldest = oldest.map(|(key, _)| *key);
        self.0.insert((trace, part), begun);
        oldest.and_then(|key| self.0.remove(&key).map(|begun| (key.0, begun)))
    }

    /// Takes a step out that has ended.
    pub(super) fn end(&mut self, trace: Trace, part: Part) -> Option<Begun> {
        self.0.remove(&(trace, part))
    }

    pub(super) fn get(&self, trace: Trace, part: Part) -> Option<&Begun> {
        self.0.get(&(trace, part))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The request for which the disk is asked: one that is here for the same blocks, else one of this node's own.
    pub(super) fn waiting_for_disk(&self, shard: u16, disk: SpanName, target: Target) -> Option<Trace> {
        let command = disk == SpanName::DiskCommand;
        let find = |part, is: &dyn Fn(SpanName) -> bool| {
            let of = |(trace, other): &(Trace, Part), begun: &Begun| {
                trace.shard == shard && *other == part && begun.target == target && is(begun.name)
            };
            self.0.iter().find(|(key, begun)| of(key, begun)).map(|((trace, _), _)| *trace)
        };
        let served = if command { SpanName::Command } else { SpanName::Serve };
        let reads = |name| matches!(name, SpanName::Read | SpanName::ReadAhead);
        find(Part::Serve, &|name| name == served).or_else(|| find(Part::Root, &|name| reads(name) != command))
    }

    /// The request for which this disk operation is done.
    pub(super) fn of_disk(&self, shard: u16, op: OpId) -> Option<Trace> {
        self.trace_of(Part::Disk(op), |trace, _| trace.shard == shard)
    }

    /// The command, of another node or this one, that changes some of these blocks.
    pub(super) fn command_on(&self, shard: u16, target: Target) -> Option<Trace> {
        let changes = |trace: Trace, begun: &Begun| {
            let writes = !matches!(begun.name, SpanName::Serve | SpanName::Read | SpanName::ReadAhead);
            trace.shard == shard && writes && begun.target.overlaps(target)
        };
        self.trace_of(Part::Serve, changes).or_else(|| self.trace_of(Part::Root, changes))
    }

    /// The command for which this node has to confirm this write.
    pub(super) fn invalidating(&self, shard: u16, volume: PgId, stamp: Stamp, from: NodeId) -> Option<Trace> {
        self.trace_of(Part::Invalidate(from, stamp), |trace, begun| {
            trace.shard == shard && begun.target.volume == volume
        })
    }

    fn trace_of(&self, part: Part, is: impl Fn(Trace, &Begun) -> bool) -> Option<Trace> {
        let mut found = self.0.iter().filter(|((_, other), _)| *other == part);
        found.find(|((trace, _), begun)| is(*trace, begun)).map(|((trace, _), _)| *trace)
    }
}

#[cfg(test)]
mod tests {
    use cards_core::RequestId;

    use super::*;

    const VOLUME: PgId = PgId(0);

    fn begun(name: SpanName, block: u32, at: u64) -> Begun {
        Begun { name, target: Target::block(VOLUME, block), peer: None, at: Instant(at) }
    }

    fn trace(number: u64) -> Trace {
        Trace::of(NodeId(2), 0, RequestId(number))
    }

    #[test]
    fn no_more_than_so_many_are_open_and_the_oldest_goes() {
        let mut open = Open::default();
        for number in 0..OPEN_MAX as u64 {
            assert!(
                open.begin(trace(number), Part::Root, begun(SpanName::Read, 0, 9_999 - number)).is_none()
            );
        }
        assert!(open.begin(trace(0), Part::Root, begun(SpanName::Read, 0, 0)).is_none(), "it has begun");
        let (given_up, _) = open.begin(trace(5_000), Part::Root, begun(SpanName::Read, 0, 10_000)).unwrap();
        assert_eq!((given_up, open.len()), (trace(OPEN_MAX as u64 - 1), OPEN_MAX));

        let mut open = Open::default();
        open.begin(trace(1), Part::Root, begun(SpanName::Read, 0, 1));
        let later = LOST.as_nanos() as u64;
        assert!(open.begin(trace(2), Part::Root, begun(SpanName::Read, 0, later)).is_none());
        let (lost, _) = open.begin(trace(3), Part::Root, begun(SpanName::Read, 0, later + 2)).unwrap();
        assert_eq!((lost, open.len()), (trace(1), 2));
    }

    #[test]
    fn the_disk_works_for_whoever_waits_for_the_same_blocks() {
        let mut open = Open::default();
        let block = |block| Target::block(VOLUME, block);
        open.begin(trace(1), Part::Root, begun(SpanName::Read, 7, 1));
        open.begin(trace(2), Part::Serve, begun(SpanName::Command, 7, 1));
        assert_eq!(open.waiting_for_disk(0, SpanName::DiskRead, block(7)), Some(trace(1)));
        open.begin(trace(3), Part::Serve, begun(SpanName::Serve, 7, 1));
        assert_eq!(open.waiting_for_disk(0, SpanName::DiskRead, block(7)), Some(trace(3)));
        assert_eq!(open.waiting_for_disk(0, SpanName::DiskCommand, block(7)), Some(trace(2)));
        assert_eq!(open.waiting_for_disk(1, SpanName::DiskRead, block(7)), None);
        assert_eq!(open.waiting_for_disk(0, SpanName::DiskRead, block(8)), None);
        let around = Target { volume: VOLUME, block: 0, count: 16 };
        assert_eq!(open.command_on(0, around), Some(trace(2)));
        assert_eq!(open.command_on(0, Target { count: 7, ..around }), None);
    }
}
