//! The log of a process in the background.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// A longer log is begun anew when a process starts, in bytes.
const KEPT_MAX: u64 = 1 << 20;
/// How much of the end is looked at, in bytes.
const TAIL_BYTES: u64 = 4096;

/// The log at `path`, to be written at its end.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    if length(path) > KEPT_MAX {
        fs::write(path, "")?;
    }
    File::options().create(true).append(true).open(path)
}

/// Its length, in bytes.
pub(crate) fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The last line that was written after the first `since` bytes.
pub(crate) fn last_line(path: &Path, since: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(since.max(length.saturating_sub(TAIL_BYTES)))).ok()?;
    let mut text = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.strip_prefix("cards: ").unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_line_is_what_was_said_since() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!((length(&path), last_line(&path, 0)), (0, None));
        writeln!(open(&path).unwrap(), "old").unwrap();
        let since = length(&path);
        assert_eq!(last_line(&path, since), None);
        writeln!(open(&path).unwrap(), "one\ncards: two\n").unwrap();
        assert_eq!(last_line(&path, since).unwrap(), "two");
        fs::write(&path, "x".repeat(KEPT_MAX as usize + 1)).unwrap();
        assert_eq!(last_line(&path, 0).unwrap().len(), TAIL_BYTES as usize);
        open(&path).unwrap();
        assert_eq!(length(&path), 0);
    }
}
