//! A disk: what all its engines share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::delivery::Delivery;
use crate::error::{Altered, DiskError, JobError};
use crate::fault::Faults;
use crate::file::Holder;
use crate::job::{Op, Work};
use crate::mailbox::{Mailbox, Reply};
use crate::managed::{Managed, Volume};
use crate::nbd::Origin;
use crate::object::Object;
use crate::options::{Backend, DiskOptions, Source};
use crate::pool::{Pool, Task};
use crate::room::Room;
use crate::stats::DiskStats;
use crate::throttle::Throttle;
use crate::turns::Turns;

/// Largest size whose every offset is a file offset of the operating system.
const SIZE_MAX: u64 = i64::MAX as u64;

/// Logical block size of an object, in bytes: it has none.
const OBJECT_BLOCK: u32 = 512;

/// A file, a block device, another server's export or an object, open for use.
///
/// Files and devices are locked (`flock`, and exclusive open of a device that is written) until the last
/// handle and engine is dropped.
#[derive(Debug)]
pub struct Disk {
    name: String,
    size: u64,
    block_size: u32,
    read_only: bool,
    pub(crate) storage: Storage,
    pub(crate) delivery: Delivery,
    pub(crate) backend: Backend,
    pub(crate) throttle: Throttle,
    pub(crate) turns: Turns,
    pub(crate) faults: Faults,
    pub(crate) stats: DiskStats,
    sync_failed: AtomicBool,
    /// Where its file ends, if it was given up for that; else the largest number.
    cut: AtomicU64,
}

#[derive(Debug)]
pub(crate) enum Storage {
    File { holder: Holder, pool: OnceLock<Pool>, threads: usize },
    Nbd(Origin),
    Object(Object),
    Volume(Volume),
}

impl Disk {
    /// Opens what `options` name. Blocks: on a file for as long as the file system takes, on another server
    /// for its handshake or its answers (at most about 10 s), so call it before the data threads run.
    pub fn open(options: &DiskOptions) -> Result<Arc<Self>, DiskError> {
        let faults = options.fault.as_deref().map(Faults::parse).transpose()?.unwrap_or_default();
        let (name, size, block_size, read_only, storage) = match &options.source {
            Source::Path(path) => {
                let holder = Holder::open(path, options)?;
                let shape = holder.shape();
                let storage = Storage::File { holder, pool: OnceLock::new(), threads: options.threads };
                (path.display().to_string(), shape.size, shape.block_size, options.read_only, storage)
            }
            Source::Uri(text) => {
                let origin = Origin::connect(text, options)?;
                let read_only = options.read_only || origin.read_only();
                (text.clone(), origin.size(), origin.block_size(), read_only, Storage::Nbd(origin))
            }
            Source::Object(source) => {
                let object = Object::open(source, options)?;
                (source.url.to_string(), object.size(), OBJECT_BLOCK, true, Storage::Object(object))
            }
        };
        let throttle = Throttle::new(options.delay, options.rate);
        Ok(Self::made(options, faults, throttle, (name, size, block_size, read_only, storage)))
    }

    /// A volume of a managed disk. Of the options, `read_only`, `delivery`, `depth`, `count_block` and `fault` are of the volume; the
    /// others were those of the disk.
    pub fn of_volume(
        managed: &Arc<Managed>,
        volume: &str,
        options: &DiskOptions,
    ) -> Result<Arc<Self>, DiskError> {
        let faults = options.fault.as_deref().map(Faults::parse).transpose()?.unwrap_or_default();
        let path = || managed.path().into();
        let (key, found) = managed
            .find(volume)
            .map_err(|source| DiskError::Managed { path: path(), source: Box::new(source) })?;
        let storage = Storage::Volume(Volume { managed: Arc::clone(managed), key });
        let name = format!("{}, volume {volume}", managed.path());
        // What is modelled of a slow disk is the disk's, which all its volumes share.
        let throttle = Throttle::new(Duration::ZERO, 0);
        let block_size = managed.inner().block_size();
        Ok(Self::made(options, faults, throttle, (name, found.bytes, block_size, options.read_only, storage)))
    }

    fn made(
        options: &DiskOptions,
        faults: Faults,
        throttle: Throttle,
        (name, size, block_size, read_only, storage): (String, u64, u32, bool, Storage),
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            size: size.min(SIZE_MAX),
            block_size,
            read_only,
            storage,
            delivery: options.delivery,
            backend: options.backend,
            throttle,
            turns: Turns::new(options.depth),
            faults,
            stats: DiskStats::new(options.count_block),
            sync_failed: AtomicBool::new(false),
            cut: AtomicU64::new(u64::MAX),
        })
    }

    /// The managed disk that it is a volume of.
    pub fn managed(&self) -> Option<&Arc<Managed>> {
        match &self.storage {
            Storage::Volume(volume) => Some(&volume.managed),
            Storage::File { .. } | Storage::Nbd(_) | Storage::Object(_) => None,
        }
    }

    /// The path or URI it was opened with; of a URL without what may be secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes. Fixed at open.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Logical block size: of the device; 512 for a file, or what direct I/O needs there, and for
    /// an object; an origin's preferred size.
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Whether writes are refused: opened so, an origin that exports read-only, or an object.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether another server has it.
    pub fn is_remote(&self) -> bool {
        matches!(self.storage, Storage::Nbd(_) | Storage::Object(_))
    }

    /// The counters.
    pub fn stats(&self) -> &DiskStats {
        &self.stats
    }

    /// Bytes that were copied in this process on their way from the disk: those of an object, and those of an origin that
    /// came together with a reply's header. Files and devices are read straight into the buffer.
    pub fn bytes_copied(&self) -> u64 {
        match &self.storage {
            Storage::File { .. } => 0,
            Storage::Nbd(origin) => origin.copied(),
            Storage::Object(object) => object.copied(),
            Storage::Volume(volume) => volume.managed.copied(),
        }
    }

    /// Whether a sync failed; then no flush or FUA write succeeds until the disk is opened again.
    pub fn sync_failed(&self) -> bool {
        self.sync_failed.load(Relaxed)
    }

    /// A sync failed with `error`.
    pub(crate) fn fail_syncs(&self, error: JobError) {
        if !self.sync_failed.swap(true, Relaxed) {
            tracing::error!(
                disk = self.name,
                %error,
                "sync failed: unsynced writes may be lost; flushes and FUA writes fail until the disk is opened again"
            );
        }
    }

    /// What no other contents of an object have, so that they can be told from those before a restart: its `ETag`. None of
    /// other disks, and of an object without one.
    pub fn version(&self) -> Option<&str> {
        match &self.storage {
            Storage::Object(object) => object.version(),
            Storage::File { .. } | Storage::Nbd(_) | Storage::Volume(_) => None,
        }
    }

    /// What was done to its file, device or object since it was opened. Blocks for as long as the file system takes, so never call
    /// it from a data thread.
    pub fn altered(&self) -> Option<Altered> {
        match &self.storage {
            Storage::File { holder, .. } => holder.altered(),
            Storage::Nbd(_) => None,
            Storage::Object(object) => object.altered(&self.name),
            Storage::Volume(volume) => volume.managed.inner().altered(),
        }
    }

    /// What its file still needs of its file system, and what is left there; none for a device, and for an origin, of which it
    /// is not known. Blocks for as long as the file system takes.
    pub fn room(&self) -> Option<Room> {
        match &self.storage {
            Storage::File { holder, .. } => holder.room(),
            Storage::Nbd(_) | Storage::Object(_) => None,
            Storage::Volume(volume) => volume.managed.inner().room(),
        }
    }

    /// Its file was cut short, and ends at `offset`: every request fails from now on.
    pub(crate) fn give_up(&self, offset: u64) {
        self.cut.fetch_min(offset, Relaxed);
    }

    /// Whether the disk can take `op` at all.
    pub(crate) fn check(&self, op: &Op) -> Result<(), JobError> {
        if let Some((offset, len)) = op.range()
            && offset.checked_add(len).is_none_or(|end| end > self.size)
        {
            return Err(JobError::OutOfRange { offset, len, size: self.size });
        }
        match self.cut.load(Relaxed) {
            u64::MAX if self.read_only && op.writes() => Err(JobError::ReadOnly),
            u64::MAX => Ok(()),
            offset => Err(JobError::Shrank { offset }),
        }
    }

    pub(crate) fn submit_to_pool(&self, tasks: impl ExactSizeIterator<Item = Task>) {
        if tasks.len() == 0 {
            return;
        }
        if let Storage::File { pool, threads, .. } = &self.storage {
            pool.get_or_init(|| Pool::new(*threads)).submit(tasks);
        }
    }

    /// Answers everything of `mailbox` that others than its engine have; afterwards they use no buffer of it.
    pub(crate) fn cancel(&self, mailbox: &Arc<Mailbox>) {
        match &self.storage {
            Storage::File { pool, .. } => {
                if let Some(pool) = pool.get() {
                    pool.cancel(mailbox);
                }
            }
            Storage::Nbd(origin) => origin.cancel(mailbox),
            Storage::Object(object) => object.cancel(mailbox),
            // What is asked of a managed disk ends by itself.
            Storage::Volume(_) => {}
        }
    }

    /// Has the server or thread that has the disk do `work`; the answer comes through `reply`.
    pub(crate) fn submit_to_server(&self, work: Work, reply: Reply) {
        match &self.storage {
            Storage::Nbd(origin) => origin.submit(work, reply),
            Storage::Object(object) => object.submit(work, reply),
            Storage::Volume(volume) => volume.managed.submit(volume.key, work, reply),
            Storage::File { .. } => unreachable!("engines ask by the kind of storage"),
        }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
