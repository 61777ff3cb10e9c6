//! Steps that have ended: the last ones, in a memory of fixed size.

use std::collections::VecDeque;

use cards_admin::SpanOutcome;
use cards_core::Instant;

use super::open::Begun;
use super::trace::Trace;

/// Steps that a node keeps.
pub const KEPT_MAX: usize = 4096;

/// A step of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) trace: Trace,
    pub(super) begun: Begun,
    pub(super) end: Instant,
    pub(super) outcome: SpanOutcome,
}

/// The last steps, in the order of their ends.
#[derive(Default)]
pub(super) struct Kept(VecDeque<Step>);

impl Kept {
    pub(super) fn add(&mut self, trace: Trace, begun: Begun, outcome: SpanOutcome, end: Instant) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        // A look at the clock may be older than another one that another thread has taken.
        self.0.push_back(Step { trace, begun, end: end.max(begun.at), outcome });
    }

    /// The last `most` of one request, or of all.
    pub(super) fn last(&self, of: Option<Trace>, most: usize) -> Vec<Step> {
        let of = self.0.iter().rev().filter(|step| of.is_none_or(|trace| trace == step.trace));
        of.take(most).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use cards_core::{NodeId, PgId, RequestId};

    use super::*;
    use crate::step::Target;
    use cards_admin::SpanName;

    #[test]
    fn only_the_last_steps_are_kept() {
        let mut kept = Kept::default();
        let target = Target::block(PgId(0), 0);
        let count = 10_000;
        for number in 0..count {
            let begun = Begun { name: SpanName::Read, target, peer: None, at: Instant(number) };
            kept.add(Trace::of(NodeId(0), 0, RequestId(number / 2)), begun, SpanOutcome::Done, Instant(0));
        }
        let all = kept.last(None, usize::MAX);
        assert_eq!(all.len(), KEPT_MAX);
        assert!(all.iter().all(|step| step.end >= step.begun.at));
        let oldest = all.last().map(|step| step.begun.at);
        assert_eq!(oldest, Some(Instant(count - KEPT_MAX as u64)));
        assert_eq!(kept.last(Some(Trace::of(NodeId(0), 0, RequestId(count / 2 - 1))), 10).len(), 2);
        assert!(kept.last(Some(Trace::of(NodeId(0), 0, RequestId(0))), 10).is_empty());
        assert_eq!(kept.last(None, 3).len(), 3);
    }
}
