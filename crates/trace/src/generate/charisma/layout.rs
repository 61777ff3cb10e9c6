//! Where the files lie on the volume: what the users keep, then a ring for what the jobs write.

use std::ops::Range;

/// Records lie this far apart, two to a block of 8 KiB.
pub(super) const STRIDE: u64 = 4096;
/// The records of an input file, per process, at most.
pub(super) const INPUT_RECORDS_MAX: u64 = 88;
/// The unit of large reads.
pub(super) const CHUNK: u64 = 128 << 10;
/// What a broadcast file takes at most, in chunks.
const BROADCAST_CHUNKS_MAX: u64 = 51;

/// Per process in the scratch ring: an output file, a section of the checkpoint, and records of the results.
pub(super) const OUTPUT_MAX: u64 = 1 << 20;
pub(super) const SECTION_MAX: u64 = 2 << 20;
const RESULTS_MAX: u64 = 256 << 10;
pub(super) const SCRATCH: u64 = OUTPUT_MAX + SECTION_MAX + RESULTS_MAX;
const RING_MIN: u64 = 2048;

/// The largest job of the traced machine.
pub(super) const JOB_MAX: u32 = 64;

/// Where everything is.
pub(super) struct Layout {
    users: u64,
    /// Bytes that each user keeps.
    user: u64,
    /// Processes in the ring.
    ring: u64,
    /// Where the ring goes on.
    at: u64,
}

impl Layout {
    pub(super) fn new(nodes: u32, users: u64) -> Self {
        let user = u64::from(JOB_MAX) * INPUT_RECORDS_MAX * STRIDE + BROADCAST_CHUNKS_MAX * CHUNK;
        // Sixteen times what can run at once: what is overwritten is long out of every cache.
        Self { users, user, ring: RING_MIN.max(16 * u64::from(nodes)), at: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.users * self.user + self.ring * SCRATCH
    }

    /// The file that a user's jobs read in records.
    pub(super) fn input(&self, user: u64) -> u64 {
        user * self.user + BROADCAST_CHUNKS_MAX * CHUNK
    }

    /// The file that all processes of a user's jobs read in whole.
    pub(super) fn broadcast(&self, user: u64) -> u64 {
        user * self.user
    }

    /// Room for the files that a job writes, in processes from the start of the ring.
    pub(super) fn take_scratch(&mut self, nodes: u32, taken: &[Range<u64>]) -> Range<u64> {
        let count = u64::from(nodes);
        loop {
            if self.at + count > self.ring {
                self.at = 0;
            }
            let range = self.at..self.at + count;
            // There is always a gap: all jobs together take a sixteenth of the ring.
            match taken.iter().find(|other| other.start < range.end && range.start < other.end) {
                Some(other) => self.at = other.end,
                None => {
                    self.at = range.end;
                    return range;
                }
            }
        }
    }

    /// Where a place in the ring lies on the volume.
    pub(super) fn scratch(&self, process: u64) -> u64 {
        self.users * self.user + process * SCRATCH
    }
}
