//! What is on a device already, as far as its first and last bytes tell.

use cards_layout::format::{MAGIC, Slot, Superblock, UNIT};

/// Bytes at each end of the device that are looked at.
pub(super) const LOOKED_AT: usize = 1 << 20;

/// Magic numbers by their offset from the start. A protective partition table and boot sectors end like a partition table, so
/// that comes last.
const HEAD: &[(&str, usize, &[u8])] = &[
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 65_600, b"_BHRfS_M"),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an OCFS2 file system", 1024, b"OCFSV2"),
    ("an OCFS2 file system", 2048, b"OCFSV2"),
    ("an OCFS2 file system", 4096, b"OCFSV2"),
    ("an OCFS2 file system", 8192, b"OCFSV2"),
    ("a GFS2 file system", 65_536, &[0x01, 0x16, 0x19, 0x70]),
    ("a JFS file system", 32_768, b"JFS1"),
    ("a ReiserFS file system", 65_588, b"ReIsEr"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("an EROFS file system", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("an ISO 9660 file system", 32_769, b"CD001"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 82, b"FAT32   "),
    ("a FAT file system", 54, b"FAT1"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 4086, b"SWAP-SPACE"),
    ("an image of a suspended machine", 4086, b"S1SUSPEND"),
    ("a member of an md array", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a member of an md array", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1024, b"LABELONE"),
    ("an LVM physical volume", 1536, b"LABELONE"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS volume", 16_384, b"SKUL\xba\xbe"),
    (
        "a bcache device",
        4120,
        &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81],
    ),
    ("a disk of Ceph", 0, b"bluestore block device"),
    ("a qcow2 image", 0, b"QFI\xfb"),
    ("a VMDK image", 0, b"KDMV"),
    ("a VHDX image", 0, b"vhdxfile"),
    ("an MBR partition table or a boot sector", 510, &[0x55, 0xaa]),
];

const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];

/// Where the magic numbers are that are counted from the end of a device of `size` bytes.
fn tail(size: u64) -> [(&'static str, Option<u64>, &'static [u8]); 5] {
    let back = |from: u64, by: u64| from.checked_sub(by);
    [
        ("the copy of a GPT partition table at its end", back(size, 512), b"EFI PART"),
        ("the copy of a GPT partition table at its end", back(size, 4096), b"EFI PART"),
        ("a member of an md array (0.90)", back(size & !0xffff, 0x1_0000), MD),
        ("a member of an md array (1.0)", back(size / 512, 16).map(|sector| (sector & !7) * 512), MD),
        // Internal metadata of DRBD end the device; the last byte of the magic is the version.
        ("metadata of DRBD at its end", back(size & !4095, 4096).map(|at| at + 60), &[0x83, 0x74, 0x02]),
    ]
}

/// What a device of `size` bytes has on it that begins with `head` and ends with `end`, each of [`LOOKED_AT`] bytes or the whole
/// device; none if all of these bytes are zero.
pub(super) fn find(head: &[u8], end: &[u8], size: u64) -> Option<String> {
    if let Some(ours) = managed(head) {
        return Some(ours);
    }
    let has =
        |bytes: &[u8], at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|bytes| bytes.starts_with(magic));
    if let Some((what, ..)) = HEAD.iter().find(|(_, at, magic)| has(head, *at, magic)) {
        return Some((*what).into());
    }
    let end_at = size - end.len() as u64;
    for (what, at, magic) in tail(size) {
        let inside = at.and_then(|at| at.checked_sub(end_at)).and_then(|at| usize::try_from(at).ok());
        if inside.is_some_and(|at| has(end, at, magic)) {
            return Some(what.into());
        }
    }
    let not_zero = |bytes: &[u8]| bytes.iter().position(|byte| *byte != 0).map(|at| at as u64);
    let at = not_zero(head).or_else(|| not_zero(end).map(|at| end_at + at))?;
    Some(format!("data that are not known (byte {at} is not zero)"))
}

/// A managed disk, whole or damaged.
fn managed(head: &[u8]) -> Option<String> {
    let pages = Slot::BOTH.into_iter().zip(cards_layout::format::SUPERBLOCKS).filter_map(|(slot, at)| {
        let page: &[u8; UNIT] = head.get(usize::try_from(at).ok()?..)?.first_chunk()?;
        Some((slot, page))
    });
    let pages: Vec<_> = pages.filter(|(_, page)| page.starts_with(&MAGIC)).collect();
    let known = pages.iter().find_map(|(slot, page)| Superblock::decode(page, *slot).ok());
    match known {
        Some(disk) => Some(format!("a managed disk of CARDs, {} ({})", disk.name, disk.disk)),
        None if pages.is_empty() => None,
        None => Some("a damaged managed disk of CARDs, or one of a newer version".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 4 << 20;

    fn found(bytes: &[u8]) -> Option<String> {
        find(&bytes[..LOOKED_AT], &bytes[bytes.len() - LOOKED_AT..], bytes.len() as u64)
    }

    #[test]
    fn each_signature_is_found_alone() {
        assert_eq!(found(&vec![0; SIZE]), None);
        for (what, at, magic) in HEAD {
            let mut bytes = vec![0; SIZE];
            bytes[*at..at + magic.len()].copy_from_slice(magic);
            assert_eq!(found(&bytes).as_deref(), Some(*what));
        }
        for size in [SIZE, SIZE + 512, SIZE + 0x1_8200] {
            for (what, at, magic) in tail(size as u64) {
                let mut bytes = vec![0; size];
                let at = usize::try_from(at.unwrap()).unwrap();
                bytes[at..at + magic.len()].copy_from_slice(magic);
                assert_eq!(found(&bytes).as_deref(), Some(what), "{size}");
            }
        }
    }

    #[test]
    fn unknown_data_are_found_where_they_begin() {
        for at in [0, LOOKED_AT - 1, SIZE - LOOKED_AT, SIZE - 1] {
            let mut bytes = vec![0; SIZE];
            bytes[at] = 7;
            assert_eq!(found(&bytes).unwrap(), format!("data that are not known (byte {at} is not zero)"));
        }
    }

    #[test]
    fn a_damaged_superblock_is_known_by_how_it_begins() {
        let mut bytes = vec![0; SIZE];
        bytes[65_536..65_544].copy_from_slice(&MAGIC);
        assert_eq!(found(&bytes).unwrap(), "a damaged managed disk of CARDs, or one of a newer version");
    }

    #[test]
    fn the_smallest_device_is_its_own_head_and_end() {
        for size in [0, 1, 511, 512, 70_000] {
            assert_eq!(find(&vec![0; size], &vec![0; size], size as u64), None, "{size}");
        }
    }
}
