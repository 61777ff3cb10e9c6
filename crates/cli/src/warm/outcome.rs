//! What was fetched, at which nodes.

use std::fmt;

use cards_admin::Warmed;
use cards_config::size;
use serde::Serialize;

use super::nodes::LeftOut;
use crate::table::{Align, Table, count};

/// What was done.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) volume: String,
    /// Bytes that were asked for, and those that have been done, at all nodes.
    pub(super) bytes: u64,
    pub(super) bytes_done: u64,
    #[serde(flatten)]
    pub(super) blocks: Warmed,
    pub(super) seconds: f64,
    /// By a signal.
    pub(super) interrupted: bool,
    pub(super) nodes: Vec<NodeOutcome>,
    /// Blocks of the volume that are in this node's cache when it is done, if only that was to be filled: less than were
    /// fetched if others keep them or they had to leave again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached: Option<u64>,
    /// Nodes that were not asked to.
    pub(super) left_out: Vec<LeftOut>,
}

/// What was done at one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct NodeOutcome {
    pub(super) node: String,
    pub(super) bytes_done: u64,
    #[serde(flatten)]
    pub(super) blocks: Warmed,
    /// Why it did not go on to the end.
    pub(super) error: Option<String>,
}

impl Outcome {
    /// The nodes that did not go on to the end, and why.
    pub(super) fn missing(&self) -> Vec<LeftOut> {
        let why =
            |node: &NodeOutcome| node.error.clone().map(|reason| LeftOut { node: node.node.clone(), reason });
        self.nodes.iter().filter_map(why).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = size::human((self.bytes_done as f64 / self.seconds.max(1e-3)) as u64);
        let (volume, bytes, seconds) = (&self.volume, size::human(self.bytes_done), self.seconds);
        write!(f, "volume {volume}: ")?;
        if self.nodes.len() > 1 {
            write!(f, "{} nodes, ", self.nodes.len())?;
        }
        write!(f, "{bytes}")?;
        if self.bytes_done < self.bytes {
            write!(f, " of {}", size::human(self.bytes))?;
        }
        if self.interrupted {
            write!(f, ", interrupted")?;
        }
        writeln!(f, " in {seconds:.1} s, {rate}/s")?;
        let Warmed { here, from_peers, from_disk, failed } = self.blocks;
        let (disk, peers, here) = (count(from_disk), count(from_peers), count(here));
        write!(f, "  blocks: {disk} from the disk, {peers} from other nodes, {here} were here already")?;
        if failed > 0 {
            write!(f, ", {} failed", count(failed))?;
        }
        writeln!(f)?;
        if let Some(cached) = self.cached {
            write!(f, "  now in this node's cache: {} blocks of the volume", count(cached))?;
            let kept = self.blocks.blocks() - failed;
            writeln!(
                f,
                "{}",
                if cached < kept { "; the others are at other nodes or have left it" } else { "" }
            )?;
        }
        if self.nodes.len() > 1 {
            self.table().fmt(f)?;
        }
        for LeftOut { node, reason } in &self.left_out {
            writeln!(f, "  left out: {node} ({reason})")?;
        }
        Ok(())
    }
}

impl Outcome {
    fn table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new(&[
            ("node", Align::Left),
            right("done"),
            right("from disk"),
            right("from nodes"),
            right("there"),
            right("failed"),
            ("", Align::Left),
        ]);
        for NodeOutcome { node, bytes_done, blocks, error } in &self.nodes {
            let Warmed { here, from_peers, from_disk, failed } = *blocks;
            let blocks = [from_disk, from_peers, here, failed].map(count);
            let end = error.as_ref().map_or_else(String::new, |error| format!("ended: {error}"));
            table.row([node.clone(), size::human(*bytes_done)].into_iter().chain(blocks).chain([end]));
        }
        table
    }
}
