//! How fast the simulator is, beside libCacheSim.
//!
//! All get the same block references in the same order. They do not do the same: libCacheSim looks a block up
//! in one cache and moves it, ours runs a cluster's protocol, with messages, disks and their queues. So the
//! table says what a request costs each of them and what it does for it; which is faster says little.
//! Processor time counts, which other work on the machine hardly changes, and the trace is in memory or drawn
//! before the clock runs, for both.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use cards_sim::{Library, Setup, Timing};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};
use serde::Serialize;

use crate::Error;
use crate::proc::cpu::thread_ns;
use crate::report::{Style, table};
use crate::size::format_count;

/// What to measure.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// The workload: a trace or a generator.
    pub trace: String,
    /// A Python that has the package `libcachesim`.
    pub python: String,
    /// How often each is measured: the fastest counts, the others had company.
    pub rounds: u16,
}

/// One simulator's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub name: String,
    /// What it does per block request.
    pub does: &'static str,
    /// Nodes it simulates.
    pub nodes: u16,
    /// Block requests.
    pub blocks: u64,
    /// Of a second of processor time.
    pub blocks_per_cpu_s: f64,
    /// Share of block reads found in a memory (of all references, for libCacheSim).
    pub hit_ratio: f64,
    /// Bytes of tables per cached block.
    pub table_bytes: Option<f64>,
}

/// What was measured, and what was not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulators {
    /// The figures.
    pub rows: Vec<Row>,
    /// Why libCacheSim is missing.
    pub skipped: Option<String>,
}

/// Block size and cache size of the comparison: those of the papers' network of workstations.
const MACHINE: &str = "now";

/// Measures.
///
/// # Errors
/// The trace cannot be read or simulated.
pub fn run(options: &SimulatorOptions) -> Result<Simulators, Error> {
    let failed = |problem: &dyn std::fmt::Display| Error::Option {
        option: "trace",
        value: options.trace.clone(),
        remedy: problem.to_string(),
    };
    let machine = Library::default().find(MACHINE).map_err(|e| failed(&e))?.clone();
    let mut source =
        cards_trace::open(&options.trace, &cards_trace::Options::default()).map_err(|e| failed(&e))?;
    let mut requests = Vec::new();
    while let Some(request) = source.next().map_err(|e| failed(&e))? {
        requests.push(request);
    }
    let mut rows = Vec::new();
    let alone: Vec<Request> = requests.iter().map(|r| Request { node: 0, process: 0, ..*r }).collect();
    let setups = [
        ("cards, rd", 1, "one node's cache and its disk, one request at a time", Timing::Serial),
        (
            "cards, hscc",
            machine.nodes,
            "a cluster: lookup, up to three hops, eviction, queues",
            Timing::Trace,
        ),
        (
            "cards, pafs",
            machine.nodes,
            "a cluster without replication: one server per extent, copies, queues",
            Timing::Trace,
        ),
        ("cards, glru", machine.nodes, "one LRU over all memories, with the machine's queues", Timing::Trace),
    ];
    for (name, nodes, does, timing) in setups {
        let mut setup = Setup::new(machine.clone(), name.trim_start_matches("cards, "));
        (setup.nodes, setup.timing) = (nodes, timing);
        let requests = if nodes == 1 { &alone } else { &requests };
        let mut best: Option<Row> = None;
        for _ in 0..options.rounds {
            let mut source = Memory { requests, at: 0, skipped: Skipped::default() };
            let before = thread_ns();
            let report = cards_sim::run(&setup, name, &mut source, &mut ()).map_err(|e| failed(&e))?;
            let seconds = (thread_ns() - before) as f64 / 1e9;
            let row = Row {
                name: name.into(),
                does,
                nodes,
                blocks: report.blocks,
                blocks_per_cpu_s: report.blocks as f64 / seconds,
                hit_ratio: report.global_hit_ratio,
                table_bytes: Some(report.table_bytes_per_block),
            };
            if best.as_ref().is_none_or(|best| row.blocks_per_cpu_s > best.blocks_per_cpu_s) {
                best = Some(row);
            }
        }
        rows.extend(best);
    }
    let blocks = machine.cache_bytes.first().copied().unwrap_or(0) / u64::from(machine.block_bytes);
    let skipped =
        match libcachesim(options, &requests, machine.block_bytes, blocks * u64::from(machine.nodes)) {
            Ok(row) => {
                rows.insert(0, row);
                None
            }
            Err(reason) => Some(reason),
        };
    Ok(Simulators { rows, skipped })
}

/// A trace that has been read.
struct Memory<'a> {
    requests: &'a [Request],
    at: usize,
    skipped: Skipped,
}

impl Source for Memory<'_> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let request = self.requests.get(self.at).copied();
        self.at += 1;
        Ok(request)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.at as u64, total: Some(self.requests.len() as u64) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        true
    }
}

const SCRIPT: &str = "
import sys, time
import libcachesim as lcs
init = lcs.ReaderInitParam(ignore_obj_size=True)
best, ratio = None, 0
for _ in range(int(sys.argv[3])):
    reader = lcs.TraceReader(trace=sys.argv[1], trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE, reader_init_params=init)
    cache = lcs.LRU(cache_size=int(sys.argv[2]))
    begin = time.process_time()
    miss = cache.process_trace(reader)[0]
    used = time.process_time() - begin
    if best is None or used < best:
        best, ratio = used, 1 - miss
print(best, ratio)
";

/// One LRU of as many blocks as all nodes have together, over the same block references.
fn libcachesim(
    options: &SimulatorOptions,
    requests: &[Request],
    block_bytes: u32,
    cache_blocks: u64,
) -> Result<Row, String> {
    let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let references = write_references(file.path(), requests, block_bytes).map_err(|e| e.to_string())?;
    let output = Command::new(&options.python)
        .args(["-c", SCRIPT])
        .arg(file.path())
        .args([cache_blocks.to_string(), options.rounds.to_string()])
        .output()
        .map_err(|error| format!("{}: {error}", options.python))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.lines().last().unwrap_or("it failed");
        return Err(format!(
            "{}: {last}; `pip install libcachesim`, or name another with --python",
            options.python
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(seconds)), Some(Ok(hit_ratio))) = (numbers.next(), numbers.next()) else {
        return Err(format!("{}: no figures in {text:?}", options.python));
    };
    Ok(Row {
        name: "libCacheSim, LRU".into(),
        does: "one cache: a look-up and a move in a list; no time, no nodes",
        nodes: 1,
        blocks: references,
        blocks_per_cpu_s: references as f64 / seconds,
        hit_ratio,
        table_bytes: None,
    })
}

/// In the oracleGeneral format: time, object, size, next access (unknown).
fn write_references(path: &Path, requests: &[Request], block_bytes: u32) -> std::io::Result<u64> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut references = 0;
    for request in requests.iter().filter(|r| matches!(r.op, Op::Read | Op::Write)) {
        for block in request.blocks(block_bytes) {
            out.write_all(&(request.time.as_secs() as u32).to_le_bytes())?;
            out.write_all(&(u64::from(request.volume) << 40 | block).to_le_bytes())?;
            out.write_all(&1u32.to_le_bytes())?;
            out.write_all(&(-2i64).to_le_bytes())?;
            references += 1;
        }
    }
    out.flush()?;
    Ok(references)
}

/// The table.
#[must_use]
pub fn format(simulators: &Simulators, style: Style) -> String {
    let rows: Vec<Vec<String>> = simulators
        .rows
        .iter()
        .map(|row| {
            vec![
                row.name.clone(),
                row.nodes.to_string(),
                format_count(row.blocks as f64),
                format_count(row.blocks_per_cpu_s),
                format!("{:.1} %", row.hit_ratio * 100.0),
                row.table_bytes.map_or("-".into(), |bytes| format!("{bytes:.0}")),
                row.does.into(),
            ]
        })
        .collect();
    let head = ["", "nodes", "block requests", "per CPU second", "hits", "B/block", "what a request does"];
    let mut text = table(&head, &rows, style);
    if let Some(reason) = &simulators.skipped {
        text += &format!("skipped: libCacheSim: {reason}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_measured_with_or_without_python() {
        let options = SimulatorOptions {
            trace: "gen:oltp:nodes=4,requests=2000,bytes=8MiB".into(),
            python: "/nonexistent/python".into(),
            rounds: 1,
        };
        let simulators = run(&options).unwrap();
        assert_eq!(simulators.rows.len(), 4);
        assert!(simulators.rows.iter().all(|row| row.blocks > 0 && row.blocks_per_cpu_s > 0.0));
        let text = format(&simulators, Style::Plain);
        assert!(text.contains("skipped: libCacheSim: /nonexistent/python"), "{text}");
    }
}
