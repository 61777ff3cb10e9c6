//! Jobs: when they come, how large they are, and what their files look like.

use std::ops::Range;

use super::layout::{CHUNK, INPUT_RECORDS_MAX, JOB_MAX, Layout, OUTPUT_MAX, SCRATCH, SECTION_MAX, STRIDE};
use super::process::Process;
use super::{ALL_REQUESTS, HOURS};
use crate::generate::random::{Random, fraction_of};

/// Table 1: reads and writes per open.
const REQUESTS_PER_OPEN: f64 = 2_799.0 / 5.0;
/// Opens of a process: input, broadcast, output, checkpoint and results.
pub(super) const FILES: u32 = 5;
/// Each opened and closed, and every second output is deleted.
const OVERHEAD: u64 = 2 * FILES as u64 + 1;

/// Job sizes, and how many jobs of a hundred have them: most run on one node, the others on powers of two.
const SIZES: [(u32, u32); 7] = [(1, 73), (2, 5), (4, 5), (8, 6), (16, 6), (32, 4), (JOB_MAX, 1)];

const GOLDEN: f64 = 0.618_033_988_749_894_9;
const MINUTE: f64 = 60e9;
const DURATION_MINUTES: f64 = 25.0;
const DURATION_SIGMA: f64 = 0.9;

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
        let plan = Plan { number: self.number, arrival: self.arrival, nodes, requests };
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
    pub(super) input: u64,
    /// Records of the input per process, read in turn again and again.
    pub(super) input_records: u64,
    pub(super) broadcast: u64,
    /// Large reads that cover the broadcast file.
    pub(super) broadcast_reads: u64,
    pub(super) output: u64,
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
        let steps = 20 + random.below(41);
        let duration = random.lognormal(DURATION_MINUTES, DURATION_SIGMA) * MINUTE;
        let output = layout.scratch(scratch.start);
        let checkpoint = output + nodes * OUTPUT_MAX;
        // A user's files are the same for all of his jobs.
        let taste = fraction_of(user);
        Self {
            user,
            nodes,
            running: plan.nodes,
            requests: plan.requests,
            steps,
            think: (duration / steps as f64) as u64,
            scratch,
            input: layout.input(user),
            input_records: 40 + (taste * (INPUT_RECORDS_MAX - 40) as f64) as u64,
            broadcast: layout.broadcast(user),
            broadcast_reads: 10 * (1 + user % 3),
            output,
            output_bytes: (2 + random.below(2)) * OUTPUT_MAX / 8,
            checkpoint,
            section: (5 + random.below(4)) * SECTION_MAX / 8,
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
            0 => (self.input, self.nodes * self.input_records * STRIDE),
            1 => (self.broadcast, large_read(self.broadcast_reads).0),
            2 => (self.output + rank * OUTPUT_MAX, self.output_bytes),
            3 => (self.checkpoint, self.nodes * self.section),
            _ => (self.results, self.nodes * self.result_records * STRIDE),
        }
    }
}

/// The large reads of a file: seven of ten take two chunks, the others one. Offset and size.
pub(super) const fn large_read(index: u64) -> (u64, u64) {
    let two = (index + 1) * 7 / 10 - index * 7 / 10;
    ((index + index * 7 / 10) * CHUNK, (1 + two) * CHUNK)
}

// The parts of a place in the ring fill it.
const _: () = assert!(SCRATCH >= OUTPUT_MAX + SECTION_MAX + 48 * STRIDE);
