//! What every policy does with one small trace, in whole numbers.
//!
//! A change of these numbers is a change of a policy, of a replacement or of the model: make sure that it is meant, then write
//! the table anew and look at the difference:
//!
//! ```text
//! CARDS_GOLDEN=write cargo test -p cards-sim --test main golden
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use cards_core::{Coherence, Handover};
use cards_policies::Replacement;
use cards_sim::{Report, Setup, Timing};
use cards_trace::{Options, RecordWriter, Request, open};

use crate::lab::{Shape, go, policies, random_trace, setup};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn is_written() -> bool {
    env::var_os("CARDS_GOLDEN").is_some_and(|value| value == "write")
}

/// Drawn by [`random_trace`], and committed, so that a change of the generator does not change the numbers.
fn draw() -> Vec<Request> {
    let shape = Shape { nodes: 4, volumes: 2, blocks: 220, requests: 900, writes: 12, others: 15 };
    random_trace(1997, shape)
}

fn trace() -> Vec<Request> {
    let path = data("small.trace");
    if is_written() {
        let mut writer = RecordWriter::new(Vec::new(), 0).unwrap();
        draw().iter().for_each(|request| writer.write(request).unwrap());
        fs::write(&path, writer.finish().unwrap()).unwrap();
    }
    let mut source = open(path.to_str().unwrap(), &Options::default()).unwrap();
    std::iter::from_fn(|| source.next().unwrap()).collect()
}

fn row(setup: &Setup, report: &Report) -> String {
    let timing = match setup.timing {
        Timing::Serial => "serial",
        Timing::Trace => "trace",
        Timing::Fast => "fast",
    };
    let numbers = [
        report.local_hits,
        report.remote_hits,
        report.disk_reads,
        report.disk_writes,
        report.messages,
        report.bytes_moved,
        report.forwarded,
        report.stored_for_others,
        report.more["evictions"],
        report.more["invalidations"],
        // Nanoseconds.
        (report.simulated_s * 1e9).round() as u64,
    ];
    let mut row = format!("{:<24} {:<10} {timing:<6}", setup.policy, report.replacement);
    numbers.iter().for_each(|number| write!(row, " {number}").unwrap());
    row
}

fn table() -> String {
    let mut rows = vec![
        "policy replacement timing: local_hits remote_hits disk_reads disk_writes messages bytes_moved forwarded \
         stored_for_others evictions invalidations simulated_ns"
            .to_owned(),
    ];
    let requests = trace();
    let base = |policy| Setup { disk_nodes: 2, ..setup(policy, 4, 24) };
    for policy in policies().chain(["hscc homes=run ask=measured", "hscc load=home room=dup", "nchance n=0"])
    {
        for timing in [Timing::Serial, Timing::Trace] {
            let setup = Setup { timing, ..base(policy) };
            rows.push(row(&setup, &go(&setup, &requests)));
        }
    }
    for replacement in Replacement::ALL {
        let setup = Setup { replacement, timing: Timing::Serial, ..base("hscc") };
        rows.push(row(&setup, &go(&setup, &requests)));
    }
    let production = Setup {
        coherence: Coherence::Confirmed,
        handover: Handover::Disk,
        shards: 4,
        timing: Timing::Fast,
        ..base("hscc")
    };
    rows.push(row(&production, &go(&production, &requests)));
    rows.join("\n") + "\n"
}

#[test]
fn the_numbers_of_all_policies_are_those_of_the_table() {
    let found = table();
    let path = data("golden.txt");
    if is_written() {
        fs::write(&path, &found).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap();
    let rows = found.lines().zip(want.lines()).filter(|(found, want)| found != want);
    let changed: Vec<String> = rows.map(|(found, want)| format!("- {want}\n+ {found}")).collect();
    assert!(
        changed.is_empty() && found.lines().count() == want.lines().count(),
        "see the head of this file:\n{}",
        changed.join("\n")
    );
}

#[test]
fn the_committed_trace_is_the_one_that_was_drawn() {
    assert!(trace() == draw(), "the generator of random traces has changed: restore it");
}
