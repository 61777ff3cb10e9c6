//! What nodes say to each other.
//!
//! A [`Message`] concerns one shard of one volume and goes from shard to shard; a [`ControlMessage`]
//! concerns the attachment of a volume as a whole. `docs/internals/protocol.md` has both in one table.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{Generation, NodeId, PgId, RequestId, Stamp};
use crate::persistence::Persistence;
use crate::rights::Allowed;
use crate::shard::Bounds;
use crate::volume::Access;

/// A message about blocks of one shard of one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The volume.
    pub volume: PgId,
    /// The shard, the same number at sender and receiver.
    pub shard: u16,
    /// From the volume's disk node to a card of it: all writes up to this one are complete, and the card was asked about
    /// each that concerned its copies. Zero otherwise.
    pub through: Stamp,
    /// Blocks the sender's shard could still take in without evicting any (saturating).
    pub free: u16,
    /// What is said.
    pub body: Body,
}

/// The body of a [`Message`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Asks for a block on behalf of `requester`, to whom the answer goes directly.
    Read {
        /// The requester's number for it.
        request: RequestId,
        /// The block.
        block: u32,
        /// Who wants it.
        requester: NodeId,
        /// Nodes that have passed the request on so far.
        hops: u8,
        /// The disk node may keep a copy (computer-attached); otherwise it reads straight into the
        /// reply and keeps none (exclusive caching, remote disk drivers, section 4).
        leave_copy: bool,
        /// Nobody waits for it yet: the disk node may serve it after others.
        read_ahead: bool,
        /// Cooperation has failed: the disk node passes it on to nobody but the block's last writer, even if it is the
        /// home; and to nobody, if the requester itself says so.
        from_disk: bool,
    },
    /// A block. Payload: its bytes.
    Data {
        /// The number in the request.
        request: RequestId,
        /// The block.
        block: u32,
        /// Where the sender had it from.
        source: Source,
        /// It includes all complete writes to the block up to this one: what the sender was last told of by the disk
        /// node; or, from that (which serves no block that is being written), the last write that has begun.
        as_of: Stamp,
        /// Milliseconds since the sender last used its oldest block; zero unless its policy keeps ages.
        oldest_ms: u32,
    },
    /// The block cannot be served.
    Nack {
        /// The number in the request.
        request: RequestId,
        /// The block.
        block: u32,
        /// Why.
        error: IoError,
    },
    /// An evicted block looks for a new host. Payload: its bytes.
    Store {
        /// The block.
        block: u32,
        /// What kind of copy it was.
        class: u8,
        /// Stages it may still be passed on.
        depth: u8,
        /// Who evicted it.
        evictor: NodeId,
        /// Who had delivered it to the evictor.
        previous: NodeId,
        /// As in the [`Body::Data`].
        as_of: Stamp,
        /// Milliseconds since the block was last used; zero unless the policy keeps ages.
        age_ms: u32,
        /// As in the [`Body::Data`].
        oldest_ms: u32,
    },
    /// What became of a [`Body::Store`]; goes to the node that sent it last.
    StoreAck {
        /// The block.
        block: u32,
        /// Stored or not.
        outcome: StoreOutcome,
    },
    /// A policy's word about its index.
    Note {
        /// The block.
        block: u32,
        /// What about it.
        note: Note,
    },
    /// The blocks from `block` on are about to be written: drop every copy and confirm. Without blocks: the lock on the region
    /// that begins with `block` is revoked, for want of room.
    Invalidate {
        /// The card it is meant for; one of an older generation has no copies any more.
        generation: Generation,
        /// The write's place in the order of writes; zero, if none is about to begin.
        stamp: Stamp,
        /// First block.
        block: u32,
        /// Number of blocks.
        count: u16,
    },
    /// No copy is left here of what the write named by `stamp` will change; or, of a region whose lock is revoked, what is
    /// not in use has been given up.
    InvalidateAck {
        /// As in the [`Body::Invalidate`].
        generation: Generation,
        /// As in the [`Body::Invalidate`].
        stamp: Stamp,
        /// As in the [`Body::Invalidate`].
        block: u32,
        /// Segments of the block's region on which the card gives its lock up with this, one bit each.
        released: u64,
        /// The card's turn: counts its acquires, commands and releases.
        turn: u64,
    },
    /// The card wants the lock on a block, and on as much of its region as hurts nobody.
    Acquire {
        /// The card.
        generation: Generation,
        /// The block.
        block: u32,
        /// The card's turn.
        turn: u64,
        /// So many of the next regions are wanted as well, if they can be had for nothing: it reads on and on.
        ahead: u8,
    },
    /// The card has the lock.
    Granted {
        /// As in the [`Body::Acquire`].
        generation: Generation,
        /// As in the [`Body::Acquire`].
        block: u32,
        /// What it has.
        grant: Grant,
        /// What it has beyond the region.
        ahead: Ahead,
    },
    /// Changes the disk. Payload for [`CommandKind::Write`]: `length` bytes.
    Command {
        /// The writer's card: a command of an older one is refused.
        generation: Generation,
        /// The writer's number for it; grows from command to command.
        request: RequestId,
        /// Where the disk node keeps its answer. What was in this slot before has ended at the writer: a repetition of
        /// it is stale.
        slot: u16,
        /// What to do.
        kind: CommandKind,
        /// From here, in bytes.
        offset: u64,
        /// So many bytes.
        length: u32,
        /// Answer only when it is durable.
        fua: bool,
        /// It was sent to an earlier life of the disk node, which may have done it.
        again: bool,
        /// The card's turn: a command acquires what it changes.
        turn: u64,
        /// What the command is known by at all primaries, for volumes that keep account of that. Apart, so that no other message is
        /// larger for it: a cluster's simulator has a great many.
        origin: Option<Box<Numbered>>,
    },
    /// Is the command there? The question that a card asks in place of sending it again. A command that is done is
    /// answered once more, one that the primary has not got is answered with [`IoError::Busy`], and one in hand when it
    /// is done.
    Probe {
        /// The writer's card.
        generation: Generation,
        /// As in the [`Body::Command`].
        request: RequestId,
        /// As in the [`Body::Command`].
        slot: u16,
        /// The first block that the command changes.
        block: u32,
        /// As in the [`Body::Command`].
        turn: u64,
    },
    /// The writer has given the command up: it is not to be done any more. Answered when that is sure, or when it was
    /// done after all.
    Void {
        /// The writer's card.
        generation: Generation,
        /// As in the [`Body::Command`].
        request: RequestId,
        /// As in the [`Body::Command`].
        slot: u16,
    },
    /// A command is done.
    CommandDone {
        /// Of the message that this answers. An answer under any but the card that the command was sent with last says
        /// nothing: what it was sent with may yet be done.
        generation: Generation,
        /// As in the [`Body::Command`].
        request: RequestId,
        /// Its place in the order of writes.
        stamp: Stamp,
        /// The persistence life that a write was applied under; none for a flush or a failure.
        persistence: Persistence,
        /// How it went.
        result: Result<(), IoError>,
        /// The turn for which the card has the lock on what the command has changed, see [`Grant::turn`]. Zero: it has none.
        turn: u64,
        /// What contents of the region must include.
        bounds: Bounds,
    },
}

/// A command that changes a volume whose primary moves, as the shard of its client's node has numbered it: the same at each
/// primary to which it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// The shard's number for it, from 1 on; later commands have higher ones.
    pub number: u64,
    /// The shard repeats no command of the volume with a lower number.
    pub oldest: u64,
    /// The epoch of the primary that it was sent to first.
    pub first_epoch: u64,
}

/// The disk node's word about the lock on a region of a shard: 64 segments of 16 blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The turn of the acquire or command that it answers. Void if the card has released something in the region since;
    /// zero is always void.
    pub turn: u64,
    /// Segments that the card may use copies in, one bit each.
    pub held: u64,
    /// What contents of the region must include.
    pub bounds: Bounds,
}

/// Of how many of the next regions a card has the lock as well, as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ahead {
    /// So many.
    pub regions: u8,
    /// What contents of them must include.
    pub bound: Stamp,
}

impl Ahead {
    /// Regions that are granted ahead at most.
    pub const MAX: u8 = 15;
}

impl Body {
    /// Whether bytes follow the message.
    #[must_use]
    pub const fn has_payload(&self) -> bool {
        matches!(
            self,
            Self::Data { .. } | Self::Store { .. } | Self::Command { kind: CommandKind::Write, .. }
        )
    }
}

/// Where a node had a block from that it delivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// From its cache.
    Cache,
    /// From its disk.
    Disk,
}

/// What became of an evicted block sent to a new host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreOutcome {
    /// It has a new host.
    Stored,
    /// The receiver has it already.
    Present,
    /// It was passed on to another node.
    PassedOn,
    /// Nobody keeps it.
    Dropped,
}

/// What a policy tells another node about a block: only the policy at both ends understands it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// What it is about.
    pub kind: u8,
    /// What it says.
    pub value: u64,
}

/// What to do to a range of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandKind {
    /// Write the payload.
    Write,
    /// Make it read as zeroes; `no_hole` keeps the space allocated.
    Zero {
        /// Do not punch a hole.
        no_hole: bool,
    },
    /// The contents are no longer needed.
    Trim,
    /// Make durable what completed before. Concerns the whole disk: offset and length are zero.
    Flush {
        /// The persistence life of the card's unflushed writes, as [`crate::Unflushed`] says.
        since: Persistence,
    },
}

impl CommandKind {
    /// It changes nothing.
    #[must_use]
    pub const fn is_flush(self) -> bool {
        matches!(self, Self::Flush { .. })
    }
}

/// Why a block or a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// The disk failed.
    Io,
    /// The disk node did not answer in time. Of a command: it may have been done.
    NoAnswer,
    /// The command may have been done by an earlier life of the disk node, and cannot be repeated safely.
    OutcomeUnknown,
    /// The disk is full.
    NoSpace,
    /// The card or the volume is read-only.
    NotPermitted,
    /// The disk cannot do that.
    NotSupported,
    /// No card of the volume at this node.
    NotAttached,
    /// Not now: too much is on its way already. Never the last word, the request is repeated.
    Busy,
    /// Beyond the end of the volume, or badly formed.
    Invalid,
    /// A flush: what the card wrote before it may be lost, the machine of the disk was started anew.
    PowerLost,
    /// A flush or a durable write: the disk failed to sync, now or after what the card wrote before.
    SyncFailed,
}

/// A message about a card, not about blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlMessage {
    /// I know these terms of yours and use no copies of earlier ones.
    Seen {
        /// Volumes whose primary the receiver is, and their epochs; at most [`Self::MAX_CARDS`].
        terms: Vec<(PgId, u64)>,
    },
    /// Attach a volume of yours here.
    Attach {
        /// The requester's number for it.
        request: RequestId,
        /// The volume.
        volume: PgId,
        /// The policy the card insists on; empty: the volume's.
        policy: String,
        /// What the card may do.
        access: Access,
        /// Cards that are in the way of [`Access::Exclusive`] are given up.
        takeover: bool,
        /// A card of the requester that this one goes on for, with [`Access::Exclusive`]: its clients remember what they have
        /// read, so it is refused if another node has had a card that may write since.
        succeeds: Option<Generation>,
        /// For a later part of a volume, the node's last card of the first part; zero for a first or only one. A primary takes no
        /// request in the name of an earlier card than that in whose name it has given the part to one node for itself.
        rank: Generation,
    },
    /// The card is attached.
    Attached {
        /// The number in the request.
        request: RequestId,
        /// The volume.
        volume: PgId,
        /// The card.
        generation: Generation,
        /// Microseconds the card may serve cached blocks without a further word.
        lease_us: u32,
        /// Commands that were sent under an earlier card may be sent again if that one was not before this one.
        repeat_from: Generation,
        /// Since this card of the receiver no other node was given one that may write.
        alone_since: Generation,
        /// The nodes that may have cards of the volume. If that changes, the same is said again.
        allowed: Allowed,
        /// Which list of the sender's this is: messages overtake each other, and a lower one that comes later is void.
        revision: u64,
    },
    /// The card is not attached.
    Refused {
        /// The number in the request.
        request: RequestId,
        /// The volume.
        volume: PgId,
        /// Why.
        refusal: Refusal,
    },
    /// These cards are still wanted: all that the sender has of the receiver's volumes and that need a lease.
    ///
    /// They are named, though the receiver knows whom it has given cards to: what is not named runs out by itself, as a
    /// card does whose [`ControlMessage::Detach`] was lost or that is void while its pages are being withdrawn, and the
    /// receiver need not remember whom it has told of a card's end. A node has [`PgId::MAX_DISKS`] volumes at most,
    /// hence so many cards.
    Renew {
        /// The requester's number for it, higher than in all its earlier messages: the leases run from when this was sent.
        request: RequestId,
        /// The cards, at most [`ControlMessage::MAX_CARDS`].
        cards: Vec<(PgId, Generation)>,
    },
    /// The leases run on, but for some.
    Renewed {
        /// As in the [`ControlMessage::Renew`].
        request: RequestId,
        /// Cards of the request that are not renewed: there is no such card (any more), or it is being given up. As with
        /// [`ControlMessage::Expired`], drop all copies and attach again.
        expired: Vec<(PgId, Generation)>,
    },
    /// There is no such card (any more): drop all copies and attach again.
    Expired {
        /// The volume.
        volume: PgId,
        /// The card.
        generation: Generation,
    },
    /// The card is no longer wanted.
    Detach {
        /// The volume.
        volume: PgId,
        /// The card.
        generation: Generation,
    },
    /// Which parts of the disk are holes?
    Extents {
        /// The requester's number for it.
        request: RequestId,
        /// The volume.
        volume: PgId,
        /// From here, in bytes.
        offset: u64,
        /// So many bytes.
        length: u32,
    },
    /// The extents from the offset on, at most [`ControlMessage::MAX_EXTENTS`]; they may cover less than was asked.
    ExtentsDone {
        /// As in the [`ControlMessage::Extents`].
        request: RequestId,
        /// The extents, or why not.
        result: Result<Vec<Extent>, IoError>,
    },
}

impl ControlMessage {
    /// Extents one answer carries at most.
    pub const MAX_EXTENTS: usize = 1024;

    /// Cards one renewal names at most: one for each volume of a node.
    pub const MAX_CARDS: usize = PgId::MAX_DISKS as usize;
}

/// A run of bytes that is all hole or all data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its length in bytes.
    pub length: u32,
    /// It is a hole and reads as zeroes.
    pub hole: bool,
}

/// Why a card is not attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The node has no such disk.
    NoSuchVolume,
    /// All cards of a volume use one policy: this one.
    PolicyIs(String),
    /// The disk is read-only.
    ReadOnly,
    /// Another node has the volume for itself, or is taking it over.
    Exclusive(NodeId),
    /// The card would be the only one, and another node has one; or it would do more than the one that this node has.
    InUse(NodeId),
    /// The node itself has a card already, which may do no more than this.
    Attached(Access),
    /// The disk node did not answer in time, or has granted the same request before and given the card up.
    NoAnswer,
    /// The node may have no card that does so much: at most this, none if it may have none.
    NotAllowed(Option<Access>),
    /// The card cannot go on for an earlier one: another node has had a card that may write meanwhile, this one, or the
    /// disk node does not know whether one has.
    Overtaken(Option<NodeId>),
}
