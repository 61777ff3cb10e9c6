//! The server's side of the handshake, as a state machine.
//!
//! ```
//! use cards_wire::nbd::server::{Handshake, Question, Step};
//! # use cards_wire::nbd::{ExportInfo, Refusal, RefusalKind};
//! # fn receive() -> Vec<u8> { Vec::new() }
//! # fn send(_: &[u8]) {}
//! let mut handshake = Handshake::new();
//! let received: Vec<u8> = receive();
//! let mut input = received.as_slice();
//! loop {
//!     match handshake.advance(&mut input) {
//!         Step::Send => {
//!             let sent = handshake.output().len();
//!             send(handshake.output());
//!             handshake.sent(sent);
//!         }
//!         Step::Ask(Question::List) => handshake.answer_list([("disk", "a disk")]),
//!         Step::Ask(Question::Describe(name) | Question::Open(name)) => {
//!             handshake.answer_export(Err(Refusal::new(RefusalKind::Unknown, format!("no volume {name}"))));
//!         }
//!         Step::StartTls => {
//!             // Lead the handshake of TLS to its end on this connection, then
//!             handshake.secured();
//!         }
//!         Step::Receive => break,             // receive more, or give up at the deadline
//!         Step::Ready(ready) => break,        // `input` is what is left for the requests
//!         Step::Closed(reason) => break,
//!     }
//! }
//! ```
//!
//! What bounds a client (the deadline and the number of connections are the driver's):
//! - an option's payload: [`MAX_OPTION`] bytes, compared before any memory is reserved for it; a longer one
//!   is answered with `NBD_REP_ERR_TOO_BIG` and the connection closes, without draining it;
//! - a name: 4096 bytes;
//! - options: [`MAX_OPTIONS`] in one handshake;
//! - replies: nothing more is read until what was answered has been sent, so a client that never reads
//!   holds one option's replies and no more.

mod handshake;
mod option;

use thiserror::Error;

use super::{ExportInfo, Session};
pub use handshake::Handshake;

/// The longest option payload in bytes.
pub const MAX_OPTION: u32 = 8192;

/// The most options of one handshake. Real clients send about five; listing tools a few for each export.
pub const MAX_OPTIONS: u32 = 128;

/// Whether a client can, or must, have its connection secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// It cannot.
    Never,
    /// It can.
    Offered,
    /// It must, and learns nothing before.
    Required,
}

/// What [`Handshake::advance`] wants next.
#[derive(Debug)]
pub enum Step {
    /// Send [`Handshake::output`], report it with [`Handshake::sent`], and come back.
    Send,
    /// Everything received was used; receive more.
    Receive,
    /// Begin TLS, as the server of it, with nothing that was received so far; then [`Handshake::secured`].
    StartTls,
    /// Answer, now or later, then come back.
    Ask(Question),
    /// The handshake is over, the export is open, and requests follow.
    Ready(Box<Ready>),
    /// The connection must close.
    Closed(Closed),
}

/// What the handshake wants to know about exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which exports are there? [`Handshake::answer_list`].
    List,
    /// What is the export of this name? Open nothing yet. [`Handshake::answer_export`]. The empty name is
    /// the default export.
    Describe(String),
    /// The client wants this export now: take what it needs (it may be refused by policy), then
    /// [`Handshake::answer_export`]. Asked once the client has committed itself, never before.
    Open(String),
}

/// The outcome of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The name the client asked for.
    pub export: String,
    /// What was answered about it.
    pub info: ExportInfo,
    /// What requests are judged by.
    pub session: Session,
    /// `NBD_FLAG_C_*` as the client sent them.
    pub client_flags: u32,
    /// Zeroes were left out (they could be after `NBD_OPT_EXPORT_NAME` only).
    pub no_zeroes: bool,
}

/// Why a handshake ended without an export.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Closed {
    /// The client said goodbye.
    #[error("the client aborted the handshake")]
    Aborted,
    /// The client set flags that were not offered.
    #[error("client flags {0:#x} were not offered")]
    ClientFlags(u32),
    /// The next bytes are not an option.
    #[error("option magic is {0:#018x}: the client does not speak newstyle NBD or is out of step")]
    Magic(u64),
    /// An option is longer than [`MAX_OPTION`].
    #[error("option {option} has {length} bytes, over the limit of {MAX_OPTION}")]
    OptionTooLong {
        /// `NBD_OPT_*`.
        option: u32,
        /// Its announced length.
        length: u32,
    },
    /// More than [`MAX_OPTIONS`] options.
    #[error("more than {MAX_OPTIONS} options in one handshake")]
    TooManyOptions,
    /// An option other than `NBD_OPT_EXPORT_NAME` by a client without fixed newstyle.
    #[error("option {0} needs fixed newstyle, which the client did not ask for")]
    NotFixedNewstyle(u32),
    /// Something was received behind `NBD_OPT_STARTTLS` and before TLS.
    #[error(
        "bytes in the clear behind NBD_OPT_STARTTLS: somebody between the client and this server may have sent them"
    )]
    Injected,
    /// `NBD_OPT_EXPORT_NAME`, which cannot report errors, in the clear.
    #[error("the client does not ask for TLS, which is required: use nbds://, or see `nbd.tls`")]
    NoTls,
    /// `NBD_OPT_EXPORT_NAME`, which cannot report errors, with a name that is none.
    #[error("export name is not a string of at most 4096 bytes of UTF-8")]
    BadName,
    /// `NBD_OPT_EXPORT_NAME`, which cannot report errors, for an export that was refused.
    #[error("export {name:?} refused: {message}")]
    Refused {
        /// The name asked for.
        name: String,
        /// The reason given.
        message: String,
    },
}
