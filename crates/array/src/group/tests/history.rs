//! What clients have written and seen of one unit, and which values may still be seen.
//!
//! A value is wrong if a client has seen it before another one was written, and that other one was seen before this look began.

use alloc::collections::BTreeMap;

#[derive(Clone, Copy, Default)]
struct Value {
    invoked: u64,
    /// When it was read or acknowledged first.
    seen: Option<u64>,
    is_flushed: bool,
}

pub(super) struct History {
    values: BTreeMap<u32, Value>,
}

impl Default for History {
    fn default() -> Self {
        Self::of(0)
    }
}

impl History {
    /// That of a unit which begins with this value.
    pub(super) fn of(value: u32) -> Self {
        let first = Value { invoked: 0, seen: Some(0), is_flushed: true };
        Self { values: [(value, first)].into() }
    }

    pub(super) fn invoked(&mut self, value: u32, now: u64) {
        self.values.insert(value, Value { invoked: now, ..Value::default() });
    }

    pub(super) fn seen(&mut self, value: u32, now: u64) {
        if let Some(value) = self.values.get_mut(&value) {
            value.seen.get_or_insert(now);
        }
    }

    /// The value that shows that `value` is out of date for a look that began at `from`.
    pub(super) fn overwritten(&self, value: u32, from: u64) -> Option<u32> {
        self.overwritten_by(value, from, |_| true)
    }

    /// The same, counting only what a flush has covered.
    pub(super) fn flush_lost(&self, value: u32) -> Option<u32> {
        self.overwritten_by(value, u64::MAX, |by| by.is_flushed)
    }

    fn overwritten_by(&self, value: u32, from: u64, counts: impl Fn(&Value) -> bool) -> Option<u32> {
        let Some(seen) = self.values.get(&value).map(|value| value.seen) else { return Some(value) };
        let seen = seen?;
        let is_later = |by: &Value| by.seen.is_some_and(|at| at < from) && by.invoked > seen && counts(by);
        self.values.iter().find(|(_, by)| is_later(by)).map(|(value, _)| *value)
    }

    /// All that was seen before `from` survives whatever comes.
    pub(super) fn flushed(&mut self, from: u64) {
        for value in self.values.values_mut().filter(|value| value.seen.is_some_and(|at| at < from)) {
            value.is_flushed = true;
        }
    }

    /// All columns in sync have lost power: what was not flushed may be gone.
    pub(super) fn power_lost(&mut self) {
        self.values.values_mut().filter(|value| !value.is_flushed).for_each(|value| value.seen = None);
    }
}
