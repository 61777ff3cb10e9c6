//! One join: with the next membership number, for as long as this node's last process may count as a member.

use std::time::{Duration, Instant};

use cards_config::{Config, Coordinator as Home};
use cards_coordinator::{Coordinator, Epoch, Error, Incarnation, Join, Lease, Refusal, Seat, WallClock};
use cards_core::NodeId;

use crate::membership::home::{HomeError, RETRY};
use crate::membership::state::State;
use crate::starting::Starting;

/// Joins with the next membership number. A member of this name that is live may be this node's last process: it is
/// waited for until its lease must have ended.
pub(super) async fn join(
    coordinator: &Coordinator,
    config: &Config,
    home: &Home,
    before: &State,
    starting: Option<&Starting>,
) -> Result<(Seat, Lease, NodeId), HomeError> {
    let failed = |source| HomeError::Coordinator { home: home.describe(), source };
    let now = WallClock::now();
    // As with lives: later than the last, also if the clock was set back.
    let incarnation = Incarnation((now.0).max(before.membership + 1));
    let seat = Seat { name: config.node.clone(), incarnation };
    let mut patience = Patience::default();
    loop {
        let join = Join {
            cluster: config.cluster.clone(),
            seat: seat.clone(),
            address: config.address.clone().unwrap_or_default(),
            clock: WallClock::now(),
            seen: Epoch(before.epoch),
            // The state directory is locked: whatever process had this membership is gone.
            succeeds: Some(Incarnation(before.membership)).filter(|last| last.0 > 0),
        };
        match coordinator.join(join).await {
            Ok(membership) => {
                let given = membership.applied.id;
                let number = given.filter(|&number| usize::from(number) < NodeId::MAX_NODES);
                let number = number.ok_or_else(|| HomeError::Number { home: home.describe(), given })?;
                return Ok((seat, membership.lease, NodeId(number)));
            }
            Err(Error::Refused(Refusal::NameInUse { wait_ms, .. }))
                if patience.lasts(Instant::now(), Duration::from_millis(wait_ms)) =>
            {
                let wait = Duration::from_millis(wait_ms);
                if patience.is_new() {
                    tracing::info!(
                        "a member is called {}; if it was this node's last process, it is declared dead in {wait:?}",
                        config.node
                    );
                }
                if let Some(starting) = starting {
                    let reason =
                        format!("a member is called {}, and may be this node's last process", config.node);
                    starting.waits_for("the end of a lease", Some(reason));
                }
                tokio::time::sleep(RETRY.min(wait)).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// How long a member of this node's name is waited for: until its lease has ended, as was said last. A node that begins to lead the registry
/// gives every member a lease anew, so it may end later than was said before; where that happens again and again, it is renewed.
#[derive(Default)]
struct Patience {
    until: Option<Instant>,
    asked: u32,
    /// How often it ended later than was said before.
    anew: u32,
}

impl Patience {
    /// Leaders that may follow each other in the time of one lease.
    const LEADERS: u32 = 2;
    /// The same end is said a little later or earlier, by how long an answer takes.
    const BLUR: Duration = Duration::from_millis(200);

    /// The lease ends after `wait`: whether that is waited for.
    fn lasts(&mut self, now: Instant, wait: Duration) -> bool {
        let ends = now + wait + RETRY * 2;
        self.asked += 1;
        let until = *self.until.get_or_insert(ends);
        if !wait.is_zero() && until + Self::BLUR < ends && self.anew < Self::LEADERS {
            self.anew += 1;
            self.until = Some(ends);
        }
        self.until.is_some_and(|until| now < until)
    }

    /// It was asked once.
    fn is_new(&self) -> bool {
        self.asked == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3);

    #[test]
    fn the_end_of_a_lease_is_waited_for() {
        let (begin, mut patience) = (Instant::now(), Patience::default());
        let at = |ms| Duration::from_millis(ms);
        for ms in (0..3900).step_by(500) {
            assert!(patience.lasts(begin + at(ms), LEASE.saturating_sub(at(ms))), "{ms}");
        }
        assert!(!patience.lasts(begin + at(4000), Duration::ZERO), "it should have ended");
    }

    #[test]
    fn a_lease_that_a_new_leader_gave_is_waited_for_as_well() {
        let (begin, mut patience) = (Instant::now(), Patience::default());
        assert!(patience.lasts(begin, LEASE));
        // Nobody led the registry meanwhile.
        let later = begin + Duration::from_millis(6700);
        assert!(patience.lasts(later, Duration::from_millis(2200)));
        assert!(patience.lasts(later + Duration::from_millis(2200), Duration::ZERO));
        assert!(!patience.lasts(later + Duration::from_millis(3300), Duration::ZERO));
    }

    #[test]
    fn another_process_of_the_name_is_not_waited_for_for_ever() {
        let (begin, mut patience) = (Instant::now(), Patience::default());
        let ends = (0..100).find(|n| !patience.lasts(begin + RETRY * *n, LEASE - RETRY));
        assert!(ends.is_some_and(|n| RETRY * n < LEASE * 3), "{ends:?}");
    }
}
