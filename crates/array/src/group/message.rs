//! Messages between the nodes of a group. All may be lost, repeated, delayed and overtaken.

use alloc::boxed::Box;

use cards_layout::format::Uuid;

use super::extents::{Extent, Extents};
use super::io::Marks;
use super::map::{Map, Member, Term};
use super::origins::{Origin, Origins};

/// A message; `P` stands for the bytes of a write or a copy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<P> {
    /// A primary asks for the right to serve.
    Beacon {
        /// Its map's.
        term: Term,
        /// The primary.
        member: Member,
        /// The number of the beacon, which its acknowledgement names.
        sequence: u64,
        /// All columns have the writes of the term up to this number.
        floor: u64,
        /// What the primary's own disk has counted.
        marks: Marks,
    },
    /// A column's node promises to seal for no other one.
    BeaconAck {
        /// The primary that asked.
        member: Member,
        /// The number of the beacon.
        sequence: u64,
        /// Its disk answers nothing.
        hangs: bool,
    },
    /// A primary begins a term.
    Seal(Box<Map>),
    /// The column will be sealed, when its promise is over and its writes of earlier terms have ended.
    Waiting {
        /// The term.
        term: Term,
        /// Its disk answers nothing.
        hangs: bool,
    },
    /// The column refuses all earlier terms from now on, durably.
    Sealed {
        /// The term.
        term: Term,
        /// What it has.
        report: Box<Report>,
    },
    /// A primary wants bytes.
    Get {
        /// Its term.
        term: Term,
        /// The number of the request.
        number: u64,
        /// Which.
        extent: Extent,
    },
    /// The bytes.
    Got {
        /// The term of the request.
        term: Term,
        /// Its number.
        number: u64,
        /// The bytes.
        payload: P,
    },
    /// A primary wants bytes compared with their checksums.
    Verify {
        /// Its term.
        term: Term,
        /// The number of the request.
        number: u64,
        /// Which.
        extent: Extent,
    },
    /// They fit.
    Verified {
        /// The term of the request.
        term: Term,
        /// Its number.
        number: u64,
    },
    /// Bytes that a request of the primary has to read do not fit their checksums: it was not done.
    Damaged {
        /// The term of the request.
        term: Term,
        /// Its number.
        number: u64,
        /// The first of them, in whole units.
        extent: Extent,
    },
    /// A primary has bytes written: those of a command, or a copy.
    Put {
        /// Its term.
        term: Term,
        /// The number of the write in the term.
        number: u64,
        /// All columns have the writes of the term up to this number.
        floor: u64,
        /// Where.
        extent: Extent,
        /// The bytes.
        payload: P,
        /// Some column does not get this write.
        missed: bool,
        /// It may make or undo commands of an earlier term: not all columns know the same ones, and which count is told when the term is opened.
        doubtful: bool,
        /// The command, if it is one that its client may repeat.
        origin: Option<Origin>,
    },
    /// The bytes are in place.
    PutDone {
        /// The term of the write.
        term: Term,
        /// Its number.
        number: u64,
        /// What the column's disk has counted.
        marks: Marks,
    },
    /// All columns in sync agree, and clients are served from now on.
    Open {
        /// The primary's term.
        term: Term,
        /// Commands that were applied.
        origins: Box<Origins>,
        /// What columns that are not in sync have missed.
        missed: Box<Extents>,
    },
    /// The column has noted it, durably.
    Opened {
        /// The term.
        term: Term,
    },
    /// A primary has everything made durable that the column has.
    Harden {
        /// Its term.
        term: Term,
        /// The number of the request.
        number: u64,
        /// All columns have the writes of the term up to this number.
        floor: u64,
        /// The column has everything, and will be admitted.
        admits: bool,
    },
    /// It is durable.
    Hardened {
        /// The term of the request.
        term: Term,
        /// Its number.
        number: u64,
    },
    /// Copies of the missed ranges are confirmed.
    CaughtUp {
        /// The primary's term.
        term: Term,
        /// The last request that was numbered before: what is written later may be missed again, and a column that has such a write heeds
        /// none of this.
        number: u64,
        /// The ranges.
        extents: Box<Extents>,
    },
    /// A node with a column that gets no writes is back.
    Here {
        /// Its disk.
        disk: Uuid,
        /// Of which generation the disk is.
        generation: u32,
        /// The last epoch in which it was in sync, as it says.
        in_sync_epoch: u64,
        /// What it had counted when it was opened, or has told since.
        marks: Marks,
    },
    /// The column is sealed, or being sealed, for a later term.
    Refused {
        /// That term.
        term: Term,
    },
    /// The column was sealed for the term, and its process was started again since.
    Restarted {
        /// The term.
        term: Term,
    },
    /// The column's disk has failed.
    Failed {
        /// The term of the request.
        term: Term,
    },
    /// The column is not in sync, whatever the map says: its disk was put back to an earlier image, or has something that a command has replaced.
    Outdated {
        /// The term of the request.
        term: Term,
    },
    /// The register holds this map: its primary, which is this node, goes on.
    HandOver(Box<Map>),
    /// A process that was primary serves no more in this term, nor in those before.
    Resigned {
        /// The process.
        member: Member,
        /// The term.
        term: Term,
    },
}

impl<P> Message<P> {
    /// The bytes of a write, of a copy or of a read.
    pub const fn payload(&self) -> Option<&P> {
        match self {
            Self::Got { payload, .. } | Self::Put { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// The same with what `change` makes of the bytes.
    pub fn map<Q>(self, change: impl FnOnce(P) -> Q) -> Message<Q> {
        match self {
            Self::Got { term, number, payload } => Message::Got { term, number, payload: change(payload) },
            Self::Put { term, number, floor, extent, payload, missed, doubtful, origin } => Message::Put {
                term,
                number,
                floor,
                extent,
                payload: change(payload),
                missed,
                doubtful,
                origin,
            },
            Self::Beacon { term, member, sequence, floor, marks } => {
                Message::Beacon { term, member, sequence, floor, marks }
            }
            Self::BeaconAck { member, sequence, hangs } => Message::BeaconAck { member, sequence, hangs },
            Self::Seal(map) => Message::Seal(map),
            Self::Waiting { term, hangs } => Message::Waiting { term, hangs },
            Self::Sealed { term, report } => Message::Sealed { term, report },
            Self::Get { term, number, extent } => Message::Get { term, number, extent },
            Self::Verify { term, number, extent } => Message::Verify { term, number, extent },
            Self::Verified { term, number } => Message::Verified { term, number },
            Self::Damaged { term, number, extent } => Message::Damaged { term, number, extent },
            Self::PutDone { term, number, marks } => Message::PutDone { term, number, marks },
            Self::Open { term, origins, missed } => Message::Open { term, origins, missed },
            Self::Opened { term } => Message::Opened { term },
            Self::Harden { term, number, floor, admits } => Message::Harden { term, number, floor, admits },
            Self::Hardened { term, number } => Message::Hardened { term, number },
            Self::CaughtUp { term, number, extents } => Message::CaughtUp { term, number, extents },
            Self::Here { disk, generation, in_sync_epoch, marks } => {
                Message::Here { disk, generation, in_sync_epoch, marks }
            }
            Self::Refused { term } => Message::Refused { term },
            Self::Restarted { term } => Message::Restarted { term },
            Self::Failed { term } => Message::Failed { term },
            Self::Outdated { term } => Message::Outdated { term },
            Self::HandOver(map) => Message::HandOver(map),
            Self::Resigned { member, term } => Message::Resigned { member, term },
        }
    }
}

/// What a process of a column's node remembers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Memory {
    /// Its machine lost power: what was not made durable may be lost.
    Lossy,
    /// What was written is there, which commands these were is not known: the process was started after the last write, or a
    /// primary has begun to make the column the same as others.
    Restarted,
    /// All.
    Intact,
}

/// What a column has when it is sealed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Report {
    /// What its process remembers.
    pub memory: Memory,
    /// The term that it was sealed for before.
    pub sealed_before: Term,
    /// The last epoch of that generation in which it was in sync.
    pub in_sync_epoch: u64,
    /// What it has in place and other columns may not have.
    pub unstable: Extents,
    /// What columns have missed that were not in sync.
    pub missed: Extents,
    /// Commands that were applied.
    pub origins: Origins,
}
