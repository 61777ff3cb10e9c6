//! `cards status --cluster`: one line a node.

use cards_admin::{Cluster, MemberState, NodeStatus, Status, uptime};
use cards_config::size;

use super::member_state;
use crate::table::{Align, Table, count, percent};

/// All nodes for people.
pub(super) fn render(cluster: &Cluster) -> String {
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("state", Align::Left),
        ("up", Align::Right),
        ("cached", Align::Right),
        ("of", Align::Right),
        ("block reads", Align::Right),
        ("from memory", Align::Right),
        ("for others", Align::Right),
        ("", Align::Left),
    ]);
    for node in &cluster.nodes {
        table.row(row(node));
    }
    format!("{}\n{table}", cluster.headline)
}

fn row(node: &NodeStatus) -> [String; 9] {
    let (name, state) = (node.name.clone(), member_state(node.state).to_owned());
    let dash = || "-".to_owned();
    let Some(status) = &node.status else {
        let why = node.error.clone().unwrap_or_default();
        return [name, state, dash(), dash(), dash(), dash(), dash(), dash(), why];
    };
    let counters = &status.counters;
    let spared = counters.local_hits + counters.remote_hits;
    [
        name,
        state,
        uptime(status.uptime_s),
        size::human(status.cache.used),
        size::human(status.cache.bytes),
        count(counters.reads),
        percent(spared, counters.reads),
        count(counters.served),
        trouble(node.state, status),
    ]
}

/// What is wrong as the node itself says. The heading has what the node says that was asked.
fn trouble(state: MemberState, status: &Status) -> String {
    match status.problems.as_slice() {
        [] => String::new(),
        _ if state == MemberState::Here => String::new(),
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::status::tests::sample;

    #[test]
    fn every_node_has_a_line_and_says_itself_what_is_wrong() {
        let (here, mut other) = (sample(), sample());
        other.problems = vec!["node n3: no answer".into(), "volume x: offline".into()];
        let node = |name: &str, state, status: Option<Status>| NodeStatus {
            name: name.into(),
            state,
            error: status.is_none().then(|| "no answer for 500ms".into()),
            status: status.map(Box::new),
        };
        let nodes = vec![
            node("n1", MemberState::Here, Some(here)),
            node("n2", MemberState::Up, Some(other)),
            node("n3", MemberState::Down, None),
        ];
        let text = render(&Cluster { node: "n1".into(), headline: "n1 of cluster lab: well".into(), nodes });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 5 && lines[0] == "n1 of cluster lab: well", "{text}");
        for (line, parts) in [
            (2, ["n1", "here", "2 min", "1 MiB", "75 %"]),
            (3, ["n2", "up", "75 %", "node n3: no answer", "(and 1 more)"]),
            (4, ["n3", "down", "-", "no answer", "500ms"]),
        ] {
            assert!(parts.iter().all(|part| lines[line].contains(part)), "{text}");
        }
    }
}
