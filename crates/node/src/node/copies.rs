//! What the copies of mirrored volumes that are on disks of this node were asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_admin::DiskCounters;
use cards_core::PgId;

/// The copies here, since the daemon began.
#[derive(Default)]
pub(crate) struct Copies(Mutex<BTreeMap<PgId, Arc<CopyCounts>>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct CopyCounts {
    /// The volume.
    pub(crate) name: String,
    /// The managed disk that has it.
    pub(crate) path: String,
    /// Bytes of a block.
    block: u64,
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    copied: AtomicU64,
}

impl Copies {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PgId, Arc<CopyCounts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts of a group's copy: those that it has had before, if it was begun on before.
    pub(crate) fn begin(&self, of: PgId, name: &str, path: &str, block: u64) -> Arc<CopyCounts> {
        let new = || {
            Arc::new(CopyCounts {
                name: name.into(),
                path: path.into(),
                block,
                reads: AtomicU64::default(),
                writes: AtomicU64::default(),
                bytes_read: AtomicU64::default(),
                bytes_written: AtomicU64::default(),
                copied: AtomicU64::default(),
            })
        };
        Arc::clone(self.all().entry(of).or_insert_with(new))
    }

    /// Its volume is gone.
    pub(crate) fn end(&self, of: PgId) {
        self.all().remove(&of);
    }

    pub(crate) fn get(&self, of: PgId) -> Option<Arc<CopyCounts>> {
        self.all().get(&of).cloned()
    }

    /// In the order of the volumes' numbers.
    pub(crate) fn list(&self) -> Vec<Arc<CopyCounts>> {
        self.all().values().cloned().collect()
    }
}

impl CopyCounts {
    pub(crate) fn has_read(&self, bytes: u64) {
        self.reads.fetch_add(bytes.div_ceil(self.block), Relaxed);
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn has_written(&self, bytes: u64) {
        self.writes.fetch_add(bytes.div_ceil(self.block), Relaxed);
        self.bytes_written.fetch_add(bytes, Relaxed);
    }

    /// So many bytes were copied to other copies, which had missed them.
    pub(crate) fn has_copied(&self, bytes: u64) {
        self.copied.fetch_add(bytes, Relaxed);
    }

    /// Bytes that this node has copied to other copies, which had missed them.
    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Relaxed)
    }

    /// What its disk did for it.
    pub(crate) fn disk(&self) -> DiskCounters {
        DiskCounters {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }
}
