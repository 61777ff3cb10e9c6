//! A group's way: acquired part by part, held, perhaps downgraded, given up.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use cards_core::rendezvous::RegionId;
use cards_core::{Duration, Instant};

use super::{ClientOutput, Group, LockClient, Piece, Stage, Wait, Want};
use crate::error::LockError;
use crate::fence::Fence;
use crate::message::{GroupKey, LockBody};
use crate::range::{LockRange, Locked, Mode};
use crate::request::checked;

impl LockClient {
    pub(super) fn acquire(&mut self, id: u64, wants: &[Want], wait: Wait) {
        match self.new_group(id, wants, wait) {
            Ok(group) => {
                self.last_group = Some(id);
                self.groups.insert(id, group);
                self.send_group(id);
            }
            Err(error) => self.outputs.push_back(ClientOutput::Refused { group: id, error }),
        }
    }

    fn new_group(&self, id: u64, wants: &[Want], wait: Wait) -> Result<Group, LockError> {
        if self.last_group.is_some_and(|last| id <= last) {
            return Err(LockError::Exists);
        }
        if self.groups.len() >= self.config.groups {
            return Err(LockError::TooManyGroups { limit: self.config.groups });
        }
        let parts = split(wants, self.config.region_size.max(1), self.config.parts)?;
        let until = match wait {
            Wait::Try | Wait::Forever => Instant::NEVER,
            Wait::Until(until) => until,
        };
        let stage = Stage::Acquiring { next: 0, until, try_only: wait == Wait::Try };
        Ok(Group { parts, stage, resend_at: self.now })
    }

    /// From now on the session believes that it reads only. The homes hear of it with the next renewal, which says
    /// how everything is held; it is repeated until they have.
    pub(super) fn downgrade(&mut self, id: u64) {
        let last = self.last_sequence;
        let Some(group) = self.groups.get_mut(&id).filter(|group| group.stage == Stage::Held) else { return };
        for piece in &mut group.parts {
            if piece.ranges.iter().any(|locked| locked.mode == Mode::Write) {
                piece.ranges.iter_mut().for_each(|locked| locked.mode = Mode::Read);
                piece.downgraded = Some(last);
            }
        }
        if group.is_known() {
            self.outputs.push_back(ClientOutput::Downgraded { group: id });
        } else {
            self.send_renew();
        }
    }

    pub(super) fn release(&mut self, id: u64) {
        let tell_again = match self.groups.get_mut(&id).map(|group| &mut group.stage) {
            // It was lost or refused meanwhile.
            Some(Stage::Releasing { tell, .. }) => {
                *tell = true;
                true
            }
            Some(Stage::Acquiring { .. } | Stage::Held) => false,
            None => {
                self.outputs.push_back(ClientOutput::Released { group: id });
                true
            }
        };
        if !tell_again {
            self.begin_release(id, true);
        }
    }

    /// The group cannot be had, or not any more.
    pub(super) fn give_up(&mut self, id: u64, error: LockError) {
        let Some(group) = self.groups.get(&id) else { return };
        let output = match group.stage {
            Stage::Acquiring { .. } => ClientOutput::Refused { group: id, error },
            Stage::Held => ClientOutput::Lost { group: id },
            Stage::Releasing { .. } => return,
        };
        self.outputs.push_back(output);
        self.begin_release(id, false);
    }

    fn begin_release(&mut self, id: u64, tell: bool) {
        let until = self.now + self.config.lease;
        if let Some(group) = self.groups.get_mut(&id) {
            group.stage = Stage::Releasing { until, tell };
            group.parts.retain(|piece| piece.asked);
        }
        self.send_group(id);
        self.forget_if_released(id);
    }

    pub(super) fn granted(
        &mut self,
        id: u64,
        region: RegionId,
        token: Fence,
        sent: Instant,
        lease: Duration,
    ) {
        let now = self.now;
        let Some(group) = self.groups.get_mut(&id) else { return };
        let Stage::Acquiring { next, until: deadline, try_only } = group.stage else { return };
        let awaited = group.parts.get_mut(next).filter(|piece| piece.region == region && sent + lease > now);
        let Some(piece) = awaited else { return };
        piece.token = Some(token);
        piece.renew_at = sent;
        piece.renew(sent, lease);
        let next = next + 1;
        if next == group.parts.len() {
            group.stage = Stage::Held;
            self.outputs.push_back(ClientOutput::Granted { group: id });
        } else {
            group.stage = Stage::Acquiring { next, until: deadline, try_only };
            self.send_group(id);
        }
    }

    pub(super) fn refused(&mut self, id: u64, region: RegionId, error: LockError) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if let Stage::Acquiring { next, .. } = group.stage
            && group.parts.get(next).is_some_and(|piece| piece.region == region)
        {
            if let Some(piece) = group.parts.get_mut(next) {
                piece.asked = false;
            }
            self.give_up(id, error);
        }
    }

    pub(super) fn released(&mut self, id: u64, region: RegionId) {
        if let Some(group) = self.groups.get_mut(&id)
            && matches!(group.stage, Stage::Releasing { .. })
        {
            group.parts.retain(|piece| piece.region != region);
            self.forget_if_released(id);
        }
    }

    fn forget_if_released(&mut self, id: u64) {
        if self.groups.get(&id).is_some_and(|group| group.parts.is_empty()) {
            self.forget(id);
        }
    }

    /// What a home has not heard yet, it finds out: from the next renewal, which does not name the group, or
    /// from there being none.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(Group { stage: Stage::Releasing { tell: true, .. }, .. }) = self.groups.remove(&id) {
            self.outputs.push_back(ClientOutput::Released { group: id });
        }
    }

    /// Asks for the next part, or gives all up.
    pub(super) fn send_group(&mut self, id: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.resend_at = self.now + self.config.resend;
        let key = GroupKey { session: self.config.session, group: id };
        match group.stage {
            Stage::Acquiring { next, try_only, .. } => {
                let Some(piece) = group.parts.get_mut(next) else { return };
                if !piece.asked {
                    piece.asked = true;
                    piece.renew_at = self.now + self.config.lease / 3;
                }
                let (region, ranges) = (piece.region, piece.ranges.clone());
                if let Some(home) = self.members.home(region) {
                    let beat = self.next_beat();
                    self.push_send(home, LockBody::Acquire { region, key, ranges, try_only, beat });
                }
            }
            Stage::Held => {}
            Stage::Releasing { .. } => {
                let regions: Vec<RegionId> = group.parts.iter().map(|piece| piece.region).collect();
                for region in regions {
                    if let Some(home) = self.members.home(region) {
                        let beat = self.next_beat();
                        self.push_send(home, LockBody::Release { region, key, beat });
                    }
                }
            }
        }
    }
}

/// The parts of a group: what it wants, by region.
fn split(wants: &[Want], size: u64, limit: usize) -> Result<Vec<Piece>, LockError> {
    let mut regions: BTreeMap<RegionId, Vec<Locked>> = BTreeMap::new();
    let mut given: u64 = 0;
    for Want { volume, locked: Locked { range, mode } } in wants {
        let (first, last) = (range.start() / size, (range.end() - 1) / size);
        if last > u64::from(u32::MAX) {
            return Err(LockError::OutsideRegion { range: *range });
        }
        given += last - first + 1;
        if given > limit as u64 {
            return Err(LockError::TooManyRanges { given: given as usize, limit });
        }
        for index in first..=last {
            let region = RegionId { volume: *volume, index: index as u32 };
            let whole = LockRange::new(index * size, (index + 1).saturating_mul(size));
            let inside = whole.and_then(|whole| range.intersection(whole));
            regions.entry(region).or_default().extend(inside.map(|range| Locked { range, mode: *mode }));
        }
    }
    if regions.is_empty() {
        return Err(LockError::NoRanges);
    }
    let piece = |(region, ranges): (RegionId, Vec<Locked>)| {
        let ranges = checked(&ranges, limit)?;
        Ok(Piece {
            region,
            ranges,
            asked: false,
            token: None,
            until: Instant(0),
            renew_at: Instant(0),
            downgraded: None,
        })
    };
    regions.into_iter().map(piece).collect()
}
