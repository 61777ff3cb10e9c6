//! The buffers of one cache server and the blocks in them.

use alloc::vec::Vec;

use cards_core::{BlockId, NodeId, PgId, Table};

use super::Frame;
use super::queue::{Links, Queue};

/// One-bit facts about a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u16);

impl Mark {
    /// It is this server's.
    const OWNED: Self = Self(1);
    /// It has a block.
    const RESIDENT: Self = Self(1 << 1);
    /// Its block is newer than on the disk, and no flush of it is under way that makes that up.
    pub(super) const DIRTY: Self = Self(1 << 2);
    /// A flush is under way.
    pub(super) const FLUSHING: Self = Self(1 << 3);
    /// It is in its line's parity, or will be when the write under way is done.
    pub(super) const COVERED: Self = Self(1 << 4);
    /// It is being taken out of the parity.
    pub(super) const UNCOVERING: Self = Self(1 << 5);
    /// A covered write is under way.
    pub(super) const WRITING: Self = Self(1 << 6);
    /// Its block is not in it yet: it comes from the disk, or from a client.
    pub(super) const FILLING: Self = Self(1 << 7);
    /// Its block is leaving: as soon as nothing is under way and the disk has it, the buffer has another use.
    pub(super) const VACATING: Self = Self(1 << 8);
    /// It is in the syncer's list.
    pub(super) const LISTED: Self = Self(1 << 9);
    /// Whatever forbids to reuse the buffer at once.
    pub(super) const BUSY: Self =
        Self(Self::DIRTY.0 | Self::FLUSHING.0 | Self::COVERED.0 | Self::UNCOVERING.0 | Self::WRITING.0);

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[derive(Clone, Copy)]
struct Buffer {
    index: u32,
    slot: u32,
    /// The interval in which the block was last accessed.
    accessed: u32,
    volume: u32,
    marks: u16,
}

/// See the module's head. Buffers have numbers that are used again when they have gone.
pub(super) struct Partition {
    buffers: Vec<Buffer>,
    links: Vec<Links>,
    unused: Vec<u32>,
    len: u32,
    resident: u32,
    queue: Queue,
    tip_percent: u8,
    table: Table,
    /// Buffers that the table has room for.
    room: u32,
}

impl Partition {
    /// An empty partition that will soon have so many buffers.
    pub(super) fn new(nodes: u16, tip_percent: u8, buffers: usize) -> Self {
        Self {
            buffers: Vec::with_capacity(buffers),
            links: Vec::with_capacity(buffers),
            unused: Vec::new(),
            len: 0,
            resident: 0,
            queue: Queue::new(nodes),
            tip_percent,
            table: Table::new(1, 1),
            room: 0,
        }
    }

    /// Buffers of the partition.
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Buffers with a block.
    pub(super) const fn resident(&self) -> u32 {
        self.resident
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.buffers.capacity() * (size_of::<Buffer>() + size_of::<Links>())
            + self.unused.capacity() * size_of::<u32>()
            + self.queue.table_bytes()
            + self.table.bytes()
    }

    /// The buffer with a block.
    pub(super) fn find(&self, block: BlockId) -> Option<u32> {
        self.table.find(block.hash(), |at| self.id(at) == block)
    }

    fn id(&self, at: u32) -> BlockId {
        let buffer = &self.buffers[at as usize];
        BlockId::new(PgId(buffer.volume), buffer.index)
    }

    /// The block in a buffer.
    pub(super) fn block(&self, at: u32) -> Option<BlockId> {
        self.is(at, Mark::RESIDENT).then(|| self.id(at))
    }

    pub(super) fn frame(&self, at: u32) -> Frame {
        Frame::new(NodeId(self.links[at as usize].node()), self.buffers[at as usize].slot)
    }

    /// Whether a buffer has any of these marks.
    pub(super) fn is(&self, at: u32, marks: Mark) -> bool {
        self.buffers[at as usize].marks & marks.0 != 0
    }

    pub(super) fn mark(&mut self, at: u32, mark: Mark, on: bool) {
        let marks = &mut self.buffers[at as usize].marks;
        *marks = if on { *marks | mark.0 } else { *marks & !mark.0 };
    }

    /// The interval in which the block was last accessed.
    pub(super) fn accessed(&self, at: u32) -> u32 {
        self.buffers[at as usize].accessed
    }

    pub(super) fn set_accessed(&mut self, at: u32, interval: u32) {
        self.buffers[at as usize].accessed = interval;
    }

    /// A block enters an empty buffer.
    pub(super) fn assign(&mut self, at: u32, block: BlockId) {
        debug_assert!(!self.is(at, Mark::RESIDENT) && self.find(block).is_none());
        let buffer = &mut self.buffers[at as usize];
        buffer.volume = block.volume.0;
        buffer.index = block.index;
        buffer.marks |= Mark::RESIDENT.0;
        self.resident += 1;
        self.table.insert(block.hash(), at);
    }

    /// The block leaves its buffer; returns which.
    pub(super) fn empty(&mut self, at: u32) -> Option<BlockId> {
        let block = self.block(at)?;
        self.mark(at, Mark::RESIDENT, false);
        self.resident -= 1;
        let buffers = &self.buffers;
        self.table.remove(block.hash(), at, |at| {
            let buffer = &buffers[at as usize];
            BlockId::new(PgId(buffer.volume), buffer.index).hash()
        });
        Some(block)
    }

    /// A frame joins the partition, empty, to be used next. Returns its buffer.
    pub(super) fn add(&mut self, frame: Frame) -> u32 {
        let buffer = Buffer { index: 0, slot: frame.slot, accessed: 0, volume: 0, marks: Mark::OWNED.0 };
        let links = Links::new(frame.node.0);
        let at = match self.unused.pop() {
            Some(at) => {
                // It may still be in the syncer's list.
                let listed = self.buffers[at as usize].marks & Mark::LISTED.0;
                self.buffers[at as usize] = Buffer { marks: buffer.marks | listed, ..buffer };
                self.links[at as usize] = links;
                at
            }
            None => {
                self.buffers.push(buffer);
                self.links.push(links);
                self.buffers.len() as u32 - 1
            }
        };
        self.len += 1;
        if self.buffers.len() as u32 > self.room {
            self.grow();
        }
        self.queue.push_oldest(&mut self.links, at);
        self.update_tip();
        at
    }

    /// An empty buffer that is not in the queue leaves the partition; returns its frame.
    pub(super) fn remove(&mut self, at: u32) -> Frame {
        debug_assert!(!self.is(at, Mark::RESIDENT.or(Mark::BUSY)) && !self.is_queued(at));
        let frame = self.frame(at);
        self.mark(at, Mark::OWNED, false);
        self.unused.push(at);
        self.len -= 1;
        self.update_tip();
        frame
    }

    fn grow(&mut self) {
        self.room = (self.buffers.len() as u32).next_power_of_two().max(16);
        self.table = Table::new((self.room + self.room / 8) as usize + 1, self.room);
        for at in 0..self.buffers.len() as u32 {
            if let Some(block) = self.block(at) {
                self.table.insert(block.hash(), at);
            }
        }
    }

    /// The tip is a share of all buffers, rounded up (so never empty, unless it is switched off).
    fn update_tip(&mut self) {
        let tip = (u64::from(self.len) * u64::from(self.tip_percent)).div_ceil(100);
        self.queue.set_tip(&mut self.links, tip as u32);
    }

    pub(super) fn is_queued(&self, at: u32) -> bool {
        Queue::contains(&self.links, at)
    }

    /// A buffer has been used: it is the most recent one from now on.
    pub(super) fn touch(&mut self, at: u32) {
        if self.is_queued(at) {
            self.queue.touch(&mut self.links, at);
        }
    }

    /// A buffer may be reused, but as the last one.
    pub(super) fn enqueue(&mut self, at: u32) {
        self.queue.push_newest(&mut self.links, at);
    }

    /// A buffer may not be reused for the time being.
    pub(super) fn dequeue(&mut self, at: u32) {
        self.queue.remove(&mut self.links, at);
    }

    /// An emptied buffer is reused before all others.
    pub(super) fn requeue_first(&mut self, at: u32) {
        self.queue.remove(&mut self.links, at);
        self.queue.push_oldest(&mut self.links, at);
    }

    /// The least recently used buffer.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.queue.oldest()
    }

    /// PG-LRU (PAFS-6): the least recently used buffer of the tip that lies on the client's node; if there is
    /// none, the least recently used one. A block is not discarded while there is an empty buffer.
    pub(super) fn victim(&self, client: NodeId) -> Option<u32> {
        let oldest = self.queue.oldest()?;
        let local = self.queue.oldest_in_tip_on(client.0);
        let discards = |at: &u32| self.is(*at, Mark::RESIDENT) && !self.is(oldest, Mark::RESIDENT);
        Some(local.filter(|at| !discards(at)).unwrap_or(oldest))
    }

    /// All buffers, in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.buffers.len() as u32).filter(|&at| self.is(at, Mark::OWNED))
    }

    pub(super) fn check(&self) {
        self.queue.check(&self.links);
        assert!(
            self.all().count() == self.len as usize && self.table.slots().count() == self.resident as usize
        );
        let resident = || self.all().filter(|&at| self.is(at, Mark::RESIDENT));
        assert!(resident().count() == self.resident as usize);
        for at in resident() {
            assert!(self.find(self.id(at)) == Some(at), "every resident block is found, and once");
        }
    }
}
