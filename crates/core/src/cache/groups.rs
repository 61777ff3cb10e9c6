//! The placement groups that blocks of a cache are of, by numbers of two bytes: all tables may cost at most 36 bytes per
//! cached block.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::PgId;

/// See the module's head. A number is never used for another group: there are as many numbers as groups of plain disks.
#[derive(Default)]
pub(super) struct Groups {
    ids: Vec<PgId>,
    numbers: BTreeMap<PgId, u16>,
}

impl Groups {
    pub(super) fn number(&mut self, id: PgId) -> u16 {
        let ids = &mut self.ids;
        *self.numbers.entry(id).or_insert_with(|| {
            let number = u16::try_from(ids.len()).expect("a node knows at most 65,536 groups");
            ids.push(id);
            number
        })
    }

    pub(super) fn id(&self, number: u16) -> PgId {
        self.ids.get(usize::from(number)).copied().unwrap_or(PgId(u32::MAX))
    }
}
