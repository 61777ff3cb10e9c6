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
        let answered = || self.nodes.iter().filter(|node| node.unreachable.is_none());
        let all = answered().fold(Counters::default(), |sum, node| sum.plus(&node.counters));
        let mut row = |name: &str, c: &Counters| {
            table.row([
                name.to_owned(),
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
        };
        for Node { name, counters, .. } in &self.nodes {
            row(name, counters);
        }
        if self.nodes.len() > 1 {
            row("all", &all);
        }
        write!(f, "{table}")?;
        let Self { nodes, disk } = self;
        for node in nodes {
            if let Some(reason) = &node.unreachable {
                writeln!(f, "  {}: no counters: {reason}", node.name)?;
            }
        }
        // What makes a row of reads differ from the sum of its hits and disk reads.
        for Node { name, counters: c, .. } in nodes {
            let open = c.reads.saturating_sub(c.local_hits + c.remote_hits + c.disk_reads + c.failed);
            if c.failed + open > 0 {
                writeln!(
                    f,
                    "  {name}: {} reads failed, {} were not answered yet",
                    count(c.failed),
                    count(open)
                )?;
            }
        }
        let spared = all.local_hits + all.remote_hits;
        writeln!(
            f,
            "  reads: {} of {} answered by the caches ({}), {} by the disk",
            count(spared),
            count(all.reads),
            percent(spared, all.reads),
            count(all.disk_reads)
        )?;
        write!(f, "  disk: {} blocks ({}) read", count(disk.reads), size::human(disk.bytes_read))?;
        match disk.reads.saturating_sub(all.disk_reads) {
            0 => {}
            more => write!(f, ", {} of them ahead of a read or for a write", count(more))?,
        }
        writeln!(f, "; {} blocks ({}) written", count(disk.writes), size::human(disk.bytes_written))
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
        assert!(
            text.ends_with(
                "  reads: 6 of 8 answered by the caches (75 %), 2 by the disk\n  disk: 2 blocks (128 KiB) read; 0 blocks (0 B) written\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_table_adds_up() {
        let mut report = report();
        report.nodes[1] = Node {
            name: "n2".into(),
            counters: Counters { reads: 10, local_hits: 1, disk_reads: 5, failed: 3, ..Counters::default() },
            unreachable: None,
        };
        report.disk.reads = 9;
        let text = report.to_string();
        let row = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name))
                .unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().skip(1).take(4).map(|cell| cell.parse().unwrap()).collect::<Vec<u64>>()
        };
        assert_eq!(row("all "), row("n1 ").iter().zip(row("n2 ")).map(|(a, b)| a + b).collect::<Vec<u64>>());
        assert!(text.contains("n2: 3 reads failed, 1 were not answered yet"), "{text}");
        assert!(text.contains("reads: 7 of 18 answered by the caches (39 %), 7 by the disk"), "{text}");
        assert!(text.contains("9 blocks (128 KiB) read, 2 of them ahead of a read or for a write"), "{text}");
    }
}
