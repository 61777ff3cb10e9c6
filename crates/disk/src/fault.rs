//! Faults on demand, for tests: which operations of a disk fail, fall short or are slow.
//!
//! A comma-separated list of `WHAT=WHEN`, counted over all engines of the disk:
//!
//! - what: `read-eio`, `write-eio`, `write-enospc`, `sync-eio`, `read-short`, `write-short` (the first transfer
//!   moves half);
//! - when, as strace's `when=`: `3` the third, `3+` the third and all later, `3+4` the third and every fourth
//!   after it;
//! - and `slow=20ms`, added before every operation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::DiskError;

/// What a rule strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strike {
    ReadEio,
    WriteEio,
    WriteNoSpace,
    SyncEio,
    ReadShort,
    WriteShort,
}

#[derive(Debug)]
struct Rule {
    strike: Strike,
    first: u64,
    /// 0: never again.
    step: u64,
    seen: AtomicU64,
}

/// The faults of one disk.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Rule>,
    slow: Duration,
}

impl Faults {
    pub(crate) fn parse(spec: &str) -> Result<Self, DiskError> {
        let bad = |reason| DiskError::Fault { spec: spec.to_owned(), reason };
        let mut faults = Self::default();
        for item in spec.split(',') {
            let (what, when) = item.split_once('=').ok_or_else(|| bad("an item has no `=`"))?;
            let strike = match what {
                "slow" => {
                    let ms = when.strip_suffix("ms").and_then(|ms| ms.parse().ok());
                    faults.slow = Duration::from_millis(ms.ok_or_else(|| bad("slow needs milliseconds"))?);
                    continue;
                }
                "read-eio" => Strike::ReadEio,
                "write-eio" => Strike::WriteEio,
                "write-enospc" => Strike::WriteNoSpace,
                "sync-eio" => Strike::SyncEio,
                "read-short" => Strike::ReadShort,
                "write-short" => Strike::WriteShort,
                _ => return Err(bad("unknown fault")),
            };
            let (first, step) = match when.split_once('+') {
                None => (when, "0"),
                Some((first, "")) => (first, "1"),
                Some(both) => both,
            };
            match (first.parse(), step.parse()) {
                (Ok(first), Ok(step)) if first > 0 => {
                    faults.rules.push(Rule { strike, first, step, seen: AtomicU64::new(0) });
                }
                _ => return Err(bad("count from 1")),
            }
        }
        Ok(faults)
    }

    /// Counts one opportunity for `strike`; says whether it happens.
    pub(crate) fn hit(&self, strike: Strike) -> bool {
        let mut hit = false;
        for rule in self.rules.iter().filter(|rule| rule.strike == strike) {
            let n = rule.seen.fetch_add(1, Relaxed) + 1;
            hit |= n == rule.first || rule.step > 0 && n > rule.first && (n - rule.first) % rule.step == 0;
        }
        hit
    }

    /// Added before every operation.
    pub(crate) fn slow(&self) -> Duration {
        self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(spec: &str, of: u64) -> Vec<u64> {
        let faults = Faults::parse(spec).unwrap();
        (1..=of).filter(|_| faults.hit(Strike::ReadEio)).collect()
    }

    #[test]
    fn counts_like_strace() {
        assert_eq!(hits("read-eio=3", 9), [3]);
        assert_eq!(hits("read-eio=7+", 9), [7, 8, 9]);
        assert_eq!(hits("slow=1ms,read-eio=2+3", 9), [2, 5, 8]);
        assert_eq!(hits("write-eio=1+", 9), [0; 0]);
    }

    #[test]
    fn nonsense_is_refused() {
        for spec in ["", "read-eio", "read-eio=0", "read-eio=x", "read-eio=1+x", "slow=3", "melt=1"] {
            assert!(Faults::parse(spec).is_err(), "{spec:?}");
        }
    }
}
