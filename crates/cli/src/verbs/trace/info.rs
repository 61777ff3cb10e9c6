//! `cards trace info`: what a trace asks for.

use std::collections::BTreeMap;
use std::process::ExitCode;

use cards_config::size;
use cards_trace::open;
use clap::Args;
use serde::Serialize;

use super::watched::Watched;
use crate::error::Error;
use crate::output;
use crate::verbs::sim::{Reading, SimError, parse_block};

/// Show what is in a trace: requests, sizes, what is read again, what nodes share
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards trace info recording.cards
  cards trace info web.csv.gz --format msr --block 8K --json
  cards trace info gen:boot:nodes=8")]
pub(crate) struct Info {
    /// A trace file, or a generator: gen:NAME:key=value,..
    #[arg(value_name = "TRACE")]
    trace: String,

    /// The unit of counting
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    block: String,

    #[command(flatten)]
    reading: Reading,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Percentiles of the reuse distance, and sizes of LRU caches in percent of the blocks.
const PERCENTILES: [u8; 5] = [25, 50, 75, 90, 99];
const CACHES: [u8; 8] = [1, 2, 5, 10, 20, 40, 60, 80];

/// What `--json` prints.
#[derive(Serialize)]
struct Shown {
    trace: String,
    requests: u64,
    reads: u64,
    writes: u64,
    trims: u64,
    flushes: u64,
    metadata: u64,
    sends: u64,
    read_share: f64,
    mean_read_bytes: f64,
    mean_write_bytes: f64,
    bytes_read: u64,
    bytes_written: u64,
    nodes: u64,
    processes: u64,
    volumes: u64,
    /// Null if the trace has no times.
    span_s: Option<f64>,
    /// By the reason.
    skipped: BTreeMap<&'static str, u64>,
    block_bytes: u32,
    block_reads: u64,
    block_writes: u64,
    /// What follows is from one block in so many.
    sample: u64,
    blocks: u64,
    footprint_bytes: u64,
    shared_blocks: u64,
    reads_after_other_share: f64,
    reads_after_write_of_other_share: f64,
    /// Percentile to blocks; null if nothing is referred to again.
    reuse_distance: BTreeMap<u8, Option<u64>>,
    /// Size of the cache in percent of the blocks to the share of hits.
    lru_hit_ratio: BTreeMap<u8, f64>,
}

impl Info {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let block_bytes = parse_block("block", &self.block, 512)?;
        let source = open(&self.trace, &self.reading.options()?).map_err(SimError::from)?;
        let mut watched = Watched::new(source, "reading");
        let info = cards_trace::Info::read(&mut watched, block_bytes).map_err(SimError::from)?;
        if let Some(code) = watched.stopped() {
            return Ok(code);
        }
        drop(watched);
        if self.json {
            output::print_json(&shown(self.trace, &info))?;
        } else {
            output::print(&format!("{}, {} blocks\n{info}", self.trace, size::human(block_bytes.into())))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(trace: String, info: &cards_trace::Info) -> Shown {
    let distance = |&percentile: &u8| (percentile, info.reuse.percentile(percentile.into()));
    let ratio = |&percent: &u8| {
        let blocks = (info.blocks * u64::from(percent) / 100).max(1);
        (percent, info.reuse.lru_hit_ratio(blocks))
    };
    Shown {
        trace,
        requests: info.requests,
        reads: info.reads,
        writes: info.writes,
        trims: info.trims,
        flushes: info.flushes,
        metadata: info.metadata,
        sends: info.sends,
        read_share: info.read_share(),
        mean_read_bytes: info.mean_read_bytes(),
        mean_write_bytes: info.mean_write_bytes(),
        bytes_read: info.bytes_read,
        bytes_written: info.bytes_written,
        nodes: info.nodes,
        processes: info.processes,
        volumes: info.volumes,
        span_s: info.span.map(|span| span.as_secs_f64()),
        skipped: info.skipped.iter().collect(),
        block_bytes: info.block_bytes,
        block_reads: info.block_reads,
        block_writes: info.block_writes,
        sample: info.sample,
        blocks: info.blocks,
        footprint_bytes: info.footprint_bytes(),
        shared_blocks: info.shared_blocks,
        reads_after_other_share: info.after_other_share(),
        reads_after_write_of_other_share: info.after_write_of_other_share(),
        reuse_distance: PERCENTILES.iter().map(distance).collect(),
        lru_hit_ratio: CACHES.iter().map(ratio).collect(),
    }
}
