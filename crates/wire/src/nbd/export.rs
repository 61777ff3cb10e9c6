//! What an export is, why one may be refused, and what a handshake settled about it.

use super::consts::*;

/// What a server says about one export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The name clients should use for it (`NBD_INFO_NAME`).
    pub name: String,
    /// A line for people (`NBD_INFO_DESCRIPTION`); may be empty.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// `NBD_FLAG_*` of what the export can do. The handshake itself sets `NBD_FLAG_HAS_FLAGS`, and
    /// `NBD_FLAG_SEND_DF` exactly when structured replies were negotiated.
    pub flags: u16,
    /// Preferred request size and alignment in bytes: a power of two of at least 512.
    pub preferred_block: u32,
}

/// Why an export is refused; becomes the type of the option reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// There is no such export (`NBD_REP_ERR_UNKNOWN`).
    Unknown,
    /// It exists but may not be used now, e.g. somebody else writes it (`NBD_REP_ERR_POLICY`).
    Policy,
    /// The server is going down (`NBD_REP_ERR_SHUTDOWN`).
    Shutdown,
}

/// An export refused, with words for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// What is wrong and what to do; cut at [`MAX_STRING`](super::MAX_STRING) bytes on the wire.
    pub message: String,
}

impl Refusal {
    /// A refusal of `kind` that says `message`.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// What the handshake settled and every request is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Size of the export in bytes.
    pub size: u64,
    /// Transmission flags as the client was told them.
    pub flags: u16,
    /// Structured replies were negotiated.
    pub structured_replies: bool,
    /// The identifier of `base:allocation`, if that metadata context was selected.
    pub base_allocation: Option<u32>,
}

impl Session {
    /// Whether writes are refused.
    pub fn read_only(&self) -> bool {
        self.flags & NBD_FLAG_READ_ONLY != 0
    }
}
