//! Block devices, as sysfs shows them.

use std::fs;
use std::path::Path;

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

/// Whether there is a block device `major:minor`.
pub(crate) fn exists((major, minor): (u32, u32)) -> bool {
    Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists()
}
