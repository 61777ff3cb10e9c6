//! Who a node is, and connections whose ends prove it.
//!
//! A cluster has an [`Authority`] of its own, which signs a certificate for each node. A certificate names the cluster and
//! the node ([`Name`]); both ends of a connection show theirs, over TLS 1.3 and nothing older. Nothing is said before that:
//! whoever does not know the cluster's [`Door`] learns not even a name.
//!
//! | file | noun |
//! |---|---|
//! | `name` | what a certificate says of its owner |
//! | `authority` | who signs |
//! | `identity` | a node's certificate and key, and whom it believes |
//! | `settings` | what the library of TLS is told |
//! | `handshake` | a connection that begins |
//! | `record` | what is sealed and opened, record by record |
//! | `wire` | a connection's bytes, sealed or plain |
//! | `error` | why not |

mod authority;
mod error;
mod handshake;
mod identity;
mod name;
mod record;
mod settings;
mod wire;

pub use authority::{Authority, PublicKey};
pub use error::Error;
pub use handshake::{HandshakeError, Proven, Shown, accept, connect};
pub use identity::{Door, Files, Identity};
pub use name::Name;
pub use settings::Purpose;
pub use wire::{Adrift, Wire};
