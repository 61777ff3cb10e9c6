//! A profile: which ranges of a volume were read, in the order of their first use.
//!
//! Text, so that people can read and cut it. `docs/reference/profile.md` describes it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

use super::ProfileError;

/// The first line of every profile.
const MAGIC: &str = "cards-profile 1";
/// Ranges at most: more than any boot touches, and a bound for memory.
pub(crate) const RANGES_MAX: usize = 1 << 22;
/// Bytes of a line at most.
const LINE_MAX: u64 = 4096;

/// What was read of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Profile {
    /// The volume's name.
    pub(crate) volume: String,
    /// Its size, in bytes.
    pub(crate) size: u64,
    /// Offsets and lengths in bytes, in the order of their first use.
    pub(crate) ranges: Vec<(u64, u64)>,
}

impl Profile {
    /// The bytes of all ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, (_, length)| sum.saturating_add(*length))
    }

    /// Reads a profile.
    pub(crate) fn open(path: &Path) -> Result<Self, ProfileError> {
        let failed = |source| ProfileError::Read { path: path.into(), source };
        let mut lines = Lines { path, reader: BufReader::new(File::open(path).map_err(failed)?), number: 0 };
        if lines.next()?.as_deref() != Some(MAGIC) {
            let path = path.into();
            return Err(ProfileError::NoProfile { path });
        }
        let volume = lines.field("volume")?;
        let size = lines.field("size")?;
        let size = size.parse().map_err(|_| lines.bad(format!("{size:?} is no size in bytes")))?;
        let mut ranges = Vec::new();
        while let Some(line) = lines.next()? {
            if ranges.len() == RANGES_MAX {
                return Err(lines.bad(format!("more than {RANGES_MAX} ranges")));
            }
            ranges.push(range(&line, size).map_err(|problem| lines.bad(problem))?);
        }
        if ranges.is_empty() {
            return Err(lines.bad("no range".into()));
        }
        Ok(Self { volume, size, ranges })
    }

    /// Writes it as [`Self::open`] reads it.
    pub(crate) fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{MAGIC}\nvolume {}\nsize {}", self.volume, self.size)?;
        for (offset, length) in &self.ranges {
            writeln!(out, "{offset} {length}")?;
        }
        out.flush()
    }
}

/// A line `offset length`.
fn range(line: &str, size: u64) -> Result<(u64, u64), String> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[offset, length])
            if length > 0 && offset.checked_add(length).is_some_and(|end| end <= size) =>
        {
            Ok((offset, length))
        }
        Some(&[offset, length]) => {
            Err(format!("{length} bytes from {offset} on are no part of the {size} bytes of the volume"))
        }
        _ => Err(format!("{:?} is no offset and length in bytes", line.chars().take(60).collect::<String>())),
    }
}

/// The lines of a file, none of them too long.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    number: u64,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<String>, ProfileError> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LINE_MAX).read_until(b'\n', &mut line);
        let read = read.map_err(|source| ProfileError::Read { path: self.path.into(), source })?;
        self.number += 1;
        if read as u64 == LINE_MAX {
            return Err(self.bad(format!("a line of {LINE_MAX} bytes or more")));
        }
        let text = String::from_utf8(line).map_err(|_| self.bad("bytes that are no text".into()))?;
        Ok((read > 0).then(|| text.trim_end().to_owned()))
    }

    /// The value of the line with this name, which must be the next.
    fn field(&mut self, name: &str) -> Result<String, ProfileError> {
        let line = self.next()?.unwrap_or_default();
        let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
        value.map(str::to_owned).ok_or_else(|| self.bad(format!("there should be `{name}` and its value")))
    }

    fn bad(&self, problem: String) -> ProfileError {
        // The first line is looked at as a whole: a file of garbage is not a profile with a mistake in it.
        if self.number <= 1 {
            return ProfileError::NoProfile { path: PathBuf::from(self.path) };
        }
        ProfileError::Line { path: self.path.into(), number: self.number, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(content: &[u8]) -> Result<Profile, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        Profile::open(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_profile_reads_back() {
        let profile =
            Profile { volume: "my data".into(), size: 1 << 40, ranges: vec![(1 << 39, 4096), (0, 1)] };
        let mut text = Vec::new();
        profile.write(&mut text).unwrap();
        assert_eq!(open(&text).unwrap(), profile);
        assert_eq!(profile.bytes(), 4097);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_line() {
        let profile = |lines: &str| format!("{MAGIC}\nvolume d\nsize 100\n{lines}");
        for (content, word) in [
            (String::new(), "no profile"),
            ("cards-profile 2\n".into(), "no profile"),
            (format!("{MAGIC}\nsize 5\n"), "line 2"),
            (format!("{MAGIC}\nvolume d\nsize x\n"), "line 3"),
            (profile(""), "no range"),
            (profile("0 10\n7\n"), "line 5"),
            (profile("0 0\n"), "line 4"),
            (profile("99 2\n"), "99"),
            (profile(&format!("{} 2\n", u64::MAX)), "no part"),
            (profile(&"1".repeat(5000)), "line of 4096"),
        ] {
            let error = open(content.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert!(open(&[0xff; 9000]).unwrap_err().contains("no profile"));
        assert!(open(b"\xff\n").unwrap_err().contains("no profile"));
    }
}
