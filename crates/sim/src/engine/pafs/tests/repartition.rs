//! Buffers that follow the load.

use cards_core::Instant;
use cards_pafs::CacheServer;
use cards_trace::Op;

use super::super::repartition::readable;
use super::{Bench, setup};
use crate::machine::Library;

const BLOCK: u64 = 8192;

/// Partition sizes after each of some intervals in which all requests go to one of four servers.
fn sizes(policy: &str, intervals: u64) -> Vec<Vec<u32>> {
    let mut bench = Bench::new(&setup(&format!("pafs extent=64 {policy}"), 4, 100));
    let first = bench.block_of(2);
    let mut sizes = Vec::new();
    for interval in 1..=intervals {
        // More blocks than the partition has buffers, written, so that buffers are used and dirty.
        for i in 0..300 {
            bench.time(1, Op::Write, (first + i) * BLOCK, BLOCK as u32);
        }
        bench.run_until(Instant(interval * 60_000_000_000 + 1_000_000_000));
        bench.settle();
        sizes.push(bench.engine.servers.iter().map(CacheServer::buffers).collect());
    }
    sizes
}

/// PAFS-13.
#[test]
fn fixed_partitions_stay() {
    assert_eq!(sizes("repartition=fixed", 3), vec![vec![100; 4]; 3]);
}

/// PAFS-11: an idle server loses a tenth of what it has.
#[test]
fn eager_buffers_go_at_once() {
    for policy in ["repartition=not-limited", "repartition=limited"] {
        let sizes = sizes(policy, 3);
        assert_eq!(sizes[0], [90, 90, 130, 90], "{policy}");
        assert_eq!(sizes[1], [81, 81, 157, 81], "{policy}");
        assert_eq!(sizes[2], [73, 73, 181, 73], "{policy}");
    }
}

/// PAFS-14: at the end of an interval only one buffer has gone ahead.
#[test]
fn lazy_buffers_go_one_by_one_as_they_are_used() {
    let sizes = sizes("repartition=lazy-limited", 3);
    assert_eq!(sizes[0].iter().sum::<u32>(), 400);
    assert_eq!(sizes[0][2], 101, "one ahead");
    assert_eq!(sizes[1][2], 131, "those of the first interval, and one ahead");
    assert!(sizes[1].iter().all(|&size| size >= 89), "nobody has lost more than a tenth and the one ahead");
}

/// PAFS-12: with one slow disk a server cannot gain more than that can fill.
#[test]
fn limited_gains_are_what_the_disks_can_read() {
    let library = Library::default();
    let machine = |name| library.find(name).expect("a preset");
    assert_eq!(readable(machine("pm"), 8192, 1.0), 1413);
    assert_eq!(readable(machine("now"), 8192, 1.0), 706);
    let mut slow = setup("pafs extent=64 repartition=limited", 4, 100);
    slow.machine.disks = 1;
    slow.machine.disk.read_seek = std::time::Duration::from_secs(12);
    let mut bench = Bench::new(&slow);
    let first = bench.block_of(2);
    for i in 0..50 {
        bench.time(1, Op::Write, (first + i) * BLOCK, BLOCK as u32);
    }
    bench.run_until(Instant(61_000_000_000));
    bench.settle();
    // 60 s over 12 s, and a little for the transfer.
    assert_eq!(bench.engine.servers[2].buffers(), 104);
}

/// PAFS-10: what was dirty in a buffer that is given away is on the disk.
#[test]
fn dirty_blocks_are_written_before_their_buffers_go() {
    let mut bench =
        Bench::new(&setup("pafs extent=64 repartition=not-limited syncer=3600 clean=written", 4, 100));
    let (idle, busy) = (bench.block_of(1), bench.block_of(2));
    for i in 0..100 {
        bench.time(1, Op::Write, (idle + i) * BLOCK, BLOCK as u32);
    }
    bench.run_until(Instant(61_000_000_000));
    bench.settle();
    let written = bench.kernel.model.traffic().disk_writes;
    for i in 0..50 {
        bench.time(1, Op::Write, (busy + i) * BLOCK, BLOCK as u32);
    }
    bench.run_until(Instant(121_000_000_000));
    bench.settle();
    assert!(bench.engine.servers[1].buffers() < 130);
    let lost = bench.kernel.model.traffic().disk_writes - written;
    let resident = u64::from(bench.engine.servers[1].resident());
    assert_eq!(lost + resident, 100, "every block is in its buffer or on the disk");
}
