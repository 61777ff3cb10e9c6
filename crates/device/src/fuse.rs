//! The kernel's side: the FUSE protocol, as far as one regular file needs it.
//!
//! The file system is a single inode, the root, which is a regular file and is mounted over a regular file. The
//! protocol is spoken here rather than through a library of file systems for three reasons: requests can be read in
//! bulk before any is sent on, the payload of a WRITE stays in the buffer it arrived in until the daemon has answered,
//! and the caller knows when the kernel has taken an answer, which the coherence of its page cache rests on.

mod abi;
mod channel;
mod mount;
mod reply;
mod request;

pub(crate) use abi::{FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE, FOPEN_PARALLEL_DIRECT_WRITES, IO_MAX};
pub(crate) use channel::{Channel, Received};
pub(crate) use mount::{KIND, MountError, mount, unmount};
pub(crate) use reply::{Attributes, Init, attributes, init, open, statistics, write};
pub(crate) use request::{Operation, Request};
