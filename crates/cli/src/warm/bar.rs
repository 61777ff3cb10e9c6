//! How far it is, on standard error if that is a terminal.

use std::time::{Duration, Instant};

use cards_config::size;
use indicatif::{MultiProgress, ProgressBar};

use crate::progress;

/// Nodes that have a line each: more do not fit on a terminal.
const LINES_MAX: usize = 20;

/// A line with a bar for each node, and one for all; gone with the value.
pub(super) struct Bars {
    began: Instant,
    nodes: Vec<Bar>,
    total: Bar,
    /// Keeps them one below the other.
    _all: MultiProgress,
}

struct Bar {
    bar: ProgressBar,
    what: String,
    bytes: u64,
    done: u64,
}

impl Bars {
    /// Nodes by name, that are to fetch so many bytes each.
    pub(super) fn new<'a>(volume: &str, nodes: impl ExactSizeIterator<Item = &'a str>, bytes: u64) -> Self {
        let all = progress::bars();
        let bar = |what, bytes| Bar { bar: all.add(progress::bar(bytes)), what, bytes, done: 0 };
        let count = nodes.len();
        let with_lines = (2..=LINES_MAX).contains(&count);
        let nodes = if with_lines { nodes.map(|node| bar(node.into(), bytes)).collect() } else { Vec::new() };
        let total = bar(format!("warming {volume}"), bytes.saturating_mul(count as u64));
        Self { began: Instant::now(), nodes, total, _all: all }
    }

    /// A node has fetched so many bytes more.
    pub(super) fn add(&mut self, node: usize, bytes: u64) {
        let elapsed = self.began.elapsed();
        if let Some(bar) = self.nodes.get_mut(node) {
            bar.add(bytes, elapsed);
        }
        self.total.add(bytes, elapsed);
    }

    /// A node is done, or cannot go on.
    pub(super) fn end(&mut self, node: usize, error: Option<&str>) {
        if let (Some(bar), Some(error)) = (self.nodes.get(node), error) {
            bar.bar.abandon_with_message(format!("{}: {error}", bar.what));
        }
    }
}

impl Bar {
    fn add(&mut self, bytes: u64, elapsed: Duration) {
        self.done += bytes;
        let per_second = self.done as f64 / elapsed.as_secs_f64().max(1e-9);
        let mut message = format!("{}: {}", self.what, size::human(self.done));
        message += &format!(" of {}, {}/s", size::human(self.bytes), size::human(per_second as u64));
        if elapsed > Duration::from_secs(1) && per_second > 0.0 {
            message += &format!(", {:.0} s left", self.bytes.saturating_sub(self.done) as f64 / per_second);
        }
        self.bar.set_message(message);
        self.bar.set_position(self.done);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.nodes.iter().chain([&self.total]).for_each(|bar| bar.bar.finish_and_clear());
    }
}
