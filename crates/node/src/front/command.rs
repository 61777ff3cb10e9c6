//! Commands that change the disk: cut at stripe borders, long writes at those of pieces, a few at a time to their shards.

use std::rc::Rc;

use cards_core::{BlockId, CommandKind, Input, IoError, Payload, Persistence, PgId, STRIPE_BLOCKS, Token};
use cards_probe::{Ticket, WaitReasons};
use cards_wire::nbd::Request as NbdRequest;

use super::connection::fua;
use crate::node::buffers::Bytes;
use crate::node::client::Client;
use crate::node::link::PIECE;
use crate::node::parts::Stretch;
use crate::node::request::{Command, CommandPiece, Request, Work};
use crate::node::{Local, Node};
use crate::slab::Key;

/// Parts of one request that are under way at a time.
const WINDOW: u32 = 32;

impl Local {
    /// Starts a command on a range of the export; a flush is [`Self::flush`].
    pub(super) fn command(
        self: &Rc<Self>,
        client: &Rc<Client>,
        request: &NbdRequest,
        ticket: Ticket,
        kind: CommandKind,
        bytes: Option<Bytes>,
    ) {
        if request.length == 0 {
            return client.reply(request.cookie, ticket, Ok(()));
        }
        let end = request.offset + u64::from(request.length);
        let begin = request.offset;
        let command =
            Command { kind, fua: fua(request), flush: None, bytes, begin, next: begin, end, under_way: 0 };
        let key = self.add(client, request, ticket, command);
        self.advance(key);
    }

    /// Makes durable what completed before.
    pub(super) fn flush(self: &Rc<Self>, client: &Rc<Client>, request: &NbdRequest, ticket: Ticket) {
        if client.session.read_only() {
            return client.reply(request.cookie, ticket, Ok(()));
        }
        let parts = client.parts.all();
        let [only] = parts else { return self.flush_parts(client, request, ticket) };
        let point = only.unflushed().begin_flush();
        let kind = CommandKind::Flush { since: point.since };
        let flush = Some(point);
        let command =
            Command { kind, fua: false, flush, bytes: None, begin: 0, next: 0, end: 0, under_way: 1 };
        let key = self.add(client, request, ticket, command);
        let place = Place { volume: only.id, offset: 0, length: 0 };
        self.give(Node::token(self.index, key), place, kind, false, None);
    }

    /// Makes durable what completed before in any part, whichever node had it written.
    fn flush_parts(self: &Rc<Self>, client: &Rc<Client>, request: &NbdRequest, ticket: Ticket) {
        let under_way = client.parts.all().len() as u32;
        let kind = CommandKind::Flush { since: Persistence::NONE };
        let command =
            Command { kind, fua: false, flush: None, bytes: None, begin: 0, next: 0, end: 0, under_way };
        let key = self.add(client, request, ticket, command);
        for (number, part) in (0..).zip(client.parts.all()) {
            let point = part.unflushed().begin_flush();
            let piece = self.add_piece(
                key,
                client,
                ticket,
                CommandPiece { of: key, part: number, flush: Some(point) },
            );
            let place = Place { volume: part.id, offset: 0, length: 0 };
            self.give(
                Node::token(self.index, piece),
                place,
                CommandKind::Flush { since: point.since },
                false,
                None,
            );
        }
    }

    fn add(&self, client: &Rc<Client>, request: &NbdRequest, ticket: Ticket, command: Command) -> Key {
        client.commands.set(client.commands.get() + 1);
        let (client, cookie) = (Rc::clone(client), request.cookie);
        let work = Work::Command(command);
        let request = Request { client, cookie, ticket, work, error: None, reasons: WaitReasons::default() };
        self.requests.borrow_mut().insert(request)
    }

    /// A piece of a command that one part of its volume does.
    fn add_piece(&self, of: Key, client: &Rc<Client>, ticket: Ticket, piece: CommandPiece) -> Key {
        debug_assert_eq!(of, piece.of);
        let (client, work, reasons) = (Rc::clone(client), Work::Piece(piece), WaitReasons::default());
        let request = Request { client, cookie: 0, ticket, work, error: None, reasons };
        self.requests.borrow_mut().insert(request)
    }

    /// Hands the next parts of a command to their shards, or answers it.
    fn advance(self: &Rc<Self>, key: Key) {
        let block = self.node.arena.block();
        let stripe = u64::from(STRIPE_BLOCKS) * block as u64;
        loop {
            let mut requests = self.requests.borrow_mut();
            let Some(request) = requests.get_mut(key) else { return };
            let Work::Command(command) = &mut request.work else { return };
            let stopped = request.error.is_some() || request.client.gone.get();
            if stopped || command.next == command.end {
                if command.under_way > 0 {
                    return;
                }
                let Some(request) = requests.remove(key) else { return };
                drop(requests);
                let ticket = request.over(self);
                let Request { client, cookie, error, work, .. } = request;
                let error = match work {
                    Work::Command(Command { kind: CommandKind::Flush { .. }, .. }) => client.flushed(error),
                    _ => error,
                };
                client.reply(cookie, ticket, error.map_or(Ok(()), Err));
                return client.command_done();
            }
            if command.under_way == WINDOW {
                return;
            }
            let offset = command.next;
            // Nothing follows the header of the others.
            let piece = if command.bytes.is_some() { stripe.min(PIECE.max(block) as u64) } else { stripe };
            let (part, place, end) = place(&request.client, block as u64, piece, offset, command.end);
            command.next = end;
            command.under_way += 1;
            let length = place.length;
            let bytes = command.bytes.as_ref().map(|bytes| {
                let start = (offset - command.begin) as usize;
                bytes.slice(start..start + length as usize)
            });
            let (kind, fua) = (command.kind, command.fua);
            // A group knows a command by what names it, so that each piece has a name of its own.
            let is_whole = (offset, end) == (command.begin, command.end);
            let is_named = request.client.parts.is_shared() || !(is_whole || place.volume.is_plain());
            let several = is_named.then(|| (Rc::clone(&request.client), request.ticket));
            drop(requests);
            let key = match several {
                None => key,
                Some((client, ticket)) => {
                    self.add_piece(key, &client, ticket, CommandPiece { of: key, part, flush: None })
                }
            };
            self.give(Node::token(self.index, key), place, kind, fua, bytes);
        }
    }

    fn give(&self, token: Token, place: Place, kind: CommandKind, fua: bool, bytes: Option<Bytes>) {
        let Place { volume, offset, length } = place;
        let block = (offset / self.node.arena.block() as u64) as u32;
        let shard = BlockId::new(volume, block).shard(self.node.shard_count());
        let payload = bytes.map_or(Payload::None, |bytes| {
            Payload::Buffer(self.node.buffers.insert(self.index, bytes, None))
        });
        let now = self.node.now();
        let input = Input::Command { token, volume, kind, offset, length, fua, payload };
        let before = self.outputs.borrow().len();
        self.shard(shard, |state| state.handle(now, input));
        let (_, key) = Node::thread_of(token);
        if let Some(request) = self.requests.borrow_mut().get_mut(key) {
            for (_, output) in self.outputs.borrow().iter().skip(before) {
                request.reasons.wants(output);
                self.node.probe.wanted(shard, Some(kind), output, || now);
            }
        }
    }

    /// A part of a command is done.
    pub(super) fn command_done(
        self: &Rc<Self>,
        mut key: Key,
        persistence: Persistence,
        result: Result<(), IoError>,
    ) {
        {
            let mut requests = self.requests.borrow_mut();
            let Some(request) = requests.get_mut(key) else { return };
            let (mut part, mut flush) = (0, None);
            if let Work::Piece(piece) = request.work {
                let reasons = request.reasons;
                requests.remove(key);
                (key, part, flush) = (piece.of, usize::from(piece.part), piece.flush);
                if let Some(request) = requests.get_mut(key) {
                    request.reasons.join(reasons);
                }
            }
            let Some(request) = requests.get_mut(key) else { return };
            let Work::Command(command) = &mut request.work else { return };
            command.under_way -= 1;
            let (parts, card) = (request.client.parts.all(), &*request.client.seat);
            match flush.or(command.flush) {
                Some(point) => card.end_flush(&self.node, parts[part].id, point, result),
                None if !command.fua => parts[part].unflushed().acknowledge(persistence),
                None => {}
            }
            let Err(error) = result else {
                drop(requests);
                return self.advance(key);
            };
            request.fail(&self.node, error);
        }
        self.advance(key);
    }
}

/// What a part of a volume is asked for.
#[derive(Clone, Copy)]
struct Place {
    volume: PgId,
    /// In the part.
    offset: u64,
    length: u32,
}

/// The part of the volume that has the byte at `offset`, what of the bytes up to `end` is asked of it at once, and where that ends in the
/// volume: a request is cut where its number in the part is a multiple of `piece`.
fn place(client: &Client, block: u64, piece: u64, offset: u64, end: u64) -> (u16, Place, u64) {
    let parts = &client.parts;
    if !parts.is_shared() {
        let end = end.min((offset / piece + 1) * piece);
        return (0, Place { volume: parts.first(), offset, length: (end - offset) as u32 }, end);
    }
    let (first, last) = ((offset / block) as u32, ((end - 1) / block) as u32);
    let Stretch { part, block: BlockId { volume, index }, blocks } = parts.stretch(first, last);
    let within = u64::from(index) * block + offset % block;
    let left = end.min((u64::from(first) + u64::from(blocks)) * block) - offset;
    let length = left.min((within / piece + 1) * piece - within);
    (part, Place { volume, offset: within, length: length as u32 }, offset + length)
}
