//! From options to combinations, checked before anything long runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use cards_config::size;
use cards_core::NodeId;
use cards_policies::Replacement;
use cards_policies::policy::{self, Arguments, Entry};
use cards_policies::read_ahead::Window;
use cards_policies::replacement::GhostKind;
use cards_sim::{Combination, Library, Machine, Setup, SetupError, Survey, WarmUp, Workload};
use cards_trace::{Beyond, Spread};
use cards_user_policy::Choice;

use super::error::{self, SimError};
use super::options::Options;
use super::parse::{self, Cache, list};

/// What `--cache` can be of a cluster.
const CACHES: &str = "one size for all nodes, or one for each";
/// Combinations of one study at most.
const COMBINATIONS_MAX: usize = 100_000;

/// A study whose options are understood.
#[derive(Debug)]
pub(super) struct Plan {
    options: Options,
    workloads: Vec<Arc<Workload>>,
    machines: Vec<Machine>,
    nodes: Vec<Option<u16>>,
    blocks: Vec<Option<u32>>,
    replacements: Vec<(Replacement, GhostKind)>,
    policies: Vec<Choice>,
    caches: Vec<Option<Cache>>,
    seeds: Vec<u64>,
    warm_up: WarmUp,
    /// All but what is in the lists.
    rest: Setup,
}

/// A trace that must be read before, with the size of the blocks to count if they matter.
pub(super) type ToSurvey = (Arc<Workload>, Option<u32>);
/// What has been found in it.
pub(super) type Surveyed = (ToSurvey, Survey);

impl Plan {
    pub(super) fn new(options: &Options, library: &Library) -> Result<Self, SimError> {
        if options.trace.is_empty() {
            return Err(SimError::NoTrace);
        }
        let reading = options.reading.options()?;
        let spread: Spread = options.spread.as_deref().map_or(Ok(Spread::AsIs), str::parse)?;
        let beyond = if options.fold { Beyond::Fold } else { Beyond::Refuse };
        let workload =
            |name: &String| Arc::new(Workload { name: name.clone(), options: reading, spread, beyond });
        let default_machine = library.find("lan25")?.clone();
        let machine = |name: &str| Ok(library.find(name)?.clone());
        let nodes_max = NodeId::MAX_NODES as u16;
        let nodes = |text: &str| parse::count("nodes", text, nodes_max).map(Some);
        let block = |text: &str| parse::block("block", text, 512).map(Some);
        let policy_of = |text: &str| {
            // As published. Nodes, which must answer soon, search among 64 blocks.
            let searches_all = |(entry, arguments): (&Entry, Arguments<'_>)| {
                entry.name == "nchance" && !arguments.gives("search")
            };
            let is_file = Choice::is_file(text);
            let more = !is_file && searches_all(policy::parse(text).map_err(SetupError::from)?);
            Ok(Choice::new(&format!("{text}{}", if more { " search=all" } else { "" }))?)
        };
        let policies = match options.policy.is_empty() {
            true => ["rd", "hscc"].into_iter().map(policy_of).collect::<Result<_, _>>()?,
            false => list("policy", &options.policy, policy_of("rd")?, policy_of)?,
        };
        let mut rest = Setup::new(default_machine.clone(), "rd");
        rest.timing = parse::timing(options.timing.as_ref())?;
        rest.coherence = parse::coherence(options.coherence.as_ref())?;
        rest.network_attached = parse::network_attached(options.attached.as_ref())?;
        rest.placement = parse::placement(options.placement.as_ref())?;
        if let Some(text) = &options.disk_nodes {
            rest.disk_nodes = parse::count("disk-nodes", text, nodes_max)?;
        }
        if let Some(text) = &options.shards {
            rest.shards = parse::count("shards", text, 256)?;
        }
        parse::read_ahead(options.read_ahead.as_ref(), 0)?;
        let plan = Self {
            workloads: options.trace.iter().map(workload).collect(),
            machines: list("machine", &options.machine, default_machine, machine)?,
            nodes: list("nodes", &options.nodes, None, nodes)?,
            blocks: list("block", &options.block, None, block)?,
            replacements: list(
                "replacement",
                &options.replacement,
                (Replacement::Lru, GhostKind::Hashed),
                parse::replacement,
            )?,
            policies,
            caches: list("cache", &options.cache, None, |text| parse::cache(text).map(Some))?,
            seeds: list("seed", &options.seed, 1, parse::seed)?,
            warm_up: options.warmup.as_deref().map_or(Ok(WarmUp::Requests(0)), parse::warm_up)?,
            rest,
            options: options.clone(),
        };
        plan.check()?;
        Ok(plan)
    }

    /// Finds what is wrong without reading a trace to its end.
    fn check(&self) -> Result<(), SimError> {
        let lengths = [
            self.workloads.len(),
            self.machines.len(),
            self.nodes.len(),
            self.blocks.len(),
            self.replacements.len(),
            self.policies.len(),
            self.caches.len(),
            self.seeds.len(),
        ];
        let count = lengths.into_iter().fold(1, usize::saturating_mul);
        if count > COMBINATIONS_MAX {
            return Err(SimError::TooMany { count, max: COMBINATIONS_MAX });
        }
        let (mut systems, mut opened) = (BTreeSet::new(), BTreeSet::new());
        for Combination { setup, workload } in self.combinations(&[])? {
            setup.check()?;
            let system = (setup.machine.name.clone(), setup.nodes, setup.block_bytes, setup.policy.clone());
            if systems.insert(system) {
                Combination { setup: setup.clone(), workload: workload.clone() }.check()?;
            }
            if opened.insert((workload.name.clone(), setup.nodes)) {
                let source = match workload.open(setup.nodes) {
                    Ok(source) => source,
                    Err(error) if error::is_option(&error) => return Err(error.into()),
                    // Its runs say so; those with other traces are done.
                    Err(_) => continue,
                };
                if matches!(setup.warm_up, WarmUp::Time(_)) && !source.has_times() {
                    let value = self.options.warmup.as_deref().unwrap_or_default();
                    let problem = format!(
                        "{} has no times: give a number of requests (100000) or a share (30%)",
                        workload.name
                    );
                    return Err(SimError::value("warmup", value, problem));
                }
            }
        }
        Ok(())
    }

    /// The traces that must be read before the combinations are known.
    pub(super) fn to_survey(&self) -> Vec<ToSurvey> {
        let shares = self.caches.iter().any(|cache| matches!(cache, Some(Cache::Share(_))));
        let mut blocks: Vec<Option<u32>> = Vec::new();
        for machine in self.machines.iter().filter(|_| shares) {
            for block in &self.blocks {
                let block = Some(block.unwrap_or(machine.block_bytes));
                if !blocks.contains(&block) {
                    blocks.push(block);
                }
            }
        }
        if blocks.is_empty() && self.workloads.iter().any(|workload| workload.names_nodes()) {
            blocks.push(None);
        }
        let each = |workload: &Arc<Workload>| {
            blocks.iter().map(|&block| (workload.clone(), block)).collect::<Vec<_>>()
        };
        self.workloads.iter().flat_map(each).collect()
    }

    /// Everything to run, in the order of the rows. Without surveys, shares of footprints are stood in for.
    pub(super) fn combinations(&self, surveys: &[Surveyed]) -> Result<Vec<Combination>, SimError> {
        let mut all = Vec::new();
        for workload in &self.workloads {
            for machine in &self.machines {
                for &nodes in &self.nodes {
                    let nodes = nodes.unwrap_or(machine.nodes);
                    check_nodes(workload, nodes, surveys)?;
                    for &block in &self.blocks {
                        let base = self.base(machine, nodes, block.unwrap_or(machine.block_bytes));
                        self.add(&base, workload, surveys, &mut all)?;
                    }
                }
            }
        }
        Ok(all)
    }

    fn base(&self, machine: &Machine, nodes: u16, block_bytes: u32) -> Setup {
        Setup { machine: machine.clone(), nodes, block_bytes, warm_up: self.warm_up, ..self.rest.clone() }
    }

    /// The combinations of one trace on one cluster.
    fn add(
        &self,
        base: &Setup,
        workload: &Arc<Workload>,
        surveys: &[Surveyed],
        all: &mut Vec<Combination>,
    ) -> Result<(), SimError> {
        for &(replacement, ghosts) in &self.replacements {
            for policy in &self.policies {
                for cache in &self.caches {
                    let cache_blocks = cache_blocks(cache.as_ref(), base, workload, surveys)?;
                    let read_ahead = self.read_ahead(&cache_blocks, base.block_bytes)?;
                    for &seed in &self.seeds {
                        let setup = Setup {
                            policy: policy.text().to_owned(),
                            module: policy.module().cloned(),
                            replacement,
                            ghosts,
                            cache_blocks: cache_blocks.clone(),
                            read_ahead,
                            seed,
                            ..base.clone()
                        };
                        all.push(Combination { setup, workload: workload.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    fn read_ahead(&self, cache_blocks: &[u32], block_bytes: u32) -> Result<Window, SimError> {
        let least = cache_blocks.iter().min().copied().unwrap_or(0);
        parse::read_ahead(self.options.read_ahead.as_ref(), u64::from(least) * u64::from(block_bytes))
    }

    /// What holds for all runs and is not in the reports, for the heading of the table.
    pub(super) fn remarks(&self) -> Vec<String> {
        let Options { timing, spread, warmup, disk_nodes, shards, coherence, attached, read_ahead, .. } =
            &self.options;
        let named = [
            ("warm-up", warmup),
            ("timing", timing),
            ("spread", spread),
            ("disk nodes", disk_nodes),
            ("shards", shards),
            ("coherence", coherence),
            ("attached", attached),
            ("read-ahead", read_ahead),
        ];
        let given = named.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)));
        let differ = match self.caches.as_slice() {
            [None] => self.machines.iter().any(|machine| machine.cache_bytes.len() > 1),
            caches => {
                caches.iter().any(|cache| matches!(cache, Some(Cache::Bytes(bytes)) if bytes.len() > 1))
            }
        };
        given.chain(differ.then(|| "cache shown of node 0 (they differ)".to_owned())).collect()
    }
}

fn check_nodes(workload: &Workload, nodes: u16, surveys: &[Surveyed]) -> Result<(), SimError> {
    let Some(survey) = survey_of(workload, None, surveys).filter(|_| workload.names_nodes()) else {
        return Ok(());
    };
    if survey.nodes > u32::from(nodes) {
        let trace = workload.name.clone();
        return Err(SimError::Nodes { trace, nodes, needed: survey.nodes });
    }
    Ok(())
}

/// The survey of a trace, with its footprint in blocks of a size if one is given.
fn survey_of<'a>(workload: &Workload, block: Option<u32>, surveys: &'a [Surveyed]) -> Option<&'a Survey> {
    let fits = |(known, size): &ToSurvey| known.name == workload.name && (block.is_none() || *size == block);
    surveys.iter().find(|(key, _)| fits(key)).map(|(_, survey)| survey)
}

fn cache_blocks(
    cache: Option<&Cache>,
    base: &Setup,
    workload: &Workload,
    surveys: &[Surveyed],
) -> Result<Vec<u32>, SimError> {
    let block = u64::from(base.block_bytes);
    let bytes = match cache {
        None => {
            let mut bytes = base.machine.cache_bytes.clone();
            bytes.truncate(usize::from(base.nodes));
            bytes
        }
        Some(Cache::Bytes(bytes)) if bytes.len() > 1 && bytes.len() != usize::from(base.nodes) => {
            let value = format!("{} sizes for {} nodes", bytes.len(), base.nodes);
            return Err(SetupError::Bad { parameter: "cache", value, want: CACHES }.into());
        }
        Some(Cache::Bytes(bytes)) => bytes.clone(),
        Some(Cache::Share(share)) => {
            let survey = survey_of(workload, Some(base.block_bytes), surveys);
            let footprint = survey.and_then(|survey| survey.footprint_bytes).unwrap_or(u64::MAX);
            let of_footprint =
                (footprint as f64 * share / block as f64).round().clamp(1.0, 65_536.0 * 65_535.0);
            return Ok(vec![if footprint == u64::MAX { 64 } else { of_footprint as u32 }]);
        }
    };
    if let Some(small) = bytes.iter().find(|&&bytes| bytes < block) {
        let problem = format!(
            "smaller than a block of {}: give at least {}, or a smaller --block",
            size::human(block),
            size::exact(block)
        );
        return Err(SimError::value("cache", &size::exact(*small), problem));
    }
    let blocks = |bytes: u64| {
        u32::try_from(bytes / block).map_err(|_| {
            let problem = format!("more than {} blocks: give less, or a larger --block", u32::MAX);
            SimError::value("cache", &size::exact(bytes), problem)
        })
    };
    bytes.into_iter().map(blocks).collect()
}
