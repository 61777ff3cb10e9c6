//! The histories of all nodes of a cluster, together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::sample::Sample;
use super::{SAMPLES_MAX, STEP_MS, Told};
use crate::inquiry::{Question, ask_members};
use crate::node::Node;

/// Nodes of a cluster that are asked for their history. A larger cluster has none: a page would cost it too much.
const NODES_MAX: usize = 64;
/// How old the sum may be.
const FRESH: Duration = Duration::from_millis(STEP_MS);
/// Steps by which a node may lag behind the others, or be ahead of this one: it answers, but its last step is not over
/// yet, or its clock is a little wrong.
const LAG: u64 = 2;

/// The last hour of all nodes that answer. Must be called in a runtime.
pub(crate) async fn cluster(node: &Arc<Node>) -> Arc<Told> {
    node.history.sum.get(FRESH, ask(node)).await
}

async fn ask(node: &Arc<Node>) -> Told {
    if node.members().live().count() > NODES_MAX {
        return Told::nothing(Vec::new());
    }
    let answers = ask_members::<Told>(node, &Question::History {}).await;
    sum(super::now(node).1, answers.into_iter().filter_map(|(_, told)| told.ok()))
}

/// The sum, step by step; this node is in step `now`. Histories of another kind, from another release, are left out,
/// and those of clocks that run ahead: what is said of the future would take the place of the past.
fn sum(now: u64, all: impl Iterator<Item = Told>) -> Told {
    let mut sum = Told::nothing(Vec::new());
    let mut steps: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut ends = Vec::new();
    let fields = sum.fields.clone();
    for told in all.filter(|told| told.step_ms == STEP_MS && told.fields == fields) {
        let mut samples = told.samples;
        samples.retain(|sample| sample.len() == 1 + sum.fields.len());
        if samples.iter().any(|sample| sample[0] > now.saturating_add(LAG)) {
            continue;
        }
        ends.extend(samples.last().map(|sample| sample[0]));
        sum.nodes.extend(told.nodes);
        for sample in samples {
            let values = steps.entry(sample[0]).or_insert_with(|| vec![0; sum.fields.len()]);
            let most = values.len() - Sample::MOST;
            for (at, (value, add)) in values.iter_mut().zip(&sample[1..]).enumerate() {
                *value = if at < most { value.saturating_add(*add) } else { *add.max(value) };
            }
        }
    }
    // Up to where all that go on have told it: the last step would be a dip else.
    let newest = ends.iter().copied().max().unwrap_or_default();
    let end = ends.into_iter().filter(|end| end.saturating_add(LAG) >= newest).min().unwrap_or_default();
    let begin = end.saturating_sub(SAMPLES_MAX as u64 - 1);
    let kept = steps.range(begin..=end);
    sum.samples = kept.map(|(step, values)| [&[*step], &values[..]].concat()).collect();
    sum
}

#[cfg(test)]
mod tests {
    use super::super::{History, Totals};
    use super::*;

    fn told(name: &str, steps: std::ops::RangeInclusive<u64>, each: u64, us: u64) -> Told {
        let history = History::default();
        let requests = |step| vec![us; step as usize];
        for (number, step) in (*steps.start() - 1..=*steps.end()).enumerate() {
            history.note(step, Totals::example(each * number as u64, &requests(number as u64)));
        }
        history.tell(name)
    }

    #[test]
    fn counters_add_up_and_of_percentiles_the_worst_counts() {
        let sum = sum(22, [told("n1", 10..=20, 3, 100), told("n2", 15..=21, 4, 1_000)].into_iter());
        assert_eq!(sum.nodes, ["n1", "n2"]);
        let reads: Vec<(u64, u64)> = sum.samples.iter().map(|sample| (sample[0], sample[1])).collect();
        assert_eq!(reads.first(), Some(&(10, 3)));
        assert_eq!(reads.last(), Some(&(20, 7)), "not the step that only one has told");
        let p99 = 1 + sum.fields.iter().position(|field| field == "read_p99_us").unwrap();
        assert!(sum.samples[0][p99] < 200 && sum.samples.last().unwrap()[p99] > 800);
    }

    #[test]
    fn one_that_has_stopped_long_ago_holds_up_nobody() {
        let sum = sum(31, [told("n1", 10..=12, 1, 1), told("n2", 10..=30, 1, 1)].into_iter());
        assert_eq!(sum.samples.last().unwrap()[0], 30);
    }

    #[test]
    fn a_clock_that_runs_ahead_takes_nobody_s_past() {
        let ahead = 10 + 2 * SAMPLES_MAX as u64;
        let sum = sum(13, [told("n1", 10..=12, 1, 1), told("n2", ahead..=ahead + 2, 1, 1)].into_iter());
        assert_eq!((sum.nodes, sum.samples.len()), (vec!["n1".to_owned()], 3));
    }

    #[test]
    fn what_is_strange_is_left_out() {
        let other = |change: fn(&mut Told)| {
            let mut told = told("n2", 10..=12, 1, 1);
            change(&mut told);
            told
        };
        let strange = [
            other(|told| told.step_ms = 1),
            other(|told| drop(told.fields.pop())),
            other(|told| told.samples = vec![vec![], vec![u64::MAX], vec![11; 3]]),
            other(|told| told.samples[0][0] = u64::MAX),
        ];
        let sum = sum(13, [told("n1", 10..=12, 1, 1)].into_iter().chain(strange));
        assert_eq!(sum.samples.iter().map(|sample| sample[1]).sum::<u64>(), 3);
        assert_eq!(super::sum(13, std::iter::empty()).samples, Vec::<Vec<u64>>::new());
    }
}
