//! A volume as a file (FUSE) and a block device (loop), served by a process that outlives the daemon.
//!
//! [`Device::start`] makes the file, [`Device::stop`] ends it. In between, one thread (`server`) turns requests of the
//! kernel into NBD requests to the daemon, and keeps asking until there is an answer.
//!
//! # Coherence of the kernel's pages
//!
//! Claim: after the device has confirmed a withdrawal, no page of it is in use that holds what was read before.
//!
//! - A page is locked from before its READ is sent until the READ is answered, and nobody can use a locked page.
//! - A page of the withdrawal that is not locked when the notification reaches it is dropped by it. One that is locked
//!   is being filled by a READ that the device has, or will receive in a moment, as it always receives; such pages are
//!   left to that READ, whose answer is passed on only if it was asked for after the confirmation. Or the withdrawal waits for
//!   the answer, a short time, and has its pages dropped before the confirmation.
//! - Only READs lock pages: files open for writing do not use them, so none is ever dirty.
//! - An answer that is older than the withdrawal and was passed on before it made its pages before the notification,
//!   which drops them.
//!
//! And a confirmation waits for the daemon only for a bounded time: else for notifications that no READ blocks.
//!
//! # Why FUSE is spoken here
//!
//! A library of file systems hands out one request at a time, lends its payload for the length of a call, and does not
//! tell when the kernel has taken an answer. Here requests are received in bulk before anything is sent on, a payload
//! stays where it arrived until the daemon has answered, and the argument above needs to know what the kernel has.

mod device;
mod directory;
mod error;
mod fuse;
mod inbox;
mod io_flusher;
mod job;
mod link;
mod loop_device;
pub mod mountinfo;
mod notifiers;
mod pages_lock;
mod place;
mod poll;
mod read_ahead;
mod requests;
mod server;
mod session;
mod ublk;
mod uplink;
mod watch;
mod withdrawals;
mod write_back;

pub use device::{Device, Options};
pub use directory::{Directory, DirectoryError};
pub use error::DeviceError;
pub use io_flusher::set_io_flusher;
pub use loop_device::{file_behind, loop_devices_over};
pub use place::Description;
pub use ublk::delete_left;
pub use write_back::serve_write_back;
