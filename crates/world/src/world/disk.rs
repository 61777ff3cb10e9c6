//! Disk operations: they reach the medium half by half, and may outlive the process that began them.

use std::ops::Range;

use cards_core::{
    BlockId, CommandKind, ControlMessage, DiskWork, Extent, Input, IoError, NodeId, OpId, Payload, PgId,
};

use super::{DiskOp, Event, Loss, World};
use crate::memory::Tags;
use crate::models::{Lie, Models};

/// One half of so many sectors.
fn half_of(count: usize, half: usize) -> Range<usize> {
    [0..count.div_ceil(2), count.div_ceil(2)..count][half].clone()
}

impl<M: Models> World<M> {
    pub(super) fn disk_start(&mut self, node: NodeId, shard: u16, op: OpId, volume: PgId, work: DiskWork) {
        if self.is_mirror(volume) {
            return self.group_start(node, shard, op, volume, work);
        }
        assert_eq!(self.primary(volume), node, "{node:?} is not the primary of {volume:?}");
        if let DiskWork::Read { slot, .. } = work {
            self.shard(node, shard).memory.fill(slot);
        }
        let timing = self.models.start(self.now, volume, &work);
        self.last_disk_op += 1;
        let (key, life) = (self.last_disk_op, self.place(node).life);
        for (half, after) in timing.halves.iter().enumerate() {
            if let Some(after) = *after {
                self.events.push(self.now + after, Event::DiskHalf { key, half });
            }
        }
        self.events.push(self.now + timing.done, Event::DiskDone { key });
        let open = timing.halves.map(|after| after.is_some());
        let before = self.media[&volume].written();
        let (began, result, lie) = (self.now, timing.result, timing.lie);
        self.disk_ops
            .insert(key, DiskOp { node, life, shard, op, volume, work, began, open, result, before, lie });
    }

    /// Half of the sectors of an operation reach the medium, or leave it for the slot.
    pub(super) fn disk_half(&mut self, key: u64, half: usize) {
        let Some(op) = self.disk_ops.get_mut(&key) else { return };
        op.open[half] = false;
        let (node, shard, volume, work, lie) = (op.node, op.shard, op.volume, op.work, op.lie);
        if let DiskWork::Read { block, slot, .. } = work {
            let sectors = self.config.sectors as usize;
            let media = &self.media[&volume];
            let from = if let Some(Lie::Elsewhere(other)) = lie { other } else { block };
            let read = |sector: usize| match media.initial(BlockId::new(volume, block), sector) {
                0 => 0, // beyond the end
                initial if lie == Some(Lie::Old) => initial,
                _ => media.read(BlockId::new(volume, from), sector),
            };
            let tags: Vec<(usize, u64)> =
                half_of(sectors, half).map(|sector| (sector, read(sector))).collect();
            let memory = &mut self.shard(node, shard).memory;
            tags.into_iter().for_each(|(sector, tag)| memory.fill_sector(slot, sector, tag));
            return;
        }
        let Some((first, tags)) = self.change(key, half) else { return };
        let media = self.media.get_mut(&volume).expect("every volume has a medium");
        match lie {
            Some(Lie::Lost) => {}
            Some(Lie::Elsewhere(block)) => media.write((block * self.config.sectors) as usize, &tags),
            _ => {
                media.write(first, &tags);
                if matches!(work, DiskWork::Command { kind: CommandKind::Write, .. }) {
                    self.models.wrote(volume, first as u64, &tags);
                }
            }
        }
    }

    /// What half of a command does to the medium, from which sector on.
    pub(super) fn change(&self, key: u64, half: usize) -> Option<(usize, Tags)> {
        let op = &self.disk_ops[&key];
        let DiskWork::Command { kind, offset, length, payload, .. } = op.work else { return None };
        let sector_bytes = self.sector_bytes();
        let range = half_of((length / sector_bytes) as usize, half);
        let first = (offset / u64::from(sector_bytes)) as usize + range.start;
        let tags = match (kind, payload) {
            (CommandKind::Write, Payload::Buffer(buffer)) => {
                let life = self.place(op.node).running.as_ref().expect("a dead node has no disk operations");
                life.shards[usize::from(op.shard)].memory.buffer(buffer)[range].to_vec()
            }
            (CommandKind::Write, _) => panic!("a write without a buffer reaches the disk"),
            (CommandKind::Zero { .. } | CommandKind::Trim, _) => vec![0; range.len()],
            (CommandKind::Flush { .. }, _) => return None,
        };
        Some((first, tags))
    }

    /// Half of a write reaches the medium after the process that wrote it has died.
    pub(super) fn lands(&mut self, volume: PgId, first: usize, tags: &[u64]) {
        trace!(self, "{volume:?}: sectors from {first} on of an earlier life are on the disk now");
        self.media.get_mut(&volume).expect("every volume has a medium").write(first, tags);
    }

    pub(super) fn disk_done(&mut self, key: u64) {
        let Some(op) = self.disk_ops.remove(&key) else { return };
        debug_assert!(self.lives(op.node, op.life), "a crash ends the disk operations of the node");
        if let DiskWork::Read { slot, .. } = op.work {
            self.shard(op.node, op.shard).memory.filled(slot);
        }
        let result = op.result;
        self.sync(&op, result);
        self.shard_input(op.node, op.shard, Input::DiskDone { op: op.op, result });
    }

    /// What a flush, or a durable write, has made durable.
    pub(super) fn sync(&mut self, op: &DiskOp, result: Result<(), IoError>) {
        let DiskWork::Command { kind, offset, length, fua, .. } = op.work else { return };
        let sector_bytes = self.sector_bytes();
        let media = self.media.get_mut(&op.volume).expect("every volume has a medium");
        let written = media.written();
        match result {
            Ok(()) if kind.is_flush() => media.synced(None, op.before),
            Ok(()) if fua => {
                let first = (offset / u64::from(sector_bytes)) as usize;
                media.synced(Some(first..first + (length / sector_bytes) as usize), written);
            }
            Err(IoError::SyncFailed) => {
                media.sync_failed(if kind.is_flush() { op.before } else { written });
                self.losses.push_back(Loss { volume: op.volume, changed: Vec::new() });
            }
            _ => {}
        }
    }

    /// Runs of sectors that are all zero, or not.
    pub(super) fn extents(&self, volume: PgId, offset: u64, length: u32) -> Vec<Extent> {
        let sector_bytes = self.sector_bytes();
        let first = (offset / u64::from(sector_bytes)) as usize;
        if self.is_mirror(volume) {
            // What is no hole, its group does not know.
            return vec![Extent { length, hole: false }];
        }
        let mut extents: Vec<Extent> = Vec::new();
        for tag in self.media[&volume].range(first, (length / sector_bytes) as usize) {
            match extents.last_mut() {
                Some(last) if last.hole == (tag == 0) => last.length += sector_bytes,
                _ => extents.push(Extent { length: sector_bytes, hole: tag == 0 }),
            }
        }
        extents.truncate(ControlMessage::MAX_EXTENTS);
        extents
    }
}
