//! Memory: little for each cached block, none that grows with the trace.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use cards_sim::{Report, RunError, Setup, Timing, run};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

use crate::lab::{Draw, core_policies, policies, request, setup};

thread_local! {
    /// Bytes allocated by this thread and not freed, and the most there were: a run stays on its thread.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the rules of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Requests made up as they are asked for, so that the trace takes no memory.
struct Made<F> {
    make: F,
    done: u64,
    total: u64,
    skipped: Skipped,
}

impl<F: FnMut(u64) -> Request + Send> Source for Made<F> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.done == self.total {
            return Ok(None);
        }
        self.done += 1;
        Ok(Some((self.make)(self.done - 1)))
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.total) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        true
    }
}

/// The most bytes that a run has had at a time.
#[track_caller]
fn peak(setup: &Setup, total: u64, make: impl FnMut(u64) -> Request + Send) -> (Report, usize) {
    let mut source = Made { make, done: 0, total, skipped: Skipped::default() };
    let before = NOW.get();
    MOST.set(before);
    let report = run(setup, "made", &mut source, &mut ());
    match report {
        Ok(report) => (report, (MOST.get() - before) as usize),
        Err(error @ RunError::Setup(_)) => panic!("{}: {error}", setup.policy),
        Err(error) => panic!("{error}"),
    }
}

/// All nodes read, in turn, blocks of which most are cached somewhere.
fn mixed(nodes: u16, blocks: u64) -> impl FnMut(u64) -> Request + Send {
    let mut draw = Draw(61);
    move |number| {
        let op = if draw.below(20) == 0 { Op::Write } else { Op::Read };
        let block = draw.below(blocks).min(draw.below(blocks));
        let time = Duration::from_micros(number * 2_000);
        Request { time, ..request(draw.below(nodes.into()) as u16, op, block, 1) }
    }
}

/// Large and slow, and what it found is shown: `CARDS_SCALE=full cargo test --profile sim -p cards-sim --test main scale -- --nocapture`.
fn is_full() -> bool {
    std::env::var_os("CARDS_SCALE").is_some_and(|value| value == "full")
}

#[test]
fn a_cached_block_costs_at_most_100_bytes_of_all_tables_and_queues() {
    let (nodes, blocks, requests) = if is_full() { (16, 65_536, 2_000_000) } else { (4, 4_096, 24_000) };
    for policy in policies().filter(|&policy| policy != "opt") {
        let setup = Setup { check: false, timing: Timing::Serial, ..setup(policy, nodes, blocks) };
        let all = u64::from(nodes) * u64::from(blocks);
        let (report, most) = peak(&setup, requests, mixed(nodes, all));
        let per_block = most as f64 / all as f64;
        if is_full() {
            println!("{policy}: {per_block:.1} bytes for each of {all} blocks");
        }
        // With `auto`, the candidates' tables for a sample of the blocks, one in 32 here.
        let most = if policy == "auto" { 200.0 } else { 100.0 };
        assert!(per_block <= most, "{policy}: {per_block:.1} bytes for each of {all} blocks");
        assert!(report.table_bytes_per_block <= 100.0, "{policy}: {}", report.table_bytes_per_block);
    }
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    // With any other timing a fixed number of requests is read ahead, at first.
    let (timings, lengths) = if is_full() {
        (vec![Timing::Serial, Timing::Fast], [100_000, 1_000_000])
    } else {
        (vec![Timing::Serial], [400, 4_000])
    };
    for policy in policies().filter(|&policy| policy != "opt") {
        for &timing in &timings {
            let setup = Setup { check: false, timing, ..setup(policy, 3, 64) };
            let [short, long] = lengths.map(|total| peak(&setup, total, mixed(3, 1_000)).1);
            if is_full() {
                println!("{policy} {timing:?}: {short} bytes, then {long}");
            }
            assert!(long < short * 2 + 65_536, "{policy} {timing:?}: {short} bytes, then {long}");
        }
    }
}

/// The requests of a process that is done need no memory any more: here one process after the other has many.
#[test]
fn processes_that_come_and_go_leave_no_queues_behind() {
    let setup = Setup { check: false, ..setup("rd", 64, 16) };
    let phases = |count: u64| {
        peak(&setup, count * 70_000, |number| {
            let node = (number / 70_000) as u16;
            request(node, Op::Read, number % 4, 1)
        })
        .1
    };
    let (two, five) = (phases(2), phases(5));
    assert!(five < two * 3 / 2, "{two} bytes with two phases, {five} with five");
}

#[test]
fn a_thousand_nodes_take_bounded_memory() {
    let nodes = 1_000;
    let (shards, chosen): (u16, Vec<_>) =
        if is_full() { (16, core_policies().collect()) } else { (1, vec!["hscc", "gms"]) };
    for policy in chosen {
        let setup = Setup { check: false, shards, ..setup(policy, nodes, 64) };
        let (report, most) = peak(&setup, 1_000, mixed(nodes, 30_000));
        assert_eq!(report.requests, 1_000);
        let per_shard = most / usize::from(nodes) / usize::from(shards);
        if is_full() {
            println!("{policy}: {per_shard} bytes for each shard of {nodes} nodes with {shards} each");
        }
        assert!(per_shard < 64 << 10, "{policy}: {per_shard} bytes for each shard of {nodes} nodes");
    }
}
