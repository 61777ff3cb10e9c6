//! Who a node is, and connections whose ends prove it.
//!
//! A cluster has an [`Authority`] of its own, which signs a certificate for each node. A certificate names the cluster and
//! the node ([`Name`]); both ends of a connection show theirs, over TLS 1.3 and nothing older. Nothing is said before that:
//! whoever does not know the cluster's [`Door`] learns not even a name. One that is not a node yet, and wants to be, knows the
//! authority by its [`Fingerprint`], and is asked for no certificate: [`Purpose::Join`].
//!
//! Those that are no nodes and never will be come to a [`Service`]: clients of volumes, who show certificates of their own
//! ([`Client`]), and of HTTP, who have other ways to say who they are. A client's certificate is never taken for a node's.
//!
//! | file | noun |
//! |---|---|
//! | `name` | what a certificate says of its owner |
//! | `authority` | who signs |
//! | `certificate` | what a certificate says beside names |
//! | `fingerprint` | by what an authority is known |
//! | `key` | a node's key |
//! | `place` | directories of secrets |
//! | `client` | what a certificate says of a client, and who has one |
//! | `identity` | a node's certificate and key, and whom it believes |
//! | `settings` | what the library of TLS is told |
//! | `handshake` | a connection that begins |
//! | `service` | connections of those that are no nodes |
//! | `trust` | whom a program believes that has nothing to show |
//! | `record` | what is sealed and opened, record by record |
//! | `session` | what two ends say about their connection |
//! | `kernel` | a connection whose records the kernel seals and opens |
//! | `wire` | a connection's bytes, sealed or plain |
//! | `error` | why not |

mod authority;
mod certificate;
mod client;
mod error;
mod fingerprint;
mod handshake;
mod identity;
mod kernel;
mod key;
mod name;
mod place;
mod record;
mod service;
mod session;
mod settings;
mod trust;
mod wire;

pub use authority::{Authority, check_host, host_to_sign};
pub use client::{Client, ClientFiles, ClientName};
pub use error::Error;
pub use fingerprint::{Fingerprint, NoFingerprint};
pub use handshake::{HandshakeError, Proven, Shown, accept, connect, connect_to_join};
pub use identity::{Door, Files, Identity};
pub use key::{NodeKey, PublicKey};
pub use name::Name;
pub use place::{own_as, place};
pub use service::Service;
pub use settings::Purpose;
pub use trust::Trust;
pub use wire::{Adrift, Encryption, Wire};
