//! The seal of a disk: nothing of it is unsynced, and what was written when. A daemon that ends while its disk is sealed, whether
//! it stops or is killed, leaves the caches of the whole cluster warm; the first write removes the seal.
//!
//! The file `DISK@NODE@CLUSTER.marks` lies beside the disk's journal. It is binary, little endian: [`MAGIC`], the persistence
//! life of the disk (u64), the length (u32) and the JSON of what the medium looked like: whatever else was written to it since
//! makes the marks worthless. Then the block size in bytes (u32), shards (u16); for each shard the limit in regions that are not
//! listed (u64), their number (u32), and for each its number (u32), base (u64), segments (u64), version (u64); see
//! `docs/internals/coherence.md`. At the end the CRC-32 of all that (u32).

use std::fs::{File, FileType};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use cards_core::{Bounds, Marks, Stamp};
use serde::{Deserialize, Serialize};

use crate::life::boot_id;
use crate::state_dir::replace;

const MAGIC: &[u8; 8] = b"CARDSmk2";
/// Longest file that is read, in bytes: 65,536 regions in each of 32 shards.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A disk that was changed around each of so many syncs is being written.
const SYNCS_MAX: u32 = 4;

/// A file that is whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seal {
    /// The life of the disk in which it was made. It says nothing of any other.
    pub(crate) persistence: u64,
    medium: Option<Medium>,
    /// The rest.
    marks: Vec<u8>,
}

/// What tells whether somebody else has written a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Medium {
    /// A file: where it is, its length, and the times of the last changes of its bytes and of itself, in nanoseconds.
    File { device: u64, inode: u64, length: u64, changed: (i64, i64), touched: (i64, i64) },
    /// A block device: which one was attached, which part of it, and the sectors that were written to it and discarded since the
    /// machine was started.
    Device {
        device: u64,
        sequence: Option<u64>,
        start: Option<u64>,
        sectors: u64,
        written: u64,
        discarded: u64,
        boot: String,
    },
}

impl Medium {
    /// Waits until what was written is on the disk: until then a device does not count it, and of a file that is mapped a store
    /// that comes later leaves no mark. None for what cannot be told: an NBD origin, an object, a loop device (its file can be written below
    /// it), a device that does not count, or what somebody writes at this moment. May take long.
    ///
    /// # Errors
    /// The sync failed.
    pub(crate) fn of(disk: &str, boot: &str) -> io::Result<Option<Self>> {
        let is_known = |kind: FileType| kind.is_file() || kind.is_block_device();
        // Other kinds are not even opened: a pipe would wait.
        if !std::fs::metadata(disk).is_ok_and(|about| is_known(about.file_type())) {
            return Ok(None);
        }
        let Ok(file) = File::open(disk) else { return Ok(None) };
        let mut before = Self::seen(&file, boot);
        for _ in 0..SYNCS_MAX {
            if before.is_none() {
                break;
            }
            file.sync_all()?;
            let after = Self::seen(&file, boot);
            if after == before {
                return Ok(after);
            }
            before = after;
        }
        Ok(None)
    }

    fn seen(file: &File, boot: &str) -> Option<Self> {
        let about = file.metadata().ok()?;
        if about.is_file() {
            return Some(Self::File {
                device: about.dev(),
                inode: about.ino(),
                length: about.len(),
                changed: (about.mtime(), about.mtime_nsec()),
                touched: (about.ctime(), about.ctime_nsec()),
            });
        }
        let device = about.rdev();
        let directory = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
        // A partition has its disk above it.
        let of_disk = |name: &str| {
            [".", ".."]
                .iter()
                .map(|place| Path::new(&directory).join(place).join(name))
                .find(|path| path.exists())
        };
        if of_disk("loop").is_some() {
            return None;
        }
        let counts = of_disk("queue/iostats").and_then(|path| number(&path)) == Some(1);
        counts.then(|| Self::device(device, Path::new(&directory), of_disk("diskseq").as_deref(), boot))?
    }

    fn device(device: u64, directory: &Path, sequence: Option<&Path>, boot: &str) -> Option<Self> {
        let stat = std::fs::read_to_string(directory.join("stat")).ok()?;
        let count = |field| stat.split_ascii_whitespace().nth(field)?.parse().ok();
        Some(Self::Device {
            device,
            sequence: sequence.and_then(number),
            start: number(&directory.join("start")),
            sectors: number(&directory.join("size"))?,
            written: count(6)?,
            discarded: count(13).unwrap_or(0),
            boot: boot.into(),
        })
    }

    /// It is the same file or device, whatever is in it.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        let place = |medium: &Self| match *medium {
            Self::File { device, inode, .. } => (device, Some(inode)),
            Self::Device { device, .. } => (device, None),
        };
        place(self) == place(other)
    }
}

/// A file of the kernel with one number.
fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A number for what is on a disk that nobody can write here: the same as long as nobody else writes it either. `version`: what
/// the server of the disk calls its contents, if it does. A number of this life of the node where nobody can tell. May take long.
pub(crate) fn content(disk: &str, version: Option<&str>, incarnation: u64) -> u64 {
    let medium = || boot_id().and_then(|boot| Medium::of(disk, &boot)).unwrap_or(None);
    let told = match version {
        Some(version) => format!("{disk} {version}"),
        None => medium().map_or_else(|| incarnation.to_string(), |medium| format!("{medium:?}")),
    };
    told.bytes().fold(1, |known, byte| cards_core::mix(known ^ u64::from(byte)))
}

/// Writes the file for the shards of one disk's volume, in their order, durably. `medium`: none if nobody can tell who writes it.
///
/// # Errors
/// The file cannot be written. It may be there all the same.
pub(crate) fn save(
    path: &Path,
    persistence: u64,
    medium: Option<&Medium>,
    block: u32,
    shards: &[Marks],
) -> io::Result<()> {
    let about = serde_json::to_vec(&medium)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(persistence.to_le_bytes());
    bytes.extend((about.len() as u32).to_le_bytes());
    bytes.extend(about);
    bytes.extend(encode(block, shards));
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    replace(path, &bytes)
}

/// Removes the file durably. This needs no room.
///
/// # Errors
/// It may still be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

impl Seal {
    /// Reads the file, if it is there and whole.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Self::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut bytes, sum) = bytes.split_last_chunk()?;
        let is_whole = u32::from_le_bytes(*sum) == crc32fast::hash(bytes);
        if !is_whole || take(&mut bytes)? != *MAGIC {
            return None;
        }
        let persistence = u64::from_le_bytes(take(&mut bytes)?);
        let length = u32::from_le_bytes(take(&mut bytes)?);
        let (about, marks) = bytes.split_at_checked(length as usize)?;
        // One that another version has described is none.
        Some(Self {
            persistence,
            medium: serde_json::from_slice(about).unwrap_or(None),
            marks: marks.to_vec(),
        })
    }

    /// What was written when, if nobody else has written the disk since, for the same blocks and shards.
    pub(crate) fn marks(&self, medium: Option<&Medium>, block: u32, shards: u16) -> Option<Vec<Marks>> {
        let is_untouched = medium.is_some() && medium == self.medium.as_ref();
        is_untouched.then(|| decode(&self.marks, block, shards))?
    }
}

fn encode(block: u32, shards: &[Marks]) -> Vec<u8> {
    let mut bytes = block.to_le_bytes().to_vec();
    bytes.extend((shards.len() as u16).to_le_bytes());
    for Marks { default, regions } in shards {
        bytes.extend(default.0.to_le_bytes());
        bytes.extend((regions.len() as u32).to_le_bytes());
        for (number, Bounds { base, written, version }) in regions {
            bytes.extend(number.to_le_bytes());
            [base.0, *written, version.0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
    }
    bytes
}

/// None if it is damaged, or of other blocks or shards.
fn decode(mut bytes: &[u8], block: u32, shards: u16) -> Option<Vec<Marks>> {
    let bytes = &mut bytes;
    let fits = u32::from_le_bytes(take(bytes)?) == block && u16::from_le_bytes(take(bytes)?) == shards;
    if !fits {
        return None;
    }
    let marks: Option<Vec<Marks>> = (0..shards).map(|_| of_shard(bytes)).collect();
    marks.filter(|_| bytes.is_empty())
}

fn of_shard(bytes: &mut &[u8]) -> Option<Marks> {
    let default = Stamp(u64::from_le_bytes(take(bytes)?));
    let count = u32::from_le_bytes(take(bytes)?);
    let region = |_| {
        let number = u32::from_le_bytes(take(bytes)?);
        let [base, written, version] = [take(bytes)?, take(bytes)?, take(bytes)?].map(u64::from_le_bytes);
        Some((number, Bounds { base: Stamp(base), written, version: Stamp(version) }))
    };
    Some(Marks { default, regions: (0..count).map(region).collect::<Option<_>>()? })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn marks() -> Vec<Marks> {
        let bounds = |base, written, version| Bounds { base: Stamp(base), written, version: Stamp(version) };
        let regions = vec![(0, bounds(7, 5, 9)), (70_000, bounds(1 << 50, 0, 0))];
        vec![Marks { default: Stamp(3), regions }, Marks::default()]
    }

    #[test]
    fn what_was_saved_is_loaded_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, path) = (dir.path().join("disk.img"), dir.path().join("disk.marks"));
        std::fs::write(&disk, [0; 4096]).unwrap();
        let medium = || Medium::of(disk.to_str().unwrap(), "boot").unwrap();
        save(&path, 7, medium().as_ref(), 4096, &marks()).unwrap();
        let seal = Seal::load(&path).unwrap();
        let marks_for = |block, shards| seal.marks(medium().as_ref(), block, shards);
        assert_eq!((seal.persistence, marks_for(4096, 2)), (7, Some(marks())));
        assert_eq!((marks_for(65_536, 2), marks_for(4096, 4)), (None, None), "other blocks, other shards");
        let before = medium().unwrap();
        std::fs::write(&disk, [1; 4096]).unwrap();
        assert_eq!(marks_for(4096, 2), None, "somebody has written the disk");
        assert!(before.is_at(&medium().unwrap()));
        std::fs::rename(&disk, dir.path().join("other.img")).unwrap();
        assert_eq!(marks_for(4096, 2), None);
        std::fs::write(&disk, [0; 4096]).unwrap();
        assert!(!before.is_at(&medium().unwrap()), "another file under the same name");
        save(&path, 7, None, 4096, &marks()).unwrap();
        assert_eq!(Seal::load(&path).unwrap().marks(None, 4096, 2), None, "nobody can tell");
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(Seal::load(&path), None);
    }

    #[test]
    fn contents_are_told_apart_over_lives() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("image");
        let in_life = |life| content(disk.to_str().unwrap(), None, life);
        std::fs::write(&disk, [0; 4096]).unwrap();
        let first = in_life(1);
        assert_eq!(in_life(2), first);
        let other = dir.path().join("other");
        std::fs::write(&other, [0; 4096]).unwrap();
        std::fs::rename(&other, &disk).unwrap();
        assert_ne!(in_life(2), first, "another image under the old name");
        let far = |version, life| content("https://host/image", version, life);
        assert_ne!(far(None, 1), far(None, 2), "nobody can tell");
        assert_eq!(far(Some("\"a\""), 1), far(Some("\"a\""), 2));
        assert_ne!(far(Some("\"a\""), 1), far(Some("\"b\""), 1));
        assert_ne!(far(Some("\"a\""), 1), content("https://host/other", Some("\"a\""), 1));
    }

    /// A store through a mapping that was there before.
    #[test]
    fn a_mapping_leaves_a_mark() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        let kind =
            std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(dir.path()).output().unwrap();
        if kind.stdout.starts_with(b"tmpfs") {
            eprintln!("skipped: tmpfs keeps no times of stores through mappings");
            return;
        }
        std::fs::write(&disk, [0; 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&disk).unwrap();
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping of a file that stays as long as it is.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        // SAFETY: it is mapped, writable, and nobody else's.
        let store = |byte| unsafe { page.cast::<u8>().write_volatile(byte) };
        store(1);
        let medium = || Medium::of(disk.to_str().unwrap(), "boot").unwrap().unwrap();
        let before = medium();
        assert_eq!(medium(), before);
        // Times have a grain.
        std::thread::sleep(std::time::Duration::from_millis(20));
        store(2);
        assert_ne!(medium(), before);
        // SAFETY: it is not used any more.
        unsafe { libc::munmap(page, 4096) };
    }

    fn losetup(arguments: &[&str]) -> Option<String> {
        let done = std::process::Command::new("losetup").args(arguments).output().ok()?;
        done.status.success().then(|| String::from_utf8(done.stdout).unwrap().trim().to_owned())
    }

    #[test]
    fn a_device_is_told_by_what_it_is_and_what_was_written_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let images = ["one", "two"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
        images.iter().for_each(|image| std::fs::write(image, [0; 1 << 16]).unwrap());
        let Some(name) = losetup(&["-f", "--show", &images[0]]) else {
            return eprintln!("skipped: no loop device is to be had");
        };
        assert_eq!(Medium::of(&name, "boot").unwrap(), None, "the file below it can be written");
        let directory = Path::new("/sys/class/block").join(name.trim_start_matches("/dev/"));
        let about = |directory: &Path| {
            let sequence = directory.join("diskseq");
            Medium::device(7, directory, Some(&sequence), "boot").unwrap()
        };
        let before = about(&directory);
        let mut device = File::options().write(true).open(&name).unwrap();
        device.write_all(&[1; 4096]).unwrap();
        device.sync_all().unwrap();
        let written = about(&directory);
        assert_ne!(written, before);
        drop(device);
        losetup(&["-d", &name]).unwrap();
        losetup(&[&name, &images[1]]).unwrap();
        let (other, told) = (about(&directory), |medium: &Medium| match *medium {
            Medium::Device { sequence, sectors, .. } => (sequence.unwrap(), sectors),
            Medium::File { .. } => unreachable!("a device"),
        });
        assert_ne!(told(&other), told(&written), "another image");
        losetup(&["-d", &name]).unwrap();
    }

    #[test]
    fn a_medium_of_another_version_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.marks");
        save(&path, 7, None, 4096, &marks()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (bytes, _) = bytes.split_last_chunk::<4>().unwrap();
        let mut before = br#"{"device":{"device":7,"written":9,"boot":"boot"}}"#.to_vec();
        let length = (before.len() as u32).to_le_bytes();
        before = [&bytes[..16], &length, &before, &bytes[16 + 4 + b"null".len()..]].concat();
        before.extend(crc32fast::hash(&before).to_le_bytes());
        let seal = Seal::decode(&before).unwrap();
        assert_eq!((seal.persistence, seal.medium), (7, None), "it was sealed");
    }

    /// Every prefix, every flipped bit, and every flipped bit behind a checksum that agrees: an answer, no panic, and no more
    /// memory than the file has bytes for.
    #[test]
    fn damaged_bytes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.marks");
        save(&path, 7, Medium::of("/proc/self/exe", "boot").unwrap().as_ref(), 4096, &marks()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for end in 0..whole.len() {
            assert_eq!(Seal::decode(&whole[..end]), None, "{end} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Seal::decode(&damaged), None, "bit {bit}");
            let (bytes, sum) = damaged.split_last_chunk_mut::<4>().unwrap();
            *sum = crc32fast::hash(bytes).to_le_bytes();
            let _ = Seal::decode(&damaged);
        }
        let bytes = encode(4096, &marks());
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], 4096, 2), None, "{end} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(decode(&damaged, 4096, 2), Some(marks()), "bit {bit}");
        }
    }
}
