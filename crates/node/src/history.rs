//! What a node did in the last hour, in a memory of fixed size: what a page shows of the time before it was opened.
//!
//! | file | noun |
//! |---|---|
//! | `sample` | what is kept of a step of five seconds |
//! | `sum` | the histories of all nodes together |

mod sample;
mod sum;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inquiry::Round;
use crate::node::Node;
use crate::report;

use sample::{Sample, Totals};

pub(crate) use sum::cluster;

/// Time between two samples, in milliseconds.
const STEP_MS: u64 = 5_000;
/// Samples that are kept: an hour.
const SAMPLES_MAX: usize = 720;

/// The last hour of one node.
#[derive(Debug, Default)]
pub(crate) struct History {
    ring: Mutex<Ring>,
    sum: Round<Told>,
}

#[derive(Debug, Default)]
struct Ring {
    /// By the numbers of their steps since 1970, in order; steps may be missing.
    samples: VecDeque<(u64, Sample)>,
    /// What there was at the end of the last sample.
    totals: Option<Totals>,
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
}

impl History {
    /// Takes what there is at the end of step `step`. A clock that was set back begins the history anew, unless it was
    /// so little that the step only ends again: what came in between counts for the next one.
    fn note(&self, step: u64, totals: Totals) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        match ring.samples.back() {
            Some((last, _)) if *last == step => return,
            Some((last, _)) if *last > step => *ring = Ring::default(),
            _ => {}
        }
        if let Some(before) = ring.totals.take() {
            if ring.samples.len() == SAMPLES_MAX {
                ring.samples.pop_front();
            }
            ring.samples.push_back((step, totals.since(&before)));
        }
        ring.totals = Some(totals);
    }

    /// All of it, as that of the node `name`.
    pub(crate) fn tell(&self, name: &str) -> Told {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let tell = |(step, sample): &(u64, Sample)| [&[*step], &sample.values()[..]].concat();
        Told { samples: ring.samples.iter().map(tell).collect(), ..Told::nothing(vec![name.into()]) }
    }
}

impl Told {
    fn nothing(nodes: Vec<String>) -> Self {
        let fields = Sample::FIELDS.iter().map(ToString::to_string).collect();
        Self { nodes, step_ms: STEP_MS, fields, samples: Vec::new() }
    }
}

/// Milliseconds since 1970 (UTC), and the step that they are in.
fn now(node: &Node) -> (u64, u64) {
    let since_ms = node.clock.now_and_utc_us().1 / 1_000;
    (since_ms, since_ms / STEP_MS)
}

/// Samples a node at the end of every step; never ends.
pub(crate) async fn keep(node: &Node) {
    loop {
        let (since_ms, step) = now(node);
        tokio::time::sleep(Duration::from_millis((step + 1) * STEP_MS - since_ms)).await;
        node.history.note(step, Totals::of(&report::status(node)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_an_hour_and_no_more() {
        let history = History::default();
        for step in 0..10_000 {
            history.note(step, Totals::example(3 * step, &[]));
        }
        let told = history.tell("n1");
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
        assert!(history.tell("n1").samples.is_empty());
        history.note(51, Totals::example(7, &[]));
        assert_eq!(history.tell("n1").samples[0][..2], [51, 5]);
    }

    #[test]
    fn a_step_that_ends_twice_is_told_once_and_nothing_is_lost() {
        let history = History::default();
        for (step, reads) in [(100, 0), (101, 1), (101, 3), (102, 7)] {
            history.note(step, Totals::example(reads, &[]));
        }
        let told = history.tell("n1").samples;
        let told: Vec<&[u64]> = told.iter().map(|sample| &sample[..2]).collect();
        assert_eq!(told, [[101, 1], [102, 6]]);
    }

    #[test]
    fn a_step_has_the_latencies_of_its_own_requests() {
        let history = History::default();
        history.note(1, Totals::example(1, &[50_000]));
        history.note(2, Totals::example(3, &[50_000, 100, 100]));
        let told = history.tell("n1");
        let of = |name| told.samples[0][1 + told.fields.iter().position(|field| field == name).unwrap()];
        assert_eq!(
            (of("read_requests"), of("read_us"), of("write_requests"), of("write_p99_us")),
            (2, 200, 0, 0)
        );
        assert!((90..130).contains(&of("read_p99_us")), "{}", of("read_p99_us"));
    }
}
