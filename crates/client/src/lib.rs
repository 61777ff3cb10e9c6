//! Lock groups of a CARDs cluster, for programs above its volumes.
//!
//! A program opens a [`Session`] at the daemon of its machine and locks byte ranges of volumes in [`Group`]s that
//! are granted and released as a whole. A session keeps itself alive while it exists; when its program dies, the
//! daemon gives up its groups after the session's ttl. Whoever holds a group must still ask
//! [`Group::still_held`] before it relies on it, and show its [token](Group::token) to whatever stores the data:
//! between a question and a write anything can happen, and only the storage can tell an old holder from a new one.
//! `docs/reference/locks.md` has the details.
//!
//! ```no_run
//! use std::time::Duration;
//! use cards_client::{Client, Range, Wait};
//!
//! # async fn example() -> Result<(), cards_client::Error> {
//! let client = Client::unix("/run/cards/api.sock");
//! let session = client.session("indexer", Duration::from_secs(10)).await?;
//! let group = session.lock(&[Range::write("disk", 0, 1 << 20)], Wait::Seconds(5.0)).await?;
//! println!("token {}", group.token());
//! while group.still_held() {
//!     // Work in small steps, and show the token to whatever stores what they lead to.
//! #   break;
//! }
//! group.release().await?;
//! session.close().await
//! # }
//! ```
//!
//! All of it runs on tokio, also on a runtime of one thread; sessions need the runtime's timers and I/O.

pub mod body;
mod client;
mod clock;
mod error;
mod group;
mod http;
mod session;

pub use body::{ErrorKind, Mode, Part, Range, Token, Wait};
pub use client::Client;
pub use error::Error;
pub use group::Group;
pub use session::Session;
