//! Who issues a request, and when.

use std::time::Duration;

use crate::{Op, Request};

/// A process at the moment of its next request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// In ns from the start.
    pub(crate) time: u64,
    /// CPU time before it, in ns.
    pub(crate) compute: u64,
    /// Who.
    pub(crate) process: u32,
    /// Where that runs.
    pub(crate) node: u32,
}

impl Moment {
    /// Of the only process of a node.
    pub(crate) const fn of_node(node: u32, time: u64, compute: u64) -> Self {
        Self { time, compute, process: node, node }
    }

    /// The request for a range of a volume.
    pub(crate) const fn request(self, op: Op, volume: u16, offset: u64, bytes: u32) -> Request {
        Request {
            time: Duration::from_nanos(self.time),
            compute: Duration::from_nanos(self.compute),
            process: self.process,
            node: self.node,
            volume,
            op,
            offset,
            bytes,
        }
    }
}
