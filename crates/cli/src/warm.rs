//! `cards warm` and `cards profile play`: blocks into the caches of nodes before anybody asks for them.
//!
//! | file | noun |
//! |---|---|
//! | `nodes` | the nodes whose caches are filled |
//! | `parts` | the parts of a volume that a command line or a profile names |
//! | `plan` | what each of them is to have, from its own part on |
//! | `fetch` | the threads that ask for it, and the signals that end them |
//! | `bar` | how far they are |
//! | `outcome` | what was fetched, where |

mod bar;
mod fetch;
mod nodes;
mod outcome;
mod parts;
mod plan;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cards_admin::{Client, ClientError, Refusal, RefusalKind, Volume, VolumeState, Warmed};
use cards_config::size;
use clap::Args;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::{Error, Failure};
use crate::output;
use crate::profile::File;
use crate::range;
use crate::signals::Signals;
use fetch::{Fetch, Fetched};
use nodes::{Choice, Target};
pub(crate) use nodes::{LeftOut, Nodes};
use outcome::Outcome;
pub(crate) use parts::parts;
use plan::Plan;

/// Fetch a volume, or parts of it, into the caches of this node or of several
#[derive(Debug, Args)]
#[command(after_help = "\
Blocks come from other nodes' caches where they are, else from the disk. All of the volume unless
--from or --range say less. With --nodes each node begins at another part, so that the disk is read
once; a node that fails is named, and the others go on. Ctrl-C ends it everywhere; what is cached
stays. docs/operating/warm.md says more.

Examples:
  cards warm data
  cards warm data --nodes all
  cards warm data --nodes n2,n3 --rate 500M --json
  cards warm golden --from boot.profile --rate 200M
  cards warm data --range 0+1G --range 40G+512M --json")]
pub(crate) struct Warm {
    /// The volume
    #[arg(value_name = "VOLUME", add = complete::volumes())]
    volume: String,

    /// A profile: what it names, in its order
    #[arg(long, value_name = "PROFILE", conflicts_with = "range")]
    from: Option<PathBuf>,

    /// Only this part, in bytes; can be given several times
    #[arg(long, value_name = range::SYNTAX, value_parser = range::parse)]
    range: Vec<(u64, u64)>,

    #[command(flatten)]
    how: How,
}

/// Fetch what a profile names into the caches of this node or of several, in its order
#[derive(Debug, Args)]
#[command(after_help = "\
The same as `cards warm VOLUME --from FILE`, with the volume that the profile names.

Examples:
  cards profile play boot.profile
  cards profile play boot.profile --rate 200M --json")]
pub(crate) struct Play {
    /// The profile
    #[arg(value_name = "FILE")]
    profile: PathBuf,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// At these nodes: all that have the volume attached, a number of them, or names (n1,n2) [default: this node]
    #[arg(long, value_name = "all|N|LIST", value_parser = Nodes::parse, add = complete::several_nodes())]
    nodes: Option<Nodes>,

    /// Bytes a second at most, of all nodes together [default: as fast as it goes]
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,

    /// Use the profile although it is of another volume, or of another size
    #[arg(long)]
    force: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

/// A volume cannot be warmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WarmError {
    /// The volume ends before.
    #[error("--range {offset}+{length}: volume {volume:?} has {size} bytes; name a part of it")]
    Range { offset: u64, length: u64, volume: String, size: u64 },
    /// Blocks could not be read.
    #[error(
        "volume {volume:?}: {failed} blocks could not be read; see `cards status` at its disk node (`cards volume list`), and try again"
    )]
    Failed { volume: String, failed: u64 },
    /// Not at every node that was to be warmed.
    #[error("volume {volume:?} was warmed at {done} of {wanted} nodes: {}", sentence(missing))]
    Nodes { volume: String, done: usize, wanted: usize, missing: Vec<LeftOut> },
    /// At no node that was meant.
    #[error(
        "volume {volume:?} is attached at none of these nodes{}; run `cards volume attach {volume}` there",
        reasons(missing)
    )]
    Nowhere { volume: String, missing: Vec<LeftOut> },
    /// Not at so many.
    #[error("--nodes {wanted}: volume {volume:?} is attached at {} ({}); attach it at more, or ask for fewer", nodes.len(), nodes.join(", "))]
    TooFew { volume: String, wanted: usize, nodes: Vec<String> },
}

impl Failure for WarmError {}

/// Nodes and their reasons.
pub(crate) fn sentence(nodes: &[LeftOut]) -> String {
    // A reason may name the node itself.
    let one = |LeftOut { node, reason }: &LeftOut| match reason.starts_with(&format!("node {node}")) {
        true => reason.clone(),
        false => format!("node {node}: {reason}"),
    };
    nodes.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn reasons(missing: &[LeftOut]) -> String {
    if missing.is_empty() { String::new() } else { format!(" ({})", sentence(missing)) }
}

/// How long one request may take: a disk may be slow, and others may use it.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

fn rate(text: &str) -> Result<u64, String> {
    match size::parse(text).map_err(|error| error.to_string())? {
        0 => Err("nothing would ever be fetched; give a rate above 0".into()),
        rate => Ok(rate),
    }
}

impl Play {
    pub(crate) fn run(self, cx: &Context) -> Result<ExitCode, Error> {
        let volume = File::open(&self.profile)?.volume;
        Warm { volume, from: Some(self.profile), range: Vec::new(), how: self.how }.run(cx)
    }
}

impl Warm {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let profile = self.from.as_deref().map(File::open).transpose()?;
        let mut client = self.how.daemon.connect_within(ANSWER_WITHIN)?;
        let volume = client.volume(&self.volume)?;
        let Choice { targets, left_out, missing } = match &self.how.nodes {
            Some(nodes) => nodes.choose(&mut client, &self.volume)?,
            None => self.here(&mut client, &volume)?,
        };
        let ranges = parts(&volume, &self.range, profile.zip(self.from.as_deref()), self.how.force)?;
        let plan = Plan::new(ranges, volume.block.into());
        self.warn_of_size(plan.bytes, &targets);
        let (bytes, wanted) =
            (plan.bytes.saturating_mul(targets.len() as u64), targets.len() + missing.len());
        let fetch = Fetch {
            volume: self.volume.clone(),
            block: volume.block.into(),
            plan,
            targets,
            by_name: self.how.nodes.is_some(),
            rate: self.how.rate,
        };
        let socket = self.how.daemon.socket().to_path_buf();
        // Until here nothing is fetched, and a signal ends this program as any other.
        let signals = Signals::block();
        let fetched = fetch.run(&signals, move || Client::connect_within(&socket, ANSWER_WITHIN));
        let Fetched { mut nodes, errors, signal, seconds } = fetched;
        for (node, error) in errors {
            // Without --nodes it is a failure like any other.
            if self.how.nodes.is_none() {
                return Err(error.into());
            }
            nodes[node].error = Some(error.to_string());
        }
        for node in &mut nodes {
            let failed = node.blocks.failed;
            if failed > 0 && node.error.is_none() {
                node.error =
                    Some(format!("{failed} blocks could not be read; see `cards status` at the disk node"));
            }
        }
        // After a signal nobody waits for a daemon that may stand still.
        let cached = match (&self.how.nodes, signal) {
            (None, None) => client.volume(&self.volume).ok().map(|volume| volume.cached_blocks),
            _ => None,
        };
        let silent = missing.into_iter().map(|LeftOut { node, reason }| outcome::NodeOutcome {
            node,
            error: Some(reason),
            ..outcome::NodeOutcome::default()
        });
        nodes.extend(silent);
        let outcome = Outcome {
            volume: self.volume.clone(),
            bytes,
            bytes_done: nodes.iter().map(|node| node.bytes_done).sum(),
            blocks: nodes.iter().fold(Warmed::default(), |sum, node| sum.plus(node.blocks)),
            seconds,
            interrupted: signal.is_some(),
            nodes,
            cached,
            left_out,
        };
        if self.how.json {
            output::print_json(&outcome)?
        } else {
            output::print(&outcome.to_string())?
        }
        let missing = outcome.missing();
        match (signal, outcome.blocks.failed) {
            (Some(signal), _) => Ok(ExitCode::from(128 + signal)),
            (None, failed) if failed > 0 && self.how.nodes.is_none() => {
                Err(WarmError::Failed { volume: self.volume, failed }.into())
            }
            _ if !missing.is_empty() => {
                let done = wanted - missing.len();
                Err(WarmError::Nodes { volume: self.volume, done, wanted, missing }.into())
            }
            (None, 0) => Ok(ExitCode::SUCCESS),
            (None, failed) => Err(WarmError::Failed { volume: self.volume, failed }.into()),
        }
    }

    /// The node that is asked, which must have the volume attached.
    fn here(&self, client: &mut Client, volume: &Volume) -> Result<Choice, ClientError> {
        let refused = |message| Err(Refusal { kind: RefusalKind::NotAttached, message }.into());
        if volume.attached.is_none() {
            return refused(format!(
                "volume {0:?} is not attached here; run `cards volume attach {0}`",
                self.volume
            ));
        }
        if volume.state == VolumeState::Refused {
            let reason = volume.reason.clone();
            return refused(reason.unwrap_or_else(|| format!("volume {:?} is refused here", self.volume)));
        }
        let status = client.status()?;
        let target = Target { node: status.node, cache: status.cache.bytes };
        Ok(Choice { targets: vec![target], ..Choice::default() })
    }

    /// Says so if what comes first will have left a cache when the last comes.
    fn warn_of_size(&self, bytes: u64, targets: &[Target]) {
        let smallest = targets.iter().min_by_key(|target| target.cache);
        if let Some(Target { node, cache }) = smallest.filter(|target| bytes > target.cache) {
            eprintln!(
                "cards: {} of volume {} do not fit into the cache of node {node}, {}: what comes first leaves it again; \
                 name a profile or ranges",
                size::human(bytes),
                self.volume,
                size::human(*cache)
            );
        }
    }
}
