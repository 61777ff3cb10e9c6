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
    let mut waited_until: Option<Instant> = None;
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
                if waited_until.is_none_or(|until| Instant::now() < until) =>
            {
                let wait = Duration::from_millis(wait_ms);
                if waited_until.is_none() {
                    tracing::info!(
                        "a member is called {}; if it was this node's last process, it is declared dead in {wait:?}",
                        config.node
                    );
                    waited_until = Some(Instant::now() + wait + RETRY * 2);
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
