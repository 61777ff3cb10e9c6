//! Writes for a peer: those that wait for credit, by volume, and the bytes of those that are not answered.
//!
//! The credit is that of the pair of nodes, and what was sent for a disk that is slow or stands still keeps it. So that
//! writes to the peer's other disks go on, the volume with the most in flight leaves [`RESERVE`] to them, and they leave
//! in turn.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use cards_core::{PgId, RequestId};
use cards_wire::peer::HEADER_SIZE;

use super::{FRAMES_MAX, Fifo, Kind};
use crate::node::link::PIECE;
use crate::node::link::credit::Purse;
use crate::node::link::outgoing::Frame;

/// Credit that the volume with the most in flight leaves to others, if any has been written over this connection; or half
/// of all that there is.
const RESERVE: u64 = PIECE as u64;

/// A command of this node: its shard, and its number there.
pub(crate) type Name = (u16, RequestId);

#[derive(Default)]
pub(crate) struct Writes {
    fifos: BTreeMap<PgId, Fifo>,
    /// Where those are that wait.
    waiting: BTreeMap<Name, (PgId, u64)>,
    /// Those that have left, with their bytes.
    unanswered: BTreeMap<Name, (PgId, u64)>,
    /// Bytes of these, by volume; of all volumes that were written over this connection.
    in_flight: BTreeMap<PgId, u64>,
    /// Bytes of all of these.
    total: u64,
    /// The volume of the last one that left.
    last: Option<PgId>,
}

impl Writes {
    /// Adds a write; one that waits under the same name, for another card, is forgotten.
    pub(crate) fn push(&mut self, name: Name, volume: PgId, frame: Frame, length: usize) {
        self.forget(name);
        let place = self.fifos.entry(volume).or_default().push(frame, length);
        self.waiting.insert(name, (volume, place));
        self.in_flight.entry(volume).or_default();
    }

    /// One that waits does not leave any more.
    pub(crate) fn forget(&mut self, name: Name) {
        if let Some((volume, place)) = self.waiting.remove(&name) {
            self.take(volume, |fifo| fifo.take(place));
        }
    }

    pub(crate) fn waits(&self, name: Name) -> bool {
        self.waiting.contains_key(&name)
    }

    /// The next one of at most `room` bytes for which there is credit.
    pub(crate) fn next(&mut self, purse: &mut Purse, room: usize) -> Option<(Frame, usize)> {
        let later = self.fifos.range((self.last.map_or(Unbounded, Excluded), Unbounded));
        let earlier = self.last.into_iter().flat_map(|last| self.fifos.range(..=last));
        let (volume, length) = later.chain(earlier).find_map(|(&volume, fifo)| {
            let (_, length) = fifo.first(room)?;
            let bytes = (length - HEADER_SIZE) as u64;
            (bytes + self.reserve(volume, purse.unused()) <= purse.unused()).then_some((volume, length))
        })?;
        let bytes = (length - HEADER_SIZE) as u64;
        purse.take(bytes);
        self.last = Some(volume);
        let frame = self.take(volume, Fifo::take_first)?;
        if let Kind::Write(name, _) = Kind::of(&frame) {
            self.waiting.remove(&name);
            self.answered(name);
            // A peer that answers none of so many is no reason to keep count for ever.
            if self.unanswered.len() < FRAMES_MAX {
                self.unanswered.insert(name, (volume, bytes));
                *self.in_flight.entry(volume).or_default() += bytes;
                self.total += bytes;
            }
        }
        Some((frame, length))
    }

    /// What a write of the volume must leave of the credit.
    fn reserve(&self, volume: PgId, unused: u64) -> u64 {
        let own = self.in_flight.get(&volume).copied().unwrap_or(0);
        let has_most = own > 0 && own * 2 >= self.total;
        if has_most && self.in_flight.len() > 1 { RESERVE.min((self.total + unused) / 2) } else { 0 }
    }

    /// The peer has answered a write that has left.
    pub(crate) fn answered(&mut self, name: Name) {
        let Some((volume, bytes)) = self.unanswered.remove(&name) else { return };
        self.total -= bytes;
        if let Some(in_flight) = self.in_flight.get_mut(&volume) {
            *in_flight -= bytes;
        }
    }

    fn take(&mut self, volume: PgId, which: impl FnOnce(&mut Fifo) -> Option<Frame>) -> Option<Frame> {
        let fifo = self.fifos.get_mut(&volume)?;
        let frame = which(fifo);
        if fifo.is_empty() {
            self.fifos.remove(&volume);
        }
        frame
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fifos.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= FRAMES_MAX
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.fifos.values().map(|fifo| fifo.bytes).sum::<usize>() - self.waiting.len() * HEADER_SIZE
    }

    /// Credit that is wanted for what is left to others.
    pub(crate) fn reserve_wanted(&self) -> u64 {
        if self.total > 0 && self.in_flight.len() > 1 && !self.is_empty() { RESERVE } else { 0 }
    }

    /// Bytes of the shortest write that could be next.
    pub(crate) fn shortest(&self) -> Option<u64> {
        let first = |fifo: &Fifo| fifo.first(usize::MAX).map(|(_, length)| (length - HEADER_SIZE) as u64);
        self.fifos.values().filter_map(first).min()
    }
}
