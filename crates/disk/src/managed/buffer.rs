//! Memory for what passes through the thread of a managed disk: pages of tables, and requests that are not of whole units.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::rc::Rc;

use cards_layout::format::UNIT;

use crate::job::RawBuf;

/// Units in one piece of memory, aligned for direct I/O. Clones are the same memory.
#[derive(Debug, Clone)]
pub(super) struct Buffer(Rc<[Page]>);

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; UNIT]>);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

impl Buffer {
    /// `length` bytes of zero; whole units.
    pub(super) fn new(length: usize) -> Self {
        let pages = length.div_ceil(UNIT).max(1);
        Self((0..pages).map(|_| Page(UnsafeCell::new([0; UNIT]))).collect())
    }

    /// A copy of bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let buffer = Self::new(bytes.len());
        // SAFETY: the buffer was just made: no other reference, and no job, has its memory.
        let memory = unsafe { buffer.bytes_mut() };
        memory[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len() * UNIT
    }

    fn start(&self) -> NonNull<u8> {
        NonNull::from(&self.0[0]).cast()
    }

    /// The memory from `at` on as a job's; whoever submits the job keeps a clone until its completion.
    pub(super) fn lend(&self, at: usize, length: usize) -> RawBuf {
        assert!(at + length <= self.len(), "a part is inside of its buffer");
        // SAFETY: the address is inside of the pages, which live as long as the clone that the submitter keeps. Who looks at the
        // bytes meanwhile is bound by `bytes` and `bytes_mut`.
        unsafe { RawBuf::new(self.start().add(at), length) }
    }

    /// # Safety
    /// No job that writes into the memory is under way, and nobody changes it while the reference lives.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: pages are next to each other and initialized; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// # Safety
    /// No job has the memory, and there is no other reference to it while this one lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "clones share the memory; that nobody else has it now is the caller's to see to"
    )]
    pub(super) unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: as above; the pages are in cells.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) }
    }
}
