//! The NBD (network block device) protocol, both ends, without sockets.
//!
//! The protocol is described in `doc/proto.md` of the NBD project; the names of [`consts`] are that
//! document's names. What is spoken here:
//!
//! - fixed newstyle handshake with `NO_ZEROES`; options `EXPORT_NAME`, `ABORT`, `LIST`, `INFO`, `GO`,
//!   `STRUCTURED_REPLY`, `LIST_META_CONTEXT` and `SET_META_CONTEXT` for `base:allocation`; servers, `STARTTLS`;
//! - simple and structured replies; all commands but `RESIZE`;
//! - 32-bit headers (no extended headers).
//!
//! A server runs [`server::Handshake`] until it is ready, then takes requests off its receive buffer with
//! [`Request::take`], judges each with [`validate`] and answers with the headers of [`reply`]. A client
//! runs [`client::Handshake`], sends [`Request::encode`] and feeds what comes back to [`client::Replies`].

pub mod client;
pub mod consts;
mod errno;
mod export;
pub mod reply;
mod request;
pub mod server;
mod validate;

pub use errno::Errno;
pub use export::{ExportInfo, Refusal, RefusalKind, Session};
pub use request::{BadRequest, Command, Request};
pub use validate::validate;

/// Behind the name of a volume in that of an export: the client keeps what it reads (`cards attach --exclusive`), so the
/// node drops a block when the client has had it. No volume can be called so.
pub const EXCLUSIVE: &str = "?exclusive";

/// The longest READ or WRITE, in bytes, that a server of ours accepts and announces: 32 MiB, what the
/// protocol document tells clients to assume, and what qemu-nbd enforces.
pub const MAX_PAYLOAD: u32 = 32 << 20;

/// The longest string, in bytes, of the protocol (export names, descriptions, error messages).
pub const MAX_STRING: usize = 4096;
