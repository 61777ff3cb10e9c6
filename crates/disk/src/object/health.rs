//! How the server of an object does, as far as requests have shown.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// At most one line of the log in this time for reads that failed.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// What the requests of a disk know of each other.
#[derive(Debug)]
pub(super) struct Health(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When the server last gave bytes of the object.
    heard: Instant,
    /// Whether an attempt has failed since the last one that succeeded.
    is_failing: bool,
    /// When the log was last told of a read that failed.
    said: Option<Instant>,
}

impl Health {
    /// Of a server that has answered just now.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { heard: Instant::now(), is_failing: false, said: None }))
    }

    /// When the server last gave bytes.
    pub(super) fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// Bytes have come.
    pub(super) fn hear(&self) {
        self.lock().heard = Instant::now();
    }

    /// An attempt has succeeded; says whether those before had failed.
    pub(super) fn recover(&self) -> bool {
        std::mem::take(&mut self.lock().is_failing)
    }

    /// An attempt has failed; says whether it is the first.
    pub(super) fn fail(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_failing, true)
    }

    /// Whether the log may be told of a read that failed.
    pub(super) fn may_say(&self) -> bool {
        let mut state = self.lock();
        let may = state.said.is_none_or(|last| last.elapsed() >= SAY_EVERY);
        if may {
            state.said = Some(Instant::now());
        }
        may
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_and_the_recovery_are_told_and_a_burst_once() {
        let health = Health::new();
        assert!(!health.recover());
        assert_eq!(
            [health.fail(), health.fail(), health.recover(), health.recover()],
            [true, false, true, false]
        );
        assert_eq!((0..100).filter(|_| health.may_say()).count(), 1);
    }
}
