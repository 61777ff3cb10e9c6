//! Traces for people: a table for each, indented by what is a part of what.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_admin::{Silent, Span, Spans};

use crate::table::{self, Align, Table};

/// Steps deeper than that are shown as if they were at this depth.
const DEPTH_MAX: usize = 8;

/// The spans of one request.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) id: String,
    /// Places in the list of all spans, by their beginnings.
    places: Vec<usize>,
    start_us: u64,
    took_us: u64,
}

/// Up to `most` traces, the slowest first.
pub(super) fn slowest(all: &Spans, most: usize) -> Vec<Trace> {
    let mut traces = traces(all);
    traces.sort_by_key(|trace| std::cmp::Reverse(trace.took_us));
    traces.truncate(most);
    traces
}

/// The last `most` traces, the latest last.
pub(super) fn last(all: &Spans, most: usize) -> Vec<Trace> {
    let mut traces = traces(all);
    traces.sort_by_key(|trace| trace.start_us);
    traces.split_off(traces.len().saturating_sub(most))
}

fn traces(all: &Spans) -> Vec<Trace> {
    let mut by_id: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, span) in all.spans.iter().enumerate() {
        by_id.entry(&span.trace).or_default().push(place);
    }
    let trace = |(id, places): (&str, Vec<usize>)| {
        let of = || places.iter().filter_map(|&place| all.spans.get(place));
        // If the node of the client has forgotten it, the longest step says most.
        let whole = of().find(|span| span.name.is_root()).or_else(|| of().max_by_key(|s| s.duration_us));
        let (start_us, took_us) = whole.map_or((0, 0), |span| (span.start_us, span.duration_us));
        Trace { id: id.to_owned(), places, start_us, took_us }
    };
    by_id.into_iter().map(trace).collect()
}

/// A table for each trace.
pub(super) fn render(all: &Spans, traces: &[Trace]) -> String {
    let parents = all.parents();
    let mut text: String = traces.iter().map(|trace| one(all, &parents, trace)).collect();
    if traces.is_empty() {
        text = match all.one_in {
            0 => "no requests are traced: set trace_sample = \"1/1000\" in the configuration of all nodes\n"
                .into(),
            one_in => {
                format!("no traces: 1 request of {one_in} is traced, and hits in the own cache never are\n")
            }
        };
    }
    for Silent { node, reason } in &all.silent {
        text += &format!("nothing from {node}: {reason}\n");
    }
    text
}

fn one(all: &Spans, parents: &[Option<usize>], trace: &Trace) -> String {
    let mut table = Table::new(&[
        ("step", Align::Left),
        ("node", Align::Left),
        ("after", Align::Right),
        ("took", Align::Right),
        ("", Align::Left),
    ]);
    let mut lines = Vec::new();
    for &place in trace.places.iter().filter(|place| parents.get(**place).is_none_or(Option::is_none)) {
        descend(trace, parents, place, 0, &mut lines);
    }
    let mut of = String::new();
    for (place, depth) in lines {
        let Some(span) = all.spans.get(place) else { continue };
        if of.is_empty() {
            of = format!("block {} of {}", span.block, span.volume);
        }
        table.row(row(trace, span, depth));
    }
    format!("{}  {of}\n{table}\n", trace.id)
}

/// A step and what is a part of it. A parent begins before its parts in no clock but one, so the depth is bounded by
/// hand.
fn descend(
    trace: &Trace,
    parents: &[Option<usize>],
    place: usize,
    depth: usize,
    lines: &mut Vec<(usize, usize)>,
) {
    lines.push((place, depth));
    if depth == DEPTH_MAX {
        return;
    }
    for &part in trace.places.iter().filter(|part| parents.get(**part) == Some(&Some(place))) {
        descend(trace, parents, part, depth + 1, lines);
    }
}

fn row(trace: &Trace, span: &Span, depth: usize) -> [String; 5] {
    let peer = span.peer.as_ref().map(|peer| format!(" {peer}")).unwrap_or_default();
    let us = |us| table::time(Duration::from_micros(us));
    let after = match span.start_us.checked_sub(trace.start_us) {
        Some(after) => us(after),
        // By the clock of that node.
        None => format!("-{}", us(trace.start_us - span.start_us)),
    };
    [
        format!("{:width$}{}{peer}", "", span.name.name(), width = 2 * depth),
        span.node.clone(),
        after,
        us(span.duration_us),
        span.outcome.name().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use cards_admin::{SpanName, SpanOutcome};

    use super::*;

    fn span(trace: &str, name: SpanName, node: &str, peer: Option<&str>, start: u64, took: u64) -> Span {
        Span {
            trace: trace.into(),
            name,
            node: node.into(),
            peer: peer.map(Into::into),
            volume: "disk".into(),
            block: 7,
            start_us: 1_000_000 + start,
            duration_us: took,
            outcome: SpanOutcome::Disk,
        }
    }

    fn spans() -> Spans {
        let spans = vec![
            span("n2:0.1", SpanName::Read, "n2", None, 0, 900),
            span("n2:0.1", SpanName::Ask, "n2", Some("n3"), 0, 900),
            span("n2:0.1", SpanName::PassOn, "n3", Some("n1"), 100, 20),
            span("n2:0.1", SpanName::Serve, "n1", None, 200, 600),
            span("n2:0.1", SpanName::DiskRead, "n1", None, 210, 500),
            span("n3:0.1", SpanName::Read, "n3", None, 300, 5_000),
        ];
        Spans { one_in: 1, spans, silent: vec![] }
    }

    #[test]
    fn a_trace_is_a_tree_with_times() {
        let all = spans();
        let text = render(&all, &slowest(&all, 2));
        assert_eq!(
            text,
            "n3:0.1  block 7 of disk\n\
             \x20 step  node  after    took\n\
             \x20 read  n3     0 us  5.0 ms  from the disk\n\n\
             n2:0.1  block 7 of disk\n\
             \x20 step               node   after    took\n\
             \x20 read               n2      0 us  900 us  from the disk\n\
             \x20   ask n3           n2      0 us  900 us  from the disk\n\
             \x20     pass on n1     n3    100 us   20 us  from the disk\n\
             \x20       serve        n1    200 us  600 us  from the disk\n\
             \x20         disk read  n1    210 us  500 us  from the disk\n\n"
        );
    }

    #[test]
    fn few_are_shown_and_none_is_explained() {
        let all = spans();
        let ids = |traces: Vec<Trace>| traces.into_iter().map(|trace| trace.id).collect::<Vec<_>>();
        assert_eq!(ids(slowest(&all, 1)), ["n3:0.1"]);
        assert_eq!(ids(last(&all, 1)), ["n3:0.1"]);
        assert_eq!(ids(last(&all, 9)), ["n2:0.1", "n3:0.1"]);
        assert!(render(&Spans::default(), &[]).contains("trace_sample"));
        let silent = vec![Silent { node: "n9".into(), reason: "it is down".into() }];
        assert!(
            render(&Spans { one_in: 9, silent, ..Spans::default() }, &[]).contains("nothing from n9: it")
        );
    }
}
