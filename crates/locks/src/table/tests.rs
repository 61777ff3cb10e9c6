//! The table by examples, and against an oracle that is too simple to be wrong.

use super::*;
use crate::LockRange;
use proptest::prelude::*;

const WAIT: bool = false;
const TRY: bool = true;
const LIMITS: TableLimits = TableLimits { records: 40, ranges: 8 };

fn range(start: u64, end: u64) -> LockRange {
    LockRange::new(start, end).unwrap()
}

fn read(start: u64, end: u64) -> Locked {
    Locked { range: range(start, end), mode: Mode::Read }
}

fn write(start: u64, end: u64) -> Locked {
    Locked { range: range(start, end), mode: Mode::Write }
}

fn table() -> RangeLocks<u32> {
    RangeLocks::new(LIMITS)
}

fn granted(locks: &mut RangeLocks<u32>) -> Vec<u32> {
    core::iter::from_fn(|| locks.poll()).collect()
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let mut locks = table();
    assert_eq!(locks.acquire(1, &[read(0, 10)], WAIT), Ok(Acquired::Granted));
    assert_eq!(locks.acquire(2, &[read(5, 15)], WAIT), Ok(Acquired::Granted));
    assert_eq!(locks.acquire(3, &[write(8, 9)], WAIT), Ok(Acquired::Waits));
    assert!(locks.remove(1));
    assert_eq!(granted(&mut locks), []);
    assert!(locks.remove(2));
    assert_eq!(granted(&mut locks), [3]);
}

#[test]
fn a_reader_does_not_overtake_a_waiting_writer_but_who_does_not_conflict_does() {
    let mut locks = table();
    locks.acquire(1, &[read(0, 10)], WAIT).unwrap();
    locks.acquire(2, &[write(0, 10)], WAIT).unwrap();
    assert_eq!(locks.acquire(3, &[read(0, 10)], WAIT), Ok(Acquired::Waits));
    assert_eq!(locks.acquire(4, &[read(9, 11)], TRY), Err(LockError::WouldBlock));
    assert_eq!(locks.acquire(5, &[write(10, 20)], TRY), Ok(Acquired::Granted));
    locks.remove(1);
    assert_eq!(granted(&mut locks), [2]);
    locks.remove(2);
    assert_eq!(granted(&mut locks), [3]);
}

#[test]
fn a_record_of_several_ranges_is_granted_as_a_whole() {
    let mut locks = table();
    locks.acquire(1, &[write(0, 1)], WAIT).unwrap();
    locks.acquire(2, &[write(8, 9)], WAIT).unwrap();
    locks.acquire(3, &[read(8, 9), read(0, 1)], WAIT).unwrap();
    locks.remove(1);
    assert_eq!(granted(&mut locks), []);
    locks.remove(2);
    assert_eq!(granted(&mut locks), [3]);
}

#[test]
fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
    let mut locks = table();
    locks.acquire(1, &[write(0, 10), read(10, 20)], WAIT).unwrap();
    locks.acquire(2, &[read(0, 10)], WAIT).unwrap();
    locks.acquire(3, &[write(0, 10)], WAIT).unwrap();
    assert!(!locks.downgrade(2), "it waits");
    assert!(locks.downgrade(1));
    assert_eq!(granted(&mut locks), [2]);
    assert_eq!(locks.ranges(1).unwrap(), [read(0, 10), read(10, 20)]);
    assert!(!locks.downgrade(1) && !locks.downgrade(9), "nothing to change");
}

#[test]
fn a_full_table_and_senseless_requests_are_refused() {
    let mut locks = RangeLocks::new(TableLimits { records: 2, ranges: 2 });
    locks.acquire(1, &[write(0, 10)], WAIT).unwrap();
    locks.acquire(2, &[write(0, 10)], WAIT).unwrap();
    let mut refused = |key: u32, ranges: &[Locked]| locks.acquire(key, ranges, WAIT).unwrap_err();
    assert_eq!(refused(3, &[read(20, 30)]), LockError::TableFull { limit: 2 });
    assert_eq!(refused(1, &[read(20, 30)]), LockError::Exists);
    assert_eq!(refused(3, &[]), LockError::NoRanges);
    let overlapping = LockError::Overlapping { first: range(0, 5), second: range(4, 9) };
    assert_eq!(refused(3, &[read(4, 9), write(0, 5)]), overlapping);
    let many = LockError::TooManyRanges { given: 3, limit: 2 };
    assert_eq!(refused(3, &[read(0, 1), read(2, 3), read(4, 5)]), many);
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(Vec<Locked>, bool),
    Downgrade(u32),
    Remove(u32),
}

fn a_range() -> impl Strategy<Value = LockRange> {
    (0_u64..16, 1_u64..6).prop_map(|(start, length)| range(start, start + length))
}

fn a_step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write)];
    let locked = (a_range(), mode).prop_map(|(range, mode)| Locked { range, mode });
    let try_only = proptest::bool::weighted(0.2);
    prop_oneof![
        3 => (proptest::collection::vec(locked, 1..3), try_only).prop_map(|(l, t)| Step::Acquire(l, t)),
        1 => (0_u32..60).prop_map(Step::Downgrade),
        2 => (0_u32..60).prop_map(Step::Remove),
    ]
}

/// Position by position, and in a list by arrival: slow and plain.
#[derive(Default)]
struct Oracle {
    held: BTreeMap<u32, BTreeMap<u64, Mode>>,
    /// In order of arrival.
    waiting: Vec<(u32, BTreeMap<u64, Mode>)>,
}

fn positions(ranges: &[Locked]) -> BTreeMap<u64, Mode> {
    ranges.iter().flat_map(|l| (l.range.start()..l.range.end()).map(|at| (at, l.mode))).collect()
}

fn clash(a: &BTreeMap<u64, Mode>, b: &BTreeMap<u64, Mode>) -> bool {
    a.iter().any(|(at, x)| b.get(at).is_some_and(|y| *x == Mode::Write || *y == Mode::Write))
}

impl Oracle {
    fn grantable(&self, index: usize) -> bool {
        let wanted = &self.waiting[index].1;
        let earlier = self.waiting[..index].iter().map(|(_, ranges)| ranges);
        !self.held.values().chain(earlier).any(|other| clash(other, wanted))
    }

    /// Grants all that can be.
    fn settle(&mut self) {
        while let Some(index) = (0..self.waiting.len()).find(|&i| self.grantable(i)) {
            let (key, wanted) = self.waiting.remove(index);
            self.held.insert(key, wanted);
        }
    }

    fn leave(&mut self, key: u32) {
        self.held.remove(&key);
        self.waiting.retain(|(waiting, _)| *waiting != key);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After every step exactly those hold and wait that hold and wait by the oracle: exclusion, order of
    /// arrival, no lost wake-up. At the end nothing is left.
    #[test]
    fn a_table_does_what_the_oracle_does(steps in proptest::collection::vec(a_step(), 1..120)) {
        let (mut locks, mut oracle) = (table(), Oracle::default());
        for (key, step) in (0_u32..).zip(steps) {
            match step {
                Step::Acquire(ranges, try_only) => match locks.acquire(key, &ranges, try_only) {
                    Ok(acquired) => {
                        oracle.waiting.push((key, positions(&ranges)));
                        let grantable = oracle.grantable(oracle.waiting.len() - 1);
                        prop_assert_eq!(acquired == Acquired::Granted, grantable);
                    }
                    Err(LockError::WouldBlock) => {
                        oracle.waiting.push((key, positions(&ranges)));
                        prop_assert!(!oracle.grantable(oracle.waiting.len() - 1));
                        oracle.waiting.pop();
                    }
                    Err(error) => {
                        let refused = matches!(
                            error, LockError::Overlapping { .. } | LockError::TableFull { .. });
                        prop_assert!(refused, "{error}");
                    }
                },
                Step::Downgrade(key) => {
                    let held = oracle.held.get_mut(&key);
                    let modes: Vec<&mut Mode> = held.into_iter().flat_map(BTreeMap::values_mut).collect();
                    let written = modes.iter().any(|mode| **mode == Mode::Write);
                    modes.into_iter().for_each(|mode| *mode = Mode::Read);
                    prop_assert_eq!(locks.downgrade(key), written);
                }
                Step::Remove(key) => {
                    locks.remove(key);
                    oracle.leave(key);
                }
            }
            let told = granted(&mut locks);
            let before: Vec<u32> = oracle.waiting.iter().map(|(key, _)| *key).collect();
            prop_assert!(told.iter().all(|key| before.contains(key)), "{told:?} of {before:?}");
            oracle.settle();
            let of_state = |wanted: RecordState| -> BTreeMap<u32, BTreeMap<u64, Mode>> {
                let records = locks.records().filter(|(_, state, _)| *state == wanted);
                records.map(|(key, _, ranges)| (key, positions(ranges))).collect()
            };
            prop_assert_eq!(&of_state(RecordState::Held), &oracle.held);
            prop_assert_eq!(of_state(RecordState::Waiting), oracle.waiting.iter().cloned().collect());
        }
        let left: Vec<u32> = locks.records().map(|(key, ..)| key).collect();
        for key in left {
            locks.remove(key);
        }
        prop_assert!(locks.is_empty() && locks.queue.is_empty());
    }

    /// Whoever waits is granted when all that came before are gone, however many come after.
    #[test]
    fn who_waits_is_granted_before_all_that_conflict_and_come_later(
        before in proptest::collection::vec((a_range(), any::<bool>()), 1..8),
        wanted in a_range(),
        after in proptest::collection::vec((a_range(), any::<bool>()), 1..20),
    ) {
        let mut locks = table();
        let mode = |write| if write { Mode::Write } else { Mode::Read };
        let earlier = before.len() as u32;
        for (key, (range, write)) in (0..).zip(before) {
            locks.acquire(key, &[Locked { range, mode: mode(write) }], WAIT).unwrap();
        }
        let mine = Locked { range: wanted, mode: Mode::Write };
        locks.acquire(100, &[mine], WAIT).unwrap();
        for (key, (range, write)) in (200..).zip(after) {
            let acquired = locks.acquire(key, &[Locked { range, mode: mode(write) }], WAIT);
            prop_assert!(acquired == Ok(Acquired::Waits) || !range.overlaps(wanted));
        }
        for key in 0..earlier {
            locks.remove(key);
        }
        prop_assert_eq!(locks.state(100), Some(RecordState::Held));
    }
}
