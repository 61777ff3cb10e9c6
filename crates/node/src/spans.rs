//! Traces: what happened to a sample of the requests, at every node that saw them.
//!
//! Nothing is added to what nodes tell each other. A request has a number at the node that sends it, and it keeps both
//! on its way; whether it is traced follows from them, so all nodes trace the same requests. What a node sees of one is
//! its arrival, what is sent for it and what its disk does: from these the spans are made, without the core.
//!
//! A request that is not traced costs a multiplication or two if any are, and one comparison if none are. Blocks that
//! are here already make no request, so nothing at all is done for them.
//!
//! | file | noun |
//! |---|---|
//! | `trace` | the name of a traced request, and the choice of those that are traced |
//! | `open` | steps that have begun |
//! | `kept` | steps that have ended |
//! | `tell` | spans as others want them |
//! | `otlp` | the same for collectors of OpenTelemetry |

mod kept;
mod open;
mod otlp;
mod tell;
mod trace;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_admin::{SpanName, SpanOutcome};
use cards_core::{Body, CommandKind, DiskWork, Instant, Message, NodeId, OpId, Output, PgId, Source, Stamp};

use crate::node::Node;

pub(crate) use otlp::otlp;
pub(crate) use tell::{tell, tell_all};

use kept::Kept;
use open::{Begun, Open, Part, Target};
use trace::Trace;

/// The spans of a node.
pub(crate) struct Spans {
    /// One request in so many is traced; zero if none is.
    one_in: u32,
    /// How many have begun: most disk operations concern none, and need not look.
    begun: AtomicUsize,
    steps: Mutex<Steps>,
}

#[derive(Default)]
struct Steps {
    open: Open,
    kept: Kept,
}

impl Spans {
    pub(crate) fn new(one_in: u32) -> Self {
        Self { one_in, begun: AtomicUsize::new(0), steps: Mutex::default() }
    }

    /// A message leaves.
    #[inline]
    pub(crate) fn sent(&self, node: &Node, to: NodeId, message: &Message) {
        if self.one_in != 0 {
            self.note_sent(node, to, message);
        }
    }

    /// A message has arrived.
    #[inline]
    pub(crate) fn arrived(&self, node: &Node, from: NodeId, now: Instant, message: &Message) {
        if self.one_in != 0 {
            self.note_arrived(node, from, now, message);
        }
    }

    /// A client of this node has to wait until this is done, for a command or for a block.
    #[inline]
    pub(crate) fn wanted(&self, node: &Node, shard: u16, command: Option<CommandKind>, output: &Output) {
        if self.one_in != 0 {
            self.note_wanted(node, shard, command, output);
        }
    }

    /// The disk is about to be asked.
    #[inline]
    pub(crate) fn disk_asked(&self, node: &Node, shard: u16, op: OpId, volume: PgId, work: &DiskWork) {
        if self.one_in != 0 && self.begun.load(Ordering::Relaxed) != 0 {
            self.note_disk_asked(node, shard, op, volume, work);
        }
    }

    /// The disk has answered.
    #[inline]
    pub(crate) fn disk_done(&self, node: &Node, shard: u16, op: OpId, now: Instant, failed: bool) {
        if self.one_in != 0 && self.begun.load(Ordering::Relaxed) != 0 {
            self.note_disk_done(node, shard, op, now, failed);
        }
    }

    fn note_sent(&self, node: &Node, to: NodeId, message: &Message) {
        let Message { volume, shard, body, .. } = message;
        let bytes = node.arena.block() as u64;
        match *body {
            Body::Read { request, block, requester, read_ahead, .. } => {
                let trace = Trace::of(requester, *shard, request);
                if !trace.is_traced(self.one_in) {
                    return;
                }
                let now = node.now();
                let mut steps = self.steps();
                if requester == node.me {
                    let name = if read_ahead { SpanName::ReadAhead } else { SpanName::Read };
                    steps.ask(trace, name, Target::block(*volume, block), to, now);
                } else {
                    steps.pass_on(trace, to, now);
                }
                self.count(&steps);
            }
            Body::Command { request, kind, offset, length, .. } => {
                let trace = Trace::of(node.me, *shard, request);
                if trace.is_traced(self.one_in) {
                    let mut steps = self.steps();
                    let target = Target::bytes(*volume, offset, length, bytes);
                    steps.ask(trace, name_of(kind), target, to, node.now());
                    self.count(&steps);
                }
            }
            Body::Data { request, source, .. } => {
                self.answered(node, Trace::of(to, *shard, request), of(source));
            }
            Body::Nack { request, .. } => {
                self.answered(node, Trace::of(to, *shard, request), SpanOutcome::Failed);
            }
            Body::CommandDone { request, result, .. } => {
                self.answered(node, Trace::of(to, *shard, request), done(result.is_err()));
            }
            Body::Invalidate { stamp, block, count: count @ 1.., .. }
                if self.begun.load(Ordering::Relaxed) != 0 =>
            {
                let target = Target { volume: *volume, block, count: u32::from(count) };
                let mut steps = self.steps();
                steps.invalidate(*shard, stamp, target, to, node.now());
                self.count(&steps);
            }
            _ => {}
        }
    }

    fn note_arrived(&self, node: &Node, from: NodeId, now: Instant, message: &Message) {
        let Message { volume, shard, body, .. } = message;
        let bytes = node.arena.block() as u64;
        let (trace, outcome) = match *body {
            // One that comes back is answered by this node's own disk.
            Body::Read { requester, .. } if requester == node.me => return,
            Body::Read { request, block, requester, .. } => {
                let trace = Trace::of(requester, *shard, request);
                return self.begin_serve(trace, SpanName::Serve, Target::block(*volume, block), now);
            }
            Body::Command { request, offset, length, .. } => {
                let target = Target::bytes(*volume, offset, length, bytes);
                return self.begin_serve(Trace::of(from, *shard, request), SpanName::Command, target, now);
            }
            Body::Data { request, source, .. } => (Trace::of(node.me, *shard, request), of(source)),
            Body::Nack { request, .. } => (Trace::of(node.me, *shard, request), SpanOutcome::Failed),
            Body::CommandDone { request, result, .. } => {
                (Trace::of(node.me, *shard, request), done(result.is_err()))
            }
            Body::InvalidateAck { stamp, .. } if self.begun.load(Ordering::Relaxed) != 0 => {
                let mut steps = self.steps();
                steps.confirmed(*shard, *volume, stamp, from, now);
                return self.count(&steps);
            }
            _ => return,
        };
        if trace.is_traced(self.one_in) {
            let mut steps = self.steps();
            steps.end_request(trace, outcome, now);
            self.count(&steps);
        }
    }

    /// Begins the requests that this node's own disk answers: those that are sent begin when they are.
    fn note_wanted(&self, node: &Node, shard: u16, command: Option<CommandKind>, output: &Output) {
        let name = command.map_or(SpanName::Read, name_of);
        let (trace, target) = match output {
            Output::Disk { op, volume, work, .. } => {
                let (_, target) = disk_step(node, *volume, work);
                (Trace::of_disk(node.me, shard, *op), target)
            }
            Output::Send {
                message:
                    Message { volume, body: Body::Invalidate { stamp, block, count: count @ 1.., .. }, .. },
                ..
            } => {
                let target = Target { volume: *volume, block: *block, count: u32::from(*count) };
                (Trace::of_write(node.me, shard, *volume, *stamp), target)
            }
            _ => return,
        };
        if trace.is_traced(self.one_in) {
            let mut steps = self.steps();
            steps.begin(trace, Part::Root, Begun { name, target, peer: None, at: node.now() });
            self.count(&steps);
        }
    }

    fn note_disk_asked(&self, node: &Node, shard: u16, op: OpId, volume: PgId, work: &DiskWork) {
        let (name, target) = disk_step(node, volume, work);
        let mut steps = self.steps();
        if let Some(trace) = steps.open.waiting_for_disk(shard, name, target) {
            steps.begin(trace, Part::Disk(op), Begun { name, target, peer: None, at: node.now() });
        }
        self.count(&steps);
    }

    fn note_disk_done(&self, node: &Node, shard: u16, op: OpId, now: Instant, failed: bool) {
        let mut steps = self.steps();
        if let Some(trace) = steps.open.of_disk(shard, op) {
            steps.end(trace, Part::Disk(op), done(failed), now);
            // A request of this node's own that its own disk has answered has no other end.
            if trace.requester == node.me {
                let read = steps
                    .open
                    .get(trace, Part::Root)
                    .is_some_and(|root| matches!(root.name, SpanName::Read | SpanName::ReadAhead));
                let outcome = if read && !failed { SpanOutcome::Disk } else { done(failed) };
                steps.end_request(trace, outcome, now);
            }
        }
        self.count(&steps);
    }

    fn begin_serve(&self, trace: Trace, name: SpanName, target: Target, now: Instant) {
        if trace.is_traced(self.one_in) {
            let mut steps = self.steps();
            steps.begin(trace, Part::Serve, Begun { name, target, peer: None, at: now });
            self.count(&steps);
        }
    }

    /// This node answers a request of another one.
    fn answered(&self, node: &Node, trace: Trace, outcome: SpanOutcome) {
        if trace.is_traced(self.one_in) {
            let mut steps = self.steps();
            steps.end(trace, Part::Serve, outcome, node.now());
            self.count(&steps);
        }
    }

    fn count(&self, steps: &MutexGuard<'_, Steps>) {
        self.begun.store(steps.open.len(), Ordering::Relaxed);
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps {
    fn begin(&mut self, trace: Trace, part: Part, begun: Begun) {
        if let Some((trace, oldest)) = self.open.begin(trace, part, begun) {
            self.kept.add(trace, oldest, SpanOutcome::Unanswered, begun.at);
        }
    }

    fn end(&mut self, trace: Trace, part: Part, outcome: SpanOutcome, now: Instant) {
        if let Some(begun) = self.open.end(trace, part) {
            self.kept.add(trace, begun, outcome, now);
        }
    }

    /// This node asks another one, for the first time or after others.
    fn ask(&mut self, trace: Trace, name: SpanName, target: Target, to: NodeId, now: Instant) {
        self.end(trace, Part::Ask, SpanOutcome::Unanswered, now);
        self.begin(trace, Part::Root, Begun { name, target, peer: None, at: now });
        self.begin(trace, Part::Ask, Begun { name: SpanName::Ask, target, peer: Some(to), at: now });
    }

    fn pass_on(&mut self, trace: Trace, to: NodeId, now: Instant) {
        if let Some(begun) = self.open.end(trace, Part::Serve) {
            let begun = Begun { name: SpanName::PassOn, peer: Some(to), ..begun };
            self.kept.add(trace, begun, SpanOutcome::Done, now);
        }
    }

    fn invalidate(&mut self, shard: u16, stamp: Stamp, target: Target, to: NodeId, now: Instant) {
        if let Some(trace) = self.open.command_on(shard, target) {
            let begun = Begun { name: SpanName::Invalidate, target, peer: Some(to), at: now };
            self.begin(trace, Part::Invalidate(to, stamp), begun);
        }
    }

    fn confirmed(&mut self, shard: u16, volume: PgId, stamp: Stamp, from: NodeId, now: Instant) {
        if let Some(trace) = self.open.invalidating(shard, volume, stamp, from) {
            self.end(trace, Part::Invalidate(from, stamp), SpanOutcome::Done, now);
        }
    }

    /// A request of this node's own is over.
    fn end_request(&mut self, trace: Trace, outcome: SpanOutcome, now: Instant) {
        self.end(trace, Part::Ask, outcome, now);
        self.end(trace, Part::Root, outcome, now);
    }
}

/// What work of the disk is as a step, and of which blocks.
fn disk_step(node: &Node, volume: PgId, work: &DiskWork) -> (SpanName, Target) {
    match *work {
        DiskWork::Read { block, .. } => (SpanName::DiskRead, Target::block(volume, block)),
        DiskWork::Command { offset, length, .. } => {
            let target = Target::bytes(volume, offset, length, node.arena.block() as u64);
            (SpanName::DiskCommand, target)
        }
    }
}

const fn of(source: Source) -> SpanOutcome {
    match source {
        Source::Cache => SpanOutcome::Cache,
        Source::Disk => SpanOutcome::Disk,
    }
}

const fn done(failed: bool) -> SpanOutcome {
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
