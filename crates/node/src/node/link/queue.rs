//! What is to be sent to a peer, and in which order it leaves.
//!
//! First what is about cards and leases, and what decides which node serves a group of copies, then messages without a payload, then blocks,
//! writes and copies of groups in turn, and last blocks that were evicted, for which nobody waits: a renewal, a beacon or a confirmation
//! does not wait behind megabytes. Little is taken at a time, so this is decided late. Safety rests on no
//! order; where speed does, it is kept:
//!
//! * An invalidation stays behind the blocks that wait. Before them, it would have them refused on arrival, and who reads
//!   a block that is often written would ask for it again and again.
//! * A write that waits here is as good as sent for the core. A question for it is not passed on: the primary would say
//!   that it has not got it, and it would be sent twice. When it is given up it does not leave any more: its number is
//!   used up, and nobody would want its bytes.

mod writes;

use std::collections::{BTreeSet, VecDeque};
use std::task::Waker;

use cards_array::group::{self, Term};
use cards_core::{Body, CommandKind, Message, PgId};
use cards_wire::peer::{Credit, HEADER_SIZE};

use super::credit::{Connection, Purse};
use super::outgoing::{Frame, Outgoing};
use crate::node::buffers::Bytes;
use writes::Writes;

pub(crate) use writes::Name;

/// Most bytes that groups may have waiting for a peer.
const COPIES_MAX: usize = 64 << 20;
/// Most frames of a kind that may wait for a peer before more are dropped.
const FRAMES_MAX: usize = 1 << 16;
/// Bytes of each kind that are taken at a time; or one frame that is longer.
const BATCH: usize = (128 << 10) + 8 * HEADER_SIZE;
/// Bytes of writes for which credit is asked ahead: what a fast link takes until the answer comes.
const AHEAD: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct Queue {
    /// None while there is no connection.
    connection: Option<Connection>,
    control: VecDeque<Frame>,
    headers: VecDeque<Frame>,
    /// Blocks and inquiries, and invalidations behind them.
    blocks: Fifo,
    /// Commands with their bytes.
    writes: Writes,
    /// What is tried first for the next payload: 0 a write, 1 a block, 2 a copy.
    next: u8,
    /// What groups write to columns, and what these were asked for.
    copies: Fifo,
    /// Those that wait.
    copies_waiting: BTreeSet<CopyName>,
    /// Blocks that were evicted.
    stores: Fifo,
    purse: Purse,
    /// What the peer may send, all in all.
    granted: u64,
    /// The peer is to be told of credit.
    tells: bool,
    /// The exchange's task while it sleeps: all that was taken has left.
    waker: Option<Waker>,
}

/// Frames and their lengths.
#[derive(Default)]
struct Fifo {
    /// None was taken out of the middle; never the first.
    frames: VecDeque<(Option<Frame>, usize)>,
    bytes: usize,
    /// Frames that have been first and are gone.
    gone: u64,
}

impl Fifo {
    /// Adds a frame and names its place.
    fn push(&mut self, frame: Frame, length: usize) -> u64 {
        self.bytes += length;
        self.frames.push_back((Some(frame), length));
        self.gone + self.frames.len() as u64 - 1
    }

    /// The first one, if it is no longer than that.
    fn first(&self, room: usize) -> Option<(&Frame, usize)> {
        let (frame, length) = self.frames.front()?;
        frame.as_ref().filter(|_| *length <= room).map(|frame| (frame, *length))
    }

    /// Takes the first one, if it is no longer than that, and says how long it is.
    fn take_within(&mut self, room: usize) -> Option<(Frame, usize)> {
        let (_, length) = self.first(room)?;
        self.take_first().map(|frame| (frame, length))
    }

    fn take_first(&mut self) -> Option<Frame> {
        self.take(self.gone)
    }

    fn take(&mut self, place: u64) -> Option<Frame> {
        let (frame, length) = self.frames.get_mut(usize::try_from(place - self.gone).ok()?)?;
        let frame = frame.take()?;
        self.bytes -= *length;
        while self.frames.pop_front_if(|(frame, _)| frame.is_none()).is_some() {
            self.gone += 1;
        }
        Some(frame)
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES_MAX
    }
}

/// A payload of a group: the group, the term, its number there, and whether it is to be written.
type CopyName = (PgId, Term, u64, bool);

/// Where a frame is put.
enum Kind {
    Control,
    Header,
    Probe(Name),
    Void(Name),
    Invalidation,
    Block,
    Store,
    Write(Name, PgId),
    Copy(CopyName),
}

impl Kind {
    fn of(frame: &Frame) -> Self {
        let (message, payload) = match frame {
            Frame::Block { message, payload } => (message, payload),
            Frame::Group { group, message } => return Self::of_group(*group, message),
            Frame::Inquiry(_) => return Self::Block,
            Frame::Control(_) | Frame::Credit(_) => return Self::Control,
        };
        let Message { shard, volume, ref body, .. } = *message;
        match (body, payload) {
            (Body::Store { .. }, _) => Self::Store,
            (_, Outgoing::Slot(_)) => Self::Block,
            (&Body::Command { request, kind: CommandKind::Write, .. }, _) => {
                Self::Write((shard, request), volume)
            }
            (&Body::Probe { request, .. }, _) => Self::Probe((shard, request)),
            (&Body::Void { request, .. }, _) => Self::Void((shard, request)),
            (Body::Invalidate { .. }, _) => Self::Invalidation,
            _ => Self::Header,
        }
    }
}

impl Kind {
    /// What decides who may serve leaves first.
    fn of_group(group: PgId, message: &group::Message<Bytes>) -> Self {
        use group::Message as M;
        match *message {
            M::Put { term, number, .. } => Self::Copy((group, term, number, true)),
            M::Got { term, number, .. } => Self::Copy((group, term, number, false)),
            M::Get { .. }
            | M::Verify { .. }
            | M::Verified { .. }
            | M::Damaged { .. }
            | M::PutDone { .. }
            | M::Harden { .. }
            | M::Hardened { .. }
            | M::CaughtUp { .. } => Self::Header,
            M::Beacon { .. }
            | M::BeaconAck { .. }
            | M::Seal(_)
            | M::Waiting { .. }
            | M::Sealed { .. }
            | M::Open { .. }
            | M::Opened { .. }
            | M::Here { .. }
            | M::Refused { .. }
            | M::Restarted { .. }
            | M::Failed { .. }
            | M::Outdated { .. }
            | M::HandOver(_)
            | M::Resigned { .. } => Self::Control,
        }
    }
}

impl Queue {
    pub(crate) fn open(&mut self, connection: Connection) {
        *self = Self { connection: Some(connection), ..Self::default() };
    }

    /// The connection has ended: what has not left.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = Frame> + use<> {
        let Self { blocks, stores, .. } = std::mem::take(self);
        blocks.frames.into_iter().chain(stores.frames).filter_map(|(frame, _)| frame)
    }

    pub(crate) const fn connection(&self) -> Option<Connection> {
        self.connection
    }

    /// There is room for a frame. Blocks may have `bytes_max` together, evicted ones a quarter of that.
    pub(crate) fn has_room(&self, frame: &Frame, block: usize, bytes_max: usize) -> bool {
        let fits = |fifo: &Fifo, max| !fifo.is_full() && fifo.bytes + frame.len(block) <= max;
        match Kind::of(frame) {
            Kind::Control => self.control.len() < FRAMES_MAX,
            Kind::Block => fits(&self.blocks, bytes_max),
            Kind::Store => fits(&self.stores, bytes_max / 4),
            Kind::Write(..) => !self.writes.is_full(),
            Kind::Copy(_) => fits(&self.copies, COPIES_MAX),
            Kind::Invalidation => !self.blocks.is_full() && self.headers.len() < FRAMES_MAX,
            Kind::Header | Kind::Probe(_) | Kind::Void(_) => self.headers.len() < FRAMES_MAX,
        }
    }

    /// Adds a frame.
    pub(crate) fn add(&mut self, frame: Frame, block: usize) {
        let length = frame.len(block);
        match Kind::of(&frame) {
            Kind::Control => self.control.push_back(frame),
            Kind::Block => _ = self.blocks.push(frame, length),
            Kind::Store => _ = self.stores.push(frame, length),
            Kind::Invalidation if !self.blocks.is_empty() => _ = self.blocks.push(frame, length),
            Kind::Probe(name) if self.writes.waits(name) => return,
            Kind::Write(name, volume) => self.writes.push(name, volume, frame, length),
            // A group sends again what has no answer; what has not left yet would leave twice.
            Kind::Copy(name) if !self.copies_waiting.insert(name) => return,
            Kind::Copy(_) => _ = self.copies.push(frame, length),
            Kind::Void(name) => {
                self.writes.forget(name);
                self.headers.push_back(frame);
            }
            Kind::Header | Kind::Probe(_) | Kind::Invalidation => self.headers.push_back(frame),
        }
        self.wake();
    }

    /// Moves what leaves next to `frames`, which is empty. If there is nothing, `waker` is woken when there is.
    pub(crate) fn take(&mut self, frames: &mut Vec<Frame>, waker: &Waker) {
        let ahead = self.writes_waiting().min(AHEAD) as u64;
        self.tells |= self.purse.ask(ahead + self.writes.reserve_wanted());
        if std::mem::take(&mut self.tells) {
            let (wanted, returned) = self.purse.says();
            frames.push(Frame::Credit(Credit { granted: self.granted, wanted, returned }));
        }
        frames.extend(self.control.drain(..));
        let headers = self.headers.len().min(BATCH / HEADER_SIZE);
        frames.extend(self.headers.drain(..headers));
        let mut bytes = 0;
        while let Some((frame, length)) =
            self.next_payload(if bytes == 0 { usize::MAX } else { BATCH - bytes })
        {
            frames.push(frame);
            bytes += length;
            if bytes >= BATCH {
                break;
            }
        }
        self.waker = frames.is_empty().then(|| waker.clone());
    }

    /// A write, a block or a copy, in turn, or what was evicted, of so many bytes at most. A write needs credit.
    fn next_payload(&mut self, room: usize) -> Option<(Frame, usize)> {
        for turn in 0..3 {
            let kind = (self.next + turn) % 3;
            let next = match kind {
                0 => self.writes.next(&mut self.purse, room),
                1 => self.blocks.take_within(room),
                _ => self.copies.take_within(room),
            };
            if let Some((frame, length)) = next {
                if let Kind::Copy(name) = Kind::of(&frame) {
                    self.copies_waiting.remove(&name);
                }
                self.next = (kind + 1) % 3;
                return Some((frame, length));
            }
        }
        self.stores.take_within(room)
    }

    /// The peer takes so many bytes of writes, all in all. Said by the exchange's task, which looks for itself.
    pub(crate) fn has_credit(&mut self, granted: u64) {
        self.purse.grant(granted);
    }

    /// The peer may send so many bytes of writes, all in all.
    pub(crate) fn grant(&mut self, granted: u64) {
        self.granted = granted;
        self.tells = true;
        self.wake();
    }

    /// Credit that was not needed for a while goes back.
    pub(crate) fn rest(&mut self) {
        if self.purse.rest(self.writes.shortest()) {
            self.tells = true;
            self.wake();
        }
    }

    /// Bytes of blocks that wait.
    pub(crate) const fn block_bytes(&self) -> usize {
        self.blocks.bytes + self.stores.bytes
    }

    /// Bytes of writes that wait.
    pub(crate) fn writes_waiting(&self) -> usize {
        self.writes.bytes()
    }

    /// The peer has answered a write. Others may leave for it.
    pub(crate) fn answered(&mut self, name: Name) {
        self.writes.answered(name);
        if !self.writes.is_empty() {
            self.wake();
        }
    }

    /// All has left.
    pub(crate) fn is_idle(&self) -> bool {
        let is_empty = self.control.is_empty()
            && self.headers.is_empty()
            && self.blocks.is_empty()
            && self.stores.is_empty()
            && self.copies.is_empty()
            && self.writes.is_empty();
        self.connection.is_none() || is_empty && self.waker.is_some()
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
