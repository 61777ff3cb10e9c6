//! CARDs' own recordings: a header of 32 bytes, then records of 32 bytes, little-endian.
//!
//! ```text
//! header  0 magic "CARDSREC"  8 version u16 (1)  10 record bytes u16 (32)  12 zero u32
//!         16 start, microseconds since 1970 u64  24 zero u64
//! record  0 time u64 (ns since start)  8 offset u64  16 bytes u32  20 process u32
//!         24 node u32  28 volume u16  30 op u8  31 zero u8
//! ```
//!
//! Operations: 1 read, 2 write, 3 trim, 4 flush, 5 open, 6 close, 7 send (offset: the receiver), 8 compute
//! (offset: nanoseconds before the next record). No record has operation 0, so a tail of zeros that a power
//! failure leaves is told from data.

use std::io::{self, Write};
use std::path::Path;

use crate::input::Input;
use crate::readers::{Decode, Fixed, Parsed, Raw, u16_at, u32_at, u64_at};
use crate::{Op, Request, TraceError};

/// How a recording starts.
pub(crate) const MAGIC: [u8; 8] = *b"CARDSREC";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 32;
const RECORD_BYTES: usize = 32;

const COMPUTE: u8 = 8;

/// Writes a recording. Each request is one `write_all` of 32 bytes (64 if it has a compute time): give it a
/// buffered writer. A recording that is cut anywhere after the header is readable up to there.
#[derive(Debug)]
pub struct RecordWriter<W> {
    writer: W,
}

impl<W: Write> RecordWriter<W> {
    /// Starts a recording whose times count from `started_us`, in microseconds since 1970 (UTC).
    ///
    /// # Errors
    /// What the writer reports.
    pub fn new(mut writer: W, started_us: u64) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..10].copy_from_slice(&VERSION.to_le_bytes());
        header[10..12].copy_from_slice(&(RECORD_BYTES as u16).to_le_bytes());
        header[16..24].copy_from_slice(&started_us.to_le_bytes());
        writer.write_all(&header)?;
        Ok(Self { writer })
    }

    /// Writes a request. Its time and compute time must not exceed 584 years.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let (op, offset) = match request.op {
            Op::Read => (1, request.offset),
            Op::Write => (2, request.offset),
            Op::Trim => (3, request.offset),
            Op::Flush => (4, request.offset),
            Op::Open => (5, request.offset),
            Op::Close => (6, request.offset),
            Op::Send { to } => (7, u64::from(to)),
        };
        if !request.compute.is_zero() {
            let compute_ns = nanoseconds(request.compute)?;
            self.writer.write_all(&record(request, COMPUTE, compute_ns)?)?;
        }
        self.writer.write_all(&record(request, op, offset)?)
    }

    /// Passes on what the writer has buffered.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer)
    }
}

fn record(request: &Request, op: u8, offset: u64) -> io::Result<[u8; RECORD_BYTES]> {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&nanoseconds(request.time)?.to_le_bytes());
    record[8..16].copy_from_slice(&offset.to_le_bytes());
    record[16..20].copy_from_slice(&request.bytes.to_le_bytes());
    record[20..24].copy_from_slice(&request.process.to_le_bytes());
    record[24..28].copy_from_slice(&request.node.to_le_bytes());
    record[28..30].copy_from_slice(&request.volume.to_le_bytes());
    record[30] = op;
    Ok(record)
}

fn nanoseconds(duration: std::time::Duration) -> io::Result<u64> {
    u64::try_from(duration.as_nanos())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a time of more than 584 years"))
}

/// Reads a recording.
pub(crate) fn open(mut input: Input) -> Result<Fixed<Recording>, TraceError> {
    let mut header = [0; HEADER_BYTES];
    let filled = input.record(&mut header).map_err(|source| TraceError::io(input.path(), source))?;
    let version = u16_at(&header, 8);
    if filled < HEADER_BYTES {
        return Err(bad_header(input.path(), format!("{filled} bytes, not the {HEADER_BYTES} of a header")));
    }
    if header[..8] != MAGIC {
        return Err(bad_header(input.path(), "not the header of a cards recording".to_owned()));
    }
    if version != VERSION || usize::from(u16_at(&header, 10)) != RECORD_BYTES {
        let problem = format!("version {version} of the recording format; this program reads {VERSION}");
        return Err(bad_header(input.path(), problem));
    }
    let started_us = u64_at(&header, 16);
    Ok(Fixed::new(input, Recording { started_us, compute_ns: 0 }))
}

fn bad_header(path: &Path, problem: String) -> TraceError {
    TraceError::Bad { path: path.to_owned(), unit: "record", number: 0, problem }
}

/// Understands the records of a recording.
pub(crate) struct Recording {
    started_us: u64,
    compute_ns: u64,
}

impl Decode for Recording {
    fn bytes(&self) -> usize {
        RECORD_BYTES
    }

    fn decode(&mut self, record: &[u8]) -> Result<Parsed, String> {
        if record.iter().all(|&byte| byte == 0) {
            return Ok(Parsed::Skip("never written (zeros)"));
        }
        let offset = u64_at(record, 8);
        let op = match record[30] {
            1 => Op::Read,
            2 => Op::Write,
            3 => Op::Trim,
            4 => Op::Flush,
            5 => Op::Open,
            6 => Op::Close,
            7 => {
                let to = u32::try_from(offset).map_err(|_| format!("the receiver {offset} is not a node"))?;
                Op::Send { to }
            }
            COMPUTE => {
                self.compute_ns = self.compute_ns.saturating_add(offset);
                return Ok(Parsed::Nothing);
            }
            other => return Err(format!("the operation {other} is not known")),
        };
        let offset = if matches!(op, Op::Send { .. }) { 0 } else { offset };
        Ok(Parsed::Request(Raw {
            time_ns: u64_at(record, 0),
            compute_ns: std::mem::take(&mut self.compute_ns),
            offset,
            bytes: u64::from(u32_at(record, 16)),
            node: u32_at(record, 24),
            process: u32_at(record, 20),
            volume: u16_at(record, 28),
            op,
        }))
    }

    /// A node that is killed while it records leaves part of a record.
    fn cut(&self) -> Option<&'static str> {
        Some("cut at the end of the recording")
    }

    fn started_us(&self) -> Option<u64> {
        Some(self.started_us)
    }
}
