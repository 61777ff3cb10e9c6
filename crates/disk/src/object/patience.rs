//! How long the server of an object may take.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::failure::{ObjectError, ObjectFailure};

/// Part of the wait after which a silent connection is given up: the request has the rest of it for another one.
const SILENT_PART: u32 = 2;

/// The time that one job has left. It starts anew with each byte that comes.
#[derive(Debug)]
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
