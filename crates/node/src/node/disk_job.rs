//! A job of an engine, until it is done.

use cards_core::OpId;

use super::buffers::Bytes;

/// A job of an engine of this thread.
pub(crate) enum DiskJob {
    /// Of a shard.
    Block {
        shard: u16,
        op: OpId,
        /// Keeps the bytes of a write where they are until the engine is done with them.
        bytes: Option<Bytes>,
        /// What is done must be made durable before it is reported: the disk to flush, by its place in
        /// [`Node::disks`](crate::node::Node::disks).
        flush: Option<usize>,
        /// It makes something of this disk durable.
        syncs: Option<usize>,
    },
    /// Of the control.
    Extents { op: OpId },
}
