//! What a disk node must not forget of a disk: one small file for each disk that can be written, in `state_dir`.
//!
//! The file is `DISK@NODE@CLUSTER.journal`: a line of JSON and a line with its checksum, and behind these one line for each change
//! of the disk's cards since then: its checksum and its JSON. An entry is durable before what it permits happens (`crate::keeper`). The
//! end of the last line may be missing, since nothing was permitted then; when anything else is wrong, the file counts as
//! damaged. A file that is missing, damaged or of another disk says nothing: the disk then has a new persistence life, since
//! nobody knows what was lost.
//!
//! Beside it is the [seal](crate::marks) of the disk, while nothing is written.

mod changes;
mod file;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cards_core::{
    Access, CardJournal, CardNote, DiskJournal, Generation, Loss, Marks, NodeId, Persistence, PgId,
};
use serde::{Deserialize, Serialize};

use crate::life::boot_id;
use crate::marks::{self, Medium, Seal};
use crate::starting::Starting;
use crate::state_dir::{is_full, remedy, replace};

pub(crate) use changes::{Changes, Task};
use file::FileIdentity;

/// The layout of [`Entry`]. A file of a version that is not known counts as damaged.
const VERSION: u32 = 2;
/// The one before: it said itself whether the disk was synced and closed, and could only be replaced as a whole.
const VERSION_BEFORE: u32 = 1;
/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// When so many bytes have been appended, and as many as were there before, the file is written anew.
const APPENDED_BYTES_MAX: usize = 64 << 10;
/// How long until a journal that could not be written is written again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// That a start waits for room is said again after so many attempts.
const SAY_EVERY: u32 = 60;
/// What is said of a journal that is not there.
const MISSING: &str = "missing";
/// The journal of one disk; see the module's head.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    entry: Entry,
    /// What the entry and the lines behind it say of cards, and the names of the nodes in it: numbers may be given anew.
    cards: CardJournal,
    names: BTreeMap<u16, String>,
    /// Bytes of the entry, and of the lines behind it. None: the end of the file is not known, so it is written anew.
    lengths: Option<(usize, usize)>,
    /// The disk when it was opened.
    medium: Option<Medium>,
    /// What the last daemon has left, until it is taken.
    left: Option<Seal>,
    /// There may be a seal.
    is_sealed: bool,
}

/// What the first line of the file has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    version: u32,
    /// Path or URI of the disk.
    disk: String,
    /// Its size when it was opened last, in bytes; zero in a file of an earlier release.
    #[serde(default)]
    bytes: u64,
    /// The file it was when it was opened last; none of what is no file, and in a file of an earlier release.
    #[serde(default)]
    file: Option<FileIdentity>,
    /// The boot of the machine in which the disk was opened last.
    boot: String,
    /// The persistence life: another number as soon as applied writes may have been lost. Only grows.
    persistence: u64,
    /// Why `persistence` was raised last.
    why: Why,
    /// The disk may have lost contents that cards of an earlier life still use: it is not read until they are gone.
    held: bool,
    /// The cards of the disk's volume, see [`CardJournal`].
    #[serde(default)]
    cards: Cards,
    /// Of [`VERSION_BEFORE`]: the disk was synced and closed. Now a seal says so.
    #[serde(default, skip_serializing)]
    clean: bool,
    /// Of [`VERSION_BEFORE`].
    #[serde(default, skip_serializing)]
    marks: serde::de::IgnoredAny,
}

/// A [`CardJournal`] in numbers, and the names of the nodes in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cards {
    since: u64,
    dropped: BTreeMap<u16, u64>,
    writers: BTreeMap<u16, u64>,
    exclusive: Option<(u16, u64)>,
    /// In a file of an earlier release it is not said.
    #[serde(default)]
    writer: Option<(u16, u64)>,
    names: BTreeMap<u16, String>,
}

/// A line behind the first entry: a [`CardNote`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    since: u64,
    note: Note,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Note {
    Dropped { node: u16, name: String, card: u64 },
    Attached { node: u16, name: String, card: u64, access: May },
    Released,
    Parted { node: u16, name: String },
}

/// An [`Access`].
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum May {
    Read,
    Write,
    Exclusive,
}

/// Why unflushed writes may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Why {
    /// The machine was started anew while the disk was not sealed, or the journal is lost.
    PowerLost,
    /// The disk failed to sync, in the present boot of the machine.
    SyncFailed,
}

impl From<Why> for Loss {
    fn from(why: Why) -> Self {
        match why {
            Why::PowerLost => Self::Power,
            Why::SyncFailed => Self::Sync,
        }
    }
}

/// The disk a journal belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) node: &'a str,
    /// Its name in the configuration.
    pub(crate) name: &'a str,
    /// Its path or URI.
    pub(crate) disk: &'a str,
    /// Its size.
    pub(crate) bytes: u64,
}

/// Where the journal of a disk is, by its name. No name has an `@`.
pub(crate) fn journal_path(state_dir: &Path, cluster: &str, node: &str, disk: &str) -> PathBuf {
    state_dir.join(format!("{disk}@{node}@{cluster}.journal"))
}

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The directory cannot be made, or the file not be read or replaced.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The disk is smaller than it was: what was at its end is gone.
    #[error("the disk was larger: {before} bytes")]
    Shrank { before: u64, journal: PathBuf },
    /// Another file is in the place of the disk, and it cannot have the contents of that one.
    #[error("the disk is another file, which {how}")]
    Replaced { how: Other, journal: PathBuf },
}

/// What tells that another file has not the contents of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// Nothing was ever written to it.
    Blank,
    /// It is larger than the disk was.
    Larger {
        /// Bytes of the file.
        now: u64,
        /// Those of the disk.
        before: u64,
    },
}

impl std::fmt::Display for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blank => f.write_str("was never written"),
            Self::Larger { now, before } => write!(f, "has {now} bytes where the disk had {before}"),
        }
    }
}

impl Journal {
    /// Reads the journal of a disk that this process has locked, and notes durably in which boot it is used. `is_first`:
    /// this `state_dir` knows of no earlier life of the node.
    ///
    /// While `state_dir` is full it waits: nothing can be served without a journal, and a machine that starts anew after its
    /// disk has filled is to come back by itself.
    ///
    /// # Errors
    /// The directory cannot be made, or the file not be read or replaced; or the disk has shrunk.
    pub(crate) fn open(
        state_dir: &Path,
        of: Of<'_>,
        is_first: bool,
        starting: &Starting,
    ) -> Result<Self, OpenError> {
        let boot = boot_id()?;
        let mut said = 0;
        loop {
            match Self::open_in(state_dir, of, boot.clone(), is_first) {
                Err(OpenError::Io(error)) if is_full(&error) => {
                    starting.waits_for(
                        format!(
                            "room in state_dir, {}, for the journal of disk {}",
                            state_dir.display(),
                            of.name
                        ),
                        Some(format!("{error}; {}", remedy(&error))),
                    );
                    if said % SAY_EVERY == 0 {
                        tracing::error!(
                            disk = of.name,
                            "state_dir: {}: {error}: the journal of the disk needs at most {} KiB; {}, until then nothing is \
                             served",
                            state_dir.display(),
                            FILE_BYTES_MAX >> 10,
                            remedy(&error)
                        );
                    }
                    said += 1;
                    std::thread::sleep(RETRY);
                }
                opened => {
                    starting.goes_on();
                    return opened;
                }
            }
        }
    }

    /// Whether the disk can be the one that was served last. Nothing is changed.
    ///
    /// # Errors
    /// It cannot be, or the file cannot be read.
    pub(crate) fn check(state_dir: &Path, of: Of<'_>) -> Result<(), OpenError> {
        let path = journal_path(state_dir, of.cluster, of.node, of.name);
        read(&path, of.disk)?.map_or(Ok(()), |(entry, ..)| entry.admits(of, path))
    }

    fn open_in(state_dir: &Path, of: Of<'_>, boot: String, is_first: bool) -> Result<Self, OpenError> {
        std::fs::create_dir_all(state_dir)?;
        let path = journal_path(state_dir, of.cluster, of.node, of.name);
        let (mut entry, cards, names) = match read(&path, of.disk)? {
            Ok(known) => known,
            Err(reason) => {
                if is_first && reason == MISSING {
                    tracing::info!(disk = of.name, "first start: a new journal is made, {}", path.display());
                } else {
                    tracing::warn!(
                        disk = of.name,
                        "{}: the journal of the disk is {reason}: unless the disk is new at this node, that counts as a \
                         loss of power; nodes with unflushed writes are told EIO once",
                        path.display()
                    );
                }
                let entry = Entry {
                    version: VERSION,
                    disk: of.disk.into(),
                    bytes: of.bytes,
                    file: None,
                    boot: boot.clone(),
                    persistence: fresh(),
                    why: Why::PowerLost,
                    held: true,
                    cards: Cards::default(),
                    clean: false,
                    marks: serde::de::IgnoredAny,
                };
                (entry, CardJournal::default(), BTreeMap::new())
            }
        };
        entry.admits(of, path.clone())?;
        entry.bytes = of.bytes;
        entry.file = FileIdentity::of(Path::new(of.disk));
        let left = Seal::load(&marks_of(&path)).filter(|seal| seal.persistence == entry.persistence);
        let is_clean = left.is_some() || entry.clean;
        if entry.boot != boot && !is_clean {
            tracing::warn!(
                disk = of.name,
                "the machine was started anew while the disk was in use: unflushed writes may be lost; the next flush of \
                 each card that has some fails"
            );
            entry.persistence += 1;
            (entry.why, entry.held) = (Why::PowerLost, true);
        }
        entry.version = VERSION;
        let medium = Medium::of(of.disk, &boot).unwrap_or_else(|error| {
            tracing::warn!(disk = of.name, %error, "sync failed: what was written before and not flushed may be lost");
            // The kernel tells of it once: whoever syncs after this one hears nothing.
            entry.persistence += 1;
            entry.why = Why::SyncFailed;
            None
        });
        entry.boot = boot;
        // A file that says nothing goes, too.
        let is_sealed = marks_of(&path).exists();
        let mut journal = Self { path, entry, cards, names, lengths: None, medium, left, is_sealed };
        journal.store()?;
        Ok(journal)
    }

    /// What the core is told of it.
    pub(crate) fn of(&self, volume: PgId) -> DiskJournal {
        let Entry { persistence, why, held, .. } = self.entry;
        DiskJournal { volume, persistence: Persistence(persistence), loss: why.into(), held }
    }

    /// No card of an earlier life is left: the disk may be read.
    ///
    /// # Errors
    /// The file cannot be replaced. After a restart the disk is then held again.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.entry.held, false) {
            return Ok(());
        }
        self.store()
    }

    /// A sync has failed: a new life begins, of which no seal is.
    ///
    /// # Errors
    /// The file cannot be replaced. It is removed then: a missing journal is a new life, too.
    pub(crate) fn sync_failed(&mut self) -> io::Result<()> {
        self.entry.persistence += 1;
        self.entry.why = Why::SyncFailed;
        self.store().inspect_err(|_| drop(marks::remove(&self.path)))
    }

    /// What is known of the disk's cards: nothing, if a number stands for another node now. `name` gives the present
    /// names.
    pub(crate) fn cards(&self, name: impl Fn(NodeId) -> Option<String>) -> CardJournal {
        match self.names.iter().any(|(&number, then)| name(NodeId(number)).as_ref() != Some(then)) {
            true => CardJournal::default(),
            false => self.cards.clone(),
        }
    }

    /// Appends changes of what is known of the disk's cards, each with the life in which that was begun.
    ///
    /// # Errors
    /// They are not durable: to be called again with the same ones, and more.
    pub(crate) fn keep(
        &mut self,
        notes: &[(u64, CardNote)],
        name: impl Fn(NodeId) -> String,
    ) -> io::Result<()> {
        let mut text = String::new();
        for &(since, note) in notes {
            let line = Line { since, note: Note::of(note, &name) };
            let json = serde_json::to_string(&line)?;
            text += &format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
            line.apply(&mut self.cards, &mut self.names);
        }
        // What an append that fails has left is not known.
        let Some((whole, appended)) = self.lengths.take() else { return self.store() };
        let appended = appended + text.len();
        if appended > APPENDED_BYTES_MAX.max(whole) {
            return self.store();
        }
        let mut file = File::options().append(true).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.lengths = Some((whole, appended));
        Ok(())
    }

    /// What the last daemon has left of each shard, once: none unless the disk was sealed when it ended, with the same blocks and
    /// shards, and nobody has written the disk since. The disk is still sealed then.
    pub(crate) fn take_marks(&mut self, block: u32, shards: u16) -> Option<Vec<Marks>> {
        let marks = self.left.take().and_then(|seal| seal.marks(self.medium.as_ref(), block, shards));
        if marks.is_none()
            && let Err(error) = self.unseal()
        {
            // It is removed before the first write.
            tracing::warn!(%error, "{}: cannot be removed", marks_of(&self.path).display());
        }
        marks
    }

    /// Nothing is written before [`Self::unseal`].
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// A sync that succeeds says that nothing is lost.
    pub(crate) fn may_be_synced(&self) -> bool {
        self.entry.why != Why::SyncFailed
    }

    /// It can be told who has written the disk.
    pub(crate) fn is_told(&self) -> bool {
        self.medium.is_some()
    }

    /// Looks at the disk, which may take long, without the journal: none if it is not the one that was opened.
    pub(crate) fn look(&self) -> impl FnOnce() -> io::Result<Option<Medium>> + Send + use<> {
        let (disk, boot, opened) = (self.entry.disk.clone(), self.entry.boot.clone(), self.medium.clone());
        move || {
            let Some(opened) = opened else { return Ok(None) };
            Ok(Medium::of(&disk, &boot)?.filter(|medium| medium.is_at(&opened)))
        }
    }

    /// The disk was synced and looks like that, and nothing is written any more before [`Self::unseal`]. `marks` are those of each
    /// shard, for blocks of so many bytes.
    ///
    /// # Errors
    /// The file cannot be replaced. The disk may be sealed all the same.
    pub(crate) fn seal(&mut self, medium: Option<&Medium>, block: u32, marks: &[Marks]) -> io::Result<()> {
        self.is_sealed = true;
        marks::save(&marks_of(&self.path), self.entry.persistence, medium, block, marks)
    }

    /// The disk will be written.
    ///
    /// # Errors
    /// It may still be sealed, and must not be written.
    pub(crate) fn unseal(&mut self) -> io::Result<()> {
        if self.is_sealed {
            marks::remove(&marks_of(&self.path))?;
            self.is_sealed = false;
        }
        Ok(())
    }

    fn store(&mut self) -> io::Result<()> {
        let CardJournal { since, dropped, writers, exclusive, writer } = &self.cards;
        self.entry.cards = Cards {
            since: *since,
            dropped: dropped.iter().map(|(node, card)| (node.0, card.0)).collect(),
            writers: writers.iter().map(|(node, &life)| (node.0, life)).collect(),
            exclusive: exclusive.map(|(node, card)| (node.0, card.0)),
            writer: writer.map(|(node, card)| (node.0, card.0)),
            names: self.names.clone(),
        };
        let line = serde_json::to_string(&self.entry)?;
        let text = format!("{line}\n{:08x}\n", crc32fast::hash(line.as_bytes()));
        self.lengths = None;
        replace(&self.path, text.as_bytes())?;
        self.lengths = Some((text.len(), 0));
        Ok(())
    }
}

impl Entry {
    /// Refuses a disk that cannot be the one that the entry is of. `journal`: where the entry is.
    fn admits(&self, of: Of<'_>, journal: PathBuf) -> Result<(), OpenError> {
        let (before, now) = (self.bytes, of.bytes);
        if now < before {
            return Err(OpenError::Shrank { before, journal });
        }
        let disk = Path::new(of.disk);
        let is_other =
            matches!((self.file, FileIdentity::of(disk)), (Some(known), Some(found)) if known != found);
        let how = match () {
            // A backup that was put in its place has its contents, and its size.
            () if !is_other => return Ok(()),
            () if file::is_blank(disk) => Other::Blank,
            () if now > before => Other::Larger { now, before },
            () => return Ok(()),
        };
        Err(OpenError::Replaced { how, journal })
    }
}

impl Note {
    fn of(note: CardNote, name: impl Fn(NodeId) -> String) -> Self {
        match note {
            CardNote::Dropped(node, card) => Self::Dropped { node: node.0, name: name(node), card: card.0 },
            CardNote::Attached(node, card, access) => {
                let access = match access {
                    Access::Read => May::Read,
                    Access::Write => May::Write,
                    Access::Exclusive => May::Exclusive,
                };
                Self::Attached { node: node.0, name: name(node), card: card.0, access }
            }
            CardNote::Released => Self::Released,
            CardNote::Parted(node) => Self::Parted { node: node.0, name: name(node) },
        }
    }
}

impl Line {
    fn apply(self, cards: &mut CardJournal, names: &mut BTreeMap<u16, String>) {
        if cards.since != self.since {
            names.clear();
        }
        let (named, note) = match self.note {
            Note::Dropped { node, name, card } => {
                (Some((node, name)), CardNote::Dropped(NodeId(node), Generation(card)))
            }
            Note::Attached { node, name, card, access } => {
                let access = match access {
                    May::Read => Access::Read,
                    May::Write => Access::Write,
                    May::Exclusive => Access::Exclusive,
                };
                (Some((node, name)), CardNote::Attached(NodeId(node), Generation(card), access))
            }
            Note::Released => (None, CardNote::Released),
            Note::Parted { node, name } => (Some((node, name)), CardNote::Parted(NodeId(node))),
        };
        cards.apply(self.since, note);
        names.extend(named);
    }
}

/// Where the seal of a journal's disk is.
fn marks_of(journal: &Path) -> PathBuf {
    journal.with_extension("marks")
}

/// What a whole file says.
type Known = (Entry, CardJournal, BTreeMap<u16, String>);

/// What the file says of the disk, or why it says nothing.
fn read(path: &Path, disk: &str) -> io::Result<Result<Known, &'static str>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(MISSING)),
        Err(error) => return Err(error),
    };
    let is_known =
        |entry: &Entry| matches!(entry.version, VERSION | VERSION_BEFORE) && entry.persistence < u64::MAX / 2;
    Ok(match parse(&bytes).filter(|(entry, ..)| is_known(entry)) {
        None => Err("damaged, or of another version"),
        Some((entry, ..)) if entry.disk != disk => Err("of another disk"),
        Some(known) => Ok(known),
    })
}

/// None unless it is whole, but for the end of the last line.
fn parse(bytes: &[u8]) -> Option<Known> {
    let first = bytes.iter().position(|&byte| byte == b'\n')?;
    let (line, rest) = (&bytes[..first], &bytes[first + 1..]);
    let (sum, rest) = rest.split_at_checked(9)?;
    if sum.last() != Some(&b'\n') || !has_sum(line, &sum[..8]) {
        return None;
    }
    let entry: Entry = serde_json::from_slice(line).ok()?;
    let Cards { since, dropped, writers, exclusive, writer, mut names } = entry.cards.clone();
    let mut cards = CardJournal {
        since,
        dropped: dropped.into_iter().map(|(node, card)| (NodeId(node), Generation(card))).collect(),
        writers: writers.into_iter().map(|(node, life)| (NodeId(node), life)).collect(),
        exclusive: exclusive.map(|(node, card)| (NodeId(node), Generation(card))),
        // Who has the volume for itself could write last.
        writer: writer.or(exclusive).map(|(node, card)| (NodeId(node), Generation(card))),
    };
    // Some file systems leave zeroes where an append was under way.
    let written = rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    for line in rest[..written].split_inclusive(|&byte| byte == b'\n') {
        let told = line.split_last().and_then(|(_, line)| parse_line(line));
        match (line.last() == Some(&b'\n'), told) {
            (true, Some(line)) => line.apply(&mut cards, &mut names),
            // An append that was under way. A whole line with another end is none.
            (false, None) => break,
            _ => return None,
        }
    }
    Some((entry, cards, names))
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let (sum, json) = line.split_at_checked(9)?;
    if sum.last() != Some(&b' ') || !has_sum(json, &sum[..8]) {
        return None;
    }
    serde_json::from_slice(json).ok()
}

fn has_sum(line: &[u8], sum: &[u8]) -> bool {
    sum == format!("{:08x}", crc32fast::hash(line)).as_bytes()
}

/// A persistence life of a disk whose earlier ones are not known: the time, so that it is none of them.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(1).clamp(1, u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Of<'_> = Of { cluster: "lab", node: "n1", name: "disk", disk: "/disk.img", bytes: 1 << 20 };

    fn open(dir: &Path, boot: &str) -> Journal {
        Journal::open_in(dir, OF, boot.into(), true).unwrap()
    }

    pub(crate) fn seal(journal: &mut Journal, marks: &[Marks]) -> io::Result<()> {
        let medium = journal.look()().unwrap();
        journal.seal(medium.as_ref(), 4096, marks)
    }

    fn life(journal: &Journal) -> u64 {
        journal.entry.persistence
    }

    #[test]
    fn a_disk_that_has_shrunk_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), "a"));
        let shorter = Of { bytes: OF.bytes - 1, ..OF };
        let refused = Journal::open_in(dir.path(), shorter, "a".into(), false).unwrap_err();
        assert!(matches!(refused, OpenError::Shrank { before, .. } if before == OF.bytes), "{refused}");
        // One that has grown is, and is to stay so.
        let longer = Of { bytes: OF.bytes + 1, ..OF };
        drop(Journal::open_in(dir.path(), longer, "a".into(), false).unwrap());
        Journal::open_in(dir.path(), OF, "a".into(), false).unwrap_err();
    }

    #[test]
    fn another_file_that_is_blank_or_larger_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        let of = |bytes| Of { disk: disk.to_str().unwrap(), bytes, ..OF };
        let open = |bytes| Journal::open_in(dir.path(), of(bytes), "a".into(), false);
        let make = |data: usize, bytes: u64| {
            let new = dir.path().join("new.img");
            std::fs::write(&new, vec![1; data]).unwrap();
            File::options().write(true).open(&new).unwrap().set_len(bytes).unwrap();
            std::fs::rename(&new, &disk).unwrap();
        };
        let refused = |bytes| match open(bytes).map(drop).unwrap_err() {
            OpenError::Replaced { how, .. } => how,
            other => panic!("{other}"),
        };
        make(4096, OF.bytes);
        drop(open(OF.bytes).unwrap());
        // Clients may discard all of it.
        File::options().write(true).open(&disk).unwrap().set_len(0).unwrap();
        File::options().write(true).open(&disk).unwrap().set_len(OF.bytes).unwrap();
        drop(open(OF.bytes).unwrap());
        make(0, OF.bytes);
        assert_eq!(refused(OF.bytes), Other::Blank);
        make(4096, 2 * OF.bytes);
        assert_eq!(refused(2 * OF.bytes), Other::Larger { now: 2 * OF.bytes, before: OF.bytes });
        // What looks only finds the same, and changes nothing.
        Journal::check(dir.path(), of(2 * OF.bytes)).unwrap_err();
        make(4096, OF.bytes);
        Journal::check(dir.path(), of(OF.bytes)).unwrap();
        drop(open(OF.bytes).expect("a backup in its place"));
        make(0, OF.bytes);
        std::fs::remove_file(journal_path(dir.path(), OF.cluster, OF.node, OF.name)).unwrap();
        drop(open(OF.bytes).expect("as the message says"));
    }

    #[test]
    fn a_killed_process_loses_nothing_and_a_machine_without_power_does() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = open(dir.path(), "a");
        assert!(first.entry.held, "nothing is known of cards that came before");
        first.release().unwrap();
        let killed = open(dir.path(), "a");
        assert_eq!((life(&killed), killed.entry.held), (life(&first), false));
        let rebooted = open(dir.path(), "b");
        assert_eq!((life(&rebooted), rebooted.entry.why), (life(&first) + 1, Why::PowerLost));
        let again = open(dir.path(), "b");
        assert_eq!((life(&again), again.entry.held), (life(&rebooted), true), "still held, killed once more");
    }

    #[test]
    fn of_a_sealed_disk_another_boot_is_no_loss() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = open(dir.path(), "a");
        seal(&mut first, &[]).unwrap();
        let mut second = open(dir.path(), "b");
        assert_eq!((life(&second), second.is_sealed()), (life(&first), true));
        let third = open(dir.path(), "c");
        assert_eq!(life(&third), life(&first), "it was not written");
        second.unseal().unwrap();
        assert_eq!(life(&open(dir.path(), "d")), life(&first) + 1, "in use again");
    }

    #[test]
    fn marks_are_read_until_the_disk_is_unsealed_or_somebody_else_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        std::fs::write(&disk, [0; 4096]).unwrap();
        let of = Of { disk: disk.to_str().unwrap(), ..OF };
        let open = |boot: &str| Journal::open_in(dir.path(), of, boot.into(), true).unwrap();
        let marks = [Marks::default()];
        let mut first = open("a");
        assert_eq!((first.take_marks(4096, 1), first.is_sealed()), (None, false));
        seal(&mut first, &marks).unwrap();
        for boot in ["a", "a", "b"] {
            let mut killed = open(boot);
            assert_eq!((killed.take_marks(4096, 1), killed.is_sealed()), (Some(marks.to_vec()), true));
        }
        let mut other = open("b");
        assert_eq!((other.take_marks(4096, 2), other.is_sealed()), (None, false), "of other shards");
        seal(&mut other, &marks).unwrap();
        std::fs::write(&disk, [1; 4096]).unwrap();
        let mut written = open("b");
        assert_eq!((written.take_marks(4096, 1), written.is_sealed()), (None, false));
        assert_eq!(open("c").entry.persistence, life(&first) + 1, "what others have written is not synced");
    }

    #[test]
    fn what_cannot_be_sealed_is_unsealed_before_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        let marks = marks_of(&journal.path);
        std::fs::create_dir(&marks).unwrap();
        assert!(seal(&mut journal, &[]).is_err() && journal.is_sealed());
        assert!(journal.unseal().is_err() && journal.is_sealed());
        std::fs::remove_dir(&marks).unwrap();
        journal.unseal().unwrap();
        assert!(!journal.is_sealed());
    }

    #[test]
    fn a_failed_sync_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        let before = life(&journal);
        journal.release().unwrap();
        seal(&mut journal, &[]).unwrap();
        journal.sync_failed().unwrap();
        let mut after = open(dir.path(), "a");
        assert_eq!((life(&after), after.entry.why), (before + 1, Why::SyncFailed));
        assert!(!after.entry.held, "the page cache still has what was written");
        assert_eq!(after.take_marks(4096, 0), None, "a seal is of one life");
        assert!(!after.is_sealed() && !after.may_be_synced());
        let rebooted = open(dir.path(), "b");
        assert_eq!((life(&rebooted), rebooted.may_be_synced()), (before + 2, true));
    }

    #[test]
    fn a_journal_that_is_lost_damaged_or_of_another_disk_is_a_new_life() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        // As if it had been made long ago.
        journal.entry.persistence = 1000;
        journal.store().unwrap();
        let path = dir.path().join("disk@n1@lab.journal");
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(life(&open(dir.path(), "a")), 1000);
        let lives_anew = |what: &str| {
            let journal = open(dir.path(), "a");
            assert!(life(&journal) > 1000 && journal.entry.held, "{what}");
        };
        for at in 0..whole.len() {
            std::fs::write(&path, &whole[..at]).unwrap();
            lives_anew("cut short");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            lives_anew("damaged");
        }
        std::fs::remove_file(&path).unwrap();
        lives_anew("lost");
        std::fs::write(&path, &whole).unwrap();
        let other = Journal::open_in(dir.path(), Of { disk: "/other.img", ..OF }, "a".into(), true).unwrap();
        assert!(life(&other) > 1000);
    }

    fn name(node: NodeId) -> String {
        format!("n{}", node.0)
    }

    /// Notes of five nodes.
    fn notes() -> Vec<(u64, CardNote)> {
        let card = |node: u16| (NodeId(node), Generation(5 << 20 | u64::from(node)));
        let (one, two, three) = (card(1), card(2), card(3));
        let notes = [
            CardNote::Attached(one.0, one.1, Access::Write),
            CardNote::Attached(two.0, two.1, Access::Write),
            CardNote::Dropped(one.0, one.1),
            CardNote::Dropped(two.0, two.1),
            CardNote::Attached(three.0, three.1, Access::Exclusive),
            CardNote::Released,
            CardNote::Attached(three.0, three.1, Access::Read),
        ];
        notes.into_iter().map(|note| (5, note)).collect()
    }

    /// What the core has after each of them.
    fn states() -> Vec<CardJournal> {
        let mut cards = CardJournal::default();
        let after = notes().into_iter().map(|(since, note)| {
            cards.apply(since, note);
            cards.clone()
        });
        [CardJournal::default()].into_iter().chain(after.collect::<Vec<_>>()).collect()
    }

    #[test]
    fn cards_are_kept_as_long_as_numbers_stand_for_the_same_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        notes()[..5].chunks(2).for_each(|notes| journal.keep(notes, name).unwrap());
        assert_ne!(journal.lengths.unwrap().1, 0, "they were appended");
        for _ in 0..2 {
            let after = open(dir.path(), "b");
            assert_eq!(after.cards(|node| Some(name(node))), states()[5]);
            assert_eq!(after.cards(|node| (node.0 < 3).then(|| name(node))), CardJournal::default());
            assert_eq!(after.cards(|_| Some("n1".into())), CardJournal::default());
        }
        journal.keep(&[(7, CardNote::Dropped(NodeId(9), Generation(1)))], name).unwrap();
        let anew = open(dir.path(), "b").cards(|node| (node.0 == 9).then(|| name(node)));
        assert_eq!(
            (anew.since, anew.dropped.len()),
            (7, 1),
            "the nodes of another journal are not asked for"
        );
    }

    /// A machine that dies while changes are appended: those that were durable are there, of the others none or the first.
    #[test]
    fn the_end_of_the_last_line_may_be_missing() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        let path = journal.path.clone();
        let mut lengths = vec![std::fs::metadata(&path).unwrap().len() as usize];
        for note in notes() {
            journal.keep(&[note], name).unwrap();
            lengths.push(std::fs::metadata(&path).unwrap().len() as usize);
        }
        let whole = std::fs::read(&path).unwrap();
        for end in lengths[0]..=whole.len() {
            let durable = lengths.iter().rposition(|&length| length <= end).unwrap();
            for zeroes in [0, 1, 4096] {
                let mut torn = whole[..end].to_vec();
                torn.resize(end + zeroes, 0);
                let (entry, cards, _) = parse(&torn).unwrap();
                assert_eq!((entry.persistence, &cards), (life(&journal), &states()[durable]), "{end} bytes");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        journal.keep(&notes(), name).unwrap();
        let whole = std::fs::read(&journal.path).unwrap();
        assert_eq!(parse(&whole).unwrap().1, states()[7]);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&damaged), None, "bit {bit}");
        }
    }

    /// A thousand nodes come back, again and again: each change costs what it is long, and the file stays small.
    #[test]
    fn many_changes_cost_little_and_leave_little() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        let (mut last, mut wholes, mut most, mut written) = (0, 0, 0, 0);
        for round in 0..20 {
            for first in (0..1000).step_by(20) {
                let cards =
                    (first..first + 20).map(|node| (NodeId(node), Generation(round << 20 | u64::from(node))));
                let notes = cards.flat_map(|(node, card)| {
                    [CardNote::Dropped(node, card), CardNote::Attached(node, card, Access::Write)]
                });
                journal.keep(&notes.map(|note| (5, note)).collect::<Vec<_>>(), name).unwrap();
                let (whole, appended) = journal.lengths.unwrap();
                wholes += usize::from(appended == 0);
                written += if appended == 0 { whole } else { appended - last };
                (last, most) = (appended, most.max(whole + appended));
            }
        }
        assert!(wholes < 60 && most < 256 << 10, "written as a whole {wholes} times, {most} bytes at most");
        assert!(written < 20_000 * 2 * 250, "{} bytes a change", written / 40_000);
        let after = open(dir.path(), "a");
        assert_eq!(after.cards, journal.cards);
    }

    /// Whatever an append that fails has left, the next one is not behind it.
    #[test]
    fn after_a_failure_the_file_is_written_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        let path = std::mem::replace(&mut journal.path, dir.path().join("gone/x.journal"));
        journal.keep(&notes()[..2], name).unwrap_err();
        journal.path = path;
        let mut file = File::options().append(true).open(&journal.path).unwrap();
        file.write_all(b"0123").unwrap();
        journal.keep(&notes()[1..3], name).unwrap();
        assert_eq!(open(dir.path(), "a").cards, states()[3]);
    }

    /// What the version before wrote.
    #[test]
    fn the_version_before_is_understood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk@n1@lab.journal");
        for (clean, raised) in [("true", 0), ("false", 1)] {
            let line = format!(
                r#"{{"version":1,"disk":"/disk.img","boot":"a","clean":{clean},"persistence":7,"why":"power-lost","held":false,"#
            ) + r#""cards":{"since":5,"dropped":{"1":9},"writers":{},"exclusive":null,"names":{"1":"n1"}},"marks":null}"#;
            std::fs::write(&path, format!("{line}\n{:08x}\n", crc32fast::hash(line.as_bytes()))).unwrap();
            let after = open(dir.path(), "b");
            assert_eq!((life(&after), after.cards.dropped.len()), (7 + raised, 1), "clean: {clean}");
            assert_eq!(after.cards.writer, None, "not known");
            assert_eq!(life(&open(dir.path(), "b")), 7 + raised);
        }
    }

    #[test]
    fn a_start_waits_while_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("disk@n1@lab.new");
        std::os::unix::fs::symlink("/dev/full", &new).unwrap();
        let opened = Journal::open_in(dir.path(), OF, "a".into(), true);
        let Err(OpenError::Io(error)) = opened else { panic!("{opened:?}") };
        assert_eq!((is_full(&error), remedy(&error)), (true, "make room there"));
        let starting = Starting::new(cards_config::Config::new("lab", "n1"));
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| Journal::open(dir.path(), OF, true, &starting));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!opened.is_finished());
            let said = starting.state().to_string();
            assert!(said.contains("room in state_dir") && said.contains("make room there"), "{said}");
            std::fs::remove_file(&new).unwrap();
            opened.join().unwrap().unwrap();
            assert_eq!(starting.state().waits_for, None);
        });
    }

    #[test]
    fn a_directory_that_cannot_be_had_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(Journal::open_in(&file, OF, "a".into(), true).is_err());
    }
}
