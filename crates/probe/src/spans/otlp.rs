//! Spans as collectors of OpenTelemetry take them: OTLP in its JSON form.

use std::collections::BTreeMap;

use cards_core::mix;
use serde_json::{Value, json};

use cards_admin::{Span, SpanOutcome, Spans};

/// `SPAN_KIND_INTERNAL`.
const KIND_INTERNAL: u32 = 1;
const STATUS_OK: u32 = 1;
const STATUS_ERROR: u32 = 2;

/// One object with a resource for each node. The identifiers follow from what the spans are, so a collector that gets
/// them twice has them once.
#[must_use]
pub fn otlp(all: &Spans) -> Value {
    let ids = ids(&all.spans);
    let mut nodes: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for ((span, id), parent) in all.spans.iter().zip(&ids).zip(all.parents()) {
        let parent = parent.and_then(|place| ids.get(place)).map_or("", String::as_str);
        nodes.entry(&span.node).or_default().push(one(span, id, parent));
    }
    let resources: Vec<Value> = nodes
        .into_iter()
        .map(|(node, spans)| {
            let scope = json!({ "name": "cards", "version": env!("CARGO_PKG_VERSION") });
            json!({
                "resource": { "attributes": [text("service.name", "cards"), text("service.instance.id", node)] },
                "scopeSpans": [{ "scope": scope, "spans": spans }],
            })
        })
        .collect();
    json!({ "resourceSpans": resources })
}

fn one(span: &Span, id: &str, parent: &str) -> Value {
    let mut attributes = vec![
        text("cards.trace", &span.trace),
        text("cards.volume", &span.volume),
        // Integers of 64 bits are strings in this form.
        json!({ "key": "cards.block", "value": { "intValue": span.block.to_string() } }),
        text("cards.outcome", span.outcome.name()),
    ];
    attributes.extend(span.peer.as_ref().map(|peer| text("cards.peer", peer)));
    let status = match span.outcome {
        SpanOutcome::Done | SpanOutcome::Cache | SpanOutcome::Disk => STATUS_OK,
        SpanOutcome::Failed | SpanOutcome::Unanswered => STATUS_ERROR,
    };
    let nanoseconds = |us: u64| us.saturating_mul(1_000).to_string();
    json!({
        "traceId": format!("{:016x}{:016x}", hash(1, &[&span.trace]), hash(2, &[&span.trace])),
        "spanId": id,
        "parentSpanId": parent,
        "name": span.name.name(),
        "kind": KIND_INTERNAL,
        "startTimeUnixNano": nanoseconds(span.start_us),
        "endTimeUnixNano": nanoseconds(span.start_us.saturating_add(span.duration_us)),
        "attributes": attributes,
        "status": { "code": status },
    })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// From what the spans are, and their order where that is the same: a node may be asked twice. The time is left out:
/// it is told a little differently each time.
fn ids(spans: &[Span]) -> Vec<String> {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    let id = |span: &Span| {
        let peer = span.peer.as_deref().unwrap_or_default();
        let block = span.block.to_string();
        let alike = hash(3, &[&span.trace, span.name.name(), &span.node, peer, &block]);
        let time = times.entry(alike).or_default();
        *time += 1;
        format!("{:016x}", mix(alike ^ *time).max(1))
    };
    spans.iter().map(id).collect()
}

/// Never zero, which would be no identifier.
fn hash(seed: u64, parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cards_admin::SpanName;

    fn span(name: SpanName, node: &str, peer: Option<&str>) -> Span {
        Span {
            trace: "n2:0.1a".into(),
            name,
            node: node.into(),
            peer: peer.map(Into::into),
            volume: "disk".into(),
            block: 7,
            start_us: 1_700_000_000_000_000,
            duration_us: 5,
            outcome: SpanOutcome::Disk,
        }
    }

    #[test]
    fn a_trace_is_a_tree_with_identifiers_of_the_right_length() {
        let spans = vec![
            span(SpanName::Read, "n2", None),
            span(SpanName::Ask, "n2", Some("n3")),
            span(SpanName::PassOn, "n3", Some("n1")),
            span(SpanName::Serve, "n1", None),
            span(SpanName::DiskRead, "n1", None),
        ];
        let all = Spans { one_in: 1, spans, silent: vec![] };
        assert_eq!(all.parents(), [None, Some(0), Some(1), Some(2), Some(3)]);
        let value = otlp(&all);
        let resources = value["resourceSpans"].as_array().unwrap();
        assert_eq!(resources.len(), 3);
        let spans: Vec<&Value> =
            resources.iter().flat_map(|node| node["scopeSpans"][0]["spans"].as_array().unwrap()).collect();
        let hex = |value: &Value, digits| {
            let text = value.as_str().unwrap();
            text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let ids: std::collections::BTreeSet<&str> =
            spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 5);
        for span in spans {
            assert!(hex(&span["traceId"], 32) && hex(&span["spanId"], 16), "{span}");
            let parent = span["parentSpanId"].as_str().unwrap();
            assert_eq!(parent.is_empty(), span["name"] == "read", "{span}");
            assert!(parent.is_empty() || ids.contains(parent), "{span}");
            assert_eq!(span["endTimeUnixNano"], "1700000000000005000");
        }
    }
}
