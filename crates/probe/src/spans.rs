//! Traces: what happened to a sample of the requests, at every node that saw them.
//!
//! Whether a request is traced follows from the node that sends it and its number there, so all nodes trace the same
//! requests. What a node sees of one is its arrival, what is sent for it and what its disk does: from these steps the
//! spans are made, without the core.
//!
//! A request that is not traced costs a multiplication or two if any are, and one comparison if none are. Blocks that
//! are here already make no request, so nothing at all is done for them. Steps are taken on the thread that sees them,
//! since an answer may come to another thread than the one that has asked, and must not be taken before the question.
//!
//! | file | noun |
//! |---|---|
//! | `trace` | the name of a traced request, and the choice of those that are traced |
//! | `open` | steps that have begun |
//! | `kept` | steps that have ended |
//! | `otlp` | spans for collectors of OpenTelemetry |

mod kept;
mod open;
mod otlp;
mod trace;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_admin::{Span, SpanName, SpanOutcome};
use cards_core::{Instant, NodeId, OpId};

use crate::names::Names;
use crate::step::{Step, done};
use kept::Kept;
use open::{Begun, Open, Part};

pub use kept::KEPT_MAX;
pub use otlp::otlp;
pub use trace::{Trace, is_name};

/// The spans of a node.
pub struct Spans {
    me: NodeId,
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
    pub(crate) fn new(me: NodeId, one_in: u32) -> Self {
        Self { me, one_in, begun: AtomicUsize::new(0), steps: Mutex::default() }
    }

    /// Whether any request is traced.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.one_in != 0
    }

    /// Takes a step, if it is one of a traced request.
    pub(crate) fn note(&self, step: Option<Step>, now: impl FnOnce() -> Instant) {
        let Some(step) = step else { return };
        let may_be_traced = match step.trace() {
            Some(trace) => trace.is_traced(self.one_in),
            None => self.begun.load(Ordering::Relaxed) != 0,
        };
        if may_be_traced {
            let mut steps = self.steps();
            steps.take(self.me, step, now());
            self.begun.store(steps.open.len(), Ordering::Relaxed);
        }
    }

    /// The last spans that are kept, of one request or of all, at most `most`, the latest first. `node`: what this one is
    /// called. `at`: now, and in microseconds since 1970 (UTC).
    pub fn last(
        &self,
        of: Option<Trace>,
        most: usize,
        names: &dyn Names,
        (now, utc_us): (Instant, u64),
    ) -> Vec<Span> {
        let steps = self.steps().kept.last(of, most);
        let me = names.node(self.me);
        let mut volumes = BTreeMap::new();
        let mut span = |step: &kept::Step| {
            let begun = &step.begun;
            let volume = begun.target.volume;
            let start_us = utc_us.saturating_sub(now.since(begun.at).as_micros() as u64);
            Span {
                trace: step.trace.name(names),
                name: begun.name,
                node: me.clone(),
                peer: begun.peer.map(|peer| names.node(peer)),
                volume: volumes.entry(volume).or_insert_with(|| names.volume(volume)).clone(),
                block: begun.target.block,
                start_us,
                duration_us: step.end.since(begun.at).as_micros() as u64,
                outcome: step.outcome,
            }
        };
        steps.iter().map(&mut span).collect()
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps {
    fn take(&mut self, me: NodeId, step: Step, now: Instant) {
        let begun = |name, target, peer| Begun { name, target, peer, at: now };
        match step {
            Step::Waits { trace, name, target } => self.begin(trace, Part::Root, begun(name, target, None)),
            Step::Asks { trace, name, target, to } => {
                self.end(trace, Part::Ask, SpanOutcome::Unanswered, now);
                self.begin(trace, Part::Root, begun(name, target, None));
                self.begin(trace, Part::Ask, begun(SpanName::Ask, target, Some(to)));
            }
            Step::Answered { trace, outcome } => self.end_request(trace, outcome, now),
            Step::Serves { trace, name, target } => {
                self.begin(trace, Part::Serve, begun(name, target, None));
            }
            Step::PassesOn { trace, to } => {
                if let Some(begun) = self.open.end(trace, Part::Serve) {
                    let begun = Begun { name: SpanName::PassOn, peer: Some(to), ..begun };
                    self.kept.add(trace, begun, SpanOutcome::Done, now);
                }
            }
            Step::Answers { trace, outcome } => self.end(trace, Part::Serve, outcome, now),
            Step::Invalidates { shard, stamp, target, to } => {
                if let Some(trace) = self.open.command_on(shard, target) {
                    let begun = begun(SpanName::Invalidate, target, Some(to));
                    self.begin(trace, Part::Invalidate(to, stamp), begun);
                }
            }
            Step::Confirmed { shard, stamp, volume, from } => {
                if let Some(trace) = self.open.invalidating(shard, volume, stamp, from) {
                    self.end(trace, Part::Invalidate(from, stamp), SpanOutcome::Done, now);
                }
            }
            Step::DiskAsked { shard, op, name, target } => {
                if let Some(trace) = self.open.waiting_for_disk(shard, name, target) {
                    self.begin(trace, Part::Disk(op), begun(name, target, None));
                }
            }
            Step::DiskDone { shard, op, failed } => {
                if let Some(trace) = self.open.of_disk(shard, op) {
                    self.disk_done(me, trace, op, failed, now);
                }
            }
        }
    }

    fn disk_done(&mut self, me: NodeId, trace: Trace, op: OpId, failed: bool, now: Instant) {
        self.end(trace, Part::Disk(op), done(failed), now);
        // A request of this node's own that its own disk has answered has no other end.
        if trace.requester == me {
            let root = self.open.get(trace, Part::Root);
            let is_read = root.is_some_and(|root| matches!(root.name, SpanName::Read | SpanName::ReadAhead));
            let outcome = if is_read && !failed { SpanOutcome::Disk } else { done(failed) };
            self.end_request(trace, outcome, now);
        }
    }

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

    /// A request of this node's own is over.
    fn end_request(&mut self, trace: Trace, outcome: SpanOutcome, now: Instant) {
        self.end(trace, Part::Ask, outcome, now);
        self.end(trace, Part::Root, outcome, now);
    }
}
