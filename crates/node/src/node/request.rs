//! A request that could not be answered at once.

use std::rc::Rc;

use cards_core::{CommandKind, FlushPoint};
use cards_probe::{Ticket, WaitReasons};
use cards_wire::nbd::Errno;

use super::buffers::Bytes;
use super::client::Client;
use super::replies::Piece;
use crate::slab::Key;

/// One request under way.
pub(crate) struct Request {
    pub(crate) client: Rc<Client>,
    pub(crate) cookie: u64,
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
    /// The first error.
    pub(crate) error: Option<Errno>,
    /// What it has waited for.
    pub(crate) reasons: WaitReasons,
}

/// What it waits for.
pub(crate) enum Work {
    /// Blocks to be sent.
    Read(Reading),
    /// Blocks that shall be in the cache.
    Cache { missing: u32 },
    /// Commands to the disk node.
    Command(Command),
    /// What a command has asked of a part of a volume that has several.
    Piece(CommandPiece),
    /// Extents.
    Status(Status),
}

/// What a read asks for.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Span {
    /// The first and the last block, of `block` bytes each. The span is not empty.
    pub(crate) fn blocks(self, block: u64) -> (u32, u32) {
        let last = (self.offset + u64::from(self.length) - 1) / block;
        ((self.offset / block) as u32, last as u32)
    }

    /// The part of block `index` that was asked for: start and length.
    pub(crate) fn part(self, block: u64, index: u32) -> (u32, u32) {
        let begin = u64::from(index) * block;
        let start = self.offset.max(begin) - begin;
        let end = (self.offset + u64::from(self.length)).min(begin + block) - begin;
        (start as u32, (end - start) as u32)
    }
}

/// A read of which some blocks are still missing.
pub(crate) struct Reading {
    pub(crate) span: Span,
    /// Its first block.
    pub(crate) first: u32,
    /// What has come, by block.
    pub(crate) pieces: Vec<Option<Piece>>,
    pub(crate) missing: u32,
}

/// A command of a client, as far as it has got.
pub(crate) struct Command {
    pub(crate) kind: CommandKind,
    pub(crate) fua: bool,
    /// Where a flush has begun.
    pub(crate) flush: Option<FlushPoint>,
    /// The bytes of a write.
    pub(crate) bytes: Option<Bytes>,
    pub(crate) begin: u64,
    /// What has been handed to shards ends here.
    pub(crate) next: u64,
    pub(crate) end: u64,
    /// Parts handed to shards and not done.
    pub(crate) under_way: u32,
}

/// What a command has asked of a part of its volume.
#[derive(Clone, Copy)]
pub(crate) struct CommandPiece {
    /// The command.
    pub(crate) of: Key,
    /// The part.
    pub(crate) part: u16,
    /// Where its flush has begun.
    pub(crate) flush: Option<FlushPoint>,
}

/// A question for the extents of a range.
pub(crate) struct Status {
    pub(crate) length: u32,
    /// Only the first of them.
    pub(crate) one: bool,
}
