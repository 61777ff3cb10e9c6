//! What is read of a managed disk before it is used, and what is refused.

use std::time::{SystemTime, UNIX_EPOCH};

use cards_array::store::{Effect, Opener, Store, Tuning, tables_length};
use cards_layout::domain::Name;
use cards_layout::format::{Chosen, SUPERBLOCKS, Slot, Superblock, SuperblockError, UNIT, Uuid, newest};

use super::buffer::Buffer;
use super::{Lists, ManagedColumn, ManagedError, ManagedOptions, ManagedVolume};
use crate::engine::{Engine, EngineKind};
use crate::error::JobError;
use crate::job::{Job, Op};

/// What the opener hears of a disk that can be used.
pub(super) struct Found {
    pub(super) superblock: Superblock,
    pub(super) kind: EngineKind,
    /// The superblock that is damaged, and how.
    pub(super) damaged: Option<(Slot, SuperblockError)>,
}

/// Reads superblock and tables; the store, and what it wants first.
pub(super) async fn open(
    engine: &Engine,
    size: u64,
    options: &ManagedOptions,
) -> Result<(Store, Vec<Effect>, Found), ManagedError> {
    let head = read(engine, 0, size.min(SUPERBLOCKS[1] + UNIT as u64)).await?;
    let (superblock, damaged) = superblock(&head)?;
    let sizes = superblock.sizes;
    if size < sizes.device {
        return Err(ManagedError::Short { now: size, before: sizes.device });
    }
    if let Some(wanted) = options.name.as_ref().filter(|wanted| *wanted != superblock.name.as_str()) {
        return Err(ManagedError::Name { found: superblock.name.to_string(), wanted: wanted.clone() });
    }
    let cluster = options.cluster.as_deref().map(|text| name("cluster", text)).transpose()?;
    if let (Some(theirs), Some(ours)) = (&superblock.cluster_name, &cluster)
        && theirs != ours
    {
        return Err(ManagedError::Cluster { theirs: theirs.to_string(), ours: ours.to_string() });
    }
    if superblock.journal_disk.is_some() {
        return Err(ManagedError::Journal);
    }
    let tables = read(engine, 0, tables_length(&sizes)).await?;
    let opener = Opener {
        boot: boot(options).unwrap_or_default(),
        now_us: now_us(),
        node: options.node.as_deref().map(|text| name("node", text)).transpose()?,
        cluster,
        tuning: Tuning::default(),
    };
    let mut out = Vec::new();
    let store = Store::open(superblock.clone(), &tables, opener, &mut out)?;
    lists(&store)?;
    Ok((store, out, Found { superblock, kind: engine.kind().clone(), damaged }))
}

/// The latest superblock, and the one that is damaged.
fn superblock(head: &[u8]) -> Result<(Superblock, Option<(Slot, SuperblockError)>), ManagedError> {
    let decode = |slot: Slot| {
        let mut page = [0; UNIT];
        let there = head.get(SUPERBLOCKS[slot as usize] as usize..).unwrap_or_default();
        let length = there.len().min(UNIT);
        page[..length].copy_from_slice(&there[..length]);
        Superblock::decode(&page, slot)
    };
    match newest(decode(Slot::A), decode(Slot::B)) {
        Ok(Chosen { mut value, damage, slot }) => match damage {
            // A newer program was at work: what it has left in the other slot is not the latest.
            Some(error @ SuperblockError::Version(_)) => Err(ManagedError::Version(error)),
            // The one that is damaged may be the latest: whether the disk was closed is not known.
            Some(error) => {
                value.closed = false;
                value.boot = Uuid::default();
                Ok((value, Some((slot.other(), error))))
            }
            None => Ok((value, None)),
        },
        Err([error @ SuperblockError::Version(_), _] | [_, error @ SuperblockError::Version(_)]) => {
            Err(ManagedError::Version(error))
        }
        Err([a, b]) => Err(ManagedError::NoSuperblock { a, b }),
    }
}

/// What is on a disk: volumes that are one column, and columns that are one of several copies.
pub(super) fn lists(store: &Store) -> Result<Lists, ManagedError> {
    let mut lists = Lists::default();
    for column in store.columns() {
        let volume = column.name.to_string();
        if !column.mirrored && (column.group, column.column) != (0, 0) {
            return Err(ManagedError::Layout { volume, group: column.group, column: column.column });
        }
        // One that is on its way in has no pieces yet.
        let Some(space) = store.length(column.into()) else { continue };
        if column.bytes > space || !column.bytes.is_multiple_of(UNIT as u64) {
            return Err(ManagedError::Space { volume, bytes: column.bytes, space });
        }
        if column.mirrored {
            lists.columns.push(ManagedColumn::of(column));
        } else {
            let (name, uuid, bytes) = (column.name.clone(), column.volume, column.bytes);
            lists.volumes.push(ManagedVolume { name, uuid, bytes });
        }
    }
    Ok(lists)
}

fn name(what: &'static str, text: &str) -> Result<Name, ManagedError> {
    text.parse().map_err(|_| ManagedError::Text { what, text: text.into() })
}

/// The boot of this machine, if it is known.
fn boot(options: &ManagedOptions) -> Option<Uuid> {
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let text = options.boot.clone().or_else(read)?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(|number| Uuid(number.to_be_bytes()))
}

/// The time, for people who compare disks.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Reads bytes while nothing else is asked of the engine.
async fn read(engine: &Engine, offset: u64, length: u64) -> Result<Vec<u8>, ManagedError> {
    let length =
        usize::try_from(length).map_err(|_| ManagedError::Read(JobError::Os { errno: libc::ENOMEM }))?;
    let buffer = Buffer::new(length);
    engine.submit(Job { tag: 0, op: Op::Read { offset, buf: buffer.lend(0, length) } });
    let mut done = Vec::new();
    while done.is_empty() {
        engine.completions(&mut done).await;
    }
    done.into_iter().try_for_each(|completion| completion.result.map(drop)).map_err(ManagedError::Read)?;
    // SAFETY: the one job that had the memory is complete.
    Ok(unsafe { buffer.bytes() }[..length].to_vec())
}
