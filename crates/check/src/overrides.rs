//! What the command line puts in place of what the seed draws.

mod kind;
mod left_out;

use std::fmt::Write as _;

use cards_core::{Duration, NodeId, PgId};
use cards_user_policy::Choice;

pub use kind::Kind;
pub use left_out::LeftOut;

use crate::options::{Clocks, Mode, Options};
use crate::rng::Rng;

/// Overrides of what the seed draws.
#[derive(clap::Args, Clone, PartialEq, Debug, Default)]
#[command(next_help_heading = "Instead of what the seed draws")]
pub struct Overrides {
    /// Policy of all volumes: one that nodes can run, or the file of a module (./mine.wasm)
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub policy: Option<Choice>,
    /// Messages lost, in per mille; a cold read, which has no faults, becomes a storm
    #[arg(long, value_name = "PER_MILLE", value_parser = clap::value_parser!(u32).range(0..=500))]
    pub loss: Option<u32>,
    /// How long the storm lasts, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub storm_ms: Option<u64>,
    /// At most so many nodes; the disks of the others go to those that remain
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,
    /// Clients of each node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub clients: Option<u32>,
    /// Writers of each volume that can be written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub writers: Option<u32>,
    /// Mean time in milliseconds until a volume's primary moves, in every storm: all nodes reach all disks
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub move_ms: Option<u64>,
    /// Mean time in milliseconds until a volume gets another policy, in every storm: one of nodes, or the module of --policy
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub switch_ms: Option<u64>,
    /// How far clocks differ: within what is promised, or beyond it (or they stop), where stale reads must be noticed
    #[arg(long, value_name = "HOW", value_enum)]
    pub drift: Option<Drift>,
    /// Kinds of faults that do not happen.
    #[command(flatten)]
    pub left_out: LeftOut,
    /// Make this mistake in the protocol, on purpose; a name that there is none of lists them
    #[cfg(feature = "mistakes")]
    #[arg(long, value_parser = mistake)]
    pub mistake: Option<cards_core::mistakes::Mistake>,
}

/// How far the clocks of the nodes differ.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drift {
    /// None is a third faster than another.
    Within,
    /// Some are three times as fast as others.
    Beyond,
    /// The clock of a node that stands still does so, too.
    Stop,
}

impl Drift {
    /// The word on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Beyond => "beyond",
            Self::Stop => "stop",
        }
    }

    fn apply(self, options: &mut Options) {
        let mut rng = Rng::new(options.seed, 12);
        let nodes = options.world.nodes.len();
        options.clocks = match self {
            Self::Within => Clocks::within(&mut rng, nodes),
            Self::Beyond => Clocks::beyond(&mut rng, nodes),
            Self::Stop => Clocks { stop: true, ..Clocks::default() },
        };
        if self == Self::Stop {
            Kind::Devices.remove(options);
        }
    }
}

/// A policy that nodes can run.
fn policy(text: &str) -> Result<Choice, String> {
    let choice = Choice::new(text).map_err(|error| error.to_string())?;
    if choice.module().is_none() {
        cards_policies::policy::build(text).map_err(|error| error.to_string())?;
    }
    Ok(choice)
}

#[cfg(feature = "mistakes")]
fn mistake(name: &str) -> Result<cards_core::mistakes::Mistake, String> {
    let all = cards_core::mistakes::Mistake::ALL;
    let named = all.into_iter().find(|mistake| format!("{mistake:?}") == name);
    named.ok_or_else(|| format!("there are {all:?}"))
}

impl Overrides {
    /// Puts them in place of what was drawn.
    pub fn apply(&self, options: &mut Options) {
        if let Some(policy) = &self.policy {
            let had_room = options.sets_apart();
            options.world.module = policy.module().cloned();
            options.world.volumes.iter_mut().for_each(|spec| spec.policy = policy.spec());
            if options.sets_apart() && !had_room {
                options.make_room();
            }
        }
        if self.spoils_cold_reads() {
            options.mode = Mode::Storm;
        }
        if let Some(storm_ms) = self.storm_ms {
            options.storm = Duration::from_millis(storm_ms);
        }
        if let Some(move_ms) = self.move_ms
            && options.mode == Mode::Storm
        {
            options.share_disks(Duration::from_millis(move_ms));
        }
        if let Some(switch_ms) = self.switch_ms
            && options.mode == Mode::Storm
        {
            options.nodes.switch_every = Duration::from_millis(switch_ms);
        }
        if let Some(nodes) = self.nodes {
            keep_nodes(options, nodes);
        }
        if let Some(clients) = self.clients {
            options.clients = clients;
        }
        if let Some(writers) = self.writers {
            options.writers = writers;
        }
        self.left_out.remove_from(options);
        if let Some(loss) = self.loss {
            options.network.loss = loss;
        }
        if let Some(drift) = self.drift {
            drift.apply(options);
        }
    }

    /// What is claimed of a cold read is claimed without faults, and of no policy that answers at random, as a module may. It
    /// becomes a storm, with the clients that were drawn for it.
    fn spoils_cold_reads(&self) -> bool {
        let is_chaos =
            |text: &str| cards_policies::policy::parse(text).is_ok_and(|(entry, _)| entry.name == "chaos");
        let is_random = |policy: &Choice| policy.module().is_some() || is_chaos(policy.text());
        self.loss.is_some_and(|loss| loss > 0) || self.policy.as_ref().is_some_and(is_random)
    }

    /// As flags again, for the command that replays a run: each with a space in front.
    #[must_use]
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        if let Some(policy) = &self.policy {
            flags += &format!(" --policy '{policy}'");
        }
        let numbers = [
            ("loss", self.loss.map(u64::from)),
            ("storm-ms", self.storm_ms),
            ("move-ms", self.move_ms),
            ("switch-ms", self.switch_ms),
            ("nodes", self.nodes.map(u64::from)),
            ("clients", self.clients.map(u64::from)),
            ("writers", self.writers.map(u64::from)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                let _ = write!(flags, " --{name} {number}");
            }
        }
        if let Some(drift) = self.drift {
            let _ = write!(flags, " --drift {}", drift.name());
        }
        for flag in self.left_out.flags() {
            let _ = write!(flags, " --{flag}");
        }
        #[cfg(feature = "mistakes")]
        if let Some(mistake) = self.mistake {
            let _ = write!(flags, " --mistake {mistake:?}");
        }
        flags
    }
}

/// Keeps the first `nodes` nodes, and gives them the disks of the others.
fn keep_nodes(options: &mut Options, nodes: u16) {
    // Groups have their columns at the nodes that were drawn.
    if usize::from(nodes) >= options.world.nodes.len() || !options.world.mirrors.is_empty() {
        return;
    }
    options.world.nodes.truncate(usize::from(nodes));
    // No two volumes of a run have the same disk number, whatever their nodes.
    let moved = |id: PgId| PgId::plain(NodeId(id.disk_node().0 % nodes), id.disk());
    for spec in &mut options.world.volumes {
        (spec.id, spec.primary) = (moved(spec.id), moved(spec.id).disk_node());
    }
    options.world.shared.iter_mut().for_each(|volume| *volume = moved(*volume));
    options.log = options.log.map(moved);
    options.idle.retain(|node| node.0 < nodes);
    options.dead = options.dead.filter(|node| node.0 < nodes);
    let (readers, world) = (&mut options.readers, &mut options.world);
    let kept = readers.iter_mut().chain(&mut world.devices).chain(&mut world.exclusive);
    kept.for_each(|(_, volume)| *volume = moved(*volume));
    world.devices.retain(|(node, _)| node.0 < nodes);
    world.exclusive.retain(|(node, _)| node.0 < nodes);
    world.strangers.retain(|node| node.0 < nodes);
    let volumes = &options.world.volumes;
    let writable = |id: PgId| volumes.iter().any(|spec| spec.id == id && !spec.read_only);
    options.readers.retain(|(node, id)| node.0 < nodes && !(writable(*id) && id.disk_node() == *node));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        overrides: Overrides,
    }

    fn parse(flags: &str) -> Result<Overrides, clap::Error> {
        let words = std::iter::once("check").chain(flags.split_whitespace());
        Line::try_parse_from(words).map(|line| line.overrides)
    }

    #[test]
    fn flags_are_understood_as_they_are_written() {
        for flags in [
            "",
            " --loss 7 --storm-ms 100 --nodes 2 --clients 0 --writers 1",
            " --no-crashes --no-late-timers",
            " --loss 3 --no-faults",
            " --drift beyond --no-crashes",
            " --drift within",
        ] {
            assert_eq!(parse(flags).expect(flags).flags(), flags);
        }
        let every: String = Kind::ALL.iter().map(|kind| format!(" --{}", kind.flag())).collect();
        assert_eq!(parse(&every).expect("all kinds").flags(), " --no-faults");
        let policy = Overrides { policy: Choice::new("hscc depth=3").ok(), ..Overrides::default() };
        assert_eq!(policy.flags(), " --policy 'hscc depth=3'");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for flags in [
            "--loss 501",
            "--nodes 0",
            "--storm-ms 60001",
            "--policy hsc",
            "--policy opt",
            "--no-loss --loss 1",
            "--no-drift --drift beyond",
            "--drift far",
        ] {
            assert_eq!(parse(flags).expect_err(flags).exit_code(), 2, "{flags}");
        }
    }

    #[test]
    fn without_faults_nothing_is_injected() {
        let overrides = parse("--no-faults --storm-ms 500").expect("two flags");
        for seed in 1..=20 {
            let mut options = Options::draw(seed);
            overrides.apply(&mut options);
            let report = crate::seeds::run_caught(options, cards_world::Trace::hashed());
            assert_eq!(report.expect("it passes").faults, crate::faults::Counts::new(), "seed {seed}");
        }
    }

    /// Each claim of a cold read needs what the seed has drawn for it.
    #[test]
    fn overrides_leave_cold_reads_what_they_need() {
        for flags in
            ["--policy central", "--policy chaos", "--loss 400", "--nodes 2 --policy central --clients 1"]
        {
            let overrides = parse(flags).expect(flags);
            let colds = (1..).map(Options::draw).filter(|options| options.mode == Mode::ColdRead);
            for mut options in colds.take(8) {
                let seed = options.seed;
                overrides.apply(&mut options);
                let spoilt = flags.contains("chaos") || flags.contains("loss");
                assert_eq!(options.mode == Mode::Storm, spoilt, "seed {seed} {flags}");
                if let Err(failure) = crate::seeds::run_caught(options, cards_world::Trace::hashed()) {
                    panic!("seed {seed} {flags}: {failure}");
                }
            }
        }
    }

    #[test]
    fn fewer_nodes_have_all_disks() {
        for (seed, nodes) in (1..=60).zip([1, 2, 3].into_iter().cycle()) {
            let mut options = Options::draw(seed);
            let (volumes, before) = (options.world.volumes.len(), options.world.nodes.len());
            Overrides { nodes: Some(nodes), ..Overrides::default() }.apply(&mut options);
            assert_eq!(options.world.nodes.len(), before.min(usize::from(nodes)));
            let kept = |node: NodeId| usize::from(node.0) < options.world.nodes.len();
            assert!(options.world.volumes.iter().all(|spec| kept(spec.id.disk_node())));
            let ids: std::collections::BTreeSet<_> =
                options.world.volumes.iter().map(|spec| spec.id).collect();
            assert_eq!(ids.len(), volumes, "seed {seed}");
            assert!(options.readers.iter().all(|(node, id)| kept(*node) && ids.contains(id)), "seed {seed}");
        }
    }
}
