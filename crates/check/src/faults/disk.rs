//! Disks that are slow and fail. An operation reaches the medium in two halves, at different times.

use std::ops::Range;

use cards_core::{CommandKind, DiskWork, Duration, Instant, IoError, PgId};
use cards_world::models::{Disk, DiskTiming, Lie};

use super::{Fault, Faults, Seen};
use crate::options::LieOptions;

/// An operation that takes longer is slow.
const SLOW: Duration = Duration::from_millis(10);

impl Disk for Faults {
    fn start(&mut self, now: Instant, volume: PgId, work: &DiskWork) -> DiskTiming {
        let mut timing = self.operate(now, volume, work);
        if timing.result.is_ok() && self.fails_to_sync(work) {
            timing.result = Err(IoError::SyncFailed);
        }
        if timing.result.is_ok() {
            timing.lie = self.lie(volume, work);
        }
        let (done, ok) = (now + timing.done, timing.result.is_ok());
        self.seen.push(Seen::Disk { at: now, volume, work: *work, done, ok });
        timing
    }

    fn wrote(&mut self, volume: PgId, first: u64, tags: &[u64]) {
        self.seen.push(Seen::Wrote { volume, first, tags: tags.to_vec() });
    }

    fn ended(&mut self, began: Instant, now: Instant, volume: PgId, work: &DiskWork) {
        self.seen.push(Seen::Ended { began, at: now, volume, work: *work });
    }

    fn survives_power_loss(&mut self, _volume: PgId) -> bool {
        self.loss_rng.chance(500)
    }

    fn lands_late(&mut self, volume: PgId, sectors: Range<u64>) -> Option<Duration> {
        let late = self.options.lies.late;
        if late == 0 || self.calm || sectors.is_empty() || !self.lie_rng.chance(late) {
            return None;
        }
        self.count(Fault::LateWrite);
        self.doubt(volume, sectors);
        Some(self.lie_rng.skewed(self.options.nodes.downtime * 3))
    }

    fn finishes_after_crash(&mut self, _volume: PgId) -> bool {
        self.disk_rng.chance(500)
    }
}

impl Faults {
    /// From now on nothing is promised of the blocks that these sectors are in.
    fn doubt(&mut self, volume: PgId, sectors: Range<u64>) {
        let per_block = u64::from(self.options.world.sectors);
        let blocks = sectors.start / per_block..sectors.end.div_ceil(per_block);
        self.seen.push(Seen::Doubtful { volume, blocks });
    }

    /// What the disk does in place of an operation that it says has succeeded.
    fn lie(&mut self, volume: PgId, work: &DiskWork) -> Option<Lie> {
        let LieOptions { lost, elsewhere, old, .. } = self.options.lies;
        if self.calm || lost + elsewhere + old == 0 {
            return None;
        }
        let spec = self.options.world.volumes.iter().find(|spec| spec.id == volume)?.clone();
        let per_block = u64::from(self.options.world.sectors);
        let sector_bytes = u64::from(spec.block_bytes) / per_block;
        let (sectors, lie) = match *work {
            DiskWork::Read { block, .. } => {
                let lie = if self.lie_rng.chance(old) { Some(Lie::Old) } else { None };
                (u64::from(block) * per_block..u64::from(block + 1) * per_block, lie)
            }
            DiskWork::Command { length: 0, .. } => return None,
            DiskWork::Command { offset, length, .. } => {
                let lie = if self.lie_rng.chance(lost) { Some(Lie::Lost) } else { None };
                (offset / sector_bytes..(offset + u64::from(length)) / sector_bytes, lie)
            }
        };
        let is_read = matches!(work, DiskWork::Read { .. });
        let lie = if lie.is_none() && self.lie_rng.chance(elsewhere) {
            let other = self.options.spot(self.lie_rng.below(u64::from(self.options.spots(&spec))) as u32);
            let first = u64::from(other) * per_block;
            if !is_read {
                self.doubt(volume, first..first + (sectors.end - sectors.start));
            }
            Lie::Elsewhere(other)
        } else {
            lie?
        };
        self.count(match lie {
            Lie::Lost => Fault::LostWrite,
            Lie::Elsewhere(_) => Fault::Misdirected,
            Lie::Old => Fault::OldRead,
        });
        self.doubt(volume, sectors);
        Some(lie)
    }

    /// Whether a disk has no room: once that is so, for a while.
    fn is_full(&mut self, now: Instant, volume: PgId, work: &DiskWork) -> bool {
        let fills = self.options.disk.fills;
        if fills == 0 || self.calm || !matches!(work, DiskWork::Command { length: 1.., .. }) {
            return false;
        }
        if self.full_until.get(&volume).is_none_or(|&until| until <= now) && self.lie_rng.chance(fills) {
            self.count(Fault::FullDisk);
            let time = Duration::from_millis(self.lie_rng.range(20, 1_000));
            self.full_until.insert(volume, now + time);
        }
        self.full_until.get(&volume).is_some_and(|&until| now < until)
    }

    fn fails_to_sync(&mut self, work: &DiskWork) -> bool {
        let errors = self.options.losses.failed_syncs;
        let syncs = matches!(work, DiskWork::Command { kind, fua, .. } if *fua || kind.is_flush());
        let fails = syncs && errors > 0 && !self.calm && self.loss_rng.chance(errors);
        if fails {
            self.count(Fault::FailedSync);
        }
        fails
    }

    fn operate(&mut self, now: Instant, volume: PgId, work: &DiskWork) -> DiskTiming {
        let options = &self.options.disk;
        let read = matches!(work, DiskWork::Read { .. });
        let errors = if read { options.read_errors } else { options.write_errors };
        let rng = &mut self.disk_rng;
        let done = options.latency_min + rng.skewed(options.latency_spread);
        let mut half = || Some(done * rng.below(1001) as u32 / 1000);
        let halves = [half(), half()];
        if read {
            *self.disk_reads.entry(volume).or_default() += 1;
        }
        if done > SLOW && !self.calm {
            self.count(Fault::SlowDisk);
        }
        if self.is_full(now, volume, work) {
            self.disk_errors.push((now + done, volume));
            return DiskTiming { halves: [None; 2], done, result: Err(IoError::NoSpace), lie: None };
        }
        if self.calm || !self.disk_rng.chance(errors) {
            return DiskTiming { halves, done, result: Ok(()), lie: None };
        }
        self.count(if read { Fault::ReadError } else { Fault::WriteError });
        self.disk_errors.push((now + done, volume));
        let full =
            matches!(work, DiskWork::Command { kind: CommandKind::Write, .. }) && self.disk_rng.chance(300);
        let error = if full { IoError::NoSpace } else { IoError::Io };
        let rng = &mut self.disk_rng;
        let halves = halves.map(|half| half.filter(|_| rng.chance(400)));
        DiskTiming { halves, done, result: Err(error), lie: None }
    }
}
