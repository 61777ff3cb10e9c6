//! Disks a node contributes: files and block devices, read through io_uring where the kernel allows it, exports of other
//! NBD servers, and objects of web servers and object stores. Volumes on a [`Managed`] disk are disks, too.
//!
//! A [`Disk`] is opened once and shared by every thread. Each data thread owns one [`Engine`] on it: jobs go
//! in with [`Engine::submit`], which never blocks; completions come out of [`Engine::completions`], on the same
//! thread, in the order they happened. One task per engine drains it:
//!
//! ```no_run
//! # async fn drain(disk: std::sync::Arc<cards_disk::Disk>) {
//! let engine = std::rc::Rc::new(cards_disk::Engine::new(&disk)); // inside a current_thread runtime
//! let mut batch = Vec::new();
//! loop {
//!     engine.completions(&mut batch).await; // at least one; also where queued jobs enter the kernel
//!     for completion in batch.drain(..) {
//!         // hand the block to whoever asked for completion.tag
//!         let _ = completion.result;
//!     }
//! }
//! # }
//! ```
//!
//! The tasks of a turn of the loop submit first, the drain task runs after them: a turn costs one
//! `io_uring_enter` however many blocks it asks for.
//!
//! # What a completed job means
//!
//! - Read, Write, Zero, Trim are complete or failed as a whole; a failed write leaves the range undefined.
//! - Flush covers every write whose completion was delivered (by any engine of the disk) before it was
//!   submitted.
//! - A write with `fua` is on stable storage when it completes. It is a write followed by a sync that it
//!   shares with the flushes and FUA writes that wait at the same moment (group commit).
//! - **A failed sync is final.** After one failed `fdatasync` the kernel has dropped the dirty pages and the
//!   next call reports success, so the disk answers [`JobError::SyncFailed`] to every later flush and FUA
//!   write until it is opened again. Syncs of one engine run one at a time and each engine has its own open
//!   file description, because the kernel reports an error once per description: no sync can succeed because
//!   another one took the error away.
//!
//! # Whose job is next
//!
//! A disk has at most [`DiskOptions::depth`] reads and writes at a time, of all its engines together. Those beyond wait, and
//! start in turn by the card they are of ([`Engine::submit_for`]), each card with the same bytes.
//!
//! # Memory
//!
//! Jobs carry [`RawBuf`], a raw address: see its contract. Dropping an [`Engine`] waits until the kernel and
//! the helper threads hold no buffer any more.

mod delivery;
mod disk;
mod engine;
mod error;
mod exec;
mod fault;
mod file;
mod job;
mod mailbox;
mod managed;
mod nbd;
mod object;
mod options;
mod pool;
mod ring;
mod room;
mod seldom;
mod slab;
mod stats;
mod sync;
mod throttle;
mod turns;

pub use cards_array::store::ColumnKey;
pub use cards_layout::format::Uuid;
pub use delivery::Delivery;
pub use disk::Disk;
pub use engine::{Engine, EngineKind};
pub use error::{Altered, DiskError, JobError};
pub use job::{Completion, EXTENTS_MAX, Extent, ExtentKind, Job, Op, Outcome, RawBuf};
pub use managed::{
    Column, DamagedPlace, Examined, Managed, ManagedColumn, ManagedError, ManagedOptions, ManagedVolume,
    Scrub, is_managed,
};
pub use object::{ObjectError, ObjectFailure};
pub use options::{Backend, DiskOptions, ObjectSource, Source};
pub use room::{Room, free};
pub use seldom::Seldom;
pub use stats::{DiskStats, StatsSnapshot};
