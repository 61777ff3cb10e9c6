//! Who a node is, and connections whose ends prove it.
//!
//! A cluster has an [`Authority`] of its own, which signs a certificate for each node. A certificate names the cluster and
//! the node ([`Name`]); both ends of a connection show theirs, over TLS 1.3 and nothing older. Nothing is said before that:
//! whoever does not know the cluster's [`Door`] learns not even a name. One that is not a node yet, and wants to be, knows the
//! authority by its [`Fingerprint`], and is asked for no certificate: [`Purpose::Join`].
//!
//! | file | noun |
//! |---|---|
//! | `name` | what a certificate says of its owner |
//! | `authority` | who signs |
//! | `fingerprint` | by what an authority is known |
//! | `key` | a node's key |
//! | `place` | directories of secrets |
//! | `identity` | a node's certificate and key, and whom it believes |
//! | `settings` | what the library of TLS is told |
//! | `handshake` | a connection that begins |
//! | `record` | what is sealed and opened, record by record |
//! | `wire` | a connection's bytes, sealed or plain |
//! | `error` | why not |

mod authority;
mod error;
mod fingerprint;
mod handshake;
mod identity;
mod key;
mod name;
mod place;
mod record;
mod settings;
mod wire;

pub use authority::Authority;
pub use error::Error;
pub use fingerprint::Fingerprint;
pub use handshake::{HandshakeError, Proven, Shown, accept, connect, connect_to_join};
pub use identity::{Door, Files, Identity};
pub use key::{NodeKey, PublicKey};
pub use name::Name;
pub use place::{own_as, place};
pub use settings::Purpose;
pub use wire::{Adrift, Wire};
