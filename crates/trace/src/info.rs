//! What is in a trace.

mod blocks;
mod reuse;
mod show;

use std::collections::HashSet;
use std::time::Duration;

use blocks::Blocks;
pub use reuse::Reuse;

use crate::{Op, Request, Skipped, Source, TraceError};

/// What a trace asks for, how much of it twice, and what its nodes share.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Info {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// All requests.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Opens and closes.
    pub metadata: u64,
    /// Messages.
    pub sends: u64,
    /// Bytes that are read.
    pub bytes_read: u64,
    /// Bytes that are written.
    pub bytes_written: u64,
    /// Blocks that are read, each as often as it is read.
    pub block_reads: u64,
    /// Blocks that are written, likewise.
    pub block_writes: u64,
    /// Different nodes.
    pub nodes: u64,
    /// Different volumes.
    pub volumes: u64,
    /// Different processes, at most [`Info::PROCESSES_MAX`].
    pub processes: u64,
    /// From the first request to the last, if the trace has times.
    pub span: Option<Duration>,
    /// What was left out, by the reason.
    pub skipped: Skipped,
    /// What follows is from one block in so many; exact if it is 1.
    pub sample: u64,
    /// Different blocks that are read or written.
    pub blocks: u64,
    /// Of these, blocks that more than one node touches.
    pub shared_blocks: u64,
    /// Of the block reads that follow (sampled like the blocks): all.
    pub sampled_block_reads: u64,
    /// Block reads where another node touched the block last.
    pub reads_after_other: u64,
    /// Block reads where the last write to the block (if there was one) was another node's.
    pub reads_after_write_of_other: u64,
    /// How far apart two references to the same block are, over all nodes.
    pub reuse: Reuse,
}

impl Info {
    /// The most different blocks of which all is kept; from there on a sample.
    pub const BLOCKS_MAX: usize = 1 << 24;

    /// Processes are not counted beyond this number.
    pub const PROCESSES_MAX: usize = 1 << 22;

    /// Reads a source to its end. Memory grows with the number of different blocks (about 100 bytes each) up
    /// to [`Info::BLOCKS_MAX`].
    ///
    /// # Errors
    /// What the source reports; or a block has no bytes.
    pub fn read(source: &mut dyn Source, block_bytes: u32) -> Result<Self, TraceError> {
        Self::read_sampled(source, block_bytes, Self::BLOCKS_MAX)
    }

    /// As [`Info::read`], with another limit for the number of blocks.
    ///
    /// # Errors
    /// As [`Info::read`].
    pub fn read_sampled(
        source: &mut dyn Source,
        block_bytes: u32,
        blocks_max: usize,
    ) -> Result<Self, TraceError> {
        if block_bytes == 0 {
            return Err(TraceError::setting("block size", 0, "blocks have at least 1 byte"));
        }
        let mut info = Self { block_bytes, ..Self::default() };
        let mut blocks = Blocks::new(blocks_max);
        let mut seen = Seen::default();
        let mut times = None;
        while let Some(request) = source.next()? {
            let (first, _) = times.unwrap_or((request.time, request.time));
            times = Some((first, request.time));
            info.count(&request);
            seen.note(&request);
            if request.op.is_data() {
                let write = request.op == Op::Write;
                for block in request.blocks(block_bytes) {
                    // Offsets have 44 bits at most in files; beyond that, volumes could meet.
                    let key = (u64::from(request.volume) << 48) ^ block;
                    blocks.refer(key, request.node, write);
                }
            }
        }
        info.nodes = seen.nodes.len() as u64;
        info.volumes = seen.volumes.len() as u64;
        info.processes = seen.processes.len() as u64;
        info.span = times.filter(|_| source.has_times()).map(|(first, last)| last.saturating_sub(first));
        info.skipped = source.skipped().clone();
        info.sample = blocks.weight();
        info.blocks = blocks.distinct();
        info.shared_blocks = blocks.shared();
        info.sampled_block_reads = blocks.sharing.reads;
        info.reads_after_other = blocks.sharing.after_other;
        info.reads_after_write_of_other = blocks.sharing.after_write_of_other;
        info.reuse = blocks.reuse;
        Ok(info)
    }

    fn count(&mut self, request: &Request) {
        let range = request.blocks(self.block_bytes);
        let blocks = range.end - range.start;
        self.requests += 1;
        match request.op {
            Op::Read => {
                self.reads += 1;
                self.bytes_read += u64::from(request.bytes);
                self.block_reads += blocks;
            }
            Op::Write => {
                self.writes += 1;
                self.bytes_written += u64::from(request.bytes);
                self.block_writes += blocks;
            }
            Op::Trim => self.trims += 1,
            Op::Flush => self.flushes += 1,
            Op::Open | Op::Close => self.metadata += 1,
            Op::Send { .. } => self.sends += 1,
        }
    }

    /// The share of reads among reads and writes, 0 to 1.
    #[must_use]
    pub fn read_share(&self) -> f64 {
        share(self.reads, self.reads + self.writes)
    }

    /// Bytes of the mean read.
    #[must_use]
    pub fn mean_read_bytes(&self) -> f64 {
        share(self.bytes_read, self.reads)
    }

    /// Bytes of the mean write.
    #[must_use]
    pub fn mean_write_bytes(&self) -> f64 {
        share(self.bytes_written, self.writes)
    }

    /// Bytes of all different blocks.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// The share of the blocks that more than one node touches.
    #[must_use]
    pub fn shared_block_share(&self) -> f64 {
        share(self.shared_blocks, self.blocks)
    }

    /// The share of the block reads where another node touched the block last: what a cooperative cache may
    /// serve.
    #[must_use]
    pub fn after_other_share(&self) -> f64 {
        share(self.reads_after_other, self.sampled_block_reads)
    }

    /// The share of the block reads where another node wrote the block last: what coherence must deliver.
    #[must_use]
    pub fn after_write_of_other_share(&self) -> f64 {
        share(self.reads_after_write_of_other, self.sampled_block_reads)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Numbers that were met. There are not many nodes and volumes.
#[derive(Default)]
struct Seen {
    nodes: HashSet<u32>,
    volumes: HashSet<u16>,
    processes: HashSet<u32>,
    last: Option<(u32, u16, u32)>,
}

impl Seen {
    fn note(&mut self, request: &Request) {
        let now = (request.node, request.volume, request.process);
        if self.last != Some(now) {
            self.last = Some(now);
            self.nodes.insert(request.node);
            self.volumes.insert(request.volume);
            if self.processes.len() < Info::PROCESSES_MAX {
                self.processes.insert(request.process);
            }
        }
    }
}
