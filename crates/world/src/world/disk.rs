//! Disk operations: they reach the medium half by half, and may outlive the process that began them.

use cards_core::{
    BlockId, CommandKind, ControlMessage, DiskWork, Extent, Input, IoError, NodeId, OpId, Payload, PgId,
};

use super::{DiskOp, Event, Loss, World};
use crate::models::Models;

impl<M: Models> World<M> {
    pub(super) fn disk_start(&mut self, node: NodeId, shard: u16, op: OpId, volume: PgId, work: DiskWork) {
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
        self.events.push(self.now + timing.done, Event::DiskDone { key, result: timing.result });
        let open = timing.halves.map(|after| after.is_some());
        let before = self.media[&volume].written();
        self.disk_ops.insert(key, DiskOp { node, life, shard, op, volume, work, open, before });
    }

    /// Half of the sectors of an operation reach the medium, or leave it for the slot.
    pub(super) fn disk_half(&mut self, key: u64, half: usize) {
        let sector_bytes = self.sector_bytes();
        let Some(op) = self.disk_ops.get_mut(&key) else { return };
        op.open[half] = false;
        let (node, shard, volume, work) = (op.node, op.shard, op.volume, op.work);
        let range = |count: usize| [0..count.div_ceil(2), count.div_ceil(2)..count][half].clone();
        let media = self.media.get_mut(&volume).expect("every volume has a medium");
        let life =
            self.places[usize::from(node.0)].running.as_mut().expect("a dead node has no disk operations");
        let memory = &mut life.shards[usize::from(shard)].memory;
        match work {
            DiskWork::Read { block, slot, .. } => {
                for sector in range(self.config.sectors as usize) {
                    memory.fill_sector(slot, sector, media.read(BlockId::new(volume, block), sector));
                }
            }
            DiskWork::Command { kind, offset, length, payload, .. } => {
                let first = (offset / u64::from(sector_bytes)) as usize;
                let range = range((length / sector_bytes) as usize);
                match (kind, payload) {
                    (CommandKind::Write, Payload::Buffer(buffer)) => {
                        let (first, tags) = (first + range.start, &memory.buffer(buffer)[range]);
                        media.write(first, tags);
                        self.models.wrote(volume, first as u64, tags);
                    }
                    (CommandKind::Write, _) => panic!("a write without a buffer reaches the disk"),
                    (CommandKind::Zero { .. } | CommandKind::Trim, _) => {
                        media.write(first + range.start, &vec![0; range.len()]);
                    }
                    (CommandKind::Flush { .. }, _) => {}
                }
            }
        }
    }

    pub(super) fn disk_done(&mut self, key: u64, result: Result<(), IoError>) {
        let Some(op) = self.disk_ops.remove(&key) else { return };
        debug_assert!(self.lives(op.node, op.life), "a crash ends the disk operations of the node");
        if let DiskWork::Read { slot, .. } = op.work {
            self.shard(op.node, op.shard).memory.filled(slot);
        }
        self.sync(&op, result);
        self.shard_input(op.node, op.shard, Input::DiskDone { op: op.op, result });
    }

    /// What a flush, or a durable write, has made durable.
    fn sync(&mut self, op: &DiskOp, result: Result<(), IoError>) {
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
