//! What is mounted where: `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::fuse;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the device; of a file system without one, numbers of its own.
    pub device: (u32, u32),
    /// Where it is mounted.
    pub point: PathBuf,
    /// The kind of file system.
    pub kind: String,
    /// What is mounted: the path of a device, mostly.
    pub source: PathBuf,
    /// Nothing can be written through this mount, or to the file system.
    pub read_only: bool,
}

impl Mount {
    /// Whether it is a volume, served as a file.
    #[must_use]
    pub fn is_volume(&self) -> bool {
        self.kind == fuse::KIND
    }
}

/// The mounts of this process's namespace, in the order in which they were made.
///
/// # Errors
/// There is no such file.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// The mount that covers `point`, if it is a mount point: the last one there.
#[must_use]
pub fn at<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|mount| mount.point == point)
}

/// The mounts of a text in the form of `/proc/PID/mountinfo`. Lines that are not understood are left out: later kernels
/// may write other ones.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`
fn line(text: &[u8]) -> Option<Mount> {
    let mut fields = text.split(|&byte| byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let point = path(fields.nth(1)?);
    let options = fields.next()?;
    // Any number of optional fields, up to a hyphen.
    fields.find(|field| *field == b"-")?;
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = path(fields.next()?);
    let of_super = fields.next()?;
    let read_only =
        [options, of_super].iter().any(|list| list.split(|&byte| byte == b',').any(|o| o == b"ro"));
    Some(Mount { device: (major.parse().ok()?, minor.parse().ok()?), point, kind, source, read_only })
}

/// A path in which blanks and backslashes are written as `\040`.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = || {
            let digits = after.get(..3).filter(|_| first == b'\\')?;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
        };
        match octal() {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 22 0:35 / /run/cards/dev/data rw - fuse cards:data rw,user_id=0
41 22 7:3 / /mnt/with\\040blank ro,nosuid master:4 shared:9 - ext4 /dev/loop3 ro,norecovery
42 22 7:3 / /mnt rw - ext4 /dev/loop3 ro
43 22 0:50 / /mnt rw - tmpfs tmpfs rw
nonsense
44 22 7 / /x rw - ext4 /dev/loop4 rw

";

    #[test]
    fn mounts_are_read() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 5);
        assert_eq!(
            mounts[2],
            Mount {
                device: (7, 3),
                point: "/mnt/with blank".into(),
                kind: "ext4".into(),
                source: "/dev/loop3".into(),
                read_only: true,
            }
        );
        assert!(mounts[3].read_only && !mounts[0].read_only);
    }

    #[test]
    fn the_last_mount_at_a_point_covers_the_others() {
        let mounts = parse(TEXT);
        assert_eq!(at(&mounts, Path::new("/mnt")).unwrap().kind, "tmpfs");
        assert_eq!(at(&mounts, Path::new("/mnt/elsewhere")), None);
    }

    #[test]
    fn paths_are_unescaped() {
        assert_eq!(path(b"/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(path(b"/a\\04"), Path::new("/a\\04"));
        assert_eq!(path(b"/a\\999"), Path::new("/a\\999"));
    }

    #[test]
    fn a_path_that_is_no_text_hides_no_other() {
        let text = b"44 22 0:51 / /mnt/\xff rw - tmpfs tmpfs rw\n45 22 0:52 / /run/data rw - fuse data rw\n";
        assert_eq!(parse(text).len(), 2);
        assert!(at(&parse(text), Path::new("/run/data")).is_some());
    }

    #[test]
    fn the_kernel_is_understood() {
        assert!(at(&mounts().unwrap(), Path::new("/proc")).is_some());
    }
}
