//! What is on its way to a client: headers, and data sent from where it lies.

use std::collections::VecDeque;
use std::io::IoSlice;

use cards_probe::Ticket;

use super::shard::Place;
use crate::arena::Arena;

/// Parts one write hands to the kernel at most.
pub(crate) const PARTS_MAX: usize = 256;
/// Bytes of the longest header.
const HEADER_MAX: usize = 28;

/// A part of a reply.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A header.
    Header { bytes: [u8; HEADER_MAX], length: u8 },
    /// Part of a block that is pinned until the piece has left, and then dropped if the client keeps it.
    Slot { place: Place, start: u32, length: u32, drop: bool },
    /// Bytes of its own.
    Owned(Vec<u8>),
    /// The reply ends here; its request no longer counts against the client's budget.
    End(Ticket),
}

impl Piece {
    pub(crate) fn header(bytes: &[u8]) -> Self {
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

/// Slots that replies had pinned.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    pub(crate) unpin: Vec<Place>,
    /// Those whose client keeps what was in them.
    pub(crate) drop: Vec<Place>,
}

impl Lent {
    fn push(&mut self, place: Place, drop: bool) {
        if drop { &mut self.drop } else { &mut self.unpin }.push(place);
    }
}

/// The replies of one client that have not left yet.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have left.
    sent: usize,
}

impl Replies {
    pub(crate) fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Fills `parts` with what is to be sent next and says how many are filled.
    pub(crate) fn parts<'a>(&'a self, arena: &'a Arena, parts: &mut [IoSlice<'a>; PARTS_MAX]) -> usize {
        let mut count = 0;
        let mut skip = self.sent;
        for piece in &self.pieces {
            if count == PARTS_MAX {
                break;
            }
            let bytes = match piece {
                Piece::Header { bytes, length } => &bytes[..usize::from(*length)],
                // SAFETY: the slot is pinned until `sent` gives the piece back, which borrows `self` anew.
                Piece::Slot { place, start, length, .. } => unsafe {
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

    /// Forgets what has left: `bytes`, and all ends after it. Its slots go to `lent`, and the requests that are
    /// done with to `over`.
    pub(crate) fn sent(&mut self, bytes: usize, lent: &mut Lent, mut over: impl FnMut(Ticket)) {
        self.sent += bytes;
        while let Some(piece) = self.pieces.front() {
            if self.sent < piece.len() {
                break;
            }
            self.sent -= piece.len();
            match self.pieces.pop_front() {
                Some(Piece::Slot { place, drop, .. }) => lent.push(place, drop),
                Some(Piece::End(ticket)) => over(ticket),
                Some(Piece::Header { .. } | Piece::Owned(_)) | None => {}
            }
        }
    }

    /// Forgets everything; the client is gone.
    pub(crate) fn clear(&mut self) -> Lent {
        self.sent = 0;
        let mut lent = Lent::default();
        for piece in self.pieces.drain(..) {
            if let Piece::Slot { place, .. } = piece {
                // The client does not have it.
                lent.push(place, false);
            }
        }
        lent
    }
}

#[cfg(test)]
mod tests {
    use cards_core::Slot;

    use super::*;
    use cards_admin::Op;
    use cards_probe::Mark;

    fn ticket(length: u32) -> Ticket {
        Ticket {
            start: cards_core::Instant(0),
            offset: 0,
            length,
            throttled_ms: 0,
            op: Op::Read,
            mark: Mark::Done,
        }
    }

    #[test]
    fn pieces_leave_in_any_portions() {
        let arena = Arena::new(&[1, 1], 4096).unwrap();
        let (place, kept) = (Place { shard: 0, slot: Slot(0) }, Place { shard: 1, slot: Slot(0) });
        for portion in 1..60 {
            let mut replies = Replies::default();
            replies.push(Piece::header(&[1; 16]));
            replies.push(Piece::Slot { place, start: 8, length: 30, drop: false });
            replies.push(Piece::Slot { place: kept, start: 0, length: 3, drop: true });
            replies.push(Piece::End(ticket(30)));
            replies.push(Piece::Owned(vec![2; 5]));
            replies.push(Piece::End(ticket(7)));
            let (mut out, mut lent, mut over) = (Vec::new(), Lent::default(), Vec::new());
            while !replies.is_empty() {
                let sent = {
                    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
                    let count = replies.parts(&arena, &mut parts);
                    let all: Vec<u8> = parts[..count].iter().flat_map(|part| part.to_vec()).collect();
                    let sent = portion.min(all.len());
                    out.extend_from_slice(&all[..sent]);
                    sent
                };
                replies.sent(sent, &mut lent, |ticket| over.push(ticket.length));
            }
            let expected: Vec<u8> = [vec![1; 16], vec![0; 33], vec![2; 5]].concat();
            assert_eq!((out, over), (expected, vec![30, 7]));
            assert_eq!((lent.unpin, lent.drop), (vec![place], vec![kept]));
        }
    }

    #[test]
    fn a_vanished_client_gives_its_slots_back() {
        let place = Place { shard: 0, slot: Slot(0) };
        let mut replies = Replies::default();
        replies.push(Piece::header(&[1; 16]));
        replies.push(Piece::Slot { place, start: 0, length: 30, drop: true });
        let lent = replies.clear();
        assert_eq!((lent.unpin, lent.drop), (vec![place], vec![]));
        assert!(replies.is_empty());
    }
}
