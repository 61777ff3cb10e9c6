//! What goes into a shard and what comes out.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::ids::{BlockId, BufferId, Generation, NodeId, OpId, PgId, Slot, Token, WithdrawalId};
use crate::message::{CommandKind, IoError, Message, Source};
use crate::persistence::{Loss, Persistence};
use crate::placement::Placement;
use crate::rights::Allowed;
use crate::shard::Marks;
use crate::time::Instant;
use crate::volume::{Access, VolumeSpec};

/// Bytes that go with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// None.
    None,
    /// A block in a slot.
    Slot(Slot),
    /// The bytes of a write.
    Buffer(BufferId),
}

/// Where the payload of an arriving message goes, see [`crate::Shard::landing`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// Into this slot, which is pinned until the message is handled or the landing aborted.
    Slot(Slot),
    /// Into memory of the driver's, which it then names by a [`BufferId`].
    Buffer,
    /// Nowhere: read it past, and handle the message with [`Payload::None`].
    Discard,
}

/// Everything that can happen to a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client wants a block.
    Read {
        /// Comes back in [`Output::Ready`] or [`Output::Failed`].
        token: Token,
        /// The block.
        block: BlockId,
    },
    /// A block will be wanted soon: fetch it, nobody waits.
    ReadAhead {
        /// The block.
        block: BlockId,
    },
    /// A client changes the disk. All blocks of the range belong to this shard (and lie in one stripe).
    Command {
        /// Comes back in [`Output::Done`].
        token: Token,
        /// The volume.
        volume: PgId,
        /// What to do.
        kind: CommandKind,
        /// From here, in bytes.
        offset: u64,
        /// So many bytes.
        length: u32,
        /// Answer only when it is durable.
        fua: bool,
        /// [`Payload::Buffer`] for a write; given back by [`Output::Release`].
        payload: Payload,
    },
    /// A message has arrived, its payload has landed.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        message: Message,
        /// Where its payload is.
        payload: Payload,
    },
    /// A payload that had begun to land never came to its end (the connection broke).
    LandingAborted {
        /// The slot that [`crate::Shard::landing`] had named.
        slot: Slot,
    },
    /// A disk operation is done.
    DiskDone {
        /// Which.
        op: OpId,
        /// How it went; [`IoError::SyncFailed`] if it was done and could not be made durable.
        result: Result<(), IoError>,
    },
    /// The time of [`crate::Shard::next_timeout`] has come.
    Timeout,
    /// A peer can be reached.
    PeerUp {
        /// Who.
        node: NodeId,
    },
    /// A peer cannot be reached: what it was asked for is asked elsewhere.
    PeerDown {
        /// Who.
        node: NodeId,
    },
    /// The members have changed: homes move.
    Members {
        /// The homes of blocks from now on.
        placement: Placement,
    },
    /// A volume of the cluster has become known (or has changed).
    Volume {
        /// Its description.
        spec: VolumeSpec,
    },
    /// This node's card of the volume is attached.
    Attached {
        /// The volume.
        volume: PgId,
        /// The card.
        generation: Generation,
        /// What it may do.
        access: Access,
    },
    /// The card that is attached next may send commands again that were first sent under this card of an earlier life
    /// of the disk node, or a later one: nobody was let past them. Others may have been overtaken without a word.
    RepeatFrom {
        /// The volume.
        volume: PgId,
        /// The card.
        generation: Generation,
    },
    /// The nodes that may have cards of the volume, and so copies: before the [`Input::Attached`] of a card, and when that
    /// changes.
    Allowed {
        /// The volume.
        volume: PgId,
        /// The nodes.
        nodes: Allowed,
    },
    /// Whether the disk node shall keep copies of what this card reads; none: as the volume has it.
    /// (Exclusive caching is the requester's choice; remote disk drivers, section 4.)
    LeaveCopies {
        /// The volume.
        volume: PgId,
        /// What the card wants.
        leave: Option<bool>,
    },
    /// Until when this node's card may serve cached blocks.
    Lease {
        /// The volume.
        volume: PgId,
        /// The end of the lease.
        until: Instant,
    },
    /// The same for all cards that a renewal was granted for: one input, however many they are.
    Leases {
        /// The volumes, each with the end of its lease.
        leases: Arc<[(PgId, Instant)]>,
    },
    /// This node has no (valid) card any more: all copies are void.
    Suspended {
        /// The volume.
        volume: PgId,
    },
    /// At the disk node: `node` has attached.
    CardAttached {
        /// The volume.
        volume: PgId,
        /// Where.
        node: NodeId,
        /// The incarnation of the process that has. It need not be later than that of the one before: clocks are set
        /// back, and a name can come back to a process that had lost it.
        life: u64,
        /// The card.
        generation: Generation,
        /// What it may do.
        access: Access,
    },
    /// At the disk node: the card of `node` is being given up. It may still serve copies, but writes no more.
    CardFenced {
        /// The volume.
        volume: PgId,
        /// Where.
        node: NodeId,
    },
    /// At the disk node: another process speaks for `node` now, and the one that has the card may be alive. The card
    /// is fenced, and until it is detached nobody can confirm anything on its behalf.
    CardLost {
        /// The volume.
        volume: PgId,
        /// Where.
        node: NodeId,
    },
    /// At the disk node: `node` has no card any more and serves no copies.
    CardDetached {
        /// The volume.
        volume: PgId,
        /// Where.
        node: NodeId,
    },
    /// At the primary: no card of an earlier term can be alive any more, writes may begin.
    WritesAllowed {
        /// The volume.
        volume: PgId,
    },
    /// What the last primary has left to this shard: before the [`Input::Volume`] by which this node is the next.
    Marks {
        /// The volume.
        volume: PgId,
        /// When it was written last.
        marks: Marks,
    },
    /// At the disk node: the persistence life of the disk, which only grows.
    Persistence {
        /// The volume.
        volume: PgId,
        /// The life.
        life: Persistence,
        /// What a flush is told that was not flushed in it.
        loss: Loss,
    },
    /// The journal says durably that the disk may be written: after [`Output::Unseal`].
    Unsealed {
        /// The volume.
        volume: PgId,
    },
    /// At the disk node: the disk may have lost contents that cards of an earlier life of the node still use. It is not
    /// read before [`Input::WritesAllowed`].
    Hold {
        /// The volume.
        volume: PgId,
    },
    /// At the primary of a volume whose primary moves: until when no other node is, whatever this one hears. It uses no copies
    /// after that, until it hears of a later time. Before the first one a group's primary uses none; a plain disk's needs no right.
    Right {
        /// The volume.
        volume: PgId,
        /// The end of the right.
        until: Instant,
    },
    /// Whether somebody beyond this node's cache keeps pages of the volume from now on: a kernel that has it as a local
    /// device. When nobody does any more, none are left.
    Pages {
        /// The volume.
        volume: PgId,
        /// Whether pages are kept.
        kept: bool,
    },
    /// No page of the blocks of an [`Output::Withdraw`] can be used any more.
    Withdrawn {
        /// Which.
        id: WithdrawalId,
    },
    /// At the disk node: the process is about to end. Commands that come from now on are left to its next life.
    Closing,
    /// Drop every copy that nobody is using.
    DropCaches,
    /// What policies take for the time from now on: ages of copies and epochs depend on it, timers of the protocol do not. For
    /// a replay that must not depend on how fast anything is. None: the driver's time, as at the start.
    PolicyClock {
        /// From any origin; never earlier than the last one.
        at: Option<Instant>,
    },
    /// A volume has another policy from now on: the one that [`crate::Algorithms::policy_of`] gives. Cached blocks stay. Only for volumes
    /// whose copies no policy keeps coherent.
    PolicyChosen {
        /// The volume.
        volume: PgId,
    },
    /// Blocks of a volume whose copies stay here from now on, once they are here, in place of those that were to before.
    Retain {
        /// The volume.
        volume: PgId,
        /// First and last blocks.
        ranges: Arc<[(u32, u32)]>,
    },
}

/// Everything a shard can want done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a message. A [`Payload::Slot`] is pinned: call [`crate::Shard::unpin`] when its bytes have left (or never will).
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        message: Message,
        /// Its payload.
        payload: Payload,
    },
    /// Do something to a disk of this node and answer with [`Input::DiskDone`].
    Disk {
        /// Names the operation.
        op: OpId,
        /// The volume.
        volume: PgId,
        /// The node whose card it is for; of several, the first that has asked.
        card: NodeId,
        /// What to do.
        work: DiskWork,
    },
    /// A block is ready. Its slot is pinned once for this token: call [`crate::Shard::unpin`] when done.
    Ready {
        /// From [`Input::Read`].
        token: Token,
        /// The block.
        block: BlockId,
        /// Where it is.
        slot: Slot,
        /// Where it came from.
        origin: Origin,
    },
    /// A block cannot be had.
    Failed {
        /// From [`Input::Read`].
        token: Token,
        /// The block.
        block: BlockId,
        /// Why.
        error: IoError,
    },
    /// A command is done.
    Done {
        /// From [`Input::Command`].
        token: Token,
        /// The persistence life that a write was applied under, for [`crate::Unflushed::acknowledge`]; none for a flush
        /// or a failure.
        persistence: Persistence,
        /// How it went.
        result: Result<(), IoError>,
    },
    /// The disk failed to sync: what was written before may be lost. Make durable that the persistence life is a higher
    /// one, and then give it to all shards of the volume's primary by [`Input::Persistence`]. This shard answers no flush before
    /// that. What others answer meanwhile is for the disk to see to: after a sync that has failed all later ones fail, until
    /// it is opened anew.
    /// Of a disk that was still busy for an ended term, a shard says so that is no primary any more.
    SyncFailed {
        /// The volume.
        volume: PgId,
    },
    /// A write waits until the journal says durably that the disk is written: answer with [`Input::Unsealed`] then. Only after
    /// [`crate::Shard::seal`].
    Unseal {
        /// The volume.
        volume: PgId,
    },
    /// Copy bytes of a completed write into a cached copy. Nobody uses the slot at this time, but anybody may
    /// from the next input on: copy before that (in the daemon: before unlocking the shard).
    Patch {
        /// The copy.
        slot: Slot,
        /// From here in the slot.
        slot_offset: u32,
        /// So many bytes.
        length: u32,
        /// The bytes: from a buffer, or zeroes.
        from: Patch,
    },
    /// At the disk node: a card does not confirm that its copies are gone, again and again
    /// ([`crate::ControlInput::Silent`]).
    Silent {
        /// The volume.
        volume: PgId,
        /// Where.
        node: NodeId,
        /// The card.
        generation: Generation,
    },
    /// Have whoever keeps pages of these blocks at this node drop them, and answer with [`Input::Withdrawn`] when none
    /// can be used any more. What has been read and not passed on counts as a page.
    Withdraw {
        /// Comes back in the answer.
        id: WithdrawalId,
        /// The volume.
        volume: PgId,
        /// The blocks.
        blocks: Vec<Range<u32>>,
    },
    /// The bytes of a write are no longer needed.
    Release {
        /// Which.
        buffer: BufferId,
    },
}

/// What a [`Output::Patch`] writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patch {
    /// Bytes of the buffer from `offset` on.
    Buffer {
        /// The buffer.
        buffer: BufferId,
        /// From here in the buffer.
        offset: u32,
    },
    /// Zeroes.
    Zero,
}

/// Work for a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskWork {
    /// Read the block into the slot. The last block of a volume may be short: the rest of the slot is zeroed.
    Read {
        /// The block.
        block: u32,
        /// Where to.
        slot: Slot,
        /// Nobody waits for it yet.
        read_ahead: bool,
    },
    /// Change the disk.
    Command {
        /// What to do.
        kind: CommandKind,
        /// From here, in bytes.
        offset: u64,
        /// So many bytes.
        length: u32,
        /// Make it durable before answering.
        fua: bool,
        /// The bytes of a write.
        payload: Payload,
        /// Which command it is, if it changes a volume that is no plain disk: its medium does each command once, at whatever
        /// primary it is repeated. None for a flush, too.
        origin: Option<CommandOrigin>,
    },
}

/// Which command of which process a [`DiskWork::Command`] is: the same each time it is sent, to whatever primary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommandOrigin {
    /// The node of the client.
    pub node: NodeId,
    /// The incarnation of its process.
    pub life: u64,
    /// Its shard, which counts for itself.
    pub shard: u16,
    /// The shard's number for the command.
    pub number: u64,
    /// The shard repeats no command of the volume with a lower number.
    pub oldest: u64,
    /// The epoch of the primary that it was sent to first.
    pub first_epoch: u64,
}

/// Where a block that a client read came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// This node's cache.
    Local,
    /// Another node's cache.
    Remote,
    /// The disk.
    Disk,
}

impl Origin {
    /// How a block counts that another node has delivered.
    #[must_use]
    pub const fn delivered(source: Source) -> Self {
        match source {
            Source::Cache => Self::Remote,
            Source::Disk => Self::Disk,
        }
    }
}

/// What [`crate::Shard::read`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// Here, and where the block came from: another node's cache or the disk, if it was fetched ahead and is used for
    /// the first time. The slot is pinned, call [`crate::Shard::unpin`] when done.
    Hit(Slot, Origin),
    /// On its way: [`Output::Ready`] or [`Output::Failed`] will follow.
    Pending,
}
