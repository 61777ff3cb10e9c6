//! A part of a volume, read and compared with its checksums.

use std::ops::Range;

use cards_array::store::ColumnKey;
use cards_layout::format::UNIT;

use super::ManagedError;
use super::buffer::Buffer;
use super::driver::Driver;
use super::request::damaged;

/// Bytes that are read at a time; divides a piece.
const CHUNK: u64 = 1 << 20;
/// Most places that are listed.
const LISTED_MAX: usize = 1000;

/// What a scrub has looked at, and found.
#[derive(Debug, Clone, Default)]
pub struct Scrub {
    /// Bytes that were read, or could not be.
    pub bytes: u64,
    /// Of these, bytes whose checksums are not known.
    pub unverified: u64,
    /// Bytes that do not fit their checksums, or cannot be read.
    pub damaged: u64,
    /// Where these are; the first thousand places.
    pub places: Vec<DamagedPlace>,
}

/// A place of a volume where data are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPlace {
    /// Offset in the volume, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Why they cannot be read; none if they do not fit their checksums.
    pub error: Option<String>,
}

impl DamagedPlace {
    /// What is wrong, for people.
    #[must_use]
    pub fn reason(&self) -> String {
        self.error.clone().unwrap_or_else(|| "does not fit its checksum".into())
    }
}

impl Scrub {
    fn found(&mut self, offset: u64, length: u64, error: Option<String>) {
        self.damaged += length;
        let goes_on = |last: &&mut DamagedPlace| last.offset + last.length == offset && last.error == error;
        if let Some(last) = self.places.last_mut().filter(goes_on) {
            last.length += length;
        } else if self.places.len() < LISTED_MAX {
            self.places.push(DamagedPlace { offset, length, error });
        }
    }
}

/// Reads the chunks that a range begins in.
pub(super) async fn run(driver: &Driver, key: ColumnKey, range: Range<u64>) -> Result<Scrub, ManagedError> {
    let mut scrub = Scrub::default();
    let buffer = Buffer::new(CHUNK as usize);
    let mut at = range.start;
    while at < range.end {
        if driver.stops.get() {
            return Err(ManagedError::Closed);
        }
        let length = (CHUNK - at % CHUNK).min(range.end - at);
        let _held = driver.ranges.take(key, at..at + length, false).await;
        let lent = buffer.lend(0, length as usize);
        match driver.read_with_sums(key, at, lent, Some(buffer.clone())).await {
            Err(error) => scrub.found(at, length, Some(error.to_string())),
            Ok(sums) => {
                let unit = UNIT as u64;
                scrub.unverified += sums.iter().filter(|sum| sum.is_none()).count() as u64 * unit;
                // SAFETY: the read that had the buffer is complete.
                let bytes = &unsafe { buffer.bytes() }[..length as usize];
                damaged(bytes, &sums).for_each(|bad| scrub.found(at + bad as u64 * unit, unit, None));
            }
        }
        scrub.bytes += length;
        at += length;
    }
    Ok(scrub)
}
