//! Input that makes no sense, or little, is refused in words or simulated; nothing panics, hangs or eats the memory.

use std::time::Duration;

use cards_core::{Instant, PgId};
use cards_sim::model::Model;
use cards_sim::{Machine, RunError, Setup, SetupError, Timing, WarmUp};
use cards_trace::{Op, Request};

use crate::lab::{
    BLOCK, Shape, core_policies, go, go_if_possible, hits, plain_machine, policies, random_trace, reads,
    request, serial, setup, try_go,
};

#[track_caller]
fn refused(setup: &Setup, requests: &[Request], want: &str) {
    let error = match try_go(setup, requests) {
        Ok(_) => panic!("not refused: want {want}"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(want), "{error}\nwant {want}");
}

#[test]
fn a_trace_without_requests_is_an_error() {
    for policy in policies() {
        refused(&setup(policy, 2, 5), &[], "list: 0 requests");
    }
    let all = WarmUp::Requests(3);
    refused(
        &Setup { warm_up: all, ..setup("rd", 2, 5) },
        &reads(0, 0..3),
        "list: 3 requests, and all of them",
    );
    let all = WarmUp::Time(Duration::from_secs(9));
    refused(&Setup { warm_up: all, ..setup("rd", 2, 5) }, &reads(0, 0..3), "give a shorter --warmup");
    let all = WarmUp::Share(1.0);
    refused(&Setup { warm_up: all, ..setup("rd", 2, 5) }, &reads(0, 0..3), "give a shorter --warmup");
}

#[test]
fn a_share_that_is_none_is_refused() {
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        refused(&Setup { warm_up: WarmUp::Share(share), ..setup("rd", 2, 5) }, &reads(0, 0..3), "warm");
    }
}

#[test]
fn requests_for_nothing_are_answered_with_nothing() {
    let ops = [Op::Read, Op::Write, Op::Trim, Op::Flush, Op::Open, Op::Close, Op::Send { to: u32::MAX }];
    let requests: Vec<Request> = ops.map(|op| Request { bytes: 0, ..request(1, op, 7, 0) }).into();
    for policy in policies() {
        for timing in [Timing::Serial, Timing::Trace, Timing::Fast] {
            let report = go(&Setup { timing, ..setup(policy, 2, 5) }, &requests);
            assert_eq!(
                (report.requests, report.blocks, hits(&report) + report.disk_reads),
                (7, 0, 0),
                "{policy}"
            );
        }
    }
}

#[test]
fn a_node_beyond_the_cluster_is_named() {
    for node in [2, 1023, 70_000, u32::MAX] {
        let mut requests = reads(0, 0..3);
        requests.push(Request { node, ..requests[0] });
        refused(
            &setup("rd", 2, 5),
            &requests,
            &format!("list: request 4 is node {node}'s, and there are 2 nodes"),
        );
    }
}

#[test]
fn volumes_are_accepted_up_to_the_last_one() {
    let most = PgId::MAX_DISKS;
    for disk_nodes in [1, 3] {
        let volume = |volume| [Request { volume, ..request(2, Op::Read, 7, 1) }];
        for policy in policies() {
            let setup = Setup { disk_nodes, ..setup(policy, 3, 5) };
            assert_eq!(go(&setup, &volume(most * disk_nodes - 1)).disk_reads, 1, "{policy}");
            refused(&setup, &volume(most * disk_nodes), "give more --disk-nodes");
            refused(&setup, &volume(u16::MAX), "give more --disk-nodes");
        }
    }
}

#[test]
fn offsets_are_accepted_up_to_the_last_block() {
    let size = u64::from(BLOCK);
    let last = u64::from(u32::MAX) - 1;
    for policy in policies() {
        for op in [Op::Read, Op::Write, Op::Trim] {
            let at = |offset, bytes| [Request { offset, bytes, ..request(1, op, 0, 1) }];
            let report = go(&setup(policy, 2, 5), &at(last * size, BLOCK));
            assert_eq!(report.requests, 1, "{policy}");
            for (offset, bytes) in
                [(last * size + 1, BLOCK), (u64::MAX, u32::MAX), (u64::MAX - 5, 5), ((last + 1) * size, 1)]
            {
                refused(&setup(policy, 2, 5), &at(offset, bytes), "blocks that a volume can have");
            }
        }
    }
}

#[test]
fn one_request_may_be_far_larger_than_all_caches() {
    for policy in policies() {
        let bytes = if policy == "hscc" { u32::MAX } else { 1 << 29 };
        let large = |op| Request { bytes, ..request(1, op, 0, 1) };
        let setup = Setup { block_bytes: 1 << 20, check: false, ..setup(policy, 3, 5) };
        let report = go(&setup, &[large(Op::Trim), large(Op::Read)]);
        let blocks = u64::from(bytes).div_ceil(1 << 20);
        assert_eq!((report.blocks, hits(&report) + report.disk_reads), (blocks, blocks), "{policy}");
    }
}

/// More commands than a disk node takes of a card at a time.
#[test]
fn a_large_trim_is_sent_bit_by_bit() {
    let large = Request { bytes: 4200 * 16 * 512, ..request(1, Op::Trim, 0, 1) };
    let setup = Setup { block_bytes: 512, ..setup("rd", 2, 5) };
    let report = go(&setup, &[large, request(1, Op::Read, 0, 1)]);
    assert_eq!(report.disk_reads, 8);
    // Not the years after which a node that waits for ever repeats a command.
    assert!(report.simulated_s < 1.0, "{} s", report.simulated_s);
}

#[test]
fn a_cache_of_one_block_works() {
    let shape = Shape { nodes: 4, volumes: 2, blocks: 40, requests: 300, writes: 30, others: 40 };
    let requests = random_trace(51, shape);
    for policy in policies() {
        for timing in [Timing::Serial, Timing::Trace, Timing::Fast] {
            let report = go(&Setup { timing, disk_nodes: 2, ..setup(policy, 4, 1) }, &requests);
            assert_eq!(report.requests, 300, "{policy}");
        }
    }
}

#[test]
fn values_that_make_no_sense_together_are_refused() {
    let requests = reads(0, 0..3);
    let base = || setup("rd", 2, 5);
    for (setup, want) in [
        (Setup { nodes: 0, ..base() }, "nodes: 0"),
        (Setup { nodes: 1024, ..base() }, "nodes: 1024"),
        (Setup { disk_nodes: 0, ..base() }, "disk nodes: 0"),
        (Setup { disk_nodes: 3, ..base() }, "disk nodes: 3"),
        (Setup { block_bytes: 5000, ..base() }, "block: 5000"),
        (Setup { block_bytes: 0, ..base() }, "block: 0"),
        (Setup { cache_blocks: vec![], ..base() }, "cache: "),
        (Setup { cache_blocks: vec![0], ..base() }, "cache: "),
        (Setup { cache_blocks: vec![5, 0], ..base() }, "cache: "),
        (Setup { cache_blocks: vec![5; 3], ..base() }, "cache: "),
        (Setup { cache_blocks: vec![u32::MAX], ..base() }, "cache: "),
        (Setup { cache_blocks: vec![1 << 30], nodes: 1000, ..base() }, "cache: "),
        (Setup { shards: 3, ..base() }, "shards: 3"),
        (Setup { shards: 0, ..base() }, "shards: 0"),
        (Setup { shards: 512, ..base() }, "shards: 512"),
        (Setup { shards: 8, ..base() }, "cache: "),
        (Setup { policy: String::new(), ..base() }, "unknown policy"),
        (Setup { policy: "hscc depth=-1".into(), ..base() }, "depth=-1"),
    ] {
        refused(&setup, &requests, want);
    }
}

#[test]
fn absurd_machines_are_refused() {
    type Change = fn(&mut Machine);
    let requests = reads(1, 0..3);
    let changes: &[(&str, Change)] = &[
        ("memory_bandwidth", |m| m.memory_bandwidth = 0.0),
        ("network_bandwidth", |m| m.network_bandwidth = f64::NAN),
        ("staging_bandwidth", |m| m.staging_bandwidth = f64::INFINITY),
        ("disk.bandwidth", |m| m.disk.bandwidth = -1.0),
        ("disk.bandwidth", |m| m.disk.bandwidth = 1e-300),
        ("disks", |m| m.disks = 0),
        ("disk.channels", |m| m.disk.channels = 0),
        ("disk", |m| (m.disks, m.disk.channels) = (u16::MAX, u16::MAX)),
        ("nodes", |m| m.nodes = 0),
        ("remote_port_us", |m| m.remote_port = Duration::MAX),
        ("network_latency_us", |m| m.network_latency = Duration::MAX),
        ("service_us", |m| m.service = Duration::from_secs(1 << 40)),
        ("disk.read_seek_us", |m| m.disk.read_seek = Duration::MAX),
        ("disk.write_seek_us", |m| m.disk.write_seek = Duration::MAX),
    ];
    for (parameter, change) in changes {
        let mut setup = serial("rd", 2, 5);
        change(&mut setup.machine);
        match try_go(&setup, &requests) {
            Err(RunError::Setup(SetupError::Machine(error))) => {
                assert!(error.to_string().contains(parameter), "{parameter}: {error}");
            }
            other => panic!("{parameter}: {other:?}"),
        }
    }
}

/// The slowest machine that is allowed.
fn slowest_machine() -> Machine {
    let mut machine = plain_machine(2);
    let hour = Duration::from_secs(3600);
    machine.memory_bandwidth = 1.0;
    machine.network_bandwidth = 1.0;
    machine.staging_bandwidth = 1.0;
    machine.disk.bandwidth = 1.0;
    (machine.network_latency, machine.remote_port, machine.remote_copy) = (hour, hour, hour);
    (machine.local_port, machine.local_copy, machine.service) = (hour, hour, hour);
    (machine.disk.read_seek, machine.disk.write_seek) = (hour, hour);
    machine
}

#[test]
fn the_slowest_machine_comes_to_an_end() {
    // Others do something every minute that takes such a machine hours: they never come to their end.
    for policy in core_policies() {
        for timing in [Timing::Trace, Timing::Serial, Timing::Fast] {
            let setup = Setup { machine: slowest_machine(), timing, ..setup(policy, 2, 5) };
            let requests = [Op::Read, Op::Write, Op::Read].map(|op| request(1, op, 0, 4));
            let report = go(&setup, &requests);
            assert_eq!(hits(&report) + report.disk_reads, 8, "{policy} {timing:?}");
        }
    }
}

#[test]
fn queues_longer_than_time_itself_do_not_overflow() {
    let machine = Machine { staging_copies: u8::MAX, ..slowest_machine() };
    let mut model = Model::new(machine, 2);
    let (mut now, bytes) = (Instant(0), u64::from(u32::MAX));
    for _ in 0..20 {
        model.send_data(now, 0, 1, bytes);
        model.receive_data(now, 1, bytes);
        model.copy(now, 0, 0, 1, bytes);
        model.compute(now, 0, Duration::MAX);
        model.disk_write(now, 0, 7, 1, bytes);
        now = model.disk_read(now, 0, 7, 1, bytes);
    }
    assert!(now > Instant(u64::MAX / 2) && model.idle_at() >= now);
}

#[test]
fn times_of_more_than_a_year_are_refused() {
    let year = Duration::from_secs(365 * 86_400);
    for long in [year + Duration::from_nanos(1), Duration::from_nanos(u64::MAX), Duration::MAX] {
        refused(
            &setup("rd", 2, 5),
            &[Request { time: long, ..request(1, Op::Read, 9, 1) }],
            "more than a year",
        );
        refused(
            &setup("rd", 2, 5),
            &[Request { compute: long, ..request(1, Op::Read, 9, 1) }],
            "more than a year",
        );
    }
    let report = go(&setup("rd", 2, 5), &[Request { time: year, ..request(1, Op::Read, 9, 1) }]);
    assert_eq!(report.disk_reads, 1);
}

#[test]
fn shards_beyond_the_blocks_of_a_volume_are_idle() {
    let requests =
        random_trace(52, Shape { nodes: 3, volumes: 1, blocks: 20, requests: 100, writes: 10, others: 0 });
    for policy in policies() {
        let report = go_if_possible(&Setup { shards: 64, ..setup(policy, 3, 64) }, &requests);
        assert!(report.is_some_and(|report| report.requests == 100), "{policy}");
    }
}
