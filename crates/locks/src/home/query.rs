//! Who holds, who waits: for checks and for people (SIOS-11).

use alloc::vec::Vec;

use cards_core::PgId;
use cards_core::rendezvous::RegionId;

use super::{LockHome, Table};
use crate::fence::Fence;
use crate::message::{GroupKey, SessionId};
use crate::range::{LockRange, Locked};
use crate::table::RecordState;

/// What a home knows of a group in one region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The region.
    pub region: RegionId,
    /// The group.
    pub key: GroupKey,
    /// What it holds or waits for.
    pub ranges: Vec<Locked>,
    /// Which of both.
    pub state: HoldingState,
}

/// How far a part is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldingState {
    /// Others have it.
    Waiting,
    /// It is granted, but not copied yet, so the session does not know.
    Copying,
    /// It is granted under this token.
    Held(Fence),
}

impl LockHome {
    /// What the home knows of a group.
    #[must_use]
    pub fn by_group(&self, key: GroupKey) -> Vec<Holding> {
        self.holdings(|other, _, _| other == key)
    }

    /// What the home knows of a session.
    #[must_use]
    pub fn by_session(&self, session: SessionId) -> Vec<Holding> {
        self.holdings(|key, _, _| key.session == session)
    }

    /// Who has, or wants, any position of a range.
    #[must_use]
    pub fn by_range(&self, volume: PgId, range: LockRange) -> Vec<Holding> {
        self.holdings(|_, region, ranges| {
            region.volume == volume && ranges.iter().any(|locked| locked.range.overlaps(range))
        })
    }

    /// Sessions, parts of groups, and parts of which it keeps copies for others.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.sessions.len(), self.parts, self.copies.len())
    }

    fn holdings(&self, wanted: impl Fn(GroupKey, RegionId, &[Locked]) -> bool) -> Vec<Holding> {
        let mut found = Vec::new();
        for (&region, table) in &self.tables {
            for (key, state, ranges) in table.locks.records() {
                if wanted(key, region, ranges) {
                    let state = table.holding_state(key, state);
                    found.push(Holding { region, key, ranges: ranges.to_vec(), state });
                }
            }
        }
        found
    }
}

impl Table {
    fn holding_state(&self, key: GroupKey, state: RecordState) -> HoldingState {
        match (state, self.grants.get(&key)) {
            (RecordState::Waiting, _) | (_, None) => HoldingState::Waiting,
            (_, Some(granting)) if granting.copied => HoldingState::Held(granting.token),
            (_, Some(_)) => HoldingState::Copying,
        }
    }
}
