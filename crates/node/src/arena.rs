//! The memory of the cache: every slot of every shard in one anonymous mapping.
//!
//! This is the only place that turns a slot's number into memory. Why handing out references is sound:
//!
//! - A slot is *written* only by whom the core has made its one user: the receiver of a landing
//!   ([`cards_core::Landing::Slot`]), the disk job of a [`cards_core::DiskWork::Read`], or a patch, which is
//!   carried out under the shard's lock before the core hears anything else.
//! - A slot is *read* only while it is pinned, by a hit, by `Output::Ready` or by `Output::Send`. The core
//!   makes nobody a writer of a pinned slot and gives a pinned slot to no other block.
//!
//! Callers show which of the two they hold in the `SAFETY` comment of each call.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use cards_core::Slot;

/// Alignment of the mapping: a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// The slots' memory.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: NonNull<libc::c_void>,
    mapped: usize,
    base: NonNull<u8>,
    block: usize,
    /// Of each shard: its first slot in the arena; one more at the end.
    first: Box<[usize]>,
}

// SAFETY: the mapping belongs to the arena alone, and access to a slot is exclusive or read-only by the
// rules at the top of this file, whatever the thread.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves memory for `slots[i]` slots of shard `i`, of `block` bytes each. Pages take memory once touched.
    ///
    /// # Errors
    /// The address space cannot be had.
    pub(crate) fn new(slots: &[u32], block: u32) -> io::Result<Self> {
        let block = block as usize;
        let mut first = Vec::with_capacity(slots.len() + 1);
        let mut total = 0usize;
        for &count in slots {
            first.push(total);
            total += count as usize;
        }
        first.push(total);
        let bytes = total.checked_mul(block).and_then(|bytes| bytes.checked_add(HUGE_PAGE));
        let mapped = bytes.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: a new anonymous mapping touches no memory of this process.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let mapping = match NonNull::new(mapping) {
            Some(mapping) if mapping.as_ptr() != libc::MAP_FAILED => mapping,
            _ => return Err(io::Error::last_os_error()),
        };
        // SAFETY: the range is the mapping. A refusal costs speed only, so it is not looked at.
        unsafe { libc::madvise(mapping.as_ptr(), mapped, libc::MADV_HUGEPAGE) };
        let bytes = mapping.cast::<u8>();
        let shift = bytes.as_ptr().align_offset(HUGE_PAGE);
        debug_assert!(shift < HUGE_PAGE, "byte pointers can always be aligned");
        // SAFETY: the mapping is HUGE_PAGE bytes longer than the slots, so the shifted base lies within it.
        let base = unsafe { bytes.add(shift) };
        Ok(Self { mapping, mapped, base, block, first: first.into() })
    }

    /// Has the kernel provide memory for all slots, a huge page at a time and all shards alike, since each takes
    /// its slots in order. Nobody waits for it: a slot that is used earlier gets its memory then. Ends early
    /// when `stop` is set, or where the kernel refuses (before Linux 5.14, or out of memory).
    pub(crate) fn populate(&self, stop: &AtomicBool) {
        let bytes = |shard: usize| self.first[shard] * self.block..self.first[shard + 1] * self.block;
        let shards = self.first.len() - 1;
        let longest = (0..shards).map(|shard| bytes(shard).len()).max().unwrap_or(0);
        for step in 0..=longest / HUGE_PAGE {
            for shard in 0..shards {
                let range = bytes(shard);
                let page = range.start / HUGE_PAGE * HUGE_PAGE + step * HUGE_PAGE;
                let length = HUGE_PAGE.min(range.end.saturating_sub(page));
                if length == 0 {
                    continue;
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: the page begins within the mapping, which is longer than the slots by a huge page.
                // Nothing in it changes by this, whoever uses it meanwhile.
                let refused = unsafe {
                    let start = self.base.add(page).as_ptr().cast();
                    libc::madvise(start, length, libc::MADV_POPULATE_WRITE) != 0
                };
                if refused && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                    return;
                }
            }
        }
    }

    /// Bytes of a slot.
    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// The address of a slot, for those who fill it through the kernel.
    pub(crate) fn address(&self, shard: u16, slot: Slot) -> NonNull<u8> {
        let shard = usize::from(shard);
        let index = self.first[shard] + slot.0 as usize;
        assert!(index < self.first[shard + 1], "slot {slot:?} is not one of shard {shard}");
        // SAFETY: `index` is below the number of slots, so the offset lies within the mapping.
        unsafe { self.base.add(index * self.block) }
    }

    /// The bytes `start .. start + length` of a slot, to read.
    ///
    /// # Safety
    /// The slot stays pinned as long as the reference lives.
    pub(crate) unsafe fn bytes(&self, shard: u16, slot: Slot, start: u32, length: u32) -> &[u8] {
        let (start, length) = (start as usize, length as usize);
        assert!(start + length <= self.block, "range within a slot");
        // SAFETY: the range lies within the slot, is initialised (anonymous memory), and the caller
        // promises that the slot is pinned: nobody writes it.
        unsafe { std::slice::from_raw_parts(self.address(shard, slot).add(start).as_ptr(), length) }
    }

    /// All bytes of a slot, to write.
    ///
    /// # Safety
    /// The core has made the caller the slot's one user, for as long as the reference lives.
    #[expect(clippy::mut_from_ref, reason = "exclusive by the core's word, not by the borrow checker's")]
    pub(crate) unsafe fn bytes_mut(&self, shard: u16, slot: Slot) -> &mut [u8] {
        // SAFETY: the range is the slot, and the caller promises that nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.address(shard, slot).as_ptr(), self.block) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`; no reference into it outlives the arena.
        unsafe { libc::munmap(self.mapping.as_ptr(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_apart_and_zeroed() {
        let arena = Arena::new(&[2, 3], 4096).unwrap();
        assert_eq!(arena.address(0, Slot(0)).as_ptr() as usize % HUGE_PAGE, 0);
        let second = arena.address(1, Slot(0)).as_ptr() as usize;
        assert_eq!(second - arena.address(0, Slot(0)).as_ptr() as usize, 2 * 4096);
        // SAFETY: nobody else knows this arena.
        unsafe { arena.bytes_mut(1, Slot(2)) }.fill(7);
        // SAFETY: as above.
        assert_eq!(unsafe { arena.bytes(1, Slot(2), 4095, 1) }, [7]);
        // SAFETY: as above.
        assert_eq!(unsafe { arena.bytes(1, Slot(1), 0, 4096) }, [0; 4096]);
    }

    #[test]
    fn populated_slots_keep_what_they_hold() {
        let arena = Arena::new(&[3, 700, 1], 4096).unwrap();
        // SAFETY: nobody else knows this arena.
        unsafe { arena.bytes_mut(1, Slot(600)) }.fill(7);
        arena.populate(&AtomicBool::new(false));
        // SAFETY: as above.
        assert_eq!(unsafe { arena.bytes(1, Slot(600), 0, 4096) }, [7; 4096]);
        let pages = arena.base.as_ptr().cast();
        let mut here = vec![0u8; 704];
        // SAFETY: the range lies within the mapping, and there is a byte for each of its pages.
        let result = unsafe { libc::mincore(pages, 704 * 4096, here.as_mut_ptr()) };
        // A kernel that refuses leaves the pages to their first use.
        assert!(result == 0 && (here.iter().all(|page| page & 1 == 1) || here[0] & 1 == 0));
    }

    #[test]
    #[should_panic(expected = "not one of shard")]
    fn a_slot_of_another_shard_is_no_slot() {
        Arena::new(&[2, 3], 4096).unwrap().address(0, Slot(2));
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(Arena::new(&[u32::MAX; 64], 1 << 20).is_err());
    }
}
