//! How the server of an object does, as far as requests have shown.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// At most one line of the log in this time for reads that failed.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// At most one line of the log in this time for the beginning of an outage, and one for its end: a server that fails at every other request
/// would fill it.
const OUTAGE_EVERY: Duration = Duration::from_secs(10);

/// What the requests of a disk know of each other.
#[derive(Debug)]
pub(super) struct Health(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When the server last gave bytes of the object.
    heard: Instant,
    /// Whether an attempt has failed since the last one that succeeded.
    is_failing: bool,
    /// When the log was last told of an outage that began.
    told: Option<Instant>,
    /// The log was told that the present outage began.
    is_told: bool,
    /// When the log was last told of a read that failed.
    said: Option<Instant>,
}

impl Health {
    /// Of a server that has answered just now.
    pub(super) fn new() -> Self {
        let heard = Instant::now();
        Self(Mutex::new(State { heard, is_failing: false, told: None, is_told: false, said: None }))
    }

    /// When the server last gave bytes.
    pub(super) fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// Bytes have come.
    pub(super) fn hear(&self) {
        self.lock().heard = Instant::now();
    }

    /// An attempt has succeeded; says whether the log is to be told so: it was told that those before had failed.
    pub(super) fn recover(&self) -> bool {
        let mut state = self.lock();
        state.is_failing = false;
        std::mem::take(&mut state.is_told)
    }

    /// An attempt has failed; says whether the log is to be told so: it is the first, and the last outage that was told is some time ago.
    pub(super) fn fail(&self) -> bool {
        let mut state = self.lock();
        let is_first = !std::mem::replace(&mut state.is_failing, true);
        if is_first && state.told.is_none_or(|told| told.elapsed() >= OUTAGE_EVERY) {
            (state.told, state.is_told) = (Some(Instant::now()), true);
            return true;
        }
        false
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
        // A server that fails at every other request.
        assert!((0..100).all(|_| !health.fail() && !health.recover()));
        assert_eq!((0..100).filter(|_| health.may_say()).count(), 1);
    }
}
