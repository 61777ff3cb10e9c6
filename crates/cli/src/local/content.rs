//! What a volume holds, by the magic numbers of its first bytes.

use super::filesystem::FileSystem;

/// How much of a volume's beginning [`look`] needs, in bytes; less if the volume is smaller.
pub(crate) const HEAD_BYTES: usize = 128 << 10;

/// What a volume begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file system that can be mounted from here.
    FileSystem(Found),
    /// Something else that is known by name, and what to do with it.
    Other {
        /// What it is, with its article.
        what: &'static str,
        /// The way to use it.
        remedy: &'static str,
    },
    /// Zeroes: nothing was ever written.
    Empty,
    /// Nothing that is known here.
    Unknown,
}

/// A file system, and the state it was left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its kind.
    pub(crate) kind: FileSystem,
    /// Its journal holds changes that are not in place yet: it is mounted somewhere, or was not unmounted.
    pub(crate) unclean: bool,
}

/// Something that is no file system: where its magic number is, in bytes, and what to do.
struct Sign(usize, &'static [u8], &'static str, &'static str);

const PARTITIONS: &str =
    "attach it with --block, let `partx --add` find the partitions, and mount one of them";
const BY_HAND: &str =
    "attach it with --block --mode exclusive and mount the block device by hand, at one node only";

/// In the order in which they are looked for: a disk with a partition table may hold the rest of something older.
const SIGNS: [Sign; 12] = [
    Sign(
        0,
        b"LUKS\xba\xbe",
        "an encrypted disk (LUKS)",
        "attach it with --block and open it with cryptsetup",
    ),
    Sign(512, b"LABELONE", "an LVM physical volume", "attach it with --block and activate it with vgchange"),
    Sign(4096, b"\xfc\x4e\x2b\xa9", "a member of an md array", "attach it with --block and use mdadm"),
    Sign(4086, b"SWAPSPACE2", "swap space", "attach it with --block --mode exclusive and use swapon"),
    Sign(1024, b"\x10\x20\xf5\xf2", "an f2fs file system", BY_HAND),
    Sign(3, b"NTFS    ", "an NTFS file system", BY_HAND),
    Sign(3, b"EXFAT   ", "an exFAT file system", BY_HAND),
    Sign(54, b"FAT", "a FAT file system", BY_HAND),
    Sign(82, b"FAT32", "a FAT file system", BY_HAND),
    Sign(512, b"EFI PART", "a GPT partition table", PARTITIONS),
    Sign(4096, b"EFI PART", "a GPT partition table", PARTITIONS),
    Sign(510, b"\x55\xaa", "a partition table", PARTITIONS),
];

/// Says what a volume holds that begins with `head`, its first [`HEAD_BYTES`].
pub(crate) fn look(head: &[u8]) -> Content {
    if let Some(found) = file_system(head) {
        return Content::FileSystem(found);
    }
    for Sign(offset, magic, what, remedy) in SIGNS {
        if has(head, offset, magic) {
            return Content::Other { what, remedy };
        }
    }
    if head.iter().all(|&byte| byte == 0) { Content::Empty } else { Content::Unknown }
}

fn file_system(head: &[u8]) -> Option<Found> {
    let clean = |kind| Some(Found { kind, unclean: false });
    if has(head, 0, b"XFSB") {
        return clean(FileSystem::Xfs);
    }
    if has(head, 0, b"hsqs") {
        return clean(FileSystem::Squashfs);
    }
    if has(head, 1024, &0xe0f5_e1e2_u32.to_le_bytes()) {
        return clean(FileSystem::Erofs);
    }
    if let Some(found) = extended(head) {
        return Some(found);
    }
    // The superblock is in the third block, and a block has 512 bytes to 4 KiB.
    if [1024, 2048, 4096, 8192].into_iter().any(|offset| has(head, offset, b"OCFSV2")) {
        return clean(FileSystem::Ocfs2);
    }
    // The magic number, and the type of a superblock.
    if has(head, 64 << 10, &0x0116_1970_u32.to_be_bytes()) && has(head, (64 << 10) + 4, &1_u32.to_be_bytes())
    {
        return clean(FileSystem::Gfs2);
    }
    if has(head, (64 << 10) + 64, b"_BHRfS_M") {
        return clean(FileSystem::Btrfs);
    }
    if has(head, (32 << 10) + 1, b"CD001") {
        return clean(FileSystem::Iso9660);
    }
    None
}

/// Extended file systems: which of the three, by the features that only the later ones have.
fn extended(head: &[u8]) -> Option<Found> {
    const SUPER: usize = 1024;
    const HAS_JOURNAL: u32 = 0x4;
    const NEEDS_RECOVERY: u32 = 0x4;
    const IS_JOURNAL: u32 = 0x8;
    // Filetype, recovery, journal device, meta block groups.
    const INCOMPATIBLE_OF_EXT3: u32 = 0x2 | 0x4 | 0x8 | 0x10;
    // Sparse superblocks, large files, binary trees.
    const READ_ONLY_OF_EXT3: u32 = 0x1 | 0x2 | 0x4;
    if !has(head, SUPER + 0x38, &0xef53_u16.to_le_bytes()) {
        return None;
    }
    let compatible = number(head, SUPER + 0x5c)?;
    let incompatible = number(head, SUPER + 0x60)?;
    let read_only = number(head, SUPER + 0x64)?;
    if incompatible & IS_JOURNAL != 0 {
        return None;
    }
    let kind = if incompatible & !INCOMPATIBLE_OF_EXT3 != 0 || read_only & !READ_ONLY_OF_EXT3 != 0 {
        FileSystem::Ext4
    } else if compatible & HAS_JOURNAL != 0 {
        FileSystem::Ext3
    } else {
        FileSystem::Ext2
    };
    Some(Found { kind, unclean: incompatible & NEEDS_RECOVERY != 0 })
}

fn has(head: &[u8], offset: usize, magic: &[u8]) -> bool {
    head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
}

fn number(head: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*head.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A beginning with `bytes` at each offset.
    fn head(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        for (offset, bytes) in parts {
            head[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    fn kind(parts: &[(usize, &[u8])]) -> Option<FileSystem> {
        match look(&head(parts)) {
            Content::FileSystem(found) => Some(found.kind),
            _ => None,
        }
    }

    #[test]
    fn file_systems_are_known_by_their_magic_numbers() {
        for (offset, magic, expected) in [
            (0, &b"XFSB"[..], FileSystem::Xfs),
            (0, b"hsqs", FileSystem::Squashfs),
            (1024, b"\xe2\xe1\xf5\xe0", FileSystem::Erofs),
            (1024, b"OCFSV2", FileSystem::Ocfs2),
            (8192, b"OCFSV2", FileSystem::Ocfs2),
            (65536, b"\x01\x16\x19\x70\0\0\0\x01", FileSystem::Gfs2),
            (65600, b"_BHRfS_M", FileSystem::Btrfs),
            (32769, b"CD001", FileSystem::Iso9660),
        ] {
            assert_eq!(kind(&[(offset, magic)]), Some(expected));
        }
    }

    #[test]
    fn the_extended_file_systems_are_told_apart_by_features() {
        let with = |compatible: u32, incompatible: u32, read_only: u32| {
            look(&head(&[
                (1080, &0xef53_u16.to_le_bytes()),
                (1116, &compatible.to_le_bytes()),
                (1120, &incompatible.to_le_bytes()),
                (1124, &read_only.to_le_bytes()),
            ]))
        };
        let found = |kind, unclean| Content::FileSystem(Found { kind, unclean });
        assert_eq!(with(0x38, 0x2, 0x3), found(FileSystem::Ext2, false));
        assert_eq!(with(0x3c, 0x2, 0x3), found(FileSystem::Ext3, false));
        assert_eq!(with(0x3c, 0x6, 0x3), found(FileSystem::Ext3, true));
        assert_eq!(with(0x3c, 0x2c2, 0x46b), found(FileSystem::Ext4, false));
        assert_eq!(with(0x3c, 0x2c6, 0x46b), found(FileSystem::Ext4, true));
        assert_eq!(with(0, 0x8, 0), Content::Unknown, "a journal of another file system");
    }

    #[test]
    fn a_bootable_image_of_a_cd_is_no_partition_table() {
        assert_eq!(kind(&[(510, b"\x55\xaa"), (32769, b"CD001")]), Some(FileSystem::Iso9660));
    }

    #[test]
    fn what_cannot_be_mounted_is_named_with_what_to_do() {
        for Sign(offset, magic, what, _) in SIGNS {
            let Content::Other { what: seen, remedy } = look(&head(&[(offset, magic)])) else {
                panic!("{what} is not seen")
            };
            assert_eq!(seen, what);
            assert!(remedy.contains("--block"), "{remedy}");
        }
    }

    #[test]
    fn nothing_and_nonsense_are_told_apart() {
        assert_eq!(look(&head(&[])), Content::Empty);
        assert_eq!(look(&[]), Content::Empty);
        assert_eq!(look(&head(&[(77, b"x")])), Content::Unknown);
    }

    #[test]
    fn any_beginning_is_looked_at_however_short() {
        let whole = head(&[(1080, &0xef53_u16.to_le_bytes())]);
        for length in (0..1200).chain([65536, 65540, HEAD_BYTES]) {
            look(&whole[..length]);
        }
    }
}
