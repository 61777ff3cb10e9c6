//! What a connection shares with the requests it has under way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use cards_admin::Op;
use cards_core::PgId;
use cards_probe::{Mark, Tap, Ticket};
use cards_wire::nbd::{Errno, MAX_PAYLOAD, Session, reply};

use super::replies::{Piece, Replies};
use crate::local::Local;
use crate::node::card::Seat;
use crate::slab::Key;

/// Requests one client may have under way.
const REQUESTS_MAX: u32 = 4096;
/// What the smallest request counts against the budget: its bookkeeping.
const COST_MIN: u32 = 256;
/// What a request counts that passes however much others have under way: so everybody gets something.
const SMALL: u64 = (128 << 10) + COST_MIN as u64;
/// What the longest request counts.
pub(crate) const COST_MAX: u64 = (MAX_PAYLOAD + COST_MIN) as u64;
/// How long a client may hold up others with a long request, or with each [`PACE_BYTES`] of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest request is over within minutes at this pace; without it, a byte now and then would hold up the others for days.
const PACE_BYTES: u64 = 4 << 20;

/// One client after its handshake.
pub(crate) struct Client {
    /// The card counts its clients.
    pub(super) seat: Seat,
    pub(super) volume: PgId,
    pub(super) session: Session,
    /// It keeps what it reads: the node need not have it, too.
    keeps: bool,
    /// Where its requests are noted.
    pub(super) tap: Tap,
    pub(super) replies: RefCell<Replies>,
    /// Most bytes in flight.
    budget: u64,
    in_flight: Cell<u64>,
    requests: Cell<u32>,
    /// Its only request is the one that is beyond the budget of the thread.
    is_beyond: Cell<bool>,
    /// Bytes that it has taken and sent.
    pub(super) moved: Cell<u64>,
    /// It has to take, or to send, something.
    pub(super) owes: Cell<bool>,
    /// It holds up others: its connection has to end.
    pub(super) sent_away: Cell<bool>,
    /// Its next request waits for its turn under a limit.
    pub(super) throttled: Cell<bool>,
    /// Commands under way that change the disk.
    pub(super) commands: Cell<u32>,
    pub(super) gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The connection's task is running: it looks for replies before it sleeps.
    pub(super) awake: Cell<bool>,
    pub(super) key: Cell<Option<Key>>,
}

impl Client {
    pub(super) fn new(
        seat: Seat,
        volume: PgId,
        (session, keeps): (Session, bool),
        tap: Tap,
        budget: u64,
    ) -> Self {
        Self {
            seat,
            volume,
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
            waker: RefCell::new(None),
            awake: Cell::new(false),
            key: Cell::new(None),
        }
    }

    /// Lets the connection's task run, unless it does.
    pub(crate) fn wake(&self) {
        if !self.awake.get()
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        let mut own = self.waker.borrow_mut();
        match &mut *own {
            Some(own) => own.clone_from(waker),
            None => *own = Some(waker.clone()),
        }
    }

    /// Whether a block is dropped when it has had this part of it. One that reads a block in pieces has it when it
    /// comes to its end.
    pub(super) fn drops(&self, block: usize, start: u32, length: u32) -> bool {
        self.keeps && (start + length) as usize == block
    }

    /// What a request counts against the budget: the bytes it holds, and its bookkeeping.
    pub(super) fn cost(ticket: &Ticket) -> u32 {
        let held = if matches!(ticket.op, Op::Read | Op::Write) { ticket.length.min(MAX_PAYLOAD) } else { 0 };
        held.saturating_add(COST_MIN)
    }

    /// Takes a request of this cost on, if the budgets of the client and of its thread allow: it may have as much of the
    /// thread's as is left to others. A client's only request may have all that is left, and passes if it is small. Of the
    /// others, one at a time is taken on beyond the thread's budget, in the order of [`Local::in_line`]. So the clients of
    /// a thread have no more than its budget, one request of the longest, and a small one each; and nobody waits for ever,
    /// since who holds up the line, and is slower than [`PACE_BYTES`] in [`PATIENCE`], is sent away: see [`Self::watch`].
    pub(super) fn admit(self: &Rc<Self>, local: &Rc<Local>, cost: u32) -> bool {
        let (own, cost) = (self.in_flight.get(), u64::from(cost));
        let left = local.in_flight_max.saturating_sub(local.in_flight.get());
        let may = match own {
            0 => cost <= left.max(SMALL) || self.goes_beyond(local),
            _ => {
                let fits = own + cost <= left.min(self.budget);
                fits && !self.is_beyond.get() && self.requests.get() < REQUESTS_MAX
            }
        };
        if may {
            // However it has come by it, it waits no more.
            local.in_line.borrow_mut().retain(|client| !Rc::ptr_eq(client, self));
            self.in_flight.set(own + cost);
            self.requests.set(self.requests.get() + 1);
            if !self.is_beyond.get() {
                local.in_flight.set(local.in_flight.get() + cost);
            }
        }
        may
    }

    /// Whether it is the turn of this client to have a request beyond the budget; if not, it is woken when it may be.
    fn goes_beyond(self: &Rc<Self>, local: &Rc<Local>) -> bool {
        let mut line = local.in_line.borrow_mut();
        let place = line.iter().position(|client| Rc::ptr_eq(client, self));
        if local.is_beyond.get() || place.map_or(!line.is_empty(), |place| place > 0) {
            if place.is_none() {
                line.push_back(Rc::clone(self));
            }
            return false;
        }
        local.is_beyond.set(true);
        self.is_beyond.set(true);
        crate::local::spawn(Rc::clone(self).watch(Rc::clone(local)));
        true
    }

    /// Sends it away if it holds up others: in [`PATIENCE`] it has taken less than [`PACE_BYTES`] of its answer, or sent less of
    /// its bytes.
    async fn watch(self: Rc<Self>, local: Rc<Local>) {
        while self.is_beyond.get() {
            let moved = self.moved.get();
            tokio::time::sleep(PATIENCE).await;
            let is_slow = self.moved.get() - moved < PACE_BYTES;
            let is_stuck = self.is_beyond.get() && self.owes.get() && is_slow;
            if is_stuck && !local.in_line.borrow().is_empty() {
                self.sent_away.set(true);
                return self.wake();
            }
        }
    }

    /// Requests of this total cost have been answered in full.
    pub(super) fn settle(&self, local: &Local, cost: u64, requests: u32) {
        self.in_flight.set(self.in_flight.get() - cost);
        self.requests.set(self.requests.get() - requests);
        if !self.is_beyond.get() {
            local.in_flight.set(local.in_flight.get() - cost);
        } else if self.in_flight.get() == 0 {
            self.is_beyond.set(false);
            local.is_beyond.set(false);
        }
        let mut line = local.in_line.borrow_mut();
        while line.pop_front_if(|client| client.gone.get()).is_some() {}
        if let Some(next) = line.front() {
            next.wake();
        }
    }

    /// Whether its next request waits for its turn under a limit.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled.get()
    }

    /// Requests under way.
    pub(super) fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// Answers a request that yields no data.
    pub(super) fn reply(&self, cookie: u64, mut ticket: Ticket, result: Result<(), Errno>) {
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

    /// The connection has ended: nothing more is sent, and what its replies pinned is given back.
    pub(super) fn leave(self: &Rc<Self>, local: &Rc<Local>) {
        self.gone.set(true);
        self.settle(local, self.in_flight.get(), 0);
        let mut lent = self.replies.borrow_mut().clear();
        lent.unpin(local);
        if let Some(key) = self.key.take() {
            local.clients.borrow_mut().remove(key);
        }
        local.route();
    }

    /// A command that changes the disk has ended.
    pub(super) fn command_done(&self) {
        self.commands.set(self.commands.get() - 1);
    }
}
