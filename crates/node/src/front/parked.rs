//! The request that waits for its turn under a limit: the first of its connection, and not started. It holds no memory but
//! its place among what was received, and those behind it wait for it: a connection's requests are started in their order.

use std::time::Duration;

use cards_core::Instant;
use cards_wire::nbd::{Command, MAX_PAYLOAD, Request};

use crate::limits::{Limiter, Turn};

/// See the module's head.
pub(super) struct Parked {
    /// When it was first seen.
    since: Instant,
    /// How many of the limits have let it pass.
    passed: usize,
    /// Its turn under the next.
    turn: Option<Turn>,
    /// How long it has waited for its turns, once it has passed all.
    waited: Option<Duration>,
}

impl Parked {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, passed: 0, turn: None, waited: None }
    }

    /// Whether a request of so many bytes may be started, as far as `limiters` say: one after the other, so that who waits
    /// under one takes nothing of the next.
    pub(super) fn passes(&mut self, limiters: [&Limiter; 2], now: Instant, bytes: u32) -> bool {
        while let Some(limiter) = limiters.get(self.passed) {
            let turn = self.turn.take().filter(|turn| limiter.is_current(turn));
            let turn = turn.or_else(|| limiter.take_turn(now, bytes));
            if let Some(turn) = turn.filter(|turn| turn.due > now) {
                self.turn = Some(turn);
                return false;
            }
            self.passed += 1;
        }
        true
    }

    /// When its turn comes; none if it has passed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.turn.as_ref().map(|turn| turn.due)
    }

    /// When it was first seen.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// How long it has waited for its turns, if it has passed.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.waited
    }

    /// It has passed, or the limits are lifted; says how long it has waited.
    pub(super) fn pass(&mut self, now: Instant) -> Duration {
        self.turn = None;
        *self.waited.insert(now.since(self.since))
    }

    /// It is not going to be started.
    pub(super) fn leave(self, limiters: [&Limiter; 2]) {
        if let (Some(limiter), Some(turn)) = (limiters.get(self.passed), self.turn) {
            limiter.give_back(&turn);
        }
    }
}

/// The bytes by which a limit counts a request: those that it moves.
pub(super) fn bytes(request: &Request) -> u32 {
    match request.command {
        Command::Read | Command::Write | Command::Cache => request.length.min(MAX_PAYLOAD),
        _ => 0,
    }
}

/// Whether a client whose connection ends behind `received` has said so, and waits for answers.
pub(super) fn says_goodbye(mut received: &[u8]) -> bool {
    while let Ok(Some(request)) = Request::take(&mut received) {
        let payload = match request.command {
            Command::Disc => return true,
            Command::Write => request.length as usize,
            _ => 0,
        };
        received = received.get(payload..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use cards_config::Limit;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn once_a_second() -> Limiter {
        let limit = Limit { iops: Some(1), ..Limit::default() };
        Limiter::new(Some(limit))
    }

    fn request(command: Command, length: u32) -> Request {
        Request { flags: 0, command, cookie: 0, offset: 0, length }
    }

    #[test]
    fn who_waits_under_one_limit_takes_nothing_of_the_next() {
        let (card, node) = (once_a_second(), once_a_second());
        let at = |s: u64| Instant(s * SECOND);
        assert!(Parked::new(at(0)).passes([&card, &node], at(0), 0), "the burst");
        let mut parked = Parked::new(at(0));
        assert!(!parked.passes([&card, &node], at(0), 0));
        assert_eq!(parked.due(), Some(at(1)));
        // Of another card, which has no limit.
        let (free, mut other) = (Limiter::new(None), Parked::new(at(0)));
        assert!(!other.passes([&free, &node], at(0), 0));
        assert_eq!(other.due(), Some(at(1)), "not behind the one that waits for its card");
        assert!(!parked.passes([&card, &node], at(1), 0), "its card lets it pass, and the node is next");
        assert!(other.passes([&free, &node], at(1), 0));
        assert_eq!(parked.due(), Some(at(2)));
        assert!(parked.passes([&card, &node], at(2), 0));
        assert_eq!((parked.due(), parked.pass(at(2))), (None, Duration::from_secs(2)));
    }

    #[test]
    fn one_that_leaves_gives_its_turn_back() {
        let (card, node) = (once_a_second(), Limiter::new(None));
        let limiters = [&card, &node];
        assert!(Parked::new(Instant(0)).passes(limiters, Instant(0), 0));
        for _ in 0..100 {
            let mut parked = Parked::new(Instant(0));
            assert!(!parked.passes(limiters, Instant(0), 0));
            assert_eq!(parked.due(), Some(Instant(SECOND)));
            parked.leave(limiters);
        }
    }

    #[test]
    fn a_limit_that_is_lifted_parks_nobody() {
        let (card, node) = (once_a_second(), Limiter::new(None));
        let limiters = [&card, &node];
        assert!(Parked::new(Instant(0)).passes(limiters, Instant(0), 0));
        let mut parked = Parked::new(Instant(0));
        assert!(!parked.passes(limiters, Instant(0), 0));
        card.set(None);
        assert!(parked.passes(limiters, Instant(0), 0));
    }

    #[test]
    fn a_goodbye_is_found_behind_requests_and_not_in_their_bytes() {
        let mut received = Vec::new();
        for (command, length) in [(Command::Read, 4096), (Command::Write, 28), (Command::Flush, 0)] {
            received.extend_from_slice(&request(command, length).encode());
            if command == Command::Write {
                received.extend_from_slice(&request(Command::Disc, 0).encode());
            }
        }
        assert!(!says_goodbye(&received));
        received.extend_from_slice(&request(Command::Disc, 0).encode());
        assert!(says_goodbye(&received));
        assert!(!says_goodbye(&received[..received.len() - 1]), "half of one is none");
    }
}
