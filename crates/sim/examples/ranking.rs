//! Policies beside each other on public traces and generators, on three machines: mean read times relative to the best of each load.
//!
//! ```text
//! cargo run --profile sim -p cards-sim --example ranking -- TRACES [LOAD [MACHINE [SALTS [POLICIES]]]]
//! ```
//!
//! TRACES is the directory with the traces that `docs/papers/single.md` and `docs/papers/auto.md` name; a load or a machine is chosen by a part of its name.
//! SALTS is the number of samples that `auto` chooses by. POLICIES are those of the table that are run, with commas between them.

use std::env;
use std::path::Path;

use cards_core::Coherence;
use cards_policies::Replacement;
use cards_sim::{Library, Setup, Timing, run};
use cards_trace::{Options, Progress, Request, Skipped, Source, TraceError, open};

/// A trace that is dealt to nodes in runs of so many requests; as it is, if that is zero.
struct Load {
    trace: &'static str,
    deal: u64,
    nodes: u16,
    cache_blocks: u32,
    block_bytes: u32,
    /// More requests tell no more.
    most: u64,
}

const fn load(trace: &'static str, deal: u64, nodes: u16, cache_blocks: u32, block_kib: u32) -> Load {
    Load { trace, deal, nodes, cache_blocks, block_bytes: block_kib << 10, most: 60_000 }
}

const LOADS: [Load; 13] = [
    load("lirs/sprite.trace.gz", 50, 4, 250, 4),
    load("lirs/multi3.trace.gz", 100, 4, 350, 4),
    load("lirs/multi1.trace.gz", 1, 4, 100, 4),
    load("lirs/2_pools.trace.gz", 100, 4, 100, 4),
    load("arc/OLTP.lis.zst", 1, 4, 1000, 4),
    load("arc/P3.lis.zst", 500, 8, 1500, 4),
    load("cloudphysics/cloudPhysicsIO.vscsi.zst", 1000, 4, 6730, 4),
    load("dxt/openpmd_8_benchmark_parallel_64hosts.mpiio.csv.zst", 0, 16, 204, 64),
    load("dxt/io_test5_hdf5_32hosts.posix.csv.zst", 0, 32, 1024, 64),
    load("gen:oltp:requests=100k,bytes=64MiB", 0, 4, 212, 8),
    load("gen:boot:nodes=8", 0, 8, 15, 64),
    load("gen:webstone:bytes=64MiB,connections=32", 0, 4, 512, 16),
    load("gen:training:samples=600,mode=replicated", 0, 8, 256, 64),
];

const MACHINES: [&str; 3] = ["lan25", "lan10-cloud", "cards2003"];

/// With its replacement.
const POLICIES: [(&str, Replacement); 20] = [
    ("rd", Replacement::Lru),
    ("greedy", Replacement::Lru),
    ("nchance", Replacement::Lru),
    ("hscc", Replacement::Lru),
    ("hscc homes=run ask=measured", Replacement::Lru),
    ("single ask=home", Replacement::Lru),
    ("single", Replacement::Lru),
    ("single admit=1", Replacement::Lru),
    ("local", Replacement::Lru),
    ("rd", Replacement::S3Fifo),
    ("greedy", Replacement::S3Fifo),
    ("nchance", Replacement::S3Fifo),
    ("hscc", Replacement::S3Fifo),
    ("hscc homes=run ask=measured", Replacement::S3Fifo),
    ("single ask=home", Replacement::S3Fifo),
    ("single", Replacement::S3Fifo),
    ("single admit=1", Replacement::S3Fifo),
    ("local", Replacement::S3Fifo),
    ("auto", Replacement::Lru),
    ("auto", Replacement::S3Fifo),
];

/// Samples that `auto` chooses by, unless said otherwise. Its column has their geometric mean.
const SALTS: u64 = 3;

/// Deals a trace.
struct Dealt {
    source: Box<dyn Source>,
    load: &'static Load,
    next: u64,
}

impl Source for Dealt {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.next == self.load.most {
            return Ok(None);
        }
        let mut request = self.source.next()?;
        if let Some(request) = &mut request {
            let node = match self.load.deal {
                0 => u64::from(request.node),
                run => self.next / run,
            };
            request.node = (node % u64::from(self.load.nodes)) as u32;
            if self.load.deal > 0 {
                request.process = request.node;
            }
        }
        self.next += 1;
        Ok(request)
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn skipped(&self) -> &Skipped {
        self.source.skipped()
    }

    fn has_times(&self) -> bool {
        false
    }
}

/// Geometric mean.
fn mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let argument = |nth: usize| arguments.get(nth).map_or("", String::as_str);
    let library = Library::default();
    let salts = match argument(3) {
        "" => SALTS,
        number => number.parse().expect("SALTS is a number"),
    };
    let is_wanted =
        |policy: &str| argument(4).is_empty() || argument(4).split(',').any(|name| name == policy);
    let policies: Vec<(&str, Replacement)> =
        POLICIES.into_iter().filter(|(policy, _)| is_wanted(policy)).collect();
    let columns = policies.len();
    for machine in MACHINES.iter().filter(|name| name.contains(argument(2))) {
        let names: Vec<String> =
            policies.iter().map(|(policy, replacement)| format!("{policy}, {replacement}")).collect();
        println!("\n| {machine} | best, us | {} |\n|---|---{}|", names.join(" | "), "|---".repeat(columns));
        let mut ratios = vec![Vec::new(); columns];
        // Of `auto`, by salt: over the best fixed policy with the same replacement.
        let mut regrets = vec![Vec::new(); columns];
        let mut beside = Vec::new();
        for load in LOADS.iter().filter(|load| load.trace.contains(argument(1))) {
            let times_of = |&policy: &(&str, Replacement)| {
                let salts = if policy.0 == "auto" { salts } else { 1 };
                let of = |salt| read_us(&library, machine, policy, load, argument(0), salt);
                (1..=salts).map(of).collect::<Vec<f64>>()
            };
            let times: Vec<Vec<f64>> = policies.iter().map(times_of).collect();
            let fixed = || policies.iter().zip(&times).filter(|((policy, _), _)| *policy != "auto");
            let best = fixed().map(|(_, times)| times[0]).fold(f64::INFINITY, f64::min);
            let cells: Vec<String> = times.iter().map(|times| format!("{:.3}", mean(times) / best)).collect();
            println!("| {} | {best:.1} | {} |", load.trace, cells.join(" | "));
            for (number, times) in times.iter().enumerate() {
                ratios[number].push(mean(times) / best);
                let alike = fixed().filter(|((_, of), _)| *of == policies[number].1);
                let Some(((name, _), best)) =
                    alike.min_by(|(_, one), (_, other)| one[0].total_cmp(&other[0]))
                else {
                    continue;
                };
                let of_load: Vec<f64> = times.iter().map(|time| time / best[0]).collect();
                if policies[number].0 == "auto" {
                    let (mean, worst) = (mean(&of_load), worst(&of_load));
                    beside.push(format!(
                        "| {} | {} | {mean:.3} ({name}) | {worst:.3} |",
                        load.trace, policies[number].1
                    ));
                }
                regrets[number].extend(of_load);
            }
        }
        let all = |of: fn(&[f64]) -> f64| {
            let cells: Vec<String> = ratios.iter().map(|ratios| format!("{:.3}", of(ratios))).collect();
            cells.join(" | ")
        };
        println!("| geometric mean | | {} |", all(mean));
        println!("| worst | | {} |", all(worst));
        println!(
            "\n| {machine} | | auto (best fixed policy) | worst |\n|---|---|---|---|\n{}",
            beside.join("\n")
        );
        for ((policy, replacement), regrets) in policies.iter().zip(&regrets) {
            if *policy == "auto" {
                println!(
                    "\n{machine}, auto beside the best fixed policy with {replacement}, {salts} salts: mean {:.3}, worst {:.3}",
                    mean(regrets),
                    worst(regrets)
                );
            }
        }
    }
}

/// The mean read time.
fn read_us(
    library: &Library,
    machine: &str,
    (policy, replacement): (&str, Replacement),
    load: &'static Load,
    traces: &str,
    seed: u64,
) -> f64 {
    let path = match load.trace.starts_with("gen:") {
        true => load.trace.to_owned(),
        false => Path::new(traces).join(load.trace).display().to_string(),
    };
    let setup = Setup {
        nodes: load.nodes,
        block_bytes: load.block_bytes,
        cache_blocks: vec![load.cache_blocks],
        replacement,
        coherence: Coherence::Confirmed,
        timing: Timing::Fast,
        seed,
        ..Setup::new(library.find(machine).unwrap().clone(), policy)
    };
    let options = Options { block_bytes: Some(load.block_bytes), ..Options::default() };
    let source = open(&path, &options).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut source = Dealt { source, load, next: 0 };
    let report = run(&setup, load.trace, &mut source, &mut ());
    report.unwrap_or_else(|error| panic!("{policy}, {replacement}: {error}")).read_mean_us
}
