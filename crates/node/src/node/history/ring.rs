//! The samples of the last hour.

use std::collections::VecDeque;

use super::sample::{Sample, Totals};

/// Samples that are kept: an hour.
pub(crate) const SAMPLES_MAX: usize = 720;
/// What was counted in so many steps at most, of which only the last was noted, is shared out to all of them: the node was busy
/// with something else meanwhile. If they are more, it stood still, and nothing is known of them.
pub(crate) const SHARED_MAX: u64 = 12;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// By the numbers of their steps since 1970, in order; steps may be missing.
    samples: VecDeque<(u64, Sample)>,
    /// What there was at the end of a step, the last one that was noted.
    totals: Option<(u64, Totals)>,
}

impl Ring {
    /// Takes what there is at the end of step `step`. A clock that was set back begins the history anew, unless it was
    /// so little that the step only ends again: what came in between counts for the next one.
    pub(crate) fn note(&mut self, step: u64, totals: Totals) {
        match self.totals {
            Some((last, _)) if last == step => return,
            Some((last, _)) if last > step => *self = Self::default(),
            _ => {}
        }
        if let Some((last, before)) = self.totals.take() {
            let (steps, counted) = (step - last, totals.since(&before));
            for part in (0..steps).filter(|_| steps <= SHARED_MAX) {
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back((last + 1 + part, counted.part(part, steps)));
            }
        }
        self.totals = Some((step, totals));
    }

    /// What came after the step `after`, or all of it: for each sample its step, then its numbers.
    pub(crate) fn tell(&self, after: Option<u64>) -> Vec<Vec<u64>> {
        let wanted = self.samples.iter().filter(|(step, _)| after.is_none_or(|after| *step > after));
        wanted.map(|(step, sample)| [&[*step], &sample.values()[..]].concat()).collect()
    }
}
