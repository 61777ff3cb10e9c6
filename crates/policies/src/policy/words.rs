//! What policies tell each other of blocks: words that several of them use. Each has others of its own.

use cards_core::{NodeId, Note};

/// Kind of a note: the block was written by the node in the value; drop the copy.
pub(super) const INVALIDATE: u8 = 127;

/// The block was written by this node.
pub(super) const fn invalidate(writer: NodeId) -> Note {
    note(INVALIDATE, writer.0 as u64)
}

/// A note.
pub(super) const fn note(kind: u8, value: u64) -> Note {
    Note { kind, value }
}

/// The node that a note names. A number that no node can have is nobody's.
pub(super) const fn node(value: u64) -> NodeId {
    NodeId(value as u16)
}

/// Kinds of evicted copies.
pub(super) mod class {
    /// The only copy, as far as the node knows that evicts it.
    pub(crate) const SINGLETON: u8 = 0;
    /// The copy requested last.
    pub(crate) const MOST_RECENT: u8 = 1;
    /// Evicted by the disk node.
    pub(crate) const SERVER: u8 = 2;
    /// Given back to the disk node, which had kept none.
    pub(crate) const DEMOTED: u8 = 3;
}
