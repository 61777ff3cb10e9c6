//! The client's side: handshake, replies, URIs.
//!
//! [`Handshake`] asks for structured replies and `base:allocation`, and falls back to simple replies and
//! `NBD_OPT_EXPORT_NAME` with servers that know no better. [`Replies`] follows the reply stream of many
//! requests in flight. Both treat the server as hostile: every length it announces is compared with a limit
//! before memory is reserved, and every cookie must be one that was sent. [`Outbox`] is what is still to be sent.

mod coverage;
mod handshake;
mod open;
mod outbox;
mod replies;
mod uri;

use thiserror::Error;

use super::Session;
use super::consts::*;
pub use handshake::Handshake;
pub use open::{OpenError, open};
pub use outbox::Outbox;
pub use replies::{Event, Failure, Replies};
pub use uri::{Address, Uri, UriError};

/// The longest option reply in bytes: an information with the longest string.
pub const MAX_OPTION_REPLY: u32 = 4096 + 16;

/// The most option replies of one handshake.
pub const MAX_OPTION_REPLIES: u32 = 256;

/// What [`Handshake::advance`] wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send [`Handshake::output`], report it with [`Handshake::sent`], and come back.
    Send,
    /// Everything received was used; receive more.
    Receive,
    /// The export is open.
    Ready(Ready),
}

/// The outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Size, flags and what was negotiated.
    pub session: Session,
    /// Requests must be multiples of this many bytes; 1 if the server did not say.
    pub minimum_block: u32,
    /// Preferred request size and alignment in bytes; 4096 if the server did not say.
    pub preferred_block: u32,
    /// The longest READ or WRITE in bytes, at most [`MAX_PAYLOAD`](super::MAX_PAYLOAD), which it is if the
    /// server did not say.
    pub maximum_block: u32,
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Not an NBD server.
    #[error("the server starts with {0:#018x}, which is not NBD; check host and port")]
    NotNbd(u64),
    /// A server of before 2012.
    #[error("the server speaks oldstyle NBD only; it needs at least nbd 2.9.17 or any qemu-nbd or nbdkit")]
    Oldstyle,
    /// It does not offer the export.
    #[error("the server refuses export {export:?}: {reason}{}{message}", if message.is_empty() { "" } else { ": " })]
    Refused {
        /// The export asked for.
        export: String,
        /// What kind of refusal.
        reason: OptionError,
        /// The server's words; may be empty.
        message: String,
    },
    /// It broke the protocol.
    #[error("the server broke the NBD protocol: {0}")]
    Protocol(&'static str),
}

/// The error types of option replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError(
    /// `NBD_REP_ERR_*`.
    pub u32,
);

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            NBD_REP_ERR_UNSUP => f.write_str("not supported"),
            NBD_REP_ERR_POLICY => f.write_str("forbidden by the server's policy"),
            NBD_REP_ERR_INVALID => f.write_str("request not understood"),
            NBD_REP_ERR_PLATFORM => f.write_str("not supported on the server's platform"),
            NBD_REP_ERR_TLS_REQD => f.write_str("the server requires TLS"),
            NBD_REP_ERR_UNKNOWN => f.write_str("no such export"),
            NBD_REP_ERR_SHUTDOWN => f.write_str("the server is shutting down"),
            NBD_REP_ERR_BLOCK_SIZE_REQD => f.write_str("the server requires its block sizes to be honoured"),
            NBD_REP_ERR_TOO_BIG => f.write_str("request too long"),
            other => write!(f, "error {other:#x}"),
        }
    }
}

/// A reply stream that cannot be followed any further; the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// The next bytes are not a reply, or not of a kind that was negotiated.
    #[error("reply magic is {0:#010x}: the server is out of step")]
    Magic(u32),
    /// A reply to nothing that was asked.
    #[error("reply to request {0:#x}, which is not in flight")]
    UnknownCookie(u64),
    /// A chunk that contradicts its request or itself.
    #[error("bad reply to request {cookie:#x}: {what}")]
    Chunk {
        /// The request.
        cookie: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// A request that cannot be put in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The limit is reached; wait for a reply.
    #[error("{0} requests are in flight already, the limit; wait for a reply")]
    TooMany(usize),
    /// The cookie names a request that is still in flight.
    #[error("cookie {0:#x} is still in flight; use another one")]
    CookieInUse(u64),
    /// DISC has no reply, so there is nothing to wait for.
    #[error("this command has no reply")]
    NoReply,
}
