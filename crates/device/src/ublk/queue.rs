//! The queue of a device: what the kernel wants of the disk, and the answers.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::ptr;

use io_uring::{IoUring, opcode, types};

use super::abi::{COMMIT_AND_FETCH, DATA, DATA_STRIDE, Descriptor, FETCH, TagCommand};

/// The queue. Only the thread that has opened it may use it: the kernel remembers which one asked for requests.
pub(crate) struct Queue {
    file: File,
    ring: IoUring,
    descriptors: Descriptors,
}

impl Queue {
    /// Opens the queue of device `id`, of `depth` tags, and asks for a request for each.
    ///
    /// # Errors
    /// The device is not there or not new, or the kernel allows no ring.
    pub(crate) fn open(id: u32, depth: u16) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/dev/ublkc{id}"))?;
        let ring = IoUring::new(depth.into())?;
        let descriptors = Descriptors::map(&file, depth)?;
        let mut queue = Self { file, ring, descriptors };
        for tag in 0..depth {
            queue.push(FETCH, tag, 0)?;
        }
        queue.send()?;
        // A request cannot come before the disk is there, so this is a refusal.
        let refusal = queue.ring.completion().next();
        match refusal {
            Some(refusal) if refusal.result() < 0 => Err(io::Error::from_raw_os_error(-refusal.result())),
            Some(_) => Err(io::Error::other("a request arrived before the disk was there")),
            None => Ok(queue),
        }
    }

    /// The next tag that has a request; or, with an error, has and will have none any more.
    pub(crate) fn next(&mut self) -> Option<(u16, Result<Descriptor, i32>)> {
        let done = self.ring.completion().next()?;
        let tag = done.user_data() as u16;
        let wanted = if done.result() < 0 { Err(-done.result()) } else { self.descriptors.get(tag) };
        Some((tag, wanted))
    }

    /// Answers the request of a tag: bytes done, or a negative error number. [`Self::send`] sends it.
    ///
    /// # Errors
    /// The ring is full, so the tag had no request.
    pub(crate) fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH, tag, result)
    }

    /// Sends the answers.
    ///
    /// # Errors
    /// The ring does not take them.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Ok(_) if self.ring.submission().is_empty() => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what a WRITE writes.
    ///
    /// # Errors
    /// The kernel has given the request up.
    pub(crate) fn take(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, data_of(tag))
    }

    /// Gives a READ a part of its data, for `at` bytes from its start.
    ///
    /// # Errors
    /// It lies outside the READ, or the kernel has given the request up.
    pub(crate) fn give(&self, tag: u16, at: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, data_of(tag).saturating_add(at))
    }

    fn push(&mut self, operation: u32, tag: u16, result: i32) -> io::Result<()> {
        let command = TagCommand { tag, result };
        let entry = opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), operation)
            .cmd(command.encode())
            .build()
            .user_data(tag.into());
        // SAFETY: the descriptor lives as long as the ring, and the command has no memory.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns its descriptor and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// Where the data of a tag lies in the character device.
fn data_of(tag: u16) -> u64 {
    DATA + u64::from(tag) * DATA_STRIDE
}

/// What the kernel wants of each tag, in memory that it writes.
struct Descriptors {
    start: *const Descriptor,
    depth: u16,
    /// Bytes that are mapped.
    length: usize,
}

// SAFETY: the mapping belongs to the value alone and to no thread.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn map(file: &File, depth: u16) -> io::Result<Self> {
        // SAFETY: takes a plain number; the name is known everywhere.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let length = (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(page);
        let (flags, fd) = (libc::MAP_SHARED | libc::MAP_POPULATE, file.as_raw_fd());
        // SAFETY: a new mapping, at an address the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast_const().cast(), depth, length })
    }

    /// That of a tag which has a request.
    fn get(&self, tag: u16) -> Result<Descriptor, i32> {
        if tag >= self.depth {
            return Err(libc::ERANGE);
        }
        // SAFETY: inside the mapping, aligned, and any bits are a descriptor; the kernel writes it before it
        // completes the fetch, and not again before the commit.
        Ok(unsafe { self.start.add(tag.into()).read_volatile() })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nothing points there any more.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.length) };
    }
}
