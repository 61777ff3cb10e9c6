//! The table of nodes.

use cards_admin::{Counters, MemberState};

use super::super::cluster::{Cluster, Node, NodeState};
use super::super::line::Style;
use super::super::rates::Answered;
use super::grid::{Column, Grid, Sort, Value};

/// The nodes whose names pass the filter, sorted.
pub(crate) fn nodes<'a>(cluster: &'a Cluster, filter: &str, sort: Sort) -> Grid<'a, Node> {
    let rows = cluster.nodes.iter().filter(|node| node.name.contains(filter));
    Grid::new(COLUMNS, rows.collect(), sort)
}

const COLUMNS: &[Column<Node>] = &[
    Column::text("node", 0, |node| Value::word(&node.name)),
    Column::text("state", 1, |node| Value::Text(style(node.state), node.state.name().into())),
    Column::rate("reads/s", 2, |node| rate(node, |c| c.reads)),
    Column::bytes("read/s", 3, |node| bytes(node, |c| c.bytes_read)),
    Column::small("own", 4, |node| share(node, |answered| answered.here)),
    Column::small("peers", 4, |node| share(node, |answered| answered.peers)),
    Column::small("disk", 4, |node| share(node, |answered| answered.disk)),
    Column::rate("writes/s", 5, |node| rate(node, |c| c.writes)),
    Column::bytes("written/s", 9, |node| bytes(node, |c| c.bytes_written)),
    Column::small("cache", 6, |node| {
        let cache =
            node.status.as_ref().filter(|_| node.state != NodeState::Away).map(|status| &status.cache);
        let used = cache.map(|cache| 100.0 * cache.used as f64 / cache.bytes.max(1) as f64);
        Value::or_unknown(used, Value::Percent)
    }),
    Column::bytes("of", 12, |node| {
        Value::or_unknown(node.status.as_ref().map(|status| status.cache.bytes as f64), Value::Bytes)
    }),
    Column::rate("evict/s", 7, |node| rate(node, |c| c.evictions)),
    Column::rate("sent on/s", 8, |node| rate(node, |c| c.forwarded)),
    Column::rate("taken in/s", 13, |node| rate(node, |c| c.stored_for_others)),
    Column::rate("in vain/s", 16, |node| rate(node, |c| c.stored_in_vain)),
    Column::rate("served/s", 10, |node| rate(node, |c| c.served)),
    Column::rate("ahead/s", 17, |node| rate(node, |c| c.read_ahead)),
    Column::rate("locks/s", 11, |node| rate(node, |c| c.locks_given_up + c.locks_asked)),
    Column::rate("inval/s", 14, |node| rate(node, |c| c.invalidations)),
    Column::rate("waits/s", 18, |node| rate(node, |c| c.slot_waits + c.joined)),
    Column::rate("failed/s", 20, |node| rate(node, |c| c.failed)),
    Column::bytes("sent/s", 15, |node| bytes(node, |c| c.bytes_sent)),
    Column::text("address", 19, |node| Value::word(&node.address)),
];

const fn style(state: NodeState) -> Style {
    match state {
        NodeState::Up | NodeState::Said(MemberState::Up | MemberState::Here) => Style::Good,
        NodeState::Said(MemberState::Connecting) => Style::Warn,
        NodeState::Said(MemberState::Left) => Style::Dim,
        NodeState::Away | NodeState::Said(_) => Style::Bad,
    }
}

fn rate(node: &Node, counter: fn(&Counters) -> u64) -> Value {
    Value::or_unknown(node.rates.as_ref().map(|rates| rates.per_second(counter)), Value::Rate)
}

fn bytes(node: &Node, counter: fn(&Counters) -> u64) -> Value {
    Value::or_unknown(node.rates.as_ref().map(|rates| rates.per_second(counter)), Value::Bytes)
}

/// The part of the reads that were answered since the last look.
fn share(node: &Node, part: fn(Answered) -> u64) -> Value {
    let answered = node.rates.as_ref().map(|rates| Answered::from(&rates.counted));
    Value::or_unknown(answered.and_then(|answered| answered.percent(part(answered))), Value::Percent)
}
