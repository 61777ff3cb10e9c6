//! Every sector is a linearizable register.
//!
//! There must be one order of all operations on a sector that respects their real-time order and in which
//! each read returns what the write before it wrote. That includes "the last completed write or one
//! concurrent with it" and "no reader sees an older value after another has seen a newer one". Writes of
//! unknown outcome may take effect anywhere after they began, or not at all.
//!
//! The search is Wing and Gong's (1993) with Lowe's memory of visited states (2017). Five rules that lose no
//! solution keep it short: a read of the current value goes first; a value that a later read returns
//! and that was written once is not overwritten; writes of unknown outcome that no later read returns are left out; of
//! several that write one value the first is as good as any, since none must be done by some time; and
//! when no later read returns the current value, a write goes first whose readers, if any, may all follow it
//! at once, as long as its value is written once. (In any order in which the write and its reads come later,
//! they can be moved here.) Where each value is written once, as in recorded histories, there is then no more
//! than one way to go on: a write that must wait for its readers must make way for whoever has to go next.

use std::collections::{HashMap, HashSet};

use crate::history::{Op, Step};

/// Finds the operations that fit no order. `initial` is the content before all operations.
///
/// # Errors
/// Returns an account of the shortest prefix (by time of return) that has no order.
pub fn check(initial: u64, ops: &[Op]) -> Result<(), String> {
    if Search::new(initial, ops).run() {
        return Ok(());
    }
    let mut ends: Vec<Step> = ops.iter().map(|op| op.returned).filter(|end| *end != Step::MAX).collect();
    ends.sort_unstable();
    let fails = |end: Step| !Search::new(initial, &prefix(ops, end)).run();
    let shortest = ends[ends.partition_point(|end| !fails(*end))];
    let mut story = format!("not linearizable (initially {initial:#x}); what led to it:");
    let mut prefix = prefix(ops, shortest);
    prefix.sort_by_key(|op| op.invoked);
    let skip = prefix.len().saturating_sub(16);
    for op in &prefix[skip..] {
        let verb = if op.write { "writes" } else { "reads" };
        let end = if op.returned == Step::MAX { "open".to_owned() } else { op.returned.to_string() };
        story.push_str(&format!("\n  steps {}..{end} {verb} {:#x}", op.invoked, op.tag));
    }
    Err(story)
}

/// What an observer at `end` knows: operations that have returned, and writes that have begun.
fn prefix(ops: &[Op], end: Step) -> Vec<Op> {
    ops.iter()
        .filter(|op| op.returned <= end || op.write && op.invoked <= end)
        .map(|op| if op.returned <= end { *op } else { Op { returned: Step::MAX, ..*op } })
        .collect()
}

struct Search {
    /// By time of invocation.
    ops: Vec<Op>,
    seen: HashSet<(Vec<u64>, u64)>,
    values: HashMap<u64, Value>,
    initial: u64,
}

/// Who has to do with a value.
#[derive(Default)]
struct Value {
    /// How often it comes into being.
    writes: u32,
    /// When the last of its reads is invoked; 0: no operation reads it.
    last_read: Step,
}

#[derive(Clone)]
struct State {
    done: Vec<u64>,
    /// All operations before this one are done.
    first: usize,
    value: u64,
}

impl State {
    fn is_done(&self, op: usize) -> bool {
        self.done[op / 64] & 1 << (op % 64) != 0
    }

    fn set_done(&mut self, op: usize) {
        self.done[op / 64] |= 1 << (op % 64);
        while self.first < self.done.len() * 64 && self.is_done(self.first) {
            self.first += 1;
        }
    }
}

impl Search {
    fn new(initial: u64, ops: &[Op]) -> Self {
        let mut values = HashMap::from([(initial, Value { writes: 1, last_read: 0 })]);
        for op in ops {
            let value: &mut Value = values.entry(op.tag).or_default();
            if op.write {
                value.writes += 1;
            } else {
                value.last_read = value.last_read.max(op.invoked.max(1));
            }
        }
        let matters = |op: &&Op| op.returned != Step::MAX || op.write && values[&op.tag].last_read > 0;
        let mut ops: Vec<Op> = ops.iter().filter(matters).copied().collect();
        ops.sort_by_key(|op| op.invoked);
        Self { ops, seen: HashSet::new(), values, initial }
    }

    fn run(mut self) -> bool {
        let state = State { done: vec![0; self.ops.len() / 64 + 1], first: 0, value: self.initial };
        let mut stack = vec![state];
        while let Some(mut state) = stack.pop() {
            let Some(writes) = self.advance(&mut state) else { return true };
            if !writes.is_empty() && self.seen.insert((state.done.clone(), state.value)) {
                for write in writes {
                    let mut next = state.clone();
                    next.set_done(write);
                    next.value = self.ops[write].tag;
                    stack.push(next);
                }
            }
        }
        false
    }

    /// Does all that may as well be done now, then returns the writes that may come next; `None`: all that
    /// must be done is done.
    fn advance(&self, state: &mut State) -> Option<Vec<usize>> {
        loop {
            let open = |op: usize| !state.is_done(op);
            let mut deadline = Step::MAX;
            let mut must = false;
            for op in (state.first..self.ops.len()).filter(|op| open(*op)) {
                if self.ops[op].invoked > deadline {
                    break;
                }
                must |= self.ops[op].returned != Step::MAX;
                deadline = deadline.min(self.ops[op].returned);
            }
            if !must {
                return None;
            }
            let window = || (state.first..self.ops.len()).take_while(|op| self.ops[*op].invoked <= deadline);
            let mut reads = window().filter(|op| open(*op) && !self.ops[*op].write);
            if let Some(read) = reads.find(|op| self.ops[*op].tag == state.value) {
                state.set_done(read);
                continue;
            }
            let wanted = self.is_read(state, state.value);
            if wanted && !self.comes_back(state) {
                return Some(Vec::new());
            }
            let writes = || window().filter(|op| open(*op) && self.ops[*op].write);
            let complete = |op: &usize| {
                let value = &self.values[&self.ops[*op].tag];
                value.writes == 1 && value.last_read <= deadline
            };
            match writes().find(complete) {
                Some(write) if !wanted => {
                    state.set_done(write);
                    state.value = self.ops[write].tag;
                }
                _ => {
                    let mut unknown = HashSet::new();
                    let may_matter = |op: &usize| {
                        let Op { returned, tag, .. } = self.ops[*op];
                        returned != Step::MAX || self.is_read(state, tag) && unknown.insert(tag)
                    };
                    return Some(writes().filter(may_matter).collect());
                }
            }
        }
    }

    /// A read of the value is still to come.
    fn is_read(&self, state: &State, value: u64) -> bool {
        let last = self.values[&value].last_read;
        let rest = (state.first..self.ops.len()).take_while(|op| self.ops[*op].invoked <= last);
        rest.filter(|op| !state.is_done(*op)).any(|op| !self.ops[op].write && self.ops[op].tag == value)
    }

    /// Another write of the current value may still come.
    fn comes_back(&self, state: &State) -> bool {
        self.values[&state.value].writes > 1
            && (state.first..self.ops.len())
                .filter(|op| !state.is_done(*op))
                .any(|op| self.ops[op].write && self.ops[op].tag == state.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(invoked: Step, returned: Step, tag: u64) -> Op {
        Op { invoked, returned, write: true, tag }
    }

    fn read(invoked: Step, returned: Step, tag: u64) -> Op {
        Op { invoked, returned, write: false, tag }
    }

    const OPEN: Step = Step::MAX;

    #[test]
    fn reads_of_the_last_or_a_concurrent_write_pass() {
        let ops = [read(1, 2, 7), write(3, 9, 1), read(4, 5, 7), read(6, 8, 1), read(10, 11, 1)];
        assert_eq!(check(7, &ops), Ok(()));
    }

    #[test]
    fn a_stale_read_fails() {
        assert!(check(7, &[write(1, 2, 1), read(3, 4, 7)]).is_err());
    }

    #[test]
    fn a_value_nobody_wrote_fails() {
        assert!(check(7, &[write(1, 2, 1), read(3, 4, 9)]).is_err());
    }

    #[test]
    fn a_value_from_the_future_fails() {
        assert!(check(7, &[read(1, 2, 1), write(3, 4, 1)]).is_err());
    }

    #[test]
    fn new_then_old_fails_even_while_the_write_goes_on() {
        assert!(check(7, &[write(1, 9, 1), read(2, 3, 1), read(4, 5, 7)]).is_err());
        assert_eq!(check(7, &[write(1, 9, 1), read(2, 5, 1), read(4, 6, 7)]), Ok(()));
    }

    #[test]
    fn an_unknown_outcome_may_come_late_or_never_but_not_twice() {
        let open = write(1, OPEN, 1);
        assert_eq!(check(7, &[open, read(2, 3, 7)]), Ok(()));
        assert_eq!(check(7, &[open, read(2, 3, 7), read(4, 5, 1)]), Ok(()));
        assert!(check(7, &[open, read(2, 3, 1), read(4, 5, 7)]).is_err());
        assert!(check(7, &[open, write(2, 3, 2), read(4, 5, 1), read(6, 7, 2)]).is_err());
    }

    #[test]
    fn zeroes_may_be_written_again() {
        let ops = [write(1, 2, 0), write(3, 4, 1), read(5, 6, 1), write(7, 8, 0), read(9, 10, 0)];
        assert_eq!(check(7, &ops), Ok(()));
        assert!(check(7, &ops[..3].iter().copied().chain([read(9, 10, 0)]).collect::<Vec<_>>()).is_err());
    }

    /// Any of sixty may have written the value that comes back, which is no reason to try all their subsets.
    #[test]
    fn unknown_outcomes_that_wrote_one_value_are_told_apart_by_nobody() {
        let mut ops: Vec<Op> = (1..=60).map(|at| write(at, OPEN, 0)).collect();
        for round in 0..30 {
            let (at, tag) = (100 + round * 10, round + 1);
            ops.extend([write(at, at + 1, tag), read(at + 2, at + 3, tag), read(at + 4, at + 5, 0)]);
        }
        assert_eq!(check(0, &ops), Ok(()));
        ops.push(read(900, 901, 99));
        assert!(check(0, &ops).is_err());
    }

    /// The search against all permutations, on every history of a small shape.
    #[test]
    fn agrees_with_brute_force() {
        fn brute(value: u64, ops: &[Op]) -> bool {
            if ops.iter().all(|op| op.returned == OPEN) {
                return true;
            }
            let deadline = ops.iter().map(|op| op.returned).min().expect("not empty");
            (0..ops.len()).filter(|i| ops[*i].invoked <= deadline).any(|i| {
                let mut rest = ops.to_vec();
                let op = rest.remove(i);
                if op.write { brute(op.tag, &rest) } else { op.tag == value && brute(value, &rest) }
            })
        }
        let mut rng = crate::rng::Rng::new(1, 1);
        let mut verdicts = [0; 2];
        for _ in 0..20_000 {
            let ops: Vec<Op> = (0..rng.range(1, 6))
                .map(|i| {
                    let invoked = rng.below(12) * 8 + i;
                    let write = rng.chance(400);
                    let open = write && rng.chance(200);
                    let returned = if open { OPEN } else { invoked + 1 + rng.below(40) * 8 + 7 - i };
                    Op { invoked, returned, write, tag: rng.below(3) }
                })
                .collect();
            let expected = brute(0, &ops);
            assert_eq!(check(0, &ops).is_ok(), expected, "{ops:?}");
            verdicts[usize::from(expected)] += 1;
        }
        assert!(verdicts.iter().all(|count| *count > 1_000), "{verdicts:?}");
    }
}
