//! Peers: one TCP connection per pair of nodes.
//!
//! | file | noun |
//! |---|---|
//! | `credit` | how many bytes of writes may be on their way: both ends, without sockets |
//! | `greet` | the first frame in each direction: may the two talk? |
//! | `link` | one peer: dial or be dialled, up and down, what it is to be sent |
//! | `exchange` | a connection while it lasts: one task that receives and sends |
//! | `incoming` | what arrives, straight into its slot |
//! | `silence` | peers that stay connected and say nothing |
//! | `queue` | what is to leave, and in which order |
//! | `outgoing` | what leaves, straight from its slot |
//! | `writes` | the memory for writes of peers |

mod credit;
mod exchange;
mod greet;
mod incoming;
mod link;
mod outgoing;
mod queue;
mod silence;
mod writes;

pub(crate) use credit::Connection;
pub(crate) use greet::{Greeted, accept};
pub(crate) use link::{Link, spawn};
pub(crate) use outgoing::{Frame, Outgoing};
pub(crate) use silence::watch as watch_silence;
pub(crate) use writes::Writes;

/// The longest payload of a write, unless blocks are longer: what comes first waits for no more.
pub(crate) const PIECE: usize = 256 << 10;
