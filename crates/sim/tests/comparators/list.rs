//! Traces made by hand.

use std::time::Duration;

use cards_sim::{Library, Setup};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

pub(crate) const BLOCK: u32 = 4096;

/// Requests from a list.
pub(crate) struct Listed {
    requests: Vec<Request>,
    done: usize,
    skipped: Skipped,
}

impl Listed {
    pub(crate) fn new(requests: &[Request]) -> Self {
        Self { requests: requests.to_vec(), done: 0, skipped: Skipped::default() }
    }
}

impl Source for Listed {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        self.done += 1;
        Ok(self.requests.get(self.done - 1).copied())
    }

    fn progress(&self) -> Progress {
        let total = self.requests.len();
        Progress { done: self.done.min(total) as u64, total: Some(total as u64) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        false
    }
}

/// A request for whole blocks, by a node's only process.
pub(crate) fn request(node: u16, op: Op, block: u64, blocks: u64) -> Request {
    Request {
        time: Duration::ZERO,
        compute: Duration::ZERO,
        process: node.into(),
        node: node.into(),
        volume: 0,
        op,
        offset: block * u64::from(BLOCK),
        bytes: blocks as u32 * BLOCK,
    }
}

/// The parallel machine of PAFS with so many nodes and so many blocks at each.
pub(crate) fn setup(policy: &str, nodes: u16, blocks: u32) -> Setup {
    let machine = Library::default().find("pm").unwrap().clone();
    Setup {
        nodes,
        cache_blocks: vec![blocks],
        block_bytes: BLOCK,
        check: true,
        ..Setup::new(machine, policy)
    }
}

/// Numbers drawn from a seed.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
