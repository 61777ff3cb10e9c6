//! Times that can be added up by hand, and queues that theory knows.

use std::time::Duration;

use cards_sim::{Report, Setup, Timing, WarmUp};
use cards_trace::{Op, Request};

use crate::lab::{
    BLOCK, Draw, Shape, core_policies, go, hits, policies, random_trace, reads, request, serial, setup,
};

/// Microseconds of the plain machine: half a port at each end, the wire, and the service of a question.
const ASK: f64 = 5.0 + 100.0 + 5.0 + 7.0;
/// Half a remote copy at each end, and the wire.
const DATA: f64 = 10.0 + 100.0 + 10.0;
const REPLY: f64 = 5.0 + 100.0 + 5.0;
/// To the reader.
const COPY: f64 = 1.0;
const DISK_READ: f64 = 1_000.0;
const DISK_WRITE: f64 = 2_000.0;

/// Microseconds that the last request takes, each issued when all is quiet. ([`Timing::Serial`] has messages cross one at a
/// time, which takes longer where a policy sends several.)
fn last_us(policy: &str, requests: &[Request]) -> f64 {
    let warm_up = WarmUp::Requests(requests.len() as u64 - 1);
    let report = go(&Setup { warm_up, ..setup(policy, 3, 50) }, &a_second_apart(requests));
    assert_eq!(report.requests, 1);
    report.read_mean_us + report.write_mean_us
}

fn a_second_apart(requests: &[Request]) -> Vec<Request> {
    let times = (0..).map(Duration::from_secs);
    times.zip(requests).map(|(time, &request)| Request { time, ..request }).collect()
}

#[track_caller]
fn us(found: f64, want: f64) {
    assert!((found - want).abs() < 0.01, "{found} us, want {want} us");
}

#[test]
fn what_every_policy_has_in_common_costs_the_same() {
    // What `single`, which `auto` begins with, reads once at a node other than the home does not stay there.
    for policy in core_policies().filter(|policy| !["chaos", "single", "auto"].contains(policy)) {
        let us = |requests: &[Request], want: f64| {
            // The cards are attached at the first request, which some policies tell each other.
            let attach = Request { bytes: 0, ..request(0, Op::Flush, 0, 0) };
            us(last_us(policy, &[&[attach], requests].concat()), want);
        };
        us(&reads(0, [5]), DISK_READ + COPY);
        us(&reads(0, [5, 5]), COPY);
        us(&reads(1, [5, 5]), COPY);
        us(&[request(0, Op::Write, 5, 1)], DISK_WRITE);
        us(&[request(1, Op::Write, 5, 1)], 10.0 + 100.0 + 10.0 + 7.0 + DISK_WRITE + REPLY);
    }
}

#[test]
fn remote_hits_and_the_remote_disk_cost_their_hops() {
    let at_the_disk_node = [request(0, Op::Read, 5, 1), request(1, Op::Read, 5, 1)];
    us(last_us("rd", &at_the_disk_node), ASK + DATA + COPY);
    us(last_us("rd", &reads(1, [5])), ASK + DISK_READ + DATA + COPY);
    us(last_us("greedy", &at_the_disk_node), ASK + DATA + COPY);
    // Node 1 has it, the disk node has not: it keeps no copy of what it sends.
    let elsewhere = [request(1, Op::Read, 5, 1), request(2, Op::Read, 5, 1)];
    let three_hops =
        Setup { network_attached: true, warm_up: WarmUp::Requests(1), ..serial("greedy", 3, 50) };
    us(go(&three_hops, &elsewhere).read_mean_us, ASK + ASK + DATA + COPY);
}

/// The wire takes a millisecond for a block with its header, and the disk node has one link to send on.
#[test]
fn blocks_queue_for_a_link() {
    let mut setup = Setup { timing: Timing::Trace, warm_up: WarmUp::Requests(2), ..setup("rd", 3, 50) };
    setup.machine.network_bandwidth = f64::from(BLOCK + 64) * 1e3;
    let header = 64.0 / f64::from(BLOCK + 64) * 1e3;
    let mut requests = reads(0, [5, 6]);
    for node in [1, 2] {
        requests.push(Request {
            time: Duration::from_secs(1),
            ..request(node, Op::Read, 4 + u64::from(node), 1)
        });
    }
    let report = go(&setup, &requests);
    // The questions share the link to the disk node; the second one is served while the first block is on the wire.
    let first = 5.0 + header + 100.0 + 5.0 + 7.0 + 10.0 + 1_000.0 + 100.0 + 10.0 + COPY;
    us(report.read_mean_us, (first + first + 1_000.0) / 2.0);
    let busy = 2.0 * 2.0 * (1_000.0 + header) / 6.0;
    us(report.network_busy * report.simulated_s * 1e6, busy);
}

/// Three blocks are asked for in one message, and come in two: the third is one too many.
#[test]
fn blocks_that_follow_each_other_share_messages() {
    let took = |message_blocks: u32| {
        let mut setup = Setup { warm_up: WarmUp::Requests(3), ..setup("rd", 3, 50) };
        setup.machine.message_bytes = message_blocks * BLOCK;
        let at_the_disk_node = reads(0, [5, 6, 7]);
        let report =
            go(&setup, &a_second_apart(&[&at_the_disk_node[..], &[request(1, Op::Read, 5, 3)]].concat()));
        report.read_mean_us
    };
    // The disk node is at all three: it takes a question in, serves it, and sends the block.
    us(took(0), 5.0 + 100.0 + 3.0 * (5.0 + 7.0 + 10.0) + 100.0 + 10.0 + COPY);
    us(took(2), 5.0 + 100.0 + (5.0 + 3.0 * 7.0 + 2.0 * 10.0) + 100.0 + 10.0 + COPY);
}

#[test]
fn processes_do_their_requests_in_order_one_at_a_time() {
    let both = |node: u16| reads(node, 100 * u64::from(node)..100 * u64::from(node) + 10);
    for timing in [Timing::Trace, Timing::Fast, Timing::Serial] {
        let report = go(&Setup { timing, ..setup("rd", 1, 50) }, &both(0));
        us(report.simulated_s * 1e6, 10.0 * (DISK_READ + COPY));
        us(report.read_mean_us, DISK_READ + COPY);
    }
    // A second process of the node shares the disk: each of its reads waits for one of the other's.
    let mut requests = both(0);
    requests.extend(both(0).into_iter().map(|read| Request {
        process: 1,
        offset: read.offset + (1 << 30),
        ..read
    }));
    let report = go(&setup("rd", 1, 50), &requests);
    us(report.simulated_s * 1e6, 20.0 * DISK_READ + COPY);
}

/// Reads that arrive at random times, each by a process of its own, wait for the disk as in an M/D/1 queue.
#[test]
fn reads_wait_for_a_disk_as_long_as_theory_says() {
    for (load, count) in [(0.3, 30_000), (0.8, 5_000)] {
        let mut draw = Draw(21);
        let mut time = 0.0;
        let (mut free, mut waits) = (0.0f64, 0.0);
        let requests: Vec<Request> = (0..count)
            .map(|number| {
                time -= (1.0 - draw.unit()).ln() * DISK_READ / load;
                waits += (free - time).max(0.0);
                free = free.max(time) + DISK_READ;
                let time = Duration::from_nanos((time * 1e3) as u64);
                Request { time, process: number as u32, ..request(0, Op::Read, number, 1) }
            })
            .collect();
        let report = go(&setup("rd", 1, 1), &requests);
        let wait = report.read_mean_us - DISK_READ - COPY;
        us(wait, waits / count as f64);
        // Few arrivals at a high load are far from the mean of infinitely many.
        if load < 0.5 {
            let theory = load / (2.0 * (1.0 - load)) * DISK_READ;
            assert!((wait / theory - 1.0).abs() < 0.05, "load {load}: {wait:.0} us of {theory:.0}");
            assert!((report.disk_busy - load).abs() < 0.02, "{}", report.disk_busy);
        }
    }
}

fn shape() -> Shape {
    Shape { nodes: 3, volumes: 2, blocks: 100, requests: 400, writes: 20, others: 20 }
}

/// What is measured after a warm-up is what the whole run has, less what the warm-up alone has.
#[test]
fn a_warm_up_is_left_out_exactly() {
    let requests = random_trace(31, shape());
    for policy in policies().filter(|&policy| policy != "opt") {
        for split in [1, 150, 399] {
            let all = go(&serial(policy, 3, 20), &requests);
            let first = go(&serial(policy, 3, 20), &requests[..split]);
            let rest =
                go(&Setup { warm_up: WarmUp::Requests(split as u64), ..serial(policy, 3, 20) }, &requests);
            let counts = |r: &Report| {
                [
                    r.requests,
                    r.blocks,
                    r.local_hits,
                    r.remote_hits,
                    r.disk_reads,
                    r.messages,
                    r.bytes_moved,
                    r.forwarded,
                ]
            };
            let sum: Vec<u64> = counts(&first).iter().zip(counts(&rest)).map(|(a, b)| a + b).collect();
            assert_eq!(sum, counts(&all), "{policy}, {split} of {} requests", requests.len());
        }
    }
}

#[test]
fn a_warm_up_may_be_given_as_requests_time_or_share() {
    let requests = random_trace(32, shape());
    let measured = |warm_up| go(&Setup { warm_up, ..serial("rd", 3, 20) }, &requests).requests;
    assert_eq!(measured(WarmUp::Share(0.0)), 400);
    assert_eq!(measured(WarmUp::Requests(100)), 300);
    assert_eq!(measured(WarmUp::Share(0.25)), 300);
    assert_eq!(measured(WarmUp::Time(requests[100].time)), 300);
}

/// Requests of the warm-up that are under way when it ends are answered later: no more than that is counted too much.
#[test]
fn concurrent_requests_blur_the_end_of_the_warm_up_by_those_under_way_only() {
    let requests = random_trace(33, shape());
    for policy in policies().filter(|&policy| policy != "opt") {
        let report = go(&Setup { warm_up: WarmUp::Requests(200), ..setup(policy, 3, 20) }, &requests);
        let answered = hits(&report) + report.disk_reads;
        let asked = report.blocks - report.more["writes"];
        let under_way = 9 * 4;
        assert!((asked..=asked + under_way).contains(&answered), "{policy}: {answered} of {asked}");
    }
}
