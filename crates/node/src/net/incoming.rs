//! What arrives from a peer: headers are decoded as they come, payloads are received straight into the slot
//! that the shard names, or copied there where that is cheaper.
//!
//! *Large blocks*, and whatever this process decrypts: while a payload arrives, one `readv` takes the rest of it and the
//! header behind it, so a stream of blocks costs one system call per block and no copy. While no payloads come, more headers
//! are read at a time. The checksums of a payload stand behind it, so they come with the next header. *Small blocks* in the
//! clear, as they also come from the kernel's TLS: one `readv` takes all there is into the thread's buffer, and the blocks
//! are copied from there. A system call costs more than such a copy. (What this process decrypts lies in a buffer already,
//! from which it is opened straight into the slot.)

use std::io::{self, IoSliceMut};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use cards_array::group;
use cards_core::{Body, ControlInput, Input, Landing, Message, NodeId, Payload, PgId};
use cards_tls::{Encryption, Wire};
use cards_wire::peer::{self, BodyHeader, FrameError, HEADER_SIZE, Header, Run};

use super::broken::Broken;
use crate::failures::{Asked, ERRORS_REMEMBERED, Kind};
use crate::inquiry;
use crate::node::buffers::Bytes;
use crate::node::group_mail::Room;
use crate::node::link::credit::Connection;
use crate::node::link::outgoing;
use crate::node::{Local, Place};
use crate::traffic::Traffic;

/// Bytes of headers, bodies, and payloads that nobody wants, that are received at a time beside large blocks.
const BESIDE: usize = 4096;
/// Parts that one system call fills at most: the blocks of a frame, and what follows.
const PARTS: usize = 18;
/// Blocks up to this size are copied from the thread's buffer.
const SMALL: usize = 16 << 10;

/// The receiving end of a connection.
pub(super) struct Incoming {
    local: Rc<Local>,
    peer: NodeId,
    connection: Connection,
    lane: u16,
    /// What the two ends speak.
    version: u8,
    /// What has come of the next header, or of the checksums of a payload.
    tail: Vec<u8>,
    /// Headers to read at a time.
    headers: usize,
    /// What `State::Payload` is about: messages, and where their payloads go. One of a group is alone.
    arriving: Vec<(Arriving, Target)>,
    state: State,
}

enum State {
    /// A header is next.
    Header,
    /// Payloads are arriving, one after the other, each of `length` bytes; so many have `arrived` together. Behind them come
    /// `sums` bytes of checksums.
    Payload { arrived: usize, length: usize, sums: usize },
    /// A body is arriving, and its checksums.
    Body { header: BodyHeader, body: Vec<u8> },
}

enum Arriving {
    Block(Message),
    Group(PgId, Box<group::Message<()>>),
}

enum Target {
    Slot(Place),
    /// Not what was sent has landed there.
    Damaged(Place),
    Buffer(Vec<u8>),
    /// Of a message of a group.
    Room(Vec<u8>, Room),
    /// Read past: the shard hears of the message without it.
    Nowhere,
}

impl Incoming {
    pub(super) fn new(local: &Rc<Local>, connection: Connection, (lane, version): (u16, u8)) -> Self {
        Self {
            local: Rc::clone(local),
            peer: connection.peer,
            connection,
            lane,
            version,
            tail: Vec::with_capacity(HEADER_SIZE),
            headers: 1,
            arriving: Vec::new(),
            state: State::Header,
        }
    }

    /// Some of a frame has come, and the rest has not.
    pub(super) fn is_amid(&self) -> bool {
        !self.tail.is_empty() || !matches!(self.state, State::Header)
    }

    /// Receives once and handles what is complete; says how many bytes have come.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, wire: &mut Wire) -> Poll<Result<usize, Broken>> {
        let local = Rc::clone(&self.local);
        let mut buffer = local.receive.borrow_mut();
        let (received, end) = ready!(self.receive(cx, wire, &mut buffer))?;
        if received == 0 {
            return Poll::Ready(Err(Broken::Closed));
        }
        let node = &local.node;
        Traffic::add(&node.traffic.bytes_received, received);
        Traffic::add(&node.links[usize::from(self.peer.0)].traffic.received, received);
        self.tail.clear();
        let advanced = self.advance(&buffer[..end]);
        if let Err(Broken::Frame(FrameError::Checksum(what))) = advanced {
            self.damaged(Asked { name: what, offset: 0, length: 0 }, "the connection was ended".into());
        }
        Poll::Ready(advanced.map(|()| received))
    }

    /// Fills the targets of payloads, if there are any, and then the buffer, behind the tail. Says how much was received,
    /// and where the buffer's contents end.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, usize)>> {
        let arena = &self.local.node.arena;
        let kept = self.tail.len();
        buffer[..kept].copy_from_slice(&self.tail);
        let mut parts: [IoSliceMut<'_>; PARTS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let (mut count, mut wanted) = (0, 0);
        let ahead = match &mut self.state {
            State::Header => (self.headers * HEADER_SIZE - kept).max(1),
            State::Payload { arrived, length, sums } => {
                let (at, mut begin) = (*arrived / *length, *arrived % *length);
                let mut ahead = *sums + HEADER_SIZE - kept;
                for (_, target) in &mut self.arriving[at..] {
                    let bytes: &mut [u8] = match target {
                        // SAFETY: the shard has named the slot as the landing of this payload: nobody else uses it.
                        Target::Slot(place) => unsafe { arena.bytes_mut(place.shard, place.slot) },
                        Target::Buffer(bytes) | Target::Room(bytes, _) => bytes,
                        Target::Nowhere | Target::Damaged(_) => {
                            ahead = BESIDE.min(*length - begin);
                            break;
                        }
                    };
                    parts[count] = IoSliceMut::new(&mut bytes[begin..*length]);
                    (count, wanted, begin) = (count + 1, wanted + *length - begin, 0);
                }
                ahead
            }
            State::Body { header, body } => (header.length() - body.len()).min(BESIDE),
        };
        let is_small = arena.block() <= SMALL && wire.encryption() != Encryption::Daemon;
        let limit = if is_small { buffer.len() } else { kept + ahead };
        parts[count] = IoSliceMut::new(&mut buffer[kept..limit]);
        let received = ready!(wire.poll_read_vectored(cx, &mut parts[..=count]))?;
        let straight = received.min(wanted);
        if let State::Payload { arrived, .. } = &mut self.state {
            *arrived += straight;
        }
        Poll::Ready(Ok((received, kept + received - straight)))
    }

    /// Handles what is complete, and keeps what has come of the next header or of checksums.
    fn advance(&mut self, mut here: &[u8]) -> Result<(), Broken> {
        loop {
            match &mut self.state {
                State::Header => {
                    let Some((header, rest)) = here.split_first_chunk::<HEADER_SIZE>() else {
                        self.tail.extend_from_slice(here);
                        return Ok(());
                    };
                    here = rest;
                    self.begin(peer::decode_header(header, self.version)?)?;
                }
                State::Payload { arrived, length, sums } => {
                    let begin = *arrived % *length;
                    let Some((_, target)) = self.arriving.get_mut(*arrived / *length) else {
                        let Some((sums, rest)) = here.split_at_checked(*sums) else {
                            self.tail.extend_from_slice(here);
                            return Ok(());
                        };
                        here = rest;
                        let length = *length;
                        self.landed(length, sums)?;
                        continue;
                    };
                    // What came with the header is copied; the rest will not be, unless blocks are small.
                    let bytes = split(&mut here, *length - begin);
                    let to = begin..begin + bytes.len();
                    match target {
                        // SAFETY: as in `receive`.
                        Target::Slot(place) => unsafe {
                            self.local.node.arena.bytes_mut(place.shard, place.slot)[to]
                                .copy_from_slice(bytes);
                        },
                        Target::Buffer(buffer) | Target::Room(buffer, _) => {
                            buffer[to].copy_from_slice(bytes);
                        }
                        Target::Nowhere | Target::Damaged(_) => {}
                    }
                    if !matches!(target, Target::Nowhere) {
                        Traffic::add(&self.local.node.traffic.bytes_copied, bytes.len());
                    }
                    *arrived += bytes.len();
                    if begin + bytes.len() < *length {
                        return Ok(());
                    }
                }
                State::Body { header, body } => {
                    body.extend_from_slice(split(&mut here, header.length() - body.len()));
                    if body.len() < header.length() {
                        return Ok(());
                    }
                    let body = header.decode(std::mem::take(body))?;
                    self.state = State::Header;
                    let (node, from) = (&self.local.node, self.peer);
                    match body {
                        peer::Body::Control(message) => {
                            self.local.control(ControlInput::Message { from, message });
                        }
                        peer::Body::Locks(message) => node.locks.message(from, message),
                        peer::Body::Inquiry(inquiry) => inquiry::arrived(node, from, inquiry),
                        peer::Body::Group { group, message } => self.of_group(group, message),
                    }
                }
            }
        }
    }

    /// A message of a group has come, which has no payload.
    fn of_group(&self, group: PgId, message: group::Message<()>) {
        let message = message.map(|()| Bytes::new(Vec::new()));
        self.local.node.group_mail.arrived(self.peer, group, message);
    }

    /// The payload of a message of a group follows.
    fn begin_group(&mut self, group: PgId, message: group::Message<()>, length: u32) {
        let length = length as usize;
        let node = &self.local.node;
        let link = &node.links[usize::from(self.peer.0)];
        let room = node.group_mail.room(&link.group_bytes, length);
        if room.is_none() {
            node.group_mail.without_room.fetch_add(1, Ordering::Relaxed);
        }
        let target = room.map_or(Target::Nowhere, |room| Target::Room(vec![0; length], room));
        self.headers = 1;
        self.arriving.push((Arriving::Group(group, Box::new(message)), target));
        self.state = State::Payload { arrived: 0, length, sums: peer::sums_size(self.version, length) };
    }

    /// Begins with the frame of a header.
    fn begin(&mut self, header: Header) -> Result<(), Broken> {
        let is_of_read = match &header {
            Header::Message { message, .. } => outgoing::is_of_read(&message.body),
            header => matches!(header, Header::Run { .. }),
        };
        if self.lane > 0 && !is_of_read {
            return Err(Broken::Lane(self.lane));
        }
        let (run, length) = match header {
            Header::Body(header) => {
                self.state = State::Body { header, body: Vec::new() };
                return Ok(());
            }
            Header::Credit(credit) => {
                let node = &self.local.node;
                node.links[usize::from(self.peer.0)].has_credit(&credit);
                node.writes.said(&node.links, self.connection, &credit)?;
                return Ok(());
            }
            Header::Group { group, message, payload: 0 } => {
                self.of_group(group, message);
                return Ok(());
            }
            Header::Group { group, message, payload } => {
                self.begin_group(group, message, payload);
                return Ok(());
            }
            Header::Message { message, payload } => (Run::new(message), payload),
            Header::Run { run, payload } => (run, payload),
        };
        let shard = run.first().shard;
        if shard >= self.local.node.shard_count() {
            return Err(Broken::Shard(shard));
        }
        if run.count() > 1 {
            self.local.node.shards[usize::from(shard)].lock().shard.approach(run.blocks());
        }
        if length == 0 {
            self.headers = (self.headers * 2).min(BESIDE / HEADER_SIZE);
            let messages = run.messages().map(Arriving::Block);
            self.arriving.extend(messages.map(|message| (message, Target::Nowhere)));
            self.handle();
            return Ok(());
        }
        self.headers = 1;
        let local = &self.local;
        let is_write = matches!(run.first().body, Body::Command { .. });
        if is_write {
            local.node.writes.arrives(self.connection, length)?;
        }
        local.shard(shard, |state| {
            self.arriving.extend(run.messages().map(|message| {
                let target = match state.shard.landing(self.peer, &message) {
                    Landing::Slot(slot) => Target::Slot(Place { shard, slot }),
                    Landing::Buffer => Target::Buffer(vec![0; length as usize]),
                    Landing::Discard => Target::Nowhere,
                };
                (Arriving::Block(message), target)
            }));
        });
        let has = |wanted: fn(&Target) -> bool| self.arriving.iter().any(|(_, target)| wanted(target));
        if is_write && has(|target| matches!(target, Target::Nowhere)) {
            local.node.writes.released(&local.node.links, self.connection, length as usize);
        }
        let block = local.node.arena.block();
        let (length, count) = (length as usize, run.count() as usize);
        let sums = peer::sums_size(self.version, length * count);
        self.state = State::Payload { arrived: 0, length, sums };
        match length == block || !has(|target| matches!(target, Target::Slot(_))) {
            true => Ok(()),
            false => Err(Broken::Block(length, block)),
        }
    }

    /// All payloads of a frame have arrived, each of `length` bytes, and their checksums. A block that is not what was sent is
    /// as one whose connection has broken; a message of a group whose payload is not is dropped, and its group sends it again.
    ///
    /// # Errors
    /// The bytes of a write are not what was sent. It is sent again by the next connection.
    fn landed(&mut self, length: usize, mut sums: &[u8]) -> Result<(), Broken> {
        let each = peer::sums_size(self.version, length);
        for at in 0..self.arriving.len() {
            let sums = split(&mut sums, each);
            let (message, target) = &self.arriving[at];
            let bytes: &[u8] = match target {
                // SAFETY: as in `receive`.
                Target::Slot(place) => unsafe {
                    self.local.node.arena.bytes(place.shard, place.slot, 0, length as u32)
                },
                Target::Buffer(bytes) | Target::Room(bytes, _) => bytes,
                Target::Nowhere | Target::Damaged(_) => continue,
            };
            if peer::is_intact(self.version, bytes, sums) {
                continue;
            }
            self.damaged_payload(message, length);
            self.arriving[at].1 = match *target {
                Target::Slot(place) => Target::Damaged(place),
                Target::Room(..) => Target::Nowhere,
                _ => return Err(Broken::Damaged),
            };
        }
        self.state = State::Header;
        self.handle();
        Ok(())
    }

    fn damaged_payload(&self, arriving: &Arriving, length: usize) {
        let (node, length) = (&self.local.node, length as u64);
        let message = match arriving {
            Arriving::Block(message) => message,
            Arriving::Group(group, message) => {
                node.group_mail.damaged.fetch_add(1, Ordering::Relaxed);
                let (name, offset) = match **message {
                    group::Message::Put { extent, .. } => ("write to a column", extent.offset),
                    _ => ("read of a column", 0),
                };
                return self.damaged(Asked { name, offset, length }, format!("group {}", group.0));
            }
        };
        let (name, offset) = match message.body {
            Body::Data { block, .. } | Body::Store { block, .. } => ("block", u64::from(block) * length),
            Body::Command { offset, .. } => ("write", offset),
            _ => return,
        };
        let volume =
            node.control().volumes().find(|spec| spec.id == message.volume).map(|spec| spec.name.clone());
        let block = offset / node.arena.block() as u64;
        let of = format!("volume {}, block {block}", volume.as_deref().unwrap_or("unknown"));
        self.damaged(Asked { name, offset, length }, of);
    }

    /// Counts what is not as the peer has sent it; says so in the log now and then.
    fn damaged(&self, what: Asked, of: String) {
        let node = &self.local.node;
        let link = &node.links[usize::from(self.peer.0)];
        if link.may_tell_damage() {
            let peer = node.name(self.peer);
            tracing::warn!(peer, %what, of, "a checksum is wrong: bytes have changed on their way from the peer");
        }
        link.damaged.note(node.now(), ERRORS_REMEMBERED, what, Kind::Damaged, of);
    }

    /// Gives the shard what has arrived.
    fn handle(&mut self) {
        let Self { local, peer, connection, .. } = self;
        let (node, now) = (&local.node, local.node.now());
        let shard = match self.arriving.first() {
            Some((Arriving::Block(message), _)) => message.shard,
            Some((Arriving::Group(..), _)) => return self.handle_group(),
            None => return,
        };
        for (message, _) in &self.arriving {
            let Arriving::Block(message) = message else { continue };
            if let Body::CommandDone { request, .. } = message.body {
                node.links[usize::from(peer.0)].answered((shard, request));
            }
            node.probe.arrived(*peer, message, now);
        }
        local.shard(shard, |state| {
            for (message, target) in self.arriving.drain(..) {
                let Arriving::Block(message) = message else { continue };
                let payload = match target {
                    Target::Damaged(Place { slot, .. }) => {
                        state.handle(now, Input::LandingAborted { slot });
                        continue;
                    }
                    Target::Slot(place) => Payload::Slot(place.slot),
                    Target::Buffer(bytes) => {
                        let bytes = Bytes::new(bytes);
                        Payload::Buffer(node.buffers.insert(local.index, bytes, Some(*connection)))
                    }
                    Target::Nowhere | Target::Room(..) => Payload::None,
                };
                state.handle(now, Input::Message { from: *peer, message, payload });
            }
        });
    }

    /// Gives a group what has arrived with its payload.
    fn handle_group(&mut self) {
        for (arriving, target) in self.arriving.drain(..) {
            if let (Arriving::Group(group, message), Target::Room(bytes, room)) = (arriving, target) {
                let message = message.map(|()| Bytes::in_room(bytes, room));
                self.local.node.group_mail.arrived(self.peer, group, message);
            }
        }
    }

    /// The connection has broken: what was being filled is given back.
    pub(super) fn abort(&mut self) {
        self.state = State::Header;
        let node = &self.local.node;
        for (_, target) in self.arriving.drain(..) {
            match target {
                Target::Slot(Place { shard, slot }) | Target::Damaged(Place { shard, slot }) => {
                    let now = node.now();
                    self.local.shard(shard, |state| state.handle(now, Input::LandingAborted { slot }));
                }
                Target::Buffer(bytes) => node.writes.released(&node.links, self.connection, bytes.len()),
                Target::Nowhere | Target::Room(..) => {}
            }
        }
    }
}

/// Takes up to `most` bytes off the front.
fn split<'a>(here: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (bytes, rest) = here.split_at(most.min(here.len()));
    *here = rest;
    bytes
}
