//! Front ends: what clients of this node speak. So far NBD.
//!
//! | file | noun |
//! |---|---|
//! | `listen` | endpoints: accept, hand to a data thread |
//! | `caller` | who asks for a volume |
//! | `handshake` | a client until it has chosen an export |
//! | `connection` | a client afterwards: one task that receives, parses, answers |
//! | `parked` | the request that waits for its turn under a limit |
//! | `budget` | what a client may have under way |
//! | `request` | a request that could not be answered at once |
//! | `read`, `command`, `status` | the kinds of requests |
//! | `warm` | blocks that are fetched for nobody yet |

mod budget;
mod caller;
mod command;
mod connection;
mod handshake;
mod listen;
mod parked;
mod read;
mod request;
mod status;
mod stream;
mod warm;

pub(crate) use listen::{Endpoint, bind, bind_tcp, bind_unix, serve};
pub(crate) use warm::blocks_to_warm;
