//! How long the server of an object may take.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::failure::{ObjectError, ObjectFailure};

/// Part of the wait after which a silent connection is given up: the request has the rest of it for another one.
const SILENT_PART: u32 = 2;
/// Bytes that count as progress: a server that gives one at a time does not hold up its reader without end.
pub(super) const PROGRESS: usize = 4096;

/// The time that one job has left. It starts anew with each [`PROGRESS`] bytes that come.
#[derive(Debug)]
pub(super) struct Patience {
    wait: Duration,
    ends: Instant,
    /// Bytes that have come since.
    came: usize,
}

impl Patience {
    /// `wait` from `since` on.
    pub(super) fn new(wait: Duration, since: Instant) -> Self {
        Self { wait, ends: since + wait, came: 0 }
    }

    /// So many bytes have come.
    pub(super) fn progress(&mut self, bytes: usize) {
        self.came += bytes;
        if self.came >= PROGRESS {
            (self.ends, self.came) = (Instant::now() + self.wait, 0);
        }
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
    async fn a_byte_now_and_then_is_no_progress() {
        let wait = Duration::from_secs(30);
        let mut patience = Patience::new(wait, Instant::now());
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(3)).await;
            patience.progress(1);
        }
        assert_eq!(patience.left(), Duration::ZERO);
        let mut patience = Patience::new(wait, Instant::now());
        tokio::time::advance(Duration::from_secs(29)).await;
        patience.progress(PROGRESS);
        assert_eq!(patience.left(), wait);
    }
}
