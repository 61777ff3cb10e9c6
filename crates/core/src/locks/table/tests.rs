//! The table by examples, and against an oracle that is too simple to be wrong.

use super::*;
use proptest::prelude::*;
use std::vec;

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

fn events(locks: &mut RangeLocks<u32>) -> Vec<TableEvent<u32>> {
    core::iter::from_fn(|| locks.poll()).collect()
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let mut locks = table();
    assert_eq!(locks.acquire(1, &[read(0, 10)], Wait::Forever), Ok(Acquired::Granted));
    assert_eq!(locks.acquire(2, &[read(5, 15)], Wait::Forever), Ok(Acquired::Granted));
    assert_eq!(locks.acquire(3, &[write(8, 9)], Wait::Forever), Ok(Acquired::Waits));
    assert!(locks.remove(1));
    assert_eq!(events(&mut locks), []);
    assert!(locks.remove(2));
    assert_eq!(events(&mut locks), [TableEvent::Granted(3)]);
}

#[test]
fn a_reader_does_not_overtake_a_waiting_writer_but_who_does_not_conflict_does() {
    let mut locks = table();
    locks.acquire(1, &[read(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[write(0, 10)], Wait::Forever).unwrap();
    assert_eq!(locks.acquire(3, &[read(0, 10)], Wait::Forever), Ok(Acquired::Waits));
    assert_eq!(locks.acquire(4, &[read(9, 11)], Wait::Try), Err(LockError::WouldBlock));
    assert_eq!(locks.acquire(5, &[write(10, 20)], Wait::Try), Ok(Acquired::Granted));
    locks.remove(1);
    assert_eq!(events(&mut locks), [TableEvent::Granted(2)]);
    locks.remove(2);
    assert_eq!(events(&mut locks), [TableEvent::Granted(3)]);
}

#[test]
fn a_record_of_several_ranges_is_granted_as_a_whole() {
    let mut locks = table();
    locks.acquire(1, &[write(0, 1)], Wait::Forever).unwrap();
    locks.acquire(2, &[write(8, 9)], Wait::Forever).unwrap();
    locks.acquire(3, &[read(8, 9), read(0, 1)], Wait::Forever).unwrap();
    locks.remove(1);
    assert_eq!(events(&mut locks), []);
    locks.remove(2);
    assert_eq!(events(&mut locks), [TableEvent::Granted(3)]);
}

#[test]
fn an_upgrade_waits_for_holders_and_goes_before_those_who_wait() {
    let mut locks = table();
    locks.acquire(1, &[read(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[read(0, 10)], Wait::Forever).unwrap();
    locks.acquire(3, &[write(0, 10)], Wait::Forever).unwrap();
    assert_eq!(locks.upgrade(1, range(2, 4), Wait::Forever), Ok(Acquired::Waits));
    locks.remove(2);
    assert_eq!(events(&mut locks), [TableEvent::Upgraded(1)]);
    assert_eq!(
        locks.records().next().unwrap(),
        (1, RecordState::Held, &[read(0, 2), write(2, 4), read(4, 10)][..])
    );
    locks.remove(1);
    assert_eq!(events(&mut locks), [TableEvent::Granted(3)]);
}

#[test]
fn the_second_of_two_upgrades_is_refused() {
    let mut locks = table();
    locks.acquire(1, &[read(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[read(0, 10)], Wait::Forever).unwrap();
    assert_eq!(locks.upgrade(1, range(0, 5), Wait::Forever), Ok(Acquired::Waits));
    assert_eq!(locks.upgrade(2, range(5, 10), Wait::Forever), Err(LockError::Deadlock));
    assert_eq!(locks.upgrade(1, range(0, 5), Wait::Forever), Err(LockError::UpgradePending));
    locks.remove(2);
    assert_eq!(events(&mut locks), [TableEvent::Upgraded(1)]);
}

#[test]
fn a_circle_of_three_upgrades_is_refused() {
    let mut locks = table();
    locks.acquire(1, &[read(0, 10), read(20, 30)], Wait::Forever).unwrap();
    locks.acquire(2, &[read(0, 20)], Wait::Forever).unwrap();
    locks.acquire(3, &[read(10, 30)], Wait::Forever).unwrap();
    assert_eq!(locks.upgrade(1, range(0, 10), Wait::Forever), Ok(Acquired::Waits), "for 2");
    assert_eq!(locks.upgrade(2, range(10, 20), Wait::Forever), Ok(Acquired::Waits), "for 3");
    assert_eq!(locks.upgrade(3, range(20, 30), Wait::Forever), Err(LockError::Deadlock), "for 1");
}

#[test]
fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
    let mut locks = table();
    locks.acquire(1, &[write(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[read(0, 10)], Wait::Forever).unwrap();
    locks.acquire(3, &[write(0, 10)], Wait::Forever).unwrap();
    locks.downgrade(1, range(0, 10)).unwrap();
    assert_eq!(events(&mut locks), [TableEvent::Granted(2)]);
    assert_eq!(locks.downgrade(1, range(0, 10)), Err(LockError::NotHeld { range: range(0, 10) }));
}

#[test]
fn a_partial_release_frees_just_that() {
    let mut locks = table();
    locks.acquire(1, &[write(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[read(4, 6)], Wait::Forever).unwrap();
    locks.acquire(3, &[read(5, 7)], Wait::Forever).unwrap();
    locks.release_range(1, range(4, 6)).unwrap();
    assert_eq!(events(&mut locks), [TableEvent::Granted(2)]);
    locks.release_range(1, range(0, 4)).unwrap();
    locks.release_range(1, range(0, 10)).unwrap();
    assert_eq!((locks.state(1), events(&mut locks)), (None, vec![TableEvent::Granted(3)]));
}

#[test]
fn who_waits_too_long_is_gone_and_lets_others_pass() {
    let mut locks = table();
    locks.acquire(1, &[read(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[write(0, 10)], Wait::Until(Instant(50))).unwrap();
    locks.acquire(3, &[read(0, 10)], Wait::Until(Instant(90))).unwrap();
    assert_eq!(locks.next_timeout(), Some(Instant(50)));
    locks.expire(Instant(49));
    assert_eq!(events(&mut locks), []);
    locks.expire(Instant(50));
    assert_eq!(events(&mut locks), [TableEvent::TimedOut(2), TableEvent::Granted(3)]);
    assert_eq!(locks.next_timeout(), None);
}

#[test]
fn a_full_table_and_senseless_requests_are_refused() {
    let mut locks = RangeLocks::new(TableLimits { records: 2, ranges: 2 });
    locks.acquire(1, &[write(0, 10)], Wait::Forever).unwrap();
    locks.acquire(2, &[write(0, 10)], Wait::Forever).unwrap();
    let mut refused = |key: u32, ranges: &[Locked]| locks.acquire(key, ranges, Wait::Forever).unwrap_err();
    assert_eq!(refused(3, &[read(20, 30)]), LockError::TableFull { limit: 2 });
    assert_eq!(refused(1, &[read(20, 30)]), LockError::Exists);
    assert_eq!(refused(3, &[]), LockError::NoRanges);
    let overlapping = LockError::Overlapping { first: range(0, 5), second: range(4, 9) };
    assert_eq!(refused(3, &[read(4, 9), write(0, 5)]), overlapping);
    let many = LockError::TooManyRanges { given: 3, limit: 2 };
    assert_eq!(refused(3, &[read(0, 1), read(2, 3), read(4, 5)]), many);
    locks.remove(2);
    locks.release_range(1, range(4, 5)).unwrap();
    assert_eq!(locks.release_range(1, range(7, 8)), Err(many), "it would be three ranges");
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(Vec<Locked>, Wait),
    Upgrade(u32, LockRange, Wait),
    Downgrade(u32, LockRange),
    ReleaseRange(u32, LockRange),
    Remove(u32),
    Cancel(u32),
    Pass(u64),
}

fn a_range() -> impl Strategy<Value = LockRange> {
    (0_u64..16, 1_u64..6).prop_map(|(start, length)| range(start, start + length))
}

fn a_wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        1 => Just(Wait::Try),
        1 => (0_u64..200).prop_map(|at| Wait::Until(Instant(at))),
        3 => Just(Wait::Forever)
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write)];
    let locked = (a_range(), mode).prop_map(|(range, mode)| Locked { range, mode });
    prop_oneof![
        6 => (proptest::collection::vec(locked, 1..3), a_wait()).prop_map(|(l, w)| Step::Acquire(l, w)),
        2 => (0_u32..60, a_range(), a_wait()).prop_map(|(k, r, w)| Step::Upgrade(k, r, w)),
        1 => (0_u32..60, a_range()).prop_map(|(k, r)| Step::Downgrade(k, r)),
        2 => (0_u32..60, a_range()).prop_map(|(k, r)| Step::ReleaseRange(k, r)),
        4 => (0_u32..60).prop_map(Step::Remove),
        1 => (0_u32..60).prop_map(Step::Cancel),
        1 => (1_u64..20).prop_map(Step::Pass),
    ]
}

/// Position by position, and in a list by arrival: slow and plain.
#[derive(Default)]
struct Oracle {
    held: BTreeMap<u32, BTreeMap<u64, Mode>>,
    /// In order of arrival; with a range, an upgrade.
    waiting: Vec<(u32, BTreeMap<u64, Mode>, Option<LockRange>)>,
}

fn positions(ranges: &[Locked]) -> BTreeMap<u64, Mode> {
    ranges.iter().flat_map(|l| (l.range.start()..l.range.end()).map(|at| (at, l.mode))).collect()
}

fn clash(a: &BTreeMap<u64, Mode>, b: &BTreeMap<u64, Mode>) -> bool {
    a.iter().any(|(at, x)| b.get(at).is_some_and(|y| *x == Mode::Write || *y == Mode::Write))
}

impl Oracle {
    fn grantable(&self, index: usize) -> bool {
        let (key, wanted, upgrade) = &self.waiting[index];
        let held = self.held.iter().filter(|(holder, _)| *holder != key).any(|(_, h)| clash(h, wanted));
        let before = self.waiting.iter().enumerate();
        let waiting = before
            .filter(|(i, (_, _, up))| upgrade.is_none() && (*i < index || up.is_some()))
            .any(|(_, (_, other, _))| clash(other, wanted));
        !held && !waiting
    }

    /// Grants all that can be.
    fn settle(&mut self) {
        while let Some(index) = (0..self.waiting.len()).find(|&i| self.grantable(i)) {
            let (key, wanted, _) = self.waiting.remove(index);
            self.held.entry(key).or_default().extend(wanted);
        }
    }

    fn leave(&mut self, key: u32) {
        self.held.remove(&key);
        self.waiting.retain(|(waiting, ..)| *waiting != key);
    }
}

/// Waiting upgrades that can never be granted: circles that were let in.
fn stuck_upgrades(oracle: &Oracle) -> usize {
    let mut left: Vec<usize> = (0..oracle.waiting.len()).filter(|&i| oracle.waiting[i].2.is_some()).collect();
    loop {
        let before = left.len();
        let waits = left.clone();
        // One that waits for holders only that do not wait themselves will be granted.
        left.retain(|&i| {
            let (key, wanted, _) = &oracle.waiting[i];
            waits.iter().any(|&j| {
                let other = oracle.waiting[j].0;
                other != *key && clash(&oracle.held[&other], wanted)
            })
        });
        if left.len() == before {
            return before;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After every step exactly those hold and wait that hold and wait by the oracle: exclusion, order of
    /// arrival, no lost wake-up. At the end nothing is left.
    #[test]
    fn a_table_does_what_the_oracle_does(steps in proptest::collection::vec(a_step(), 1..120)) {
        let (mut locks, mut oracle, mut now) = (table(), Oracle::default(), Instant(0));
        for (key, step) in (0_u32..).zip(steps) {
            match step {
                Step::Acquire(ranges, wait) => match locks.acquire(key, &ranges, wait) {
                    Ok(acquired) => {
                        oracle.waiting.push((key, positions(&ranges), None));
                        let granted = oracle.grantable(oracle.waiting.len() - 1);
                        prop_assert_eq!(acquired == Acquired::Granted, granted);
                    }
                    Err(LockError::WouldBlock) => {
                        oracle.waiting.push((key, positions(&ranges), None));
                        prop_assert!(!oracle.grantable(oracle.waiting.len() - 1));
                        oracle.waiting.pop();
                    }
                    Err(error) => {
                        let refused = matches!(
                            error, LockError::Overlapping { .. } | LockError::TableFull { .. });
                        prop_assert!(refused, "{error}");
                    }
                },
                Step::Upgrade(key, range, wait) => {
                    let wanted = positions(&[Locked { range, mode: Mode::Write }]);
                    match locks.upgrade(key, range, wait) {
                        Ok(_) => oracle.waiting.push((key, wanted, Some(range))),
                        Err(LockError::Deadlock) => {
                            oracle.waiting.push((key, wanted, Some(range)));
                            prop_assert!(stuck_upgrades(&oracle) > 0);
                            oracle.waiting.pop();
                        }
                        Err(_) => {}
                    }
                }
                Step::Downgrade(key, range) => {
                    if locks.downgrade(key, range).is_ok() {
                        let held = oracle.held.get_mut(&key).unwrap();
                        held.extend((range.start()..range.end()).map(|at| (at, Mode::Read)));
                    }
                }
                Step::ReleaseRange(key, range) => {
                    if locks.release_range(key, range).is_ok() {
                        let held = oracle.held.get_mut(&key).unwrap();
                        held.retain(|&at, _| !(range.start()..range.end()).contains(&at));
                        if held.is_empty() {
                            oracle.held.remove(&key);
                        }
                    }
                }
                Step::Remove(key) => {
                    locks.remove(key);
                    oracle.leave(key);
                }
                Step::Cancel(key) => {
                    let waits = oracle.waiting.iter().any(|(waiting, ..)| *waiting == key);
                    prop_assert_eq!(locks.cancel(key), waits);
                    oracle.waiting.retain(|(waiting, ..)| *waiting != key);
                }
                Step::Pass(time) => {
                    now = Instant(now.0 + time);
                    locks.expire(now);
                    prop_assert!(locks.next_timeout().is_none_or(|at| at > now));
                }
            }
            for event in events(&mut locks) {
                if let TableEvent::TimedOut(key) | TableEvent::UpgradeTimedOut(key) = event {
                    oracle.waiting.retain(|(waiting, ..)| *waiting != key);
                }
            }
            oracle.settle();
            prop_assert_eq!(stuck_upgrades(&oracle), 0);
            let held: BTreeMap<u32, BTreeMap<u64, Mode>> = locks
                .records()
                .filter(|(_, state, _)| *state != RecordState::Waiting)
                .map(|(key, _, ranges)| (key, positions(ranges)))
                .collect();
            prop_assert_eq!(&held, &oracle.held);
            let waiting = locks.records().filter(|(_, state, _)| *state != RecordState::Held).count();
            prop_assert_eq!(waiting, oracle.waiting.len());
        }
        let mut left: Vec<u32> = locks.records().map(|(key, ..)| key).collect();
        left.sort_unstable();
        for key in left {
            locks.remove(key);
        }
        prop_assert!(locks.is_empty() && locks.queue.is_empty() && locks.upgrades.is_empty());
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
            locks.acquire(key, &[Locked { range, mode: mode(write) }], Wait::Forever).unwrap();
        }
        let mine = Locked { range: wanted, mode: Mode::Write };
        locks.acquire(100, &[mine], Wait::Forever).unwrap();
        for (key, (range, write)) in (200..).zip(after) {
            let granted = locks.acquire(key, &[Locked { range, mode: mode(write) }], Wait::Forever);
            prop_assert!(granted == Ok(Acquired::Waits) || !range.overlaps(wanted));
        }
        for key in 0..earlier {
            locks.remove(key);
        }
        prop_assert_eq!(locks.state(100), Some(RecordState::Held));
    }
}
