//! Checksums to the disk, and regions clean again.
//!
//! Regions that nobody has written for a while are settled together: all regions that share a page of checksums with them become
//! dirty, the pages are written, a sync makes them and all data durable, and the bits of those that were left alone meanwhile
//! are cleared. A region with a write that its group has not released is settled once, and keeps its bit: the group may have to
//! compare it with other copies.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use cards_layout::format::RegionMap;

use super::place::{Place, sum_page_at};
use super::regions::Bit;
use super::{Answer, Effect, Life, Purpose, Store, Ticket, Tuning, Wait, answer};

/// Pages that are written although their regions are in use, when there is no room for others.
const PRESSED: usize = 256;

/// A settling that is under way.
#[derive(Debug)]
pub(super) struct Settle {
    regions: BTreeSet<u64>,
    pages: BTreeSet<u64>,
    /// Writes that have not ended.
    writes: usize,
    /// [`super::Regions::turn`] when the sync began.
    turn: u64,
    /// Writes that are answered at its end.
    pub(super) healed: Vec<Ticket>,
}

impl Store {
    /// Begins to settle what can be settled.
    pub(super) fn begin_settling(&mut self, now: u64, out: &mut Vec<Effect>) {
        if self.settle.is_some() || self.life == Life::Failed {
            return;
        }
        let Tuning { hot, hot_for, settle_after, .. } = self.tuning;
        let mut regions = match (self.life, now.checked_sub(settle_after)) {
            (Life::Closing { .. }, _) => self.regions.idle(u64::MAX, 0, None),
            (_, None) => BTreeSet::new(),
            (_, Some(before)) => self.regions.idle(before, hot, now.checked_sub(hot_for)),
        };
        let sizes = *self.sizes();
        let changed = self.sums.changed();
        let of_region = |region: &u64| Place::of_region(&sizes, *region).sum_pages(&sizes);
        let mut pages: BTreeSet<u64> =
            regions.iter().flat_map(of_region).filter(|page| changed.contains(page)).collect();
        if self.sums.is_full() {
            pages.extend(changed.iter().take(PRESSED));
        }
        pages.append(&mut self.healed_pages);
        if regions.is_empty() && pages.is_empty() {
            return;
        }
        // A page that is torn makes the checksums of all its regions unknown.
        let mut durable = None;
        for page in &pages {
            for region in Place::of_sum_page(&sizes, *page).regions(&sizes) {
                let is_new = !self.regions.map.contains_key(&region);
                durable = durable.max(self.make_dirty(region));
                if is_new {
                    regions.insert(region);
                }
            }
        }
        let healed = core::mem::take(&mut self.healed);
        self.settle = Some(Settle { regions, pages, writes: 0, turn: 0, healed });
        match durable {
            Some(cycle) => self.waiting.entry(cycle).or_default().push(Wait::Settle),
            None => self.write_sums(out),
        }
    }

    /// All regions of the pages are dirty on the disk.
    pub(super) fn write_sums(&mut self, out: &mut Vec<Effect>) {
        let Some(settle) = &mut self.settle else { return };
        let pages = core::mem::take(&mut settle.pages);
        let (sizes, disk) = (*self.sizes(), self.superblock().disk.key());
        let mut writes = 0;
        for number in pages {
            let Some(page) = self.sums.page(number) else { continue };
            let (sequence, bytes) = (page.sequence, Box::new(page.encode(disk, number)));
            let io = self.io(Purpose::SettleWrite { page: number, sequence });
            out.push(Effect::WritePages { io, at: sum_page_at(&sizes, number), pages: alloc::vec![bytes] });
            writes += 1;
        }
        match &mut self.settle {
            Some(settle) if writes > 0 => settle.writes = writes,
            _ => self.sync_settled(out),
        }
    }

    pub(super) fn settle_written(&mut self, page: u64, sequence: u64, out: &mut Vec<Effect>) {
        self.sums.written(page, sequence);
        let Some(settle) = &mut self.settle else { return };
        settle.writes -= 1;
        if settle.writes == 0 {
            self.sync_settled(out);
        }
    }

    fn sync_settled(&mut self, out: &mut Vec<Effect>) {
        self.regions.turn += 1;
        if let Some(settle) = &mut self.settle {
            settle.turn = self.regions.turn;
        }
        let io = self.io(Purpose::SettleSync);
        out.push(Effect::Sync { io });
    }

    /// All that was written before the sync is durable.
    pub(super) fn settled(&mut self, out: &mut Vec<Effect>) {
        let Some(Settle { regions, turn, healed, .. }) = self.settle.take() else { return };
        healed.into_iter().for_each(|ticket| answer(ticket, Ok(Answer::Done), out));
        let sizes = *self.sizes();
        for number in regions {
            let mut pages = Place::of_region(&sizes, number).sum_pages(&sizes);
            let is_written = !pages.any(|page| self.sums.changed().contains(&page));
            let is_unsure = self.regions.unsure.contains_key(&number);
            let Some(region) = self.regions.map.get_mut(&number) else { continue };
            let is_left_alone = region.bit == Bit::Set && region.writers == 0 && region.turn < turn;
            if !is_left_alone || !is_written || is_unsure {
                continue;
            }
            if self.regions.held.contains_key(&number) {
                region.settled = true;
            } else {
                region.bit = Bit::Clearing(self.tables.set_region(RegionMap::Dirty, number, false));
            }
        }
        self.sums.shrink();
    }
}
