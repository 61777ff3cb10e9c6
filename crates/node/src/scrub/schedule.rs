//! Scrubs that begin by themselves: of the volumes on this node's managed disks, and of the groups of copies that it leads, one after the
//! other, each once in `scrub_every`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_admin::{Refusal, ScrubState, Scrubbed};
use cards_array::group::State;
use cards_config::size::human;
use cards_core::PgId;

use crate::inquiry::{Question, ask_members};
use crate::node::Node;
use crate::node::groups::Known;
use crate::node::scrubs::Table;

/// Bytes that are compared at a time: writes of them wait meanwhile.
const STEP: u64 = 256 << 10;
/// Longest time between two looks for what is due.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How far a scrub is, is kept and told this often.
const SAVE: Duration = Duration::from_secs(10);
/// When a part that could not be read, since the volume has no primary for a moment, is asked for again; and how often, before others have their turn.
const WAIT: Duration = Duration::from_secs(1);
const TRIES: u32 = 5;
/// Volumes that one question tells of, so that it fits into a frame.
const TOLD_MAX: usize = 256;

/// What this node has to scrub.
#[derive(Clone, Debug)]
struct Target {
    /// Its name in the table.
    key: String,
    /// What people call it.
    shown: String,
    bytes: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// A volume on one managed disk of this node, of this name.
    Own(String),
    /// A group that this node leads.
    Group(PgId),
}

/// The name of a group in the table.
fn key_of(known: &Known) -> String {
    format!("{}@{}", known.record.name, known.record.uuid)
}

/// Volumes of managed disks alone, with their numbers among the disks.
fn own(node: &Node) -> impl Iterator<Item = (String, usize)> + '_ {
    let disks = node.own.iter().zip(&node.disks).enumerate();
    disks.filter_map(|(number, (spec, disk))| {
        Some((format!("{}@{}", spec.name, disk.managed()?.uuid()), number))
    })
}

/// What this node has to scrub now.
fn targets(node: &Node) -> Vec<Target> {
    let own = own(node).map(|(key, number)| {
        let spec = &node.own[number];
        Target { key, shown: spec.name.clone(), bytes: spec.size_bytes, what: What::Own(spec.name.clone()) }
    });
    let groups = node.groups.all();
    let led = groups.iter().filter(|known| known.ready().is_some_and(|map| map.primary.node == node.me));
    let led = led.map(|known| Target {
        key: key_of(known),
        shown: known.record.described(),
        bytes: known.record.bytes,
        what: What::Group(known.record.pg()),
    });
    own.chain(led).collect()
}

fn now_s(node: &Node) -> u64 {
    node.clock.now_and_utc_us().1 / 1_000_000
}

/// Begins scrubs when they are due; never ends.
pub(crate) async fn run(node: &Arc<Node>) {
    let Some(every) = node.config.scrub_every else { return std::future::pending().await };
    let look = (every / 20).clamp(Duration::from_millis(50), LOOK_MAX);
    let mut led = BTreeSet::new();
    // The scrub that could not go on last: others come first.
    let mut halted: Option<String> = None;
    loop {
        tokio::time::sleep(look).await;
        if node.draining() {
            continue;
        }
        let targets = targets(node);
        // Another node may know more of what this one leads from now on.
        let keys: BTreeSet<String> = targets.iter().map(|target| target.key.clone()).collect();
        let now = now_s(node);
        keys.iter().for_each(|key| _ = node.scrubs.meet(key, now));
        if !keys.is_subset(&led) {
            tell(node, keys.difference(&led)).await;
            save(node);
        }
        led = keys;
        let ready = targets.into_iter().filter(|target| !is_filling(node, target));
        let due = ready.filter_map(|target| {
            let at = node.scrubs.get(&target.key)?.next_s(every).unwrap_or(0);
            (at <= now).then_some((at, target))
        });
        if let Some((_, target)) = due.min_by_key(|(at, target)| (halted.as_ref() == Some(&target.key), *at))
        {
            let is_new = halted.as_ref() != Some(&target.key);
            halted = (!pass(node, &target, is_new).await).then(|| target.key.clone());
            save(node);
            tell(node, [&target.key]).await;
        }
    }
}

/// Scrubs a volume from where the last scrub was interrupted to its end, or as far as it can now. Whether it has come to the end.
async fn pass(node: &Arc<Node>, target: &Target, is_new: bool) -> bool {
    let Target { key, shown, bytes, .. } = target;
    let rate = node.config.scrub_rate;
    let mut done = node.scrubs.get(key).and_then(|record| record.done).unwrap_or(0).min(*bytes);
    node.scrubs.reached(key, done, now_s(node));
    match done {
        0 if is_new => tracing::info!(volume = shown, "its scrub begins: {} to read", human(*bytes)),
        done if is_new => {
            tracing::info!(volume = shown, "its scrub goes on: {} of {} are read", human(done), human(*bytes))
        }
        // It was said before.
        _ => {}
    }
    let (mut saved, mut sum, mut tries) = (Instant::now(), Scrubbed::default(), 0);
    while done < *bytes {
        // A copy that is being filled needs the disks more.
        if node.draining() || !is_there(node, target) || is_filling(node, target) || tries == TRIES {
            return false;
        }
        let began = Instant::now();
        let length = STEP.min(bytes - done);
        match step(node, target, done, length).await {
            Ok(found) => {
                (done, tries) = (done + length, 0);
                sum.damaged += found.damaged;
                sum.repaired += found.repaired;
                node.scrubs.reached(key, done, now_s(node));
                let due = match rate {
                    0 => Duration::ZERO,
                    rate => Duration::from_secs_f64(length as f64 / rate as f64),
                };
                tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            }
            Err(refusal) => {
                tries += 1;
                tracing::debug!(volume = shown, "a scrub waits: {refusal}");
                tokio::time::sleep(WAIT).await;
            }
        }
        if saved.elapsed() >= SAVE {
            saved = Instant::now();
            save(node);
            tell(node, [key]).await;
        }
    }
    node.scrubs.ended(key, now_s(node));
    save(node);
    let damaged = if sum.damaged == 0 { "nothing".to_owned() } else { human(sum.damaged) };
    tracing::info!(
        volume = shown,
        "its scrub has ended: {} read, repaired {}, damaged {damaged}",
        human(*bytes),
        human(sum.repaired)
    );
    true
}

async fn step(node: &Arc<Node>, target: &Target, offset: u64, length: u64) -> Result<Scrubbed, Refusal> {
    match &target.what {
        What::Own(name) => super::part(node, name, offset, length).await,
        What::Group(of) => super::group(node, *of, offset, length).await,
    }
}

/// This node still has to scrub it.
fn is_there(node: &Node, target: &Target) -> bool {
    match target.what {
        What::Own(_) => true,
        What::Group(of) => node.groups.get(of).is_some_and(|known| {
            key_of(&known) == target.key && known.ready().is_some_and(|map| map.primary.node == node.me)
        }),
    }
}

/// A copy is being filled, which needs the disks more.
fn is_filling(node: &Node, target: &Target) -> bool {
    let What::Group(of) = target.what else { return false };
    let known = node.groups.get(of);
    let map = known.as_ref().and_then(|known| known.ready());
    map.is_some_and(|map| map.columns.iter().any(|column| matches!(column.state, State::Fill { .. })))
}

/// Keeps what is known of the volumes that there are.
fn save(node: &Node) {
    let groups = node.groups.all();
    let there: BTreeSet<String> =
        groups.iter().map(|known| key_of(known)).chain(own(node).map(|(key, _)| key)).collect();
    // Before the registry was heard, nothing is known of any group.
    node.scrubs.save(|of| groups.is_empty() || there.contains(of));
}

/// Tells all members what is known of volumes, and takes over what they know better.
async fn tell(node: &Arc<Node>, keys: impl IntoIterator<Item = &String>) {
    let table = node.scrubs.of(keys.into_iter().map(String::as_str));
    let mut rest = table.into_iter().peekable();
    while rest.peek().is_some() {
        let table: Table = rest.by_ref().take(TOLD_MAX).collect();
        for (_, answer) in ask_members::<Table>(node, &Question::Scrubs { table }).await {
            // One of an earlier release knows of none, and one that is away hears of it the next time.
            answer.into_iter().for_each(|known| node.scrubs.merge(known));
        }
    }
}

/// Takes over what another node knows; what this one knows of the same volumes then.
pub(crate) fn hear(node: &Node, table: Table) -> Table {
    let keys: Vec<String> = table.keys().cloned().collect();
    node.scrubs.merge(table);
    node.scrubs.of(keys.iter().map(String::as_str))
}

/// When a volume over nodes was scrubbed, as far as this node knows: of several parts the one that was first.
pub(crate) fn shown<'a>(node: &Node, groups: impl Iterator<Item = &'a Known>) -> Option<ScrubState> {
    state(node, groups.map(|known| (key_of(known), known.record.bytes)).collect())
}

/// The same of a volume on one managed disk of this node.
pub(crate) fn shown_own(node: &Node, volume: &str) -> Option<ScrubState> {
    let (key, number) = own(node).find(|(_, number)| node.own[*number].name == volume)?;
    state(node, vec![(key, node.own[number].size_bytes)])
}

fn state(node: &Node, parts: Vec<(String, u64)>) -> Option<ScrubState> {
    let every = node.config.scrub_every;
    let known: Vec<_> = parts.iter().map(|(key, bytes)| (node.scrubs.get(key), *bytes)).collect();
    let records = || known.iter().map(|(record, _)| *record);
    let last_s = records().map(|record| record?.last_s).min().flatten();
    let next_s = every.and_then(|every| records().flatten().filter_map(|record| record.next_s(every)).min());
    let running = || known.iter().filter_map(|(record, bytes)| Some(((*record)?.done?, *bytes)));
    let (done, all) = running().fold((0, 0), |(done, all), (one, bytes)| (done + one, all + bytes));
    let percent = (all > 0 || running().next().is_some()).then(|| (done * 100).checked_div(all).unwrap_or(0));
    (!parts.is_empty()).then_some(ScrubState {
        every_s: every.map(|every| every.as_secs()),
        last_s,
        next_s,
        percent,
    })
}
