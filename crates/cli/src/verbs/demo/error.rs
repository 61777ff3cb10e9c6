//! Why the demonstration failed.

use std::path::PathBuf;

use cards_wire::nbd::client::{HandshakeError, ReplyError, SendError};

use crate::error::Failure;
use crate::signals;

/// The demonstration failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The disk image cannot be made or read.
    #[error("disk image {}: {source}; name a directory with room that can be written with --dir", path.display())]
    Image { path: PathBuf, source: std::io::Error },
    /// The NBD connection broke.
    #[error("{}: {source}; see the daemon's log", path.display())]
    Socket { path: PathBuf, source: std::io::Error },
    /// The NBD handshake failed.
    #[error("{}: {source}", path.display())]
    Handshake { path: PathBuf, source: HandshakeError },
    /// The NBD replies make no sense.
    #[error("{}: {source}", path.display())]
    Reply { path: PathBuf, source: ReplyError },
    /// More requests than the reader allows itself.
    #[error("{}: {source}", path.display())]
    Request { path: PathBuf, source: SendError },
    /// The server hung up.
    #[error("{}: the daemon closed the connection; see its log", path.display())]
    Closed { path: PathBuf },
    /// The volume has another size than the image.
    #[error("{}: the volume has {volume} bytes, its disk image {image}; see the daemon's log", path.display())]
    Size { path: PathBuf, volume: u64, image: u64 },
    /// A request failed.
    #[error("{}: {what} {length} bytes at {offset}: {reason}; see the daemon's log", path.display())]
    Failed { path: PathBuf, what: &'static str, offset: u64, length: u32, reason: String },
    /// A block has neither what was acknowledged last, nor what was sent since.
    #[error(
        "{}: the bytes at {offset} are of write {seed}, and have to be of one from {least} to {most}; please report this",
        path.display()
    )]
    Lost { path: PathBuf, offset: u64, seed: u64, least: u64, most: u64 },
    /// A node was killed, and the others did not go on.
    #[error(
        "reads and writes have not gone on within {seconds} s after a node was killed; please report this"
    )]
    Stands { seconds: u64 },
    /// The volume's bytes are not the disk's.
    #[error("{}: the bytes at {offset} differ from the disk image's; please report this", path.display())]
    Differs { path: PathBuf, offset: u64 },
    /// A signal came first.
    #[error("interrupted")]
    Interrupted,
}

impl Failure for DemoError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::Interrupted) { signals::interrupted() } else { 1 }
    }
}
