//! Loop devices, as sysfs shows them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The file behind the block device `major:minor`, if that is a loop device.
pub(crate) fn file_behind((major, minor): (u32, u32)) -> Option<PathBuf> {
    backing_file(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
}

/// The loop devices over `file`.
pub(crate) fn over(file: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = devices.filter(|entry| entry.file_name().as_bytes().starts_with(b"loop"));
    let ours = names.filter(|entry| backing_file(&entry.path()).as_deref() == Some(file));
    ours.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

/// The numbers of the block device at `path`.
pub(crate) fn numbers(path: &Path) -> Option<(u32, u32)> {
    let name = path.strip_prefix("/dev").ok()?;
    let text = fs::read_to_string(Path::new("/sys/block").join(name).join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What is built on the block device at `path`: names of other devices.
pub(crate) fn holders(path: &Path) -> Vec<String> {
    let Ok(name) = path.strip_prefix("/dev") else { return Vec::new() };
    let entries = fs::read_dir(Path::new("/sys/block").join(name).join("holders"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn backing_file(device: &Path) -> Option<PathBuf> {
    let text = fs::read(device.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii_end())))
}
