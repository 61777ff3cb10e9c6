//! What arrives from a peer: headers are decoded as they come, payloads are received straight into the slot
//! that the shard names.
//!
//! While a payload arrives, one `readv` takes the rest of it and the header behind it, so a stream of blocks
//! costs one system call per block and no copy. While no payloads come, more headers are read at a time.

use std::io::{self, IoSliceMut};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use cards_core::{Body, ControlInput, Input, Landing, Message, NodeId, Payload};
use cards_tls::Wire;
use cards_wire::peer::{self, BodyHeader, HEADER_SIZE, Header, InquiryHeader, LocksHeader};

use super::credit::Connection;
use super::exchange::Broken;
use super::outgoing;
use crate::buffers::Bytes;
use crate::local::Local;
use crate::node::Place;
use crate::traffic::Traffic;

/// Bytes of the buffer for headers and bodies, and for payloads that nobody wants.
const BUFFER: usize = 4096;

/// The receiving end of a connection.
pub(super) struct Incoming {
    local: Rc<Local>,
    peer: NodeId,
    connection: Connection,
    lane: u16,
    buffer: Box<[u8; BUFFER]>,
    start: usize,
    end: usize,
    /// Headers to read at a time.
    headers: usize,
    state: State,
}

enum State {
    /// A header is next.
    Header,
    /// A payload is arriving.
    Payload { message: Message, target: Target, arrived: usize, length: usize },
    /// A body is arriving.
    Body { header: BodyHeader, body: Vec<u8> },
    /// The body of a message of the lock service is arriving.
    Locks { header: LocksHeader, body: Vec<u8> },
    /// The body of a question or an answer is arriving.
    Inquiry { header: InquiryHeader, body: Vec<u8> },
}

enum Target {
    Slot(Place),
    Buffer(Vec<u8>),
    /// Read past: the shard hears of the message without it.
    Nowhere,
}

impl Incoming {
    pub(super) fn new(local: &Rc<Local>, connection: Connection, lane: u16) -> Self {
        Self {
            local: Rc::clone(local),
            peer: connection.peer,
            connection,
            lane,
            buffer: Box::new([0; BUFFER]),
            start: 0,
            end: 0,
            headers: 1,
            state: State::Header,
        }
    }

    /// Receives once and handles what is complete.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, wire: &mut Wire) -> Poll<Result<(), Broken>> {
        let received = ready!(self.receive(cx, wire))?;
        if received == 0 {
            return Poll::Ready(Err(Broken::Closed));
        }
        let node = &self.local.node;
        Traffic::add(&node.traffic.bytes_received, received);
        Traffic::add(&node.links[usize::from(self.peer.0)].traffic.received, received);
        self.advance()?;
        Poll::Ready(Ok(()))
    }

    /// Fills the target of the payload, if there is one, and then the buffer.
    fn receive(&mut self, cx: &mut Context<'_>, wire: &mut Wire) -> Poll<io::Result<usize>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let arena = &self.local.node.arena;
        let (target, ahead): (&mut [u8], usize) = match &mut self.state {
            State::Header => (&mut [], (self.headers * HEADER_SIZE - self.end.min(HEADER_SIZE)).max(1)),
            State::Payload { target, arrived, length, .. } => match target {
                Target::Slot(place) => {
                    // SAFETY: the shard has named the slot as the landing of this payload: nobody else uses it.
                    let slot = unsafe { arena.bytes_mut(place.shard, place.slot) };
                    (&mut slot[*arrived..*length], HEADER_SIZE)
                }
                Target::Buffer(bytes) => (&mut bytes[*arrived..], HEADER_SIZE),
                Target::Nowhere => (&mut [], BUFFER.min(*length - *arrived)),
            },
            State::Body { header, body } => (&mut [], (header.length() - body.len()).min(BUFFER)),
            State::Locks { header, body } => (&mut [], (header.length() - body.len()).min(BUFFER)),
            State::Inquiry { header, body } => (&mut [], (header.length() - body.len()).min(BUFFER)),
        };
        let limit = (self.end + ahead).min(BUFFER);
        let wanted = target.len();
        let mut parts = [IoSliceMut::new(target), IoSliceMut::new(&mut self.buffer[self.end..limit])];
        let received = ready!(wire.poll_read_vectored(cx, &mut parts))?;
        let straight = received.min(wanted);
        if let State::Payload { arrived, target: Target::Slot(_) | Target::Buffer(_), .. } = &mut self.state {
            *arrived += straight;
        }
        self.end += received - straight;
        Poll::Ready(Ok(received))
    }

    /// Handles what is complete.
    fn advance(&mut self) -> Result<(), Broken> {
        loop {
            let here = self.start..self.end;
            match &mut self.state {
                State::Header => {
                    let Some(header) = self.buffer[here].first_chunk::<HEADER_SIZE>() else { return Ok(()) };
                    let header = peer::decode_header(header)?;
                    self.start += HEADER_SIZE;
                    self.begin(header)?;
                }
                State::Payload { target, arrived, length, .. } => {
                    // What came with the header is copied; the rest will not be.
                    let take = here.len().min(*length - *arrived);
                    let bytes = &self.buffer[self.start..self.start + take];
                    let to = *arrived..*arrived + take;
                    match target {
                        // SAFETY: as in `receive`.
                        Target::Slot(place) => unsafe {
                            self.local.node.arena.bytes_mut(place.shard, place.slot)[to]
                                .copy_from_slice(bytes);
                        },
                        Target::Buffer(buffer) => buffer[to].copy_from_slice(bytes),
                        Target::Nowhere => {}
                    }
                    if !matches!(target, Target::Nowhere) {
                        Traffic::add(&self.local.node.traffic.bytes_copied, take);
                    }
                    self.start += take;
                    *arrived += take;
                    if *arrived < *length {
                        return Ok(());
                    }
                    self.landed();
                }
                State::Body { header, body } => {
                    let take = here.len().min(header.length() - body.len());
                    body.extend_from_slice(&self.buffer[self.start..self.start + take]);
                    self.start += take;
                    if body.len() < header.length() {
                        return Ok(());
                    }
                    let peer::Body::Control(message) = header.decode(body)? else {
                        return Err(Broken::Hello);
                    };
                    self.state = State::Header;
                    self.local.control(ControlInput::Message { from: self.peer, message });
                }
                State::Locks { header, body } => {
                    let take = here.len().min(header.length() - body.len());
                    body.extend_from_slice(&self.buffer[self.start..self.start + take]);
                    self.start += take;
                    if body.len() < header.length() {
                        return Ok(());
                    }
                    let message = header.decode(body)?;
                    self.state = State::Header;
                    self.local.node.locks.message(self.peer, message);
                }
                State::Inquiry { header, body } => {
                    let take = here.len().min(header.length() - body.len());
                    body.extend_from_slice(&self.buffer[self.start..self.start + take]);
                    self.start += take;
                    if body.len() < header.length() {
                        return Ok(());
                    }
                    let inquiry = header.with(std::mem::take(body));
                    self.state = State::Header;
                    self.local.node.inquiries.arrived(&self.local.node, self.peer, inquiry);
                }
            }
        }
    }

    /// Begins with the frame of a header.
    fn begin(&mut self, header: Header) -> Result<(), Broken> {
        let is_of_read =
            matches!(&header, Header::Message { message, .. } if outgoing::is_of_read(&message.body));
        if self.lane > 0 && !is_of_read {
            return Err(Broken::Lane(self.lane));
        }
        let (message, length) = match header {
            Header::Body(header) => {
                self.state = State::Body { header, body: Vec::with_capacity(header.length()) };
                return Ok(());
            }
            Header::Locks(header) => {
                self.state = State::Locks { header, body: Vec::new() };
                return Ok(());
            }
            Header::Inquiry(header) => {
                self.state = State::Inquiry { header, body: Vec::new() };
                return Ok(());
            }
            Header::Credit(credit) => {
                let node = &self.local.node;
                node.links[usize::from(self.peer.0)].has_credit(&credit);
                node.writes.said(node, self.connection, &credit)?;
                return Ok(());
            }
            Header::Message { message, payload } => (message, payload),
        };
        if message.shard >= self.local.node.shard_count() {
            return Err(Broken::Shard(message.shard));
        }
        if length == 0 {
            self.headers = (self.headers * 2).min(BUFFER / HEADER_SIZE);
            self.handle(message, Payload::None);
            return Ok(());
        }
        self.headers = 1;
        let local = &self.local;
        let shard = message.shard;
        let is_write = matches!(message.body, Body::Command { .. });
        if is_write {
            local.node.writes.arrives(self.connection, length)?;
        }
        let target = match local.shard(shard, |state| state.shard.landing(self.peer, &message)) {
            Landing::Slot(slot) => Target::Slot(Place { shard, slot }),
            Landing::Buffer => Target::Buffer(vec![0; length as usize]),
            Landing::Discard => Target::Nowhere,
        };
        if is_write && matches!(target, Target::Nowhere) {
            local.node.writes.released(&local.node, self.connection, length as usize);
        }
        let block = local.node.arena.block();
        let fits = length as usize == block;
        self.state = State::Payload { message, target, arrived: 0, length: length as usize };
        match &self.state {
            State::Payload { target: Target::Slot(_), .. } if !fits => Err(Broken::Block(length, block)),
            _ => Ok(()),
        }
    }

    /// A payload has arrived in full.
    fn landed(&mut self) {
        let State::Payload { message, target, .. } = std::mem::replace(&mut self.state, State::Header) else {
            return;
        };
        let payload = match target {
            Target::Slot(place) => Payload::Slot(place.slot),
            Target::Buffer(bytes) => {
                let (index, bytes) = (self.local.index, Bytes::new(bytes));
                Payload::Buffer(self.local.node.buffers.insert(index, bytes, Some(self.connection)))
            }
            Target::Nowhere => Payload::None,
        };
        self.handle(message, payload);
    }

    fn handle(&self, message: Message, payload: Payload) {
        let now = self.local.node.now();
        if let Body::CommandDone { request, .. } = message.body {
            self.local.node.links[usize::from(self.peer.0)].answered((message.shard, request));
        }
        self.local.node.spans.arrived(&self.local.node, self.peer, now, &message);
        let input = Input::Message { from: self.peer, message, payload };
        let Input::Message { message: Message { shard, .. }, .. } = input else { return };
        self.local.shard(shard, |state| state.handle(now, input));
    }

    /// The connection has broken: what was being filled is given back.
    pub(super) fn abort(&mut self) {
        let State::Payload { target, .. } = std::mem::replace(&mut self.state, State::Header) else { return };
        let node = &self.local.node;
        match target {
            Target::Slot(Place { shard, slot }) => {
                let now = node.now();
                self.local.shard(shard, |state| state.handle(now, Input::LandingAborted { slot }));
            }
            Target::Buffer(bytes) => node.writes.released(node, self.connection, bytes.len()),
            Target::Nowhere => {}
        }
    }
}
