//! `auto`: this node chooses the policies of volumes that have it as theirs, and whose primary is here.
//!
//! A chooser ([`cards_chooser`]) is fed with what the samples of all nodes have got since the last time, and with the times that their
//! reads took. It takes at most a hundredth of a processor: after each round it rests for a hundred times as long as that took. What it
//! comes to is told to all nodes as what a person sets is ([`crate::policies`]), and kept with it: a node that becomes the primary, or is
//! started again, goes on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant as Wall};

use cards_admin::{self as admin, Refusal};
use cards_advise::{Access, Rate, Reference, Sample};
use cards_chooser::{Chooser, Classes, Cluster, Costs, rate};
use cards_config::replacement;
use cards_core::{Coherence, Instant, NodeId, Origin, PlacementKind, Stats, VolumeSpec};
use cards_policies::policy::is_auto;
use cards_policies::{Replacement, policy};
use cards_probe::ReadTimes;
use serde::{Deserialize, Serialize};

use crate::alarm::Alarm;
use crate::inquiry::{self, Question};
use crate::node::Node;
use crate::node::policies::{Chosen, InForce, VOLUMES_MAX};
use crate::policies;
use crate::sampling;

/// Time between two rounds, at least.
const ROUND: Duration = Duration::from_secs(2);
/// The same while no volume here has `auto`, or none is read: an idle daemon is woken by little.
const IDLE: Duration = Duration::from_secs(5);
/// While nothing has been read, and this node has done nothing for anybody, the others are not asked for so long.
const QUIET: Duration = Duration::from_secs(60);
/// A round is followed by so many times as much rest.
const REST: u32 = 100;
/// References that a node tells in a round at most, the last ones.
const REFERENCES_MAX: usize = 8192;
/// The same of all nodes together.
const ALL_MAX: usize = 65_536;
/// Nodes that are asked at a time.
const AT_ONCE: usize = 128;
/// The candidates' tables take at most one part in so many of this node's cache, and at most so many bytes if that is more.
const PART: u64 = 100;
const BYTES_MIN: u64 = 4 << 20;
/// What a block in a candidate's cache takes.
const BLOCK_BYTES: u64 = 350;
/// Blocks that the sample leaves of the smallest cache, whatever its tables take.
const BLOCKS_MIN: u64 = 16;

/// What a node tells the chooser of a volume.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Whether it may cache blocks of the volume.
    takes_part: bool,
    network_attached: bool,
    #[serde(with = "replacement")]
    replacement: Replacement,
    /// Blocks that its cache has for the volume.
    share_blocks: u64,
    /// Since its process has begun.
    times: ReadTimes,
    sample: Sample,
}

/// What this node's clients have asked of a volume since a time of this node's clock.
///
/// # Errors
/// There is no such volume.
pub(crate) fn tell(
    node: &Node,
    volume: &str,
    since_us: u64,
    rate: Rate,
    most: usize,
) -> Result<Told, Refusal> {
    let spec = node.volume(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
    node.probe.collect_samples(node.clock.now_and_utc_us());
    let attached = node.cards.find(volume).is_some_and(|card| card.attach.volume == volume);
    Ok(Told {
        takes_part: attached || node.primary(spec.id) == Some(node.me),
        network_attached: spec.network_attached,
        replacement: node.config.replacement,
        share_blocks: sampling::share_blocks(node, volume),
        times: node.probe.read_times(spec.id),
        sample: node.probe.references_since(spec.id, since_us, rate, most.min(REFERENCES_MAX)),
    })
}

/// Chooses, as long as this node runs; never ends.
pub(crate) async fn run(node: &Arc<Node>) {
    let mut running: BTreeMap<String, Running> = BTreeMap::new();
    let mut silence: Option<Silence> = None;
    let alarm = Alarm::new();
    loop {
        forget_old(node).await;
        let volumes = chosen_here(node);
        running.retain(|volume, _| volumes.contains_key(volume));
        said(node, |said| said.retain(|volume, _| volumes.contains_key(volume)));
        let now = Silence::of(node, &volumes);
        if volumes.is_empty() || silence.as_ref().is_some_and(|silence| silence.lasts(&now)) {
            alarm.sleep(IDLE).await;
            continue;
        }
        let mut worked = Duration::ZERO;
        let mut is_used = false;
        for (volume, spec) in volumes {
            let round = round(node, &volume, &spec, running.remove(&volume)).await;
            worked += round.spent;
            is_used |= round.is_used;
            running.extend(round.running.map(|one| (volume, one)));
        }
        silence = (!is_used).then_some(now);
        let pause = if is_used { ROUND } else { IDLE };
        alarm.sleep(pause.max(worked * REST)).await;
    }
}

/// A round in which no node had anything to tell.
struct Silence {
    began: Wall,
    /// Volumes that were asked about.
    volumes: BTreeSet<String>,
    /// Blocks that this node has read or sent, for whomever.
    blocks: u64,
}

impl Silence {
    fn of(node: &Node, volumes: &BTreeMap<String, VolumeSpec>) -> Self {
        let Stats { reads, served, served_from_disk, .. } = node.stats();
        let blocks = reads + served + served_from_disk;
        Self { began: Wall::now(), volumes: volumes.keys().cloned().collect(), blocks }
    }

    /// There is no reason to ask again.
    fn lasts(&self, now: &Self) -> bool {
        let is_same = self.volumes == now.volumes && self.blocks == now.blocks;
        is_same && now.began.duration_since(self.began) < QUIET
    }
}

/// The volumes that have `auto` as their policy, and whose primary is here.
fn chosen_here(node: &Node) -> BTreeMap<String, VolumeSpec> {
    let table = node.policies.table();
    let names: BTreeSet<String> = node
        .control()
        .volumes()
        .cloned()
        .collect::<Vec<_>>()
        .iter()
        .map(|spec| node.volume_name(spec))
        .collect();
    let is_chosen = |name: &String| {
        let spec = node.volume(name).filter(|spec| node.primary(spec.id) == Some(node.me))?;
        let entry = table.volumes.get(name);
        let policy = entry.and_then(|entry| entry.policy.as_deref()).unwrap_or(&spec.policy);
        let may = spec.read_only || spec.coherence != Coherence::Policy;
        let has_room = entry.is_some() || table.volumes.len() < VOLUMES_MAX;
        (is_auto(policy) && may && has_room).then(|| (name.clone(), spec))
    };
    names.iter().filter_map(is_chosen).collect()
}

/// What `auto` has come to means nothing for a volume that was made anew with another policy.
async fn forget_old(node: &Arc<Node>) {
    let table = node.policies.table();
    let is_old = |(name, entry): &(&String, &Chosen)| {
        let spec = node.volume(name).filter(|spec| node.primary(spec.id) == Some(node.me));
        entry.policy.is_none()
            && entry.in_force().is_some()
            && spec.is_some_and(|spec| !is_auto(&spec.policy))
    };
    for (name, _) in table.volumes.iter().filter(is_old) {
        if let Err(refusal) = policies::choose(node, name.clone(), None).await {
            tracing::warn!(volume = name, "{refusal}");
        }
    }
}

fn said(node: &Node, change: impl FnOnce(&mut BTreeMap<String, admin::Chooser>)) {
    change(&mut node.policies.choosers.lock().unwrap_or_else(PoisonError::into_inner));
}

/// The chooser of a volume, and what it has heard.
struct Running {
    chooser: Chooser,
    /// What it was made for; anything else needs another one.
    cluster: Cluster,
    rate: Rate,
    /// By number, the disk's node first: the simulated nodes, in order.
    nodes: Vec<NodeId>,
    /// The last reference of each, by its clock.
    heard: BTreeMap<NodeId, u64>,
    times: BTreeMap<NodeId, ReadTimes>,
    classes: Classes,
    /// More was asked for than a node tells in a round.
    crowded: bool,
    began: Wall,
    worked: Duration,
}

/// What a round has come to.
#[derive(Default)]
struct Round {
    running: Option<Running>,
    /// Of a processor.
    spent: Duration,
    /// There was something new to choose by.
    is_used: bool,
}

/// Hears what is new, and chooses.
async fn round(node: &Arc<Node>, volume: &str, spec: &VolumeSpec, before: Option<Running>) -> Round {
    let told = hear(node, volume, before.as_ref()).await;
    let is_used = told.iter().any(|(_, told)| !told.sample.references.is_empty());
    let at = Wall::now();
    let own_cache = node.config.cache;
    let chosen = node.policies.table().volumes.get(volume).and_then(|entry| entry.in_force().cloned());
    let chosen = chosen.map(|in_force| in_force.policy);
    let (spec, me) = (spec.clone(), node.me);
    let work = move || {
        let mut running = Running::fit(before, &told, (&spec, me), own_cache, chosen.as_deref())?;
        running.feed(told);
        Some(running)
    };
    let Ok(running) = tokio::task::spawn_blocking(work).await else { return Round::default() };
    let spent = at.elapsed();
    let Some(mut running) = running else {
        let state =
            "no node but that of the disk has the volume: no policy has anything to decide".to_owned();
        said(node, |said| {
            _ = said.insert(volume.to_owned(), admin::Chooser { state, ..admin::Chooser::default() })
        });
        return Round { spent, ..Round::default() };
    };
    running.worked += spent;
    let words = running.says();
    said(node, |said| _ = said.insert(volume.to_owned(), words));
    if let Err(refusal) = running.enforce(node, volume).await {
        tracing::warn!(volume, "{refusal}");
    }
    Round { running: Some(running), spent, is_used }
}

/// What is new, by node. A node that does not answer is left out.
async fn hear(node: &Arc<Node>, volume: &str, before: Option<&Running>) -> Vec<(NodeId, Told)> {
    let peers: Vec<NodeId> = {
        let members = node.members();
        members.live().map(|(peer, _)| peer).collect()
    };
    let most = most(peers.len());
    let rate = before.map_or(Rate::ALL, |running| running.rate);
    let mut told: Vec<(NodeId, Told)> = Vec::new();
    for peers in peers.chunks(AT_ONCE) {
        let mut asking = tokio::task::JoinSet::new();
        for &peer in peers {
            let since_us = before.and_then(|running| running.heard.get(&peer)).copied().unwrap_or(0);
            let question = Question::References { volume: volume.into(), since_us, rate, most };
            let node = Arc::clone(node);
            asking
                .spawn(async move { Some((peer, inquiry::ask::<Told>(&node, peer, &question).await.ok()?)) });
        }
        // Only the end of the runtime ends a task early.
        while let Some(answer) = asking.join_next().await {
            told.extend(answer.ok().flatten());
        }
    }
    told.retain(|(_, told)| told.takes_part);
    told.sort_by_key(|(peer, _)| *peer);
    told
}

/// References that each of so many nodes tells in a round at most.
fn most(nodes: usize) -> usize {
    (ALL_MAX / nodes.max(1)).min(REFERENCES_MAX)
}

impl Running {
    fn most(&self) -> usize {
        most(self.nodes.len())
    }

    /// The chooser that there is, if it is for these nodes and caches, else a new one. None if there is one node only.
    fn fit(
        before: Option<Self>,
        told: &[(NodeId, Told)],
        (spec, me): (&VolumeSpec, NodeId),
        own_cache: u64,
        chosen: Option<&str>,
    ) -> Option<Self> {
        let mut told: Vec<&(NodeId, Told)> = told.iter().collect();
        told.sort_by_key(|(peer, _)| *peer != me);
        let nodes: Vec<NodeId> = told.iter().map(|(peer, _)| *peer).collect();
        if nodes.len() < 2 || nodes.first() != Some(&me) {
            return None;
        }
        let (_, own) = told.first()?;
        let smallest = told.iter().map(|(_, told)| told.share_blocks).min()?;
        let all: u64 = told.iter().map(|(_, told)| told.share_blocks).sum();
        let most = (own_cache / PART).max(BYTES_MIN);
        let candidates = cards_chooser::CANDIDATES.len() as u64;
        let mut rate = rate(smallest);
        while all / rate.weight() * BLOCK_BYTES * candidates > most
            && smallest / rate.half().weight() >= BLOCKS_MIN
        {
            rate = rate.half();
        }
        // What is left out makes caches look larger than they are; fewer blocks do not.
        if let Some(before) = before.as_ref().filter(|before| before.crowded)
            && smallest / before.rate.half().weight() >= BLOCKS_MIN
        {
            rate = rate.max(before.rate.half());
        }
        let known = told.iter().filter(|(_, told)| !told.sample.is_empty());
        let rate = known.map(|(_, told)| told.sample.rate).fold(rate, Rate::max);
        let before_choice = before.as_ref().filter(|before| before.chooser.reads() > 0);
        let before_choice = before_choice.map(|before| before.chooser.in_force());
        let is_near = |now: u64, then: u64| now <= then.saturating_mul(2) && then <= now.saturating_mul(2);
        let scaled = |told: &Told| (told.share_blocks / rate.weight()).max(1);
        let caches: Vec<u64> = told.iter().map(|(_, told)| scaled(told)).collect();
        let cluster = Cluster {
            caches: caches.iter().map(|&blocks| u32::try_from(blocks).unwrap_or(u32::MAX)).collect(),
            block_bytes: spec.block_bytes,
            replacement: own.replacement,
            network_attached: own.network_attached,
            placement: PlacementKind::Rendezvous,
        };
        if let Some(before) = before
            && before.nodes == nodes
            && before.rate >= rate
            && before.cluster.replacement == cluster.replacement
            && before.cluster.network_attached == cluster.network_attached
            && before.cluster.block_bytes == cluster.block_bytes
            && caches
                .iter()
                .zip(&before.cluster.caches)
                .all(|(&now, &then)| is_near(now * rate.weight(), u64::from(then) * before.rate.weight()))
        {
            return Some(before);
        }
        Some(Self {
            chooser: Chooser::new(&cluster, chosen.or(before_choice)),
            cluster,
            rate,
            nodes,
            heard: BTreeMap::new(),
            times: BTreeMap::new(),
            classes: Classes::default(),
            crowded: false,
            began: Wall::now(),
            worked: Duration::ZERO,
        })
    }

    /// Takes in what nodes have told.
    fn feed(&mut self, told: Vec<(NodeId, Told)>) {
        let mut all: Vec<(u16, Reference)> = Vec::new();
        for (peer, Told { times, mut sample, .. }) in told {
            let Some(number) = (0..).zip(&self.nodes).find(|(_, known)| **known == peer) else { continue };
            let before = self.times.insert(peer, times).unwrap_or_default();
            let ReadTimes { own, remote, disk } = times.since(before);
            for (origin, (reads, ns)) in
                [(Origin::Local, own), (Origin::Remote, remote), (Origin::Disk, disk)]
            {
                self.classes.add(origin, reads, Duration::from_nanos(ns));
            }
            self.crowded |= sample.references.len() >= self.most();
            if let Some(last) = sample.references.last() {
                self.heard.insert(peer, last.time_us);
            }
            sample.thin(self.rate);
            all.extend(sample.references.into_iter().map(|reference| (number.0, reference)));
        }
        all.sort_by_key(|(_, reference)| reference.time_us);
        self.chooser.set_costs(Costs::of(&self.classes));
        for (number, Reference { time_us, block, access, .. }) in all {
            self.chooser.refer(Instant(time_us.saturating_mul(1_000)), number, block, access);
            if access == Access::Read {
                let _ = self.chooser.choose();
            }
        }
    }

    /// What people are told.
    fn says(&self) -> admin::Chooser {
        let reads = self.chooser.reads();
        let state = match self.chooser.has_learned() {
            true => format!("chooses by {reads} reads of one block in {}", self.rate.weight()),
            false => format!("learns: {reads} reads of one block in {} until now", self.rate.weight()),
        };
        let standings = if self.chooser.has_learned() { self.chooser.standings() } else { Vec::new() };
        admin::Chooser {
            state,
            candidates: standings
                .into_iter()
                .map(|standing| (standing.policy.to_owned(), standing.mean.as_nanos() as u64))
                .collect(),
            reads,
            one_in: self.rate.weight(),
            bytes: self.chooser.bytes() as u64,
            load_ppm: (self.worked.as_micros() * 1_000_000
                / self.began.elapsed().max(ROUND).as_micros().max(1)) as u64,
        }
    }

    /// All nodes get what the chooser has come to, if the volume has another policy.
    async fn enforce(&mut self, node: &Arc<Node>, volume: &str) -> Result<(), Refusal> {
        let entry = node.policies.table().volumes.get(volume).cloned().unwrap_or_default();
        let now = entry.in_force().map_or(policy::START, |in_force| &in_force.policy);
        let chosen = self.chooser.in_force();
        if now == chosen {
            return Ok(());
        }
        let mean = |policy: &str| {
            let standings = self.chooser.standings();
            let of = standings.into_iter().find(|standing| standing.policy == policy);
            of.map(|standing| standing.mean.as_nanos() as u64)
        };
        // What it begins with is not chosen by the sample.
        let is_learned = self.chooser.has_learned();
        let expected_ns = mean(now).zip(mean(chosen)).filter(|(was, is)| is_learned && is < was);
        let in_force = InForce {
            of: entry.version,
            version: 0,
            policy: chosen.to_owned(),
            since_us: node.clock.now_and_utc_us().1,
            expected_ns,
            by: node.config.node.clone(),
        };
        policies::put_in_force(node, volume, in_force).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 65_536;

    fn spec() -> VolumeSpec {
        VolumeSpec {
            id: cards_core::PgId::plain(NodeId(1), 0),
            primary: NodeId(1),
            epoch: 0,
            name: "disk".into(),
            size_bytes: 1 << 40,
            block_bytes: 4096,
            policy: "auto".into(),
            read_only: false,
            content: 0,
            network_attached: false,
            coherence: Coherence::Confirmed,
            handover: cards_core::Handover::Cache,
        }
    }

    fn told(node: u16, share_blocks: u64, blocks: std::ops::Range<u32>) -> (NodeId, Told) {
        let reference = |block: u32| Reference {
            time_us: 1_000_000 + u64::from(block),
            block,
            access: Access::Read,
            reads: 1,
            writes: 0,
        };
        let sample =
            Sample { references: blocks.map(reference).collect(), ..Sample::new(spec().id, Rate::ALL) };
        let times = ReadTimes { disk: (10, 20_000_000), ..ReadTimes::default() };
        let told = Told {
            takes_part: true,
            network_attached: false,
            replacement: Replacement::Lru,
            share_blocks,
            times,
            sample,
        };
        (NodeId(node), told)
    }

    fn fit(before: Option<Running>, told: &[(NodeId, Told)]) -> Option<Running> {
        Running::fit(before, told, (&spec(), NodeId(1)), BLOCKS * 4096, Some("rd"))
    }

    #[test]
    fn the_disks_node_is_the_first_and_a_node_alone_has_no_chooser() {
        let running = fit(None, &[told(0, BLOCKS, 0..0), told(1, BLOCKS, 0..0)]).unwrap();
        assert_eq!(running.nodes, [NodeId(1), NodeId(0)]);
        assert_eq!((running.rate.weight(), running.chooser.in_force()), (128, "rd"));
        assert!(fit(None, &[told(1, BLOCKS, 0..0)]).is_none());
        assert!(fit(None, &[told(0, BLOCKS, 0..0), told(2, BLOCKS, 0..0)]).is_none());
    }

    #[test]
    fn many_nodes_make_the_sample_sparser_and_its_tables_stay_small() {
        let all: Vec<_> = (0..50).map(|node| told(node, BLOCKS, 0..0)).collect();
        let running = fit(None, &all).unwrap();
        assert!(running.rate.weight() > 128 && running.cluster.caches.iter().all(|&blocks| blocks >= 16));
    }

    #[test]
    fn it_goes_on_while_nodes_and_caches_are_about_the_same() {
        let first = [told(0, BLOCKS, 0..0), told(1, BLOCKS, 0..1000)];
        let mut running = fit(None, &first).unwrap();
        running.feed(first.into());
        let reads = running.chooser.reads();
        assert!(reads > 0 && running.heard[&NodeId(1)] == 1_000_999);
        let near = [told(0, BLOCKS * 3 / 4, 0..0), told(1, BLOCKS, 0..0)];
        let running = fit(Some(running), &near).unwrap();
        assert_eq!(running.chooser.reads(), reads);
        let more = [told(0, BLOCKS, 0..0), told(1, BLOCKS, 0..0), told(2, BLOCKS, 0..0)];
        assert_eq!(fit(Some(running), &more).unwrap().chooser.reads(), 0, "begins anew");
    }

    #[test]
    fn a_sample_that_is_too_much_for_a_round_is_made_sparser_and_the_choice_stays() {
        let crowd = [told(0, BLOCKS, 0..0), told(1, BLOCKS, 0..REFERENCES_MAX as u32)];
        let mut running = fit(None, &crowd).unwrap();
        let before = running.rate;
        running.feed(crowd.into());
        let next = [told(0, BLOCKS, 0..0), told(1, BLOCKS, 0..0)];
        let running = fit(Some(running), &next).unwrap();
        assert_eq!((running.rate, running.chooser.in_force()), (before.half(), "rd"));
    }

    #[test]
    fn what_it_says_names_the_sample() {
        let first = [told(0, BLOCKS, 0..0), told(1, BLOCKS, 0..1000)];
        let mut running = fit(None, &first).unwrap();
        running.feed(first.into());
        let says = running.says();
        assert!(says.state.starts_with("learns: ") && says.candidates.is_empty() && says.one_in == 128);
    }
}
