//! What the driver of a store does for it, and what it hears.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use cards_layout::format::{Sum, UNIT};

/// The driver's number of one of its requests; no two that are open are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A store's number of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Io(pub(super) u64);

/// What the driver is to do. The order of I/Os is free: the store waits for the end of what must come first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Read pages; [`super::Store::page_read`].
    ReadPage {
        /// The I/O.
        io: Io,
        /// Offset on the disk, in bytes.
        at: u64,
    },
    /// Write pages, one after another; [`super::Store::done`].
    WritePages {
        /// The I/O.
        io: Io,
        /// Offset of the first on the disk, in bytes.
        at: u64,
        /// The pages.
        pages: Vec<Box<[u8; UNIT]>>,
    },
    /// Make durable all that was done before; [`super::Store::done`].
    Sync {
        /// The I/O.
        io: Io,
    },
    /// Make bytes zero that belong to nobody yet, freeing their space where the disk can; [`super::Store::done`].
    Clear {
        /// The I/O.
        io: Io,
        /// Offset on the disk, in bytes.
        at: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Move the data of a request: read, write or zero them; [`super::Store::done`].
    Data {
        /// The I/O.
        io: Io,
        /// Whose data.
        ticket: Ticket,
        /// Offset on the disk, in bytes.
        at: u64,
    },
    /// A request has ended. Where the disk has failed, its data may still be on their way.
    Answer {
        /// Which.
        ticket: Ticket,
        /// How.
        result: Result<Answer, StoreError>,
    },
}

/// What a request has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// Its data are there, and these are their checksums, one for each unit. Data that do not fit are damaged. `None` says that
    /// the checksum is unknown: the disk was not closed, or the page of checksums is damaged.
    Sums(Vec<Option<Sum>>),
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The disk could not move the data of this request.
    Data,
    /// The disk could not keep its tables, or make durable what it had taken: nothing is asked of it any more.
    Failed,
    /// It is closed, or being closed.
    Closed,
    /// No column of this volume, group and number is on the disk.
    NoColumn,
    /// There is such a column already.
    Exists,
    /// Requests for it are open.
    Busy,
    /// There are not so many free pieces.
    NoSpace {
        /// Pieces that are free.
        free: u32,
        /// Pieces that are needed.
        needed: u32,
    },
    /// The space of a column could not be made zero: nobody has it, and all else is as it was.
    NotCleared,
    /// The disk has no room for another column.
    NoColumns,
    /// Not whole units within one piece of the column.
    Range,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data => f.write_str("the disk could not read or write the data"),
            Self::Failed => f.write_str(
                "the disk has failed: it could not keep what it had taken; see to the device (dmesg), then start its daemon again",
            ),
            Self::Closed => f.write_str("the disk is closed"),
            Self::NoColumn => f.write_str("the disk has no such volume or copy; `cards disk show` lists those that it has"),
            Self::Exists => f.write_str("the disk has this volume or copy already; remove it first"),
            Self::Busy => f.write_str("the volume or copy is in use; try again when its requests are done"),
            Self::NoSpace { free, needed } => {
                write!(
                    f,
                    "the volume needs {needed} pieces, and the disk has {free} that are free; make the volume smaller, or remove another one"
                )
            }
            Self::NotCleared => f.write_str("its space could not be written; the device, or the file system of the image, may be full"),
            Self::NoColumns => f.write_str("the disk's tables have no room for another volume; remove one, or use another disk"),
            Self::Range => f.write_str("the range is not whole units of one piece"),
        }
    }
}

impl core::error::Error for StoreError {}
