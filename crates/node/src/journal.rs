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
mod entry;
mod file;
mod line;
mod refused;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_core::{CardJournal, CardNote, DiskJournal, Marks, NodeId, Persistence, PgId};

use crate::life::boot_id;
use crate::marks::{self, Medium, Seal};
use crate::starting::Starting;
use crate::state_dir::{is_full, remedy, replace};

pub(crate) use changes::{Changes, Task};
use entry::{Cards, Entry, FILE_BYTES_MAX, MISSING, VERSION, Why, read};
use file::FileIdentity;
use line::Line;
pub(crate) use refused::OpenError;
pub use refused::Other;

/// When so many bytes have been appended, and as many as were there before, the file is written anew.
const APPENDED_BYTES_MAX: usize = 64 << 10;
/// How long until a journal that could not be written is written again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// That a start waits for room is said again after so many attempts.
const SAY_EVERY: u32 = 60;

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

impl Journal {
    /// What to say of an error of its file.
    pub(crate) fn unwritten(&self, error: &io::Error) -> String {
        let (path, todo) = (self.path.display(), remedy(error));
        format!("state_dir: {path}: the journal cannot be written: {error}; {todo}")
    }

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
        let ((mut entry, cards, names), unusable) = match read(&path, of.disk)? {
            Ok(known) => (known, None),
            Err(reason) => {
                ((Entry::new(of, boot.clone()), CardJournal::default(), BTreeMap::new()), Some(reason))
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
        let path = journal.path.display();
        match unusable {
            Some(MISSING) if is_first => {
                tracing::info!(disk = of.name, "first start: a new journal is made, {path}");
            }
            Some(reason) => tracing::warn!(
                disk = of.name,
                "{path}: the journal of the disk is {reason}: unless the disk is new at this node, that counts as a loss of \
                 power; nodes with unflushed writes are told EIO once"
            ),
            None => {}
        }
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
            let line = Line::of(since, note, &name);
            text += &line.text()?;
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
        self.entry.cards = Cards::of(&self.cards, self.names.clone());
        let line = serde_json::to_string(&self.entry)?;
        let text = format!("{line}\n{:08x}\n", crc32fast::hash(line.as_bytes()));
        self.lengths = None;
        replace(&self.path, text.as_bytes())?;
        self.lengths = Some((text.len(), 0));
        Ok(())
    }
}

/// Where the seal of a journal's disk is.
fn marks_of(journal: &Path) -> PathBuf {
    journal.with_extension("marks")
}
