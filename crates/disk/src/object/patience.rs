//! How long the server of an object may take.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::failure::{ObjectError, ObjectFailure};

/// Part of the wait after which a silent connection is given up: the request has the rest of it for another one.
const SILENT_PART: u32 = 2;
/// Bytes of an attempt that count although it failed: a server that gives one for each connection does not hold up its
/// reader without end.
pub(super) const PROGRESS: usize = 4096;

/// The time that one job has left. It starts anew with each byte that comes, but for those of attempts that failed after fewer
/// than [`PROGRESS`].
#[derive(Clone, Debug)]
pub(super) struct Patience {
    wait: Duration,
    ends: Instant,
}

impl Patience {
    /// `wait` from `since` on.
    pub(super) fn new(wait: Duration, since: Instant) -> Self {
        Self { wait, ends: since + wait }
    }

    /// Bytes have come.
    pub(super) fn progress(&mut self) {
        self.ends = Instant::now() + self.wait;
    }

    /// The attempt that began when this time was left to `before` has failed after so many bytes.
    pub(super) fn failed(&mut self, before: &Self, bytes: usize) {
        if bytes < PROGRESS {
            self.ends = before.ends;
        }
    }

    /// An attempt that begins then is over before a silent connection is given up.
    pub(super) fn is_short_at(&self, began: Instant) -> bool {
        began + self.wait / SILENT_PART > self.ends
    }

    /// What is left.
    pub(super) fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// Waits for the next sign of life.
    pub(super) async fn within<T>(&self, step: impl Future<Output = T>) -> Result<T, ObjectFailure> {
        let limit = (Instant::now() + self.wait / SILENT_PART).min(self.ends);
        timeout_at(limit, step).await.map_err(|_| ObjectError::Silent.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_attempts_are_short() {
        let (wait, began) = (Duration::from_secs(30), Instant::now());
        let patience = Patience::new(wait, began);
        assert!(!patience.is_short_at(began + wait / 2));
        assert!(patience.is_short_at(began + wait / 2 + Duration::from_millis(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_fail_after_a_byte_are_no_progress() {
        let wait = Duration::from_secs(30);
        for (bytes, left) in [(1, Duration::ZERO), (PROGRESS, wait)] {
            let mut patience = Patience::new(wait, Instant::now());
            for _ in 0..10 {
                let before = patience.clone();
                tokio::time::advance(Duration::from_secs(3)).await;
                patience.progress();
                patience.failed(&before, bytes);
            }
            assert_eq!(patience.left(), left, "{bytes}");
        }
    }
}
