//! Predictions from samples against exact replays of everything.

use cards_advise::{Access, Limits, Rate, Reference, Sampler};
use cards_core::{Coherence, Replacement, VolumeId};
use cards_node::admin::{Measured, Sampled};
use cards_sim::{Library, Setup, Timing, WarmUp};
use cards_trace::{Op, Options, Request, open};

use super::study::Found;
use super::trace::{Case, Player, Shares, Trace};
use super::{Advice, Part, as_it_is};

const NODES: u16 = 3;
const BLOCK: u32 = 8192;
/// Blocks that each node caches.
const CACHE: u64 = 16_384;
/// Of these, so many are in the sample: as few as ever in a daemon.
const SCALED: u64 = 4096;
/// What a prediction may be off, as a share of all reads.
const ERROR: f64 = 0.02;
/// The same of own and peers, of a replacement that counts reads, from a sample that does not reach back to the beginning.
const SPLIT_ERROR: f64 = 0.06;

/// The requests of a workload on one volume.
fn requests(spec: &str) -> Vec<Request> {
    let mut source = open(spec, &Options::default()).unwrap();
    let mut requests = Vec::new();
    while let Some(request) = source.next().unwrap() {
        if request.op.is_data() && request.volume == 0 {
            requests.push(request);
        }
    }
    requests
}

/// Every node loops over a part of its own, more than its cache, and reads what all read; one scans.
fn loop_and_scan() -> Vec<Request> {
    let mut template = requests("gen:oltp:nodes=3,bytes=4MiB,requests=100")[0];
    template.op = Op::Read;
    template.bytes = BLOCK;
    let request = |i: u64| {
        let node = i % u64::from(NODES);
        let turn = i / u64::from(NODES);
        let block = match turn % 8 {
            0..5 => 100_000 * (node + 1) + (turn / 8 * 5 + turn % 8) % 10_000,
            5..7 => cards_core::mix(i) % 12_000,
            _ if node == 1 => 1_000_000 + turn,
            _ => 50_000 + cards_core::mix(i) % 48_000,
        };
        let node = node as u32;
        Request { node, process: node, offset: block * u64::from(BLOCK), ..template }
    };
    (0..280_000).map(request).collect()
}

/// What each node's daemon knows of them; times are the numbers of the requests.
fn sampled(requests: &[Request]) -> Vec<Sampled> {
    let limits = Limits { references: 1 << 17, blocks: 1 << 15, lowest: Rate::scaling(CACHE, SCALED) };
    let of_node = |node: u16| {
        let mut sampler = Sampler::new(VolumeId(0), Rate::scaling(CACHE, SCALED), limits);
        for (time, request) in (0..).zip(requests) {
            if request.node != u32::from(node) {
                continue;
            }
            for block in request.blocks(BLOCK) {
                let write = request.op == Op::Write;
                let whole = u64::from(request.bytes) >= u64::from(BLOCK);
                let access = match (write, whole) {
                    (false, _) => Access::Read,
                    (true, true) => Access::Write,
                    (true, false) => Access::PartialWrite,
                };
                let (reads, writes) = (u32::from(!write), u32::from(write));
                let block = block as u32;
                sampler.refer(Reference { time_us: time, block, access, reads, writes });
            }
        }
        Sampled {
            node: format!("n{}", node + 1),
            attached: true,
            disk_node: node == 0,
            network_attached: false,
            policy: "hscc".into(),
            replacement: Replacement::Lru,
            block: BLOCK,
            cache_blocks: CACHE,
            share_blocks: CACHE,
            lost: 0,
            measured: Measured::default(),
            sample: sampler.sample(),
        }
    };
    (0..NODES).map(of_node).collect()
}

/// The same of all requests, from the one at time `begin` on, with caches of the real size.
fn exact(requests: &[Request], case: &Case, begin: u64) -> Shares {
    let machine = Library::default().find("lan25").unwrap().clone();
    let setup = Setup {
        nodes: NODES,
        cache_blocks: vec![(CACHE as f64 * case.factor) as u32],
        block_bytes: BLOCK,
        replacement: case.replacement,
        coherence: Coherence::Confirmed,
        timing: Timing::Serial,
        warm_up: WarmUp::Requests(begin),
        ..Setup::new(machine, &case.policy)
    };
    let report = cards_sim::run(&setup, "everything", &mut Player::new(requests), &mut ()).unwrap();
    let reads = (report.local_hits + report.remote_hits + report.disk_reads) as f64;
    let share = |blocks: u64| blocks as f64 / reads;
    Shares { own: share(report.local_hits), peers: share(report.remote_hits), disk: share(report.disk_reads) }
}

fn now() -> Case {
    Case { factor: 1.0, policy: "hscc".into(), replacement: Replacement::Lru }
}

fn size(factor: f64) -> Case {
    Case { factor, ..now() }
}

fn policy(policy: &str) -> Case {
    Case { policy: policy.into(), ..now() }
}

fn s3_fifo() -> Case {
    Case { replacement: Replacement::S3Fifo, ..now() }
}

/// When what is measured begins.
fn begin(sampled: &[Sampled]) -> u64 {
    sampled.iter().map(|node| node.sample.span_us().unwrap().0).max().unwrap()
}

#[track_caller]
fn predicts(name: &str, requests: &[Request], sampled: &[Sampled], cases: &[Case]) {
    let nodes: Vec<&Sampled> = sampled.iter().collect();
    let trace = Trace::of(&nodes).unwrap();
    assert_eq!(trace.rate, Rate::scaling(CACHE, SCALED));
    for case in cases {
        let predicted = trace.simulate(case, &mut ()).unwrap();
        let exact = exact(requests, case, begin(sampled));
        println!("{name}, {case:?}: {predicted:.3?}, exact {exact:.3?}");
        // The order of the blocks before says nothing of how often they were read.
        let unlike = case.replacement != Replacement::Lru && !sampled[0].sample.before.is_empty();
        let split = if unlike { SPLIT_ERROR } else { ERROR };
        for (predicted, exact, most) in [
            (predicted.own, exact.own, split),
            (predicted.peers, exact.peers, split),
            (predicted.disk, exact.disk, ERROR),
        ] {
            assert!((predicted - exact).abs() < most, "{name}, {case:?}: {predicted:.3} and {exact:.3}");
        }
    }
}

fn transactions() -> Vec<Request> {
    requests("gen:oltp:nodes=3,bytes=640MiB,requests=280000,writes=0.1")
}

/// Skewed reads of what all nodes share.
fn skewed() -> Vec<Request> {
    requests("gen:oltp:nodes=3,bytes=1GiB,requests=280000,writes=0,affinity=0,skew=0.8")
}

#[test]
fn transactions_are_predicted_within_two_points() {
    let requests = transactions();
    predicts("oltp", &requests, &sampled(&requests), &[size(1.0), policy("rd"), s3_fifo()]);
}

#[test]
fn skewed_reads_that_all_nodes_share_are_predicted_within_two_points() {
    let requests = skewed();
    let cases = [size(0.5), size(2.0), policy("nchance"), policy("hdc")];
    predicts("zipf", &requests, &sampled(&requests), &cases);
}

#[test]
fn loops_and_scans_are_predicted_within_two_points() {
    let requests = loop_and_scan();
    predicts(
        "loop and scan",
        &requests,
        &sampled(&requests),
        &[size(0.5), size(2.0), policy("rd"), s3_fifo()],
    );
}

#[test]
fn what_is_left_of_a_shortened_sample_is_predicted_within_two_points() {
    let requests = skewed();
    let mut sampled = sampled(&requests);
    for (node, references) in sampled.iter_mut().zip([20_000, 8000, 12_000]) {
        node.sample.keep(references);
        assert!(!node.sample.before.is_empty());
    }
    predicts("later", &requests, &sampled, &[size(1.0), policy("nchance"), s3_fifo()]);
}

/// All of a loop hits or none of it does.
#[test]
fn at_the_size_of_a_loop_the_prediction_is_between_those_of_sizes_a_tenth_off() {
    let requests = loop_and_scan();
    let sampled = sampled(&requests);
    let nodes: Vec<&Sampled> = sampled.iter().collect();
    let predicted = Trace::of(&nodes).unwrap().simulate(&now(), &mut ()).unwrap().disk;
    let [most, least] = [0.9, 1.1].map(|factor| exact(&requests, &size(factor), begin(&sampled)).disk);
    println!("loop at its size: {predicted:.3} of {least:.3} to {most:.3}");
    assert!(predicted < most + ERROR && predicted > least - ERROR, "{predicted:.3}: {least:.3} to {most:.3}");
}

#[test]
fn the_same_sample_gives_the_same_answer() {
    let requests = requests("gen:oltp:nodes=3,bytes=160MiB,requests=20000,writes=0.1");
    let sampled = sampled(&requests);
    let nodes: Vec<&Sampled> = sampled.iter().collect();
    let trace = Trace::of(&nodes).unwrap();
    let simulate = || trace.simulate(&policy("nchance"), &mut ()).unwrap();
    assert_eq!(simulate(), simulate());
}

#[test]
fn nothing_is_said_of_nothing() {
    assert!(Trace::of(&[]).is_none());
    let sampled = sampled(&[]);
    assert!(Trace::of(&[&sampled[0], &sampled[1]]).is_none());
}

fn advice(disk: [f64; 4], measured: Measured) -> Advice {
    let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=3000");
    let mut sampled = sampled(&requests);
    sampled[0].measured = measured;
    let nodes: Vec<&Sampled> = sampled.iter().collect();
    let trace = Trace::of(&nodes).unwrap();
    let shares = |disk: f64| Shares { own: 0.9 - disk, peers: 0.1, disk };
    let found = |case: Case, disk| Found { case, shares: shares(disk) };
    let of_size = |factor, disk| found(size(factor), disk);
    let found = vec![
        of_size(0.5, 0.5),
        of_size(1.0, disk[0]),
        of_size(1.25, disk[1]),
        of_size(2.0, disk[2]),
        of_size(4.0, disk[3]),
        found(policy("rd"), 0.5),
        found(policy("nchance"), 0.36),
        found(Case { replacement: Replacement::Sieve, ..now() }, 0.399),
    ];
    assert_eq!(as_it_is(&found).unwrap().shares.disk, disk[0]);
    Advice {
        volume: "data".into(),
        node: "n1".into(),
        policy: "hscc".into(),
        replacement: "lru",
        block: BLOCK,
        own: None,
        cluster: Some(Part::new(&trace, BLOCK, &nodes, found)),
        curve: Vec::new(),
        lost: 0,
        silent: vec!["node n4 is not connected".into()],
    }
}

#[test]
fn the_advice_is_one_sentence_with_what_would_be_saved() {
    let text = advice([0.4, 0.388, 0.32, 0.2], Measured::default()).to_string();
    let sentence = "More memory at every node would save of the disk reads: +25 % 3 %, +100 % 20 %, +300 % 50 %; \
                    policy nchance 10 %; no other replacement saves anything.";
    assert!(text.contains(sentence), "{text}");
    assert!(text.contains("Not in it: node n4"), "{text}");
    let nothing = advice([0.4, 0.4, 0.4, 0.398], Measured::default()).to_string();
    assert!(nothing.contains("More memory at every node would save nothing"), "{nothing}");
}

#[test]
fn read_ahead_is_told_when_it_hides_the_disk() {
    let hits = Measured { local_hits: 95, remote_hits: 0, disk_reads: 5 };
    assert!(advice([0.4, 0.4, 0.3, 0.2], hits).to_string().contains("read-ahead"));
    let as_predicted = Measured { local_hits: 60, remote_hits: 0, disk_reads: 40 };
    assert!(!advice([0.4, 0.4, 0.3, 0.2], as_predicted).to_string().contains("read-ahead"));
}
