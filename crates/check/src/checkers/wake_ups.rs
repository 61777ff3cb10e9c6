//! No wake-up is lost: whatever waits goes on when nothing hinders it any more, within bounded time.

use super::Observer;
use crate::run::{Failure, Run};

/// Every request has its answer.
pub(crate) fn all_woken(run: &Run, when: &str) -> Result<(), Failure> {
    match unanswered(run) {
        None => Ok(()),
        Some(story) => Err(Failure::Stuck(Observer::WakeUps.finds()(format!("{story} {when}")))),
    }
}

/// What still waits, if anything does.
pub(crate) fn unanswered(run: &Run) -> Option<String> {
    let (token, ticket) = run.tickets.iter().next()?;
    Some(format!("{} requests have no answer, the first is {token:?}: {ticket:?}", run.tickets.len()))
}
