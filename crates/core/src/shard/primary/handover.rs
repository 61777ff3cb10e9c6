//! Hand-over: a block that one node has written and another one reads comes out of a memory, not from the disk.
//!
//! Writes go through to the disk all the same: what is handed over is never the only copy. Three memories have what was
//! written:
//! - the writer's, which keeps the blocks it has written whole. The primary remembers who wrote a block last and sends
//!   a reader on to that node when it would have to read the disk.
//! - The primary's while the write is in its hands: for those who wait for just this write.
//! - The primary's cache, for what its own clients write, and for a block that is written again after a reader had to
//!   be sent on: what is written and read in turn costs no detour then. (Not if readers leave it no copies.)
//!
//! What the primary remembers is a hint like any other: if the writer has evicted the block, the reader's question
//! comes back and is answered from the disk. Nothing here decides whether a copy may be used.
//!
//! The single I/O space hands ranges over through the disk (SIOS-10), and so does a volume with [`Handover::Disk`].

use crate::cache::Mark;
use crate::ids::{BlockId, BufferId, NodeId, PgId, Slot};
use crate::index::{Entry, Index};
use crate::io::{Output, Patch, Payload};
use crate::message::{CommandKind, Source};
use crate::policy::Delivery;
use crate::shard::change::Change;
use crate::shard::coherence::Freshness;
use crate::shard::fetch::PeerRead;
use crate::shard::primary::commands::Client;
use crate::shard::{Limit, Shard};
use crate::volume::Handover;

/// At a primary: who wrote which block last and is likely to have it still.
#[derive(Default)]
pub(in crate::shard) struct Writers {
    /// [`Entry::next`] is the writer, [`Entry::previous`] who has read the block since. Made when there is a volume
    /// that needs it.
    table: Option<Index>,
}

impl Writers {
    pub(in crate::shard) fn enable(&mut self, blocks: u32) {
        self.table.get_or_insert_with(|| Index::new(blocks));
    }

    pub(in crate::shard) fn bytes(&self) -> usize {
        self.table.as_ref().map_or(0, Index::bytes)
    }

    fn of(&self, block: BlockId) -> Option<NodeId> {
        self.table.as_ref().and_then(|table| table.get(block).next)
    }

    /// Somebody has read what was written there last, through the primary.
    fn is_read(&self, block: BlockId) -> bool {
        self.table.as_ref().is_some_and(|table| table.get(block).previous.is_some())
    }

    /// Whether another block was forgotten for it.
    fn set(&mut self, block: BlockId, writer: Option<NodeId>) -> bool {
        let entry = Entry { previous: None, next: writer };
        self.table.as_mut().is_some_and(|table| table.put(block, entry))
    }

    pub(in crate::shard) fn set_reader(&mut self, block: BlockId, reader: NodeId) {
        if let Some(table) = &mut self.table {
            let writer = table.get(block).next;
            table.put(block, Entry { previous: Some(reader), next: writer });
        }
    }
}

impl Shard {
    pub(in crate::shard) fn hands_over(&self, id: PgId) -> bool {
        self.volumes
            .get(&id)
            .is_some_and(|v| v.spec.handover == Handover::Cache && v.confirms() && !v.spec.read_only)
    }

    /// A node that is likely to have the block, which is not here, for it has written it last.
    pub(in crate::shard) fn last_writer(&self, block: BlockId, requester: NodeId) -> Option<NodeId> {
        let primary = self.primary(block.volume)?;
        let writer = self.writers.of(block).filter(|&node| node != requester && node != self.config.node)?;
        let is_there = primary.has_live_card(writer) && self.is_up(writer);
        (is_there && self.hands_over(block.volume) && !self.is_being_written(block)).then_some(writer)
    }

    /// A question that comes back from the last writer has found nothing there.
    pub(in crate::shard) fn forget_writer(&mut self, from: NodeId, block: BlockId, read: &PeerRead) {
        if read.from_disk && self.primary(block.volume).is_some() && self.writers.of(block) == Some(from) {
            self.writers.set(block, None);
        }
    }

    /// A write to the block has been done, or has failed. Who keeps it now, and who has waited for it.
    pub(in crate::shard) fn after_write(
        &mut self,
        block: BlockId,
        change: &Change,
        client: Client,
        done: Option<Payload>,
    ) {
        let Client::Peer { node, .. } = client else {
            self.writers.set(block, None);
            if let Some(payload) = done {
                self.keep_written(block, change, payload, false);
            }
            return;
        };
        let was_read = self.writers.is_read(block);
        let keeps = done.is_some() && self.writer_keeps(block, change, node);
        let is_full = self.writers.set(block, Some(node).filter(|_| keeps));
        self.reached.note(Limit::Writers, is_full);
        let Some(payload) = done else { return };
        self.serve_written(block, change, payload);
        if was_read {
            // As it was with the write before, so it will be with this one: the next reader finds it at once.
            self.keep_written(block, change, payload, true);
        }
    }

    /// Whether a node that has written a block is likely to have it in its cache.
    fn writer_keeps(&self, block: BlockId, change: &Change, writer: NodeId) -> bool {
        match change.kind {
            // The command has acquired the lock on it.
            CommandKind::Write if change.is_whole(block.index, self.config.block_bytes) => true,
            // It goes into the writer's copy, if there is one.
            CommandKind::Write | CommandKind::Zero { .. } => self.writers.of(block) == Some(writer),
            CommandKind::Trim | CommandKind::Flush { .. } => false,
        }
    }

    /// Keeps a block that has been written whole, if there is room on the way and this node may have copies of it.
    pub(in crate::shard) fn keep_written(
        &mut self,
        block: BlockId,
        change: &Change,
        payload: Payload,
        for_others: bool,
    ) {
        let Some(buffer) = self.whole_block_in(block, change, payload) else { return };
        let usable = matches!(self.freshness(block), Freshness::Missing | Freshness::Leaving(_));
        // The last free slots are for blocks that somebody waits for.
        let spare = self.cache.slots() - self.cache.capacity();
        if !usable || self.cache.free_slots() <= spare / 2 {
            return;
        }
        let Some(slot) = self.cache.take() else { return };
        self.patch(slot, block, change, Some(buffer));
        // As if the disk had been read: nobody else has it, as far as a policy is concerned.
        let from = self.primary_of(block.volume);
        let delivery = Delivery { from, source: Source::Disk, oldest_ms: 0, for_others, ahead: false };
        self.keep(slot, block, Some(from), 0, false);
        if self.cache.is_resident(slot) {
            self.cache.mark(slot, Mark::WRITTEN, !for_others);
            self.with_policy(block.volume, |policy, cx| policy.filled(cx, block, delivery));
        }
        self.put_back(Payload::Slot(slot));
        self.resume_fetch(block);
    }

    /// Whoever has waited for this write gets the block out of it.
    fn serve_written(&mut self, block: BlockId, change: &Change, payload: Payload) {
        let Some(buffer) = self.whole_block_in(block, change, payload) else { return };
        let Some((request, slot, waiting)) = self.slot_for_waiting(block) else { return };
        self.patch(slot, block, change, Some(buffer));
        self.stats.handed_over += waiting;
        let from = self.config.node;
        let delivery =
            Delivery { from, source: Source::Cache, oldest_ms: 0, for_others: false, ahead: false };
        self.finish(request, slot, delivery);
    }

    /// The bytes of a write, if they are all of a block of which there is no copy here.
    fn whole_block_in(&self, block: BlockId, change: &Change, payload: Payload) -> Option<BufferId> {
        let Payload::Buffer(buffer) = payload else { return None };
        let whole =
            change.kind == CommandKind::Write && change.is_whole(block.index, self.config.block_bytes);
        let wanted = whole && self.hands_over(block.volume) && self.cache.lookup(block).is_none();
        wanted.then_some(buffer)
    }

    /// A completed write goes into a slot: as much of it as is in the block.
    pub(in crate::shard) fn patch(
        &mut self,
        slot: Slot,
        block: BlockId,
        change: &Change,
        buffer: Option<BufferId>,
    ) {
        let size = u64::from(self.config.block_bytes);
        let start = u64::from(block.index) * size;
        let from_byte = change.offset.max(start);
        let to_byte = (change.offset + u64::from(change.length)).min(start + size);
        self.outputs.push_back(Output::Patch {
            slot,
            slot_offset: (from_byte - start) as u32,
            length: (to_byte - from_byte) as u32,
            from: match buffer {
                Some(buffer) => Patch::Buffer { buffer, offset: (from_byte - change.offset) as u32 },
                None => Patch::Zero,
            },
        });
    }
}
