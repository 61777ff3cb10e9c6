//! Whether a node is at rest.

use serde::{Deserialize, Serialize};

/// What a node has under way, at one moment.
///
/// A cluster is at rest when no node is busy and as many messages were received as were sent, at two looks in a
/// row between which neither number has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// A client waits, a block is on its way, a disk works, or a reply has not been taken.
    pub busy: bool,
    /// A disk works, or a reply is being sent: the node goes on without a message from others.
    pub working: bool,
    /// Requests of clients since the start.
    pub demands: u64,
    /// Messages sent to peers since the start, those that are held included.
    pub messages_sent: u64,
    /// Messages received from peers since the start.
    pub messages_received: u64,
    /// Messages that are held, for each member.
    pub held: Vec<u32>,
}
