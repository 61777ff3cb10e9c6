//! Traces of requests through a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cards_admin::{ClientError, RefusalKind, Span, SpanName, SpanOutcome, Spans};
use cards_config::{Attached, Config};

use super::cluster::{BLOCK, Cluster};
use super::http::{address, ask, get, web};

/// By how much the clocks of two nodes of this process may differ as they are told, in microseconds.
const CLOCKS_US: u64 = 5_000;

/// So patient that nobody is asked twice and no card is given up on a slow machine: a request takes one way.
fn trace(config: &mut Config, one_in: u32) {
    web(config);
    config.trace_sample = one_in;
    config.peer_timeout = Duration::from_secs(2);
    config.lease = 2 * config.peer_timeout;
    config.disk_wait = 2 * config.lease;
}

fn traced(one_in: u32) -> Cluster {
    Cluster::with(3, 64 * BLOCK, |config| trace(config, one_in))
}

fn all(cluster: &Cluster) -> Spans {
    let spans = cluster.admin(1).spans(None).unwrap();
    assert!(spans.silent.is_empty(), "{spans:?}");
    spans
}

fn by_trace(spans: &[Span]) -> BTreeMap<&str, Vec<&Span>> {
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    spans.iter().for_each(|span| traces.entry(&span.trace).or_default().push(span));
    traces
}

fn names(spans: &[&Span]) -> BTreeSet<(SpanName, String)> {
    spans.iter().map(|span| (span.name, span.node.clone())).collect()
}

#[test]
fn a_read_is_seen_at_every_node_on_its_way_to_the_disk() {
    let cluster = traced(1);
    let mut client = cluster.client(2);
    for block in 0..64 {
        client.read(block * BLOCK as u64, 512).unwrap();
    }
    let all = all(&cluster);
    let traces = by_trace(&all.spans);
    assert_eq!(traces.len(), 64, "{all:?}");
    for spans in traces.values() {
        let root = spans.iter().find(|span| span.name == SpanName::Read).unwrap();
        assert_eq!((root.node.as_str(), root.outcome), ("n2", SpanOutcome::Disk), "{spans:?}");
        let names = names(spans);
        for (name, node) in [(SpanName::Ask, "n2"), (SpanName::Serve, "n1"), (SpanName::DiskRead, "n1")] {
            assert!(names.contains(&(name, node.into())), "no {name:?} at {node}: {spans:?}");
        }
        let begins_by = |span: &Span| span.start_us + CLOCKS_US >= root.start_us;
        let ends_by =
            |span: &Span| span.start_us + span.duration_us <= root.start_us + root.duration_us + CLOCKS_US;
        assert!(spans.iter().all(|span| begins_by(span) && ends_by(span)), "{spans:?}");
    }
    let parents = all.parents();
    for (span, parent) in all.spans.iter().zip(&parents) {
        let parent = parent.map(|place| &all.spans[place]);
        assert_eq!(parent.is_none(), span.name.is_root(), "{span:?}");
        if let Some(parent) = parent {
            assert!(parent.start_us <= span.start_us + CLOCKS_US, "{parent:?} {span:?}");
        }
    }
}

#[test]
fn a_copy_at_a_third_node_is_found_by_way_of_those_that_pass_the_request_on() {
    let cluster = Cluster::with(3, 64 * BLOCK, |config| {
        trace(config, 1);
        // The disk node keeps no copies, and so has to ask whoever read the block before.
        config.disks.iter_mut().for_each(|disk| disk.attached = Attached::Network);
    });
    cluster.client(2).read(0, 64 * BLOCK).unwrap();
    let mut client = cluster.client(3);
    for block in 0..64 {
        client.read(block * BLOCK as u64, 512).unwrap();
    }
    let all = all(&cluster);
    let traces = by_trace(&all.spans);
    let mut passed_on = 0;
    for (trace, spans) in traces.iter().filter(|(trace, _)| trace.starts_with("n3:")) {
        let names = names(spans);
        let root = spans.iter().find(|span| span.name == SpanName::Read).unwrap();
        assert_eq!((root.node.as_str(), root.outcome), ("n3", SpanOutcome::Cache), "{spans:?}");
        assert!(names.contains(&(SpanName::Serve, "n2".into())), "{trace}: {spans:?}");
        passed_on += usize::from(names.contains(&(SpanName::PassOn, "n1".into())));
    }
    assert!(passed_on > 0, "{traces:?}");

    let (trace, spans) = traces.iter().find(|(trace, _)| trace.starts_with("n3:")).unwrap();
    let one: Spans = serde_json::from_str(&get(&cluster, 2, &format!("/v1/spans?trace={trace}"))).unwrap();
    assert_eq!((one.one_in, one.spans.len()), (1, spans.len()));
    let otlp: serde_json::Value = serde_json::from_str(&get(&cluster, 3, "/v1/spans?format=otlp")).unwrap();
    assert_eq!(otlp["resourceSpans"].as_array().unwrap().len(), 3);
}

#[test]
fn a_write_shows_whose_copies_it_had_to_void() {
    let cluster = traced(1);
    cluster.client(3).read(0, 512).unwrap();
    cluster.client(2).write(0, &[1; BLOCK]).unwrap();
    let all = all(&cluster);
    let traces = by_trace(&all.spans);
    let is_write = |spans: &&Vec<&Span>| spans.iter().any(|span| span.name == SpanName::Write);
    let spans = traces.values().find(is_write).unwrap();
    let invalidate = spans.iter().find(|span| span.name == SpanName::Invalidate).unwrap();
    assert_eq!((invalidate.node.as_str(), invalidate.peer.as_deref()), ("n1", Some("n3")), "{spans:?}");
    let names = names(spans);
    for (name, node) in [(SpanName::Write, "n2"), (SpanName::Command, "n1"), (SpanName::DiskCommand, "n1")] {
        assert!(names.contains(&(name, node.into())), "no {name:?} at {node}: {spans:?}");
    }
}

#[test]
fn the_disk_node_s_own_requests_are_traced_too() {
    let cluster = traced(1);
    let mut client = cluster.client(1);
    client.read(0, 512).unwrap();
    cluster.client(2).read(BLOCK as u64, 512).unwrap();
    client.write(BLOCK as u64, &[1; BLOCK]).unwrap();
    let all = all(&cluster);
    for (root, disk) in [(SpanName::Read, SpanName::DiskRead), (SpanName::Write, SpanName::DiskCommand)] {
        let traces = by_trace(&all.spans);
        let spans = traces.values().find(|spans| spans.iter().any(|span| span.name == root)).unwrap();
        assert!(spans.iter().any(|span| span.name == disk), "{spans:?}");
        let asked = spans.iter().any(|span| span.name == SpanName::Invalidate);
        assert_eq!(asked, root == SpanName::Write, "{spans:?}");
    }
}

#[test]
fn all_nodes_choose_the_same_requests() {
    let cluster = traced(4);
    for node in [2, 3] {
        let mut client = cluster.client(node);
        (0..64).for_each(|block| drop(client.read(block * BLOCK as u64, 512).unwrap()));
    }
    let all = all(&cluster);
    let traces = by_trace(&all.spans);
    assert!((8..80).contains(&traces.len()), "{} of 128", traces.len());
    for spans in traces.values() {
        let names = names(spans);
        assert!(spans.iter().any(|span| span.name.is_root()), "{spans:?}");
        assert!(names.iter().any(|(name, _)| *name == SpanName::Serve), "{spans:?}");
    }
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    let cluster = traced(0);
    let mut client = cluster.client(2);
    client.read(0, 8 * BLOCK).unwrap();
    client.write(0, &[1; BLOCK]).unwrap();
    cluster.client(1).read(0, 64 * BLOCK).unwrap();
    assert_eq!(all(&cluster), Spans::default());
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let cluster = traced(1);
    for query in ["trace=disk", "trace=", "format=xml", "x", "trace=n2:0.1&trace=n2:0.2", "trace=n2:0.%31"] {
        let path = format!("/v1/spans?{query}");
        let (head, body) = ask(address(&cluster, 1), "GET", &path, "localhost");
        assert!(head.starts_with("HTTP/1.1 400") && body.contains("bad_request"), "{query}: {head}\n{body}");
    }
    let unknown = cluster.admin(1).spans(Some("n9:0.1")).unwrap();
    assert!(unknown.spans.is_empty());
    let error = cluster.admin(1).spans(Some("nothing")).unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused(refusal) if refusal.kind == RefusalKind::BadRequest),
        "{error}"
    );
}
