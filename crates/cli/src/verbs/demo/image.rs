//! The disk image of the demonstration: an ext4 file system with files of this machine where `mke2fs`
//! exists, else the same files one after the other.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cards_config::size;

use super::DemoError;
use crate::signals::{Arrived, Signals};

/// Where real files are taken from, in this order.
const SOURCES: [&str; 4] = ["/usr/share", "/usr/include", "/usr/lib", "/usr/bin"];
/// Longer files are passed over, so that there are many.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// Bytes of image per file, at least: `mke2fs` makes one inode for 16 KiB.
const BYTES_PER_FILE: u64 = 24 << 10;
/// Share of the image that is filled with files, in percent; the rest is the file system's.
const FILLED_PERCENT: u64 = 80;
/// Bytes of a generated file.
const TEXT_FILE_BYTES: u64 = 1 << 20;

/// The image of `bytes` bytes in `dir`, made if it is missing; its path and what is in it.
pub(super) fn find_or_make(
    dir: Option<&Path>,
    bytes: u64,
    signals: &Signals,
) -> Result<(PathBuf, &'static str), DemoError> {
    let dir = match dir {
        Some(dir) => usable(dir).map_err(|source| DemoError::Image { path: dir.into(), source })?,
        None => default_dir()?,
    };
    const KINDS: [(&str, &str); 2] = [
        ("ext4", "an ext4 file system with files of this machine"),
        ("raw", "files of this machine, one after the other"),
    ];
    let path = |kind: &str| dir.join(format!("demo-{}.{kind}.img", size::exact(bytes)));
    for (kind, contents) in KINDS {
        if fs::metadata(path(kind)).is_ok_and(|found| found.len() == bytes) {
            return Ok((path(kind), contents));
        }
    }
    let image = |source| DemoError::Image { path: dir.clone(), source };
    // Made under another name, so that an image with the final name is complete.
    let work = tempfile::Builder::new().prefix("making-").tempdir_in(&dir).map_err(image)?;
    eprintln!("making a disk image of {} in {}, once", size::human(bytes), dir.display());
    let files = work.path().join("files");
    let unfinished = work.path().join("image");
    fs::create_dir(&files).map_err(image)?;
    let mut names = Files { dir: files.clone(), taken: Vec::new() };
    fill(&mut names, bytes * FILLED_PERCENT / 100, bytes / BYTES_PER_FILE, signals)?;
    let (kind, contents) = if make_ext4(&files, &unfinished, bytes).map_err(image)? {
        KINDS[0]
    } else {
        concatenate(&names.taken, &unfinished, bytes).map_err(image)?;
        KINDS[1]
    };
    fs::rename(&unfinished, path(kind)).map_err(image)?;
    Ok((path(kind), contents))
}

/// The user's cache directory, or `./run` for those who have none.
fn default_dir() -> Result<PathBuf, DemoError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    if let Some(dir) = cache.and_then(|cache| usable(&cache.join("cards")).ok()) {
        return Ok(dir);
    }
    let here = PathBuf::from("run");
    usable(&here).map_err(|source| DemoError::Image { path: here, source })
}

/// Makes `dir` if it is missing, and sees whether files can be made in it.
fn usable(dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    tempfile::tempfile_in(dir)?;
    fs::canonicalize(dir)
}

/// The files that go into the image.
struct Files {
    dir: PathBuf,
    taken: Vec<PathBuf>,
}

impl Files {
    /// A new file; the 256th and so on go into the next directory.
    fn next(&mut self, extension: &str) -> io::Result<PathBuf> {
        let number = self.taken.len();
        let dir = self.dir.join(format!("d{:03}", number / 256));
        fs::create_dir_all(&dir)?;
        let path = dir.join(format!("{number:06}{extension}"));
        self.taken.push(path.clone());
        Ok(path)
    }
}

/// Copies files of this machine until there are `bytes` bytes or `count` files, then generates text.
fn fill(files: &mut Files, bytes: u64, count: u64, signals: &Signals) -> Result<(), DemoError> {
    let mut left = bytes;
    let mut pending: Vec<PathBuf> = SOURCES.iter().rev().map(PathBuf::from).collect();
    let failed = |path: &Path, source| DemoError::Image { path: path.into(), source };
    while let Some(path) = pending.pop() {
        if left == 0 || files.taken.len() as u64 >= count / 2 {
            break;
        }
        if signals.wait(Duration::ZERO).is_some_and(Arrived::ends) {
            return Err(DemoError::Interrupted);
        }
        // What cannot be looked at is no part of the demonstration.
        let Ok(kind) = fs::symlink_metadata(&path) else { continue };
        if kind.is_dir() {
            let Ok(entries) = fs::read_dir(&path) else { continue };
            let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            // Sorted, so that the same machine gives the same image.
            entries.sort_unstable_by(|a, b| b.cmp(a));
            pending.extend(entries);
        } else if kind.is_file() && (1..=FILE_BYTES_MAX.min(left)).contains(&kind.len()) {
            let Ok(source) = File::open(&path) else { continue };
            let to = files.next("").map_err(|e| failed(&path, e))?;
            let copied = File::create(&to).and_then(|mut file| io::copy(&mut source.take(left), &mut file));
            left -= copied.map_err(|e| failed(&to, e))?.min(left);
        }
    }
    while left > 0 {
        if signals.wait(Duration::ZERO).is_some_and(Arrived::ends) {
            return Err(DemoError::Interrupted);
        }
        let length = left.min(TEXT_FILE_BYTES);
        let number = files.taken.len() as u64;
        let to = files.next(".txt").map_err(|e| failed(&files.dir, e))?;
        File::create(&to).and_then(|file| write_text(file, number, length)).map_err(|e| failed(&to, e))?;
        left -= length;
    }
    Ok(())
}

/// Compressible text that differs from file to file and is the same on every machine.
fn write_text(file: File, number: u64, bytes: u64) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let mut left = bytes as usize;
    let mut line = 0_u64;
    while left > 0 {
        let text = format!(
            "file {number} line {line}: {:016x} a block in anybody's memory is not read again\n",
            (number << 32 | line).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        );
        let part = &text.as_bytes()[..text.len().min(left)];
        out.write_all(part)?;
        left -= part.len();
        line += 1;
    }
    out.flush()
}

/// Makes an ext4 image of `files`; false if there is no `mke2fs` that can.
fn make_ext4(files: &Path, image: &Path, bytes: u64) -> io::Result<bool> {
    // An ordinary user's PATH may lack the directories of administration.
    for program in ["mke2fs", "/usr/sbin/mke2fs", "/sbin/mke2fs"] {
        let made = Command::new(program)
            .args(["-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0", "-d"])
            .arg(files)
            .arg(image)
            .arg(format!("{}k", bytes >> 10))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match made {
            Ok(status) if status.success() => {
                File::options().write(true).open(image)?.set_len(bytes)?;
                return Ok(true);
            }
            Ok(_) => return Ok(false),
            Err(_) => {}
        }
    }
    Ok(false)
}

/// All files one after the other, each with its name before it, cut or filled with zeroes to `bytes`.
fn concatenate(files: &[PathBuf], image: &Path, bytes: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(image)?);
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        writeln!(out, "==> {name} <==")?;
        io::copy(&mut File::open(file)?, &mut out)?;
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_made_once_and_has_content() {
        let dir = tempfile::tempdir().unwrap();
        let signals = Signals::block();
        let (path, _) = find_or_make(Some(dir.path()), 4 << 20, &signals).unwrap();
        let content = fs::read(&path).unwrap();
        assert_eq!(content.len(), 4 << 20);
        let blocks = content.chunks(4096).filter(|block| block.iter().any(|b| *b != 0)).count();
        assert!(blocks > 512, "{blocks} of 1024 blocks have content");
        let made = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(find_or_make(Some(dir.path()), 4 << 20, &signals).unwrap().0, path);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), made);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn without_a_file_system_the_files_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a", "b"].map(|name| dir.path().join(name)).into();
        files.iter().for_each(|file| fs::write(file, "text").unwrap());
        let image = dir.path().join("image");
        concatenate(&files, &image, 64).unwrap();
        let content = fs::read(image).unwrap();
        assert!(content.starts_with(b"==> a <==\ntext==> b <==\ntext"));
        assert_eq!(content.len(), 64);
    }
}
