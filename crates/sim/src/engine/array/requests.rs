//! What clients have asked for, and the pieces that it is cut into.

use cards_array::group::Extent;

use super::volume::Places;
use crate::kernel::IoToken;

/// A request of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) token: IoToken,
    pub(super) client: u16,
    pub(super) kind: Kind,
    /// What of it has not begun: from a byte of the volume to another one; of a flush, groups.
    next: u64,
    end: u64,
    /// Pieces under way.
    open: u32,
}

/// What is done with a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    /// A write that was answered from memory goes to the disk.
    Drain,
}

/// A piece of a request: bytes of one group, or the flush of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The request; that of a drain may have been answered.
    pub(super) request: usize,
    pub(super) client: u16,
    pub(super) kind: Kind,
    pub(super) group: usize,
    /// In the columns of the group.
    pub(super) extent: Extent,
}

/// Requests and pieces by number.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: Slab<Asked>,
    pieces: Slab<Piece>,
}

impl Requests {
    /// A request for bytes of the volume, or for groups to be flushed.
    pub(super) fn begin(&mut self, token: IoToken, client: u16, kind: Kind, range: (u64, u64)) -> usize {
        let (next, end) = range;
        self.requests.insert(Asked { token, client, kind, next, end, open: 0 })
    }

    /// The next piece of a request, if `depth` allows one. Its request is over when there is none, and none is under way.
    pub(super) fn next(&mut self, request: usize, depth: u16, places: &Places) -> Option<usize> {
        let asked = self.requests.get_mut(request);
        let Asked { client, kind, next, end, open, .. } = *asked;
        if next >= end {
            return None;
        }
        let (group, extent) = if kind == Kind::Flush {
            asked.next += 1;
            (next as usize, Extent { offset: 0, length: 1 })
        } else if open < depth.into() {
            // Chunks of the geometry are as long as pieces.
            let found = places.geometry.extents(next, end - next).next()?;
            asked.next += u64::from(found.length);
            let offset = places.geometry.column_offset(found.location);
            (found.location.group as usize, Extent { offset, length: found.length.into() })
        } else {
            return None;
        };
        asked.open += 1;
        Some(self.pieces.insert(Piece { request, client, kind, group, extent }))
    }

    pub(super) fn piece(&mut self, piece: usize) -> &mut Piece {
        self.pieces.get_mut(piece)
    }

    /// A piece that no request waits for.
    pub(super) fn add(&mut self, piece: Piece) -> usize {
        self.pieces.insert(piece)
    }

    /// It is done.
    pub(super) fn drop_piece(&mut self, piece: usize) {
        self.pieces.remove(piece);
    }

    /// A piece has been answered; returns its request.
    pub(super) fn answered(&mut self, piece: usize) -> usize {
        let request = self.pieces.remove(piece).request;
        self.requests.get_mut(request).open -= 1;
        request
    }

    /// The token of a request all of whose pieces have been answered, and which is forgotten.
    pub(super) fn ended(&mut self, request: usize) -> Option<IoToken> {
        let Asked { open, token, .. } = *self.requests.get_mut(request);
        (open == 0).then(|| {
            self.requests.remove(request);
            token
        })
    }

    pub(super) fn are_done(&self) -> bool {
        self.requests.items.len() == self.requests.free.len()
    }
}

/// Values by number; numbers are used again.
#[derive(Debug)]
struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn insert(&mut self, value: T) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        self.items[place] = Some(value);
        place
    }

    fn get_mut(&mut self, place: usize) -> &mut T {
        self.items[place].as_mut().unwrap_or_else(|| unreachable!("{place} is in use"))
    }

    fn remove(&mut self, place: usize) -> T {
        self.free.push(place);
        self.items[place].take().unwrap_or_else(|| unreachable!("{place} is in use"))
    }
}
