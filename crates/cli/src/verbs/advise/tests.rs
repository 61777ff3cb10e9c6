//! Predictions from samples against exact replays of everything.

use cards_admin::{Mark, Measured, Sampled};
use cards_advise::{Access, Limits, Rate, Reference, Sampler};
use cards_core::{Coherence, PgId};
use cards_policies::Replacement;
use cards_sim::{Library, Setup, Timing, WarmUp};
use cards_trace::{Beyond, Op, Options, Request, Spread, open};
use clap::Parser;

use super::study::Found;
use super::trace::{Case, Player, Shares, Trace, chance};
use super::{Advice, Advise, AdviseError, Part, as_it_is};
use crate::signals::Signals;

const NODES: u16 = 3;
const BLOCK: u32 = 8192;
/// Blocks that each node caches.
const CACHE: u64 = 16_384;
/// Of these, so many are in the sample: as few as ever in a daemon.
const SCALED: u64 = 4096;
/// What a prediction may be off, as a share of all reads.
const ERROR: f64 = 0.02;
/// The same of W-TinyLFU, which a smaller cache changes more than others, and of 2Q, which asks for what a shortened sample has
/// forgotten: uses of a block while it is new do not count.
const BIASED_ERROR: f64 = 0.04;
/// Numbers of the volume: blocks of each are chosen by another hash.
const VOLUMES: [u16; 3] = [0, 1, 7];

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
    sampled_of(VOLUMES[0], requests)
}

/// The same, of a volume of another number.
fn sampled_of(volume: u16, requests: &[Request]) -> Vec<Sampled> {
    let limits = Limits { references: 1 << 17, blocks: 1 << 15, lowest: Rate::scaling(CACHE, SCALED) };
    let of_node = |node: u16| {
        let mut sampler = Sampler::new(PgId(volume.into()), Rate::scaling(CACHE, SCALED), limits);
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
            marks: Vec::new(),
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

fn replacement(replacement: Replacement) -> Case {
    Case { replacement, ..now() }
}

fn s3_fifo() -> Case {
    replacement(Replacement::S3Fifo)
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
        let most = match case.replacement {
            Replacement::WTinyLfu | Replacement::WTinyLfu10 | Replacement::WTinyLfuAdaptive => BIASED_ERROR,
            Replacement::TwoQ if !trace.grows => BIASED_ERROR,
            _ => ERROR,
        };
        for (predicted, exact) in
            [(predicted.own, exact.own), (predicted.peers, exact.peers), (predicted.disk, exact.disk)]
        {
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
    for volume in VOLUMES {
        predicts("oltp", &requests, &sampled_of(volume, &requests), &[size(1.0), policy("rd"), s3_fifo()]);
    }
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
    for volume in VOLUMES {
        let mut sampled = sampled_of(volume, &requests);
        for (node, references) in sampled.iter_mut().zip([20_000, 8000, 12_000]) {
            node.sample.keep(references);
            assert!(!node.sample.before.is_empty());
        }
        let replacements = Replacement::ALL.map(replacement);
        let others = [size(0.5), size(2.0), policy("nchance")];
        predicts("later", &requests, &sampled, &[&replacements[..], &others].concat());
    }
}

/// The references of a real database, where they are at hand.
#[test]
fn a_real_trace_is_predicted_within_two_points() {
    let Some(directory) = std::env::var_os("CARDS_TRACES") else {
        println!("skipped: CARDS_TRACES does not name a directory with traces");
        return;
    };
    let path = std::path::Path::new(&directory).join("arc/OLTP.lis.zst").display().to_string();
    let options = Options { block_bytes: Some(BLOCK), ..Options::default() };
    let source = || open(&path, &options);
    let mut source = Spread::RoundRobin.apply(NODES.into(), Beyond::Refuse, source).unwrap();
    let mut requests = Vec::new();
    while let Some(request) = source.next().unwrap() {
        requests.push(request);
    }
    for volume in VOLUMES {
        let mut sampled = sampled_of(volume, &requests);
        // As much as other nodes tell.
        sampled[1..].iter_mut().for_each(|node| node.sample.shrink(60_000));
        let cases =
            [size(0.5), size(4.0), policy("rd"), policy("nchance"), s3_fifo(), replacement(Replacement::Arc)];
        predicts("real", &requests, &sampled, &cases);
    }
}

/// Of a few reads, of all blocks.
fn few(reads: usize) -> Trace {
    let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=100000,writes=0");
    let sampled = sampled(&requests[..reads]);
    Trace::of(&sampled.iter().collect::<Vec<_>>()).unwrap()
}

#[test]
fn with_few_reads_more_doubt_is_told_than_with_many() {
    let [few, more, many] = [100, 3000, 100_000].map(|reads| few(reads).doubt(1.0));
    assert!(few.error > 0.1 && few.error > 2.0 * more.error, "{few:?}, {more:?}");
    assert!(many.error < ERROR && many.unknown < ERROR, "{many:?}");
    assert!(few.unknown > 0.2, "{few:?}");
}

#[test]
fn a_guess_is_called_one_with_its_reasons_and_how_long_to_wait() {
    let part = |reads| {
        let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=100000,writes=0");
        let sampled = sampled(&requests[..reads]);
        let nodes: Vec<&Sampled> = sampled.iter().collect();
        let found = Found { case: now(), shares: Shares { own: 0.5, peers: 0.2, disk: 0.3 }, chance: None };
        Part::new(&Trace::of(&nodes).unwrap(), BLOCK, &nodes, vec![found])
    };
    let told = |part: Part| {
        let value = serde_json::to_value(&part).unwrap();
        (Advice { cluster: Some(part), ..advice([0.4; 4], Measured::default()) }.to_string(), value)
    };
    let (text, value) = told(part(3000));
    for word in
        ["This is a guess: ", "reads of", "points off", "were the first of their blocks", "Ask again in"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(value["error"].as_f64() > Some(ERROR) && value["wait"].as_f64() > Some(0.0), "{value}");
    assert!(value["sampled_reads"].as_u64() < Some(3000) && value["sampled_blocks"].is_u64(), "{value}");
    let (text, value) = told(part(100_000));
    assert!(!text.contains("guess") && value["wait"].is_null(), "{text}{value}");
}

/// An error of tens of points, and savings of many times what there is to save, say nothing.
#[test]
fn nothing_is_said_of_what_is_not_known() {
    let part = |reads: usize, disk: f64, half: f64| {
        let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=100000,writes=0");
        let sampled = sampled(&requests[..reads]);
        let nodes: Vec<&Sampled> = sampled.iter().collect();
        let found = |factor, disk| Found {
            case: size(factor),
            shares: Shares { own: 0.9 - disk, peers: 0.1, disk },
            chance: None,
        };
        let found = vec![
            found(0.5, half),
            found(1.0, disk),
            found(1.25, disk),
            found(2.0, disk),
            found(4.0, disk / 2.0),
        ];
        Part::new(&Trace::of(&nodes).unwrap(), BLOCK, &nodes, found)
    };
    let told =
        |part: Part| Advice { cluster: Some(part), ..advice([0.4; 4], Measured::default()) }.to_string();
    let nothing = told(part(12, 0.3, 0.6));
    assert!(nothing.contains("Too little is known for an advice: "), "{nothing}");
    for word in ["good to", "saves", "More memory", "as it is"] {
        assert!(!nothing.contains(word), "{word:?} is in {nothing}");
    }
    // Fewer misses than the error.
    let few = part(100_000, 0.001, 0.6);
    assert_eq!(serde_json::to_value(&few).unwrap()["sizes"][0]["saved"], serde_json::Value::Null);
    let few = told(few);
    assert!(few.contains("There are few disk reads, and what would save some of them is not known"), "{few}");
    // A percentage of minus a thousand is a factor.
    let many = told(part(100_000, 0.04, 0.6));
    assert!(many.contains("x 15.0") && !many.contains("-1"), "{many}");
}

#[test]
fn chance_is_what_parts_of_a_sample_do_not_agree_on() {
    let shares = |own: f64| Shares { own, peers: 0.1, disk: 0.9 - own };
    assert_eq!(chance(&[]), None);
    assert_eq!(chance(&[shares(0.5); 4]), Some(0.0));
    let apart = chance(&[0.4, 0.6, 0.5, 0.5].map(shares)).unwrap();
    assert!((apart - 3.18 * 0.1 / 6f64.sqrt()).abs() < 1e-9, "{apart}");
    let sampled = sampled(&skewed());
    let trace = Trace::of(&sampled.iter().collect::<Vec<_>>()).unwrap();
    let groups = trace.groups();
    assert_eq!(groups.len(), 4);
    assert_eq!(groups.iter().map(Trace::requests).sum::<u64>(), trace.requests());
    let quarter = trace.requests() / 4;
    assert!(groups.iter().all(|group| group.requests().abs_diff(quarter) < quarter / 4));
    let mut known = sampled[0].clone();
    known.sample.rate = Rate::ALL;
    assert!(Trace::of(&[&known]).unwrap().groups().is_empty());
}

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    advise: Advise,
}

#[test]
fn an_answer_without_nodes_is_an_error_that_says_so() {
    let refused = Command::parse_from(["cards", "data"]).advise.advise(&[], &Signals::block()).unwrap_err();
    assert!(matches!(refused, AdviseError::Nobody { .. }), "{refused}");
    assert!(
        refused.to_string().contains("\"data\"") && refused.to_string().contains("restart it"),
        "{refused}"
    );
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

/// Marks of a node that has counted all of this after any time that is measured.
fn at_the_end(measured: Measured) -> Vec<Mark> {
    vec![(0, Measured::default()), (u64::MAX - 1, Measured::default()), (u64::MAX, measured)]
}

/// Where the caches are still empty in the first half, all reads miss, and what is measured is of the other half, as what is predicted is.
#[test]
fn what_is_measured_is_of_the_time_that_is_predicted() {
    let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=3000,writes=0");
    let mut sampled = sampled(&requests);
    let begin = begin(&sampled);
    let counted = |local_hits, disk_reads| Measured { local_hits, remote_hits: 0, disk_reads };
    let counted_with = |sampled: &mut [Sampled], marks: Vec<Mark>| {
        sampled[1].marks = marks;
        Trace::of(&sampled.iter().collect::<Vec<_>>()).unwrap().counted
    };
    let (cold, warm) = (counted(0, 900), counted(1000, 900));
    let mut of = |marks| counted_with(&mut sampled, marks);
    assert_eq!(of(vec![(0, counted(0, 0)), (begin, cold), (3000, warm)]), Some(counted(1000, 0)));
    // Between two marks reads are taken to come evenly.
    let around = vec![(0, counted(0, 0)), (begin - 10, cold), (begin + 10, counted(40, 900)), (3000, warm)];
    assert_eq!(of(around), Some(counted(980, 0)));
    // A mark is missing near that time: nothing is said.
    assert_eq!(of(vec![(0, counted(0, 0)), (3000, warm)]), None);
    // Nothing was read since, and no node has told of anything.
    assert_eq!(of(vec![(0, counted(0, 0)), (begin, warm)]), None);
    assert_eq!(of(Vec::new()), None);
}

fn advice(disk: [f64; 4], measured: Measured) -> Advice {
    let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=3000");
    let mut sampled = sampled(&requests);
    sampled[0].marks = at_the_end(measured);
    let nodes: Vec<&Sampled> = sampled.iter().collect();
    let trace = Trace::of(&nodes).unwrap();
    let shares = |disk: f64| Shares { own: 0.9 - disk, peers: 0.1, disk };
    let found = |case: Case, disk| Found { case, shares: shares(disk), chance: None };
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

/// Its own cache had 89.5 %: the rest was missed, whoever had it.
#[test]
fn what_one_node_by_itself_has_missed_is_all_that_it_has_not() {
    let requests = requests("gen:oltp:nodes=3,bytes=8MiB,requests=3000");
    let mut sampled = sampled(&requests);
    sampled[0].marks = at_the_end(Measured { local_hits: 895, remote_hits: 95, disk_reads: 10 });
    let of = |nodes: &[&Sampled]| {
        let found =
            vec![Found { case: now(), shares: Shares { own: 0.9, peers: 0.0, disk: 0.1 }, chance: None }];
        Part::new(&Trace::of(nodes).unwrap(), BLOCK, nodes, found).measured.unwrap()
    };
    let close = |share: f64, wanted: f64| assert!((share - wanted).abs() < 1e-9, "{share} {wanted}");
    let alone = of(&[&sampled[0]]);
    close(alone.disk, 0.105);
    close(alone.peers, 0.0);
    let all: Vec<&Sampled> = sampled.iter().collect();
    close(of(&all).disk, 0.010);
}

#[test]
fn read_ahead_is_told_when_it_hides_the_disk() {
    let hits = Measured { local_hits: 95, remote_hits: 0, disk_reads: 5 };
    assert!(advice([0.4, 0.4, 0.3, 0.2], hits).to_string().contains("read-ahead"));
    let as_predicted = Measured { local_hits: 60, remote_hits: 0, disk_reads: 40 };
    assert!(!advice([0.4, 0.4, 0.3, 0.2], as_predicted).to_string().contains("read-ahead"));
}
