//! A step of a request between nodes, or of a disk, as a data thread sees it.
//!
//! Nothing is added to what nodes tell each other. A request has a number at the node that sends it, and it keeps both
//! on its way: from its messages, and from what a node's disk is asked, the steps follow.

use cards_admin::{SpanName, SpanOutcome};
use cards_core::{Body, CommandKind, DiskWork, Message, NodeId, OpId, Output, PgId, Source, Stamp};

use crate::spans::Trace;

/// A step. What is not of a request, or of no interest, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client of this node waits for its own disk, or for nodes that this node asks to void their copies.
    Waits { trace: Trace, name: SpanName, target: Target },
    /// This node asks another one, for the first time or after others.
    Asks { trace: Trace, name: SpanName, target: Target, to: NodeId },
    /// A request of this node's own is answered.
    Answered { trace: Trace, outcome: SpanOutcome },
    /// A request of another node has come.
    Serves { trace: Trace, name: SpanName, target: Target },
    /// It is sent on.
    PassesOn { trace: Trace, to: NodeId },
    /// It is answered.
    Answers { trace: Trace, outcome: SpanOutcome },
    /// A node has to void its copies, and to confirm that.
    Invalidates { shard: u16, stamp: Stamp, target: Target, to: NodeId },
    /// It has.
    Confirmed { shard: u16, stamp: Stamp, volume: PgId, from: NodeId },
    /// The disk is asked.
    DiskAsked { shard: u16, op: OpId, name: SpanName, target: Target },
    /// The disk has answered.
    DiskDone { shard: u16, op: OpId, failed: bool },
}

const _: () = assert!(size_of::<Step>() <= 48);

/// Blocks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The volume.
    pub(crate) volume: PgId,
    /// The first.
    pub(crate) block: u32,
    /// So many.
    pub(crate) count: u32,
}

/// Where steps are seen.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) me: NodeId,
    /// Bytes of a block.
    pub(crate) block: u64,
}

impl Step {
    /// The request, if the step says which.
    pub(crate) const fn trace(&self) -> Option<Trace> {
        match *self {
            Self::Waits { trace, .. }
            | Self::Asks { trace, .. }
            | Self::Answered { trace, .. }
            | Self::Serves { trace, .. }
            | Self::PassesOn { trace, .. }
            | Self::Answers { trace, .. } => Some(trace),
            Self::Invalidates { .. }
            | Self::Confirmed { .. }
            | Self::DiskAsked { .. }
            | Self::DiskDone { .. } => None,
        }
    }

    /// A message leaves.
    pub(crate) fn sent(at: At, to: NodeId, message: &Message) -> Option<Self> {
        let Message { volume, shard, body, .. } = message;
        let answers = |request, outcome| Self::Answers { trace: Trace::of(to, *shard, request), outcome };
        Some(match *body {
            Body::Read { request, block, requester, read_ahead, .. } => {
                let trace = Trace::of(requester, *shard, request);
                if requester == at.me {
                    let name = if read_ahead { SpanName::ReadAhead } else { SpanName::Read };
                    Self::Asks { trace, name, target: Target::block(*volume, block), to }
                } else {
                    Self::PassesOn { trace, to }
                }
            }
            Body::Command { request, kind, offset, length, .. } => {
                let trace = Trace::of(at.me, *shard, request);
                let target = Target::bytes(*volume, offset, length, at.block);
                Self::Asks { trace, name: name_of(kind), target, to }
            }
            Body::Data { request, source, .. } => answers(request, of(source)),
            Body::Nack { request, .. } => answers(request, SpanOutcome::Failed),
            Body::CommandDone { request, result, .. } => answers(request, done(result.is_err())),
            Body::Invalidate { stamp, block, count: count @ 1.., .. } => {
                let target = Target { volume: *volume, block, count: u32::from(count) };
                Self::Invalidates { shard: *shard, stamp, target, to }
            }
            _ => return None,
        })
    }

    /// A message has arrived.
    pub(crate) fn arrived(at: At, from: NodeId, message: &Message) -> Option<Self> {
        let Message { volume, shard, body, .. } = message;
        let answered =
            |request, outcome| Self::Answered { trace: Trace::of(at.me, *shard, request), outcome };
        Some(match *body {
            // One that comes back is answered by this node's own disk.
            Body::Read { requester, .. } if requester == at.me => return None,
            Body::Read { request, block, requester, .. } => {
                let trace = Trace::of(requester, *shard, request);
                Self::Serves { trace, name: SpanName::Serve, target: Target::block(*volume, block) }
            }
            Body::Command { request, offset, length, .. } => {
                let target = Target::bytes(*volume, offset, length, at.block);
                Self::Serves { trace: Trace::of(from, *shard, request), name: SpanName::Command, target }
            }
            Body::Data { request, source, .. } => answered(request, of(source)),
            Body::Nack { request, .. } => answered(request, SpanOutcome::Failed),
            Body::CommandDone { request, result, .. } => answered(request, done(result.is_err())),
            Body::InvalidateAck { stamp, .. } => {
                Self::Confirmed { shard: *shard, stamp, volume: *volume, from }
            }
            _ => return None,
        })
    }

    /// A client of this node has to wait until this is done. Requests that are sent to other nodes begin when they are.
    pub(crate) fn wanted(at: At, shard: u16, command: Option<CommandKind>, output: &Output) -> Option<Self> {
        let (trace, target) = match output {
            Output::Disk { op, volume, work } => {
                let (_, target) = disk_step(at, *volume, work);
                (Trace::of_disk(at.me, shard, *op), target)
            }
            Output::Send {
                message:
                    Message { volume, body: Body::Invalidate { stamp, block, count: count @ 1.., .. }, .. },
                ..
            } => {
                let target = Target { volume: *volume, block: *block, count: u32::from(*count) };
                (Trace::of_write(at.me, shard, *volume, *stamp), target)
            }
            _ => return None,
        };
        Some(Self::Waits { trace, name: command.map_or(SpanName::Read, name_of), target })
    }

    /// The disk is asked.
    pub(crate) fn disk_asked(at: At, shard: u16, op: OpId, volume: PgId, work: &DiskWork) -> Self {
        let (name, target) = disk_step(at, volume, work);
        Self::DiskAsked { shard, op, name, target }
    }
}

impl Target {
    pub(crate) const fn block(volume: PgId, block: u32) -> Self {
        Self { volume, block, count: 1 }
    }

    /// The blocks, of `block` bytes each, that a range of bytes touches. A peer may have named any range.
    fn bytes(volume: PgId, offset: u64, length: u32, block: u64) -> Self {
        let first = offset / block;
        let end = offset.saturating_add(length.into()).div_ceil(block).max(first);
        let within = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self { volume, block: within(first), count: within(end - first) }
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        let end = |target: Self| u64::from(target.block) + u64::from(target.count);
        self.volume == other.volume
            && u64::from(self.block) < end(other)
            && u64::from(other.block) < end(self)
    }
}

/// What work of the disk is as a step, and of which blocks.
fn disk_step(at: At, volume: PgId, work: &DiskWork) -> (SpanName, Target) {
    match *work {
        DiskWork::Read { block, .. } => (SpanName::DiskRead, Target::block(volume, block)),
        DiskWork::Command { offset, length, .. } => {
            (SpanName::DiskCommand, Target::bytes(volume, offset, length, at.block))
        }
    }
}

const fn of(source: Source) -> SpanOutcome {
    match source {
        Source::Cache => SpanOutcome::Cache,
        Source::Disk => SpanOutcome::Disk,
    }
}

pub(crate) const fn done(failed: bool) -> SpanOutcome {
    if failed { SpanOutcome::Failed } else { SpanOutcome::Done }
}

const fn name_of(kind: CommandKind) -> SpanName {
    match kind {
        CommandKind::Write => SpanName::Write,
        CommandKind::Zero { .. } => SpanName::Zero,
        CommandKind::Trim => SpanName::Trim,
        CommandKind::Flush { .. } => SpanName::Flush,
    }
}

#[cfg(test)]
mod tests {
    use cards_core::{Payload, RequestId};

    use super::*;

    const AT: At = At { me: NodeId(1), block: 4096 };
    const VOLUME: PgId = PgId::plain(NodeId(0), 0);

    fn message(body: Body) -> Message {
        Message { volume: VOLUME, shard: 3, through: Stamp(0), free: 0, body }
    }

    fn read(requester: u16) -> Message {
        message(Body::Read {
            request: RequestId(7),
            block: 5,
            requester: NodeId(requester),
            hops: 0,
            leave_copy: true,
            read_ahead: false,
            from_disk: false,
        })
    }

    #[test]
    fn a_read_is_asked_for_here_and_passed_on_or_served_elsewhere() {
        let trace = |requester| Trace::of(NodeId(requester), 3, RequestId(7));
        let (target, to) = (Target::block(VOLUME, 5), NodeId(2));
        assert_eq!(
            Step::sent(AT, to, &read(1)),
            Some(Step::Asks { trace: trace(1), name: SpanName::Read, target, to })
        );
        assert_eq!(Step::sent(AT, to, &read(0)), Some(Step::PassesOn { trace: trace(0), to }));
        assert_eq!(Step::arrived(AT, to, &read(1)), None, "it comes back");
        assert_eq!(
            Step::arrived(AT, to, &read(0)),
            Some(Step::Serves { trace: trace(0), name: SpanName::Serve, target })
        );
    }

    #[test]
    fn an_invalidation_of_nothing_is_no_step_and_no_wait() {
        let invalidate = |count| {
            let generation = cards_core::Generation::default();
            message(Body::Invalidate { generation, stamp: Stamp(9), block: 2, count })
        };
        let wanted = |count| {
            let output = Output::Send { to: NodeId(2), message: invalidate(count), payload: Payload::None };
            Step::wanted(AT, 3, Some(CommandKind::Write), &output)
        };
        assert_eq!((Step::sent(AT, NodeId(2), &invalidate(0)), wanted(0)), (None, None));
        let trace = Trace::of_write(NodeId(1), 3, VOLUME, Stamp(9));
        let target = Target { volume: VOLUME, block: 2, count: 4 };
        assert_eq!(wanted(4), Some(Step::Waits { trace, name: SpanName::Write, target }));
    }

    #[test]
    fn bytes_touch_blocks() {
        let blocks = |offset, length| {
            let target = Target::bytes(VOLUME, offset, length, 4096);
            (target.block, target.count)
        };
        assert_eq!(blocks(0, 0), (0, 0));
        assert_eq!(blocks(4095, 2), (0, 2));
        assert_eq!(blocks(8192, 4096), (2, 1));
        assert_eq!(blocks(u64::MAX, u32::MAX), (u32::MAX, 1));
        assert_eq!(blocks(1 << 50, 4096), (u32::MAX, 1));
    }
}
