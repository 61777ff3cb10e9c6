//! Peers: a link for each pair of nodes, which has one TCP connection or several, its lanes.
//!
//! | file | noun |
//! |---|---|
//! | `credit` | how many bytes of writes may be on their way: both ends, without sockets |
//! | `port` | where others come: peers, and those who ask the registry |
//! | `vestibule` | the same before the node runs: those only who ask the registry |
//! | `greet` | the first frame in each direction: may the two talk? |
//! | `link` | one peer: dial or be dialled, up and down, what it is to be sent |
//! | `offers` | links that a peer makes, lane by lane |
//! | `lanes` | the lanes of a link: who serves which, and how all end together |
//! | `exchange` | a lane while it lasts: one task that receives and sends |
//! | `incoming` | what arrives, straight into its slot |
//! | `silence` | peers that stay connected and say nothing |
//! | `outbox` | what waits for a peer, on all its lanes |
//! | `queue` | what is to leave by a lane, and in which order |
//! | `outgoing` | what leaves, straight from its slot |
//! | `writes` | the memory for writes of peers |

mod credit;
mod exchange;
mod greet;
mod incoming;
mod lanes;
mod link;
mod offers;
mod outbox;
mod outgoing;
mod port;
mod queue;
mod silence;
mod vestibule;
mod writes;

pub(crate) use credit::Connection;
pub(crate) use lanes::thread_of_link;
pub(crate) use link::{Link, spawn};
pub(crate) use outbox::{Shelf, Way};
pub(crate) use outgoing::{Frame, Outgoing};
pub(crate) use port::Port;
pub(crate) use silence::watch as watch_silence;
pub(crate) use vestibule::attend;
pub(crate) use writes::Writes;

/// The longest payload of a write, unless blocks are longer: what comes first waits for no more.
pub(crate) const PIECE: usize = 256 << 10;
