//! Ownership, dirtiness, the syncer.

use cards_trace::Op;

use super::{BLOCK, Bench};
use crate::engine::Engine;

/// XFS-2.
#[test]
fn a_writer_asks_once_and_then_owns_the_block() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    let block = bench.managed_by(2);
    bench.write(1, block);
    let messages = bench.kernel.model.traffic().messages;
    assert_eq!(messages, 2, "the question and the leave: all of the block is written, so nothing is read");
    bench.write(1, block);
    assert_eq!(bench.kernel.model.traffic().messages, messages, "an owner asks nobody");
    assert_eq!(bench.xfs.counts.ownership_requests, 1);
    assert_eq!(bench.state(1, block), (0, true, true));
    assert_eq!(bench.disk_writes(), 0, "it is written back, not through");
}

/// XFS-2.
#[test]
fn all_other_copies_are_dropped_before_a_block_is_written() {
    let mut bench = Bench::new("xfs", &[4, 4, 4, 4]);
    let block = bench.managed_by(0);
    for node in 1..4 {
        bench.read(node, block);
    }
    assert_eq!(bench.holders(block), [1, 2, 3]);
    let messages = bench.kernel.model.traffic().messages;
    bench.write(2, block);
    assert_eq!(bench.holders(block), [2]);
    assert_eq!(bench.xfs.counts.invalidations, 2);
    let more = bench.kernel.model.traffic().messages - messages;
    assert_eq!(more, 2 + 2 * 2, "question and leave, and for each other copy a notice and its answer");
    bench.read(3, block);
    assert_eq!(bench.xfs.counts.remote_hits, 3, "it comes from the writer");
}

#[test]
fn a_part_of_a_block_is_written_over_its_old_contents() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    bench.go(1, Op::Write, 10, 100);
    assert_eq!((bench.xfs.counts.write_fills, bench.xfs.counts.disk_reads), (1, 0));
    // From the other writer's memory, which loses it.
    bench.go(2, Op::Write, 500, 100);
    assert_eq!(bench.xfs.counts.write_fills, 1);
    assert_eq!(bench.holders(0), [2]);
    assert_eq!(bench.xfs.counts.write_hits, 1);
    assert_eq!(bench.disk_writes(), 1, "the first change is safe before the second writer builds on it");
}

/// XFS-4.
#[test]
fn what_another_node_reads_is_given_to_the_disk_first() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    bench.write(1, 0);
    bench.read(2, 0);
    assert_eq!(bench.disk_writes(), 1);
    assert_eq!(bench.state(1, 0), (0, false, false), "the token is a reader's now");
    bench.write(1, 0);
    assert_eq!(bench.xfs.counts.ownership_requests, 2, "so the writer asks again");
    assert_eq!(bench.holders(0), [1]);
}

#[test]
fn without_fault_tolerance_the_writer_stays_responsible() {
    let mut bench = Bench::new("xfs level=A", &[4, 4, 4]);
    bench.write(1, 0);
    bench.read(2, 0);
    assert_eq!(bench.disk_writes(), 0);
    assert_eq!(bench.state(1, 0), (0, false, true));
    assert_eq!(bench.state(2, 0), (0, false, false));
    bench.wait(60);
    assert_eq!(bench.disk_writes(), 1);
}

#[test]
fn the_syncer_writes_what_is_dirty_and_leaves_the_token() {
    let mut bench = Bench::new("xfs syncer=10", &[4, 4, 4]);
    bench.write(1, 0);
    bench.write(1, 1);
    bench.write(2, 2);
    bench.wait(20);
    assert_eq!(bench.disk_writes(), 3);
    assert_eq!(bench.state(1, 0), (0, true, false));
    bench.wait(20);
    assert_eq!(bench.disk_writes(), 3);
    bench.write(1, 0);
    assert_eq!(bench.xfs.counts.ownership_requests, 3, "it is the owner still");
    bench.wait(10);
    assert_eq!(bench.disk_writes(), 4);
}

#[test]
fn an_idle_syncer_does_not_keep_a_run_going() {
    let mut bench = Bench::new("xfs", &[4, 4]);
    bench.write(1, 0);
    assert!(bench.xfs.is_idle());
    assert!(bench.kernel.now().0 < 1_000_000_000);
}

#[test]
fn a_flush_waits_for_the_disks() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    bench.write(1, 0);
    bench.write(1, 1);
    bench.write(2, 2);
    let time = bench.go(1, Op::Flush, 0, 0);
    assert!(time > bench.machine().disk.write_seek.as_nanos() as u64);
    assert_eq!(bench.disk_writes(), 2, "its node's, not the others'");
    let again = bench.go(1, Op::Flush, 0, 0);
    assert_eq!(again, bench.machine().local_port.as_nanos() as u64, "nothing is left to be written");
}

#[test]
fn a_deleted_files_blocks_are_gone_and_never_written() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    bench.write(1, 0);
    bench.write(1, 1);
    bench.write(1, 2);
    bench.read(2, 2);
    let written = bench.disk_writes();
    // The file begins within block 0, which another one shares, and ends within block 2, which none does.
    bench.go(0, Op::Trim, 100, 2 * BLOCK + 1);
    assert_eq!(bench.holders(0), [1]);
    assert_eq!((bench.holders(1).len(), bench.holders(2).len()), (0, 0));
    bench.wait(60);
    assert_eq!(bench.disk_writes() - written, 1, "block 0 alone");
}
