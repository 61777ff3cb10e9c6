//! Peers: a link for each pair of nodes, which has one TCP connection or several, its lanes.
//!
//! | file | noun |
//! |---|---|
//! | `port` | where others come: peers, and those who ask the registry |
//! | `vestibule` | the same before the node runs: those only who ask the registry |
//! | `greet` | the first frame in each direction: may the two talk? |
//! | `peer` | one peer: dial or be dialled, up and down |
//! | `lanes` | the lanes of a link: who serves which, and how all end together |
//! | `exchange` | a lane while it lasts: one task that receives and sends |
//! | `broken` | why a connection ended |
//! | `incoming` | what arrives, straight into its slot |
//! | `silence` | peers that stay connected and say nothing |

mod broken;
mod exchange;
mod greet;
mod incoming;
mod lanes;
mod peer;
mod port;
mod silence;
mod vestibule;

pub(crate) use lanes::thread_of_link;
pub(crate) use peer::spawn;
pub(crate) use port::{Port, Registry};
pub(crate) use silence::watch as watch_silence;
pub(crate) use vestibule::attend;
