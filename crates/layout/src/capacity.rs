//! How large a volume of a placement can be.

use alloc::vec::Vec;
use core::fmt;

use crate::layout::Layout;
use crate::placement::{Disk, Placement};
use crate::text::Bytes;

/// What the disks of a placement have room for, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Pieces of all disks.
    pub space: u64,
    /// The largest volume.
    pub volume: u64,
    /// A column of each group, whole pieces.
    pub columns: Vec<u64>,
    /// Kept free on all disks together, for the columns of a disk that is lost.
    pub spare: u64,
    /// What no column of this placement can use, on each disk.
    pub idle: Vec<u64>,
}

/// No disk is left for the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CapacityError {
    /// As many disks are to be kept free as there are.
    Spare {
        /// How many are to be kept free.
        spare: usize,
        /// How many there are.
        disks: usize,
    },
    /// A disk has less room than a piece for each of its columns.
    TooSmall {
        /// The disk.
        disk: alloc::string::String,
        /// Bytes of its pieces, without what is kept free.
        space: u64,
        /// Columns on it.
        columns: u64,
        /// Bytes of the smallest column.
        piece: u64,
    },
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spare { spare, disks } => {
                write!(
                    f,
                    "the space of {spare} disks is to be kept free, and there are {disks}; keep less free, or add disks"
                )
            }
            Self::TooSmall { disk, space, columns, piece } => write!(
                f,
                "disk {disk} has {} for {columns} columns of at least {}; leave it out, or use fewer groups",
                Bytes(*space),
                Bytes(*piece)
            ),
        }
    }
}

impl core::error::Error for CapacityError {}

/// The disks' worth of space that a layout keeps free unless asked for otherwise: one where the columns of a lost disk can go to
/// the others.
#[must_use]
pub fn spare_default(placement: &Placement, disks: usize) -> usize {
    match placement.layout {
        Layout::Linear | Layout::Raid0 | Layout::Raid1 { .. } => 0,
        Layout::Raid10 { .. } | Layout::Raid5 { .. } | Layout::Raid6 { .. } => {
            usize::from(disks > usize::from(placement.shape.width()))
        }
    }
}

impl Placement {
    /// The room for a volume when the space of `spare` disks is kept free, the same share of each.
    ///
    /// # Errors
    /// There is no room.
    pub fn capacity(&self, disks: &[Disk], spare: usize) -> Result<Capacity, CapacityError> {
        if spare >= disks.len() {
            return Err(CapacityError::Spare { spare, disks: disks.len() });
        }
        // Columns of striped groups have one size, so they are whole pieces of the disk with the largest.
        let unit = disks.iter().map(|disk| disk.piece).max().unwrap_or(1);
        let keep = (disks.len() - spare) as u128;
        let free = |disk: &Disk| (u128::from(disk.space) * keep / disks.len() as u128) as u64;
        let counts = self.columns(disks.len());
        let used = disks.iter().zip(&counts).filter(|(_, columns)| **columns > 0);
        let mut column = u64::MAX;
        for (disk, columns) in used {
            let unit = if self.layout == Layout::Linear { disk.piece } else { unit };
            let most = free(disk) / columns / unit * unit;
            if most == 0 {
                let (name, space) = (disk.name.clone(), free(disk));
                return Err(CapacityError::TooSmall { disk: name, space, columns: *columns, piece: unit });
            }
            column = column.min(most);
        }
        let columns: Vec<u64> = match self.layout {
            // Each group has the whole of its disk.
            Layout::Linear => {
                let disk = |group: &crate::placement::Group| &disks[group.columns[0]];
                self.groups.iter().map(disk).map(|disk| free(disk) / disk.piece * disk.piece).collect()
            }
            _ => self.groups.iter().map(|_| column).collect(),
        };
        let mut taken = alloc::vec![0; disks.len()];
        for (group, bytes) in self.groups.iter().zip(&columns) {
            for disk in &group.columns {
                taken[*disk] += bytes;
            }
        }
        let idle = disks.iter().zip(&taken).map(|(disk, taken)| free(disk) - taken);
        Ok(Capacity {
            space: disks.iter().map(|disk| disk.space).sum(),
            volume: columns.iter().map(|bytes| bytes * u64::from(self.shape.data())).sum(),
            spare: disks.iter().map(|disk| disk.space - free(disk)).sum(),
            idle: idle.collect(),
            columns,
        })
    }
}
