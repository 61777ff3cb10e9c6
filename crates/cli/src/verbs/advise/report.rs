//! An advice, for people and for programs.

use std::fmt;

use cards_admin::{Measured, Sampled};
use cards_advise::{Doubt, Rate};
use cards_config::size;
use cards_policies::Replacement;
use serde::Serialize;

use super::as_it_is;
use super::study::{FACTORS, Found};
use super::trace::{Shares, Trace};
use crate::table::{Align, Table, count};

/// A saving below this share of the disk reads is within the error of the estimate.
const SAVING_MIN: f64 = 0.02;
/// With a larger error, or with more reads unknown, the advice says that it is a guess.
const ERROR_MAX: f64 = 0.02;
/// With a larger error, or with more reads unknown, there is no table and no advice.
const ERROR_USELESS: f64 = 0.2;
const UNKNOWN_USELESS: f64 = 0.5;
/// What W-TinyLFU is off in a cache that is scaled down, since it holds the blocks that want in against one that might go out, which
/// in a small cache changes sooner; and 2Q with a sample that has forgotten references, since uses of a new block do not count.
const BIAS: f64 = 0.02;
/// Reads in the sample of a node that more reads do not add to: older ones go.
const SAMPLED_MAX: f64 = 100_000.0;
/// If more of the reads hit than predicted by so much, something else than the caches is at work.
const SURPRISE: f64 = 0.1;

/// What `--json` prints, and people read.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Advice {
    pub(super) volume: String,
    /// The node that was asked.
    pub(super) node: String,
    pub(super) policy: String,
    pub(super) replacement: &'static str,
    /// Bytes.
    pub(super) block: u32,
    /// This node's cache by itself; none if its clients have read nothing.
    pub(super) own: Option<Part>,
    /// The caches of all nodes; none if there is only one.
    pub(super) cluster: Option<Part>,
    /// Bytes of one LRU cache at this node, and the share of reads that hit.
    pub(super) curve: Vec<(u64, f64)>,
    /// References that no sample has, because they came too fast.
    pub(super) lost: u64,
    /// Why nodes are not in it.
    pub(super) silent: Vec<String>,
}

/// What was found for one node, or for all.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Part {
    nodes: usize,
    /// Bytes that the caches have for the volume.
    cache: u64,
    /// Bytes of the whole caches.
    capacity: u64,
    /// Block reads that the sample stands for.
    reads: u64,
    /// Seconds in which they were made.
    seconds: f64,
    /// One block in so many is in the sample.
    sample: u64,
    /// Reads in the sample, and the blocks that they read.
    sampled_reads: usize,
    sampled_blocks: usize,
    /// Shares of now are not off by more, nineteen times of twenty.
    error: f64,
    /// The share of the reads that were the first of their blocks, before the caches were full. Some might have hit had the
    /// sample begun earlier.
    unknown: f64,
    /// Seconds after which there will be reads enough; none if there are, or never will be.
    wait: Option<f64>,
    /// None if it is not known what was counted in that time.
    pub(super) measured: Option<Shares>,
    /// Other sizes of the caches.
    sizes: Vec<Size>,
    /// Other policies; none where one node is alone.
    policies: Vec<Other>,
    /// Other replacements.
    replacements: Vec<Other>,
}

/// A size of the caches.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Size {
    factor: f64,
    /// Bytes of all caches together.
    cache: u64,
    #[serde(flatten)]
    shares: Shares,
    /// The share of the disk reads (of what one node by itself misses) that would be saved, as [`saving`] has it.
    saved: Option<f64>,
    /// As those of a [`Part`].
    error: f64,
    unknown: f64,
}

/// Another policy, or another replacement.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Other {
    name: String,
    #[serde(flatten)]
    shares: Shares,
    saved: Option<f64>,
    error: f64,
}

/// The share of the reads that `now` misses which `then` would not; negative if it misses more. None if the error is more
/// than half of the reads that are missed: then the quotient of the two says nothing.
fn saving(now: Shares, then: Shares, error: f64) -> Option<f64> {
    let saved = now.disk - then.disk;
    if saved == 0.0 {
        return Some(0.0);
    }
    (now.disk > 0.0 && error <= now.disk / 2.0).then_some(saved / now.disk)
}

/// Seconds after which there will be reads enough that the error is small, and that the caches are full.
fn wait(trace: &Trace, doubt: Doubt) -> Option<f64> {
    let (span, sampled) = (trace.span.as_secs_f64(), trace.curve.counted() as f64);
    // The error falls with the root of the reads.
    let more = (doubt.error / ERROR_MAX).powi(2).max(if doubt.unknown > ERROR_MAX { 2.0 } else { 1.0 });
    (trace.grows && more > 1.0 && sampled * more <= SAMPLED_MAX).then_some(span * (more - 1.0))
}

impl Part {
    pub(super) fn new(trace: &Trace, block: u32, nodes: &[&Sampled], found: Vec<Found>) -> Self {
        let now = as_it_is(&found).map(|found| found.case.clone());
        let shares_now =
            as_it_is(&found).map_or(Shares { own: 0.0, peers: 0.0, disk: 0.0 }, |found| found.shares);
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(block));
        let doubt = trace.doubt(1.0);
        let chance = as_it_is(&found).and_then(|found| found.chance).unwrap_or(0.0);
        let error_now = doubt.error.max(chance);
        let cache = bytes(trace.cache_blocks());
        let mut part = Self {
            nodes: nodes.len(),
            cache,
            capacity: bytes(nodes.iter().fold(0, |sum, node| sum.saturating_add(node.cache_blocks))),
            reads: trace.reads,
            seconds: trace.span.as_secs_f64(),
            sample: trace.rate.weight(),
            sampled_reads: trace.curve.counted(),
            sampled_blocks: trace.curve.blocks(),
            error: error_now,
            unknown: doubt.unknown,
            wait: wait(trace, doubt),
            measured: trace.counted.map(|all| match (nodes, shares_of(all)) {
                // By itself a node has no peers: what they gave it, it would have missed.
                ([_], all) => Shares { peers: 0.0, disk: all.peers + all.disk, ..all },
                (_, all) => all,
            }),
            sizes: Vec::new(),
            policies: Vec::new(),
            replacements: Vec::new(),
        };
        for (i, Found { case, shares, .. }) in found.into_iter().enumerate() {
            if i < FACTORS.len() {
                let cache = (cache as f64 * case.factor) as u64;
                let Doubt { error, unknown } = trace.doubt(case.factor);
                let error = error.max(chance);
                let saved = saving(shares_now, shares, error.max(error_now));
                part.sizes.push(Size { factor: case.factor, cache, shares, saved, error, unknown });
                continue;
            }
            let biased = match case.replacement {
                Replacement::WTinyLfu | Replacement::WTinyLfu10 | Replacement::WTinyLfuAdaptive => {
                    trace.rate != Rate::ALL
                }
                Replacement::TwoQ => !trace.grows,
                _ => false,
            };
            let error = error_now + if biased { BIAS } else { 0.0 };
            let saved = saving(shares_now, shares, error);
            if now.as_ref().is_some_and(|now| now.policy != case.policy) {
                part.policies.push(Other { name: case.policy, shares, saved, error });
            } else {
                let name = case.replacement.name().into();
                part.replacements.push(Other { name, shares, saved, error });
            }
        }
        let most_first = |a: &Other, b: &Other| a.shares.disk.total_cmp(&b.shares.disk);
        part.policies.sort_by(most_first);
        part.replacements.sort_by(most_first);
        part
    }

    fn now(&self) -> Option<Shares> {
        self.sizes.iter().find(|size| size.factor == 1.0).map(|size| size.shares)
    }

    fn table(&self, what: &'static str, missed: &'static str) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new(&[
            (what, Align::Left),
            right("cache"),
            right("own"),
            right("peers"),
            right(missed),
            right("saves"),
        ]);
        let cells = |shares: Shares| {
            [shares.own, shares.peers, shares.disk].map(|share| format!("{:.1} %", 100.0 * share))
        };
        let mut row = |name: String, cache: Option<u64>, shares: Shares, saved: Option<f64>| {
            let [own, peers, disk] = cells(shares);
            let peers = if self.nodes > 1 { peers } else { String::new() };
            let saved = saved.map_or_else(String::new, |saved| match saved {
                // A percentage below -100 is hard to read.
                ..-1.0 => format!("x {:.1}", 1.0 - saved),
                saved => format!("{:.0} %", 100.0 * saved),
            });
            table.row([name, cache.map_or_else(String::new, size::human), own, peers, disk, saved]);
        };
        if let Some(measured) = self.measured {
            row("measured".into(), Some(self.cache), measured, None);
        }
        for &Size { factor, cache, shares, saved, .. } in &self.sizes {
            let as_it_is = factor == 1.0;
            let name = if as_it_is { "as it is".into() } else { format!("x {factor}") };
            row(name, Some(cache), shares, saved.filter(|_| !as_it_is));
        }
        for other in &self.policies {
            row(format!("policy {}", other.name), None, other.shares, other.saved);
        }
        for other in &self.replacements {
            row(format!("replacement {}", other.name), None, other.shares, other.saved);
        }
        table
    }

    /// Whether what is known is more than nothing.
    fn is_useful(&self) -> bool {
        self.error <= ERROR_USELESS && self.unknown <= UNKNOWN_USELESS
    }

    /// What must be known before the rest is believed; nothing if that is much.
    fn guess(&self) -> String {
        if self.error <= ERROR_MAX && self.unknown <= ERROR_MAX {
            return String::new();
        }
        let what = if self.is_useful() { "This is a guess" } else { "Too little is known for an advice" };
        let points = |share: f64| format!("{:.1}", 100.0 * share);
        let mut text = format!(
            "{what}: {} of {} are known, and shares can be {} points off.",
            plural(self.sampled_reads as u64, "read"),
            plural(self.sampled_blocks as u64, "block"),
            points(self.error)
        );
        if self.unknown > ERROR_MAX {
            text += &format!(
                " {} % of the reads were the first of their blocks while the cache was not full: a few, or all, will hit.",
                points(self.unknown)
            );
        }
        text += &match self.wait {
            Some(wait) => format!(" Ask again in {}.\n", time(wait.max(1.0))),
            None => " More time will not make it better, unless clients do something else.\n".into(),
        };
        text
    }

    /// One sentence.
    fn sentence(&self, missed: &str) -> String {
        let of_size = |factor: f64| self.sizes.iter().find(|size| size.factor == factor);
        let more: Vec<String> = [1.25, 2.0, 4.0]
            .into_iter()
            .filter_map(|factor| Some((factor, of_size(factor)?.saved?)))
            .map(|(factor, saved)| format!("+{:.0} % {}", (factor - 1.0) * 100.0, percent(saved)))
            .collect();
        let most = of_size(4.0).map_or(Some(0.0), |size| size.saved);
        let where_ = if self.nodes > 1 { "at every node " } else { "" };
        let mut text = match most {
            Some(most) if most < SAVING_MIN => format!(
                "More memory {where_}would save nothing: even four times as much leaves the {missed} as they are"
            ),
            Some(_) => format!("More memory {where_}would save of the {missed}: {}", more.join(", ")),
            None => format!(
                "There are few {missed}, and what would save some of them is not known: the estimate is {:.1} points off",
                100.0 * self.error
            ),
        };
        let is_worth = |other: &&Other| other.saved.is_some_and(|saved| saved >= SAVING_MIN);
        let best = |others: &[Other]| others.first().filter(is_worth).cloned();
        if most.is_none() {
            return text + ".\n";
        }
        text += &match (best(&self.policies), self.policies.is_empty()) {
            (Some(other), _) => format!("; policy {} {}", other.name, percent(other.saved.unwrap_or(0.0))),
            (None, false) => "; no other policy saves anything".into(),
            (None, true) => String::new(),
        };
        text += &match (best(&self.replacements), self.replacements.is_empty()) {
            (Some(other), _) => {
                format!("; replacement {} {}", other.name, percent(other.saved.unwrap_or(0.0)))
            }
            (None, false) => "; no other replacement saves anything".into(),
            (None, true) => String::new(),
        };
        text + ".\n"
    }
}

/// A saving in words.
fn percent(saved: f64) -> String {
    if saved < SAVING_MIN { "nothing".into() } else { format!("{:.0} %", 100.0 * saved) }
}

/// Of some reads, where they were answered.
fn shares_of(all: Measured) -> Shares {
    let share = |blocks: u64| blocks as f64 / all.reads().max(1) as f64;
    let Measured { local_hits, remote_hits, disk_reads } = all;
    Shares { own: share(local_hits), peers: share(remote_hits), disk: share(disk_reads) }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, node, policy, replacement, .. } = self;
        writeln!(f, "volume {volume} at node {node}: policy {policy}, replacement {replacement}")?;
        for part in self.own.iter().chain(&self.cluster) {
            let whose = if part.nodes > 1 { format!("{} nodes", part.nodes) } else { format!("node {node}") };
            let (reads, time) = (count(part.reads), time(part.seconds));
            let sample = match part.sample {
                1 => "all of them known".into(),
                sample => format!("one block in {sample} known"),
            };
            write!(f, "  {whose}: {reads} block reads in {time}, {sample}")?;
            if part.is_useful() {
                write!(f, ", good to {:.1} points", 100.0 * part.error)?;
            }
            let (cache, capacity) = (size::human(part.cache), size::human(part.capacity));
            if part.cache < part.capacity {
                write!(f, "; other volumes leave it {cache} of {capacity}")?;
            }
            writeln!(f)?;
        }
        let (own_misses, what) =
            if self.cluster.is_some() { ("misses", "this node") } else { ("missed", "") };
        if let Some(own) = self.own.as_ref().filter(|own| own.is_useful()) {
            write!(f, "\n{}", own.table(what, own_misses))?;
        }
        if let Some(cluster) = self.cluster.as_ref().filter(|cluster| cluster.is_useful()) {
            write!(f, "\n{}", cluster.table("all nodes", "disk"))?;
        }
        writeln!(f)?;
        let judged = match (&self.cluster, &self.own) {
            (Some(cluster), _) => Some((cluster, "disk reads")),
            (None, own) => own.as_ref().map(|own| (own, "reads that its own cache misses")),
        };
        if let Some((part, missed)) = judged {
            f.write_str(&part.guess())?;
            if part.is_useful() {
                f.write_str(&part.sentence(missed))?;
            }
        }
        self.remarks(f)
    }
}

impl Advice {
    fn remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for reason in &self.silent {
            writeln!(f, "Not in it: {reason}.")?;
        }
        if self.lost > 0 {
            writeln!(
                f,
                "{} references came faster than they were taken, and are missing.",
                count(self.lost)
            )?;
        }
        let surprise = self.cluster.as_ref().or(self.own.as_ref()).is_some_and(|part| {
            part.measured.zip(part.now()).is_some_and(|(measured, now)| now.disk - measured.disk > SURPRISE)
        });
        if surprise {
            writeln!(
                f,
                "Fewer disk reads were measured than predicted: read-ahead hides them from readers, and is not simulated."
            )?;
        }
        Ok(())
    }
}
fn plural(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}
