//! Everything that is on a managed disk, read and compared with its checksums.

use cards_layout::format::UNIT;
use tokio::time::{Duration, Instant, sleep_until};

use super::buffer::Buffer;
use super::driver::Driver;
use super::request::damaged;
use super::{ManagedError, ManagedVolume, key_of};

/// Bytes that are read at a time; divides a piece.
const CHUNK: u64 = 1 << 20;
/// Most places that are listed.
const LISTED_MAX: usize = 1000;

/// What a scrub has looked at, and found.
#[derive(Debug, Clone, Default)]
pub struct Scrub {
    /// Bytes to look at.
    pub bytes: u64,
    /// Bytes that were read, or could not be.
    pub done: u64,
    /// Of these, bytes whose checksums are not known.
    pub unverified: u64,
    /// Bytes that do not fit their checksums or cannot be read.
    pub damaged: u64,
    /// Where these are; the first thousand places.
    pub places: Vec<Scrubbed>,
}

/// A place where data are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// The volume.
    pub volume: String,
    /// Offset in the volume, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Why they cannot be read; none if they do not fit their checksums.
    pub error: Option<String>,
}

impl Scrub {
    fn found(&mut self, place: Scrubbed) {
        self.damaged += place.length;
        let goes_on = |last: &&mut Scrubbed| {
            last.volume == place.volume
                && last.offset + last.length == place.offset
                && last.error == place.error
        };
        if let Some(last) = self.places.last_mut().filter(goes_on) {
            last.length += place.length;
        } else if self.places.len() < LISTED_MAX {
            self.places.push(place);
        }
    }
}

pub(super) async fn run(
    driver: &Driver,
    volumes: Vec<ManagedVolume>,
    rate: u64,
    mut progress: impl FnMut(&Scrub) -> bool,
) -> Result<Scrub, ManagedError> {
    let mut scrub = Scrub { bytes: volumes.iter().map(|volume| volume.bytes).sum(), ..Scrub::default() };
    let began = Instant::now();
    let buffer = Buffer::new(CHUNK as usize);
    for volume in volumes {
        let key = key_of(&volume);
        for at in (0..volume.bytes).step_by(CHUNK as usize) {
            if driver.stops.get() {
                return Err(ManagedError::Closed);
            }
            let length = CHUNK.min(volume.bytes - at);
            let place =
                |offset, length, error| Scrubbed { volume: volume.name.to_string(), offset, length, error };
            {
                let _held = driver.ranges.take(key, at..at + length, false).await;
                let lent = buffer.lend(0, length as usize);
                match driver.read_with_sums(key, at, lent, Some(buffer.clone())).await {
                    Err(error) => scrub.found(place(at, length, Some(error.to_string()))),
                    Ok(sums) => {
                        let unknown = sums.iter().filter(|sum| sum.is_none()).count();
                        scrub.unverified += (unknown * UNIT) as u64;
                        // SAFETY: the read that had the buffer is complete.
                        let bytes = &unsafe { buffer.bytes() }[..length as usize];
                        let unit = UNIT as u64;
                        damaged(bytes, &sums)
                            .for_each(|bad| scrub.found(place(at + bad as u64 * unit, unit, None)));
                    }
                }
            }
            scrub.done += length;
            if !progress(&scrub) {
                return Ok(scrub);
            }
            if rate > 0 {
                let due = Duration::from_secs_f64(scrub.done as f64 / rate as f64);
                sleep_until(began + due).await;
            }
        }
    }
    Ok(scrub)
}
