//! The processes of a job: all do the same steps, each on its part of the data.

use super::job::{FILES, Job, large_read};
use super::layout::{OUTPUT_MAX, STRIDE};
use crate::Op;

/// The kinds of requests, in the order in which a step has them, with their shares of all reads and writes.
///
/// Table 1 fixes the share of reads, and for reads and for writes the mean size and the 8 KiB blocks per
/// request. These leave little choice: the small requests must not straddle blocks, and must not be tiny.
const KINDS: [(Kind, f64); 7] = [
    (Kind::Record, 0.80 * READS),
    (Kind::Broadcast, 0.132 * READS),
    (Kind::Peek, 0.068 * READS),
    (Kind::Output, 0.64 * WRITES),
    (Kind::Log, 0.10 * WRITES),
    (Kind::Result, 0.09 * WRITES),
    (Kind::Checkpoint, 0.17 * WRITES),
];
const READS: f64 = 812.0 / 2_799.0;
const WRITES: f64 = 1.0 - READS;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Reads a record of the shared input; the processes interleave.
    Record,
    /// Reads a large piece of a file that all processes read from start to end.
    Broadcast,
    /// Reads the head of a record: of the neighbour's results, or of the input.
    Peek,
    /// Appends to the process's own output.
    Output,
    /// Appends a short line to it.
    Log,
    /// Writes a record of the shared results; the processes interleave.
    Result,
    /// Writes a large piece of the shared checkpoint.
    Checkpoint,
}

const RECORD: u64 = 3840;
const PEEK: u64 = 1024;
const OUTPUT: u64 = 2048;
const LOG: u64 = 512;
const PIECE: u64 = 64 << 10;
/// Of a thousand pieces of a checkpoint so many have twice the size.
const LONG_PIECES: u64 = 169;

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
    /// Bytes of checkpoints written.
    checkpointed: u64,
}

impl Process {
    pub(super) fn new(job: u64, rank: u32) -> Self {
        let (rank, stage) = (u64::from(rank), Stage::Open(0));
        Self { job, rank, stage, step: 0, counts: [0; KINDS.len()], due: [0; KINDS.len()], checkpointed: 0 }
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
            let part = job.requests as f64 * self.step as f64 / job.steps as f64;
            self.due = KINDS.map(|(_, share)| (share * part).round() as u64);
        }
    }

    fn action(&mut self, job: &Job, kind: Kind, number: u64) -> Action {
        let (op, offset, bytes) = match kind {
            Kind::Record => (Op::Read, job.input + self.record(job, job.input_records, number), RECORD),
            Kind::Broadcast => {
                let (offset, bytes) = large_read(number % job.broadcast_reads);
                (Op::Read, job.broadcast + offset, bytes)
            }
            Kind::Peek if job.reads_results => {
                let at = self.record(job, job.result_records, number);
                let next = (at + STRIDE) % (job.nodes * job.result_records * STRIDE);
                (Op::Read, job.results + next, PEEK)
            }
            Kind::Peek => (Op::Read, job.input + self.record(job, job.input_records, number), PEEK),
            Kind::Output => {
                // The output starts over when it is full, as one that is written anew every few steps.
                let head = job.output_bytes / 8;
                let at = head + number * OUTPUT % (job.output_bytes - head);
                (Op::Write, job.output + self.rank * OUTPUT_MAX + at, OUTPUT)
            }
            Kind::Log => {
                let at = number * LOG % (job.output_bytes / 8);
                (Op::Write, job.output + self.rank * OUTPUT_MAX + at, LOG)
            }
            Kind::Result => (Op::Write, job.results + self.record(job, job.result_records, number), RECORD),
            Kind::Checkpoint => self.checkpoint(job, number),
        };
        Action { op, offset, bytes: bytes as u32 }
    }

    /// Record by record: each process takes the one after its neighbour's. With each pass over the file
    /// the parts move on by one process.
    fn record(&self, job: &Job, records: u64, number: u64) -> u64 {
        let (pass, row) = (number / records, number % records);
        let column = (self.rank + pass) % job.nodes;
        (row * job.nodes + column) * STRIDE
    }

    /// Piece by piece through a section of the checkpoint; the next checkpoint swaps the sections.
    fn checkpoint(&mut self, job: &Job, number: u64) -> (Op, u64, u64) {
        let long = (number + 1) * LONG_PIECES / 1000 - number * LONG_PIECES / 1000;
        let bytes = (1 + long) * PIECE;
        if self.checkpointed % job.section + bytes > job.section {
            self.checkpointed = self.checkpointed.next_multiple_of(job.section);
        }
        let (pass, at) = (self.checkpointed / job.section, self.checkpointed % job.section);
        self.checkpointed += bytes;
        let column = (self.rank + pass) % job.nodes;
        (Op::Write, job.checkpoint + column * job.section + at, bytes)
    }
}
