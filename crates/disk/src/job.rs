//! What goes into an engine and what comes out.

use std::ptr::NonNull;

use tokio::time::Instant;

use crate::error::JobError;

/// Most entries one [`Op::Extents`] returns; the answer then covers only the start of the range.
pub const EXTENTS_MAX: usize = 1024;

/// An address range that the kernel or a helper thread reads or fills while the job runs.
///
/// A raw pointer rather than a slice: slots live in one large arena whose owner hands them out by number, and
/// a block is read straight into its slot and sent straight from it.
#[derive(Debug, Clone, Copy)]
pub struct RawBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a RawBuf is an address; `new`'s contract makes the memory behind it usable from any thread until
// completion.
unsafe impl Send for RawBuf {}

impl RawBuf {
    /// Names `len` bytes at `ptr`.
    ///
    /// # Safety
    ///
    /// From the submission of a job with this buffer until its completion is delivered by `completions` (or
    /// until the [`Engine`](crate::Engine) is dropped):
    /// - the memory stays allocated and initialized at this address and may be accessed from any thread;
    /// - destination of a read: nobody else reads or writes it;
    /// - source of a write: nobody writes it.
    ///
    /// Dropping the future of `completions` changes nothing: the job goes on and the memory stays lent.
    pub unsafe fn new(ptr: NonNull<u8>, len: usize) -> Self {
        Self { ptr, len }
    }

    /// First byte.
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty buffer is legal and needs no question of its own"
    )]
    pub fn len(self) -> usize {
        self.len
    }

    /// The first `n` bytes; `n` is at most `len`.
    pub(crate) fn first(self, n: usize) -> Self {
        assert!(n <= self.len, "a part is never longer than the whole");
        Self { len: n, ..self }
    }

    /// The part after the first `n` bytes; `n` is at most `len`.
    pub(crate) fn skip(self, n: usize) -> Self {
        assert!(n <= self.len, "a transfer is never longer than its buffer");
        // SAFETY: n <= len, so the address is inside the range or one past it.
        Self { ptr: unsafe { self.ptr.add(n) }, len: self.len - n }
    }
}

/// One operation. Offsets and lengths are bytes and need no alignment.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    /// Fill `buf` from `offset`.
    Read { offset: u64, buf: RawBuf },
    /// Write `buf` at `offset`; with `fua` complete only when it is on stable storage.
    Write { offset: u64, buf: RawBuf, fua: bool },
    /// Put every completed write on stable storage (`fdatasync`).
    Flush,
    /// Make the range read as zeroes. `no_hole`: keep the space allocated. `fast`: fail with EOPNOTSUPP
    /// rather than write zeroes out.
    Zero { offset: u64, len: u64, no_hole: bool, fast: bool },
    /// Give the space back if the disk can; a disk that cannot does nothing and succeeds.
    Trim { offset: u64, len: u64 },
    /// Which parts of the range are holes.
    Extents { offset: u64, len: u64 },
}

impl Op {
    /// The bytes it covers, none for a flush.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Read { offset, buf } | Self::Write { offset, buf, .. } => Some((offset, buf.len() as u64)),
            Self::Zero { offset, len, .. } | Self::Trim { offset, len } | Self::Extents { offset, len } => {
                Some((offset, len))
            }
            Self::Flush => None,
        }
    }

    /// Whether it is done by moving its bytes: nothing that was written before has to be made durable for it, and no space be given or taken.
    pub(crate) fn only_moves(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Write { fua: false, .. })
    }

    /// Whether it changes the disk.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Zero { .. } | Self::Trim { .. })
    }

    /// Whether it takes a place at the disk: syncs are shared, and extents are the file system's to know.
    pub(crate) fn takes_turn(&self) -> bool {
        matches!(self, Self::Read { .. }) || self.writes()
    }

    /// Bytes that pass between memory and disk.
    pub(crate) fn transfers(&self) -> u64 {
        match *self {
            Self::Read { buf, .. } | Self::Write { buf, .. } => buf.len() as u64,
            Self::Flush | Self::Zero { .. } | Self::Trim { .. } | Self::Extents { .. } => 0,
        }
    }
}

/// An operation and the caller's name for it.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Returned untouched in the [`Completion`]; the engine does not look at it.
    pub tag: u64,
    pub op: Op,
}

/// The end of a job.
#[derive(Debug)]
pub struct Completion {
    /// The job's tag.
    pub tag: u64,
    pub result: Result<Outcome, JobError>,
}

/// What a successful job yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The whole operation was done.
    Done,
    /// Answer to [`Op::Extents`]: consecutive from its offset, no two neighbours of one kind, at most
    /// [`EXTENTS_MAX`]; never empty for a non-empty range, but possibly shorter than it.
    Extents(Vec<Extent>),
}

/// A run of bytes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, more than 0.
    pub len: u64,
    pub kind: ExtentKind,
}

/// Whether a run has storage behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentKind {
    /// Not allocated; reads as zeroes.
    Hole,
    /// Allocated, or not known to be a hole.
    Data,
}

/// A job on its way through a back end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// The engine's number for it.
    pub(crate) id: u32,
    pub(crate) op: Op,
    /// When it came, if it has waited for its turn since.
    pub(crate) since: Option<Instant>,
    /// Most bytes of the first transfer; below the whole length only where a fault shortens it.
    pub(crate) first_max: usize,
}

/// A back end's answer.
pub(crate) type Finished = (u32, Result<Outcome, JobError>);
