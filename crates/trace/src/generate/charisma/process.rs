//! The processes of a job: all do the same steps, each on its part of the data.

use super::job::{FILES, Job, Records};
use super::layout::{CHUNK, OUTPUT_MAX, PIECE, READERS, SLOT, SWEEP, TABLE_ROWS, table_row};
use crate::Op;

/// The kinds of requests, in the order in which a step has them, with their shares of all reads and writes.
///
/// Table 1 fixes the share of reads, and for reads and for writes the mean size and the 8 KiB blocks per
/// request. These leave little choice: the small requests must not straddle blocks, and must not be tiny. How the
/// large reads are divided decides where the blocks are found. Segments are read over and over: local. Those of
/// others have just been used by their owners: remote. A part of a table has not been used for long when the first process reads
/// it: disk. For those that read it later it is where memory has room: in one cache of all nodes, but not always where the memory
/// holds replicas of segments, too. So PAFS has 95 % global hits and xFS 92 %.
const KINDS: [(Kind, f64); 9] = [
    (Kind::Segment, 0.0734 * READS),
    (Kind::Exchange, 0.0048 * READS),
    (Kind::Table, 0.0264 * READS),
    (Kind::Record, 0.6954 * READS),
    (Kind::Peek, 0.20 * READS),
    (Kind::Output, 0.735 * WRITES),
    (Kind::Result, 0.17 * WRITES),
    (Kind::Rewrite, 0.045 * WRITES),
    (Kind::Checkpoint, 0.050 * WRITES),
];
const READS: f64 = 812.0 / 2_799.0;
const WRITES: f64 = 1.0 - READS;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Sweeps over the process's segment of the input and the border of the next one, as out-of-core programs do in every time step.
    Segment,
    /// Reads the segment of another process, as for a transposition.
    Exchange,
    /// Reads a part of a table: its own next one, then those that its neighbours have read before.
    Table,
    /// Reads a small record of the input.
    Record,
    /// Reads two records: of the neighbour's results, or of the parameters at the head of the table.
    Peek,
    /// Writes the next small record of the process's own output, over and over.
    Output,
    /// Writes a small record of the shared results; the processes interleave.
    Result,
    /// Writes a large piece of the process's own output, over and over.
    Rewrite,
    /// Writes a large piece of the process's section of the shared checkpoint.
    Checkpoint,
}

impl Kind {
    /// Whether it is done at the start of a phase, not in every step.
    const fn starts_phase(self) -> bool {
        matches!(self, Self::Exchange | Self::Peek)
    }
}

/// Parts of a run. In each, a process works on the data that the next one had before.
const PHASES: u64 = 7;
/// Small reads and writes, in their slots.
const RECORD: u64 = SLOT;
const WRITTEN: u64 = 1920;
const PEEK: u64 = 3840;
/// Two slots that a peek looks at; all processes go through these pairs of parameters again and again.
const PAIR: u64 = 2 * SLOT;
const PARAMETERS: u64 = 16;
/// Rows of records that a process reads before it goes on to another column.
const ROWS: u64 = CHUNK / SLOT / 4;

/// One request, without time.
pub(super) struct Action {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

/// What a process does next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Open(u32),
    Work,
    Close(u32),
    Unlink,
    End,
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) job: u64,
    rank: u64,
    stage: Stage,
    step: u64,
    /// Requests so far, by kind.
    counts: [u64; KINDS.len()],
    /// What these will be at the end of the step.
    due: [u64; KINDS.len()],
}

impl Process {
    pub(super) fn new(job: u64, rank: u32) -> Self {
        let (rank, stage) = (u64::from(rank), Stage::Open(0));
        Self { job, rank, stage, step: 0, counts: [0; KINDS.len()], due: [0; KINDS.len()] }
    }

    /// Whether the next request is the first one of a step.
    pub(super) fn begins_step(&self) -> bool {
        matches!(self.stage, Stage::Work) && self.counts == self.due
    }

    /// The next request; none at the end.
    pub(super) fn step(&mut self, job: &Job, may_unlink: bool) -> Option<Action> {
        loop {
            match self.stage {
                Stage::Open(file) => {
                    self.stage = if file + 1 < FILES { Stage::Open(file + 1) } else { Stage::Work };
                    return Some(self.on_file(job, Op::Open, file));
                }
                Stage::Work => match self.work(job) {
                    Some(action) => return Some(action),
                    None => self.stage = Stage::Close(0),
                },
                Stage::Close(file) => {
                    self.stage = if file + 1 < FILES { Stage::Close(file + 1) } else { Stage::Unlink };
                    return Some(self.on_file(job, Op::Close, file));
                }
                Stage::Unlink => {
                    self.stage = Stage::End;
                    if may_unlink {
                        return Some(self.on_file(job, Op::Trim, 2));
                    }
                }
                Stage::End => return None,
            }
        }
    }

    fn on_file(&self, job: &Job, op: Op, file: u32) -> Action {
        let (offset, bytes) = job.file(file, self.rank);
        Action { op, offset, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
    }

    /// The next read or write; none after the last step.
    fn work(&mut self, job: &Job) -> Option<Action> {
        loop {
            let counts = self.counts.iter_mut().zip(self.due);
            for ((kind, _), (count, due)) in KINDS.into_iter().zip(counts) {
                if *count < due {
                    *count += 1;
                    let number = *count - 1;
                    return Some(self.action(job, kind, number));
                }
            }
            if self.step == job.steps {
                return None;
            }
            self.step += 1;
            let done = self.step as f64 / job.steps as f64;
            let phases = (self.phase(job) + 1) as f64 / PHASES as f64;
            self.due = KINDS.map(|(kind, share)| {
                let part = if kind.starts_phase() { phases } else { done };
                (share * job.requests as f64 * part + self.turn(job)) as u64
            });
        }
    }

    fn action(&self, job: &Job, kind: Kind, number: u64) -> Action {
        let output = job.output + self.rank * OUTPUT_MAX;
        let (op, offset, bytes) = match kind {
            Kind::Segment => (Op::Read, job.input + self.column(job) * CHUNK, SWEEP),
            Kind::Exchange => {
                let others = (job.nodes - 1).max(1);
                let column = (self.column(job) + 1 + number % others) % job.nodes;
                (Op::Read, job.input + column * CHUNK, SWEEP)
            }
            Kind::Table => {
                // Few processes read their own again.
                let neighbour = if job.nodes < READERS { 0 } else { number % READERS };
                let row = number / READERS % TABLE_ROWS;
                let part = 1 + row * table_row(job.nodes) + self.rank + neighbour;
                (Op::Read, job.table + part * CHUNK, CHUNK)
            }
            Kind::Record => (Op::Read, job.input + self.record(job, number), RECORD),
            Kind::Peek if job.reads_results => {
                let pairs = job.nodes * job.result_records / 2;
                let pair = (self.result(job, number) / 2 + 1) % pairs;
                (Op::Read, job.results + pair * PAIR, PEEK)
            }
            Kind::Peek => (Op::Read, job.table + number % PARAMETERS * PAIR, PEEK),
            Kind::Output => (Op::Write, output + number * SLOT % PIECE, WRITTEN),
            Kind::Result => (Op::Write, job.results + self.result(job, number) * SLOT, WRITTEN),
            Kind::Rewrite => (Op::Write, output + PIECE + number * PIECE % (job.output_bytes - PIECE), PIECE),
            Kind::Checkpoint => {
                let at = self.column(job) * job.section + number * PIECE % job.section;
                (Op::Write, job.checkpoint + at, PIECE)
            }
        };
        Action { op, offset, bytes: bytes as u32 }
    }

    /// A fraction by rank. The processes do in turn what they do rarely: whoever joins finds the others at work.
    fn turn(&self, job: &Job) -> f64 {
        (self.rank as f64 + 0.5) / job.nodes as f64
    }

    /// The phase of the current step.
    fn phase(&self, job: &Job) -> u64 {
        let steps = self.step.saturating_sub(1) as f64 / job.steps as f64;
        ((steps * PHASES as f64 + self.turn(job)) as u64).min(PHASES - 1)
    }

    /// Whose data the process works on.
    fn column(&self, job: &Job) -> u64 {
        (self.rank + self.phase(job)) % job.nodes
    }

    /// Where a small record lies in the input.
    fn record(&self, job: &Job, number: u64) -> u64 {
        let run = match job.records {
            // Each record twice: first to see what it needs, then to use it.
            Records::Segmented => return self.column(job) * CHUNK + number / 2 * SLOT % CHUNK,
            Records::Nested => 2,
            Records::Interleaved => 1,
        };
        // A row has at least a block, also where few processes share it.
        let columns = job.nodes.max(4 / run);
        let (pass, row, within) = (number / (ROWS * run), number / run % ROWS, number % run);
        let column = (self.rank + pass) % columns;
        ((row * columns + column) * run + within) * SLOT
    }

    /// Which record of the results: each process takes the one after its neighbour's, and with each pass over
    /// the file the parts move on by one process.
    fn result(&self, job: &Job, number: u64) -> u64 {
        let (pass, row) = (number / job.result_records, number % job.result_records);
        row * job.nodes + (self.rank + pass) % job.nodes
    }
}
