//! Which blocks of a client's requests are in the sample.

use std::cell::Cell;
use std::sync::Arc;

use cards_advise::{Access, place};
use cards_core::BlockId;

use super::stream::Stream;

/// What one client asks for, between two references to blocks of the sample.
pub(crate) struct Counting {
    /// None if there is no sample of its volume.
    stream: Option<Arc<Stream>>,
    /// Bits of an offset within a block.
    shift: u32,
    /// Block reads and writes since the last reference to a block of the sample.
    reads: Cell<u32>,
    writes: Cell<u32>,
}

impl Counting {
    pub(crate) fn new(stream: Option<Arc<Stream>>, shift: u32) -> Self {
        Self { stream, shift, reads: Cell::new(0), writes: Cell::new(0) }
    }

    /// Counts the blocks of a range in bytes that the client reads, or writes; those of the sample go to `take`, with what
    /// was counted until then.
    #[inline]
    pub(crate) fn count(
        &self,
        write: bool,
        (offset, bytes): (u64, u32),
        take: impl Fn(BlockId, Access, (u32, u32)),
    ) {
        let Some(stream) = &self.stream else { return };
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
                take(id, access, self.counted(stream));
            }
        }
        counts.set(count);
    }

    /// What was counted since the last time, by this client and by those that are gone.
    fn counted(&self, stream: &Stream) -> (u32, u32) {
        let (reads, writes) = stream.left();
        (reads.saturating_add(self.reads.take()), writes.saturating_add(self.writes.take()))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.leave(self.reads.take(), self.writes.take());
        }
    }
}
