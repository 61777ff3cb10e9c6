//! A disk node that is dead holds nothing up but its own volumes.

use cards_core::{Duration, Instant, NodeId};

use crate::options::Options;
use crate::workload::Ticket;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Stalls {
    dead: Option<NodeId>,
    /// From when on, and until when, the death has no effect on others any more: the cards of the dead node have run out.
    span: (Instant, Instant),
    longest: Duration,
}

impl Stalls {
    pub(super) fn new(options: &Options) -> Self {
        let lease = options.world.lease;
        let from = Instant::default() + lease * 4 + Duration::from_secs(3);
        // A question that was passed to the dead node is asked again.
        let longest = options.repetition() + Duration::from_millis(500);
        Self { dead: options.dead, span: (from, Instant::default() + options.storm), longest }
    }

    /// Whether the request could be judged.
    pub(super) fn answered(&self, ticket: &Ticket, at: Instant) -> Result<bool, String> {
        let (from, until) = self.span;
        let concerns = |dead| ticket.volume.disk_node() != dead && ticket.node != dead;
        if !self.dead.is_some_and(concerns) || ticket.at < from || ticket.at >= until {
            return Ok(false);
        }
        let took = at.since(ticket.at);
        match took > self.longest {
            true => Err(format!(
                "{ticket:?} takes {took:?}, while nothing but another volume's disk node is dead"
            )),
            false => Ok(true),
        }
    }
}
