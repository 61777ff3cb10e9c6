//! What was counted of the volumes that clients use.
//!
//! The data threads count in cells of their own, one for each volume that clients of the thread use; a reader sums them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_admin::Io;
use cards_core::PgId;

use crate::cell::Cell;
use crate::times::ReadTimes;

/// By volume.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<PgId, Counted>>);

/// Kept as long as the daemon runs, also of volumes that are detached: counters do not go back.
struct Counted {
    name: String,
    /// By data thread.
    cells: Box<[Arc<Cell>]>,
}

impl Counts {
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
    pub(crate) fn io(&self) -> BTreeMap<String, Io> {
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

    /// How long reads of a volume took, as far as is known.
    pub(crate) fn read_times(&self, volume: PgId) -> ReadTimes {
        self.lock().get(&volume).map(Counted::read_times).unwrap_or_default()
    }

    /// The name of a volume that clients have used.
    pub(crate) fn name(&self, volume: PgId) -> Option<String> {
        self.lock().get(&volume).map(|counted| counted.name.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PgId, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn read_times(&self) -> ReadTimes {
        let (mut all, mut times) = ((0, 0), ReadTimes::default());
        let add = |sum: &mut (u64, u64), more: (u64, u64)| {
            *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
        };
        for cell in &self.cells {
            let (reads, [local, remote, disk]) = cell.read_times();
            add(&mut all, reads);
            // Blocks that were fetched while it waited for one of them may be here at last.
            add(&mut times.remote, local);
            add(&mut times.remote, remote);
            add(&mut times.disk, disk);
        }
        let waited = |at: fn((u64, u64)) -> u64| at(times.remote).saturating_add(at(times.disk));
        let own = |at: fn((u64, u64)) -> u64| at(all).saturating_sub(waited(at));
        times.own = (own(|(reads, _)| reads), own(|(_, ns)| ns));
        times
    }

    fn io(&self) -> Io {
        self.cells.iter().fold(Io::default(), |sum, cell| sum.plus(&cell.read()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cards_admin::Op;

    #[test]
    fn volumes_of_one_name_are_counted_together() {
        let counts = Counts::default();
        for (volume, name) in [(1, "data"), (2, "data"), (3, "logs")] {
            counts.cell(PgId(volume), name, 0, 1).request(Op::Read, (5_000, 4), 512, false);
        }
        let reads = |(name, io): (String, Io)| (name, io.op(Op::Read).latency.count());
        let read: Vec<(String, u64)> = counts.io().into_iter().map(reads).collect();
        assert_eq!(read, [("data".into(), 2), ("logs".into(), 1)]);
    }
}
