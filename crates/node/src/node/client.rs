//! A client: what its connection shares with the requests it has under way.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Waker;

use cards_admin::Op;
use cards_probe::{Mark, Tap, Ticket};
use cards_wire::nbd::{Errno, MAX_PAYLOAD, Session, reply};

use super::card::Seat;
use super::parts::Parts;
use super::replies::{Piece, Replies};
use crate::slab::Key;

/// What the smallest request counts against the budget: its bookkeeping.
pub(crate) const COST_MIN: u32 = 256;
/// What the longest request counts.
pub(crate) const COST_MAX: u64 = (MAX_PAYLOAD + COST_MIN) as u64;

/// A client's connection, between two threads.
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Accepted {
    /// Where the client is; none if it is here.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Self::Unix(_) => None,
        }
    }
}

/// One client after its handshake.
pub(crate) struct Client {
    /// The card counts its clients.
    pub(crate) seat: Seat,
    /// Where the blocks of its volume are.
    pub(crate) parts: Arc<Parts>,
    pub(crate) session: Session,
    /// It keeps what it reads: the node need not have it, too.
    keeps: bool,
    /// Where its requests are noted.
    pub(crate) tap: Tap,
    pub(crate) replies: RefCell<Replies>,
    /// Most bytes in flight.
    pub(crate) budget: u64,
    pub(crate) in_flight: Cell<u64>,
    pub(crate) requests: Cell<u32>,
    /// Its only request is the one that is beyond the budget of the thread.
    pub(crate) is_beyond: Cell<bool>,
    /// Bytes that it has taken and sent.
    pub(crate) moved: Cell<u64>,
    /// It has to take, or to send, something.
    pub(crate) owes: Cell<bool>,
    /// It holds up others: its connection has to end.
    pub(crate) sent_away: Cell<bool>,
    /// Its next request waits for its turn under a limit.
    pub(crate) throttled: Cell<bool>,
    /// Commands under way that change the disk.
    pub(crate) commands: Cell<u32>,
    pub(crate) gone: Cell<bool>,
    /// Losses that it was told of, or that were before it.
    told: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// The connection's task is running: it looks for replies before it sleeps.
    pub(crate) awake: Cell<bool>,
    pub(crate) key: Cell<Option<Key>>,
}

impl Client {
    pub(crate) fn new(
        seat: Seat,
        parts: Arc<Parts>,
        (session, keeps): (Session, bool),
        tap: Tap,
        budget: u64,
    ) -> Self {
        let told = Cell::new(parts.losses());
        Self {
            seat,
            parts,
            session,
            keeps,
            tap,
            replies: RefCell::default(),
            budget,
            in_flight: Cell::new(0),
            requests: Cell::new(0),
            is_beyond: Cell::new(false),
            moved: Cell::new(0),
            owes: Cell::new(false),
            sent_away: Cell::new(false),
            throttled: Cell::new(false),
            commands: Cell::new(0),
            gone: Cell::new(false),
            told,
            waker: RefCell::new(None),
            awake: Cell::new(false),
            key: Cell::new(None),
        }
    }

    /// What its flush is answered, which ended so. Another client of the card may have been told first of a loss that concerns both.
    pub(crate) fn flushed(&self, error: Option<Errno>) -> Option<Errno> {
        let losses = self.parts.losses();
        let is_new = self.told.replace(losses) < losses;
        error.or(is_new.then_some(Errno::Io))
    }

    /// Lets the connection's task run, unless it does.
    pub(crate) fn wake(&self) {
        if !self.awake.get()
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut own = self.waker.borrow_mut();
        match &mut *own {
            Some(own) => own.clone_from(waker),
            None => *own = Some(waker.clone()),
        }
    }

    /// Whether a block is dropped when it has had this part of it. One that reads a block in pieces has it when it
    /// comes to its end.
    pub(crate) fn drops(&self, block: usize, start: u32, length: u32) -> bool {
        self.keeps && (start + length) as usize == block
    }

    /// What a request counts against the budget: the bytes it holds, and its bookkeeping.
    pub(crate) fn cost(ticket: &Ticket) -> u32 {
        let held = if matches!(ticket.op, Op::Read | Op::Write) { ticket.length.min(MAX_PAYLOAD) } else { 0 };
        held.saturating_add(COST_MIN)
    }

    /// Whether its next request waits for its turn under a limit.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled.get()
    }

    /// Requests under way.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// Answers a request that yields no data.
    pub(crate) fn reply(&self, cookie: u64, mut ticket: Ticket, result: Result<(), Errno>) {
        if self.gone.get() {
            return;
        }
        if result.is_err() {
            ticket.mark = Mark::Failed;
        }
        let mut replies = self.replies.borrow_mut();
        replies.push(match (self.session.structured_replies, result) {
            (false, result) => Piece::header(&reply::simple(cookie, result)),
            (true, Ok(())) => Piece::header(&reply::none(cookie)),
            (true, Err(errno)) => {
                let mut chunk = [0; reply::ERROR_SIZE];
                let length = reply::error(&mut chunk, cookie, errno, "");
                Piece::header(&chunk[..length])
            }
        });
        replies.push(Piece::End(ticket));
        drop(replies);
        self.wake();
    }

    /// A command that changes the disk has ended.
    pub(crate) fn command_done(&self) {
        self.commands.set(self.commands.get() - 1);
    }
}
