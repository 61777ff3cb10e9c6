//! What a client's connection does for each request.

use std::cell::Cell;
use std::sync::Arc;

use cards_advise::{Access, place};
use cards_core::{BlockId, Instant};

use super::stream::Stream;
use crate::node::Node;

/// Where the references of one client go.
pub(crate) struct Tap {
    /// None if there is no sample of its volume.
    stream: Option<Arc<Stream>>,
    /// Bits of an offset within a block.
    shift: u32,
    /// Block reads and writes since the last reference to a block of the sample.
    reads: Cell<u32>,
    writes: Cell<u32>,
}

impl Tap {
    /// For a client of a volume.
    pub(crate) fn new(node: &Node, volume: cards_core::PgId) -> Self {
        let stream = node.sampling.open(volume, super::told::cache_blocks(node));
        let shift = node.arena.block().trailing_zeros();
        Self { stream, shift, reads: Cell::new(0), writes: Cell::new(0) }
    }

    /// The client reads, or writes, a range in bytes; `thread` is the caller's.
    #[inline]
    pub(crate) fn note(&self, node: &Node, thread: u8, now: Instant, write: bool, range: (u64, u32)) {
        let Some(stream) = &self.stream else { return };
        let (offset, bytes) = range;
        if bytes == 0 {
            return;
        }
        let last = offset + u64::from(bytes) - 1;
        let (limit, volume) = (stream.limit(), stream.volume());
        let counts = if write { &self.writes } else { &self.reads };
        let mut count = counts.get();
        for index in offset >> self.shift..=last >> self.shift {
            count = count.saturating_add(1);
            let id = BlockId::new(volume, index as u32);
            if place(id) < limit {
                let begin = index << self.shift;
                let whole = begin >= offset && last - begin >= (1 << self.shift) - 1;
                let access = match (write, whole) {
                    (false, _) => Access::Read,
                    (true, true) => Access::Write,
                    (true, false) => Access::PartialWrite,
                };
                counts.set(std::mem::take(&mut count));
                self.take(node, stream, thread, now, id, access);
            }
        }
        counts.set(count);
    }

    fn take(&self, node: &Node, stream: &Stream, thread: u8, now: Instant, block: BlockId, access: Access) {
        let (reads, writes) = stream.left();
        let reads = reads.saturating_add(self.reads.take());
        let writes = writes.saturating_add(self.writes.take());
        node.sampling.push(thread, now, block, access, reads, writes);
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.leave(self.reads.take(), self.writes.take());
        }
    }
}
