//! `cards advise`: what a larger cache, or another policy, would bring.

mod popularity;
mod report;
mod study;
#[cfg(test)]
mod tests;
mod trace;

use std::time::Duration;

use cards_admin::Sampled;
use cards_advise::Curve;
use cards_sim::RunError;
use clap::Args;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::{Error, Failure};
use crate::output;
use crate::signals::{self, Signals};
use report::{Advice, Part};
use study::Found;
use trace::{Case, Trace};

/// Say what a larger cache, or another policy, would bring
#[derive(Debug, Args)]
#[command(after_help = "\
The daemon keeps a sample of what clients ask for; it is simulated here with caches of other sizes and
with other policies, which takes some seconds. Samples of all nodes that answer are taken together.
How far it can be off is told with it; with few reads it is called a guess.
docs/reference/advise.md says more.

Examples:
  cards advise data
  cards advise data --json --socket /run/cards/admin.sock")]
pub(crate) struct Advise {
    /// The volume
    #[arg(add = complete::volumes())]
    volume: String,

    /// One JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdviseError {
    /// No client has read the volume.
    #[error(
        "volume {volume:?}: node {node} has seen no reads of it yet; run this where its clients are, when they have worked for a while"
    )]
    Nothing { volume: String, node: String },
    /// The simulation failed.
    #[error("volume {volume:?} cannot be simulated: {source}")]
    Simulation { volume: String, source: RunError },
    /// The daemon has not even told of itself.
    #[error(
        "volume {volume:?}: the daemon's answer names no node, not even its own; restart it if it is of another version than this program, {}",
        env!("CARGO_PKG_VERSION")
    )]
    Nobody { volume: String },
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
}

impl Failure for AdviseError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::Interrupted) { signals::interrupted() } else { 1 }
    }
}

/// How long the nodes may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

impl Advise {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let signals = Signals::block();
        let samples = self.daemon.connect_within(ANSWER_WITHIN)?.samples(&self.volume)?;
        let advice = self.advise(&samples.nodes, &signals)?;
        let silent = samples.silent.into_iter().map(|silent| silent.reason).collect();
        let advice = Advice { silent, ..advice };
        output::print_either(self.json, &advice, || advice.to_string())
    }

    fn advise(&self, nodes: &[Sampled], signals: &Signals) -> Result<Advice, AdviseError> {
        let volume = || self.volume.clone();
        let Some((here, _)) = nodes.split_first() else {
            return Err(AdviseError::Nobody { volume: volume() });
        };
        let nothing = || AdviseError::Nothing { volume: volume(), node: here.node.clone() };
        // Nodes that have nothing to do with the volume keep no copies of its blocks.
        let members: Vec<&Sampled> = nodes.iter().filter(|node| node.attached || node.disk_node).collect();
        let alone = Trace::of(&[here]);
        let all = if members.len() > 1 { Trace::of(&members) } else { None };
        let now = Case { factor: 1.0, policy: here.policy.clone(), replacement: here.replacement };
        let mut studies = Vec::new();
        if let Some(alone) = &alone {
            let by_itself = Case { policy: "rd".into(), ..now.clone() };
            let mut cases = study::cases(&by_itself, 1);
            // With others, it is all caches together that must be judged.
            cases.truncate(if all.is_some() { study::FACTORS.len() } else { cases.len() });
            studies.push((alone, cases));
        }
        if let Some(all) = &all {
            studies.push((all, study::cases(&now, members.len())));
        }
        if studies.is_empty() {
            return Err(nothing());
        }
        let mut found = study::run(&studies, signals).map_err(|source| match source {
            RunError::Stopped => AdviseError::Interrupted,
            source => AdviseError::Simulation { volume: volume(), source },
        })?;
        let cluster = all.as_ref().and_then(|all| Some(Part::new(all, here.block, &members, found.pop()?)));
        let own = alone.as_ref().and_then(|alone| Some(Part::new(alone, here.block, &[here], found.pop()?)));
        Ok(Advice {
            volume: volume(),
            node: here.node.clone(),
            policy: here.policy.clone(),
            replacement: here.replacement.name(),
            block: here.block,
            own,
            cluster,
            curve: curve(here),
            lost: nodes.iter().map(|node| node.lost).sum(),
            silent: Vec::new(),
        })
    }
}

/// Points of the curve for one LRU cache: bytes and share of reads that hit, from an eighth of this node's cache to
/// eight times of it.
fn curve(here: &Sampled) -> Vec<(u64, f64)> {
    let curve = Curve::of(&here.sample);
    let sizes =
        (0..=24).map(|step| (here.share_blocks as f64 * 2f64.powf(f64::from(step - 12) / 4.0)) as u64);
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(here.block));
    sizes.filter_map(|blocks| Some((bytes(blocks), curve.hit_ratio(blocks)?))).collect()
}

/// Of the results, that with the sizes there are and nothing else changed.
fn as_it_is(found: &[Found]) -> Option<&Found> {
    found.iter().find(|found| found.case.factor == 1.0)
}
