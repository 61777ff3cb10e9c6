//! How long reads take, by where their blocks come from.

use serde::{Deserialize, Serialize};

/// Reads, and their nanoseconds together, since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTimes {
    /// All blocks were in the node's own cache, or on their way there.
    pub own: (u64, u64),
    /// The last block came from another node's cache.
    pub remote: (u64, u64),
    /// It came from the disk.
    pub disk: (u64, u64),
}

impl ReadTimes {
    /// What came after `before`, an earlier one of the same process; all, if that was another one.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        const fn of((reads, ns): (u64, u64), before: (u64, u64)) -> (u64, u64) {
            match reads.checked_sub(before.0) {
                Some(more) => (more, ns.saturating_sub(before.1)),
                None => (reads, ns),
            }
        }
        Self {
            own: of(self.own, before.own),
            remote: of(self.remote, before.remote),
            disk: of(self.disk, before.disk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_begun_anew_has_counted_from_the_start() {
        let times = |reads: u64| ReadTimes { own: (reads, reads * 10), ..ReadTimes::default() };
        assert_eq!(times(7).since(times(5)), times(2));
        assert_eq!(times(3).since(times(5)), times(3));
    }
}
