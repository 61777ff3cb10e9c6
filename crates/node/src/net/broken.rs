//! Why a connection ended.

use std::io;
use std::time::Duration;

use cards_wire::peer::FrameError;

use crate::node::link::credit::Overdrawn;

/// A peer that has not been heard of for this long is gone, even if its machine could not say goodbye.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("closed by the peer")]
    Closed,
    #[error("the peer has opened a newer connection")]
    Superseded,
    #[error("it was declared dead, or it has left or joined anew")]
    NoMember,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the rest of a frame has not come for {} s: the peer stands still", SILENCE.as_secs())]
    Stalled,
    #[error("the bytes of a write have changed on their way")]
    Damaged,
    #[error("a message for shard {0}, which does not exist")]
    Shard(u16),
    #[error("a block of {0} bytes instead of {1}")]
    Block(usize, usize),
    #[error("{0}")]
    Credit(#[from] Overdrawn),
    #[error("a frame on lane {0} that is neither a read nor its answer")]
    Lane(u16),
}
