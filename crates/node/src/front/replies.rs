//! What is on its way to a client: headers, and data sent from where it lies.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::arena::Arena;
use crate::metrics::Ticket;
use crate::node::Place;

/// Parts one write hands to the kernel at most.
pub(super) const PARTS_MAX: usize = 256;
/// Bytes of the longest header.
const HEADER_MAX: usize = 28;

/// A part of a reply.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A header.
    Header { bytes: [u8; HEADER_MAX], length: u8 },
    /// Part of a block that is pinned until the piece has left.
    Slot { place: Place, start: u32, length: u32 },
    /// Bytes of its own.
    Owned(Vec<u8>),
    /// The reply ends here; its request no longer counts against the client's budget.
    End(Ticket),
}

impl Piece {
    pub(super) fn header(bytes: &[u8]) -> Self {
        let mut header = [0; HEADER_MAX];
        header[..bytes.len()].copy_from_slice(bytes);
        Self::Header { bytes: header, length: bytes.len() as u8 }
    }

    fn len(&self) -> usize {
        match self {
            Self::Header { length, .. } => usize::from(*length),
            Self::Slot { length, .. } => *length as usize,
            Self::Owned(bytes) => bytes.len(),
            Self::End(_) => 0,
        }
    }
}

/// The replies of one client that have not left yet.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have left.
    sent: usize,
}

impl Replies {
    pub(super) fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Fills `parts` with what is to be sent next and says how many are filled.
    pub(super) fn parts<'a>(&'a self, arena: &'a Arena, parts: &mut [IoSlice<'a>; PARTS_MAX]) -> usize {
        let mut count = 0;
        let mut skip = self.sent;
        for piece in &self.pieces {
            if count == PARTS_MAX {
                break;
            }
            let bytes = match piece {
                Piece::Header { bytes, length } => &bytes[..usize::from(*length)],
                // SAFETY: the slot is pinned until `sent` gives the piece back, which borrows `self` anew.
                Piece::Slot { place, start, length } => unsafe {
                    arena.bytes(place.shard, place.slot, *start, *length)
                },
                Piece::Owned(bytes) => bytes,
                Piece::End(_) => continue,
            };
            parts[count] = IoSlice::new(&bytes[skip..]);
            skip = 0;
            count += 1;
        }
        count
    }

    /// Forgets what has left: `bytes`, and all ends after it. Its slots go to `unpin`, and the requests that are
    /// done with to `over`.
    pub(super) fn sent(&mut self, bytes: usize, unpin: &mut Vec<Place>, mut over: impl FnMut(Ticket)) {
        self.sent += bytes;
        while let Some(piece) = self.pieces.front() {
            if self.sent < piece.len() {
                break;
            }
            self.sent -= piece.len();
            match self.pieces.pop_front() {
                Some(Piece::Slot { place, .. }) => unpin.push(place),
                Some(Piece::End(ticket)) => over(ticket),
                Some(Piece::Header { .. } | Piece::Owned(_)) | None => {}
            }
        }
    }

    /// Forgets everything; the client is gone.
    pub(super) fn clear(&mut self, unpin: &mut Vec<Place>) {
        self.sent = 0;
        for piece in self.pieces.drain(..) {
            if let Piece::Slot { place, .. } = piece {
                unpin.push(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cards_core::Slot;

    use super::*;
    use crate::admin::Op;
    use crate::metrics::Mark;

    fn ticket(length: u32) -> Ticket {
        Ticket { start: cards_core::Instant(0), offset: 0, length, op: Op::Read, mark: Mark::Done }
    }

    #[test]
    fn pieces_leave_in_any_portions() {
        let arena = Arena::new(&[1], 4096).unwrap();
        let place = Place { shard: 0, slot: Slot(0) };
        for portion in 1..60 {
            let mut replies = Replies::default();
            replies.push(Piece::header(&[1; 16]));
            replies.push(Piece::Slot { place, start: 8, length: 30 });
            replies.push(Piece::End(ticket(30)));
            replies.push(Piece::Owned(vec![2; 5]));
            replies.push(Piece::End(ticket(7)));
            let (mut out, mut unpin, mut over) = (Vec::new(), Vec::new(), Vec::new());
            while !replies.is_empty() {
                let sent = {
                    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
                    let count = replies.parts(&arena, &mut parts);
                    let all: Vec<u8> = parts[..count].iter().flat_map(|part| part.to_vec()).collect();
                    let sent = portion.min(all.len());
                    out.extend_from_slice(&all[..sent]);
                    sent
                };
                replies.sent(sent, &mut unpin, |ticket| over.push(ticket.length));
            }
            let expected: Vec<u8> = [vec![1; 16], vec![0; 30], vec![2; 5]].concat();
            assert_eq!((out, unpin, over), (expected, vec![place], vec![30, 7]));
        }
    }

    #[test]
    fn a_vanished_client_gives_its_slots_back() {
        let place = Place { shard: 0, slot: Slot(0) };
        let mut replies = Replies::default();
        replies.push(Piece::header(&[1; 16]));
        replies.push(Piece::Slot { place, start: 0, length: 30 });
        let mut unpin = Vec::new();
        replies.clear(&mut unpin);
        assert_eq!(unpin, [place]);
        assert!(replies.is_empty());
    }
}
