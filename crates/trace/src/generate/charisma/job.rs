//! Jobs: when they come, how large they are, and what their files look like.

use std::ops::Range;

use super::layout::{
    CHUNK, JOB_MAX, Layout, OUTPUT_MAX, PIECE, RESULTS_MAX, SECTION_MAX, SLOT, SWEEP, TABLE_ROWS, table_row,
};
use super::process::Process;
use super::{ALL_REQUESTS, HOURS};
use crate::generate::random::{Random, fraction_of};

/// Table 1: reads and writes per open.
const REQUESTS_PER_OPEN: f64 = 2_799.0 / 5.0;
/// Opens of a process: input, table, output, checkpoint and results.
pub(super) const FILES: u32 = 5;
/// Each opened and closed, and every second output is deleted.
const OVERHEAD: u64 = 2 * FILES as u64 + 1;

/// Job sizes, and how many jobs of a hundred have them: most run on one node, the others on powers of two.
const SIZES: [(u32, u32); 7] = [(1, 73), (2, 5), (4, 5), (8, 6), (16, 6), (32, 4), (JOB_MAX, 1)];

const GOLDEN: f64 = 0.618_033_988_749_894_9;
const ROOT_3: f64 = 1.732_050_807_568_877_2;
const MINUTE: f64 = 60e9;
/// No figure is known of the durations: long against the half minute in which PAFS repartitions its caches.
const DURATION_MINUTES: f64 = 30.0;
const DURATION_SIGMA: f64 = 0.6;

/// Mean compute demand between two requests of a step.
const THINK: u64 = 2_000_000;

/// A job that will come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) number: u64,
    /// In ns.
    pub(super) arrival: u64,
    pub(super) nodes: u32,
    /// Reads and writes of each process.
    pub(super) requests: u64,
    /// The lot for the layout of its records.
    pub(super) records: f64,
}

/// Plans jobs until the requests are used up, so that every file that is opened is used as long as the
/// others, also at the end of the trace.
pub(super) struct Planner {
    random: Random,
    nodes: u32,
    /// Where the sequence of job sizes starts.
    phase: f64,
    number: u64,
    arrival: u64,
    left: u64,
}

impl Planner {
    pub(super) fn new(seed: u64, nodes: u32, requests: u64) -> Self {
        let random = Random::stream(seed, 1);
        Self { random, nodes, phase: fraction_of(seed), number: 0, arrival: 0, left: requests }
    }

    pub(super) fn next(&mut self) -> Option<Plan> {
        if self.left <= OVERHEAD {
            return None;
        }
        let mean = REQUESTS_PER_OPEN * f64::from(FILES);
        let mut nodes = self.size((self.phase + self.number as f64 * GOLDEN).fract());
        // The length of single processes varies; that of a parallel job would throw a short trace off balance.
        let lot = (self.phase + self.number as f64 * std::f64::consts::SQRT_2).fract();
        let factor = if nodes == 1 { 0.5 + lot } else { 1.0 };
        let mut requests = (mean * factor) as u64;
        while nodes > 1 && u64::from(nodes) * (requests + OVERHEAD) > self.left {
            nodes /= 2;
        }
        requests = requests.min(self.left - OVERHEAD);
        let records = (self.phase + self.number as f64 * ROOT_3).fract();
        let plan = Plan { number: self.number, arrival: self.arrival, nodes, requests, records };
        self.left = self.left.saturating_sub(u64::from(nodes) * (requests + OVERHEAD));
        self.number += 1;
        // Poisson arrivals, as many as fill the two days.
        let sizes = SIZES.iter().map(|&(size, share)| self.fitting(size) * share).sum::<u32>();
        let job = f64::from(sizes) / 100.0 * mean;
        let gap = self.random.exponential(HOURS * 60.0 * MINUTE * job / ALL_REQUESTS);
        self.arrival = self.arrival.saturating_add(gap as u64);
        Some(plan)
    }

    /// The size of a job, drawn evenly: any few jobs in a row have a fair share of the large ones.
    fn size(&self, lot: f64) -> u32 {
        let mut lot = lot * 100.0;
        for (size, share) in SIZES {
            lot -= f64::from(share);
            if lot < 0.0 {
                return self.fitting(size);
            }
        }
        1
    }

    /// As much of a job as the machine can hold.
    fn fitting(&self, size: u32) -> u32 {
        size.min(1 << self.nodes.ilog2())
    }
}

/// How the processes of a job divide what they read in small records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Records {
    /// Each reads its own segment record after record: four to a block.
    Segmented,
    /// Each reads pairs of records that lie between those of the others (nested strides).
    Nested,
    /// Each reads single records that lie between those of the others.
    Interleaved,
}

/// Shares of the jobs. For about 40 % of the traced jobs one buffer per process catches three of four small reads,
/// for about 30 % it catches none: these are the segmented and the interleaved ones.
const SEGMENTED: f64 = 0.4;
const NESTED: f64 = 0.3;

/// A job that runs.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) user: u64,
    pub(super) nodes: u64,
    /// Processes that have not ended.
    pub(super) running: u32,
    pub(super) requests: u64,
    pub(super) steps: u64,
    /// Compute demand between two steps, in ns.
    think: u64,
    scratch: Range<u64>,
    pub(super) records: Records,
    pub(super) input: u64,
    pub(super) table: u64,
    pub(super) output: u64,
    /// What each process writes over and over.
    pub(super) output_bytes: u64,
    pub(super) checkpoint: u64,
    /// What each process writes of the checkpoint.
    pub(super) section: u64,
    pub(super) results: u64,
    /// Records of the results per process.
    pub(super) result_records: u64,
    /// Whether the processes read the results of each other.
    pub(super) reads_results: bool,
}

impl Job {
    pub(super) fn new(
        plan: &Plan,
        user: u64,
        scratch: Range<u64>,
        layout: &Layout,
        random: &mut Random,
    ) -> Self {
        let nodes = u64::from(plan.nodes);
        let steps = 120 + random.below(121);
        let duration = random.lognormal(DURATION_MINUTES, DURATION_SIGMA) * MINUTE;
        let output = layout.scratch(scratch.start);
        let checkpoint = output + nodes * OUTPUT_MAX;
        Self {
            user,
            nodes,
            running: plan.nodes,
            requests: plan.requests,
            steps,
            think: (duration / steps as f64) as u64,
            scratch,
            records: match plan.records {
                lot if lot < SEGMENTED => Records::Segmented,
                lot if lot < SEGMENTED + NESTED => Records::Nested,
                _ => Records::Interleaved,
            },
            // A user's files are the same for all of his jobs.
            input: layout.input(user),
            table: layout.table(user),
            output,
            output_bytes: (2 + random.below(2)) * PIECE,
            checkpoint,
            section: (12 + random.below(5)) * PIECE,
            results: checkpoint + nodes * SECTION_MAX,
            result_records: 16 + random.below(33),
            reads_results: random.chance(0.3),
        }
    }

    /// What it has in the scratch ring.
    pub(super) fn scratch(&self) -> Range<u64> {
        self.scratch.clone()
    }

    /// The compute demand before a process's next request.
    pub(super) fn compute(&self, process: &Process, random: &mut Random) -> u64 {
        if process.begins_step() {
            // All processes have the same amount of work, give or take.
            (self.think as f64 * (0.95 + 0.1 * random.unit())) as u64
        } else {
            random.gap(THINK)
        }
    }

    /// The files as offset and size, in the order in which a process opens them.
    pub(super) fn file(&self, index: u32, rank: u64) -> (u64, u64) {
        match index {
            0 => (self.input, (self.nodes - 1) * CHUNK + SWEEP),
            1 => (self.table, (1 + TABLE_ROWS * table_row(self.nodes)) * CHUNK),
            2 => (self.output + rank * OUTPUT_MAX, self.output_bytes),
            3 => (self.checkpoint, self.nodes * self.section),
            _ => (self.results, self.nodes * self.result_records * SLOT),
        }
    }
}

// The parts of a place in the ring hold what is put there.
const _: () = assert!(3 * PIECE <= OUTPUT_MAX && 16 * PIECE <= SECTION_MAX && 48 * SLOT <= RESULTS_MAX);
