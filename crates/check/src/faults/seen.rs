//! What the models see: every message when it is sent, and every operation of a disk when it begins,
//! and every write when it reaches the medium.

use std::ops::Range;

use cards_core::{Body, ControlMessage, DiskWork, Instant, Message, NodeId, PgId};
use cards_world::models::Parcel;

/// Something that observers may have to know.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A message is sent.
    Sent {
        /// When.
        at: Instant,
        /// By whom.
        from: NodeId,
        /// To whom.
        to: NodeId,
        /// What it says.
        word: Word,
        /// It arrives then at the earliest; [`Instant::NEVER`]: it is lost.
        arrives: Instant,
    },
    /// An operation of a disk begins.
    Disk {
        /// When.
        at: Instant,
        /// Whose disk.
        volume: PgId,
        /// What is done.
        work: DiskWork,
        /// When it ends.
        done: Instant,
        /// Whether it does what it should.
        ok: bool,
    },
    /// An operation of a disk has succeeded earlier than it was said to.
    Ended {
        /// When it began.
        began: Instant,
        /// When it ended.
        at: Instant,
        /// Whose disk.
        volume: PgId,
        /// What was done.
        work: DiskWork,
    },
    /// The disk does not do what it says: nothing is promised of these blocks any more.
    Doubtful {
        /// Of this volume.
        volume: PgId,
        /// The blocks.
        blocks: Range<u64>,
    },
    /// A write, or half of one, has reached a medium.
    Wrote {
        /// Of this volume.
        volume: PgId,
        /// From this sector on.
        first: u64,
        /// One tag for each sector.
        tags: Vec<u64>,
    },
}

/// A message that observers may have to know.
#[derive(Clone, Debug)]
pub enum Word {
    /// Between shards.
    Shard(Message),
    /// Between the nodes' control parts.
    Control(ControlMessage),
}

impl Word {
    /// The message, unless no observer wants it: most concern one block and its copies. What a stranger is told is always wanted.
    pub(super) fn of(parcel: Parcel<'_>, to_stranger: bool) -> Option<Self> {
        match parcel {
            Parcel::Shard { message, .. } => {
                let wanted = to_stranger
                    || matches!(
                        message.body,
                        Body::Command { .. }
                            | Body::Probe { .. }
                            | Body::Void { .. }
                            | Body::CommandDone { .. }
                            | Body::Read { .. }
                            | Body::Acquire { .. }
                            | Body::Invalidate { .. }
                    );
                wanted.then(|| Self::Shard(message.clone()))
            }
            Parcel::Control(message) => Some(Self::Control(message.clone())),
            Parcel::Group { .. } => None,
        }
    }
}
