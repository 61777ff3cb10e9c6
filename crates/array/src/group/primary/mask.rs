//! A set of columns.

use crate::group::map::COLUMNS_MAX;

/// Columns, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Mask(u8);

impl Mask {
    pub(super) const fn insert(&mut self, column: u8) {
        self.0 |= 1 << column;
    }

    pub(super) const fn set(&mut self, column: u8, is_in: bool) {
        self.0 = self.0 & !(1 << column) | (is_in as u8) << column;
    }

    pub(super) const fn has(self, column: u8) -> bool {
        self.0 & 1 << column != 0
    }

    pub(super) const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn columns(self) -> impl Iterator<Item = u8> {
        (0..COLUMNS_MAX as u8).filter(move |column| self.has(*column))
    }
}

impl FromIterator<u8> for Mask {
    fn from_iter<I: IntoIterator<Item = u8>>(columns: I) -> Self {
        let mut mask = Self::default();
        columns.into_iter().for_each(|column| mask.insert(column));
        mask
    }
}
