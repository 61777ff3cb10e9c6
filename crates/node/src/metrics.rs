//! What is counted and noted of requests, for whoever looks after this node.
//!
//! The data threads count in cells of their own, one for each volume that clients of the thread use; whoever reads
//! sums them. On the way of a request that is answered at once, counting costs a few additions and shares one look at
//! the clock with all replies that leave together. Nothing allocates or waits for another thread there.
//!
//! | file | noun |
//! |---|---|
//! | `cell` | what one thread has counted of one volume |
//! | `ticket` | what goes with a request from its arrival to its reply |
//! | `trail` | what a request had to wait for |
//! | `slow` | requests that took long |
//! | `exposition` | the text format |
//! | `process` | what the daemon costs the machine |
//! | `scrape` | which metrics there are |

mod cell;
mod exposition;
mod process;
mod scrape;
mod slow;
#[cfg(test)]
pub(crate) mod strict;
mod ticket;
mod trail;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cards_core::PgId;

use cards_admin::Io;

pub(crate) use cell::Cell;
pub(crate) use exposition::MEDIA_TYPE;
pub(crate) use scrape::scrape;
pub(crate) use slow::{Slow, Waited};
pub(crate) use ticket::{Mark, Ticket};
pub(crate) use trail::Trail;

/// A node's own.
pub(crate) struct Metrics {
    volumes: Mutex<BTreeMap<PgId, Counted>>,
    pub(crate) slow: Slow,
    /// When the daemon was started, in microseconds since 1970; the same at each look, however clocks are set.
    started_us: OnceLock<u64>,
}

/// Kept as long as the daemon runs, also of volumes that are detached: counters do not go back.
struct Counted {
    name: String,
    /// By data thread.
    cells: Box<[Arc<Cell>]>,
}

impl Metrics {
    pub(crate) fn new(slow: Slow) -> Self {
        Self { volumes: Mutex::default(), slow, started_us: OnceLock::new() }
    }

    /// Where a data thread counts what its clients ask of a volume.
    pub(crate) fn cell(&self, volume: PgId, name: &str, thread: u8, threads: usize) -> Arc<Cell> {
        let mut volumes = self.lock();
        let counted = volumes.entry(volume).or_insert_with(|| Counted {
            name: name.into(),
            cells: (0..threads).map(|_| Arc::default()).collect(),
        });
        if counted.name != name {
            counted.name = name.into();
        }
        Arc::clone(&counted.cells[usize::from(thread)])
    }

    /// What clients have asked of volumes, by their names. A disk that moved to another node is another volume of the
    /// same name.
    fn io(&self) -> BTreeMap<String, Io> {
        let mut io: BTreeMap<String, Io> = BTreeMap::new();
        for counted in self.lock().values() {
            let sum = io.entry(counted.name.clone()).or_default();
            *sum = sum.plus(&counted.io());
        }
        io
    }

    /// What clients have asked of a volume; nothing if none has used it.
    pub(crate) fn io_of(&self, volume: PgId) -> Option<Io> {
        self.lock().get(&volume).map(Counted::io)
    }

    /// The name of a volume that clients have used.
    pub(crate) fn name(&self, volume: PgId) -> Option<String> {
        self.lock().get(&volume).map(|counted| counted.name.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PgId, Counted>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn io(&self) -> Io {
        self.cells.iter().fold(Io::default(), |sum, cell| sum.plus(&cell.read()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use cards_admin::Op;

    #[test]
    fn volumes_of_one_name_are_counted_together() {
        let metrics = Metrics::new(Slow::new(Duration::ZERO));
        for (volume, name) in [(1, "data"), (2, "data"), (3, "logs")] {
            metrics.cell(PgId(volume), name, 0, 1).request(Op::Read, 5_000, 512, false);
        }
        let reads = |(name, io): (String, Io)| (name, io.op(Op::Read).latency.count());
        let read: Vec<(String, u64)> = metrics.io().into_iter().map(reads).collect();
        assert_eq!(read, [("data".into(), 2), ("logs".into(), 1)]);
    }
}
