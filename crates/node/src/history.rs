//! What a node did in the last hour and what befell it, in a memory of fixed size: what a page shows of the time before it was
//! opened.
//!
//! What a node did ends with its process. So two others keep it as well: the two live members that follow it in the order of
//! their numbers ask it for its last step at the end of every step, and tell it when it cannot.
//!
//! | file | noun |
//! |---|---|
//! | `sample` | what is kept of a step of five seconds |
//! | `event` | what has happened, and when |
//! | `view` | what a node sees, and what has happened between two looks |
//! | `past` | what this node keeps of the past of others |
//! | `sum` | the histories of all nodes together |

mod event;
mod past;
mod sample;
mod sum;
mod view;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inquiry::Round;
use crate::node::Node;
use crate::report;

use event::Log;
use past::Pasts;
use sample::{Sample, Totals};
use view::View;

pub(crate) use event::{Event, merge};
pub(crate) use sum::{cluster, of_node};

/// Time between two samples, in milliseconds.
const STEP_MS: u64 = 5_000;
/// Samples that are kept: an hour.
const SAMPLES_MAX: usize = 720;
/// What was counted in so many steps at most, of which only the last was noted, is shared out to all of them: the node was busy
/// with something else meanwhile. If they are more, it stood still, and nothing is known of them.
const SHARED_MAX: u64 = 12;
/// A step that is noted later after its end than this is not: it would have what was counted in the next.
const LATE_MS: u64 = STEP_MS / 5;

/// The last hour of one node.
#[derive(Debug, Default)]
pub(crate) struct History {
    ring: Mutex<Ring>,
    log: Mutex<Log>,
    pasts: Pasts,
    sum: Round<Told>,
}

#[derive(Debug, Default)]
struct Ring {
    /// By the numbers of their steps since 1970, in order; steps may be missing.
    samples: VecDeque<(u64, Sample)>,
    /// What there was at the end of a step, the last one that was noted.
    totals: Option<(u64, Totals)>,
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
    /// Takes what there is at the end of step `step`. A clock that was set back begins the history anew, unless it was
    /// so little that the step only ends again: what came in between counts for the next one.
    fn note(&self, step: u64, totals: Totals) {
        let mut ring = self.ring();
        match ring.totals {
            Some((last, _)) if last == step => return,
            Some((last, _)) if last > step => *ring = Ring::default(),
            _ => {}
        }
        if let Some((last, before)) = ring.totals.take() {
            let (steps, counted) = (step - last, totals.since(&before));
            for part in (0..steps).filter(|_| steps <= SHARED_MAX) {
                if ring.samples.len() == SAMPLES_MAX {
                    ring.samples.pop_front();
                }
                ring.samples.push_back((last + 1 + part, counted.part(part, steps)));
            }
        }
        ring.totals = Some((step, totals));
    }

    /// Takes what has happened.
    fn happened(&self, events: Vec<Event>) {
        let mut log = self.log();
        events.into_iter().for_each(|event| log.add(event));
    }

    /// What came after the step `after`, or all of it, as that of the node `name`.
    pub(crate) fn tell(&self, name: &str, after: Option<u64>) -> Told {
        let ring = self.ring();
        let is_wanted = |step: u64| after.is_none_or(|after| step > after);
        let wanted = ring.samples.iter().filter(|(step, _)| is_wanted(*step));
        let samples = wanted.map(|(step, sample)| [&[*step], &sample.values()[..]].concat()).collect();
        drop(ring);
        let since_ms = after.map_or(0, |after| after.saturating_mul(STEP_MS));
        Told { samples, events: self.log().since(since_ms), ..Told::nothing(vec![name.into()]) }
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

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn nothing(nodes: Vec<String>) -> Self {
        let fields = Sample::FIELDS.iter().map(ToString::to_string).collect();
        Self { nodes, step_ms: STEP_MS, fields, samples: Vec::new(), events: Vec::new() }
    }

    /// Whether it is a history as this release tells it.
    fn is_known(&self) -> bool {
        self.step_ms == STEP_MS && self.fields == Sample::FIELDS
    }
}

/// Milliseconds since 1970 (UTC), and the step that they are in.
fn now(node: &Node) -> (u64, u64) {
    let since_ms = node.clock.now_and_utc_us().1 / 1_000;
    (since_ms, since_ms / STEP_MS)
}

/// Samples a node at the end of every step; never ends.
pub(crate) async fn keep(node: &Arc<Node>) {
    let mut seen = View::of(&report::status(node));
    node.history.happened(vec![Event::started(&node.config.node, now(node).0)]);
    loop {
        let (since_ms, step) = now(node);
        let end_ms = (step + 1) * STEP_MS;
        tokio::time::sleep(Duration::from_millis(end_ms - since_ms)).await;
        let status = report::status(node);
        if status.time_ms <= end_ms + LATE_MS {
            node.history.note(step, Totals::of(&status));
        }
        let (view, events) = seen.then(View::of(&status), &status.node, status.time_ms);
        seen = view;
        node.history.happened(events);
        past::gather(node).await;
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
