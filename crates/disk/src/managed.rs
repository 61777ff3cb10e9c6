//! Managed disks: volumes as columns of a disk that CARDs has formatted, with a checksum of each 4 KiB.
//!
//! [`cards_array::store::Store`] decides, one thread per disk ([`driver`]) does: it has the one [`Engine`](crate::Engine) on the
//! file or device, the store, and the requests of all volumes. A volume is a [`Disk`] like any other, whose engines hand their
//! jobs to that thread.
//!
//! | file | noun |
//! |---|---|
//! | `column` | columns of placement groups, as their groups use them |
//! | `open` | what is read of a disk before it is used, and what is refused |
//! | `driver` | the thread: what the store asks for, and what it hears |
//! | `extents` | holes of a volume, as far as a read of them is zeroes |
//! | `request` | jobs of volumes as whole units of one piece, with their checksums |
//! | `ranges` | units that a request has for itself |
//! | `resum` | checksums of what was being written when the disk was not closed |
//! | `scrub` | a part of a volume, read and compared with its checksums |
//! | `buffer` | memory of the thread's own |

mod buffer;
mod column;
mod driver;
mod error;
mod extents;
mod open;
mod ranges;
mod request;
mod resum;
mod scrub;

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use cards_array::store::ColumnKey;
use cards_layout::domain::Domain;
use cards_layout::domain::Name;
use cards_layout::format::{self, Slot, Superblock, SuperblockError, UNIT, Uuid};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

pub use self::column::{Column, ManagedColumn};
use self::driver::{Command, Driver};
pub use self::error::ManagedError;
pub use self::scrub::{DamagedPlace, Scrub};
use crate::delivery::Delivery;
use crate::disk::Disk;
use crate::engine::{Engine, EngineKind};
use crate::error::{Altered, DiskError, JobError};
use crate::job::Work;
use crate::mailbox::Reply;
use crate::options::DiskOptions;
use crate::room::Room;
use crate::stats::DiskStats;

/// Reads and writes at the file or device at a time. The volumes' own depths are what bounds clients; what the store writes for
/// them must not wait behind them.
const DEPTH: usize = 1024;

/// How a managed disk is opened.
#[derive(Debug, Clone)]
pub struct ManagedOptions {
    /// The file or device, and how it is reached; `read_only`, `depth` and `delivery` are of its volumes.
    pub disk: DiskOptions,
    /// The name that it must have; any if none.
    pub name: Option<String>,
    /// The cluster that it is of from now on, if it is of none; it is refused if it is of another. None: of any.
    pub cluster: Option<String>,
    /// The node that opens it.
    pub node: Option<String>,
    /// Names the boot of this machine, as a UUID: what was written in an earlier one may be lost. None: it is read from the kernel.
    pub boot: Option<String>,
}

impl ManagedOptions {
    /// The disk at a path, whatever it is called and whichever cluster it is of.
    #[must_use]
    pub fn new(disk: DiskOptions) -> Self {
        Self { disk, name: None, cluster: None, node: None, boot: None }
    }
}

/// A volume on a managed disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedVolume {
    /// What people call it.
    pub name: Name,
    /// Its identity.
    pub uuid: Uuid,
    /// Bytes.
    pub bytes: u64,
}

/// A managed disk, open for use, locked until the last handle and volume is dropped.
#[derive(Debug)]
pub struct Managed {
    inner: Arc<Disk>,
    superblock: Superblock,
    damaged_superblock: Option<(Slot, SuperblockError)>,
    kind: EngineKind,
    commands: UnboundedSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

/// How its file or device is opened.
fn inner(options: &ManagedOptions) -> DiskOptions {
    DiskOptions { read_only: false, depth: DEPTH, delivery: Delivery::Event, ..options.disk.clone() }
}

/// Whether a file or device has a superblock of a managed disk, also a damaged one.
#[must_use]
pub fn is_managed(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    format::SUPERBLOCKS.iter().any(|&at| {
        let mut page = [0; UNIT];
        file.read_exact_at(&mut page, at).is_ok()
            && !matches!(Superblock::decode(&page, Slot::A), Err(SuperblockError::Magic(_)))
    })
}

/// What is on a managed disk, by its table.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    volumes: Vec<ManagedVolume>,
    columns: Vec<ManagedColumn>,
}

impl Lists {
    /// Volumes, and columns of others: the column, the volume's name, its bytes.
    fn all(&self) -> impl Iterator<Item = (ColumnKey, &Name, u64)> {
        let volumes = self.volumes.iter().map(|volume| (key_of(volume), &volume.name, volume.bytes));
        volumes.chain(self.columns.iter().map(|column| (column.key(), &column.name, column.bytes)))
    }
}

/// What the thread of a managed disk counts, and tells.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// As of the last that was made or removed.
    lists: Mutex<Lists>,
    /// Pieces that belong to nothing.
    free: AtomicU64,
    /// Bytes copied because a request was not of whole units.
    copied: AtomicU64,
    /// Units that did not fit their checksums when they were read.
    damaged: AtomicU64,
    /// Regions whose checksums are not known.
    unsure: AtomicU64,
    /// See [`cards_array::group::Marks`].
    marks: AtomicU64,
    /// The first error for which its tables were not written.
    failure: Mutex<Option<JobError>>,
}

/// What is on a managed disk that nobody uses.
#[derive(Debug)]
pub struct Examined {
    /// Bytes of the file or device.
    pub size: u64,
    /// Its volumes, in the order of its table.
    pub volumes: Vec<ManagedVolume>,
    /// The superblock that is damaged, and how; the other one serves.
    pub damaged: Option<(Slot, SuperblockError)>,
}

impl Managed {
    /// Reads a disk as [`Self::open`] does, and closes it again: nothing is written.
    ///
    /// # Errors
    /// [`Self::open`] would fail.
    pub fn examine(options: &ManagedOptions) -> Result<Examined, DiskError> {
        let disk = Disk::open(&inner(options))?;
        let failed = |source| DiskError::Managed { path: disk.name().into(), source: Box::new(source) };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| failed(ManagedError::Thread(source)))?;
        // An engine belongs to the event loop in which it is made.
        let opened = tokio::task::LocalSet::new().block_on(&runtime, async {
            let engine = Engine::new(&disk);
            let opened = open::open(&engine, disk.size(), options).await;
            opened.and_then(|(store, _, found)| Ok((open::lists(&store)?, found.damaged)))
        });
        let (lists, damaged) = opened.map_err(failed)?;
        Ok(Examined { size: disk.size(), volumes: lists.volumes, damaged })
    }

    /// Opens a disk. Blocks until its tables are read. Regions that were being written when it was not closed are looked at
    /// afterwards, beside the requests of clients.
    ///
    /// # Errors
    /// It cannot be opened, is no managed disk, is damaged, or is none of this cluster.
    pub fn open(options: &ManagedOptions) -> Result<Arc<Self>, DiskError> {
        let inner = Disk::open(&inner(options))?;
        let failed = |source| DiskError::Managed { path: inner.name().into(), source: Box::new(source) };
        let (commands, inbox) = unbounded_channel();
        let (opened, open) = mpsc::sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| failed(ManagedError::Thread(source)))?;
        let counts = Arc::new(Counts::default());
        let (disk, order, of_thread) = (Arc::clone(&inner), options.clone(), Arc::clone(&counts));
        let thread = std::thread::Builder::new()
            .name("cards-managed".into())
            .spawn(move || {
                let _guard = AbortOnPanic;
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, driver::run(disk, order, of_thread, inbox, opened));
            })
            .map_err(|source| failed(ManagedError::Thread(source)))?;
        let ended = |_| Err(ManagedError::Thread(std::io::Error::other("it has ended")));
        let found = match open.recv().unwrap_or_else(ended) {
            Ok(found) => found,
            Err(error) => {
                // Its engine has the file open: who tries again finds it free.
                let _ = thread.join();
                return Err(failed(error));
            }
        };
        Ok(Arc::new(Self {
            superblock: found.superblock,
            damaged_superblock: found.damaged,
            kind: found.kind,
            inner,
            commands,
            thread: Mutex::new(Some(thread)),
            counts,
        }))
    }

    /// The path it was opened with.
    pub fn path(&self) -> &str {
        self.inner.name()
    }

    /// What its superblock said when it was opened.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The superblock that was damaged when it was opened, and how: the other one served, and this one is written anew.
    pub fn damaged_superblock(&self) -> Option<&(Slot, SuperblockError)> {
        self.damaged_superblock.as_ref()
    }

    /// How the file or device is reached.
    pub(crate) fn kind(&self) -> &EngineKind {
        &self.kind
    }

    pub(crate) fn inner(&self) -> &Disk {
        &self.inner
    }

    /// Bytes of the file or device.
    pub fn size(&self) -> u64 {
        self.inner.size()
    }

    /// What was done to its file or device since it was opened; one that was cut short gives nothing more, since what is written behind its
    /// end would bring zeroes back. Blocks for as long as the file system takes, so never call it from a data thread.
    pub fn altered(&self) -> Option<Altered> {
        let altered = self.inner.altered()?;
        Some(match altered {
            Altered::Cut { path, size, served } => {
                self.inner.give_up(size);
                Altered::ManagedCut { path, size, served }
            }
            altered => altered,
        })
    }

    /// What was asked of its file or device, for its volumes and columns and for its tables.
    pub fn stats(&self) -> &DiskStats {
        self.inner.stats()
    }

    /// The error for which it serves nothing any more, if its tables could not be written or synced.
    pub fn failure(&self) -> Option<JobError> {
        *self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Disk::room`].
    pub fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    /// Its volumes, in the order of its table: one that is made takes the first place that is free there, and moves no other.
    pub fn volumes(&self) -> Vec<ManagedVolume> {
        self.lists().volumes.clone()
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.counts.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its identity.
    pub fn uuid(&self) -> Uuid {
        self.superblock.disk
    }

    /// What people call it.
    pub fn disk_name(&self) -> &Name {
        &self.superblock.name
    }

    /// Its failure domain; none: that of its node.
    pub fn domain(&self) -> Option<&Domain> {
        self.superblock.domain.as_ref()
    }

    /// Bytes that new volumes and columns can have, in whole pieces.
    pub fn free_bytes(&self) -> u64 {
        self.counts.free.load(Relaxed) * self.superblock.sizes.piece()
    }

    /// Bytes copied because a request was not of whole units.
    pub(crate) fn copied(&self) -> u64 {
        self.counts.copied.load(Relaxed)
    }

    /// Units of 4 KiB that did not fit their checksums when they were read, since the disk was opened.
    pub fn damaged(&self) -> u64 {
        self.counts.damaged.load(Relaxed)
    }

    /// Regions whose checksums are not known yet, or cannot be, because their data cannot be read.
    pub fn unsure(&self) -> u64 {
        self.counts.unsure.load(Relaxed)
    }

    /// Makes a volume of so many bytes, all zero, and returns when it is durable.
    ///
    /// # Errors
    /// The name is taken, the size is no multiple of 4096 or 0, or there is no room.
    pub fn create_volume(&self, name: &Name, bytes: u64) -> Result<ManagedVolume, ManagedError> {
        if bytes == 0 || !bytes.is_multiple_of(UNIT as u64) {
            return Err(ManagedError::Size { bytes });
        }
        if self.is_name_taken(name, None) {
            return Err(ManagedError::Exists { volume: name.to_string() });
        }
        let volume = ManagedVolume { name: name.clone(), uuid: random_uuid()?, bytes };
        let pieces = bytes.div_ceil(self.superblock.sizes.piece());
        let pieces = u32::try_from(pieces).map_err(|_| ManagedError::Size { bytes })?;
        let column = format::Column {
            volume: volume.uuid,
            name: name.clone(),
            bytes,
            group: 0,
            column: 0,
            forced: false,
            mirrored: false,
            lossy: false,
            generation: 1,
            sealed_epoch: 1,
            in_sync_epoch: 1,
            applied_through: 0,
            filled_rows: 0,
            scrub_row: 0,
            life: 0,
        };
        self.call(async move |driver| {
            let create = |ticket, store: &mut cards_array::store::Store, now, out: &mut Vec<_>| {
                store.create_column(ticket, column, pieces, now, out);
            };
            driver.change(create).await
        })?;
        Ok(volume)
    }

    /// Removes a volume that is not in use; its pieces are free when it returns.
    ///
    /// # Errors
    /// There is no such volume, or requests for it are open.
    pub fn remove_volume(&self, name: &str) -> Result<(), ManagedError> {
        let key = self.key(name)?;
        self.call(async move |driver| {
            driver.change(|ticket, store, now, out| store.remove_column(ticket, key, now, out)).await
        })
    }

    /// What [`Self::scrub`] can look at: volumes, and those of which a copy is here; their names and bytes.
    pub fn scrubbed(&self) -> Vec<(Name, u64)> {
        self.lists().all().map(|(_, name, bytes)| (name.clone(), bytes)).collect()
    }

    /// Reads a part of a volume, or of the copy that is here, and compares it with its checksums; clients are served meanwhile.
    ///
    /// # Errors
    /// There is no such volume, the range is not of whole units of it, or the disk is closed.
    pub fn scrub(&self, volume: &str, offset: u64, length: u64) -> Result<Scrub, ManagedError> {
        self.begin_scrub(volume, offset, length)?.blocking_recv().map_err(|_| ManagedError::Closed)?
    }

    /// [`Self::scrub`] where nothing may block.
    ///
    /// # Errors
    /// As there.
    pub async fn scrub_async(&self, volume: &str, offset: u64, length: u64) -> Result<Scrub, ManagedError> {
        self.begin_scrub(volume, offset, length)?.await.map_err(|_| ManagedError::Closed)?
    }

    fn begin_scrub(
        &self,
        volume: &str,
        offset: u64,
        length: u64,
    ) -> Result<oneshot::Receiver<Result<Scrub, ManagedError>>, ManagedError> {
        let found = self
            .lists()
            .all()
            .find(|(_, name, _)| name.as_str() == volume)
            .map(|(key, _, bytes)| (key, bytes));
        let Some((key, bytes)) = found else { return Err(self.no_volume(volume)) };
        let unit = UNIT as u64;
        let is_whole = offset.is_multiple_of(unit) && length.is_multiple_of(unit);
        let end = offset.checked_add(length).filter(|end| is_whole && *end <= bytes);
        let end = end.ok_or_else(|| ManagedError::Range { volume: volume.into(), bytes })?;
        let (done, answer) = oneshot::channel();
        self.send(Box::new(move |driver| {
            driver.spawn(async move |driver| {
                // Who asked may have gone.
                let _ = done.send(scrub::run(&driver, key, offset..end).await);
            });
        }))?;
        Ok(answer)
    }

    /// Ends its thread when all that is dirty is settled and the disk says that it was closed. Later requests fail.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Where a volume is.
    pub(crate) fn find(&self, name: &str) -> Result<(ColumnKey, ManagedVolume), ManagedError> {
        let volumes = self.volumes();
        let found = volumes.into_iter().find(|volume| volume.name.as_str() == name);
        found.map(|volume| (key_of(&volume), volume)).ok_or_else(|| self.no_volume(name))
    }

    fn no_volume(&self, name: &str) -> ManagedError {
        let there = self.volumes().into_iter().map(|volume| volume.name.to_string()).collect();
        ManagedError::NoVolume { volume: name.into(), there }
    }

    /// Whether a volume has the name, other than `volume`.
    fn is_name_taken(&self, name: &Name, volume: Option<Uuid>) -> bool {
        let lists = self.lists();
        let ours = volume.map(|volume| volume.key());
        lists.all().any(|(key, other, _)| other == name && Some(key.volume) != ours)
    }

    fn key(&self, name: &str) -> Result<ColumnKey, ManagedError> {
        self.find(name).map(|(key, _)| key)
    }

    /// Has the thread do `work` of a volume; the answer comes through `reply`.
    pub(crate) fn submit(&self, key: ColumnKey, work: Work, reply: Reply) {
        // Without the thread the command is dropped, and the reply with it: that answers it.
        let _ = self.commands.send(Command::Work { key, work, reply });
    }

    fn send(&self, call: Box<dyn FnOnce(Rc<Driver>) + Send>) -> Result<(), ManagedError> {
        self.commands.send(Command::Call(call)).map_err(|_| ManagedError::Closed)
    }

    /// Asks the store for something in the thread, and waits for the answer.
    fn call<F>(&self, ask: F) -> Result<(), ManagedError>
    where
        F: AsyncFnOnce(Rc<Driver>) -> Result<(), ManagedError> + Send + 'static,
    {
        let (done, answer) = mpsc::sync_channel(1);
        self.send(Box::new(move |driver| {
            driver.spawn(async move |driver| {
                let _ = done.send(ask(driver).await);
            });
        }))?;
        answer.recv().map_err(|mpsc::RecvError| ManagedError::Closed)?
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.close();
    }
}

/// A volume of a managed disk, as the engines of a [`Disk`] see it.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) managed: Arc<Managed>,
    pub(crate) key: ColumnKey,
}

impl fmt::Display for ManagedVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.uuid)
    }
}

/// The one column of a volume of layout `linear`.
fn key_of(volume: &ManagedVolume) -> ColumnKey {
    ColumnKey { volume: volume.uuid.key(), group: 0, column: 0 }
}

fn random_uuid() -> Result<Uuid, ManagedError> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| Uuid::random(bytes)).map_err(ManagedError::Random)
}

/// A thread that panics leaves a store of which nothing is known, and buffers that the kernel still uses.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
