//! Commands at the primary that have not begun, in the order in which they came. Each waits until it is the first of those
//! that change its blocks, and for the write and the reads that go before it there. Who ends names the blocks, so that only
//! the first commands on these are looked at.

use alloc::collections::{BTreeMap, BTreeSet};

use super::commands::DiskCommand;
use crate::ids::{BlockId, OpId};

/// See the module's head.
#[derive(Default)]
pub(in crate::shard) struct Queue {
    commands: BTreeMap<OpId, DiskCommand>,
    /// Those that change a block.
    of_block: BTreeMap<BlockId, BTreeSet<OpId>>,
    /// Those that may have nothing to wait for any more.
    woken: BTreeSet<OpId>,
}

impl Queue {
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(in crate::shard) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (OpId, &DiskCommand)> {
        self.commands.iter().map(|(&op, command)| (op, command))
    }

    pub(super) fn get(&self, op: OpId) -> Option<&DiskCommand> {
        self.commands.get(&op)
    }

    /// No command that changes the block came before this one.
    pub(super) fn is_first(&self, block: BlockId, op: OpId) -> bool {
        self.of_block.get(&block).and_then(BTreeSet::first).is_none_or(|&first| first >= op)
    }

    pub(super) fn push(&mut self, command: DiskCommand, block_bytes: u32) {
        for block in command.block_ids(block_bytes) {
            self.of_block.entry(block).or_default().insert(command.op);
        }
        self.commands.insert(command.op, command);
    }

    /// It begins, or never will.
    pub(super) fn remove(&mut self, op: OpId, block_bytes: u32) -> Option<DiskCommand> {
        let command = self.commands.remove(&op)?;
        self.woken.remove(&op);
        for block in command.block_ids(block_bytes) {
            if let Some(ops) = self.of_block.get_mut(&block) {
                ops.remove(&op);
                if ops.is_empty() {
                    self.of_block.remove(&block);
                }
            }
            self.wake(block);
        }
        Some(command)
    }

    /// A write to the block, or a read of it, has ended.
    pub(in crate::shard) fn wake(&mut self, block: BlockId) {
        self.woken.extend(self.of_block.get(&block).and_then(BTreeSet::first));
    }

    pub(super) fn wake_all(&mut self) {
        self.woken.extend(self.commands.keys());
    }

    /// The next one to look at, the oldest first.
    pub(super) fn next_woken(&mut self) -> Option<OpId> {
        self.woken.pop_first()
    }
}
