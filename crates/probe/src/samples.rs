//! A sample of what clients of this node ask for, for `cards advise`: which blocks, in which order, for each volume.
//!
//! A data thread hashes each block that a client reads or writes, and compares: most blocks are not in the sample, and
//! that was all. The others go into the thread's ring, as in a recording, and from there, on the reader's thread, into the
//! [`Sampler`](cards_advise::Sampler) of the volume. Blocks are chosen by the same hash at every node, so samples of
//! several nodes fit together.
//!
//! | file | noun |
//! |---|---|
//! | `counting` | which blocks of a client's requests are in the sample |
//! | `stream` | the sample of one volume |
//! | `marks` | what had been measured at some times in the past |

mod counting;
mod marks;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cards_admin::{Io, Mark, Measured};
use cards_advise::{Access, Rate, Reference, Sample};
use cards_core::{BlockId, Instant, PgId};

use crate::counts::Counts;
use crate::ring::{ROOM, Ring};
use stream::Stream;

pub(crate) use counting::Counting;

/// Volumes of which there are samples, at most: a bound for memory.
const STREAMS_MAX: usize = 16;

/// The samples of a node.
pub(crate) struct Samples {
    threads: usize,
    cache_blocks: u64,
    /// One for each data thread; made for the first client.
    rings: OnceLock<Box<[Ring]>>,
    streams: Mutex<Vec<Arc<Stream>>>,
    /// Held while the rings are emptied.
    reader: Mutex<()>,
    /// The next reference wakes the reader.
    awaited: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Samples {
    pub(crate) fn new(threads: usize, cache_blocks: u64) -> Self {
        Self {
            threads,
            cache_blocks,
            rings: OnceLock::new(),
            streams: Mutex::default(),
            reader: Mutex::default(),
            awaited: AtomicBool::new(false),
            wake: OnceLock::new(),
        }
    }

    /// Calls `wake` at the first reference after each [`Self::collect`].
    pub(crate) fn on_reference(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream of a volume, for a client of it; none if there are too many. One that no client uses makes room.
    pub(crate) fn open(&self, volume: PgId) -> Option<Arc<Stream>> {
        self.rings.get_or_init(|| (0..self.threads).map(|_| Ring::new()).collect());
        let mut streams = self.streams();
        if let Some(known) = streams.iter().find(|stream| stream.volume() == volume) {
            return Some(Arc::clone(known));
        }
        if streams.len() >= STREAMS_MAX {
            let unused = streams.iter().position(|stream| Arc::strong_count(stream) == 1)?;
            streams.remove(unused);
        }
        let stream = Arc::new(Stream::new(volume, self.cache_blocks));
        streams.push(Arc::clone(&stream));
        Some(stream)
    }

    /// A reference to a block of a sample, by a client of data thread `thread`; reads and writes as in
    /// [`Reference`].
    pub(crate) fn push(
        &self,
        thread: u8,
        now: Instant,
        block: BlockId,
        access: Access,
        (reads, writes): (u32, u32),
    ) {
        let Some(ring) = self.rings.get().and_then(|rings| rings.get(usize::from(thread))) else { return };
        let what = u64::from(block.volume.0) << 32 | u64::from(block.index);
        ring.push([now.0, what, u64::from(reads) << 32 | u64::from(writes), code(access)]);
        // One that comes while the rings are emptied may not be seen here: it stays in its ring until the next.
        if self.awaited.load(Ordering::Relaxed)
            && self.awaited.swap(false, Ordering::Relaxed)
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }

    /// Takes the references that are in the rings into the samples; says how many. `utc_us`: the time `now`, in
    /// microseconds since 1970 (UTC).
    pub(crate) fn collect(&self, counts: &Counts, (now, utc_us): (Instant, u64)) -> usize {
        let _reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        self.awaited.store(true, Ordering::SeqCst);
        let mut taken: Vec<(PgId, Reference)> = Vec::new();
        for ring in self.rings.get().into_iter().flatten() {
            ring.take(ROOM as usize, |[time, what, counts, access]| {
                let reference = Reference {
                    time_us: utc_us.saturating_sub(now.0.saturating_sub(time) / 1000),
                    block: what as u32,
                    access: access_of(access),
                    reads: (counts >> 32) as u32,
                    writes: counts as u32,
                };
                taken.push((PgId((what >> 32) as u32), reference));
            });
        }
        // Each thread's are in order already.
        taken.sort_by_key(|(_, reference)| reference.time_us);
        for stream in self.streams().iter() {
            stream.take(&taken);
            stream.mark(utc_us, || measured(counts, stream.volume()));
        }
        taken.len()
    }

    /// What there is of a volume at a time, shrunk to `most`, and what was measured in its time.
    pub(crate) fn of(&self, counts: &Counts, volume: PgId, most: usize, utc_us: u64) -> (Sample, Vec<Mark>) {
        let stream = self.streams().iter().find(|stream| stream.volume() == volume).cloned();
        let Some(stream) = stream else { return (Sample::new(volume, Rate::ALL), Vec::new()) };
        let mut sample = stream.sample();
        sample.shrink(most);
        (sample, stream.marks_with((utc_us, measured(counts, volume))))
    }

    /// What there is of a volume after a time, of a rate, at most so many references.
    pub(crate) fn since(&self, volume: PgId, since_us: u64, rate: Rate, most: usize) -> Sample {
        let stream = self.streams().iter().find(|stream| stream.volume() == volume).cloned();
        stream.map_or_else(|| Sample::new(volume, rate), |stream| stream.since(since_us, rate, most))
    }

    /// References that found no room in a ring.
    pub(crate) fn lost(&self) -> u64 {
        self.rings.get().into_iter().flatten().map(Ring::lost).sum()
    }
}

/// What clients of a volume have measured since this node started.
fn measured(counts: &Counts, volume: PgId) -> Measured {
    let Io { local_hits, remote_hits, disk_reads, .. } = counts.io_of(volume).unwrap_or_default();
    Measured { local_hits, remote_hits, disk_reads }
}

const fn code(access: Access) -> u64 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::PartialWrite => 2,
    }
}

const fn access_of(code: u64) -> Access {
    match code {
        0 => Access::Read,
        1 => Access::Write,
        _ => Access::PartialWrite,
    }
}
