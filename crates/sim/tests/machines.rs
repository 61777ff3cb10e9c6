//! The presets reproduce the costs that the papers give, without contention (CARD-T1, SIM-5).

use std::time::Duration;

use cards_sim::{Library, Machine, Setup, Timing, WarmUp, run};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

fn machine(name: &str) -> Machine {
    Library::default().find(name).unwrap().clone()
}

/// Reads of a block at a node, by one process that goes from node to node: each begins when the one before is answered.
struct Reads {
    block_bytes: u32,
    reads: Vec<(u32, u64)>,
    next: usize,
    skipped: Skipped,
}

impl Source for Reads {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let Some(&(node, block)) = self.reads.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(Request {
            time: Duration::ZERO,
            compute: Duration::ZERO,
            process: 0,
            node,
            volume: 0,
            op: Op::Read,
            offset: block * u64::from(self.block_bytes),
            bytes: self.block_bytes,
        }))
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next as u64, total: Some(self.reads.len() as u64) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        false
    }
}

/// Microseconds that the last of these reads takes, each done before the next begins. Node 0 has the disk.
fn last_read_us(machine_name: &str, reads: &[(u32, u64)]) -> f64 {
    let mut setup = Setup::new(machine(machine_name), "rd");
    setup.timing = Timing::Serial;
    setup.warm_up = WarmUp::Requests(reads.len() as u64 - 1);
    setup.cache_blocks = vec![64];
    setup.nodes = 3;
    let (block_bytes, reads) = (setup.block_bytes, reads.to_vec());
    let mut source = Reads { block_bytes, reads, next: 0, skipped: Skipped::default() };
    let report = run(&setup, "reads", &mut source, &mut ()).unwrap();
    assert_eq!(report.requests, 1);
    report.read_mean_us
}

#[track_caller]
fn within_1_percent(found: f64, want: f64) {
    assert!((found - want).abs() <= want * 0.01, "{found} is not within 1 % of {want}");
}

#[test]
fn cards2003_reads_cached_blocks_as_fast_as_table_1_says() {
    within_1_percent(last_read_us("cards2003", &[(0, 7), (1, 7)]), 300.0);
    within_1_percent(last_read_us("cards2003", &[(0, 7), (1, 7), (1, 7)]), 30.0);
}

#[test]
fn cards2003_reads_the_disk_as_fast_as_table_1_says() {
    within_1_percent(last_read_us("cards2003", &[(0, 7)]), 12_000.0);
    within_1_percent(last_read_us("cards2003", &[(1, 7)]), 12_300.0);
}

#[test]
fn cards2003_reads_what_follows_at_the_effective_sequential_rate() {
    within_1_percent(last_read_us("cards2003", &[(0, 7), (0, 8)]), 870.0 + 30.0);
}

#[test]
fn cards2003_has_the_caches_of_its_nodes() {
    let mib = |blocks: u32| blocks / 256;
    let caches: Vec<u32> = machine("cards2003").cache_blocks(4096).into_iter().map(mib).collect();
    assert_eq!(caches, [240, 225, 225]);
}

#[test]
fn pm_and_now_are_table_2() {
    let (pm, now) = (machine("pm"), machine("now"));
    assert_eq!([pm.nodes, now.nodes, pm.disks, now.disks], [128, 50, 16, 8]);
    assert_eq!([pm.cache_bytes[0], now.cache_bytes[0]], [1 << 20, 16 << 20]);
    assert_eq!([pm.block_bytes, now.block_bytes], [8192, 8192]);
    let us = |duration: Duration| duration.as_nanos() as f64 / 1e3;
    assert_eq!([pm.local_port, now.local_port].map(us), [2.0, 50.0]);
    assert_eq!([pm.remote_port, now.remote_port].map(us), [10.0, 100.0]);
    // A startup, and 8 KiB at 500, 40, 200 and 19.4 MB/s.
    within_1_percent(us(pm.local_copy_of(8192)), 1.0 + 16.4);
    within_1_percent(us(now.local_copy_of(8192)), 25.0 + 204.8);
    within_1_percent(us(pm.remote_copy_of(8192)), 5.0 + 41.0);
    within_1_percent(us(now.remote_copy_of(8192)), 50.0 + 422.3);
}

#[test]
fn now_reads_as_table_2_adds_up() {
    let copy = 25.0 + 204.8;
    within_1_percent(last_read_us("now", &[(0, 7)]), 10_500.0 + 819.2 + copy);
    within_1_percent(last_read_us("now", &[(0, 7), (0, 7)]), copy);
    // The question, the answer with the block and its 64 bytes of header, and the copy to the reader.
    let wire = (64.0 + 64.0 + 8192.0) / 19.4;
    within_1_percent(last_read_us("now", &[(0, 7), (1, 7)]), 100.0 + 50.0 + wire + copy);
}
