//! What a node did in the last hour and what befell it, in a memory of fixed size.
//!
//! | file | noun |
//! |---|---|
//! | `sample` | what is kept of a step of five seconds |
//! | `ring` | the samples of the last hour |
//! | `volumes` | those of single volumes |
//! | `event` | what has happened, and when |
//! | `past` | what this node keeps of the past of others |

pub(crate) mod event;
mod past;
mod ring;
pub(crate) mod sample;
mod volumes;

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::inquiries::round::Round;

use event::{Event, Log};
use past::Pasts;
use ring::Ring;
use sample::{Sample, Totals};
use volumes::Volumes;

pub(crate) use ring::SAMPLES_MAX;

/// Time between two samples, in milliseconds.
pub(crate) const STEP_MS: u64 = 5_000;
/// The last hour of one node.
#[derive(Debug, Default)]
pub(crate) struct History {
    ring: Mutex<Ring>,
    volumes: Mutex<Volumes>,
    log: Mutex<Log>,
    pub(crate) pasts: Pasts,
    /// Of all nodes, as it was summed up last.
    pub(crate) sum: Round<Told>,
}

/// A history as it is told: of one node, or of several together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Names of the nodes whose history it is.
    pub(crate) nodes: Vec<String>,
    /// Time between two samples, in milliseconds.
    pub(crate) step_ms: u64,
    /// What the numbers of a sample are.
    pub(crate) fields: Vec<String>,
    /// For each sample: the number of its step since 1970 (UTC), then the fields.
    pub(crate) samples: Vec<Vec<u64>>,
    /// What has happened, in order.
    #[serde(default)]
    pub(crate) events: Vec<Event>,
}

impl History {
    /// Takes what there is at the end of step `step`, see [`Ring::note`].
    pub(crate) fn note(&self, step: u64, totals: Totals) {
        self.ring().note(step, totals);
    }

    /// Takes what has happened.
    pub(crate) fn happened(&self, events: Vec<Event>) {
        let mut log = self.log();
        events.into_iter().for_each(|event| log.add(event));
    }

    /// What came after the step `after`, or all of it, as that of the node `name`.
    pub(crate) fn tell(&self, name: &str, after: Option<u64>) -> Told {
        let samples = self.ring().tell(after);
        let since_ms = after.map_or(0, |after| after.saturating_mul(STEP_MS));
        Told { samples, events: self.log().since(since_ms), ..Told::nothing(vec![name.into()]) }
    }

    /// What clients of the node `name` asked of a volume.
    pub(crate) fn tell_of(&self, volume: &str, name: &str) -> Told {
        let samples = self.volumes().tell(volume);
        Told { samples, ..Told::nothing(vec![name.into()]) }
    }

    /// What has happened as the node says itself, in order.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.log().since(0)
    }

    /// What this node keeps of another one's past, if anything.
    pub(crate) fn past(&self, name: &str) -> Option<Told> {
        self.pasts.of(name)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn volumes(&self) -> MutexGuard<'_, Volumes> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    pub(crate) fn nothing(nodes: Vec<String>) -> Self {
        let fields = Sample::FIELDS.iter().map(ToString::to_string).collect();
        Self { nodes, step_ms: STEP_MS, fields, samples: Vec::new(), events: Vec::new() }
    }

    /// Whether it is a history as this release tells it.
    pub(crate) fn is_known(&self) -> bool {
        self.step_ms == STEP_MS && self.fields == Sample::FIELDS
    }
}

#[cfg(test)]
mod tests {
    use super::ring::SHARED_MAX;
    use super::*;

    #[test]
    fn it_keeps_an_hour_and_no_more() {
        let history = History::default();
        for step in 0..10_000 {
            history.note(step, Totals::example(3 * step, &[]));
        }
        let told = history.tell("n1", None);
        assert_eq!(told.samples.len(), SAMPLES_MAX);
        assert_eq!(told.samples.last().unwrap()[..2], [9_999, 3]);
        assert!(told.samples.iter().all(|sample| sample.len() == 1 + told.fields.len()));
        assert_eq!(told.fields[0], "reads");
        let text = serde_json::to_string(&told).unwrap();
        assert_eq!(serde_json::from_str::<Told>(&text).unwrap(), told);
        assert!(text.len() < 1 << 20, "it fits into an answer to another node");
    }

    #[test]
    fn a_clock_that_is_set_back_begins_it_anew() {
        let history = History::default();
        history.note(100, Totals::example(0, &[]));
        history.note(101, Totals::example(1, &[]));
        history.note(50, Totals::example(2, &[]));
        assert!(history.tell("n1", None).samples.is_empty());
        history.note(51, Totals::example(7, &[]));
        assert_eq!(history.tell("n1", None).samples[0][..2], [51, 5]);
    }

    #[test]
    fn a_step_that_ends_twice_is_told_once_and_nothing_is_lost() {
        let history = History::default();
        for (step, reads) in [(100, 0), (101, 1), (101, 3), (102, 7)] {
            history.note(step, Totals::example(reads, &[]));
        }
        assert_eq!(reads(&history, None), [[101, 1], [102, 6]]);
    }

    /// The steps that are told after one, and the blocks read in each.
    fn reads(history: &History, after: Option<u64>) -> Vec<[u64; 2]> {
        let told = history.tell("n1", after).samples;
        told.iter().map(|sample| [sample[0], sample[1]]).collect()
    }

    #[test]
    fn what_was_counted_while_steps_were_missed_is_shared_out_to_them() {
        let history = History::default();
        for (step, reads) in [(100, 0), (103, 8), (104, 9), (104 + SHARED_MAX + 1, 999)] {
            history.note(step, Totals::example(reads, &[]));
        }
        history.note(104 + SHARED_MAX + 2, Totals::example(1_000, &[]));
        let known = [[101, 3], [102, 3], [103, 2], [104, 1], [104 + SHARED_MAX + 2, 1]];
        assert_eq!(reads(&history, None), known, "nobody knows when the 990 were read");
        assert_eq!(reads(&history, Some(103)), known[3..]);
    }

    #[test]
    fn a_step_has_the_latencies_of_its_own_requests() {
        let history = History::default();
        history.note(1, Totals::example(1, &[50_000]));
        history.note(2, Totals::example(3, &[50_000, 100, 100]));
        let told = history.tell("n1", None);
        let of = |name| told.samples[0][1 + told.fields.iter().position(|field| field == name).unwrap()];
        assert_eq!(
            (of("read_requests"), of("read_us"), of("write_requests"), of("write_p99_us")),
            (2, 200, 0, 0)
        );
        assert!((90..130).contains(&of("read_p99_us")), "{}", of("read_p99_us"));
    }
}
