//! What waits for a peer: a queue for each lane of its link, and what is held.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use cards_wire::peer::MAX_LANES;

use super::credit::Connection;
use super::outgoing::Frame;
use super::queue::Queue;

/// Most bytes that may wait for a peer before blocks are dropped, see [`Shelf`].
const QUEUE_BYTES: usize = 64 << 20;
/// Blocks that may wait for a peer that is alone with it, however small the cache.
const QUEUE_BLOCKS: usize = 32;
/// Messages about blocks that may be held for a peer before more are dropped.
const HELD_MAX: usize = 1 << 16;

/// What waits for all peers together: each block has a slot of the cache pinned until it has left.
///
/// A quarter of the cache is shared out: a peer may have its part of it always, and as much as nobody else has taken. One
/// that is alone, or beside which nobody reads, has all. What peers have taken before others came is no reason to pin more
/// than half of the cache.
#[derive(Debug)]
pub(crate) struct Shelf {
    bytes: AtomicUsize,
    /// Peers that are connected.
    peers: AtomicUsize,
    /// What is shared out.
    max: usize,
}

impl Shelf {
    pub(crate) fn new(cache: u64, block: usize) -> Arc<Self> {
        let max = ((cache / 4) as usize).max(QUEUE_BLOCKS * block);
        Arc::new(Self { bytes: AtomicUsize::new(0), peers: AtomicUsize::new(0), max })
    }

    /// What a peer may have that has `own` bytes. Threads that add at the same time do not see each other's block.
    fn room(&self, own: usize) -> usize {
        let all = self.bytes.load(Ordering::Relaxed);
        let part = self.max / self.peers.load(Ordering::Relaxed).max(1);
        let left = (own + 2 * self.max).saturating_sub(all);
        self.max.saturating_sub(all.saturating_sub(own)).max(part).min(left).min(QUEUE_BYTES)
    }
}

/// See the module's head.
pub(crate) struct Outbox {
    /// Locked before any of `reads`.
    first: Mutex<First>,
    /// The queues of the lanes for reads, made with the first link that has any.
    reads: OnceLock<Box<[Mutex<Queue>]>>,
    /// How many of them the present link has.
    lanes: AtomicU16,
    /// Bytes of blocks that wait, on all lanes.
    blocks: AtomicUsize,
    shelf: Arc<Shelf>,
    /// As `First::hold`, for a look without the lock.
    hold: AtomicBool,
    block: usize,
}

/// What the lock of the first lane guards.
#[derive(Default)]
struct First {
    queue: Queue,
    /// Messages about blocks do not leave unless they are told to: see [`Outbox::hold`].
    hold: bool,
    /// With their lanes.
    held: VecDeque<(u16, Frame)>,
}

/// By which lane a read, or the answer to one, leaves. All else leaves by the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    First,
    /// The lane of this data thread: of this node, or of the other end if it has more.
    Thread(u16),
}

impl Way {
    /// By the lane that has the turn.
    pub(crate) fn back(lane: u16) -> Self {
        lane.checked_sub(1).map_or(Self::First, Self::Thread)
    }
}

/// What has become of a frame.
pub(crate) enum Pushed {
    Queued,
    /// There is no connection.
    Down(Frame),
    /// Too much waits.
    Full(Frame),
}

impl Outbox {
    pub(crate) fn new(shelf: Arc<Shelf>, block: usize) -> Self {
        Self {
            first: Mutex::default(),
            reads: OnceLock::new(),
            lanes: AtomicU16::new(0),
            blocks: AtomicUsize::new(0),
            hold: AtomicBool::new(false),
            shelf,
            block,
        }
    }

    fn first(&self) -> MutexGuard<'_, First> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the queue of lane `lane`, a lane for reads.
    fn reads<R>(&self, lane: u16, call: impl FnOnce(&mut Queue) -> R) -> R {
        self.counted(&mut self.lane(lane), call)
    }

    /// Calls a queue, and counts what it has more or less afterwards.
    fn counted<R>(&self, queue: &mut Queue, call: impl FnOnce(&mut Queue) -> R) -> R {
        let before = queue.block_bytes();
        let result = call(queue);
        let after = queue.block_bytes();
        for count in [&self.blocks, &self.shelf.bytes] {
            if after > before {
                count.fetch_add(after - before, Ordering::Relaxed);
            } else if before > after {
                count.fetch_sub(before - after, Ordering::Relaxed);
            }
        }
        result
    }

    /// Adds a frame to a queue, if there is room.
    fn add(&self, queue: &mut Queue, frame: Frame) -> Pushed {
        self.counted(queue, |queue| {
            if queue.connection().is_none() {
                return Pushed::Down(frame);
            }
            // What other lanes have is not theirs alone.
            let own = self.blocks.load(Ordering::Relaxed);
            let elsewhere = own.saturating_sub(queue.block_bytes());
            if !queue.has_room(&frame, self.block, self.shelf.room(own).saturating_sub(elsewhere)) {
                return Pushed::Full(frame);
            }
            queue.add(frame, self.block);
            Pushed::Queued
        })
    }

    fn lane(&self, lane: u16) -> MutexGuard<'_, Queue> {
        let queues =
            self.reads.get_or_init(|| (0..MAX_LANES).map(|_| Mutex::new(Queue::default())).collect());
        queues[usize::from(lane) - 1].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane by which a frame leaves.
    fn lane_of(&self, way: Way, frame: &Frame) -> u16 {
        match (way, self.lanes.load(Ordering::Relaxed)) {
            (Way::Thread(thread), lanes) if lanes > 0 && frame.is_of_read() => 1 + thread % lanes,
            _ => 0,
        }
    }

    /// Queues a frame; the task of its lane is woken once per turn.
    pub(crate) fn push(&self, way: Way, frame: Frame) -> Pushed {
        let lane = self.lane_of(way, &frame);
        if lane > 0 && !self.hold.load(Ordering::SeqCst) {
            return self.add(&mut self.lane(lane), frame);
        }
        let mut first = self.first();
        let First { queue, hold, held } = &mut *first;
        if queue.connection().is_none() {
            return Pushed::Down(frame);
        }
        if *hold && matches!(frame, Frame::Block { .. }) {
            if held.len() >= HELD_MAX {
                return Pushed::Full(frame);
            }
            held.push_back((lane, frame));
            return Pushed::Queued;
        }
        match lane {
            0 => self.add(queue, frame),
            lane => self.add(&mut self.lane(lane), frame),
        }
    }

    /// Holds messages about blocks, or lets them all leave again.
    pub(crate) fn hold(&self, hold: bool) {
        {
            let mut first = self.first();
            first.hold = hold;
            self.hold.store(hold, Ordering::SeqCst);
        }
        while !hold && self.release() {}
    }

    /// Lets the next held message leave, if there is one.
    pub(crate) fn release(&self) -> bool {
        let mut first = self.first();
        match first.held.pop_front() {
            None => return false,
            Some((0, frame)) => self.counted(&mut first.queue, |queue| queue.add(frame, self.block)),
            // Under the lock of the first lane, without which no lane is closed.
            Some((lane, frame)) => self.reads(lane, |queue| queue.add(frame, self.block)),
        }
        true
    }

    /// Nothing is on its way to the peer.
    pub(crate) fn is_idle(&self) -> bool {
        let first = self.first();
        let lanes = self.lanes.load(Ordering::Relaxed);
        first.queue.is_idle()
            && first.held.is_empty()
            && (1..=lanes).all(|lane| self.reads(lane, |queue| queue.is_idle()))
    }

    /// Messages that are held.
    pub(crate) fn held(&self) -> usize {
        self.first().held.len()
    }

    /// Calls the queue of the first lane: credit, and answers to commands.
    pub(crate) fn with_first<R>(&self, call: impl FnOnce(&mut Queue) -> R) -> R {
        self.counted(&mut self.first().queue, call)
    }

    /// Moves what leaves next by a lane to `frames`, which is empty. If there is nothing, `waker` is woken when there is.
    pub(crate) fn take(&self, lane: u16, frames: &mut Vec<Frame>, waker: &Waker) {
        match lane {
            0 => self.with_first(|queue| queue.take(frames, waker)),
            lane => self.reads(lane, |queue| queue.take(frames, waker)),
        }
    }

    /// A link begins that has so many lanes for reads.
    pub(crate) fn open(&self, connection: Connection, lanes: u16) {
        let mut first = self.first();
        self.shelf.peers.fetch_add(1, Ordering::Relaxed);
        self.counted(&mut first.queue, |queue| queue.open(connection));
        for lane in 1..=lanes {
            self.reads(lane, |queue| queue.open(connection));
        }
        self.lanes.store(lanes, Ordering::Relaxed);
    }

    /// The link has ended: what has not left.
    pub(crate) fn close(&self) -> Vec<Frame> {
        let mut first = self.first();
        if first.queue.connection().is_some() {
            self.shelf.peers.fetch_sub(1, Ordering::Relaxed);
        }
        let held = std::mem::take(&mut first.held).into_iter().map(|(_, frame)| frame);
        let mut unsent: Vec<Frame> = held.chain(self.counted(&mut first.queue, Queue::close)).collect();
        for lane in 1..=self.lanes.swap(0, Ordering::Relaxed) {
            unsent.extend(self.reads(lane, Queue::close));
        }
        unsent
    }
}

#[cfg(test)]
mod tests;
