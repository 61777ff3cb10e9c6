//! Counters of the driver: bytes, and the copies that remain.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counted without ordering: each is exact, a set of them is only nearly simultaneous.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes sent to peers.
    pub(crate) bytes_sent: AtomicU64,
    /// Bytes received from peers.
    pub(crate) bytes_received: AtomicU64,
    /// Bytes that clients read.
    pub(crate) bytes_read: AtomicU64,
    /// Bytes that clients wrote.
    pub(crate) bytes_written: AtomicU64,
    /// Bytes of blocks copied within this process: out of a receive buffer, into a bounce buffer, by a
    /// patch. What travels straight between slot and socket or disk is not among them.
    pub(crate) bytes_copied: AtomicU64,
    /// Messages dropped because a peer's queue was full.
    pub(crate) messages_dropped: AtomicU64,
}

/// Bytes to and from one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerTraffic {
    /// Bytes sent to it.
    pub(crate) sent: AtomicU64,
    /// Bytes received from it.
    pub(crate) received: AtomicU64,
}

impl Traffic {
    pub(crate) fn add(counter: &AtomicU64, bytes: usize) {
        counter.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Relaxed)
    }
}
