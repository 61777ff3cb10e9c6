//! Reads: blocks that are here go out from their slots at once, the others when they have come.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cards_core::{BlockId, Input, Instant, Read, Token};
use cards_probe::{Ticket, WaitReasons};
use cards_wire::nbd::{Errno, Request as NbdRequest, reply};

use crate::node::client::Client;
use crate::node::parts::Stretch;
use crate::node::replies::Piece;
use crate::node::request::{Reading, Request, Span, Work};
use crate::node::{Local, Node, Place, ShardState};

/// Blocks one NBD_CMD_CACHE fetches at most. The command is advice, and the protocol lets its reply come
/// before the whole range is cached.
const CACHE_BLOCKS_MAX: u64 = 1024;

impl Reading {
    /// A block has come; its slot is pinned for this request.
    pub(super) fn found(&mut self, local: &Local, client: &Client, index: u32, place: Place) {
        let block = local.node.arena.block();
        let (start, length) = self.span.part(block as u64, index);
        let drop = client.drops(block, start, length);
        self.pieces[(index - self.first) as usize] = Some(lend(local, place, start, length, drop));
        self.missing -= 1;
    }

    /// Queues the reply.
    pub(super) fn finish(
        self,
        local: &Rc<Local>,
        client: &Client,
        cookie: u64,
        ticket: Ticket,
        error: Option<Errno>,
    ) {
        if error.is_some() || client.gone.get() {
            let slots = self.pieces.into_iter().filter_map(|piece| match piece {
                Some(Piece::Slot { place, .. }) => Some(place),
                _ => None,
            });
            local.unpin(slots, true);
            return client.reply(cookie, ticket, Err(error.unwrap_or(Errno::Io)));
        }
        local.reply_data(client, cookie, ticket, self.span, self.pieces.into_iter());
        client.wake();
    }
}

impl Local {
    /// Serves a read that lies within the export. When all of it is here, nothing in this path allocates,
    /// copies data or waits.
    pub(super) fn read(
        self: &Rc<Self>,
        client: &Rc<Client>,
        now: Instant,
        request: &NbdRequest,
        ticket: Ticket,
    ) {
        let NbdRequest { cookie, offset, length, .. } = *request;
        if length == 0 {
            return client.reply(cookie, ticket, Ok(()));
        }
        let span = Span { offset, length };
        let key = self.requests.borrow_mut().reserve();
        let mut pieces = self.pieces.borrow_mut();
        let mut reasons = WaitReasons::default();
        let missing = self.look(client, now, Node::token(self.index, key), span, &mut pieces, &mut reasons);
        if missing == 0 {
            self.requests.borrow_mut().cancel(key);
            return self.reply_data(client, cookie, ticket, span, pieces.drain(..));
        }
        let (first, _) = span.blocks(self.node.arena.block() as u64);
        let work = Work::Read(Reading { span, first, pieces: pieces.drain(..).collect(), missing });
        if reasons.waited_for_lock() {
            client.tap.lock_wait();
        }
        let request = Request { client: Rc::clone(client), cookie, ticket, work, error: None, reasons };
        self.requests.borrow_mut().fill(key, request);
    }

    /// Looks up the blocks of a span: adds the piece of the reply for each that is here, a gap for each that
    /// will be answered to `token`. Says how many gaps.
    fn look(
        &self,
        client: &Client,
        now: Instant,
        token: Token,
        span: Span,
        pieces: &mut Vec<Option<Piece>>,
        reasons: &mut WaitReasons,
    ) -> u32 {
        let block = self.node.arena.block() as u64;
        let (mut next, last) = span.blocks(block);
        let mut missing = 0;
        loop {
            // Neighbours share a shard: one lock for all of them.
            let Stretch { block: BlockId { volume, index: begin }, blocks, .. } =
                client.parts.stretch(next, last);
            let end = next + (blocks - 1);
            let shard = BlockId::new(volume, begin).shard(self.node.shard_count());
            let mut bounced = None;
            let mut state = self.node.shards[usize::from(shard)].lock();
            if next < end {
                state.shard.approach((begin..begin + blocks).map(|index| BlockId::new(volume, index)));
            }
            for index in next..=end {
                match state.read(now, token, BlockId::new(volume, begin + (index - next))) {
                    Read::Hit(slot, origin) => {
                        client.tap.block(origin);
                        if !lend_slot(&mut state) {
                            bounced.get_or_insert(pieces.len());
                        }
                        let (start, length) = span.part(block, index);
                        let drop = client.drops(block as usize, start, length);
                        pieces.push(Some(Piece::Slot { place: Place { shard, slot }, start, length, drop }));
                    }
                    Read::Pending => {
                        missing += 1;
                        pieces.push(None);
                        let before = self.outputs.borrow().len();
                        self.collect(shard, &mut state);
                        for (_, output) in self.outputs.borrow().iter().skip(before) {
                            reasons.wants(output);
                            self.node.probe.wanted(shard, None, output, || self.node.now());
                        }
                    }
                }
            }
            drop(state);
            // Once one slot too many is lent, those after it are too.
            let bounced = bounced.unwrap_or(pieces.len());
            for piece in pieces[bounced..].iter_mut().flatten() {
                if let Piece::Slot { place, start, length, drop } = *piece {
                    *piece = bounce(self, place, start, length, drop);
                }
            }
            if end == last {
                return missing;
            }
            next = end + 1;
        }
    }

    /// Queues the reply to a read.
    fn reply_data(
        &self,
        client: &Client,
        cookie: u64,
        ticket: Ticket,
        span: Span,
        pieces: impl Iterator<Item = Option<Piece>>,
    ) {
        let mut replies = client.replies.borrow_mut();
        replies.push(if client.session.structured_replies {
            Piece::header(&reply::offset_data(cookie, span.offset, span.length, true))
        } else {
            Piece::header(&reply::simple(cookie, Ok(())))
        });
        pieces.flatten().for_each(|piece| replies.push(piece));
        replies.push(Piece::End(ticket));
        self.bytes_read.set(self.bytes_read.get() + u64::from(span.length));
    }

    /// Fetches what a client will probably read next.
    pub(super) fn read_ahead(self: &Rc<Self>, client: &Client, now: Instant, range: Range<u64>) {
        for block in self.blocks(client, range) {
            let shard = block.shard(self.node.shard_count());
            self.shard(shard, |state| state.handle(now, Input::ReadAhead { block }));
        }
    }

    /// Serves NBD_CMD_CACHE: fetches the blocks and answers when they have come.
    pub(super) fn cache(
        self: &Rc<Self>,
        client: &Rc<Client>,
        now: Instant,
        request: &NbdRequest,
        ticket: Ticket,
    ) {
        let key = self.requests.borrow_mut().reserve();
        let token = Node::token(self.index, key);
        let range = request.offset..request.offset + u64::from(request.length);
        let most = (self.node.config.cache / self.node.arena.block() as u64 / 4).clamp(1, CACHE_BLOCKS_MAX);
        let mut missing = 0;
        for block in self.blocks(client, range).take(most as usize) {
            let shard = block.shard(self.node.shard_count());
            missing += self.shard(shard, |state| match state.read(now, token, block) {
                Read::Hit(slot, _) => {
                    state.shard.unpin(slot);
                    0
                }
                Read::Pending => 1,
            });
        }
        if missing == 0 {
            self.requests.borrow_mut().cancel(key);
            return client.reply(request.cookie, ticket, Ok(()));
        }
        let work = Work::Cache { missing };
        let (cookie, reasons) = (request.cookie, WaitReasons::default());
        let request = Request { client: Rc::clone(client), cookie, ticket, work, error: None, reasons };
        self.requests.borrow_mut().fill(key, request);
    }

    /// The blocks of the client's volume that a range of bytes touches.
    fn blocks(&self, client: &Client, range: Range<u64>) -> impl Iterator<Item = BlockId> + use<> {
        let block = self.node.arena.block() as u64;
        let parts = Arc::clone(&client.parts);
        let end = range.end.min(client.session.size).div_ceil(block);
        (range.start / block..end).map(move |index| parts.block(index as u32))
    }
}

/// Notes that a reply keeps a slot pinned, if there may be one more of them.
fn lend_slot(state: &mut ShardState) -> bool {
    let may = state.lent < state.lent_max;
    state.lent += u32::from(may);
    may
}

/// A piece of a reply from a pinned slot: the slot itself, or a copy if too many are lent.
fn lend(local: &Local, place: Place, start: u32, length: u32, drop: bool) -> Piece {
    let lent = lend_slot(&mut local.node.shards[usize::from(place.shard)].lock());
    if lent { Piece::Slot { place, start, length, drop } } else { bounce(local, place, start, length, drop) }
}

/// Copies out of a pinned slot and unpins it.
fn bounce(local: &Local, place: Place, start: u32, length: u32, drop: bool) -> Piece {
    let bytes = local.copy_out(place, start, length);
    match drop {
        true => local.unpin_and_drop([place], false),
        false => local.unpin([place], false),
    }
    Piece::Owned(bytes)
}
