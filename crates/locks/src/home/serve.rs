//! What a home does for sessions.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use cards_core::rendezvous::RegionId;

use super::{Granting, LockHome, Phase, Session, Table};
use crate::error::LockError;
use crate::fence::Fence;
use crate::message::{Beat, Change, GroupKey, LockBody, Part, SessionId};
use crate::mistakes::{Mistake, makes};
use crate::range::{Locked, Mode};
use crate::table::{Acquired, RecordState};

impl LockHome {
    pub(super) fn acquire(
        &mut self,
        region: RegionId,
        key: GroupKey,
        ranges: &[Locked],
        try_only: bool,
        beat: Beat,
    ) {
        if !self.is_ready(region) {
            return;
        }
        match self.tables.get(&region).and_then(|table| table.locks.state(key)) {
            Some(_) => {
                self.beat(key.session, beat);
                self.send_granted(region, key);
            }
            // It has said something since, and would have repeated this.
            None if self.sessions.get(&key.session).is_some_and(|s| beat.sequence <= s.beat.sequence) => {}
            None => {
                if let Err(error) = self.acquire_new(region, key, ranges, try_only, beat) {
                    self.push_send(key.session.node, LockBody::Refused { region, key, error });
                }
            }
        }
    }

    fn acquire_new(
        &mut self,
        region: RegionId,
        key: GroupKey,
        ranges: &[Locked],
        try_only: bool,
        beat: Beat,
    ) -> Result<(), LockError> {
        if !self.beat(key.session, beat) {
            return Err(LockError::TooManySessions { limit: self.config.limits.sessions });
        }
        let limit = self.config.limits.parts;
        // Also what was granted and given up, and is not copied yet.
        if self.parts.max(self.backlog(region)) >= limit {
            return Err(LockError::TableFull { limit });
        }
        if self.insert(region, key, ranges, try_only)? == Acquired::Granted {
            self.granted(region, key);
        }
        Ok(())
    }

    /// Puts a record into the region's table and into its session, which exists.
    pub(super) fn insert(
        &mut self,
        region: RegionId,
        key: GroupKey,
        ranges: &[Locked],
        try_only: bool,
    ) -> Result<Acquired, LockError> {
        let size = self.config.region_size.max(1);
        let inside = |position: u64| position / size == u64::from(region.index);
        if let Some(outside) = ranges.iter().find(|l| !inside(l.range.start()) || !inside(l.range.end() - 1))
        {
            return Err(LockError::OutsideRegion { range: outside.range });
        }
        let serving = self.is_serving();
        let limits = self.config.limits.table;
        let table = self.tables.entry(region).or_insert_with(|| Table::new(limits));
        table.ready |= serving;
        let result = table.locks.acquire(key, ranges, try_only);
        match result {
            Ok(_) => {
                self.parts += 1;
                if let Some(session) = self.sessions.get_mut(&key.session) {
                    session.parts.insert((region, key.group), session.beat.sequence);
                }
            }
            Err(_) => self.drop_empty(region),
        }
        result
    }

    pub(super) fn release(&mut self, region: RegionId, key: GroupKey, beat: Beat) {
        if !self.is_ready(region) {
            return;
        }
        if self.sessions.get(&key.session).is_some_and(|session| session.beat.sequence < beat.sequence) {
            self.beat(key.session, beat);
        }
        self.remove(region, key);
        self.push_send(key.session.node, LockBody::Released { region, key });
    }

    pub(super) fn renew(&mut self, id: SessionId, beat: Beat, held: &[Part], wanted: &[(RegionId, u64)]) {
        let late = self.sessions.get(&id).is_some_and(|s| beat.sequence <= s.beat.sequence);
        if late || !self.beat(id, beat) {
            return;
        }
        let (mut confirmed, mut lost) = (Vec::new(), Vec::new());
        for part in held {
            if part.key.session != id || !self.is_home(part.region) {
                continue;
            }
            let name = (part.region, part.key.group);
            let granting =
                self.tables.get(&part.region).and_then(|table| table.grants.get(&part.key)).copied();
            if granting.is_some_and(|granting| granting.token == part.token) {
                self.downgrade_to(part);
                confirmed.push(name);
            } else if self.is_ready(part.region) {
                lost.push(name);
            } else if matches!(self.phase, Phase::Grace { .. })
                && self.parts < self.config.limits.parts
                && self.adopt(part)
            {
                confirmed.push(name);
            }
        }
        let named = |part: &(RegionId, u64)| {
            wanted.contains(part) || held.iter().any(|p| (p.region, p.key.group) == *part)
        };
        let parts = self.sessions.get(&id).map(|session| &session.parts).into_iter().flatten();
        let given_up: Vec<(RegionId, u64)> = parts
            .filter(|&(part, &asked)| asked < beat.sequence && !named(part))
            .map(|(&part, _)| part)
            .collect();
        for (region, group) in given_up {
            self.remove(region, GroupKey { session: id, group });
        }
        let lease = self.config.lease;
        self.push_send(id.node, LockBody::Renewed { session: id, beat, lease, confirmed, lost });
    }

    /// The session lives. False when there is no room for it.
    pub(super) fn beat(&mut self, id: SessionId, beat: Beat) -> bool {
        let expires = self.now + self.term();
        let room = self.sessions.len() < self.config.limits.sessions;
        match self.sessions.get_mut(&id) {
            Some(session) => {
                session.expires = expires;
                if beat.sequence > session.beat.sequence {
                    session.beat = beat;
                }
                true
            }
            None if room => {
                self.sessions.insert(id, Session { expires, beat, parts: BTreeMap::new() });
                true
            }
            None => false,
        }
    }

    pub(super) fn end_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        // All of them leave their tables before anybody is granted what they held: a session's groups end
        // together.
        for &(region, group) in session.parts.keys() {
            self.take_out(region, GroupKey { session: id, group });
        }
        for &(region, _) in session.parts.keys() {
            self.grant_waiting(region);
        }
    }

    /// The session only reads what it wrote: so do the records here and at the successor, before anybody is
    /// granted what that makes free.
    fn downgrade_to(&mut self, part: &Part) {
        let (region, key) = (part.region, part.key);
        let Some(table) = self.tables.get_mut(&region) else { return };
        let reads = |locked: &Locked| Locked { mode: Mode::Read, ..*locked };
        let held = table.locks.ranges(key).into_iter().flatten().map(reads);
        if held.eq(part.ranges.iter().copied()) && table.locks.downgrade(key) {
            self.push_change(region, Change::Put(part.clone()));
            self.grant_waiting(region);
        }
    }

    fn remove(&mut self, region: RegionId, key: GroupKey) {
        if let Some(session) = self.sessions.get_mut(&key.session) {
            session.parts.remove(&(region, key.group));
        }
        self.take_out(region, key);
        self.grant_waiting(region);
    }

    fn take_out(&mut self, region: RegionId, key: GroupKey) {
        let Some(table) = self.tables.get_mut(&region) else { return };
        let known = table.locks.remove(key);
        let granted = table.grants.remove(&key).is_some();
        self.parts -= usize::from(known);
        if granted {
            self.push_change(region, Change::Remove { region, key });
        }
    }

    /// Grants what has become free in the region.
    fn grant_waiting(&mut self, region: RegionId) {
        while let Some(key) = self.tables.get_mut(&region).and_then(|table| table.locks.poll()) {
            self.granted(region, key);
        }
        self.drop_empty(region);
    }

    /// A part is granted: has it copied, then answers.
    fn granted(&mut self, region: RegionId, key: GroupKey) {
        self.grants += 1;
        let epoch = if makes(Mistake::RepeatTokens) { 0 } else { self.members.epoch() };
        let token = Fence { epoch, count: self.grants };
        if let Some(table) = self.tables.get_mut(&region) {
            // It may be gone again: ended with its session before it was granted.
            if table.locks.state(key) == Some(RecordState::Held) {
                table.grants.insert(key, Granting { token, copied: false });
                self.push_put(region, key);
            }
        }
    }

    /// The part is copied: the session may know.
    pub(super) fn part_copied(&mut self, region: RegionId, key: GroupKey) {
        let granting = self.tables.get_mut(&region).and_then(|table| table.grants.get_mut(&key));
        if let Some(granting) = granting.filter(|granting| !granting.copied) {
            granting.copied = true;
            self.send_granted(region, key);
        }
    }

    fn send_granted(&mut self, region: RegionId, key: GroupKey) {
        let granting = self.tables.get(&region).and_then(|table| table.grants.get(&key)).copied();
        if let Some(granting) = granting.filter(|granting| granting.copied)
            && let Some(session) = self.sessions.get(&key.session)
        {
            let (token, beat, lease) = (granting.token, session.beat, self.config.lease);
            self.push_send(key.session.node, LockBody::Granted { region, key, token, beat, lease });
        }
    }

    /// Forgets a table without records. While it does not serve, a home needs it to know that the region is its.
    fn drop_empty(&mut self, region: RegionId) {
        if self.is_serving() && self.tables.get(&region).is_some_and(|table| table.locks.is_empty()) {
            self.tables.remove(&region);
        }
    }
}
