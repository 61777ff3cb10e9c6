//! Columns of placement groups: copies of a volume, as their groups use them.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_array::group::{self, Extent, Extents, Marks, Work};
use cards_array::store::{self, ColumnKey, StoreError};
use cards_layout::domain::Name;
use cards_layout::format::{self, UNIT, Uuid};
use tokio::sync::oneshot;

use super::driver::{Driver, Transfer};
use super::request::job_error;
use super::{Managed, ManagedError};
use crate::error::JobError;

/// Most bytes of one read: another node's word must not take all memory.
const READ_MAX: u64 = 64 << 20;

/// A column of a placement group on a managed disk: one of several copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedColumn {
    /// The identity of the volume.
    pub volume: Uuid,
    /// What people call the volume.
    pub name: Name,
    /// The placement group of the volume.
    pub group: u16,
    /// The column of the group.
    pub column: u8,
    /// Bytes of the volume: a multiple of 4096, and not 0.
    pub bytes: u64,
}

impl ManagedColumn {
    /// How requests name it.
    #[must_use]
    pub fn key(&self) -> ColumnKey {
        ColumnKey { volume: self.volume.key(), group: self.group, column: self.column }
    }

    pub(super) fn of(column: &format::Column) -> Self {
        Self {
            volume: column.volume,
            name: column.name.clone(),
            group: column.group,
            column: column.column,
            bytes: column.bytes,
        }
    }

    /// The entry in the table of a column that is new: it was in sync in no epoch.
    fn entry(&self) -> format::Column {
        format::Column {
            volume: self.volume,
            name: self.name.clone(),
            bytes: self.bytes,
            group: self.group,
            column: self.column,
            forced: false,
            mirrored: true,
            lossy: false,
            generation: 0,
            sealed_epoch: 0,
            in_sync_epoch: 0,
            applied_through: 0,
            filled_rows: 0,
            scrub_row: 0,
            life: 0,
        }
    }
}

impl fmt::Display for ManagedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, volume, group, column, .. } = self;
        write!(f, "{name} ({volume}), copy {column} of group {group}")
    }
}

/// A column in use by its group. Clones are the same column; the disk stays open as long as one of them lives.
///
/// All methods return at once. What they ask for reaches the disk's thread in the order in which one thread calls them; answers
/// come in any order.
#[derive(Debug, Clone)]
pub struct Column {
    managed: Arc<Managed>,
    key: ColumnKey,
    /// Its size, or one that it had: it only grows.
    bytes: Arc<AtomicU64>,
    /// Writes that went beyond its end, with where that was: they are released as a whole.
    cut: Arc<Mutex<Vec<(Extent, u64)>>>,
    found: Arc<group::Disk>,
}

impl Column {
    /// What a [`cards_array::group::Group`] begins with: the disk, the record in its table, and which ranges were dirty and missed
    /// when [`Managed::column`] was called. These end with the volume.
    #[must_use]
    pub fn found(&self) -> &group::Disk {
        &self.found
    }

    /// Bytes that it has on its disk now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lists = self.managed.lists();
        let now = lists.columns.iter().find(|column| column.key() == self.key).map(|column| column.bytes);
        drop(lists);
        now.map_or_else(|| self.bytes.load(Relaxed), |now| self.bytes.fetch_max(now, Relaxed).max(now))
    }

    fn cut(&self) -> MutexGuard<'_, Vec<(Extent, u64)>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the disk has counted by now: at least what it had when the last write ended.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks(self.managed.counts.marks.load(Relaxed))
    }

    /// The disk that has it.
    #[must_use]
    pub fn managed(&self) -> &Arc<Managed> {
        &self.managed
    }

    /// Has the disk do `work`, as [`Work`] says, and calls `reply` once, in the disk's thread: it must not block. The bytes are
    /// those of a read, none of other works. The payload of a write is kept until its end, and not copied if it is whole
    /// units of 4096 bytes; it has as many bytes as its extent. A read has at most 64 MiB.
    ///
    /// Behind its end a column is zero: reads find that there, and writes of zeroes are done. While the columns of a group grow, one after
    /// the other, the larger ones have nothing else there.
    ///
    /// The reply is an error: [`JobError::Damaged`] with the first units that are not as they were written, [`JobError::StoreFailed`]
    /// after the disk could not sync or write its tables, [`JobError::OutOfRange`], `ESHUTDOWN` of a disk that is closed,
    /// `ENXIO` of a column that is gone, and what the operating system said.
    pub fn submit<B>(
        &self,
        work: Work<B>,
        reply: impl FnOnce(Result<Option<Vec<u8>>, JobError>) + Send + 'static,
    ) where
        B: AsRef<[u8]> + Send + 'static,
    {
        let answer = Answerer(Some(Box::new(reply)));
        let extent = match &work {
            Work::Read { extent } | Work::Verify { extent } => Some((extent, None)),
            Work::Write { extent, payload, .. } => Some((extent, Some(payload.as_ref().len() as u64))),
            Work::Sync | Work::SetRecord(_) | Work::MarkMissed(_) => None,
        };
        if let Some((Extent { offset, length }, payload)) = extent {
            let (offset, len) = (*offset, *length);
            let Some(end) = offset.checked_add(len) else {
                return answer.with(Err(JobError::OutOfRange { offset, len, size: self.bytes() }));
            };
            if len == 0 || payload.map_or(len > READ_MAX, |payload| payload != len) {
                return answer.with(Err(JobError::Os { errno: libc::EINVAL }));
            }
            // It may have grown.
            if end > self.bytes.load(Relaxed) && end > self.bytes() {
                return self.submit_beyond(work, answer);
            }
        }
        let key = self.key;
        // Without the thread the call is dropped, and the answer with it: that answers.
        let _ = self.managed.send(Box::new(move |driver| begin(&driver, key, work, answer)));
    }

    /// A work that goes beyond the end, of which only what is before it is asked of the disk.
    fn submit_beyond<B: AsRef<[u8]>>(&self, work: Work<B>, answer: Answerer) {
        let size = self.bytes();
        let within = |extent: Extent| extent_within(extent, size);
        let key = self.key;
        let (part, answer) = match work {
            Work::Read { extent } => {
                let length = extent.length as usize;
                let whole = move |result: WorkResult| {
                    answer.with(result.map(|bytes| {
                        let mut bytes = bytes.unwrap_or_default();
                        bytes.resize(length, 0);
                        Some(bytes)
                    }));
                };
                (Work::Read { extent: within(extent) }, Answerer(Some(Box::new(whole))))
            }
            Work::Verify { extent } => (Work::Verify { extent: within(extent) }, answer),
            Work::Write { extent, payload, missed } => {
                let (bytes, part) = (payload.as_ref(), within(extent));
                let (stays, rest) = bytes.split_at(part.length as usize);
                if rest.iter().any(|byte| *byte != 0) {
                    let Extent { offset, length: len } = extent;
                    return answer.with(Err(JobError::OutOfRange { offset, len, size }));
                }
                self.cut().push((extent, size));
                (Work::Write { extent: part, payload: stays.to_vec(), missed }, answer)
            }
            Work::Sync | Work::SetRecord(_) | Work::MarkMissed(_) => return answer.with(Ok(None)),
        };
        match &part {
            Work::Read { extent } | Work::Verify { extent } | Work::Write { extent, .. }
                if extent.length == 0 =>
            {
                answer.with(Ok(None));
            }
            _ => drop(self.managed.send(Box::new(move |driver| begin(&driver, key, part, answer)))),
        }
    }

    /// Lets the regions of a write become clean, or of a range that was found dirty: once for each.
    pub fn release(&self, mut extent: Extent) {
        let key = self.key;
        let mut cut = self.cut();
        if let Some(at) = cut.iter().position(|(of, _)| *of == extent) {
            // What lay beyond the end then was not held, and may be held for another write by now.
            extent = extent_within(extent, cut.swap_remove(at).1);
        }
        drop(cut);
        if extent.length == 0 {
            return;
        }
        // A disk that is closed keeps them dirty.
        let _ = self.managed.send(Box::new(move |driver| {
            driver.act(|store, _, _| store.release(key, extent));
        }));
    }

    /// Says whether another column has what this one has: [`Managed::column`] was told as of then.
    pub fn has_copy(&self, is_copy: bool) {
        let key = self.key;
        let _ = self.managed.send(Box::new(move |driver| {
            driver.act(|store, _, _| store.has_copy(key, is_copy));
        }));
    }

    /// Notes that columns that had missed these ranges have them now. Durable at some time.
    pub fn caught_up(&self, extents: Extents) {
        let key = self.key;
        // On a disk that is closed they stay missed, and are copied once more.
        let _ = self.managed.send(Box::new(move |driver| {
            driver.act(|store, now, out| store.caught_up(key, &extents, now, out));
        }));
    }
}

/// What of a range is before an end.
fn extent_within(extent: Extent, end: u64) -> Extent {
    Extent { length: end.saturating_sub(extent.offset).min(extent.length), ..extent }
}

/// The duty to answer a work. Dropped, it answers that the disk is closed.
struct Answerer(Option<Box<dyn FnOnce(WorkResult) + Send>>);

/// What a work has come to: with the bytes, if it was a read.
type WorkResult = Result<Option<Vec<u8>>, JobError>;

impl Answerer {
    fn with(mut self, result: WorkResult) {
        if let Some(reply) = self.0.take() {
            reply(result);
        }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Err(JobError::Os { errno: libc::ESHUTDOWN }));
        }
    }
}

/// Begins a work in the disk's thread. What the store has to know of it, it knows when this returns: a call that comes later
/// finds it.
fn begin<B: AsRef<[u8]> + Send + 'static>(
    driver: &Rc<Driver>,
    key: ColumnKey,
    work: Work<B>,
    answer: Answerer,
) {
    type Ask<'a> = Box<dyn FnOnce(store::Ticket, &mut store::Store, u64, &mut Vec<store::Effect>) + 'a>;
    let ask: Ask<'_> = match work {
        Work::Read { extent } => {
            return driver.spawn(async move |driver| {
                answer.with(driver.read_bytes(key, extent.offset, extent.length).await.map(Some));
            });
        }
        Work::Verify { extent } => {
            return driver.spawn(async move |driver| {
                let read = driver.read_bytes(key, extent.offset, extent.length).await;
                answer.with(read.map(|_| None));
            });
        }
        Work::Write { extent, payload, missed } => {
            driver.act(|store, _, _| store.hold(key, extent, missed));
            return driver.spawn(async move |driver| {
                let mut done = driver.write_bytes(key, extent.offset, payload.as_ref(), missed).await;
                // A column that is being filled may have done it. That the others have not is known by nothing else after a restart.
                if let Err(JobError::Damaged { offset, length }) = done
                    && missed
                {
                    let rest: Extents = extent.around(Extent { offset, length }).collect();
                    done = driver.mark_missed(key, &rest).await.and(done);
                }
                answer.with(done.map(|()| None));
            });
        }
        Work::Sync => Box::new(|ticket, store, _, out| store.sync(ticket, out)),
        Work::SetRecord(record) => {
            Box::new(move |ticket, store, now, out| store.set_record(ticket, key, record, now, out))
        }
        Work::MarkMissed(extents) => {
            Box::new(move |ticket, store, now, out| store.mark_missed(ticket, key, &extents, now, out))
        }
    };
    let asked = driver.begin(Transfer::None, None, ask);
    driver.spawn(async move |_| {
        let (result, error) = asked.await.unwrap_or((Err(StoreError::Failed), None));
        answer.with(result.map(|_| None).map_err(|failed| job_error(failed, error)));
    });
}

impl Driver {
    /// Notes that other columns have missed ranges, durably.
    async fn mark_missed(&self, key: ColumnKey, extents: &Extents) -> Result<(), JobError> {
        let noted = self.request(Transfer::None, None, |ticket, store, now, out| {
            store.mark_missed(ticket, key, extents, now, out);
        });
        let (result, error) = noted.await;
        result.map(drop).map_err(|failed| job_error(failed, error))
    }
}

impl Managed {
    /// Its columns of placement groups, in the order of its table.
    pub fn columns(&self) -> Vec<ManagedColumn> {
        self.lists().columns.clone()
    }

    /// Makes a column, all zero and in sync in no epoch, and ends when it is durable. Others are served meanwhile.
    ///
    /// # Errors
    /// The size is no multiple of 4096 or 0, another volume of the disk has the name, the disk has this column already, there is no
    /// room, or the disk has failed or is closed.
    pub async fn create_column(&self, column: &ManagedColumn) -> Result<(), ManagedError> {
        let (bytes, unit) = (column.bytes, UNIT as u64);
        if bytes == 0 || !bytes.is_multiple_of(unit) {
            return Err(ManagedError::Size { bytes });
        }
        if self.is_name_taken(&column.name, Some(column.volume)) {
            return Err(ManagedError::Exists { volume: column.name.to_string() });
        }
        let pieces = bytes.div_ceil(self.superblock().sizes.piece());
        let pieces = u32::try_from(pieces).map_err(|_| ManagedError::Size { bytes })?;
        let entry = column.entry();
        self.ask(async move |driver| {
            let create = |ticket, store: &mut store::Store, now, out: &mut Vec<_>| {
                store.create_column(ticket, entry, pieces, now, out);
            };
            driver.change(create).await
        })
        .await
    }

    /// Gives a column so many bytes, and ends when that is durable: what is new is zero. If it is cut off before, the column is as it was. One
    /// that has as many, or more, stays as it is. It is served meanwhile.
    ///
    /// # Errors
    /// The size is no multiple of 4096, there is no such column or no room, it grows already, or the disk has failed or is closed.
    pub async fn grow_column(&self, key: ColumnKey, bytes: u64) -> Result<(), ManagedError> {
        if !bytes.is_multiple_of(UNIT as u64) {
            return Err(ManagedError::Size { bytes });
        }
        let column = self.columns().into_iter().find(|column| column.key() == key);
        if column.ok_or(StoreError::NoColumn)?.bytes >= bytes {
            return Ok(());
        }
        self.ask(async move |driver| {
            driver.change(|ticket, store, now, out| store.grow_column(ticket, key, bytes, now, out)).await
        })
        .await
    }

    /// Removes a column that is not in use; its pieces are free when this ends. Handles of it are of no use then.
    ///
    /// # Errors
    /// There is no such column, requests for it are open, or the disk has failed or is closed.
    pub async fn remove_column(&self, key: ColumnKey) -> Result<(), ManagedError> {
        if !self.columns().iter().any(|column| column.key() == key) {
            return Err(StoreError::NoColumn.into());
        }
        self.ask(async move |driver| {
            driver.change(|ticket, store, now, out| store.remove_column(ticket, key, now, out)).await
        })
        .await
    }

    /// A column, for a group that begins on it. A group that had it before is over: nothing more comes of it, and what it
    /// has not released is dirty in [`Column::found`]. `is_copy`: another column of the group has what this one has.
    ///
    /// # Errors
    /// There is no such column, or the disk is closed.
    pub async fn column(self: &Arc<Self>, key: ColumnKey, is_copy: bool) -> Result<Column, ManagedError> {
        let column = self.columns().into_iter().find(|column| column.key() == key);
        let bytes = Arc::new(AtomicU64::new(column.ok_or(StoreError::NoColumn)?.bytes));
        let found = self
            .ask(async move |driver| {
                let begun = driver.act(|store, _, _| store.begin(key, is_copy));
                driver.doubt.notify_one();
                begun.ok_or(StoreError::NoColumn.into())
            })
            .await?;
        let cut = Arc::default();
        Ok(Column { managed: Arc::clone(self), key, bytes, cut, found: Arc::new(found) })
    }

    /// Has the thread do something, and waits for its answer.
    async fn ask<T, F>(&self, ask: F) -> Result<T, ManagedError>
    where
        T: Send + 'static,
        F: AsyncFnOnce(Rc<Driver>) -> Result<T, ManagedError> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        self.send(Box::new(move |driver| {
            driver.spawn(async move |driver| {
                // Who asked may have gone.
                let _ = done.send(ask(driver).await);
            });
        }))?;
        answer.await.map_err(|_| ManagedError::Closed)?
    }
}
