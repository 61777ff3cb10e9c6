//! NBD_CMD_BLOCK_STATUS: which parts of the disk are holes.

use std::rc::Rc;

use cards_core::{ControlInput, Extent, IoError, PgId, Token};
use cards_probe::{Ticket, WaitReasons};
use cards_wire::nbd::consts::{NBD_CMD_FLAG_REQ_ONE, NBD_STATE_HOLE, NBD_STATE_ZERO};
use cards_wire::nbd::{Request as NbdRequest, reply};

use super::request::errno;
use crate::node::client::Client;
use crate::node::replies::Piece;
use crate::node::request::{Request, Status, Work};
use crate::node::{Event, Local, Node};

impl Local {
    /// Asks the disk node for the extents of a range, which is not empty.
    pub(super) fn block_status(self: &Rc<Self>, client: &Rc<Client>, request: &NbdRequest, ticket: Ticket) {
        let (volume, offset, length) = (client.parts.first(), request.offset, request.length);
        let status = Status { length, one: request.has(NBD_CMD_FLAG_REQ_ONE) };
        let request = Request {
            client: Rc::clone(client),
            cookie: request.cookie,
            ticket,
            work: Work::Status(status),
            error: None,
            reasons: WaitReasons::default(),
        };
        let key = self.requests.borrow_mut().insert(request);
        let token = Node::token(self.index, key);
        // Not from within the client's turn: the answer may come at once.
        let knows_holes = !client.parts.is_shared() && self.node.answers_for(volume);
        let event = match knows_holes {
            // Copies have no holes yet, so nobody has to be asked about many parts. What the disk node cannot tell is data.
            false => Event::Extents { token, result: Ok(vec![data(length)]) },
            true => Event::Control(Box::new(ControlInput::Extents { token, volume, offset, length })),
        };
        self.node.threads[usize::from(self.index)].post(event);
    }

    /// The disk node has answered.
    pub(crate) fn extents_done(&self, token: Token, result: Result<Vec<Extent>, IoError>) {
        let (_, key) = Node::thread_of(token);
        let Some(request) = self.requests.borrow_mut().remove(key) else { return };
        let ticket = request.over(self);
        let Request { client, cookie, work: Work::Status(status), .. } = request else { return };
        // Clients that copy ask for holes first. They can read what is cached here though the disk node is away.
        let mut extents = merge(&result.unwrap_or_default(), status.length, status.one);
        if extents.is_empty() {
            extents.push(data(status.length));
        }
        let (Some(context), false) = (client.session.base_allocation, client.gone.get()) else {
            return client.reply(cookie, ticket, Err(errno(IoError::Io)));
        };
        let mut bytes = Vec::with_capacity(reply::EXTENTS_SIZE + extents.len() * reply::EXTENT_SIZE);
        // At most `ControlMessage::MAX_EXTENTS` of them.
        bytes.extend_from_slice(&reply::block_status(cookie, context, extents.len() as u16, true));
        for extent in extents {
            let flags = if extent.hole { NBD_STATE_HOLE | NBD_STATE_ZERO } else { 0 };
            bytes.extend_from_slice(&reply::extent(extent.length, flags));
        }
        let mut replies = client.replies.borrow_mut();
        replies.push(Piece::Owned(bytes));
        replies.push(Piece::End(ticket));
        drop(replies);
        client.wake();
    }
}

impl Node {
    /// Whether the disk node of a volume is there, so that a question does not wait for `disk_wait`.
    fn answers_for(&self, volume: PgId) -> bool {
        self.primary(volume).is_none_or(|primary| {
            let link = &self.links[usize::from(primary.0)];
            primary == self.me || link.is_up() && link.silent_since().is_none()
        })
    }
}

fn data(length: u32) -> Extent {
    Extent { length, hole: false }
}

/// The extents of the first `length` bytes, neighbours of one kind as one.
fn merge(extents: &[Extent], length: u32, one: bool) -> Vec<Extent> {
    let mut left = length;
    let mut merged: Vec<Extent> = Vec::new();
    for extent in extents {
        let length = extent.length.min(left);
        if length == 0 {
            continue;
        }
        left -= length;
        match merged.last_mut() {
            Some(last) if last.hole == extent.hole => last.length += length,
            Some(_) if one => break,
            _ => merged.push(Extent { length, hole: extent.hole }),
        }
    }
    merged.truncate(cards_core::ControlMessage::MAX_EXTENTS);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(length: u32) -> Extent {
        Extent { length, hole: true }
    }

    #[test]
    fn extents_are_merged_and_clipped() {
        let all = [data(10), data(0), data(5), hole(7), hole(1), data(100)];
        assert_eq!(merge(&all, 30, false), [data(15), hole(8), data(7)]);
        assert_eq!(merge(&all, 30, true), [data(15)]);
        assert_eq!(merge(&all, 12, false), [data(12)]);
        assert_eq!(merge(&[hole(u32::MAX), hole(9)], u32::MAX, false), [hole(u32::MAX)]);
        assert_eq!(merge(&[], 5, false), []);
    }
}
