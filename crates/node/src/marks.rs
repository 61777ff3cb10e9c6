//! What a daemon that stops clean leaves for the next one: when each region of its disks was written last. Caches of the
//! whole cluster stay warm over an upgrade with it.
//!
//! The file `DISK@NODE@CLUSTER.marks` lies beside the disk's journal, which names its checksum and what the medium looked
//! like when the daemon let go of it: whatever else was written to it since makes the file worthless. It is binary, little
//! endian: [`MAGIC`], block size in bytes (u32), shards (u16); for each shard the limit in regions that are not listed
//! (u64), their number (u32), and for each its number (u32), base (u64), segments (u64), version (u64); see
//! `docs/internals/coherence.md`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use cards_core::{Bounds, Marks, Stamp};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"CARDSmk1";
/// Longest file that is read, in bytes: 65,536 regions in each of 32 shards.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What a journal says of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    /// Of all bytes of the file.
    crc: u32,
    medium: Medium,
}

/// What tells whether somebody else has written a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Medium {
    /// A file: where it is, its length, and the times of the last changes of its bytes and of itself, in nanoseconds.
    File { device: u64, inode: u64, length: u64, changed: (i64, i64), touched: (i64, i64) },
    /// A block device: the sectors that were written to it since the machine was started.
    Device { device: u64, written: u64, boot: String },
}

impl Medium {
    /// None for what cannot be told, such as an NBD origin.
    pub(crate) fn of(disk: &str, boot: &str) -> Option<Self> {
        let about = std::fs::metadata(disk).ok()?;
        if about.file_type().is_file() {
            return Some(Self::File {
                device: about.dev(),
                inode: about.ino(),
                length: about.len(),
                changed: (about.mtime(), about.mtime_nsec()),
                touched: (about.ctime(), about.ctime_nsec()),
            });
        }
        if !about.file_type().is_block_device() {
            return None;
        }
        let device = about.rdev();
        let (major, minor) = (libc::major(device), libc::minor(device));
        let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        let written = stat.split_ascii_whitespace().nth(6)?.parse().ok()?;
        Some(Self::Device { device, written, boot: boot.into() })
    }
}

/// A number for what is on a disk that nobody can write here: the same as long as nobody else writes it either. One of this
/// life of the node where nobody can tell.
pub(crate) fn content(disk: &str, incarnation: u64) -> u64 {
    let medium = super::journal::boot_id().ok().and_then(|boot| Medium::of(disk, &boot));
    let told = medium.map_or_else(|| incarnation.to_string(), |medium| format!("{medium:?}"));
    told.bytes().fold(1, |known, byte| cards_core::mix(known ^ u64::from(byte)))
}

/// Writes the file for the shards of one disk's volume, in their order, durably.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn save(path: &Path, block: u32, shards: &[Marks], medium: Medium) -> io::Result<Seal> {
    let bytes = encode(block, shards);
    super::journal::replace(path, &bytes)?;
    Ok(Seal { crc: crc32fast::hash(&bytes), medium })
}

/// Reads the file, if it is the one that the journal names and nobody has written the disk since.
pub(crate) fn load(
    path: &Path,
    seal: &Seal,
    medium: Option<&Medium>,
    block: u32,
    shards: u16,
) -> Option<Vec<Marks>> {
    if medium != Some(&seal.medium) {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    if crc32fast::hash(&bytes) != seal.crc {
        return None;
    }
    decode(&bytes, block, shards)
}

fn encode(block: u32, shards: &[Marks]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(block.to_le_bytes());
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
    let fits = take(bytes)? == *MAGIC
        && u32::from_le_bytes(take(bytes)?) == block
        && u16::from_le_bytes(take(bytes)?) == shards;
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
        let medium = || Medium::of(disk.to_str().unwrap(), "boot");
        let seal = save(&path, 4096, &marks(), medium().unwrap()).unwrap();
        let load = |block, shards| load(&path, &seal, medium().as_ref(), block, shards);
        assert_eq!(load(4096, 2), Some(marks()));
        assert_eq!((load(65_536, 2), load(4096, 4)), (None, None), "other blocks, other shards");
        std::fs::write(&disk, [1; 4096]).unwrap();
        assert_eq!(load(4096, 2), None, "somebody has written the disk");
        std::fs::remove_file(&disk).unwrap();
        assert_eq!(load(4096, 2), None);
    }

    #[test]
    fn contents_are_told_apart_over_lives() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("image");
        let in_life = |life| content(disk.to_str().unwrap(), life);
        std::fs::write(&disk, [0; 4096]).unwrap();
        let first = in_life(1);
        assert_eq!(in_life(2), first);
        let other = dir.path().join("other");
        std::fs::write(&other, [0; 4096]).unwrap();
        std::fs::rename(&other, &disk).unwrap();
        assert_ne!(in_life(2), first, "another image under the old name");
        assert_ne!(content("nbd://host/export", 1), content("nbd://host/export", 2), "nobody can tell");
    }

    /// Every prefix, and every flipped bit behind a checksum that agrees: an answer, no panic, and no more memory than the file
    /// has bytes for.
    #[test]
    fn damaged_bytes_are_refused() {
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
