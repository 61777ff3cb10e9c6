//! `/dev/fuse`: requests come out, answers and notifications go in.

use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::abi::*;

/// A mounted file system's connection to the kernel.
#[derive(Debug)]
pub(crate) struct Channel(File);

/// What a look at the connection gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A request, in so many bytes.
    Request(usize),
    /// Nothing now.
    Nothing,
    /// Unmounted: nothing will ever come.
    Unmounted,
}

impl Channel {
    /// Bytes of a buffer that any request fits in.
    pub(crate) const BUFFER: usize = IN_HEADER + WRITE_IN + IO_MAX as usize;

    /// A connection that was mounted; it does not block.
    pub(crate) fn new(device: OwnedFd) -> Self {
        Self(device.into())
    }

    /// Receives a request into `buffer`, of [`Self::BUFFER`] bytes.
    ///
    /// # Errors
    /// The kernel gives an error that has no place here.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        loop {
            match (&self.0).read(buffer) {
                Ok(bytes) => return Ok(Received::Request(bytes)),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(Received::Nothing),
                    // The second: by force.
                    Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(Received::Unmounted),
                    // A request was taken back while it was being received.
                    Some(libc::EINTR | libc::ENOENT) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Answers request `unique` with `body`. When this returns, the kernel has taken it.
    pub(crate) fn answer(&self, unique: u64, body: &[u8]) {
        self.send(header(body.len(), 0, unique), body, "answer");
    }

    /// Answers request `unique` with an error number of the platform.
    pub(crate) fn refuse(&self, unique: u64, errno: i32) {
        self.send(header(0, -errno, unique), &[], "error");
    }

    /// Has the kernel drop its pages of `range`, in bytes. Blocks as long as one of them is locked, that is, as long
    /// as a READ that fills it is not answered.
    pub(crate) fn invalidate(&self, range: &Range<u64>) {
        let mut body = [0; 24];
        // Bounded by the size of a file, which is an `off_t`.
        let length = (range.end - range.start) as i64;
        body[..8].copy_from_slice(&FUSE_ROOT_ID.to_ne_bytes());
        body[8..16].copy_from_slice(&(range.start as i64).to_ne_bytes());
        body[16..].copy_from_slice(&length.to_ne_bytes());
        self.send(header(body.len(), FUSE_NOTIFY_INVAL_INODE, 0), &body, "withdrawal of pages");
    }

    fn send(&self, header: [u8; OUT_HEADER], body: &[u8], what: &str) {
        match (&self.0).write_vectored(&[IoSlice::new(&header), IoSlice::new(body)]) {
            Ok(_) => {}
            // The process that asked was killed, or the file system unmounted: nobody waits.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {}
            Err(error) => tracing::error!("the kernel does not take the {what}: {error}"),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `fuse_out_header`; `error` is a notification's code if `unique` is 0.
fn header(body: usize, error: i32, unique: u64) -> [u8; OUT_HEADER] {
    let mut out = [0; OUT_HEADER];
    // Bodies have at most `IO_MAX` bytes.
    out[..4].copy_from_slice(&((OUT_HEADER + body) as u32).to_ne_bytes());
    out[4..8].copy_from_slice(&error.to_ne_bytes());
    out[8..].copy_from_slice(&unique.to_ne_bytes());
    out
}
