//! The file systems that can be mounted from a volume, and what each needs so that nothing is corrupted.

use cards_config::Mode;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    Ext2,
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
    Squashfs,
    Erofs,
    Iso9660,
    Ocfs2,
    Gfs2,
}

impl FileSystem {
    /// Its name for `mount -t`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
            Self::Iso9660 => "iso9660",
            Self::Ocfs2 => "ocfs2",
            Self::Gfs2 => "gfs2",
        }
    }

    /// Several nodes may write it at once: it locks and keeps its metadata coherent by itself.
    pub(crate) const fn is_clustered(self) -> bool {
        matches!(self, Self::Ocfs2 | Self::Gfs2)
    }

    /// Nobody ever writes it.
    pub(crate) const fn is_read_only(self) -> bool {
        matches!(self, Self::Squashfs | Self::Erofs | Self::Iso9660)
    }

    /// The card a mount needs. A file system that knows of no other node is written by one node, and by that one
    /// only while nobody else has a card (CARD-15).
    pub(crate) const fn mode(self, read_only: bool) -> Mode {
        if self.is_clustered() {
            Mode::Rw
        } else if read_only || self.is_read_only() {
            Mode::Ro
        } else {
            Mode::Exclusive
        }
    }

    /// Mount options that keep a read-only mount from writing: without them the journal would be replayed, onto a
    /// device that takes no writes.
    pub(crate) const fn read_only_options(self) -> &'static [&'static str] {
        match self {
            Self::Ext3 | Self::Ext4 => &["ro", "noload"],
            Self::Xfs => &["ro", "norecovery"],
            Self::Btrfs => &["ro", "rescue=nologreplay"],
            Self::Ext2 | Self::Squashfs | Self::Erofs | Self::Iso9660 | Self::Ocfs2 | Self::Gfs2 => &["ro"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_made_for_it_are_written_at_several_nodes() {
        for kind in [FileSystem::Ext2, FileSystem::Ext3, FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs]
        {
            assert_eq!((kind.mode(false), kind.mode(true)), (Mode::Exclusive, Mode::Ro));
        }
        for kind in [FileSystem::Squashfs, FileSystem::Erofs, FileSystem::Iso9660] {
            assert_eq!((kind.mode(false), kind.mode(true)), (Mode::Ro, Mode::Ro));
        }
        for kind in [FileSystem::Ocfs2, FileSystem::Gfs2] {
            assert_eq!(kind.mode(false), Mode::Rw);
        }
    }

    #[test]
    fn a_read_only_mount_replays_no_journal() {
        assert_eq!(FileSystem::Ext4.read_only_options(), ["ro", "noload"]);
        assert_eq!(FileSystem::Xfs.read_only_options(), ["ro", "norecovery"]);
    }
}
