//! Commands that change the disk: cut at stripe borders, long writes at those of pieces, a few at a time to their shards.

use std::rc::Rc;

use cards_core::{BlockId, CommandKind, Input, IoError, Payload, Persistence, STRIPE_BLOCKS, Token};
use cards_probe::{Ticket, WaitReasons};
use cards_wire::nbd::Request as NbdRequest;

use super::connection::fua;
use crate::node::buffers::Bytes;
use crate::node::client::Client;
use crate::node::link::PIECE;
use crate::node::request::{Command, Request, Work};
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
        let point = client.seat.begin_flush();
        let kind = CommandKind::Flush { since: point.since };
        let flush = Some(point);
        let command =
            Command { kind, fua: false, flush, bytes: None, begin: 0, next: 0, end: 0, under_way: 1 };
        let key = self.add(client, request, ticket, command);
        self.give(Node::token(self.index, key), client, kind, 0, 0, false, None);
    }

    fn add(&self, client: &Rc<Client>, request: &NbdRequest, ticket: Ticket, command: Command) -> Key {
        client.commands.set(client.commands.get() + 1);
        let (client, cookie) = (Rc::clone(client), request.cookie);
        let work = Work::Command(command);
        let request = Request { client, cookie, ticket, work, error: None, reasons: WaitReasons::default() };
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
                let Request { client, cookie, error, .. } = request;
                client.reply(cookie, ticket, error.map_or(Ok(()), Err));
                return client.command_done();
            }
            if command.under_way == WINDOW {
                return;
            }
            let offset = command.next;
            // Nothing follows the header of the others.
            let piece = if command.bytes.is_some() { stripe.min(PIECE.max(block) as u64) } else { stripe };
            let end = command.end.min((offset / piece + 1) * piece);
            command.next = end;
            command.under_way += 1;
            let length = (end - offset) as u32;
            let bytes = command.bytes.as_ref().map(|bytes| {
                let start = (offset - command.begin) as usize;
                bytes.slice(start..start + length as usize)
            });
            let (kind, fua, client) = (command.kind, command.fua, Rc::clone(&request.client));
            drop(requests);
            self.give(Node::token(self.index, key), &client, kind, offset, length, fua, bytes);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the core's input, one to one")]
    fn give(
        &self,
        token: Token,
        client: &Client,
        kind: CommandKind,
        offset: u64,
        length: u32,
        fua: bool,
        bytes: Option<Bytes>,
    ) {
        let volume = client.volume;
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
        key: Key,
        persistence: Persistence,
        result: Result<(), IoError>,
    ) {
        {
            let mut requests = self.requests.borrow_mut();
            let Some(request) = requests.get_mut(key) else { return };
            let Work::Command(command) = &mut request.work else { return };
            command.under_way -= 1;
            let (client, card) = (&request.client, &*request.client.seat);
            match command.flush {
                Some(point) => card.end_flush(&self.node, client.volume, point, result),
                None if !command.fua => card.acknowledge(persistence),
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
