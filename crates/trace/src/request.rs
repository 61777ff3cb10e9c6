//! One demand of one process.

use std::time::Duration;

/// What a process demands next. The processes of a trace are independent of each other: the requests of one
/// are done in order, each after the one before it has been answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When it was issued, from the start of the trace. Zero throughout if the trace has no times.
    pub time: Duration,
    /// Time on the CPU that the process spends before it (SIM-1: a demand, not a point in time). Only
    /// generators know it; zero in traces of the real world.
    pub compute: Duration,
    /// The process: any number. Two nodes never share one.
    pub process: u32,
    /// The node it runs on, counted from 0.
    pub node: u32,
    /// The volume, counted from 0.
    pub volume: u16,
    /// What it does.
    pub op: Op,
    /// Where, in bytes from the start of the volume.
    pub offset: u64,
    /// How much, in bytes.
    pub bytes: u32,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    /// Reads a range.
    Read,
    /// Writes a range.
    Write,
    /// Gives a range up: its blocks need not be written any more (a file is deleted, a device is trimmed).
    Trim,
    /// Makes durable what was written. No range.
    Flush,
    /// Opens a file: no data, one question to whoever keeps the metadata. The range is the file's.
    Open,
    /// Closes a file, likewise.
    Close,
    /// Sends [`Request::bytes`] to a node, no I/O (SIM-1: communication demand).
    Send {
        /// The receiver.
        to: u32,
    },
}

impl Op {
    /// Whether it reads or writes data.
    #[must_use]
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

impl Request {
    /// The blocks of `block_bytes` that the request touches; none if it is empty.
    #[must_use]
    pub fn blocks(&self, block_bytes: u32) -> std::ops::Range<u64> {
        let size = u64::from(block_bytes);
        match self.bytes {
            0 => 0..0,
            bytes => self.offset / size..self.offset.saturating_add(u64::from(bytes)).div_ceil(size),
        }
    }
}
