//! The medium: what survives the primary's process.

use super::{Contents, Generation, Nodes, Reply, Stamp};

/// The block, the journal, and for a medium that two nodes reach the gate and the origins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Medium {
    /// What was applied last.
    pub contents: Contents,
    /// The epoch it is sealed for. A primary of a lower epoch neither reads, writes nor changes the journal.
    pub epoch: u8,
    /// Journal: no write of the region has a higher stamp.
    pub mark: Stamp,
    /// Journal: nodes that have a card.
    pub holders: Nodes,
    /// Journal: the highest generation of each node without which a primary has gone on.
    pub dropped: [Option<Generation>; 3],
    /// The reply to each command that was applied, recorded with the write.
    pub origins: [Option<Reply>; 4],
}

impl Medium {
    pub(crate) fn new() -> Self {
        Self {
            contents: None,
            epoch: 1,
            mark: Stamp::default(),
            holders: Nodes::ALL,
            dropped: [None; 3],
            origins: [None; 4],
        }
    }
}
