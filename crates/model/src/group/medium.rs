//! A node's disk: the one unit, and what its tables say.

use cards_array::group::{Disk, Extent, Extents, Marks, Record, Work};
use cards_layout::format::Uuid;

/// All of the group.
const ALL: Extent = Extent { offset: 0, length: 1 };

/// A disk that loses nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Medium {
    disk: Uuid,
    /// What is in place.
    pub(crate) value: u8,
    record: Record,
    marks: u64,
    /// Writes whose release has not come.
    held: u8,
    is_dirty: bool,
    is_missed: bool,
}

impl Medium {
    pub(crate) fn new(disk: Uuid) -> Self {
        let record = Record::default();
        Self { disk, value: 0, record, marks: 0, held: 0, is_dirty: false, is_missed: false }
    }

    /// What the next process finds.
    pub(crate) fn open(&mut self) -> Disk {
        self.held = self.is_dirty.into();
        let set = |is_in: bool| is_in.then_some(ALL).into_iter().collect::<Extents>();
        let (dirty, missed) = (set(self.is_dirty), set(self.is_missed));
        Disk { disk: self.disk, record: self.record, dirty, missed, marks: self.marks() }
    }

    pub(crate) const fn marks(&self) -> Marks {
        Marks(self.marks)
    }

    /// Does what the group wants done: the bytes, of a read.
    pub(crate) fn apply(&mut self, work: &Work<u8>) -> Option<u8> {
        match work {
            Work::Read { .. } => return Some(self.value),
            Work::Write { payload, missed, .. } => {
                self.held += 1;
                self.marks += u64::from(!self.is_dirty);
                self.is_dirty = true;
                self.is_missed |= missed;
                self.value = *payload;
            }
            Work::Verify { .. } => {}
            Work::Sync => self.is_dirty = self.held > 0,
            Work::SetRecord(record) => self.record = *record,
            Work::MarkMissed(missed) => self.is_missed |= !missed.is_empty(),
        }
        None
    }

    pub(crate) const fn release(&mut self) {
        self.held -= 1;
    }

    pub(crate) fn caught_up(&mut self, extents: &Extents) {
        self.is_missed &= extents.is_empty();
    }
}
