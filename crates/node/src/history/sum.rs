//! The histories of all nodes of a cluster, together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cards_admin::{Refusal, RefusalKind};

use crate::inquiry::{Question, ask, ask_members};
use crate::node::Node;
use crate::node::history::event::{self, Event};
use crate::node::history::sample::Sample;
use crate::node::history::{SAMPLES_MAX, STEP_MS, Told};

/// Nodes of a cluster that are asked for their history. A larger cluster has none: a page would cost it too much.
const NODES_MAX: usize = 64;
/// How old the sum may be.
const FRESH: Duration = Duration::from_millis(STEP_MS);
/// Steps by which a node may lag behind the others, or be ahead of this one: it answers, but its last step is not over
/// yet, or its clock is a little wrong.
const LAG: u64 = 2;
/// Nodes whose past is asked of others: those that do not answer, and those that began later than others.
const PASTS_MAX: usize = 16;

/// The last hour of all nodes: of those that do not answer, what others keep of it. Must be called in a runtime.
pub(crate) async fn cluster(node: &Arc<Node>) -> Arc<Told> {
    node.history.sum.get(FRESH, gather(node)).await
}

async fn gather(node: &Arc<Node>) -> Told {
    if node.members().live().count() > NODES_MAX {
        return Told::nothing(Vec::new());
    }
    let answers = ask_members::<Told>(node, &Question::History { after: None }).await;
    let answers = answers.into_iter().filter_map(|(peer, told)| Some((node.name(peer), told.ok()?)));
    let mut all: BTreeMap<String, Told> = answers.filter(|(_, told)| told.is_known()).collect();
    for name in incomplete(&all, node.members().all().map(|(_, member)| member.name.as_str())) {
        let told = all.remove(&name).unwrap_or_else(|| Told::nothing(vec![name.clone()]));
        let told = with_pasts(node, &name, told).await;
        all.insert(name, told);
    }
    let mut sum = sum(super::now(node).1, all.values().cloned());
    sum.events = event::merge(all.into_values().flat_map(|told| told.events));
    sum
}

/// The last hour of one node. Must be called in a runtime.
///
/// # Errors
/// No member has this name.
pub(crate) async fn of_node(node: &Arc<Node>, name: &str) -> Result<Told, Refusal> {
    let found = node.members().find(name).map(|(peer, _)| peer);
    let peer = found.ok_or_else(|| {
        let shown = &name[..name.floor_char_boundary(200)];
        let message = format!("no member of the cluster is called {shown:?}; see `cards status`");
        Refusal { kind: RefusalKind::BadRequest, message }
    })?;
    let told = ask::<Told>(node, peer, &Question::History { after: None }).await.ok();
    let told = told.filter(Told::is_known).unwrap_or_else(|| Told::nothing(vec![name.into()]));
    let told = with_pasts(node, name, told).await;
    Ok(Told { events: event::merge(told.events), ..told })
}

/// What clients of all nodes that answer asked of a volume in the last hour. Must be called in a runtime.
pub(crate) async fn of_volume(node: &Arc<Node>, name: &str) -> Told {
    if node.members().live().count() > NODES_MAX {
        return Told::nothing(Vec::new());
    }
    let question = Question::VolumeHistory { volume: name.into() };
    let answers = ask_members::<Told>(node, &question).await;
    sum(super::now(node).1, answers.into_iter().filter_map(|(_, told)| told.ok()))
}

/// The nodes of which others may know more than they tell themselves; those that have told nothing first.
fn incomplete<'a>(told: &BTreeMap<String, Told>, members: impl Iterator<Item = &'a str>) -> Vec<String> {
    let begin = |name: &str| told.get(name)?.samples.first().map(|sample| sample[0]);
    let first = told.keys().filter_map(|name| begin(name)).min();
    let mut late: Vec<(Option<u64>, &str)> = members.map(|name| (begin(name), name)).collect();
    late.retain(|(begin, _)| begin.is_none_or(|begin| first.is_some_and(|first| begin > first + LAG)));
    // None comes first, and then those that have told least.
    late.sort_by_key(|(begin, _)| begin.map(std::cmp::Reverse));
    late.into_iter().take(PASTS_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// What a node has told, and what others keep of its time before that.
async fn with_pasts(node: &Arc<Node>, name: &str, told: Told) -> Told {
    let answers = ask_members::<Option<Told>>(node, &Question::Past { node: name.into() }).await;
    let pasts = answers.into_iter().filter_map(|(_, past)| past.ok().flatten());
    join(told, pasts.filter(Told::is_known))
}

/// One history of a node, and others of it that tell of the same time or of an earlier one.
fn join(told: Told, pasts: impl Iterator<Item = Told>) -> Told {
    let (mut events, mut steps) = (told.events, BTreeMap::new());
    let mut add = |samples: Vec<Vec<u64>>| {
        for sample in samples {
            let Some(step) = sample.first().copied() else { continue };
            steps.entry(step).or_insert(sample);
        }
    };
    add(told.samples);
    for past in pasts {
        add(past.samples);
        let is_new = |event: &Event| {
            !events.iter().any(|known| (known.time_ms, known.kind) == (event.time_ms, event.kind))
        };
        let new: Vec<Event> = past.events.into_iter().filter(is_new).collect();
        events.extend(new);
    }
    let skipped = steps.len().saturating_sub(SAMPLES_MAX);
    Told { samples: steps.into_values().skip(skipped).collect(), events, ..told }
}

/// The sum, step by step; this node is in step `now`. Histories of another kind, from another release, are left out,
/// and those of clocks that run ahead: what is said of the future would take the place of the past.
fn sum(now: u64, all: impl Iterator<Item = Told>) -> Told {
    let mut sum = Told::nothing(Vec::new());
    let mut steps: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut ends = Vec::new();
    for told in all.filter(Told::is_known) {
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
    use super::*;
    use crate::node::history::History;
    use crate::node::history::sample::Totals;

    fn told(name: &str, steps: std::ops::RangeInclusive<u64>, each: u64, us: u64) -> Told {
        let history = History::default();
        let requests = |step| vec![us; step as usize];
        for (number, step) in (*steps.start() - 1..=*steps.end()).enumerate() {
            history.note(step, Totals::example(each * number as u64, &requests(number as u64)));
        }
        history.tell(name, None)
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
    fn what_others_keep_is_the_past_of_one_that_was_started_again() {
        let own = told("n2", 30..=32, 5, 1);
        let pasts = [told("n2", 10..=14, 1, 1), told("n2", 12..=15, 1, 1), told("n2", 29..=31, 1, 1)];
        let joined = join(own.clone(), pasts.clone().into_iter());
        let steps: Vec<u64> = joined.samples.iter().map(|sample| sample[0]).collect();
        assert_eq!(steps, [10, 11, 12, 13, 14, 15, 29, 30, 31, 32]);
        assert!(joined.samples[7..].iter().all(|sample| sample[1] == 5), "it knows best itself");
        assert_eq!(join(Told::nothing(own.nodes), pasts.into_iter()).samples.len(), 9);
    }

    #[test]
    fn others_are_asked_of_those_that_tell_nothing_or_began_late() {
        let all = [("n1", 10..=20), ("n2", 12..=20), ("n3", 15..=20), ("n4", 18..=20)];
        let told = all.map(|(name, steps)| (name.to_owned(), told(name, steps, 1, 1))).into();
        let members = ["n1", "n2", "n3", "n4", "n5"].into_iter();
        assert_eq!(incomplete(&told, members), ["n5", "n4", "n3"]);
        assert!(incomplete(&told, ["n1", "n2"].into_iter()).is_empty());
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
