//! A job of an engine, until it is done.

use cards_core::{OpId, PgId};

use super::buffers::Bytes;

/// A job of an engine of this thread.
pub(crate) enum DiskJob {
    /// Of a shard.
    Block {
        shard: u16,
        op: OpId,
        /// Keeps the bytes of a write where they are until the engine is done with them.
        bytes: Option<Bytes>,
        /// What is done must be made durable before it is reported: the volume to flush.
        flush: Option<PgId>,
        /// It makes something durable: the volume it is of.
        syncs: Option<PgId>,
    },
    /// Of the control.
    Extents { op: OpId },
}
