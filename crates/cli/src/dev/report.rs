//! The counters at the end of a captive cluster.

use std::fmt;

use cards_admin::{Counters, DiskCounters};
use cards_config::size;
use serde::Serialize;

use super::Cluster;
use crate::table::{Align, Table, count, percent};

/// The counters of every node, and of the disk. Its JSON is an interface.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    nodes: Vec<Node>,
    disk: DiskCounters,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    #[serde(flatten)]
    counters: Counters,
    /// Why the counters are 0, for a node that no longer answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable: Option<String>,
}

impl Report {
    /// Asks all nodes that still answer.
    pub(super) fn collect(cluster: &Cluster) -> Self {
        let mut disk = DiskCounters::default();
        let nodes = cluster.nodes.iter().map(|node| {
            let name = node.config.node.clone();
            match node.status() {
                Ok(status) => {
                    disk = status.disks.iter().fold(disk, |sum, d| sum.plus(d.counters));
                    Node { name, counters: status.counters, unreachable: None }
                }
                Err(e) => Node { name, counters: Counters::default(), unreachable: Some(e.to_string()) },
            }
        });
        let nodes = nodes.collect();
        Self { nodes, disk }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = Align::Right;
        let mut table = Table::new(&[
            ("node", Align::Left),
            ("reads", right),
            ("local hits", right),
            ("remote hits", right),
            ("disk reads", right),
            ("writes", right),
            ("evictions", right),
            ("forwarded", right),
            ("stored", right),
            ("served", right),
            ("messages", right),
            ("sent", right),
        ]);
        for Node { name, counters: c, .. } in &self.nodes {
            table.row([
                name.clone(),
                count(c.reads),
                count(c.local_hits),
                count(c.remote_hits),
                count(c.disk_reads),
                count(c.writes),
                count(c.evictions),
                count(c.forwarded),
                count(c.stored_for_others),
                count(c.served),
                count(c.messages_sent),
                size::human(c.bytes_sent),
            ]);
        }
        write!(f, "{table}")?;
        let Self { nodes, disk } = self;
        for node in nodes {
            if let Some(reason) = &node.unreachable {
                writeln!(f, "  {}: no counters: {reason}", node.name)?;
            }
        }
        let reads: u64 = nodes.iter().map(|node| node.counters.reads).sum();
        let spared: u64 = nodes.iter().map(|node| node.counters.local_hits + node.counters.remote_hits).sum();
        writeln!(
            f,
            "  disk: {} blocks ({}) read, {} blocks ({}) written; the caches answered {} of all reads",
            count(disk.reads),
            size::human(disk.bytes_read),
            count(disk.writes),
            size::human(disk.bytes_written),
            percent(spared, reads)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let counters =
            Counters { reads: 8, local_hits: 2, remote_hits: 4, disk_reads: 2, ..Counters::default() };
        let node = |name: &str, counters, unreachable| Node { name: name.into(), counters, unreachable };
        Report {
            nodes: vec![
                node("n1", counters, None),
                node("n2", Counters::default(), Some("connection refused".into())),
            ],
            disk: DiskCounters { reads: 2, bytes_read: 131_072, ..DiskCounters::default() },
        }
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let json = serde_json::to_value(report()).unwrap();
        let node = json["nodes"][0].as_object().unwrap();
        for name in [
            "name",
            "reads",
            "local_hits",
            "remote_hits",
            "disk_reads",
            "writes",
            "evictions",
            "forwarded",
            "stored_for_others",
            "served",
            "messages_sent",
            "messages_received",
            "bytes_sent",
            "bytes_received",
            "bytes_read",
            "bytes_written",
        ] {
            assert!(node.contains_key(name), "{name}");
        }
        assert!(!node.contains_key("unreachable"));
        for name in ["reads", "writes", "bytes_read", "bytes_written"] {
            assert!(json["disk"][name].is_u64(), "{name}");
        }
        assert_eq!(json["nodes"][1]["unreachable"], "connection refused");
    }

    #[test]
    fn the_table_ends_with_what_the_disk_did() {
        let text = report().to_string();
        assert!(text.contains("n2: no counters: connection refused"), "{text}");
        assert!(text.ends_with(
            "disk: 2 blocks (128 KiB) read, 0 blocks (0 B) written; the caches answered 75 % of all reads\n"
        ));
    }
}
