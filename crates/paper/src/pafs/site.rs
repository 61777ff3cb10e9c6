//! A machine with its workload, and all runs on it.

use cards_sim::{Library, Machine, Report, Setup, Timing, WarmUp};

use crate::plan::{Plan, Results, Run, mean};
use crate::study::Scale;

/// One of the paper's two environments.
#[derive(Debug)]
pub(super) struct Environment {
    /// As in the names of figures.
    pub(super) name: &'static str,
    pub(super) machine: &'static str,
    generator: &'static str,
    full: Size,
    fast: Size,
    /// Hours of the two days that warm the caches.
    pub(super) warm_up_hours: f64,
    /// Ratios of memory bandwidth to network bandwidth. One of them is the machine's.
    ratios: &'static [f64],
    /// Caches of each node in KiB. One of them is the machine's.
    caches: &'static [u64],
    /// Seconds between two repartitions, for which the paper has no value: the limit on gains can only matter if the disks need
    /// longer than that to fill the tenth of all caches that can be lost at once (1.2 s on PM, 14 s on NOW).
    interval: u32,
    /// Whether what the paper leaves open is simulated with other values, too: cache servers, extents, intervals, times.
    has_choices: bool,
}

/// How long the trace is, and how many seeds there are.
#[derive(Clone, Copy, Debug)]
struct Size {
    requests: u32,
    seeds: u32,
}

pub(super) const PM: Environment = Environment {
    name: "PM",
    machine: "pm",
    generator: "charisma",
    full: Size { requests: 280_000, seeds: 3 },
    fast: Size { requests: 20_000, seeds: 1 },
    warm_up_hours: 10.0,
    ratios: &[1.0, 2.5, 5.0, 10.0, 20.0],
    caches: &[512, 1024, 2048, 4096, 8192],
    interval: 1,
    has_choices: true,
};

pub(super) const NOW: Environment = Environment {
    name: "NOW",
    machine: "now",
    generator: "sprite",
    full: Size { requests: 1_565_000, seeds: 1 },
    fast: Size { requests: 40_000, seeds: 1 },
    warm_up_hours: 15.0,
    ratios: &[1.0, 2.0, 5.0, 10.0, 20.0],
    caches: &[2048, 4096, 8192, 16_384, 32_768],
    interval: 10,
    has_choices: false,
};

/// Cache servers. The paper has no figure, and says only of xFS that each node has one. As many as PM has disks, so that a
/// partition is several times as large as what one server's extents need.
pub(super) const SERVERS: u16 = 16;
/// How many there could be.
pub(super) const SERVER_COUNTS: [u16; 5] = [8, 16, 32, 64, 128];

/// MiB of a volume that belong to one cache server, in the place of the paper's file: most files of the traces are smaller.
const EXTENT: u32 = 1;

/// What is compared: name, and the policy for a way of repartition.
pub(super) const POLICIES: [(&str, &str); 5] = [
    ("xFS", ""),
    ("Fixed", "fixed"),
    ("Not-limited", "not-limited"),
    ("Limited", "limited"),
    ("Lazy-and-limited", "lazy-limited"),
];
pub(super) const XFS: usize = 0;
pub(super) const FIXED: usize = 1;
pub(super) const NOT_LIMITED: usize = 2;
pub(super) const LIMITED: usize = 3;
pub(super) const LAZY: usize = 4;

/// Levels of fault tolerance of Lazy-and-limited.
pub(super) const LEVELS: [&str; 3] = ["A", "B", "C"];

/// What else the extent and the interval could be.
pub(super) const EXTENTS: [u32; 3] = [1, 4, 16];
pub(super) const INTERVALS: [u32; 2] = [1, 30];
/// What is simulated with other networks and caches: Fixed is left out, as in the paper's figures of PM.
pub(super) const SWEPT: [usize; 4] = [XFS, NOT_LIMITED, LIMITED, LAZY];

/// What the share of dirty buffers in xFS hangs on: a name, the policy, the factor on the trace's times, and when requests are issued.
pub(super) const TIME_BASES: [(&str, &str, &str, Timing); 6] = [
    ("as in Figure 2: the trace's times, a syncer every 30 s", "xfs", "", Timing::Trace),
    ("closed loop: compute demands only, no waiting for the trace's times", "xfs", "", Timing::Fast),
    ("a syncer every hour", "xfs syncer=3600", "", Timing::Trace),
    ("all times and compute demands x 0.1", "xfs", ",time=0.1", Timing::Trace),
    ("no time but that of requests", "xfs", ",time=0", Timing::Trace),
    ("no time but that of requests, a syncer every hour", "xfs syncer=3600", ",time=0", Timing::Trace),
];

/// Runs that differ in the seed of the workload only.
pub(super) type Seeds = Vec<Run>;

/// An environment with its runs.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) of: &'static Environment,
    scale: Scale,
    pub(super) requests: u32,
    /// By policy.
    pub(super) policies: Vec<Seeds>,
    /// By ratio, then by policy, of which those not in [`SWEPT`] have no runs.
    pub(super) ratios: Vec<Vec<Seeds>>,
    /// By cache, likewise.
    pub(super) caches: Vec<Vec<Seeds>>,
    /// By level.
    pub(super) levels: Vec<Seeds>,
    /// By extent, then by interval, then by policy: on PM, where partitions matter. Empty in a fast study.
    pub(super) choices: Vec<Vec<Vec<Seeds>>>,
    /// By number of cache servers, then by policy. Empty in a fast study.
    pub(super) servers: Vec<Vec<Seeds>>,
    /// By [`TIME_BASES`]. Empty in a fast study.
    pub(super) times: Vec<Seeds>,
}

/// Means over the seeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    pub(super) read_ms: f64,
    pub(super) write_ms: f64,
    /// Percent of the block reads.
    pub(super) local: f64,
    pub(super) remote: f64,
}

impl Means {
    pub(super) fn of(results: &Results<'_>, seeds: &Seeds) -> Self {
        let percent = |part: fn(&Report) -> u64| {
            mean(results, seeds, |report| {
                let all = report.local_hits + report.remote_hits + report.disk_reads;
                100.0 * part(report) as f64 / all.max(1) as f64
            })
        };
        Self {
            read_ms: mean(results, seeds, |report| report.read_mean_us / 1e3),
            write_ms: mean(results, seeds, |report| report.write_mean_us / 1e3),
            local: percent(|report| report.local_hits),
            remote: percent(|report| report.remote_hits),
        }
    }

    pub(super) fn hits(&self) -> f64 {
        self.local + self.remote
    }
}

impl Environment {
    pub(super) fn machine(&self) -> Machine {
        Library::default().find(self.machine).cloned().unwrap_or_else(|_| unreachable!("a preset"))
    }

    /// With a network so many times slower than the memory.
    fn with_ratio(&self, ratio: f64) -> Machine {
        let machine = self.machine();
        let network_bandwidth = machine.memory_bandwidth / ratio;
        Machine { network_bandwidth, ..machine }
    }

    fn with_cache(&self, kib: u64) -> Machine {
        Machine { cache_bytes: vec![kib << 10], ..self.machine() }
    }

    /// The specification of a policy.
    fn policy((_, repartition): (&str, &str), servers: u16, extent: u32, interval: u32) -> String {
        match repartition {
            "" => "xfs".into(),
            "fixed" => format!("pafs servers={servers} extent={extent} repartition=fixed"),
            other => {
                format!("pafs servers={servers} extent={extent} interval={interval} repartition={other}")
            }
        }
    }

    pub(super) fn trace(&self, requests: u32, seed: u32) -> String {
        format!("gen:{}:requests={requests},seed={seed}", self.generator)
    }
}

impl Site {
    pub(super) fn new(plan: &mut Plan, of: &'static Environment, scale: Scale) -> Self {
        let Size { requests, seeds } = match scale {
            Scale::Full => of.full,
            Scale::Fast => of.fast,
        };
        let mut run = |machine: &Machine, policy: &str, more: &str, timing: Timing| -> Seeds {
            let warm_up = WarmUp::Share(of.warm_up_hours / 48.0);
            let setup = Setup { warm_up, timing, ..Setup::new(machine.clone(), policy) };
            (1..=seeds).map(|seed| plan.add(setup.clone(), &(of.trace(requests, seed) + more))).collect()
        };
        let machine = of.machine();
        let has_choices = scale == Scale::Full && of.has_choices;
        let times = match has_choices {
            true => TIME_BASES.map(|(_, policy, more, timing)| run(&machine, policy, more, timing)).into(),
            false => Vec::new(),
        };
        let mut add = |machine: &Machine, policy: &str| run(machine, policy, "", Timing::Trace);
        let levels = LEVELS.map(|level| {
            let policy = Environment::policy(POLICIES[LAZY], SERVERS, EXTENT, of.interval);
            if level == "A" {
                add(&machine, &policy)
            } else {
                add(&machine, &format!("{policy} level={level}"))
            }
        });
        let mut all = |machine: &Machine, which: &[usize], servers, extent, interval| -> Vec<Seeds> {
            let one = |(i, &policy): (usize, &(&str, &str))| match which.contains(&i) {
                true => add(machine, &Environment::policy(policy, servers, extent, interval)),
                false => Seeds::new(),
            };
            POLICIES.iter().enumerate().map(one).collect()
        };
        let every = &[XFS, FIXED, NOT_LIMITED, LIMITED, LAZY];
        let policies = all(&machine, every, SERVERS, EXTENT, of.interval);
        let mut swept = |machine: &Machine| all(machine, &SWEPT, SERVERS, EXTENT, of.interval);
        let ratios = ends(of.ratios, scale).iter().map(|&ratio| swept(&of.with_ratio(ratio))).collect();
        let caches = ends(of.caches, scale).iter().map(|&kib| swept(&of.with_cache(kib))).collect();
        let mut choices = Vec::new();
        let mut servers = Vec::new();
        if has_choices {
            for extent in EXTENTS {
                choices
                    .push(INTERVALS.map(|interval| all(&machine, every, SERVERS, extent, interval)).into());
            }
            servers = SERVER_COUNTS.map(|count| all(&machine, every, count, EXTENT, of.interval)).into();
        }
        Self { of, scale, requests, policies, ratios, caches, levels: levels.into(), choices, servers, times }
    }

    /// The ratios of bandwidths that were simulated.
    pub(super) fn ratio_values(&self) -> Vec<f64> {
        ends(self.of.ratios, self.scale)
    }

    /// The caches, in KiB.
    pub(super) fn cache_values(&self) -> Vec<u64> {
        ends(self.of.caches, self.scale)
    }

    /// Means of the policies, in their order.
    pub(super) fn means(results: &Results<'_>, policies: &[Seeds]) -> Vec<Means> {
        policies.iter().map(|seeds| Means::of(results, seeds)).collect()
    }
}

/// All of them, or the first, the second and the last.
fn ends<T: Copy>(values: &[T], scale: Scale) -> Vec<T> {
    match (scale, values) {
        (Scale::Fast, [first, second, .., last]) => vec![*first, *second, *last],
        _ => values.to_vec(),
    }
}
