//! Binary formats: records of one size.

use super::{Parsed, Records};
use crate::input::Input;
use crate::{Progress, TraceError};

/// The longest record of any format.
const RECORD_BYTES_MAX: usize = 64;

/// Understands the records of a format.
pub(crate) trait Decode: Send {
    /// Bytes of a record, at most 64.
    fn bytes(&self) -> usize;

    /// A record of that size. An error says what is wrong with it.
    fn decode(&mut self, record: &[u8]) -> Result<Parsed, String>;

    /// What to count if the file ends within a record; none if that is an error.
    fn cut(&self) -> Option<&'static str> {
        None
    }

    /// When the trace started, in microseconds since 1970, if the file says so.
    fn started_us(&self) -> Option<u64> {
        None
    }

    /// Whether the records have times.
    fn has_times(&self) -> bool {
        true
    }
}

/// The records of a file.
pub(crate) struct Fixed<D> {
    input: Input,
    decoder: D,
    number: u64,
    at_end: bool,
}

impl<D: Decode> Fixed<D> {
    pub(crate) fn new(input: Input, decoder: D) -> Self {
        assert!(decoder.bytes() <= RECORD_BYTES_MAX, "the format's records fit the buffer");
        Self { input, decoder, number: 0, at_end: false }
    }
}

impl<D: Decode> Records for Fixed<D> {
    fn next(&mut self) -> Result<Option<Parsed>, TraceError> {
        let mut buffer = [0; RECORD_BYTES_MAX];
        let record = &mut buffer[..self.decoder.bytes()];
        while !self.at_end {
            self.number += 1;
            let filled =
                self.input.record(record).map_err(|source| TraceError::io(self.input.path(), source))?;
            if filled == 0 {
                self.at_end = true;
            } else if filled < record.len() {
                self.at_end = true;
                let bytes = record.len();
                return match self.decoder.cut() {
                    Some(reason) => Ok(Some(Parsed::Skip(reason))),
                    None => {
                        Err(self.bad(format!("the file ends after {filled} of the record's {bytes} bytes")))
                    }
                };
            } else {
                match self.decoder.decode(record) {
                    Ok(Parsed::Nothing) => {}
                    Ok(parsed) => return Ok(Some(parsed)),
                    Err(problem) => return Err(self.bad(problem)),
                }
            }
        }
        Ok(None)
    }

    fn bad(&self, problem: String) -> TraceError {
        TraceError::Bad { path: self.input.path().to_owned(), unit: "record", number: self.number, problem }
    }

    fn empty(&self, skipped: String) -> TraceError {
        TraceError::Empty { path: self.input.path().to_owned(), skipped }
    }

    fn progress(&self) -> Progress {
        self.input.progress()
    }

    fn has_times(&self) -> bool {
        self.decoder.has_times()
    }

    fn started_us(&self) -> Option<u64> {
        self.decoder.started_us()
    }
}

/// The little-endian number at a place that the format fixes.
pub(crate) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(record, at))
}

/// Likewise, of 32 bits.
pub(crate) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(record, at))
}

/// Likewise, of 64 bits.
pub(crate) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(record, at))
}

fn array<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}
