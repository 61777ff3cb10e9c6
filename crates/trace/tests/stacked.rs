//! Filters, spreads and merges.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cards_trace::{
    Beyond, Filter, Merge, Op, Options, RecordWriter, Request, Selection, Shift, Source, Spread, Together,
    TraceError, open,
};

use crate::support::{List, drain, request};

/// Ten requests of three processes, a millisecond apart, with a pause after the fifth.
fn ten() -> Vec<Request> {
    (0..10)
        .map(|i| {
            let pause = if i >= 5 { 1_000_000 } else { 0 };
            let process = (i % 3) as u32;
            Request { process, node: process, ..request(i * 1_000 + pause, Op::Read, i * 4096, 4096) }
        })
        .collect()
}

fn spread(rule: &str, nodes: u32) -> Result<Vec<Request>, TraceError> {
    let open = || Ok(List::boxed(ten(), true));
    drain(&mut *rule.parse::<Spread>()?.apply(nodes, Beyond::Refuse, open)?)
}

fn nodes(requests: &[Request]) -> Vec<u32> {
    requests.iter().map(|request| request.node).collect()
}

/// Each process is on one node.
fn assert_processes_stay(requests: &[Request]) {
    let mut nodes = BTreeMap::new();
    for request in requests {
        assert_eq!(*nodes.entry(request.process).or_insert(request.node), request.node);
    }
}

#[test]
fn rules_deal_requests_as_they_say() {
    assert_eq!(spread("as-is", 3).unwrap(), ten());
    assert_eq!(nodes(&spread("client", 2).unwrap()), [0, 1, 0, 0, 1, 0, 0, 1, 0, 0]);
    assert_eq!(nodes(&spread("round-robin", 4).unwrap()), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    assert_eq!(nodes(&spread("sessions:0.5", 4).unwrap()), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    for rule in ["as-is", "client", "round-robin", "sessions:0.5", "hash:8K", "replicas:1", "replicas:2r"] {
        assert_processes_stay(&spread(rule, 3).unwrap());
    }
}

#[test]
fn a_region_belongs_to_one_node() {
    let requests = spread("hash:8K", 3).unwrap();
    for pair in requests.chunks(2) {
        assert_eq!(pair[0].node, pair[1].node);
    }
    assert_eq!(nodes(&requests).into_iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn nodes_beyond_the_cluster_are_refused_or_folded() {
    let error = spread("as-is", 2).unwrap_err().to_string();
    assert!(error.contains("node 2") && error.contains("2 (counted from 0)"), "{error}");
    let mut folded = Spread::AsIs.apply(2, Beyond::Fold, || Ok(List::boxed(ten(), true))).unwrap();
    assert_eq!(nodes(&drain(&mut *folded).unwrap()), [0, 1, 0, 0, 1, 0, 0, 1, 0, 0]);
    assert_eq!(folded.skipped().to_string(), "3 of a node beyond the cluster (folded)");
}

#[test]
fn replicas_do_the_same_later() {
    let requests = spread("replicas:0.0025", 2).unwrap();
    assert_eq!(requests.len(), 20);
    assert_eq!(nodes(&requests[..8]), [0, 0, 0, 1, 0, 1, 0, 1]);
    for node in 0..2 {
        let mine: Vec<u64> = requests.iter().filter(|r| r.node == node).map(|r| r.offset).collect();
        assert_eq!(mine, (0..10).map(|i| i * 4096).collect::<Vec<_>>());
    }
    assert_eq!(requests[3].time, Duration::from_micros(2_500));
    assert!(requests.is_sorted_by_key(|request| request.time));
}

#[test]
fn replicas_of_traces_without_times_are_shifted_by_requests() {
    let untimed = || Ok(List::boxed(ten(), false));
    let spread = |rule: &str| rule.parse::<Spread>().unwrap().apply(3, Beyond::Refuse, untimed);
    let requests = drain(&mut *spread("replicas:2r").unwrap()).unwrap();
    assert_eq!(nodes(&requests[..12]), [0, 0, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2]);
    assert!(spread("replicas:2").err().unwrap().to_string().contains("no times"));
    assert!(spread("sessions:2").err().unwrap().to_string().contains("no times"));
}

#[test]
fn impossible_clusters_are_refused() {
    let trace = || Ok(List::boxed(ten(), true));
    for (rule, nodes) in
        [(Spread::AsIs, 0), (Spread::Hash { region_bytes: 0 }, 3), ("replicas:1".parse().unwrap(), 9999)]
    {
        assert!(rule.apply(nodes, Beyond::Refuse, trace).is_err(), "{rule}");
    }
    assert!(Merge::new(Vec::new(), Together::Apart).is_err());
    let mixed = vec![List::boxed(ten(), true), List::boxed(ten(), false)];
    assert!(Merge::new(mixed, Together::Apart).err().unwrap().to_string().contains("no common order"));
}

#[test]
fn a_trace_per_node_keeps_its_volumes() {
    let other = vec![request(2_500, Op::Write, 0, 512)];
    let mut merge =
        Merge::new(vec![List::boxed(ten(), true), List::boxed(other, true)], Together::Apart).unwrap();
    let requests = drain(&mut merge).unwrap();
    assert_processes_stay(&requests);
    assert_eq!(requests[3].time, Duration::from_micros(2_500));
    assert_eq!((requests[3].node, requests[3].volume, requests[3].op), (1, 1, Op::Write));
    assert!(requests.iter().enumerate().all(|(i, r)| i == 3 || (r.node, r.volume) == (0, 0)));
}

#[test]
fn recordings_of_one_cluster_are_aligned() {
    let directory = tempfile::tempdir().unwrap();
    let recording = |name: &str, started_us: u64, node: u32| -> Box<dyn Source> {
        let path = directory.path().join(name);
        let mut writer = RecordWriter::new(Vec::new(), started_us).unwrap();
        for i in 0..2 {
            writer.write(&Request { node, process: node, ..request(10 * i, Op::Read, 0, 512) }).unwrap();
        }
        std::fs::write(&path, writer.finish().unwrap()).unwrap();
        open(&path.to_string_lossy(), &Options::default()).unwrap()
    };
    let sources = vec![recording("late", 1_000_015, 7), recording("early", 1_000_000, 3)];
    let mut merge = Merge::new(sources, Together::OneCluster).unwrap();
    assert_eq!(merge.started_us(), Some(1_000_000));
    let requests = drain(&mut merge).unwrap();
    assert_eq!(nodes(&requests), [3, 3, 7, 7]);
    let times: Vec<u128> = requests.iter().map(|request| request.time.as_micros()).collect();
    assert_eq!(times, [0, 10, 15, 25]);
}

#[test]
fn a_filter_takes_a_part() {
    let mut list = ten();
    list[1].op = Op::Write;
    let selection = Selection { limit: Some(3), only_reads: true, time_scale: 0.5 };
    let mut filter = Filter::new(List::boxed(list, true), selection).unwrap();
    let requests = drain(&mut filter).unwrap();
    let times: Vec<u128> = requests.iter().map(|request| request.time.as_micros()).collect();
    assert_eq!(times, [0, 1_000, 1_500]);
    assert_eq!(filter.skipped().to_string(), "1 not a read");
    let negative = Selection { time_scale: -1.0, ..Selection::default() };
    assert!(Filter::new(List::boxed(ten(), true), negative).is_err());
}

#[test]
fn what_an_inner_source_leaves_out_is_still_told() {
    let path = crate::support::sample("cluster.csv");
    let open = || open(&path, &Options::default());
    let mut source =
        Spread::Replicas { shift: Shift::Time(Duration::ZERO) }.apply(5, Beyond::Refuse, open).unwrap();
    drain(&mut *source).unwrap();
    assert_eq!(source.skipped().to_string(), "5 zero size");
}

#[test]
fn a_generator_is_opened_like_a_file() {
    let mut source = open("gen:oltp:nodes=2", &Options::default()).unwrap();
    assert!(source.next().unwrap().is_some());
    assert!(open("gen:nonsense", &Options::default()).is_err());
}
