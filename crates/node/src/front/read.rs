//! Reads: blocks that are here go out from their slots at once, the others when they have come.

use std::ops::Range;
use std::rc::Rc;

use cards_core::{BlockId, Input, Instant, Read};
use cards_wire::nbd::{Errno, Request as NbdRequest, reply};

use super::client::Client;
use super::replies::Piece;
use super::request::{Request, Work};
use crate::local::Local;
use crate::node::{Node, Place, ShardState};
use crate::traffic::Traffic;

/// Blocks one NBD_CMD_CACHE fetches at most. The command is advice, and the protocol lets its reply come
/// before the whole range is cached.
const CACHE_BLOCKS_MAX: u64 = 1024;

/// A read of which some blocks are still missing.
pub(super) struct Reading {
    offset: u64,
    length: u32,
    /// Its first block.
    first: u32,
    /// What has come, by block.
    pieces: Vec<Option<Piece>>,
    pub(super) missing: u32,
}

impl Reading {
    /// A block has come; its slot is pinned for this request.
    pub(super) fn found(&mut self, local: &Local, index: u32, place: Place) {
        let (start, length) = self.part(local, index);
        self.pieces[(index - self.first) as usize] = Some(lend(local, place, start, length));
        self.missing -= 1;
    }

    /// The part of block `index` that was asked for: start and length.
    fn part(&self, local: &Local, index: u32) -> (u32, u32) {
        let block = local.node.arena.block() as u64;
        let begin = u64::from(index) * block;
        let start = self.offset.max(begin) - begin;
        let end = (self.offset + u64::from(self.length)).min(begin + block) - begin;
        (start as u32, (end - start) as u32)
    }

    /// Queues the reply.
    pub(super) fn finish(
        self,
        local: &Rc<Local>,
        client: &Client,
        cookie: u64,
        cost: u32,
        error: Option<Errno>,
    ) {
        if error.is_some() || client.gone.get() {
            let slots = self.pieces.into_iter().filter_map(|piece| match piece {
                Some(Piece::Slot { place, .. }) => Some(place),
                _ => None,
            });
            local.unpin(slots, true);
            return client.reply(cookie, cost, Err(error.unwrap_or(Errno::Io)));
        }
        head(client, cookie, self.offset, self.length);
        let mut replies = client.replies.borrow_mut();
        self.pieces.into_iter().flatten().for_each(|piece| replies.push(piece));
        replies.push(Piece::End { cost });
        drop(replies);
        Traffic::add(&local.node.traffic.bytes_read, self.length as usize);
        client.wake();
    }
}

impl Local {
    /// Serves a read that lies within the export.
    pub(super) fn read(self: &Rc<Self>, client: &Rc<Client>, now: Instant, request: &NbdRequest, cost: u32) {
        let NbdRequest { cookie, offset, length, .. } = *request;
        if length == 0 {
            return client.reply(cookie, cost, Ok(()));
        }
        let block = self.node.arena.block() as u64;
        let first = (offset / block) as u32;
        let last = ((offset + u64::from(length) - 1) / block) as u32;
        let key = self.requests.borrow_mut().reserve();
        let token = Node::token(self.index, key);
        if first == last {
            // The path of a local hit: nothing here allocates, copies data or waits.
            let id = BlockId::new(client.volume, first);
            let shard = id.shard(self.node.shard_count());
            let start = (offset % block) as u32;
            if let Some(piece) = self.look(now, token, id, shard, start, length) {
                self.requests.borrow_mut().cancel(key);
                head(client, cookie, offset, length);
                let mut replies = client.replies.borrow_mut();
                replies.push(piece);
                replies.push(Piece::End { cost });
                return Traffic::add(&self.node.traffic.bytes_read, length as usize);
            }
        }
        let blocks = (last - first + 1) as usize;
        let mut reading = Reading { offset, length, first, pieces: Vec::with_capacity(blocks), missing: 0 };
        if first == last {
            reading.missing = 1;
            reading.pieces.push(None);
        } else {
            for index in first..=last {
                let id = BlockId::new(client.volume, index);
                let (start, length) = reading.part(self, index);
                let piece = self.look(now, token, id, id.shard(self.node.shard_count()), start, length);
                reading.missing += u32::from(piece.is_none());
                reading.pieces.push(piece);
            }
        }
        if reading.missing == 0 {
            self.requests.borrow_mut().cancel(key);
            return reading.finish(self, client, cookie, cost, None);
        }
        let request =
            Request { client: Rc::clone(client), cookie, cost, work: Work::Read(reading), error: None };
        self.requests.borrow_mut().fill(key, request);
    }

    /// Looks one block up: the piece of a reply if it is here; otherwise it will be answered to `token`.
    fn look(
        &self,
        now: Instant,
        token: cards_core::Token,
        block: BlockId,
        shard: u16,
        start: u32,
        length: u32,
    ) -> Option<Piece> {
        let mut state = self.node.shards[usize::from(shard)].lock();
        match state.read(now, token, block) {
            Read::Hit(slot) => {
                let lent = lend_slot(&mut state);
                drop(state);
                let place = Place { shard, slot };
                Some(if lent {
                    Piece::Slot { place, start, length }
                } else {
                    bounce(self, place, start, length)
                })
            }
            Read::Pending => {
                self.collect(shard, &mut state);
                None
            }
        }
    }

    /// Fetches what a client will probably read next.
    pub(super) fn read_ahead(self: &Rc<Self>, client: &Client, now: Instant, range: Range<u64>) {
        for block in self.blocks(client, range) {
            let shard = block.shard(self.node.shard_count());
            self.shard(shard, |state| state.handle(now, Input::ReadAhead { block }));
        }
    }

    /// Serves NBD_CMD_CACHE: fetches the blocks and answers when they have come.
    pub(super) fn cache(self: &Rc<Self>, client: &Rc<Client>, now: Instant, request: &NbdRequest, cost: u32) {
        let key = self.requests.borrow_mut().reserve();
        let token = Node::token(self.index, key);
        let range = request.offset..request.offset + u64::from(request.length);
        let most = (self.node.config.cache / self.node.arena.block() as u64 / 4).clamp(1, CACHE_BLOCKS_MAX);
        let mut missing = 0;
        for block in self.blocks(client, range).take(most as usize) {
            let shard = block.shard(self.node.shard_count());
            missing += self.shard(shard, |state| match state.read(now, token, block) {
                Read::Hit(slot) => {
                    state.shard.unpin(slot);
                    0
                }
                Read::Pending => 1,
            });
        }
        if missing == 0 {
            self.requests.borrow_mut().cancel(key);
            return client.reply(request.cookie, cost, Ok(()));
        }
        let work = Work::Cache { missing };
        let request = Request { client: Rc::clone(client), cookie: request.cookie, cost, work, error: None };
        self.requests.borrow_mut().fill(key, request);
    }

    /// The blocks of the client's volume that a range of bytes touches.
    fn blocks(&self, client: &Client, range: Range<u64>) -> impl Iterator<Item = BlockId> + use<> {
        let block = self.node.arena.block() as u64;
        let volume = client.volume;
        let end = range.end.min(client.session.size).div_ceil(block);
        (range.start / block..end).map(move |index| BlockId::new(volume, index as u32))
    }
}

/// Notes that a reply keeps a slot pinned, if there may be one more of them.
fn lend_slot(state: &mut ShardState) -> bool {
    let may = state.lent < state.lent_max;
    state.lent += u32::from(may);
    may
}

/// A piece of a reply from a pinned slot: the slot itself, or a copy if too many are lent.
fn lend(local: &Local, place: Place, start: u32, length: u32) -> Piece {
    let lent = lend_slot(&mut local.node.shards[usize::from(place.shard)].lock());
    if lent { Piece::Slot { place, start, length } } else { bounce(local, place, start, length) }
}

/// Copies out of a pinned slot and unpins it.
fn bounce(local: &Local, place: Place, start: u32, length: u32) -> Piece {
    let bytes = local.copy_out(place, start, length);
    local.unpin([place], false);
    Piece::Owned(bytes)
}

/// Queues what goes before the data of a read.
fn head(client: &Client, cookie: u64, offset: u64, length: u32) {
    client.replies.borrow_mut().push(if client.session.structured_replies {
        Piece::header(&reply::offset_data(cookie, offset, length, true))
    } else {
        Piece::header(&reply::simple(cookie, Ok(())))
    });
}
