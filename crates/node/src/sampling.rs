//! A sample of what clients of this node ask for, for `cards advise`: which blocks, in which order, for each volume.
//!
//! A data thread hashes each block that a client reads or writes, and compares: most blocks are not in the sample, and
//! that was all. The others go into the thread's ring, as in a recording, and from there, on the thread of the admin
//! socket, into the [`Sampler`] of the volume. Blocks are chosen by the same hash at every node, so samples of several
//! nodes fit together.
//!
//! | file | noun |
//! |---|---|
//! | `tap` | what a client's connection does for each request |
//! | `stream` | the sample of one volume |
//! | `marks` | what had been measured at some times in the past |
//! | `told` | what is said to whoever asks |

mod marks;
mod stream;
mod tap;
mod told;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cards_admin::{Io, Measured};
use cards_advise::{Access, Reference};
use cards_core::{BlockId, Instant, PgId};

use crate::node::Node;
use crate::record::Ring;
use stream::Stream;

pub(crate) use tap::Tap;
pub(crate) use told::{tell, tell_all};

/// Volumes of which there are samples, at most: a bound for memory.
const STREAMS_MAX: usize = 16;
/// References taken out of the ring of a data thread at a time: all there can be.
const TAKE_MAX: usize = 1 << 15;
/// How often rings are emptied while there is much in them, and while there is little.
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// The samples of a node.
pub(crate) struct Sampling {
    threads: usize,
    /// One for each data thread; made for the first client.
    rings: OnceLock<Box<[Ring]>>,
    streams: Mutex<Vec<Arc<Stream>>>,
    /// Held by whoever empties the rings.
    reader: Mutex<()>,
}

impl Sampling {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, rings: OnceLock::new(), streams: Mutex::default(), reader: Mutex::default() }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream of a volume that has one.
    fn of(&self, volume: PgId) -> Option<Arc<Stream>> {
        self.streams().iter().find(|stream| stream.volume() == volume).cloned()
    }

    /// The stream of a volume, for a client of it; none if there are too many. One that no client uses makes room.
    fn open(&self, volume: PgId, cache_blocks: u64) -> Option<Arc<Stream>> {
        self.rings.get_or_init(|| (0..self.threads).map(|_| Ring::new()).collect());
        let mut streams = self.streams();
        if let Some(known) = streams.iter().find(|stream| stream.volume() == volume) {
            return Some(Arc::clone(known));
        }
        if streams.len() >= STREAMS_MAX {
            let unused = streams.iter().position(|stream| Arc::strong_count(stream) == 1)?;
            streams.remove(unused);
        }
        let stream = Arc::new(Stream::new(volume, cache_blocks));
        streams.push(Arc::clone(&stream));
        Some(stream)
    }

    /// A reference to a block of a sample, by a client of data thread `thread`; `reads` and `writes` as in
    /// [`Reference`].
    fn push(&self, thread: u8, now: Instant, block: BlockId, access: Access, reads: u32, writes: u32) {
        let Some(ring) = self.rings.get().and_then(|rings| rings.get(usize::from(thread))) else { return };
        let what = u64::from(block.volume.0) << 32 | u64::from(block.index);
        ring.push([now.0, what, u64::from(reads) << 32 | u64::from(writes), code(access)]);
    }

    /// Takes the references that are in the rings into the samples; says how many.
    fn collect(&self, node: &Node) -> usize {
        let _reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, utc_us) = node.clock.now_and_utc_us();
        let mut taken: Vec<(PgId, Reference)> = Vec::new();
        for ring in self.rings.get().into_iter().flatten() {
            ring.take(TAKE_MAX, |[time, what, counts, access]| {
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
            stream.mark(utc_us, || measured(node, stream.volume()));
        }
        taken.len()
    }

    /// References that found no room in a ring.
    fn lost(&self) -> u64 {
        self.rings.get().into_iter().flatten().map(Ring::lost).sum()
    }
}

/// What clients of a volume have measured since this node started.
fn measured(node: &Node, volume: PgId) -> Measured {
    let Io { local_hits, remote_hits, disk_reads, .. } = node.metrics.io_of(volume).unwrap_or_default();
    Measured { local_hits, remote_hits, disk_reads }
}

/// Empties the rings from time to time; never ends.
pub(crate) async fn run(node: &Node) {
    let mut pause = PAUSE_MAX;
    loop {
        tokio::time::sleep(pause).await;
        let taken = node.sampling.collect(node);
        pause = if taken > TAKE_MAX / 8 { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
    }
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
