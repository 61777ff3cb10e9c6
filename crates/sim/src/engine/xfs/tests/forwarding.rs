//! N-Chance, and requests that meet.

use cards_trace::Op;

use super::{BLOCK, Bench};

/// XFS-1.
#[test]
fn a_block_is_cached_where_it_is_read() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    bench.read(1, 0);
    bench.read(1, 0);
    bench.read(2, 0);
    bench.read(2, 0);
    let counts = bench.xfs.counts;
    assert_eq!((counts.disk_reads, counts.local_hits, counts.remote_hits), (1, 2, 1));
    assert_eq!(bench.holders(0), [1, 2]);
}

/// XFS-3.
#[test]
fn the_only_copy_is_forwarded_and_a_duplicate_is_dropped() {
    let mut bench = Bench::new("xfs", &[1, 4]);
    bench.read(0, 0);
    bench.read(0, 1);
    assert_eq!(bench.holders(0), [1]);
    assert_eq!(bench.state(1, 0), (2, false, false));
    bench.read(1, 1);
    bench.read(0, 2);
    assert_eq!(bench.holders(1), [1]);
    assert_eq!((bench.xfs.counts.forwarded, bench.xfs.counts.evictions), (1, 2));
}

/// XFS-3.
#[test]
fn a_forwarded_block_that_nobody_uses_is_dropped_after_n_jumps() {
    let mut bench = Bench::new("xfs n=2", &[1, 1]);
    bench.read(0, 0);
    bench.read(0, 1);
    assert_eq!(bench.state(1, 0), (2, false, false), "first jump");
    bench.read(1, 2);
    assert_eq!(bench.state(0, 0), (1, false, false), "second jump; block 1 had to go for it");
    assert!(bench.holders(1).is_empty(), "a receiver does not forward in turn");
    bench.read(0, 3);
    assert!(bench.holders(0).is_empty());
    let counts = bench.xfs.counts;
    assert_eq!((counts.forwarded, counts.stored_for_others, counts.stored_in_vain), (2, 2, 2));
}

#[test]
fn use_by_its_new_node_gives_a_block_all_its_chances_again() {
    let mut bench = Bench::new("xfs n=2", &[1, 1]);
    bench.read(0, 0);
    bench.read(0, 1);
    bench.read(1, 0);
    assert_eq!(bench.xfs.counts.local_hits, 1);
    assert_eq!(bench.state(1, 0), (0, false, false));
    bench.read(1, 2);
    assert_eq!(bench.state(0, 0), (2, false, false));
}

#[test]
fn a_forwarded_block_moves_to_the_node_that_reads_it() {
    let mut bench = Bench::new("xfs", &[2, 4, 4]);
    bench.read(0, 0);
    bench.read(0, 1);
    bench.read(0, 2);
    let holder = bench.holders(0)[0];
    let reader = 3 - holder;
    bench.read(reader, 0);
    assert_eq!(bench.holders(0), [reader]);
    assert_eq!(bench.state(reader, 0), (0, false, false));
}

/// XFS-3: no ripples.
#[test]
fn a_receiver_gives_up_a_duplicate_then_a_forwarded_block_then_its_oldest() {
    let mut bench = Bench::new("xfs n=2", &[1, 3]);
    bench.read(1, 10);
    bench.read(1, 11);
    bench.read(1, 12);
    bench.read(0, 12);
    // Block 12 is the newest at node 1, but node 0 has it, too.
    bench.read(0, 20);
    assert_eq!(bench.holders(12), [1], "node 0's copy was a duplicate");
    bench.read(0, 21);
    assert!(bench.holders(10).is_empty(), "block 20 took the place of the oldest");
    bench.read(0, 22);
    assert!(bench.holders(20).is_empty(), "block 21 took that of block 20, which nobody has used");
    assert_eq!(bench.holders(11), [1]);
    bench.read(0, 11);
    assert!(bench.holders(21).is_empty(), "block 22 took that of block 21");
    assert_eq!(bench.xfs.counts.forwarded, 3, "one for each singlet that node 0 evicted, none by node 1");
}

#[test]
fn a_duplicate_goes_before_older_blocks_at_a_receiver() {
    let mut bench = Bench::new("xfs", &[2, 2]);
    bench.read(1, 10);
    bench.read(1, 11);
    bench.read(0, 30);
    bench.read(0, 11);
    bench.read(0, 31);
    assert_eq!(bench.holders(30), [1], "forwarded");
    assert_eq!(bench.holders(11), [0], "it was the duplicate that made room");
    assert_eq!(bench.holders(10), [1], "not the oldest");
}

#[test]
fn without_chances_or_without_others_nothing_is_forwarded() {
    for (policy, caches) in [("xfs n=0", &[1, 4][..]), ("xfs", &[1][..])] {
        let mut bench = Bench::new(policy, caches);
        bench.read(0, 0);
        bench.read(0, 1);
        assert_eq!(bench.xfs.counts.forwarded, 0);
        assert!(bench.holders(0).is_empty());
    }
}

/// XFS-4.
#[test]
fn a_dirty_block_leaves_its_writers_node_clean() {
    let mut bench = Bench::new("xfs", &[4, 1]);
    bench.write(1, 0);
    bench.write(1, 1);
    assert_eq!(bench.disk_writes(), 1);
    assert_eq!(bench.state(0, 0), (2, false, false));
    let mut bench = Bench::new("xfs level=A", &[4, 1]);
    bench.write(1, 0);
    bench.write(1, 1);
    assert_eq!(bench.disk_writes(), 0);
    assert_eq!(bench.state(0, 0), (2, false, true), "its new node is responsible");
    bench.wait(60);
    assert_eq!(bench.disk_writes(), 2);
}

#[test]
fn a_dirty_block_that_is_dropped_is_written_first() {
    let mut bench = Bench::new("xfs n=0", &[1, 1]);
    bench.write(1, 0);
    bench.write(1, 1);
    assert_eq!((bench.disk_writes(), bench.xfs.counts.dirty_evictions), (1, 1));
}

#[test]
fn who_asks_for_a_block_on_its_way_waits_for_it() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    let first = bench.issue(1, Op::Read, 0, BLOCK);
    let same_node = bench.issue(1, Op::Read, 0, BLOCK);
    let other_node = bench.issue(2, Op::Read, 0, BLOCK);
    let writer = bench.issue(0, Op::Write, 0, BLOCK);
    let done = bench.settle();
    let at = |token| done.iter().find(|(t, _)| *t == token).unwrap().1;
    assert!(at(first) < at(same_node) && at(first) < at(other_node));
    assert_eq!(bench.kernel.model.traffic().disk_reads, 1);
    let counts = bench.xfs.counts;
    assert_eq!((counts.disk_reads, counts.local_hits, counts.remote_hits), (1, 1, 1));
    assert_eq!(bench.holders(0), [0]);
    assert!(at(writer) < at(first), "who overwrites all of it waits for nobody");
}

#[test]
fn a_request_larger_than_the_cache_goes_past_it() {
    let mut bench = Bench::new("xfs", &[2, 2]);
    bench.go(1, Op::Read, 0, 5 * BLOCK);
    assert_eq!(bench.xfs.counts.disk_reads, 5);
    assert_eq!(crate::engine::Engine::cached_blocks(&bench.xfs), 2);
    bench.go(1, Op::Write, 100 * u64::from(BLOCK), 5 * BLOCK);
    bench.wait(60);
    assert_eq!(bench.disk_writes(), 5);
}
