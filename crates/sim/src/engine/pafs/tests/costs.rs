//! What operations cost on the paper's parallel machine when nothing else is going on.

use std::time::Duration;

use cards_core::Instant;
use cards_trace::Op;

use super::{Bench, setup};
use crate::engine::{Counts, Engine, Pafs};
use crate::equations;
use crate::machine::Machine;

const BLOCK: u32 = 8192;

/// A port message to another node: startup, half at each end, and 64 bytes.
fn port(machine: &Machine) -> Duration {
    machine.remote_port + Machine::transfer(64, machine.network_bandwidth)
}

#[track_caller]
fn assert_near(found: Duration, expected: Duration) {
    let difference = found.abs_diff(expected);
    assert!(difference <= Duration::from_nanos(20), "{found:?}, not {expected:?}");
}

/// PAFS, equation 1: a remote hit is a copy of the requested bytes, and the message to the cache server that the
/// equation leaves out: a remote port, or a local one if the server is on the client's node.
#[test]
fn a_remote_hit_costs_equation_1_and_one_port() {
    let mut bench = Bench::new(&setup("pafs", 4, 16));
    for server in 0..4 {
        let block = bench.block_of(server);
        bench.time(0, Op::Read, block * u64::from(BLOCK), BLOCK);
        let holder = bench.node_with(block).expect("it was read");
        for client in (0..4).filter(|&client| client != holder) {
            for bytes in [1, 500, 4096, 8192] {
                let time = bench.time(client, Op::Read, block * u64::from(BLOCK), bytes);
                let machine = bench.machine();
                let ask = if client == server { machine.local_port } else { port(machine) };
                assert_near(time, ask + equations::pafs_remote_hit(machine, bytes.into()));
            }
        }
        let time = bench.time(holder, Op::Read, block * u64::from(BLOCK), 4096);
        let machine = bench.machine();
        let ask = if holder == server { machine.local_port } else { port(machine) };
        assert_near(time, ask + machine.local_copy_of(4096));
    }
    let Counts { local_hits, remote_hits, disk_reads, .. } = bench.engine.counts();
    assert_eq!((local_hits, remote_hits, disk_reads), (4, 4 * 3 * 4, 4));
}

/// One message for all blocks of a request; the server sets one copy up after the other.
#[test]
fn a_request_of_many_blocks_asks_once() {
    let mut bench = Bench::new(&setup("paca", 8, 16));
    bench.time(7, Op::Read, 0, 20 * BLOCK);
    let before = bench.kernel.model.traffic().messages;
    bench.time(7, Op::Read, 0, 20 * BLOCK);
    let copies = bench.kernel.model.traffic().messages - before - 1;
    assert!(copies <= 20, "{copies}");
    assert_eq!(bench.engine.counts().disk_reads, 20);
}

/// A miss: client to cache server, to disk server, disk, copy to the frame, back to the cache server, copy to the client.
#[test]
fn a_miss_costs_a_read_of_the_disk_and_two_copies() {
    let mut bench = Bench::new(&setup("pafs", 4, 16));
    // Server 1, on node 1; with 16 disks on 4 nodes disks 0 to 3 are on node 0.
    let block = bench.block_of(1);
    let disk_node = (bench.kernel.model.disk_of(0, block) / 4) as u16;
    let time = bench.time(2, Op::Read, block * u64::from(BLOCK), BLOCK);
    let holder = bench.node_with(block).expect("it was read");
    let machine = bench.machine();
    let message = |from, to| if from == to { machine.local_port } else { port(machine) };
    let copy = |from: u16, to: u16| match from == to {
        true => machine.local_copy_of(BLOCK.into()),
        false => machine.remote_copy_of(BLOCK.into()),
    };
    let disk = machine.disk.read_seek + Machine::transfer(BLOCK.into(), machine.disk.bandwidth);
    let expected = message(2, 1)
        + message(1, disk_node)
        + disk
        + copy(disk_node, holder)
        + message(disk_node, 1)
        + copy(holder, 2);
    assert_near(time, expected);
}

/// Equation 5: before a dirty buffer has another use its block goes to the disk server: two messages and a copy. With
/// `clean=written` also to the disk.
#[test]
fn a_miss_on_dirty_costs_equation_5_more() {
    let mut times = Vec::new();
    for (clean, dirty) in [("sent", false), ("sent", true), ("written", true)] {
        let mut setup = setup(&format!("paca clean={clean}"), 4, 1);
        setup.machine.disks = 4;
        let mut bench = Bench::new(&setup);
        // Four buffers. Block 2 is on disk 2, on node 2; the one that misses is on disk 3.
        for block in [2, 1, 4, 5] {
            let op = if dirty && block == 2 { Op::Write } else { Op::Read };
            bench.time(3, op, block * u64::from(BLOCK), BLOCK);
        }
        times.push(bench.time(3, Op::Read, 7 * u64::from(BLOCK), BLOCK));
        assert_eq!(bench.engine.counts().dirty_evictions, u64::from(dirty));
    }
    let machine = setup("paca", 4, 1).machine;
    let sent = times[1] - times[0];
    let expected = port(&machine) * 2 + machine.remote_copy_of(BLOCK.into());
    assert_near(sent, expected);
    let disk = machine.disk.write_seek + Machine::transfer(BLOCK.into(), machine.disk.bandwidth);
    assert_near(times[2] - times[1], disk);
}

/// PAFS-16, in the order of its steps, for the answer to a covered write.
#[test]
fn a_covered_write_costs_four_messages_and_two_copies_one_after_the_other() {
    for (policy, answered) in [("paca", false), ("paca level=B", true), ("paca level=C", true)] {
        let mut bench = Bench::new(&setup(policy, 8, 16));
        // A client, a frame, a parity server and the cache server on four nodes.
        let block = (0..40)
            .find(|&block| {
                bench.time(7, Op::Read, block * u64::from(BLOCK), BLOCK);
                let holder = bench.node_with(block).expect("it was read");
                let frame = bench.engine.servers[0].blocks().find(|(b, _)| u64::from(b.index) == block);
                let parity = frame.map(|(_, frame)| match answered {
                    true => bench.engine.parity_node(frame),
                    false => 6,
                });
                holder != 0 && holder != 7 && parity.is_some_and(|node| node != 0 && node != 7)
            })
            .expect("there is one");
        let time = bench.time(7, Op::Write, block * u64::from(BLOCK), 1000);
        let machine = bench.machine();
        let write = machine.remote_copy_of(1000);
        if answered {
            let save = machine.remote_copy_of(BLOCK.into());
            // The client's link carries its bytes to the parity server while it waits for its turn to the buffer; the
            // message that the parity is up to date is behind the answer of step 2.
            let least = port(machine) * 5 + save + write - machine.remote_port;
            let most = port(machine) * 5 + save + write * 2;
            assert!((least..=most).contains(&time), "{time:?} of {least:?} to {most:?}");
            assert_eq!(bench.engine.counts().covered_writes, 1);
        } else {
            assert_near(time, port(machine) + write);
            assert_eq!(bench.engine.counts().covered_writes, 0);
        }
    }
}

/// PAFS-18: a write into the memory of the writer's own node is as cheap at level B as at level A.
#[test]
fn a_local_write_is_not_covered_at_level_b() {
    let time = |level| {
        let mut bench = Bench::new(&setup(&format!("paca level={level} tip=100"), 4, 16));
        let time = bench.time(3, Op::Write, 0, BLOCK);
        assert_eq!(bench.node_with(0), Some(3), "with a tip of all buffers one on the own node is taken");
        time
    };
    assert_eq!(time("A"), time("B"));
    assert!(time("C") > time("B"));
}

/// PAFS-7: every 30 s.
#[test]
fn the_syncer_writes_what_is_dirty_and_a_deleted_file_is_not_written() {
    let mut bench = Bench::new(&setup("paca syncer=10", 4, 16));
    bench.time(1, Op::Write, 0, 5 * BLOCK);
    bench.time(1, Op::Write, 10 * u64::from(BLOCK), 3 * BLOCK);
    bench.time(2, Op::Trim, 0, 5 * BLOCK);
    assert_eq!(bench.kernel.model.traffic().disk_writes, 0);
    bench.run_until(Instant(9_000_000_000));
    assert_eq!(bench.kernel.model.traffic().disk_writes, 0);
    bench.run_until(Instant(30_500_000_000));
    bench.settle();
    assert_eq!(bench.kernel.model.traffic().disk_writes, 3);
    bench.time(1, Op::Read, 10 * u64::from(BLOCK), 3 * BLOCK);
    assert_eq!(bench.engine.counts().disk_reads, 0);
}

#[test]
fn a_request_across_extents_goes_to_each_owner() {
    let mut bench = Bench::new(&setup("pafs", 8, 64));
    let extent = bench.engine.owners.extent_blocks();
    let owners = |extent_number: u64| bench.engine.owners.owner(0, extent_number * extent);
    let border = (1..).find(|&n| owners(n) != owners(n - 1)).unwrap_or(1);
    let offset = (border * extent - 3) * u64::from(BLOCK);
    for op in [Op::Read, Op::Write, Op::Trim, Op::Open, Op::Close, Op::Flush] {
        bench.time(3, op, offset, 6 * BLOCK);
    }
    let counts = bench.engine.counts();
    assert_eq!((counts.disk_reads, counts.writes, counts.write_hits), (6, 6, 6));
    assert_eq!(bench.engine.cached_blocks(), 0, "the last thing was to give them up");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    let error = |policy: &str, nodes, cache| {
        Pafs::new(&setup(policy, nodes, cache)).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(error("pafs tip=101", 4, 16), "policy pafs: `tip=101`: want percent from 0 to 100");
    assert_eq!(
        error("pafs repartition=lazy", 4, 16),
        "policy pafs: `repartition=lazy`: want fixed, not-limited, limited or lazy-limited"
    );
    assert_eq!(
        error("pafs servers=5", 4, 16),
        "servers: 5 on 4 nodes: want at most one cache server for each node"
    );
    assert_eq!(
        error("pafs level=C", 1, 16),
        "level: parity on a single node: want level=A, or at least 2 nodes"
    );
    assert_eq!(
        error("pafs level=C line=2", 4, 1),
        "cache: 2 buffers for blocks, and 4 cache servers: want at least one buffer for each cache server"
    );
}
