//! The command line of the measurements.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cards_bench::compare::{self, Comparison, Effort, Skipped};
use cards_bench::coop::{self, CoopOptions};
use cards_bench::load::{self, Access, Mode, Options, Target};
use cards_bench::peers::{self, Site};
use cards_bench::report::{self, Style};
use cards_bench::scale::{self, ScaleOptions};
use cards_bench::sharing;
use cards_bench::simulators::{self, SimulatorOptions};
use cards_bench::size::{format_count, format_rate, format_size, parse_duration, parse_size};
use cards_bench::suite::{Filter, Part};
use cards_bench::table1::{self, Table1Options};
use cards_bench::{Error, Uri, bare, idle, interrupt, lanes, mirror, proc, remote, stripes};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

const COOP_HELP: &str = "\
Node 2 reads a volume (cold), then node 3 reads it (warm): where its blocks came from, how long it took,
and which of the paper's statements hold. --size and --seconds do not matter here.

Examples:
  cards-bench coop                                   about 3 minutes
  cards-bench coop --rounds 1 --read-ahead off       block by block, about 7 minutes
  cards-bench coop --read-ahead 128K                 with the read-ahead of the paper's Linux
  cards-bench coop --scale 0.25 --markdown           larger caches, as a document
  cards-bench coop --quick --json | jq '.coop.claims[] | select(.differs != [])'";

/// Measures CARDs and other NBD servers side by side.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  cards-bench run                                    everything, 25 minutes at most
  cards-bench run --only peers,own,unix,c1           one client, transport and connection count
  cards-bench run --only peers,cards,nbdkit-memory --rounds 9 --seconds 0.5
  cards-bench run --quick --markdown > bench.md      one short round, as a document
  cards-bench remote --json                          remote hits against a bare round trip
  cards-bench sharing                                what it costs that several nodes may write
  cards-bench mirror                                 mirrored volumes beside plain ones, about 3 minutes
  cards-bench stripes                                volumes over many disks, about 8 minutes
  cards-bench idle                                   daemons of which nothing is asked, 3 minutes
  cards-bench table1 --disk-delay 12ms               Table 1 of the paper, with a modelled slow disk
  cards-bench coop                                   figures 2 to 5 of the paper, about 3 minutes
  cards-bench coop --rounds 1 --read-ahead off       the same block by block, about 7 minutes
  cards-bench simulators                             the simulator's speed, beside libCacheSim
  cards-bench scale                                  what 10, 100 and 1,000 nodes cost a disk node
  cards-bench load nbd://127.0.0.1:10809/disk --block 128K --depth 8 --access sequential
  cards-bench load 'nbd+unix:///?socket=n.sock' --pid $(pidof nbdkit)"
)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Everything: NBD servers side by side, remote hits, sharing, Table 1, the cooperative effect
    Run(Common),
    /// A remote hit against a bare request/response
    Remote(Common),
    /// Reads from a warm peer, with several data threads: encrypted and in the clear, two builds in turn
    Lanes(LanesArgs),
    /// Several nodes that may write one volume: without conflict, with a few writes, and one block in turn
    Sharing(Common),
    /// Mirrored volumes beside plain ones: two copies, the death of a node, what is copied when it is back
    Mirror(MirrorArgs),
    /// Volumes over many modelled disks: beside the disks' sum, and with 4 and 16 clients beside one server
    Stripes(StripesArgs),
    /// What daemons take while nothing is asked of them: one alone, and three as a cluster
    Idle(IdleArgs),
    /// The CARDs paper's Table 1 on this machine
    Table1(Common),
    /// The cooperative effect: the CARDs paper's figures 2 to 5 on this machine
    #[command(after_help = COOP_HELP)]
    Coop(Common),
    /// The simulator's speed, beside libCacheSim (from PyPI)
    Simulators(SimulatorArgs),
    /// What a disk node has to do as its volumes are attached at more nodes, in the core alone
    Scale(ScaleArgs),
    /// Loads one server
    Load(LoadArgs),
    /// The floor: serves the test disk from memory
    #[command(hide = true)]
    Bare {
        #[arg(long)]
        uri: Uri,
        #[arg(long, value_parser = parse_size)]
        size: u64,
    },
    /// The floor: answers each request with a block
    #[command(hide = true)]
    Pong {
        #[arg(long)]
        listen: String,
        #[arg(long)]
        block: usize,
        /// A directory with what is shown under TLS; none: in the clear
        #[arg(long)]
        identity: Option<PathBuf>,
    },
    /// Holds a captive cluster open
    #[command(hide = true)]
    Hold { note: PathBuf },
}

#[derive(Args)]
struct Common {
    /// Only these servers, transports, clients, loads, connection counts (c1, c4) or parts (peers, remote, sharing, table1, coop)
    #[arg(long, value_delimiter = ',', value_name = "WORDS")]
    only: Vec<String>,
    /// Rounds per cell; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each server is loaded per round
    #[arg(long, default_value = "1", value_parser = parse_duration)]
    seconds: Duration,
    /// One round of a fifth of a second on a 256 MiB disk, coop at half its scale: shows that everything works, no more
    #[arg(long)]
    quick: bool,
    /// Start no further measurement after this time
    #[arg(long, default_value = "25m", value_parser = parse_duration)]
    budget: Duration,
    /// Size of the test disk; memory servers and caches need it several times
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    size: u64,
    /// Where the test disk is made
    #[arg(long, env = "TMPDIR", default_value = "/tmp")]
    dir: PathBuf,
    /// The 'cards' program [default: beside this one, or in PATH]
    #[arg(long)]
    cards: Option<PathBuf>,
    /// Table 1 and coop: a delay added to each disk access [default: 0 for Table 1, 10ms for coop]
    #[arg(long, value_parser = parse_duration)]
    disk_delay: Option<Duration>,
    /// Coop: caches and volumes as a share of the paper's (0.1: 24 MiB, 31 to 74 MiB)
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// Coop: how far the cards read ahead: auto, off or a size
    #[arg(long, default_value = "auto", value_name = "SIZE", value_parser = parse_read_ahead)]
    read_ahead: String,
    /// Determines the order of servers and the offsets
    #[arg(long, default_value_t = 1)]
    seed: u32,
    #[command(flatten)]
    output: Output,
}

impl Common {
    fn effort(&self) -> Effort {
        Effort {
            duration: self.seconds,
            rounds: self.rounds.into(),
            deadline: Instant::now() + self.budget,
            seed: self.seed.into(),
        }
    }
}

#[derive(Args)]
struct Output {
    /// One JSON object on standard output instead of tables
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Markdown tables
    #[arg(long)]
    markdown: bool,
}

impl Output {
    fn style(&self) -> Style {
        if self.markdown { Style::Markdown } else { Style::Plain }
    }

    fn print(&self, value: &impl Serialize, text: impl FnOnce(Style) -> String) {
        if self.json { println!("{}", json!(value)) } else { print!("{}", text(self.style())) }
    }
}

#[derive(Args)]
struct LanesArgs {
    /// Another build of the 'cards' program, measured in turn with the first in each round
    #[arg(long, value_name = "CARDS")]
    against: Option<PathBuf>,
    /// Data threads of each node
    #[arg(long, default_value_t = 2)]
    data_threads: usize,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct MirrorArgs {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<mirror::Part>,
    /// Rounds per cell: the median counts. Of fail-overs, at most 3
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each volume is loaded per round
    #[arg(long, default_value = "0.5", value_parser = parse_duration)]
    seconds: Duration,
    /// Start no further measurement after this time
    #[arg(long, default_value = "25m", value_parser = parse_duration)]
    budget: Duration,
    /// Where the disks are made
    #[arg(long, env = "TMPDIR", default_value = "/tmp")]
    dir: PathBuf,
    /// The 'cards' program [default: beside this one, or in PATH]
    #[arg(long)]
    cards: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct StripesArgs {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<stripes::Part>,
    /// Rounds per load: the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long the volume over four disks is loaded per round
    #[arg(long, default_value = "3", value_parser = parse_duration)]
    seconds: Duration,
    /// Bytes per second of each of four modelled disks
    #[arg(long, default_value = "20M", value_parser = parse_size)]
    disk_rate: u64,
    /// The same of each of sixteen
    #[arg(long, default_value = "4M", value_parser = parse_size)]
    client_rate: u64,
    /// Start no further round after this time
    #[arg(long, default_value = "25m", value_parser = parse_duration)]
    budget: Duration,
    /// Where the disks are made
    #[arg(long, env = "TMPDIR", default_value = "/tmp")]
    dir: PathBuf,
    /// The 'cards' program [default: beside this one, or in PATH]
    #[arg(long)]
    cards: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct IdleArgs {
    /// How long after its start a cluster is looked at
    #[arg(long, default_value = "10", value_parser = parse_duration)]
    settle: Duration,
    /// How long it is looked at
    #[arg(long, default_value = "60", value_parser = parse_duration)]
    seconds: Duration,
    /// Where the disks are made
    #[arg(long, env = "TMPDIR", default_value = "/tmp")]
    dir: PathBuf,
    /// The 'cards' program [default: beside this one, or in PATH]
    #[arg(long)]
    cards: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct SimulatorArgs {
    /// A trace file or a generator: all its requests are held in memory
    #[arg(long, default_value = "gen:sprite")]
    trace: String,
    /// A Python that has the package libcachesim
    #[arg(long, default_value = "python3")]
    python: String,
    /// How often each is measured: the fastest counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct ScaleArgs {
    /// How many nodes have cards
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10,100,1000",
        value_parser = clap::value_parser!(u16).range(2..=i64::from(scale::CARDS_MAX))
    )]
    cards: Vec<u16>,
    /// How often each is measured
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct LoadArgs {
    /// nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH
    uri: Uri,
    /// Reads or writes; writes put the test disk's content there
    #[arg(long, value_enum, default_value = "read")]
    mode: Mode,
    /// The order of offsets
    #[arg(long, value_enum, default_value = "random")]
    access: Access,
    /// Bytes per request
    #[arg(long, default_value = "4K", value_parser = parse_size)]
    block: u64,
    /// Requests in flight per connection
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Connections
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// How long
    #[arg(long, default_value = "1", value_parser = parse_duration)]
    seconds: Duration,
    /// Ask for structured replies
    #[arg(long)]
    structured: bool,
    /// Check that reads return the test disk's content
    #[arg(long)]
    verify: bool,
    /// Never sleep while waiting for replies
    #[arg(long)]
    spin: bool,
    /// A server process, for its CPU time
    #[arg(long, value_name = "PID")]
    pid: Vec<i32>,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // The shell's convention for a program ended by SIGINT.
        Err(Error::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("cards-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<(), Error> {
    // The floor's servers loop for ever and end by the signal itself.
    if !matches!(verb, Verb::Bare { .. } | Verb::Pong { .. }) {
        interrupt::install();
    }
    match verb {
        Verb::Run(common) => {
            let filter = Filter::new(&common.only)?;
            measure(common, |part| filter.part(part))
        }
        Verb::Remote(common) => measure(common, |part| part == Part::Remote),
        Verb::Lanes(args) => measure_lanes(args),
        Verb::Sharing(common) => measure(common, |part| part == Part::Sharing),
        Verb::Mirror(args) => measure_mirror(args),
        Verb::Stripes(args) => measure_stripes(args),
        Verb::Idle(args) => measure_idle(args),
        Verb::Table1(common) => measure(common, |part| part == Part::Table1),
        Verb::Coop(common) => measure(common, |part| part == Part::Coop),
        Verb::Simulators(args) => measure_simulators(args),
        Verb::Scale(args) => measure_scale(args),
        Verb::Load(args) => load_one(args),
        Verb::Bare { uri, size } => bare::disk::serve(&uri.address, size),
        Verb::Pong { listen, block, identity } => {
            let read = |dir: PathBuf| bare::tls::Identity::read(&dir);
            let identity = identity.map(read).transpose().map_err(Error::io("reading a certificate"))?;
            bare::pingpong::serve(&listen, block, identity.as_ref())
        }
        Verb::Hold { note } => peers::hold(&note),
    }
}

/// A disk of the paper's time: its own read a block in 12 ms.
const COOP_DISK_DELAY: Duration = Duration::from_millis(10);

fn measure(mut common: Common, wanted: impl Fn(Part) -> bool) -> Result<(), Error> {
    if common.quick {
        common.rounds = 1;
        common.seconds = Duration::from_millis(200);
        common.size = common.size.min(256 << 20);
        common.scale = common.scale.min(0.05);
    }
    // Whole blocks of every load and every warming read.
    const SIZE_UNIT: u64 = 4 << 20;
    if common.size < SIZE_UNIT || !common.size.is_multiple_of(SIZE_UNIT) {
        let remedy = "must be a multiple of 4M".to_owned();
        return Err(Error::Option { option: "size", value: format_size(common.size), remedy });
    }
    if !CoopOptions::SCALES.contains(&common.scale) {
        let remedy = format!("must be {} to {}", CoopOptions::SCALES.start(), CoopOptions::SCALES.end());
        return Err(Error::Option { option: "scale", value: common.scale.to_string(), remedy });
    }
    let filter = Filter::new(&common.only)?;
    let site = Site::new(&common.dir, common.size, common.cards.clone())?;
    let effort = common.effort();
    let style = common.output.style();
    let say = |text: &str| {
        if !common.output.json {
            println!("{text}");
        }
    };
    let title = |text: &str| say(&format!("{}{text}\n", if common.output.markdown { "## " } else { "" }));
    match site.cores {
        Some(cores) => say(&format!("servers on core {}, client on core {}", cores.server, cores.client)),
        None => say("only one core: client and servers compete for it, nothing is pinned"),
    }
    if let Some(load) = proc::busy() {
        say(&warning(load));
    }
    say(&format!(
        "disk {}, median of {} rounds of {:?} each\n",
        format_size(common.size),
        common.rounds,
        common.seconds
    ));

    // Both take a while; the other parts watch the time themselves.
    let begins = |part: Part| {
        let in_time = Instant::now() < effort.deadline;
        if wanted(part) && !in_time {
            say(&format!("time over, not measured (--budget): {}", part.name()));
        }
        wanted(part) && in_time
    };

    let mut comparison = Comparison::default();
    if wanted(Part::Peers) {
        title("NBD servers side by side");
        comparison = compare::run(&site, &filter, &effort, |cell| say(&report::cell(cell, style)))?;
        say(&report::verdict(&comparison, style));
    }
    let mut hits = None;
    if wanted(Part::Remote) {
        title("Remote hits against a bare round trip");
        let result = remote::run(&site, &effort)?;
        say(&remote::format(&result, style));
        hits = Some(result);
    }
    let (shared, sharing_skipped) = if begins(Part::Sharing) {
        title("Sharing: three nodes that may write one volume");
        unless_missing("sharing", sharing::run(&site, &effort), &say)?
    } else {
        (None, None)
    };
    if let Some(shared) = &shared {
        say(&sharing::format(shared, style));
    }
    let (paper, table1_skipped) = if begins(Part::Table1) {
        title("Table 1: a card as a remote disk, and the local disk");
        measure_table1(&common, &site, &say, style)?
    } else {
        (None, None)
    };
    let (coop, coop_skipped) = if begins(Part::Coop) {
        title("The cooperative effect: figures 2 to 5");
        let options = CoopOptions {
            scale: common.scale,
            disk_delay: common.disk_delay.unwrap_or(COOP_DISK_DELAY),
            read_ahead: common.read_ahead.clone(),
        };
        unless_missing("coop", coop::run(&site, &options, &effort), &say)?
    } else {
        (None, None)
    };
    if let Some(coop) = &coop {
        say(&coop::format(coop, style));
    }
    let hits_skipped = hits.iter().flat_map(|hits: &remote::Remote| &hits.skipped);
    let skipped = comparison.skipped.iter().chain(hits_skipped).chain(&table1_skipped);
    let skipped = skipped.chain(&coop_skipped).chain(coop.iter().flat_map(|coop| &coop.skipped));
    let skipped = skipped.chain(&sharing_skipped).chain(shared.iter().flat_map(|shared| &shared.skipped));
    let failures = skipped.filter(|skipped| skipped.is_failure).count();
    if common.output.json {
        let table1 = paper
            .map(|ours| json!({ "ours": ours, "paper": table1::Table1::PAPER, "skipped": table1_skipped }));
        let report = json!({
            "cores": site.cores,
            "size": common.size,
            "rounds": common.rounds,
            "seconds": common.seconds.as_secs_f64(),
            "aims": report::aims(&comparison),
            "comparison": comparison,
            "remote": hits,
            "sharing": shared,
            "table1": table1,
            "coop": coop,
        });
        println!("{report}");
    }
    if failures > 0 { Err(Error::Incomplete { failures }) } else { Ok(()) }
}

fn warning(load: f64) -> String {
    format!("warning: other work runs here (load {load}); trust the ratios and the CPU per request")
}

fn measure_mirror(args: MirrorArgs) -> Result<(), Error> {
    let site = Site::new(&args.dir, 0, args.cards)?;
    let effort = Effort {
        duration: args.seconds,
        rounds: args.rounds.into(),
        deadline: Instant::now() + args.budget,
        seed: 1,
    };
    let busy = proc::busy();
    let result = mirror::run(&site, &args.only, &effort)?;
    let value = json!({ "rounds": args.rounds, "busy": busy, "mirror": result });
    args.output.print(&value, |style| {
        let warning = busy.map_or(String::new(), |load| format!("{}\n\n", warning(load)));
        warning + &mirror::format(&result, style) + "\n"
    });
    Ok(())
}

fn measure_stripes(args: StripesArgs) -> Result<(), Error> {
    let site = Site::new(&args.dir, 0, args.cards)?;
    let effort = Effort {
        duration: args.seconds,
        rounds: args.rounds.into(),
        deadline: Instant::now() + args.budget,
        seed: 1,
    };
    let busy = proc::busy();
    let rates = stripes::Rates { sum: args.disk_rate, clients: args.client_rate };
    let rows = stripes::run(&site, &args.only, rates, &effort)?;
    let value = json!({ "rounds": args.rounds, "busy": busy, "rates": rates, "stripes": rows });
    args.output.print(&value, |style| {
        let warning = busy.map_or(String::new(), |load| format!("{}\n\n", warning(load)));
        warning + &stripes::format(&rows, style)
    });
    Ok(())
}

fn measure_idle(args: IdleArgs) -> Result<(), Error> {
    let site = Site::new(&args.dir, 0, args.cards)?;
    let busy = proc::busy();
    let rows = idle::run(&site, args.settle, args.seconds)?;
    let value = json!({ "busy": busy, "seconds": args.seconds.as_secs_f64(), "idle": rows });
    args.output.print(&value, |style| {
        let warning = busy.map_or(String::new(), |load| format!("{}\n\n", warning(load)));
        warning + &idle::render(&rows, style)
    });
    Ok(())
}

fn measure_lanes(args: LanesArgs) -> Result<(), Error> {
    let LanesArgs { against, data_threads, common } = args;
    let site = Site::new(&common.dir, common.size, common.cards.clone())?;
    let rows = lanes::run(&site, against.as_deref(), data_threads, &common.effort())?;
    let value = json!({ "data_threads": data_threads, "rounds": common.rounds, "lanes": rows });
    common.output.print(&value, |style| lanes::format(&rows, style) + "\n");
    Ok(())
}

/// Without the `cards` program, or if it fails, the other half of the table remains.
fn measure_table1(
    common: &Common,
    site: &Site,
    say: &impl Fn(&str),
    style: Style,
) -> Result<(Option<table1::Table1>, Option<Skipped>), Error> {
    let disk_delay = common.disk_delay.unwrap_or_default();
    let options = Table1Options { duration: common.seconds, disk_delay };
    let (result, skipped) = match table1::run(site, &options) {
        Ok(result) => (result, None),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            say(&format!("skipped: the card's half of table 1: {error}"));
            let skipped = Skipped::new("the card's half of table 1".to_owned(), &error);
            (table1::local(site, &options)?, Some(skipped))
        }
    };
    say(&table1::format(&result, style));
    Ok((Some(result), skipped))
}

/// A part of the report; what is not installed leaves it out, with the reason.
fn unless_missing<T>(
    what: &str,
    result: Result<T, Error>,
    say: &impl Fn(&str),
) -> Result<(Option<T>, Option<Skipped>), Error> {
    match result {
        Err(error @ Error::MissingTool { .. }) => {
            say(&format!("skipped: {what}: {error}"));
            Ok((None, Some(Skipped::new(what.to_owned(), &error))))
        }
        result => Ok((Some(result?), None)),
    }
}

fn measure_simulators(args: SimulatorArgs) -> Result<(), Error> {
    let options = SimulatorOptions { trace: args.trace, python: args.python, rounds: args.rounds };
    let result = simulators::run(&options)?;
    args.output.print(&result, |style| simulators::format(&result, style));
    Ok(())
}

fn measure_scale(args: ScaleArgs) -> Result<(), Error> {
    let result = scale::run(&ScaleOptions { cards: args.cards, rounds: args.rounds })?;
    args.output.print(&result, |style| scale::format(&result, style));
    Ok(())
}

/// What `cards dev --read-ahead` takes.
fn parse_read_ahead(text: &str) -> Result<String, String> {
    if !matches!(text, "auto" | "off") {
        parse_size(text)?;
    }
    Ok(text.to_owned())
}

fn load_one(args: LoadArgs) -> Result<(), Error> {
    let too_large = |_| Error::Option {
        option: "block",
        value: format_size(args.block),
        remedy: "must be a multiple of 4K up to 32M".to_owned(),
    };
    let options = Options {
        mode: args.mode,
        access: args.access,
        block: u32::try_from(args.block).map_err(too_large)?,
        depth: args.depth,
        connections: args.connections,
        duration: args.seconds,
        structured: args.structured,
        verify: args.verify,
        spin: args.spin,
        ..Options::default()
    };
    let outcome = load::run(&Target { uri: args.uri, pids: args.pid }, &options)?;
    if args.json {
        println!("{}", serde_json::to_string(&outcome).expect("numbers are valid JSON"));
        return Ok(());
    }
    let latency = outcome.latency;
    println!(
        "{} requests, {} IOPS, {}, latency mean {} us, p50 {} us, p99 {} us{}",
        outcome.requests,
        format_count(outcome.iops),
        format_rate(outcome.bytes_per_s),
        report::micros(latency.mean_us),
        report::micros(latency.p50_us),
        report::micros(latency.p99_us),
        outcome.server_cpu_us.map_or(String::new(), |us| format!(", server CPU {} us", report::micros(us))),
    );
    Ok(())
}
