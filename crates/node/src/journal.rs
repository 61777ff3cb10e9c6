//! What a disk node must not forget of a disk: one small file for each disk that can be written, in `state_dir`.
//!
//! The file is `DISK@NODE@CLUSTER.journal`: a line of JSON and a line with its checksum. It is replaced as a whole
//! (written, synced, renamed, directory synced), and an entry is durable before what it permits happens. A file that is
//! missing, damaged or of another disk says nothing: the disk then has a new persistence life, since nobody knows what
//! was lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cards_core::{
    CardJournal, ControlInput, DiskJournal, Generation, Loss, Marks, NodeId, Persistence, PgId,
};
use cards_disk::{Disk, Engine, Job, Op};
use serde::{Deserialize, Serialize};

use crate::inbox::Event;
use crate::marks::{self, Medium, Seal};
use crate::node::Node;

/// The layout of [`Entry`]. A file of another version counts as damaged.
const VERSION: u32 = 1;
/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What is said of a journal that is not there.
const MISSING: &str = "missing";
/// Replaces the kernel's boot id, for tests that let a machine lose its power.
const BOOT_ID: &str = "CARDS_BOOT_ID";

/// The journal of one disk; see the module's head.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    entry: Entry,
    /// Of the last clean stop, until they are taken.
    left: Option<Seal>,
}

/// What the file has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    version: u32,
    /// Path or URI of the disk.
    disk: String,
    /// The boot of the machine in which the disk was opened last.
    boot: String,
    /// The disk was synced and closed: nothing unflushed can be lost.
    clean: bool,
    /// The persistence life: another number as soon as applied writes may have been lost. Only grows.
    persistence: u64,
    /// Why `persistence` was raised last.
    why: Why,
    /// The disk may have lost contents that cards of an earlier life still use: it is not read until they are gone.
    held: bool,
    /// The cards of the disk's volume, see [`CardJournal`].
    #[serde(default)]
    cards: Cards,
    /// After a clean stop: the file that tells what was written when.
    #[serde(default)]
    marks: Option<Seal>,
}

/// A [`CardJournal`] in numbers, and the names of the nodes in it: numbers may be given anew.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cards {
    since: u64,
    dropped: BTreeMap<u16, u64>,
    writers: BTreeMap<u16, u64>,
    exclusive: Option<(u16, u64)>,
    names: BTreeMap<u16, String>,
}

/// Why unflushed writes may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Why {
    /// The machine was started anew without a clean stop of the daemon, or the journal is lost.
    PowerLost,
    /// The disk failed to sync.
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
}

impl Journal {
    /// Reads the journal of a disk that this process has locked, and notes durably that the disk is in use. `is_first`:
    /// this `state_dir` knows of no earlier life of the node.
    ///
    /// # Errors
    /// The directory cannot be made, or the file not be read or replaced.
    pub(crate) fn open(state_dir: &Path, of: Of<'_>, is_first: bool) -> io::Result<Self> {
        Self::open_in(state_dir, of, boot_id()?, is_first)
    }

    fn open_in(state_dir: &Path, of: Of<'_>, boot: String, is_first: bool) -> io::Result<Self> {
        std::fs::create_dir_all(state_dir)?;
        // No name has an `@`.
        let path = state_dir.join(format!("{}@{}@{}.journal", of.name, of.node, of.cluster));
        let mut entry = match read(&path, of.disk)? {
            Ok(entry) => entry,
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
                Entry {
                    version: VERSION,
                    disk: of.disk.into(),
                    boot: boot.clone(),
                    clean: false,
                    persistence: fresh(),
                    why: Why::PowerLost,
                    held: true,
                    cards: Cards::default(),
                    marks: None,
                }
            }
        };
        if entry.boot != boot && !entry.clean {
            tracing::warn!(
                disk = of.name,
                "the machine was started anew without a clean stop: unflushed writes may be lost; the next flush of \
                 each card that has some fails"
            );
            entry.persistence += 1;
            (entry.why, entry.held) = (Why::PowerLost, true);
        }
        let left = entry.marks.take().filter(|_| entry.clean);
        (entry.boot, entry.clean) = (boot, false);
        let journal = Self { path, entry, left };
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

    /// A sync has failed: a new life begins.
    ///
    /// # Errors
    /// The file cannot be replaced. It is removed then: a missing journal is a new life, too.
    pub(crate) fn sync_failed(&mut self) -> io::Result<()> {
        self.entry.persistence += 1;
        self.entry.why = Why::SyncFailed;
        self.store().inspect_err(|_| drop(std::fs::remove_file(&self.path)))
    }

    /// What is known of the disk's cards: nothing, if a number stands for another node now. `name` gives the present
    /// names.
    pub(crate) fn cards(&self, name: impl Fn(NodeId) -> Option<String>) -> CardJournal {
        let Cards { since, dropped, writers, exclusive, names } = &self.entry.cards;
        if names.iter().any(|(&number, then)| name(NodeId(number)).as_ref() != Some(then)) {
            return CardJournal::default();
        }
        CardJournal {
            since: *since,
            dropped: dropped.iter().map(|(&node, &card)| (NodeId(node), Generation(card))).collect(),
            writers: writers.iter().map(|(&node, &life)| (NodeId(node), life)).collect(),
            exclusive: exclusive.map(|(node, card)| (NodeId(node), Generation(card))),
        }
    }

    /// Keeps what is known of the disk's cards.
    ///
    /// # Errors
    /// The file cannot be replaced.
    pub(crate) fn keep_cards(
        &mut self,
        cards: &CardJournal,
        name: impl Fn(NodeId) -> String,
    ) -> io::Result<()> {
        let CardJournal { since, dropped, writers, exclusive } = cards;
        let nodes = dropped.keys().chain(writers.keys()).copied().chain(exclusive.map(|(node, _)| node));
        self.entry.cards = Cards {
            since: *since,
            names: nodes.map(|node| (node.0, name(node))).collect(),
            dropped: dropped.iter().map(|(node, card)| (node.0, card.0)).collect(),
            writers: writers.iter().map(|(node, &life)| (node.0, life)).collect(),
            exclusive: exclusive.map(|(node, card)| (node.0, card.0)),
        };
        self.store()
    }

    /// What the last daemon has left of each shard, once: none unless it stopped clean, with the same blocks and shards, and
    /// nobody has written the disk since.
    pub(crate) fn take_marks(&mut self, block: u32, shards: u16) -> Option<Vec<Marks>> {
        let left = self.left.take()?;
        let medium = Medium::of(&self.entry.disk, &self.entry.boot);
        marks::load(&self.path.with_extension("marks"), &left, medium.as_ref(), block, shards)
    }

    /// The disk was synced, and nothing is written any more. `marks` are those of each shard, for blocks of so many bytes.
    ///
    /// # Errors
    /// The file cannot be replaced.
    pub(crate) fn close(&mut self, block: u32, marks: &[Marks]) -> io::Result<()> {
        let medium = Medium::of(&self.entry.disk, &self.entry.boot);
        let path = self.path.with_extension("marks");
        let save = |medium| {
            let saved = marks::save(&path, block, marks, medium);
            // The disk is closed clean all the same.
            let say = |error: &io::Error| {
                tracing::warn!(%error, "{}: caches elsewhere start cold; make room in state_dir", path.display());
            };
            saved.inspect_err(say).ok()
        };
        self.entry.marks = medium.and_then(save);
        self.entry.clean = true;
        self.store()
    }

    fn store(&self) -> io::Result<()> {
        let line = serde_json::to_string(&self.entry)?;
        let text = format!("{line}\n{:08x}\n", crc32fast::hash(line.as_bytes()));
        replace(&self.path, text.as_bytes())
    }
}

/// Replaces a file as a whole, durably.
///
/// # Errors
/// As of the system calls.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Changes of the cards of this node's disks that are not durable yet.
#[derive(Default)]
pub(crate) struct Changes {
    /// Why the last one cannot be made durable, for people.
    problem: Mutex<Option<String>>,
    queue: Mutex<Queue>,
    news: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The number of the last change, and the newest of each volume.
    last: u64,
    newest: BTreeMap<PgId, CardJournal>,
    end: bool,
}

/// How long until a journal that could not be written is written again.
const RETRY: Duration = Duration::from_secs(1);

impl Changes {
    /// Takes a change. Called in the order of the numbers.
    pub(crate) fn push(&self, number: u64, volume: PgId, journal: CardJournal) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.last = number;
        queue.newest.insert(volume, journal);
        self.news.notify_one();
    }

    /// What is wrong while one cannot be made durable.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Ends the thread that makes them durable.
    pub(crate) fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).end = true;
        self.news.notify_one();
    }

    /// Waits until the thread is to end, at most for so long. Whether it is.
    fn wait_for_end(&self, most: Duration) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.news.wait_timeout_while(queue, most, |queue| !queue.end);
        waited.unwrap_or_else(PoisonError::into_inner).0.end
    }

    /// The next changes, all in one; none at the end.
    fn take(&self) -> Option<(u64, BTreeMap<PgId, CardJournal>)> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |queue: &mut Queue| queue.newest.is_empty() && !queue.end;
        let mut queue = self.news.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
        let newest = std::mem::take(&mut queue.newest);
        (!newest.is_empty()).then_some((queue.last, newest))
    }
}

/// Starts the thread that makes changes durable, and tells the control so.
///
/// # Errors
/// The thread cannot be had.
pub(crate) fn start(node: &Arc<Node>) -> io::Result<JoinHandle<()>> {
    let node = Arc::clone(node);
    std::thread::Builder::new().name("cards-journal".into()).spawn(move || {
        while let Some((number, newest)) = node.changes.take() {
            for (volume, cards) in newest {
                keep(&node, volume, &cards);
            }
            node.threads[0].post(Event::Control(Box::new(ControlInput::Journaled { number })));
        }
    })
}

/// Until it is durable, nobody is attached and no write goes on without a card that is gone.
fn keep(node: &Node, volume: PgId, cards: &CardJournal) {
    let Some(Some(journal)) = node.journals.get(usize::from(volume.disk())) else { return };
    let name = |number| node.name(number);
    loop {
        let kept = journal.lock().unwrap_or_else(PoisonError::into_inner).keep_cards(cards, name);
        let Err(error) = kept else { return node.changes.set_problem(None) };
        let disk = &node.own[usize::from(volume.disk())].name;
        let problem = format!(
            "the journal of disk {disk} cannot be written in {}: {error}; {}, for nobody is attached before that",
            node.config.state_dir.display(),
            remedy(&error)
        );
        tracing::error!("state_dir: {problem}");
        node.changes.set_problem(Some(problem));
        if node.draining() || node.changes.wait_for_end(RETRY) {
            return;
        }
    }
}

/// What to do about a `state_dir` that cannot be written.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there",
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => {
            "create it for the daemon's user or set another one"
        }
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable or set another one",
        _ => "see to its disk or set another one",
    }
}

/// At a clean stop, when no data thread runs any more: syncs the disks and notes that nothing of them can be lost.
pub(crate) fn close(node: &Node) {
    for ((disk, spec), journal) in node.disks.iter().zip(&node.own).zip(&node.journals) {
        let Some(journal) = journal else { continue };
        let marks: Vec<Marks> =
            node.shards.iter().filter_map(|cell| cell.lock().shard.marks(spec.id)).collect();
        let close = |()| {
            journal.lock().unwrap_or_else(PoisonError::into_inner).close(node.config.block as u32, &marks)
        };
        let closed = sync(disk).and_then(close);
        if let Err(error) = closed {
            tracing::warn!(disk = spec.name, %error, "not closed clean: unflushed writes may be lost with the machine");
        }
    }
}

/// In a thread of its own: the end of a ring interrupts system calls of the thread that had it.
fn sync(disk: &Arc<Disk>) -> io::Result<()> {
    std::thread::scope(|scope| {
        let done =
            std::thread::Builder::new().name("cards-sync".into()).spawn_scoped(scope, || flush(disk))?;
        done.join().unwrap_or_else(|_| Err(io::Error::other("the sync has panicked")))
    })
}

fn flush(disk: &Arc<Disk>) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let engine = Engine::new(disk);
        engine.submit(Job { tag: 0, op: Op::Flush });
        let mut done = Vec::new();
        engine.completions(&mut done).await;
        done.into_iter().try_for_each(|completion| completion.result.map(drop)).map_err(io::Error::other)
    })
}

/// What the file says of the disk, or why it says nothing.
fn read(path: &Path, disk: &str) -> io::Result<Result<Entry, &'static str>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(MISSING)),
        Err(error) => return Err(error),
    };
    let entry = parse(&bytes).filter(|entry| entry.version == VERSION && entry.persistence < u64::MAX / 2);
    Ok(match entry {
        None => Err("damaged, or of another version"),
        Some(entry) if entry.disk != disk => Err("of another disk"),
        Some(entry) => Ok(entry),
    })
}

fn parse(bytes: &[u8]) -> Option<Entry> {
    let (line, sum) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    let sum = u32::from_str_radix(sum.strip_suffix('\n')?, 16).ok()?;
    (crc32fast::hash(line.as_bytes()) == sum).then(|| serde_json::from_str(line).ok())?
}

/// A persistence life of a disk whose earlier ones are not known: the time, so that it is none of them.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(1).clamp(1, u64::MAX / 4)
}

/// Names the boot of this machine: its page cache lasts as long.
pub(crate) fn boot_id() -> io::Result<String> {
    if let Ok(given) = std::env::var(BOOT_ID) {
        return Ok(given);
    }
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Of<'_> = Of { cluster: "lab", node: "n1", name: "disk", disk: "/disk.img" };

    fn open(dir: &Path, boot: &str) -> Journal {
        Journal::open_in(dir, OF, boot.into(), true).unwrap()
    }

    fn life(journal: &Journal) -> u64 {
        journal.entry.persistence
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
    fn after_a_clean_stop_another_boot_is_no_loss() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = open(dir.path(), "a");
        first.close(4096, &[]).unwrap();
        assert_eq!(life(&open(dir.path(), "b")), life(&first));
        assert_eq!(life(&open(dir.path(), "c")), life(&first) + 1, "in use again");
    }

    #[test]
    fn marks_that_cannot_be_written_leave_the_disk_clean() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        std::fs::write(&disk, [0; 4096]).unwrap();
        let of = Of { disk: disk.to_str().unwrap(), ..OF };
        let open = |boot: &str| Journal::open_in(dir.path(), of, boot.into(), true).unwrap();
        let marks = [Marks::default()];
        let mut first = open("a");
        first.close(4096, &marks).unwrap();
        let mut second = open("a");
        assert_eq!(second.take_marks(4096, 1), Some(marks.to_vec()));
        std::fs::remove_file(second.path.with_extension("marks")).unwrap();
        std::fs::create_dir(second.path.with_extension("marks")).unwrap();
        second.close(4096, &marks).unwrap();
        let mut third = open("b");
        assert_eq!((life(&third), third.take_marks(4096, 1)), (life(&first), None));
    }

    #[test]
    fn a_failed_sync_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        let before = life(&journal);
        journal.release().unwrap();
        journal.sync_failed().unwrap();
        let after = open(dir.path(), "a");
        assert_eq!((life(&after), after.entry.why), (before + 1, Why::SyncFailed));
        assert!(!after.entry.held, "the page cache still has what was written");
    }

    #[test]
    fn a_journal_that_is_lost_damaged_or_of_another_disk_is_a_new_life() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path(), "a");
        // As if it had been made long ago.
        journal.entry.persistence = 1000;
        journal.close(4096, &[]).unwrap();
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

    #[test]
    fn cards_are_kept_as_long_as_numbers_stand_for_the_same_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let node = |number| (NodeId(number), Generation(7 << 20 | u64::from(number)));
        let cards = CardJournal {
            since: 5,
            dropped: [node(1), node(2)].into(),
            writers: [(NodeId(1), 6), (NodeId(3), 7)].into(),
            exclusive: Some(node(3)),
        };
        open(dir.path(), "a").keep_cards(&cards, |node| format!("n{}", node.0)).unwrap();
        let after = open(dir.path(), "b");
        assert_eq!(after.cards(|node| Some(format!("n{}", node.0))), cards);
        assert_eq!(after.cards(|node| (node.0 < 3).then(|| format!("n{}", node.0))), CardJournal::default());
        assert_eq!(after.cards(|_| Some("n1".into())), CardJournal::default());
    }

    #[test]
    fn a_directory_that_cannot_be_had_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(Journal::open_in(&file, OF, "a".into(), true).is_err());
    }
}
