//! A disk node that is dead holds nothing up but its own volumes.

use cards_core::{Duration, Instant, NodeId, VolumeSpec};

use crate::options::Options;
use crate::workload::{Ticket, What};

/// See the module's head.
#[derive(Debug)]
pub(super) struct Stalls {
    /// None where messages are lost besides: nothing is claimed then.
    dead: Option<NodeId>,
    /// From when on, and until when, the death has no effect on others any more: the cards of the dead node have run out.
    span: (Instant, Instant),
    /// How long the answer to a question takes that was passed to the dead node, and is asked again.
    repetition: Duration,
    /// Blocks of a volume, for each slot of each node's cache.
    cachefuls: Vec<u32>,
}

/// What all else takes.
const REST: Duration = Duration::from_millis(500);

impl Stalls {
    pub(super) fn new(options: &Options) -> Self {
        let lease = options.world.lease;
        let from = Instant::default() + lease * 4 + Duration::from_secs(3);
        let blocks = options.world.volumes.iter().map(VolumeSpec::blocks).max().unwrap_or(0);
        let cachefuls =
            options.world.nodes.iter().map(|node| (blocks / u64::from(node.capacity_blocks)) as u32);
        Self {
            // Who repeats what was lost waits for that, however often it is lost again.
            dead: options.dead.filter(|_| options.network.loss == 0),
            span: (from, Instant::default() + options.storm),
            repetition: options.repetition(),
            cachefuls: cachefuls.collect(),
        }
    }

    /// Who reads more than fits into a cache waits for slots, and so for all that was asked before.
    fn longest(&self, ticket: &Ticket) -> Duration {
        let before = match ticket.what {
            What::Read(_) => self.cachefuls[usize::from(ticket.node.0)],
            _ => 0,
        };
        self.repetition * (1 + before) + REST
    }

    /// Whether the request could be judged.
    pub(super) fn answered(&self, ticket: &Ticket, at: Instant) -> Result<bool, String> {
        let (from, until) = self.span;
        let concerns = |dead| ticket.volume.disk_node() != dead && ticket.node != dead;
        if !self.dead.is_some_and(concerns) || ticket.at < from || ticket.at >= until {
            return Ok(false);
        }
        let took = at.since(ticket.at);
        match took > self.longest(ticket) {
            true => Err(format!(
                "{ticket:?} takes {took:?}, while nothing but another volume's disk node is dead"
            )),
            false => Ok(true),
        }
    }
}
