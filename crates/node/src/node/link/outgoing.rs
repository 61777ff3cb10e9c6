//! What is on its way to a peer: headers, and blocks sent from their slots, with their checksums.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

use cards_array::group;
use cards_core::{Body, ControlMessage, Message, PgId};
use cards_wire::peer::{self, Credit, HEADER_SIZE, Run};

use crate::arena::Arena;
use crate::node::buffers::Bytes;
use crate::node::shard::Place;

/// Parts one write hands to the kernel at most.
pub(crate) const PARTS_MAX: usize = 256;

/// Bytes behind one header at most, if there are several blocks: what waits for a frame to end does not wait long.
const RUN_BYTES: u32 = 128 << 10;

/// Something to be sent to a peer.
pub(crate) enum Frame {
    /// A message about blocks.
    Block { message: Message, payload: Outgoing },
    /// A message about a card.
    Control(ControlMessage),
    /// A question or an answer, to be sealed.
    Inquiry(Vec<u8>),
    /// What the peer may send, and what this node wants to.
    Credit(Credit),
    /// A message of a group of copies.
    Group { group: PgId, message: Box<group::Message<Bytes>> },
}

/// The payload of a message.
pub(crate) enum Outgoing {
    None,
    /// A block in a slot, pinned until it has left.
    Slot(Place),
    /// The bytes of a write.
    Bytes(Bytes),
}

/// Whether a message is a read or its answer: what leaves by the lanes for reads. Nothing else does.
pub(crate) const fn is_of_read(body: &Body) -> bool {
    matches!(body, Body::Read { .. } | Body::Data { .. } | Body::Nack { .. })
}

impl Frame {
    pub(crate) const fn is_of_read(&self) -> bool {
        matches!(self, Self::Block { message, .. } if is_of_read(&message.body))
    }

    /// Bytes on the wire, or nearly.
    pub(crate) fn len(&self, block: usize) -> usize {
        HEADER_SIZE
            + match self {
                Self::Block { payload: Outgoing::Slot(_), .. } => block,
                Self::Block { payload: Outgoing::Bytes(bytes), .. } => bytes.len(),
                Self::Inquiry(frame) => frame.len(),
                Self::Group { message, .. } => message.payload().map_or(0, |bytes| bytes.len()),
                Self::Block { payload: Outgoing::None, .. } | Self::Control(_) | Self::Credit(_) => 0,
            }
    }
}

/// What one connection is sending.
pub(crate) struct Sending {
    /// What the two ends speak.
    version: u8,
    parts: VecDeque<Part>,
    /// Bytes of the first part that have left.
    sent: usize,
    /// Headers and checksums.
    heads: Vec<u8>,
}

/// A header that is not written yet.
struct Open {
    /// Where it will be in the heads.
    at: usize,
    /// The part behind it.
    payload: usize,
    run: Run,
    /// Bytes that follow for each block.
    length: u32,
}

impl Open {
    fn add(&mut self, message: &Message, length: u32) -> bool {
        length == self.length && (self.run.count() + 1) * length <= RUN_BYTES && self.run.add(message)
    }
}

enum Part {
    /// Of [`Sending::heads`].
    Heads(Range<usize>),
    Slot(Place),
    Bytes(Bytes),
    /// A frame with its body.
    Whole(Vec<u8>),
}

impl Sending {
    pub(crate) fn new(version: u8) -> Self {
        Self { version, parts: VecDeque::new(), sent: 0, heads: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds frames in their form on the wire. Reads that follow each other, and blocks, share a header.
    pub(crate) fn push_all(&mut self, frames: impl Iterator<Item = Frame>, arena: &Arena) {
        let block = arena.block() as u32;
        let mut open = None;
        for frame in frames {
            match frame {
                Frame::Block { message, payload: payload @ (Outgoing::None | Outgoing::Slot(_)) }
                    if self.version >= peer::RUNS && is_of_read(&message.body) =>
                {
                    let (place, length) = match payload {
                        Outgoing::Slot(place) => (Some(place), block),
                        _ => (None, 0),
                    };
                    let joins = open.as_mut().is_some_and(|run: &mut Open| run.add(&message, length));
                    if !joins {
                        self.close(open.take(), arena);
                        let at = self.heads.len();
                        // Its place; it is written when all is known.
                        self.push_head(&[0; HEADER_SIZE]);
                        open = Some(Open { at, payload: self.parts.len(), run: Run::new(message), length });
                    }
                    self.parts.extend(place.map(Part::Slot));
                }
                frame => {
                    self.close(open.take(), arena);
                    self.push(frame, arena);
                }
            }
        }
        self.close(open, arena);
    }

    fn close(&mut self, open: Option<Open>, arena: &Arena) {
        if let Some(Open { at, payload, run, length }) = open {
            let header = peer::encode_run(&run, length, self.version);
            self.heads[at..at + HEADER_SIZE].copy_from_slice(&header);
            self.push_sums(payload, arena);
        }
    }

    /// Adds a frame in its form on the wire.
    fn push(&mut self, frame: Frame, arena: &Arena) {
        match frame {
            Frame::Block { message, payload } => {
                let (part, length) = match payload {
                    Outgoing::None => (None, 0),
                    Outgoing::Slot(place) => (Some(Part::Slot(place)), arena.block() as u32),
                    Outgoing::Bytes(bytes) => {
                        let length = bytes.len() as u32;
                        (Some(Part::Bytes(bytes)), length)
                    }
                };
                self.push_head(&peer::encode_message(&message, length, self.version));
                let at = self.parts.len();
                self.parts.extend(part);
                self.push_sums(at, arena);
            }
            Frame::Group { group, message } => {
                let payload = message.payload().cloned();
                let length = payload.as_ref().map_or(0, |bytes| bytes.len() as u32);
                match peer::encode_group(group, &message, length, self.version) {
                    Ok(head) => {
                        self.parts.push_back(Part::Whole(head));
                        let at = self.parts.len();
                        self.parts.extend(payload.map(Part::Bytes));
                        self.push_sums(at, arena);
                    }
                    // The group bounds its lists, and its host the payloads. Nothing is sent to the release before.
                    Err(error) => tracing::error!(%error, ?group, "a message of a group cannot be sent"),
                }
            }
            Frame::Inquiry(frame) => self.push_whole(frame),
            Frame::Credit(credit) => self.push_head(&peer::encode_credit(&credit, self.version)),
            Frame::Control(message) => match peer::encode_control(&message, self.version) {
                Ok(frame) => self.parts.push_back(Part::Whole(frame)),
                // The configuration bounds names and policies, the disk engine the extents.
                Err(error) => tracing::error!(%error, ?message, "a control message cannot be sent"),
            },
        }
    }

    /// Adds what is behind the heads to the last part, or as one of its own.
    fn push_heads(&mut self, from: usize) {
        let to = self.heads.len();
        match self.parts.back_mut() {
            Some(Part::Heads(heads)) => heads.end = to,
            _ if from == to => {}
            _ => self.parts.push_back(Part::Heads(from..to)),
        }
    }

    fn push_head(&mut self, header: &[u8; HEADER_SIZE]) {
        let from = self.heads.len();
        self.heads.extend_from_slice(header);
        self.push_heads(from);
    }

    /// Adds the checksums of the parts from `payload` on. Until they have left nobody changes them: a slot is pinned, and
    /// writes go into copies that are not.
    fn push_sums(&mut self, payload: usize, arena: &Arena) {
        let from = self.heads.len();
        for part in self.parts.range(payload..) {
            self.heads.extend(peer::sums(self.version, part.bytes(&[], arena)).flatten());
        }
        self.push_heads(from);
    }

    /// Adds a frame that is to be sealed.
    pub(crate) fn push_whole(&mut self, mut frame: Vec<u8>) {
        peer::seal(&mut frame, self.version);
        self.parts.push_back(Part::Whole(frame));
    }

    /// Fills `parts` with what is to be sent next and says how many are filled.
    pub(crate) fn parts<'a>(&'a self, arena: &'a Arena, parts: &mut [IoSlice<'a>; PARTS_MAX]) -> usize {
        let mut skip = self.sent;
        for (part, slice) in self.parts.iter().zip(parts.iter_mut()) {
            *slice = IoSlice::new(&part.bytes(&self.heads, arena)[skip..]);
            skip = 0;
        }
        self.parts.len().min(PARTS_MAX)
    }

    /// Forgets `bytes` that have left; their slots go to `unpin`.
    pub(crate) fn sent(&mut self, bytes: usize, arena: &Arena, unpin: &mut Vec<Place>) {
        self.sent += bytes;
        while let Some(part) = self.parts.front() {
            let length = part.bytes(&self.heads, arena).len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            if let Some(Part::Slot(place)) = self.parts.pop_front() {
                unpin.push(place);
            }
        }
        if self.parts.is_empty() {
            self.heads.clear();
        }
    }

    /// Forgets everything; gives the slots.
    pub(crate) fn clear(&mut self) -> Vec<Place> {
        self.sent = 0;
        self.heads.clear();
        let slot = |part| if let Part::Slot(place) = part { Some(place) } else { None };
        self.parts.drain(..).filter_map(slot).collect()
    }
}

impl Part {
    fn bytes<'a>(&'a self, heads: &'a [u8], arena: &'a Arena) -> &'a [u8] {
        match self {
            Self::Heads(range) => &heads[range.clone()],
            Self::Bytes(bytes) => bytes,
            Self::Whole(bytes) => bytes,
            // SAFETY: `Output::Send` has pinned the slot, and it is unpinned after this part is gone.
            Self::Slot(place) => unsafe { arena.bytes(place.shard, place.slot, 0, arena.block() as u32) },
        }
    }
}

#[cfg(test)]
mod tests;
