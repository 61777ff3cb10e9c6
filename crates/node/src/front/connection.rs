//! A client being served: one task that receives, parses everything it has, answers hits at once and sends
//! all replies of the turn with one vectored write.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use cards_admin::Op;
use cards_policies::read_ahead::ReadAhead;
use cards_probe::{Mark, Ticket};
use cards_wire::nbd::consts::{NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_FLAG_FUA, NBD_CMD_FLAG_NO_HOLE};
use cards_wire::nbd::{BadRequest, Command, Errno, Request, validate};

use super::budget::PATIENCE;
use super::parked::{self, Parked};
use super::stream::Stream;
use crate::limits::Limiter;
use crate::node::Local;
use crate::node::buffers::Bytes;
use crate::node::client::Client;
use crate::node::replies::{Lent, PARTS_MAX};
use crate::traffic::Traffic;

/// A write of at least so many bytes is received straight into its buffer.
const LARGE_WRITE: u32 = 32 << 10;
/// How much is received at a time from a client that sends large writes: some headers, little payload.
const RECEIVE_HEADERS: usize = 4 << 10;
/// Turns of a connection before it lets others run.
const TURNS: u32 = 8;
/// How long a drain takes requests from a client that goes on sending them.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// How long a drain waits for a client to close its end of the connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the client vanished without NBD_CMD_DISC")]
    Vanished,
    #[error(
        "the client did next to nothing about a long request for {PATIENCE:?} while others waited for their turn"
    )]
    Stuck,
    #[error(transparent)]
    Request(#[from] BadRequest),
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// The connection's task. Dropping it gives everything back.
pub(super) struct Connection {
    local: Rc<Local>,
    client: Rc<Client>,
    stream: Stream,
    /// Received but not used: part of a request, or requests that the budget holds back.
    tail: Vec<u8>,
    /// The write whose payload is arriving.
    arriving: Option<Arriving>,
    /// The first request of `tail` is too much for the budget now, or for a limit.
    held_back: bool,
    /// That request, once a limit has had it wait.
    parked: Option<Parked>,
    /// Wakes the task when its turn comes.
    timer: Option<Pin<Box<Sleep>>>,
    /// The client sends no more, and waits for answers to what is in `tail`.
    input_ended: bool,
    /// The last write was large.
    large: bool,
    /// No more requests are taken; answers are still sent.
    closing: bool,
    /// When the drain was noticed.
    draining_since: Option<std::time::Instant>,
    read_ahead: ReadAhead,
    lent: Lent,
}

/// A write and as much of its payload as has arrived.
struct Arriving {
    request: Request,
    ticket: Ticket,
    /// What has arrived, with room for all of it. Empty if the write was refused: then its payload is read past.
    payload: Vec<u8>,
    /// Bytes that have not arrived.
    missing: usize,
    refused: Option<Errno>,
}

impl Connection {
    /// A connection whose handshake is over; `tail` is what the client has sent after it.
    pub(super) fn new(
        local: &Rc<Local>,
        client: Rc<Client>,
        stream: Stream,
        tail: Vec<u8>,
        read_ahead: ReadAhead,
    ) -> Self {
        let key = local.clients.borrow_mut().insert(Rc::clone(&client));
        client.key.set(Some(key));
        Self {
            local: Rc::clone(local),
            client,
            stream,
            tail,
            arriving: None,
            held_back: false,
            parked: None,
            timer: None,
            input_ended: false,
            large: false,
            closing: false,
            draining_since: None,
            read_ahead,
            lent: Lent::default(),
        }
    }

    /// Goes on as far as possible; says whether the connection is over.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let local = Rc::clone(&self.local);
        if self.client.sent_away.get() {
            return Err(Ended::Stuck);
        }
        for _ in 0..TURNS {
            if !self.tail.is_empty() && !self.closing {
                let tail = std::mem::take(&mut self.tail);
                let mut input = tail.as_slice();
                self.parse(&mut input)?;
                self.tail = if input.len() == tail.len() { tail } else { input.to_vec() };
            }
            let may_receive = !self.held_back || self.waits_for_turn();
            let received = may_receive && !self.closing && !self.input_ended && self.receive(cx)?;
            self.closing |= local.node.draining() && self.has_all(received);
            local.route();
            let sent = self.send(cx)?;
            let flushed = self.stream.poll_flush(cx)?.is_ready();
            if self.closing
                && flushed
                && (self.client.requests() == 0 || self.is_lost())
                && self.client.replies.borrow().is_empty()
            {
                return Ok(true);
            }
            if !received && !sent {
                if self.turn_has_come(cx) {
                    continue;
                }
                let owes = self.arriving.is_some() || !self.client.replies.borrow().is_empty();
                self.client.owes.set(owes);
                return Ok(false);
            }
        }
        cx.waker().wake_by_ref();
        Ok(false)
    }

    /// Nobody can answer what it has asked for before this process ends: it asks the next life.
    fn is_lost(&self) -> bool {
        self.client.parts.all().iter().any(|part| self.local.node.is_lost(part.id))
    }

    /// The limits that requests of this connection are under, in the order in which they let them pass.
    fn limiters(&self) -> [&Limiter; 2] {
        [self.client.seat.limiter(), &self.local.node.limiter]
    }

    /// A request waits for its turn under a limit. Meanwhile the client is listened to, up to what would be received at a time
    /// anyhow: one that ends the connection is noticed.
    fn waits_for_turn(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.due().is_some())
    }

    /// Whether the turn of the parked request has come; if not, the task is woken then.
    fn turn_has_come(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.parked.as_ref().and_then(Parked::due) else { return false };
        let wait = due.since(self.local.node.now());
        if wait.is_zero() {
            return true;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        timer.as_mut().reset(tokio::time::Instant::now() + wait);
        timer.as_mut().poll(cx).is_ready()
    }

    /// Whether a request may be started as far as limits say; what it has waited for them is noted in its ticket. A drain
    /// lifts them: what was asked is answered before the daemon ends.
    #[cold]
    fn is_in_turn(&mut self, now: cards_core::Instant, request: &Request, ticket: &mut Ticket) -> bool {
        let mut parked = self.parked.take().unwrap_or_else(|| Parked::new(now));
        let bytes = parked::bytes(request);
        let waited = parked.waited().or_else(|| {
            let may = self.local.node.draining() || parked.passes(self.limiters(), now, bytes);
            may.then(|| {
                let waited = parked.pass(now);
                if !waited.is_zero() {
                    self.client.tap.throttled(waited);
                }
                waited
            })
        });
        if let Some(waited) = waited {
            ticket.throttled(parked.since(), waited);
        }
        self.client.throttled.set(waited.is_none());
        self.parked = Some(parked);
        waited.is_some()
    }

    /// Whether a drain may take no more requests: those that the client had sent are here, so that each is answered.
    fn has_all(&mut self, received: bool) -> bool {
        let since = *self.draining_since.get_or_insert_with(std::time::Instant::now);
        let is_over = since.elapsed() > LAST_REQUESTS;
        let has_more = received || self.held_back || !self.tail.is_empty() || self.stream.has_more();
        self.arriving.is_none() && (is_over || !has_more)
    }

    /// Ends a connection that was drained. A socket that is closed with requests in it resets the connection, and answers that
    /// are on their way are lost: so the client is told that no more come, and closes first.
    pub(super) async fn say_goodbye(mut self) {
        if !self.local.node.draining() {
            return;
        }
        let mut buffer = [0; 4096];
        let closed = async {
            poll_fn(|cx| self.stream.poll_shutdown(cx)).await?;
            while poll_fn(|cx| self.stream.poll_read(cx, &mut buffer)).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        // Either end is right: there is nothing more to say.
        let _ = tokio::time::timeout(GOODBYE, closed).await;
    }

    /// Receives once, if there is something, and starts what has come.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let local = Rc::clone(&self.local);
        // Large payloads go straight from the socket to where they stay.
        if let Some(Arriving { payload, missing, refused: None, .. }) = &mut self.arriving
            && self.tail.is_empty()
        {
            let Poll::Ready(received) = self.stream.poll_append(cx, payload, *missing)? else {
                return Ok(false);
            };
            if received == 0 {
                return Err(Ended::Vanished);
            }
            *missing -= received;
            self.client.moved.set(self.client.moved.get() + received as u64);
            self.arrived();
            return Ok(true);
        }
        let mut buffer = local.receive.borrow_mut();
        let kept = self.tail.len();
        // What is kept for a parked request grows no further.
        let least = if self.waits_for_turn() { 0 } else { kept + Request::SIZE };
        let room = if self.large { RECEIVE_HEADERS.max(least) } else { buffer.len() };
        let room = room.min(buffer.len());
        if kept >= room {
            // Only requests that are held back are that long, and those are parsed before more is received.
            return Ok(false);
        }
        let Poll::Ready(received) = self.stream.poll_read(cx, &mut buffer[kept..room])? else {
            return Ok(false);
        };
        if received == 0 {
            self.input_ended = self.waits_for_turn() && parked::says_goodbye(&self.tail);
            return if self.input_ended { Ok(false) } else { Err(Ended::Vanished) };
        }
        local.busy();
        self.client.moved.set(self.client.moved.get() + received as u64);
        buffer[..kept].copy_from_slice(&self.tail);
        self.tail.clear();
        let mut input = &buffer[..kept + received];
        self.parse(&mut input)?;
        self.tail.extend_from_slice(input);
        Ok(true)
    }

    /// Takes requests off the front of `input` and starts them.
    fn parse(&mut self, input: &mut &[u8]) -> Result<(), Ended> {
        self.held_back = false;
        let now = self.local.node.now();
        loop {
            if let Some(Arriving { payload, missing, refused, .. }) = &mut self.arriving {
                let take = input.len().min(*missing);
                if refused.is_none() {
                    payload.extend_from_slice(&input[..take]);
                    Traffic::add(&self.local.node.traffic.bytes_copied, take);
                }
                *missing -= take;
                *input = &input[take..];
                if *missing > 0 {
                    return Ok(());
                }
                self.arrived();
            }
            let before = *input;
            let Some(request) = Request::take(input)? else { return Ok(()) };
            if request.command == Command::Disc {
                // It gets the answers to what it asked before.
                *input = &[];
                self.closing = true;
                return Ok(());
            }
            let mut ticket = ticket(now, &request);
            let is_limited = self.client.seat.limiter().is_on() | self.local.node.limiter.is_on();
            if (is_limited || self.parked.is_some()) && !self.is_in_turn(now, &request, &mut ticket) {
                *input = before;
                self.held_back = true;
                return Ok(());
            }
            if !self.client.admit(&self.local, Client::cost(&ticket)) {
                *input = before;
                self.held_back = true;
                return Ok(());
            }
            self.parked = None;
            self.start(now, request, ticket);
        }
    }

    fn start(&mut self, now: cards_core::Instant, request: Request, ticket: Ticket) {
        self.local.demands.set(self.local.demands.get() + 1);
        let over = if self.client.seat.is_over() { Err(Errno::Io) } else { Ok(()) };
        let verdict = validate(&request, &self.client.session).and(over);
        if verdict.is_ok() {
            self.client.tap.asked(now, ticket.op, (request.offset, request.length));
        }
        if request.command == Command::Write {
            self.large = request.length >= LARGE_WRITE;
            let missing = request.length as usize;
            let payload = Vec::with_capacity(if verdict.is_ok() { missing } else { 0 });
            let arriving = Arriving { request, ticket, payload, missing, refused: verdict.err() };
            self.arriving = Some(arriving);
            return;
        }
        self.large = false;
        let (local, client) = (&self.local, &self.client);
        if let Err(errno) = verdict {
            return client.reply(request.cookie, ticket, Err(errno));
        }
        match request.command {
            Command::Read => {
                local.read(client, now, &request, ticket);
                if let Some(range) = self.read_ahead.on_read(request.offset, request.length) {
                    local.read_ahead(client, now, range);
                }
            }
            Command::Flush => local.flush(client, &request, ticket),
            Command::Trim => {
                local.command(client, &request, ticket, cards_core::CommandKind::Trim, None);
            }
            // Whether the disk could do it fast is known only to the disk; the protocol prefers this answer
            // to a slow success.
            Command::WriteZeroes if request.has(NBD_CMD_FLAG_FAST_ZERO) => {
                client.reply(request.cookie, ticket, Err(Errno::NotSup));
            }
            Command::WriteZeroes => {
                let no_hole = request.has(NBD_CMD_FLAG_NO_HOLE);
                local.command(client, &request, ticket, cards_core::CommandKind::Zero { no_hole }, None);
            }
            Command::Cache => local.cache(client, now, &request, ticket),
            Command::BlockStatus => local.block_status(client, &request, ticket),
            // Not let through by `validate`.
            Command::Write | Command::Disc | Command::Other(_) => {
                client.reply(request.cookie, ticket, Err(Errno::Inval));
            }
        }
    }

    /// Starts the write whose payload has arrived in full, if it has.
    fn arrived(&mut self) {
        let Some(arriving) = self.arriving.take_if(|arriving| arriving.missing == 0) else {
            return;
        };
        let Arriving { request, ticket, payload, refused, .. } = arriving;
        match refused {
            Some(errno) => self.client.reply(request.cookie, ticket, Err(errno)),
            None => {
                Traffic::add(&self.local.node.traffic.bytes_written, payload.len());
                let kind = cards_core::CommandKind::Write;
                self.local.command(&self.client, &request, ticket, kind, Some(Bytes::new(payload)));
            }
        }
    }

    /// Sends what there is; says whether any of it left.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let mut progress = false;
        let client = Rc::clone(&self.client);
        let bytes_read = self.local.bytes_read.take();
        if bytes_read > 0 {
            Traffic::add(&self.local.node.traffic.bytes_read, bytes_read as usize);
        }
        loop {
            let mut replies = client.replies.borrow_mut();
            if replies.is_empty() {
                break;
            }
            let sent = {
                let mut parts = [IoSlice::new(&[]); PARTS_MAX];
                let count = replies.parts(&self.local.node.arena, &mut parts);
                if count == 0 { Poll::Ready(0) } else { self.stream.poll_write(cx, &parts[..count])? }
            };
            let Poll::Ready(sent) = sent else { break };
            client.moved.set(client.moved.get() + sent as u64);
            let (local, mut leaving) = (&self.local, None);
            let (mut cost, mut requests) = (0, 0);
            replies.sent(sent, &mut self.lent, |ticket| {
                cost += u64::from(Client::cost(&ticket));
                requests += 1;
                // One look at the clock is enough for all that have left together.
                leaving
                    .get_or_insert_with(|| client.tap.leaving(local.node.now()))
                    .left(ticket, &*local.node);
            });
            drop(replies);
            client.settle(&self.local, cost, requests);
            self.lent.unpin(&self.local);
            progress = true;
        }
        if progress {
            self.local.route();
        }
        Ok(progress)
    }
}

impl Future for Connection {
    type Output = Result<(), Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.client.awake.set(true);
        self.client.set_waker(cx.waker());
        let result = self.turn(cx);
        self.client.awake.set(false);
        match result {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(ended) => Poll::Ready(Err(ended)),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(parked) = self.parked.take() {
            parked.leave(self.limiters());
        }
        self.client.leave(&self.local);
    }
}

/// Whether a request must be durable before it is answered.
pub(super) fn fua(request: &Request) -> bool {
    request.has(NBD_CMD_FLAG_FUA)
}

/// What goes with a request that arrived at `now`.
fn ticket(now: cards_core::Instant, request: &Request) -> Ticket {
    let op = match request.command {
        Command::Read => Op::Read,
        Command::Write => Op::Write,
        Command::WriteZeroes => Op::Zero,
        Command::Trim => Op::Trim,
        Command::Flush => Op::Flush,
        Command::Cache => Op::Cache,
        Command::BlockStatus => Op::Status,
        Command::Disc | Command::Other(_) => Op::Other,
    };
    Ticket {
        start: now,
        offset: request.offset,
        length: request.length,
        throttled_ms: 0,
        op,
        mark: Mark::Done,
    }
}
