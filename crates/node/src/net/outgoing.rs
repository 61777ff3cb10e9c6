//! What is on its way to a peer: headers, and blocks sent from their slots.

use std::collections::VecDeque;
use std::io::IoSlice;

use cards_core::{Body, ControlMessage, Message};
use cards_wire::peer::{self, Credit, HEADER_SIZE};

use crate::arena::Arena;
use crate::buffers::Bytes;
use crate::node::Place;

/// Parts one write hands to the kernel at most.
pub(super) const PARTS_MAX: usize = 256;

/// Something to be sent to a peer.
pub(crate) enum Frame {
    /// A message about blocks.
    Block { message: Message, payload: Outgoing },
    /// A message about a card.
    Control(ControlMessage),
    /// A question or an answer, in its form on the wire.
    Inquiry(Vec<u8>),
    /// What the peer may send, and what this node wants to.
    Credit(Credit),
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
pub(super) const fn is_of_read(body: &Body) -> bool {
    matches!(body, Body::Read { .. } | Body::Data { .. } | Body::Nack { .. })
}

impl Frame {
    pub(super) const fn is_of_read(&self) -> bool {
        matches!(self, Self::Block { message, .. } if is_of_read(&message.body))
    }

    /// Bytes on the wire, or nearly.
    pub(super) fn len(&self, block: usize) -> usize {
        HEADER_SIZE
            + match self {
                Self::Block { payload: Outgoing::Slot(_), .. } => block,
                Self::Block { payload: Outgoing::Bytes(bytes), .. } => bytes.len(),
                Self::Inquiry(frame) => frame.len(),
                Self::Block { payload: Outgoing::None, .. } | Self::Control(_) | Self::Credit(_) => 0,
            }
    }
}

/// What one connection is sending.
pub(super) struct Sending {
    /// What the two ends speak.
    version: u8,
    parts: VecDeque<Part>,
    /// Bytes of the first part that have left.
    sent: usize,
}

enum Part {
    Header([u8; HEADER_SIZE]),
    Slot(Place),
    Bytes(Bytes),
    /// A frame with its body.
    Whole(Vec<u8>),
}

impl Sending {
    pub(super) fn new(version: u8) -> Self {
        Self { version, parts: VecDeque::new(), sent: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a frame in its form on the wire.
    pub(super) fn push(&mut self, frame: Frame, block: u32) {
        match frame {
            Frame::Block { message, payload } => {
                let length = match &payload {
                    Outgoing::None => 0,
                    Outgoing::Slot(_) => block,
                    Outgoing::Bytes(bytes) => bytes.len() as u32,
                };
                self.push_header(peer::encode_message(&message, length));
                match payload {
                    Outgoing::None => {}
                    Outgoing::Slot(place) => self.parts.push_back(Part::Slot(place)),
                    Outgoing::Bytes(bytes) => self.parts.push_back(Part::Bytes(bytes)),
                }
            }
            Frame::Inquiry(frame) => self.push_whole(frame),
            Frame::Credit(credit) => self.push_header(peer::encode_credit(&credit)),
            Frame::Control(message) => match peer::encode_control(&message) {
                Ok(frame) => self.push_whole(frame),
                // The configuration bounds names and policies, the disk engine the extents.
                Err(error) => tracing::error!(%error, ?message, "a control message cannot be sent"),
            },
        }
    }

    fn push_header(&mut self, mut header: [u8; HEADER_SIZE]) {
        peer::set_version(&mut header, self.version);
        self.parts.push_back(Part::Header(header));
    }

    /// Adds a frame that is in its form on the wire, but for the version.
    pub(super) fn push_whole(&mut self, mut frame: Vec<u8>) {
        peer::set_version(&mut frame, self.version);
        self.parts.push_back(Part::Whole(frame));
    }

    /// Fills `parts` with what is to be sent next and says how many are filled.
    pub(super) fn parts<'a>(&'a self, arena: &'a Arena, parts: &mut [IoSlice<'a>; PARTS_MAX]) -> usize {
        let mut skip = self.sent;
        for (part, slice) in self.parts.iter().zip(parts.iter_mut()) {
            *slice = IoSlice::new(&part.bytes(arena)[skip..]);
            skip = 0;
        }
        self.parts.len().min(PARTS_MAX)
    }

    /// Forgets `bytes` that have left; their slots go to `unpin`.
    pub(super) fn sent(&mut self, bytes: usize, arena: &Arena, unpin: &mut Vec<Place>) {
        self.sent += bytes;
        while let Some(part) = self.parts.front() {
            let length = part.bytes(arena).len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            if let Some(Part::Slot(place)) = self.parts.pop_front() {
                unpin.push(place);
            }
        }
    }

    /// Forgets everything; gives the slots.
    pub(super) fn clear(&mut self) -> Vec<Place> {
        self.sent = 0;
        let slot = |part| if let Part::Slot(place) = part { Some(place) } else { None };
        self.parts.drain(..).filter_map(slot).collect()
    }
}

impl Part {
    fn bytes<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Bytes(bytes) => bytes,
            Self::Whole(bytes) => bytes,
            // SAFETY: `Output::Send` has pinned the slot, and it is unpinned after this part is gone.
            Self::Slot(place) => unsafe { arena.bytes(place.shard, place.slot, 0, arena.block() as u32) },
        }
    }
}
