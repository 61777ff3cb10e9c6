//! What the driver of a group does for it.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use cards_core::NodeId;
use cards_layout::format::Uuid;

use super::change::Change;
use super::extents::{Extent, Extents};
use super::map::{Map, Term};
use super::message::Message;
use super::origins::Origin;

/// The driver's number of a command; no two that are open are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// A group's number of an operation of its own column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Op(pub u64);

/// What the disk says of a column: of its entry in the table of columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Record {
    /// Generation of the map that it was sealed for.
    pub generation: u32,
    /// Epoch of that map: it refuses earlier ones.
    pub sealed_epoch: u64,
    /// The last epoch of that generation in which it was in sync.
    pub in_sync_epoch: u64,
    /// Its machine lost power, and what was lost has not been copied to it since. The driver says so, durably, when it opens a
    /// disk that was not closed after another start of the machine; the group says when it is over.
    pub is_lossy: bool,
    /// The persistence life of the group when it was opened last with this column in sync: what was written in it and is not flushed is
    /// there. 0 if that is not known. The driver forgets it when it opens a disk that was not closed.
    pub life: u64,
}

impl Record {
    /// The term that the column is sealed for.
    #[must_use]
    pub const fn term(&self) -> Term {
        Term { generation: self.generation, epoch: self.sealed_epoch }
    }
}

/// How often the disk has noted durably which of its regions are dirty. It never falls, but if the disk is put back to what it was: then what
/// it has confirmed since is gone, and so are the marks that would say where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Marks(pub u64);

/// A column as its disk was opened.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    /// The disk.
    pub disk: Uuid,
    /// What its table says.
    pub record: Record,
    /// Its dirty regions.
    pub dirty: Extents,
    /// Its missed regions.
    pub missed: Extents,
    /// What its tables count.
    pub marks: Marks,
}

/// An operation of the own column. Each has one answer, in any order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Work<P> {
    /// Read bytes.
    Read {
        /// Which.
        extent: Extent,
    },
    /// Write bytes. The regions are dirty, and missed if that is said, before the bytes are written; they stay dirty until
    /// [`Output::Release`].
    Write {
        /// Where.
        extent: Extent,
        /// The bytes.
        payload: P,
        /// Some column does not get them.
        missed: bool,
    },
    /// Read bytes, compare them with their checksums, and forget them: what is on the medium counts, not what is in a cache.
    Verify {
        /// Which.
        extent: Extent,
    },
    /// Make all writes durable that are done.
    Sync,
    /// Change the column's entry in the table of columns, durably.
    SetRecord(Record),
    /// Note that columns have missed these ranges, durably.
    MarkMissed(Extents),
}

/// Why an operation of the own column was not done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkError {
    /// The disk has failed: nothing more is asked of the column.
    Disk,
    /// Bytes that the operation reads do not fit their checksums; those of a write are the rest of units which it does not write as a
    /// whole, and nothing of it was done. What others miss by it is noted all the same, durably, but for what is damaged. The range is the first
    /// of them, in whole units.
    Damaged(Extent),
}

/// A command to a group at its primary.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Command<P> {
    /// Read.
    Read {
        /// Which bytes.
        extent: Extent,
    },
    /// Write.
    Write {
        /// Where.
        extent: Extent,
        /// The bytes.
        payload: P,
        /// Which command it is, if its client may repeat it.
        origin: Option<Origin>,
    },
    /// Read bytes at each column in sync, compare them with their checksums, and write anew from another column what does not fit. Its
    /// finds are [`Output::Damaged`].
    Verify {
        /// Which bytes: whole units, no more than one copy may have.
        extent: Extent,
    },
    /// Make durable all that was complete before.
    Flush,
}

/// Why a command was not done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommandError {
    /// This node does not order the group's commands.
    NotPrimary,
    /// It was sent to an earlier primary, and all nodes that would know whether it was applied have lost their memories.
    InDoubt,
    /// Its client has had the answer.
    Answered,
    /// Bytes that it reads fit their checksums at no column in sync: [`Output::Damaged`] says which. Those of a write are the rest of
    /// units that it does not write as a whole.
    Damaged,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPrimary => "this node is not the group's primary; read the group's map",
            Self::InDoubt => {
                "the command may have been applied: all nodes that would know were started again"
            }
            Self::Answered => "the command was answered before",
            Self::Damaged => {
                "bytes fit their checksums at no copy in sync; writing them anew, in whole units, heals them"
            }
        })
    }
}

impl core::error::Error for CommandError {}

/// What the register says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// It holds this map. A proposal of this process that was open before is this map, or was replaced by it, or is not taken
    /// any more.
    Read(Map),
    /// It holds the map that was proposed.
    Taken,
    /// It does not hold the map that was proposed, and never will; or it has held it, and another one since.
    NotTaken,
    /// It did not answer.
    Unknown,
}

/// What the driver is to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output<P> {
    /// Send a message to another node.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: Message<P>,
    },
    /// Carry out an operation of the own column: [`super::Group::done`].
    Work {
        /// Its number.
        op: Op,
        /// The operation.
        work: Work<P>,
    },
    /// The regions of a write may become clean, or of a range that was dirty when the disk was opened; one release for each.
    Release(Extent),
    /// Columns that had missed these ranges have them. Need not be durable.
    CaughtUp(Extents),
    /// Read the register: [`super::Group::register`].
    ReadMap,
    /// Replace the map of the epoch before by this one: [`super::Group::register`].
    Propose(Map),
    /// This node is the group's primary in this term: the core orders its commands from now on.
    Serves(Term),
    /// It is the primary no more. Commands that are open are left to their clients.
    Stopped,
    /// What this process has decided is the map now, or goes on because of it: for people.
    Changed(Change),
    /// A column has had units that do not fit their checksums.
    Damaged {
        /// The column.
        column: u8,
        /// The units.
        extent: Extent,
        /// They were written anew from another column. Else no column in sync has them, and they stay as they are.
        is_repaired: bool,
    },
    /// A command has ended.
    Done {
        /// Which.
        token: Token,
        /// The bytes of a read; none of other commands.
        result: Result<Option<P>, CommandError>,
    },
}

/// Outputs that the driver has not taken yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Outputs<P> {
    me: NodeId,
    pub(super) queue: VecDeque<Output<P>>,
    /// Messages of the node to itself.
    pub(super) own: VecDeque<Message<P>>,
    next_op: u64,
    pub(super) ops: BTreeMap<Op, Purpose>,
}

/// What an operation of the column is for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Purpose {
    Get { to: NodeId, term: Term, number: u64 },
    Verify { to: NodeId, term: Term, number: u64 },
    Put { to: NodeId, number: u64, extent: Extent, missed: bool, doubtful: bool, origin: Option<Origin> },
    Harden { to: NodeId, term: Term, number: u64, admits: bool },
    Seal,
    Open,
    Admit { to: NodeId, term: Term, number: u64 },
}

impl<P> Outputs<P> {
    pub(super) const fn new(me: NodeId) -> Self {
        Self { me, queue: VecDeque::new(), own: VecDeque::new(), next_op: 0, ops: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, output: Output<P>) {
        self.queue.push_back(output);
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message<P>) {
        if to == self.me {
            self.own.push_back(message);
        } else {
            self.push(Output::Send { to, message });
        }
    }

    pub(super) fn work(&mut self, work: Work<P>, purpose: Purpose) {
        let op = Op(self.next_op);
        self.next_op += 1;
        self.ops.insert(op, purpose);
        self.push(Output::Work { op, work });
    }
}
