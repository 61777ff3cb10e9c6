//! One table of multi-reader, single-writer locks.
//!
//! A record is a set of ranges that is granted as a whole or waits as a whole. Order is by arrival: a request
//! is granted when it conflicts with nothing that is held and with nothing that waits and came before. So a
//! stream of readers cannot starve a writer, nor writers a reader, and what does not conflict passes.
//!
//! Requests that wait hold nothing in this table, so nobody can wait in a circle here. For that reason a record
//! can be downgraded and not upgraded.
//!
//! A request costs a scan of the table, a release or downgrade a scan for each waiting request that overlaps it:
//! the limit on records bounds both.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::error::LockError;
use super::range::{Locked, Mode, conflict, overlap};
use super::request::checked;

/// What bounds the memory of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableLimits {
    /// Records, held and waiting.
    pub records: usize,
    /// Ranges of one record.
    pub ranges: usize,
}

/// What became of a request at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// It is granted.
    Granted,
    /// It waits; [`RangeLocks::poll`] will tell.
    Waits,
}

/// How a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordState {
    /// It holds its ranges.
    Held,
    /// It waits for all of them.
    Waiting,
}

/// See the module's head. `K` names a record.
#[derive(Clone, Debug)]
pub struct RangeLocks<K> {
    limits: TableLimits,
    records: BTreeMap<K, Record>,
    /// Requests that wait, by arrival.
    queue: BTreeMap<u64, K>,
    last_arrival: u64,
    /// Granted after waiting, and not told yet.
    granted: VecDeque<K>,
}

#[derive(Clone, Debug)]
struct Record {
    ranges: Vec<Locked>,
    /// When it came, if it waits.
    arrival: Option<u64>,
}

impl<K: Copy + Ord> RangeLocks<K> {
    /// An empty table.
    #[must_use]
    pub const fn new(limits: TableLimits) -> Self {
        Self {
            limits,
            records: BTreeMap::new(),
            queue: BTreeMap::new(),
            last_arrival: 0,
            granted: VecDeque::new(),
        }
    }

    /// Asks for all of `ranges` at once; waits for them if others have them, unless it is `try_only`.
    ///
    /// # Errors
    /// Refused, with the reason; nothing has changed.
    pub fn acquire(&mut self, key: K, ranges: &[Locked], try_only: bool) -> Result<Acquired, LockError> {
        let ranges = checked(ranges, self.limits.ranges)?;
        if self.records.contains_key(&key) {
            return Err(LockError::Exists);
        }
        if self.records.len() >= self.limits.records {
            return Err(LockError::TableFull { limit: self.limits.records });
        }
        if !self.is_blocked(&ranges, u64::MAX) {
            self.records.insert(key, Record { ranges, arrival: None });
            return Ok(Acquired::Granted);
        }
        if try_only {
            return Err(LockError::WouldBlock);
        }
        self.last_arrival += 1;
        self.queue.insert(self.last_arrival, key);
        self.records.insert(key, Record { ranges, arrival: Some(self.last_arrival) });
        Ok(Acquired::Waits)
    }

    /// Makes all that the record writes its to read only. Readers that waited for that are granted. False when
    /// there is nothing to change: it waits, or writes nothing.
    pub fn downgrade(&mut self, key: K) -> bool {
        let Some(record) = self.records.get_mut(&key).filter(|record| record.is_held()) else { return false };
        let written: Vec<Locked> = record.ranges.iter().filter(|l| l.mode == Mode::Write).copied().collect();
        record.ranges.iter_mut().for_each(|locked| locked.mode = Mode::Read);
        self.grant(&written);
        !written.is_empty()
    }

    /// Removes the record, whether it holds its ranges or waits for them. False when there is none.
    pub fn remove(&mut self, key: K) -> bool {
        let Some(record) = self.records.remove(&key) else { return false };
        if let Some(arrival) = record.arrival {
            self.queue.remove(&arrival);
        }
        self.grant(&record.ranges);
        true
    }

    /// The next record that waited and is granted now, until there is none.
    pub fn poll(&mut self) -> Option<K> {
        self.granted.pop_front()
    }

    /// How a record is, if there is one.
    #[must_use]
    pub fn state(&self, key: K) -> Option<RecordState> {
        self.records.get(&key).map(Record::state)
    }

    /// What a record holds or waits for, in ascending order.
    #[must_use]
    pub fn ranges(&self, key: K) -> Option<&[Locked]> {
        self.records.get(&key).map(|record| record.ranges.as_slice())
    }

    /// All records, by name.
    pub fn records(&self) -> impl Iterator<Item = (K, RecordState, &[Locked])> {
        self.records.iter().map(|(&key, record)| (key, record.state(), record.ranges.as_slice()))
    }

    /// Nothing is held and nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The request conflicts with something that is held, or with a request that waits and came before
    /// `arrival`.
    fn is_blocked(&self, ranges: &[Locked], arrival: u64) -> bool {
        let earlier = self.queue.range(..arrival).filter_map(|(_, key)| self.records.get(key));
        let held = self.records.values().filter(|record| record.is_held());
        earlier.chain(held).any(|record| conflict(&record.ranges, ranges))
    }

    /// Grants what waited for `freed`. No grant makes another possible, so one pass does.
    fn grant(&mut self, freed: &[Locked]) {
        let waiting: Vec<(u64, K)> = self.queue.iter().map(|(&arrival, &key)| (arrival, key)).collect();
        for (arrival, key) in waiting {
            let granted = self.records.get(&key).is_some_and(|record| {
                overlap(&record.ranges, freed) && !self.is_blocked(&record.ranges, arrival)
            });
            if granted && let Some(record) = self.records.get_mut(&key) {
                record.arrival = None;
                self.queue.remove(&arrival);
                self.granted.push_back(key);
            }
        }
    }
}

impl Record {
    const fn is_held(&self) -> bool {
        self.arrival.is_none()
    }

    const fn state(&self) -> RecordState {
        if self.is_held() { RecordState::Held } else { RecordState::Waiting }
    }
}

#[cfg(test)]
mod tests;
