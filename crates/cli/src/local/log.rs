//! The log of a process in the background.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use super::place::LOG;
use super::{LocalError, Place};

/// A longer log is begun anew when a process starts, in bytes.
const KEPT_MAX: u64 = 1 << 20;
/// How much of the end is looked at, in bytes.
const TAIL_BYTES: u64 = 4096;

/// The log of the process at `place`, to be written at its end.
pub(crate) fn open(place: &Place) -> Result<File, LocalError> {
    let log = place.make_dir()?.append(&place.name(LOG))?;
    if length(place) > KEPT_MAX {
        log.set_len(0).map_err(|source| LocalError::file(&place.log(), source))?;
    }
    Ok(log)
}

/// Its length, in bytes.
pub(crate) fn length(place: &Place) -> u64 {
    there(place).and_then(|log| log.metadata().ok()).map_or(0, |meta| meta.len())
}

/// The last line that was written after the first `since` bytes.
pub(crate) fn last_line(place: &Place, since: u64) -> Option<String> {
    let mut file = there(place)?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(since.max(length.saturating_sub(TAIL_BYTES)))).ok()?;
    let mut text = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.strip_prefix("cards: ").unwrap_or(line).to_owned())
}

/// The log, to be read, if it is there.
fn there(place: &Place) -> Option<File> {
    place.dir().ok()??.file(&place.name(LOG)).ok()?
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_line_is_what_was_said_since() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(&dir.path().join("admin.sock"), "data").unwrap();
        assert_eq!((length(&place), last_line(&place, 0)), (0, None));
        writeln!(open(&place).unwrap(), "old").unwrap();
        let since = length(&place);
        assert_eq!(last_line(&place, since), None);
        writeln!(open(&place).unwrap(), "one\ncards: two\n").unwrap();
        assert_eq!(last_line(&place, since).unwrap(), "two");
        std::fs::write(place.log(), "x".repeat(KEPT_MAX as usize + 1)).unwrap();
        assert_eq!(last_line(&place, 0).unwrap().len(), TAIL_BYTES as usize);
        open(&place).unwrap();
        assert_eq!(length(&place), 0);
    }
}
