//! The first line of a journal's file, and what the whole file says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cards_core::{CardJournal, Generation, Loss, NodeId};
use serde::{Deserialize, Serialize};

use super::Of;
use super::file::{self, FileIdentity};
use super::line::{Line, has_sum};
use super::refused::{OpenError, Other};

/// The layout of [`Entry`]. A file of a version that is not known counts as damaged.
pub(super) const VERSION: u32 = 2;
/// The one before: it said itself whether the disk was synced and closed, and could only be replaced as a whole.
const VERSION_BEFORE: u32 = 1;
/// Longest file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// What is said of a journal that is not there.
pub(super) const MISSING: &str = "missing";

/// What the first line of the file has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) version: u32,
    /// Path or URI of the disk.
    pub(super) disk: String,
    /// Its size when it was opened last, in bytes; zero in a file of an earlier release.
    #[serde(default)]
    pub(super) bytes: u64,
    /// The file it was when it was opened last; none of what is no file, and in a file of an earlier release.
    #[serde(default)]
    pub(super) file: Option<FileIdentity>,
    /// The boot of the machine in which the disk was opened last.
    pub(super) boot: String,
    /// The persistence life: another number as soon as applied writes may have been lost. Only grows.
    pub(super) persistence: u64,
    /// Why `persistence` was raised last.
    pub(super) why: Why,
    /// The disk may have lost contents that cards of an earlier life still use: it is not read until they are gone.
    pub(super) held: bool,
    /// The cards of the disk's volume, see [`CardJournal`].
    #[serde(default)]
    pub(super) cards: Cards,
    /// Of [`VERSION_BEFORE`]: the disk was synced and closed. Now a seal says so.
    #[serde(default, skip_serializing)]
    pub(super) clean: bool,
    /// Of [`VERSION_BEFORE`].
    #[serde(default, skip_serializing)]
    pub(super) marks: serde::de::IgnoredAny,
}

/// A [`CardJournal`] in numbers, and the names of the nodes in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cards {
    since: u64,
    dropped: BTreeMap<u16, u64>,
    writers: BTreeMap<u16, u64>,
    exclusive: Option<(u16, u64)>,
    /// In a file of an earlier release it is not said.
    #[serde(default)]
    writer: Option<(u16, u64)>,
    names: BTreeMap<u16, String>,
}

/// Why unflushed writes may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Why {
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

impl Entry {
    /// Of a disk of which nothing is known.
    pub(super) fn new(of: Of<'_>, boot: String) -> Self {
        Self {
            version: VERSION,
            disk: of.disk.into(),
            bytes: of.bytes,
            file: None,
            boot,
            persistence: fresh(),
            why: Why::PowerLost,
            held: true,
            cards: Cards::default(),
            clean: false,
            marks: serde::de::IgnoredAny,
        }
    }

    /// Refuses a disk that cannot be the one that the entry is of. `journal`: where the entry is.
    pub(super) fn admits(&self, of: Of<'_>, journal: PathBuf) -> Result<(), OpenError> {
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

impl Cards {
    pub(super) fn of(journal: &CardJournal, names: BTreeMap<u16, String>) -> Self {
        let CardJournal { since, dropped, writers, exclusive, writer } = journal;
        Self {
            since: *since,
            dropped: dropped.iter().map(|(node, card)| (node.0, card.0)).collect(),
            writers: writers.iter().map(|(node, &life)| (node.0, life)).collect(),
            exclusive: exclusive.map(|(node, card)| (node.0, card.0)),
            writer: writer.map(|(node, card)| (node.0, card.0)),
            names,
        }
    }
}

/// What a whole file says.
pub(super) type Known = (Entry, CardJournal, BTreeMap<u16, String>);

/// What the file says of the disk, or why it says nothing.
pub(super) fn read(path: &Path, disk: &str) -> io::Result<Result<Known, &'static str>> {
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
pub(super) fn parse(bytes: &[u8]) -> Option<Known> {
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
        let told = line.split_last().and_then(|(_, line)| Line::parse(line));
        match (line.last() == Some(&b'\n'), told) {
            (true, Some(line)) => line.apply(&mut cards, &mut names),
            // An append that was under way. A whole line with another end is none.
            (false, None) => break,
            _ => return None,
        }
    }
    Some((entry, cards, names))
}

/// A persistence life of a disk whose earlier ones are not known: the time, so that it is none of them.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(1).clamp(1, u64::MAX / 4)
}
