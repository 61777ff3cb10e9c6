//! One table of multi-reader, single-writer locks.
//!
//! A record is a set of ranges that is granted as a whole or waits as a whole. Order is by arrival: a request
//! is granted when it conflicts with nothing that is held and with nothing that waits and came before. So a
//! stream of readers cannot starve a writer, nor writers a reader, and what does not conflict passes.
//!
//! An upgrade goes before requests that wait, since its record holds what they wait for; it waits for holders
//! alone. Requests that wait hold nothing in this table, so a circle of waiting can only be made of upgrades.
//! It is looked for when one arrives; none can arise later, since nothing that conflicts with a waiting
//! upgrade is granted.
//!
//! A request costs a scan of the table, a release a scan for each waiting request that overlaps it: the limit
//! on records bounds both.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::error::LockError;
use super::range::{LockRange, Locked, Mode, checked, conflict, covers, overlap, overlay};
use crate::time::Instant;

/// What bounds the memory of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableLimits {
    /// Records, held and waiting.
    pub records: usize,
    /// Ranges of one record.
    pub ranges: usize,
}

/// What to do about a conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Refuse.
    Try,
    /// Wait until then.
    Until(Instant),
    /// Wait.
    Forever,
}

/// What became of a request at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// It is granted.
    Granted,
    /// It waits; a [`TableEvent`] will tell.
    Waits,
}

/// What became of a request that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableEvent<K> {
    /// All of the record is granted.
    Granted(K),
    /// The record is upgraded.
    Upgraded(K),
    /// The record's time is over: it is gone.
    TimedOut(K),
    /// The upgrade's time is over: the record holds what it held.
    UpgradeTimedOut(K),
}

/// How a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordState {
    /// It holds its ranges.
    Held,
    /// It waits for all of them.
    Waiting,
    /// It holds its ranges and waits to write one of them.
    Upgrading,
}

/// See the module's head. `K` names a record.
#[derive(Clone, Debug)]
pub struct RangeLocks<K> {
    limits: TableLimits,
    records: BTreeMap<K, Record>,
    /// Requests that wait, by arrival.
    queue: BTreeMap<u64, K>,
    /// Upgrades that wait, by arrival.
    upgrades: BTreeMap<u64, K>,
    last_arrival: u64,
    events: VecDeque<TableEvent<K>>,
}

#[derive(Clone, Debug)]
struct Record {
    ranges: Vec<Locked>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Held,
    Waiting { arrival: u64, until: Instant },
    Upgrading { arrival: u64, until: Instant, range: LockRange },
}

impl<K: Copy + Ord> RangeLocks<K> {
    /// An empty table.
    #[must_use]
    pub fn new(limits: TableLimits) -> Self {
        Self {
            limits,
            records: BTreeMap::new(),
            queue: BTreeMap::new(),
            upgrades: BTreeMap::new(),
            last_arrival: 0,
            events: VecDeque::new(),
        }
    }

    /// Asks for all of `ranges` at once.
    ///
    /// # Errors
    /// Refused, with the reason; nothing has changed.
    pub fn acquire(&mut self, key: K, ranges: &[Locked], wait: Wait) -> Result<Acquired, LockError> {
        let ranges = checked(ranges, self.limits.ranges)?;
        if self.records.contains_key(&key) {
            return Err(LockError::Exists);
        }
        if self.records.len() >= self.limits.records {
            return Err(LockError::TableFull { limit: self.limits.records });
        }
        if !self.is_blocked(&ranges, u64::MAX) {
            self.records.insert(key, Record { ranges, state: State::Held });
            return Ok(Acquired::Granted);
        }
        let until = deadline(wait)?;
        let arrival = self.next_arrival();
        self.queue.insert(arrival, key);
        self.records.insert(key, Record { ranges, state: State::Waiting { arrival, until } });
        Ok(Acquired::Waits)
    }

    /// Makes `range`, which the record reads, its to write.
    ///
    /// # Errors
    /// Refused, with the reason; the record holds what it held.
    pub fn upgrade(&mut self, key: K, range: LockRange, wait: Wait) -> Result<Acquired, LockError> {
        let held = self.held(key, range, Some(Mode::Read))?;
        self.check_split(&overlay(held, range, Some(Mode::Write)))?;
        if !self.is_upgrade_blocked(key, range) {
            self.set_held(key, range, Mode::Write);
            return Ok(Acquired::Granted);
        }
        let until = deadline(wait)?;
        if self.closes_circle(key, range) {
            return Err(LockError::Deadlock);
        }
        let arrival = self.next_arrival();
        if let Some(record) = self.records.get_mut(&key) {
            record.state = State::Upgrading { arrival, until, range };
            self.upgrades.insert(arrival, key);
        }
        Ok(Acquired::Waits)
    }

    /// Makes `range`, which the record writes, its to read only. Readers that waited for that are granted.
    ///
    /// # Errors
    /// Refused, with the reason; the record holds what it held.
    pub fn downgrade(&mut self, key: K, range: LockRange) -> Result<(), LockError> {
        let held = self.held(key, range, Some(Mode::Write))?;
        self.check_split(&overlay(held, range, Some(Mode::Read)))?;
        self.set_held(key, range, Mode::Read);
        self.grant(&[Locked { range, mode: Mode::Write }]);
        Ok(())
    }

    /// Gives up what the record holds of `range`; the record is gone when nothing is left.
    ///
    /// # Errors
    /// Refused, with the reason; the record holds what it held.
    pub fn release_range(&mut self, key: K, range: LockRange) -> Result<(), LockError> {
        let left = overlay(self.held(key, range, None)?, range, None);
        self.check_split(&left)?;
        if left.is_empty() {
            self.remove(key);
        } else if let Some(record) = self.records.get_mut(&key) {
            record.ranges = left;
            self.grant(&[Locked { range, mode: Mode::Write }]);
        }
        Ok(())
    }

    /// Removes the record, whether it holds its ranges or waits for them. False when there is none.
    pub fn remove(&mut self, key: K) -> bool {
        let Some(record) = self.records.remove(&key) else { return false };
        self.leave_queue(record.state);
        self.grant(&record.ranges);
        true
    }

    /// Gives a request up that waits: the record is gone, or, after an upgrade, holds what it held. False when
    /// it does not wait.
    pub fn cancel(&mut self, key: K) -> bool {
        match self.records.get(&key).map(|record| record.state) {
            Some(State::Waiting { .. }) => self.remove(key),
            Some(state @ State::Upgrading { range, .. }) => {
                self.leave_queue(state);
                if let Some(record) = self.records.get_mut(&key) {
                    record.state = State::Held;
                }
                self.grant(&[Locked { range, mode: Mode::Write }]);
                true
            }
            Some(State::Held) | None => false,
        }
    }

    /// Gives up the requests whose time is over.
    pub fn expire(&mut self, now: Instant) {
        while let Some((until, key)) = self.deadlines().min()
            && until <= now
        {
            let upgrade = self.state(key) == Some(RecordState::Upgrading);
            self.events.push_back(match upgrade {
                true => TableEvent::UpgradeTimedOut(key),
                false => TableEvent::TimedOut(key),
            });
            self.cancel(key);
        }
    }

    /// When to call [`Self::expire`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines().map(|(until, _)| until).min()
    }

    /// What has become of a request that waited, until there is nothing more to tell.
    pub fn poll(&mut self) -> Option<TableEvent<K>> {
        self.events.pop_front()
    }

    /// How a record is, if there is one.
    #[must_use]
    pub fn state(&self, key: K) -> Option<RecordState> {
        self.records.get(&key).map(|record| record.state.public())
    }

    /// All records, by name.
    pub fn records(&self) -> impl Iterator<Item = (K, RecordState, &[Locked])> {
        self.records.iter().map(|(&key, record)| (key, record.state.public(), record.ranges.as_slice()))
    }

    /// The records that have, or want, a position of `range`.
    pub fn overlapping(&self, range: LockRange) -> impl Iterator<Item = (K, RecordState, &[Locked])> {
        let probe = [Locked { range, mode: Mode::Read }];
        self.records().filter(move |(_, _, ranges)| overlap(ranges, &probe))
    }

    /// Nothing is held and nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Records, held and waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The request conflicts with something that is held, with a waiting upgrade, or with a request that
    /// waits and came before `arrival`.
    fn is_blocked(&self, ranges: &[Locked], arrival: u64) -> bool {
        let earlier = self.queue.range(..arrival).filter_map(|(_, key)| self.records.get(key));
        self.records.values().any(|record| record.is_held() && record.conflicts(ranges))
            || earlier.into_iter().any(|record| record.conflicts(ranges))
    }

    fn is_upgrade_blocked(&self, key: K, range: LockRange) -> bool {
        self.in_the_way(key, range).next().is_some()
    }

    /// Who holds what the record wants to write.
    fn in_the_way(&self, key: K, range: LockRange) -> impl Iterator<Item = K> {
        let wanted = [Locked { range, mode: Mode::Write }];
        let others = self.records.iter().filter(move |(other, record)| **other != key && record.is_held());
        others.filter(move |(_, record)| conflict(&record.ranges, &wanted)).map(|(&other, _)| other)
    }

    /// Somebody for whom the upgrade would wait waits, over other upgrades, for its record.
    fn closes_circle(&self, key: K, range: LockRange) -> bool {
        let mut seen = BTreeSet::new();
        let mut next: Vec<K> = self.in_the_way(key, range).collect();
        while let Some(other) = next.pop() {
            if other == key {
                return true;
            }
            if let Some(State::Upgrading { range, .. }) = self.records.get(&other).map(|r| r.state)
                && seen.insert(other)
            {
                next.extend(self.in_the_way(other, range));
            }
        }
        false
    }

    /// Grants what waited for `freed`. No grant makes another possible, so one pass does.
    fn grant(&mut self, freed: &[Locked]) {
        let waiting: Vec<K> = self.upgrades.values().copied().collect();
        for key in waiting {
            if let Some(State::Upgrading { arrival, range, .. }) = self.records.get(&key).map(|r| r.state)
                && !self.is_upgrade_blocked(key, range)
            {
                self.upgrades.remove(&arrival);
                self.set_held(key, range, Mode::Write);
                self.events.push_back(TableEvent::Upgraded(key));
            }
        }
        let waiting: Vec<(u64, K)> = self.queue.iter().map(|(&arrival, &key)| (arrival, key)).collect();
        for (arrival, key) in waiting {
            let granted = self.records.get(&key).is_some_and(|record| {
                overlap(&record.ranges, freed) && !self.is_blocked(&record.ranges, arrival)
            });
            if granted && let Some(record) = self.records.get_mut(&key) {
                record.state = State::Held;
                self.queue.remove(&arrival);
                self.events.push_back(TableEvent::Granted(key));
            }
        }
    }

    /// What the record holds, if that is all of `range` in `mode` (or any mode), and it does not wait.
    fn held(&self, key: K, range: LockRange, mode: Option<Mode>) -> Result<&[Locked], LockError> {
        let record = self.records.get(&key).ok_or(LockError::NotHeld { range })?;
        let held = match mode {
            Some(mode) => covers(&record.ranges, range, mode),
            None => record.ranges.iter().any(|locked| locked.range.overlaps(range)),
        };
        match record.state {
            State::Held if held => Ok(&record.ranges),
            State::Upgrading { .. } => Err(LockError::UpgradePending),
            State::Held | State::Waiting { .. } => Err(LockError::NotHeld { range }),
        }
    }

    fn set_held(&mut self, key: K, range: LockRange, mode: Mode) {
        if let Some(record) = self.records.get_mut(&key) {
            record.ranges = overlay(&record.ranges, range, Some(mode));
            record.state = State::Held;
        }
    }

    fn check_split(&self, ranges: &[Locked]) -> Result<(), LockError> {
        let (given, limit) = (ranges.len(), self.limits.ranges);
        if given > limit { Err(LockError::TooManyRanges { given, limit }) } else { Ok(()) }
    }

    fn leave_queue(&mut self, state: State) {
        match state {
            State::Held => None,
            State::Waiting { arrival, .. } => self.queue.remove(&arrival),
            State::Upgrading { arrival, .. } => self.upgrades.remove(&arrival),
        };
    }

    fn deadlines(&self) -> impl Iterator<Item = (Instant, K)> {
        let waiting = self.queue.values().chain(self.upgrades.values());
        waiting.filter_map(|key| match self.records.get(key)?.state {
            State::Waiting { until, .. } | State::Upgrading { until, .. } => {
                (until != Instant::NEVER).then_some((until, *key))
            }
            State::Held => None,
        })
    }

    fn next_arrival(&mut self) -> u64 {
        self.last_arrival += 1;
        self.last_arrival
    }
}

impl Record {
    fn is_held(&self) -> bool {
        !matches!(self.state, State::Waiting { .. })
    }

    /// What the record has, or is to have, conflicts with `ranges`.
    fn conflicts(&self, ranges: &[Locked]) -> bool {
        let upgrade = match self.state {
            State::Upgrading { range, .. } => conflict(&[Locked { range, mode: Mode::Write }], ranges),
            State::Held | State::Waiting { .. } => false,
        };
        upgrade || conflict(&self.ranges, ranges)
    }
}

impl State {
    const fn public(self) -> RecordState {
        match self {
            Self::Held => RecordState::Held,
            Self::Waiting { .. } => RecordState::Waiting,
            Self::Upgrading { .. } => RecordState::Upgrading,
        }
    }
}

fn deadline(wait: Wait) -> Result<Instant, LockError> {
    match wait {
        Wait::Try => Err(LockError::WouldBlock),
        Wait::Until(until) => Ok(until),
        Wait::Forever => Ok(Instant::NEVER),
    }
}

#[cfg(test)]
mod tests;
