//! `cards pin` and `cards unpin`: blocks that stay in the caches of nodes.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use cards_admin::{Client, ClientError, PIN_RANGES_MAX, PinOrder, Pins, RefusalKind};
use cards_config::size;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::{Error, Failure};
use crate::output;
use crate::profile::File;
use crate::range;
use crate::warm::{LeftOut, Nodes, parts, sentence};

/// Ranges of a volume that are shown of one node.
const RANGES_SHOWN: usize = 8;

/// Have blocks of a volume stay in the cache of this node or of several, once they are there
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Pinned blocks are not evicted. They are fetched by `cards warm`, or when they are first read; a write to them drops the copies
as always. All of the volume unless --range or --profile say less. At most `pin_max` of node.toml is pinned at a node, half of
the cache if nothing is said. Pins outlast a restart of the daemon and the end of a device;
`cards volume detach` ends them. docs/operating/warm.md says more.

Examples:
  cards pin golden --profile boot.profile --nodes all
  cards pin data --range 0+16M
  cards pin list --nodes all --json"
)]
pub(crate) struct Pin {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// The volume
    #[arg(value_name = "VOLUME", required = true, add = complete::volumes())]
    volume: Option<String>,

    #[command(flatten)]
    what: What,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(List),
}

/// List what is pinned
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards pin list
  cards pin list --nodes all --json")]
struct List {
    #[command(flatten)]
    how: How,
}

/// Let blocks of a volume be evicted again
#[derive(Debug, Args)]
#[command(after_help = "\
All of the volume unless --range or --profile say less. What is cached stays until its place is needed.

Examples:
  cards unpin data
  cards unpin data --range 0+16M --nodes n1,n2")]
pub(crate) struct Unpin {
    /// The volume
    #[arg(value_name = "VOLUME", add = complete::volumes())]
    volume: String,

    #[command(flatten)]
    what: What,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct What {
    /// What a profile names
    #[arg(long, value_name = "FILE", conflicts_with = "range")]
    profile: Option<PathBuf>,

    /// Only this part, in bytes; can be given several times
    #[arg(long, value_name = range::SYNTAX, value_parser = range::parse)]
    range: Vec<(u64, u64)>,

    /// Use the profile although it is of another volume, or of another size
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct How {
    /// At these nodes: all that have the volume attached, a number of them, or names (n1,n2) [default: this node]
    #[arg(long, value_name = "all|N|LIST", value_parser = Nodes::parse, add = complete::several_nodes())]
    nodes: Option<Nodes>,

    /// One JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

/// Not everything is pinned, or let go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    /// Not at every node.
    #[error("not done at {} of {wanted} nodes: {}", missing.len(), sentence(missing))]
    Nodes { wanted: usize, missing: Vec<LeftOut> },
    /// At no node.
    #[error("volume {volume:?} is attached at none of these nodes; run `cards volume attach {volume}` there")]
    Nowhere { volume: String },
}

impl Failure for PinError {}

/// What stays at each node.
#[derive(Default, Serialize)]
struct Outcome {
    nodes: Vec<Pins>,
    /// Nodes that do not have the volume, and need not.
    left_out: Vec<LeftOut>,
    /// Nodes that do not answer, or refuse.
    missing: Vec<LeftOut>,
}

impl Pin {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        match (self.verb, self.volume) {
            (Some(Verb::List(List { how })), _) => how.run("", &[PinOrder::List {}]),
            (None, Some(volume)) => {
                let ranges = self.what.ranges(&self.how, &volume)?;
                let order =
                    |ranges: &[(u64, u64)]| PinOrder::Pin { volume: volume.clone(), ranges: ranges.into() };
                self.how.run(&volume, &ranges.chunks(PIN_RANGES_MAX).map(order).collect::<Vec<_>>())
            }
            (None, None) => Err(Error::Usage { problem: "name a volume, or `cards pin list`".into() }),
        }
    }
}

impl Unpin {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let Self { volume, what, how } = self;
        // All of it can be let go of without knowing how large it is.
        let ranges = match what.profile.is_none() && what.range.is_empty() {
            true => {
                return how.run(&volume, &[PinOrder::Unpin { volume: volume.clone(), ranges: Vec::new() }]);
            }
            false => what.ranges(&how, &volume)?,
        };
        let order = |ranges: &[(u64, u64)]| PinOrder::Unpin { volume: volume.clone(), ranges: ranges.into() };
        how.run(&volume, &ranges.chunks(PIN_RANGES_MAX).map(order).collect::<Vec<_>>())
    }
}

impl What {
    fn ranges(&self, how: &How, volume: &str) -> Result<Vec<(u64, u64)>, Error> {
        let profile = self.profile.as_deref().map(File::open).transpose()?;
        let volume = how.daemon.connect()?.volume(volume)?;
        parts(&volume, &self.range, profile.zip(self.profile.as_deref()), self.force)
    }
}

impl How {
    /// Gives orders to the nodes, and says what stays then.
    fn run(&self, volume: &str, orders: &[PinOrder]) -> Result<ExitCode, Error> {
        let mut client = self.daemon.connect()?;
        let outcome = match &self.nodes {
            None => Outcome { nodes: vec![give(&mut client, None, orders)?], ..Outcome::default() },
            Some(nodes) => at_nodes(&mut client, nodes, orders)?,
        };
        if outcome.nodes.is_empty() && outcome.missing.is_empty() {
            return Err(PinError::Nowhere { volume: volume.into() }.into());
        }
        output::print_either(self.json, &outcome, || outcome.to_string())?;
        match outcome.missing.is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false => {
                let wanted = outcome.nodes.len() + outcome.missing.len();
                Err(PinError::Nodes { wanted, missing: outcome.missing }.into())
            }
        }
    }
}

/// Gives one node its orders; what stays after the last one.
fn give(client: &mut Client, node: Option<&str>, orders: &[PinOrder]) -> Result<Pins, ClientError> {
    orders.iter().try_fold(Pins::default(), |_, order| client.pins(node, order.clone()))
}

fn at_nodes(client: &mut Client, nodes: &Nodes, orders: &[PinOrder]) -> Result<Outcome, Error> {
    let cluster = client.cluster()?;
    let mut outcome = Outcome::default();
    let mut rest: VecDeque<_> = nodes.candidates(&cluster)?.into();
    while let Some(node) = rest.pop_front() {
        if matches!(nodes, Nodes::Count(count) if outcome.nodes.len() == *count) {
            break;
        }
        let out = |reason| LeftOut { node: node.name.clone(), reason };
        match give(client, Some(&node.name), orders) {
            Ok(pins) => outcome.nodes.push(pins),
            Err(ClientError::Refused(refusal))
                if refusal.kind == RefusalKind::NotAttached && !matches!(nodes, Nodes::Named(_)) =>
            {
                outcome.left_out.push(out(refusal.message));
            }
            Err(ClientError::Refused(refusal)) => outcome.missing.push(out(refusal.message)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(outcome)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pins in &self.nodes {
            let [bytes, max, cached] = [pins.bytes(), pins.max, pins.cached].map(size::human);
            writeln!(f, "node {}: {bytes} pinned of at most {max}, {cached} of it cached", pins.node)?;
            for volume in &pins.volumes {
                let shown = volume.ranges.iter().take(RANGES_SHOWN);
                let shown: Vec<String> = shown
                    .map(|&(offset, length)| format!("{}+{}", size::exact(offset), size::exact(length)))
                    .collect();
                let more = match volume.ranges.len().saturating_sub(RANGES_SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let bytes = size::human(volume.bytes());
                writeln!(f, "  volume {}: {bytes}: {}{more}", volume.volume, shown.join(", "))?;
            }
        }
        self.left_out.iter().try_for_each(|out| writeln!(f, "  left out: {} ({})", out.node, out.reason))
    }
}
