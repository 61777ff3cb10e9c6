//! Where the files lie on the volume: what the users keep, then a ring for what the jobs write.

use std::ops::Range;

/// Small records lie this far apart, four to a block of 8 KiB.
pub(super) const SLOT: u64 = 2 << 10;
/// What is read at once of the large data: a process's segment of the input, or a part of a table.
pub(super) const CHUNK: u64 = 256 << 10;
/// What a sweep reads: a segment, and the border of the next.
pub(super) const SWEEP: u64 = CHUNK + (16 << 10);
/// The unit of large writes.
pub(super) const PIECE: u64 = 128 << 10;
/// Processes of a job that read the same part of a table, one after another.
pub(super) const READERS: u64 = 5;
/// Rows of a table, at most: in each a process has one part of its own. The head of the table is one chunk more.
pub(super) const TABLE_ROWS: u64 = 8;

/// Per process in the scratch ring: an output file, a section of the checkpoint, and records of the results.
pub(super) const OUTPUT_MAX: u64 = 512 << 10;
pub(super) const SECTION_MAX: u64 = 2 << 20;
pub(super) const RESULTS_MAX: u64 = 256 << 10;
pub(super) const SCRATCH: u64 = OUTPUT_MAX + SECTION_MAX + RESULTS_MAX;
const RING_MIN: u64 = 2048;

/// The largest job of the traced machine.
pub(super) const JOB_MAX: u32 = 64;

/// Parts in a row of a table that so many processes read.
pub(super) const fn table_row(processes: u64) -> u64 {
    processes + READERS - 1
}

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
        let processes = u64::from(JOB_MAX);
        let user = processes * CHUNK + CHUNK + (1 + TABLE_ROWS * table_row(processes)) * CHUNK;
        // Sixteen times what can run at once: what is overwritten is long out of every cache.
        Self { users, user, ring: RING_MIN.max(16 * u64::from(nodes)), at: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.users * self.user + self.ring * SCRATCH
    }

    /// The file that a user's jobs divide among their processes.
    pub(super) fn input(&self, user: u64) -> u64 {
        user * self.user
    }

    /// The file with a user's parameters, and the parts that its processes read one after another.
    pub(super) fn table(&self, user: u64) -> u64 {
        self.input(user) + u64::from(JOB_MAX) * CHUNK + CHUNK
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
