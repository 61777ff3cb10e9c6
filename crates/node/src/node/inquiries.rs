//! Open questions between this node and others, and the last answers that many want.
//!
//! | file | noun |
//! |---|---|
//! | `asked` | questions of this node that are not answered yet |
//! | `waiting` | questions to this node that are not answered yet |
//! | `round` | what all members have answered, for many who want it at the same time |
//! | `maps` | what they have in memory of single volumes |

mod asked;
pub(crate) mod maps;
pub(crate) mod round;
mod waiting;

use std::time::Duration;

use cards_admin::Cluster;
use cards_core::NodeId;
use tokio::sync::Semaphore;

use super::history::event::Event;

use asked::Asked;
use round::Round;
use waiting::Waiting;

/// How old an answer may be that many want.
pub(crate) const FRESH: Duration = Duration::from_millis(500);
/// Questions that one node may have open at another.
const OPEN_MAX: usize = 16;

/// Open questions of a node, its own and those of others; reachable from every thread.
pub(crate) struct Inquiries {
    pub(crate) asked: Asked,
    /// One permit for each question that a peer may still be asked.
    pub(crate) places: Box<[Semaphore]>,
    pub(crate) waiting: Waiting,
    pub(crate) cluster: Round<Cluster>,
    pub(crate) events: Round<Vec<Event>>,
    pub(crate) maps: maps::Rounds,
}

impl Inquiries {
    /// No questions yet. There are `nodes` numbers of nodes; `incarnation` is the life of this process.
    pub(crate) fn new(nodes: u16, incarnation: u64) -> Self {
        Self {
            asked: Asked::new(incarnation),
            places: (0..nodes).map(|_| Semaphore::new(OPEN_MAX)).collect(),
            waiting: Waiting::default(),
            cluster: Round::default(),
            events: Round::default(),
            maps: maps::Rounds::default(),
        }
    }

    /// The connection to a peer has ended: it answers nothing any more.
    pub(crate) fn lost(&self, peer: NodeId) {
        self.asked.forget(peer);
    }
}
