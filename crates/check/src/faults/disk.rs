//! Disks that are slow and fail. An operation reaches the medium in two halves, at different times.

use cards_core::{CommandKind, DiskWork, Duration, Instant, IoError, PgId};
use cards_world::models::{Disk, DiskTiming};

use super::{Fault, Faults, Seen};

/// An operation that takes longer is slow.
const SLOW: Duration = Duration::from_millis(10);

impl Disk for Faults {
    fn start(&mut self, now: Instant, volume: PgId, work: &DiskWork) -> DiskTiming {
        let mut timing = self.operate(now, volume, work);
        if timing.result.is_ok() && self.fails_to_sync(work) {
            timing.result = Err(IoError::SyncFailed);
        }
        let (done, ok) = (now + timing.done, timing.result.is_ok());
        self.seen.push(Seen::Disk { at: now, volume, work: *work, done, ok });
        timing
    }

    fn wrote(&mut self, volume: PgId, first: u64, tags: &[u64]) {
        self.seen.push(Seen::Wrote { volume, first, tags: tags.to_vec() });
    }

    fn survives_power_loss(&mut self, _volume: PgId) -> bool {
        self.loss_rng.chance(500)
    }

    fn finishes_after_crash(&mut self, _volume: PgId) -> bool {
        self.disk_rng.chance(500)
    }
}

impl Faults {
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
        if self.calm || !self.disk_rng.chance(errors) {
            return DiskTiming { halves, done, result: Ok(()) };
        }
        self.count(if read { Fault::ReadError } else { Fault::WriteError });
        self.disk_errors.push((now + done, volume));
        let full =
            matches!(work, DiskWork::Command { kind: CommandKind::Write, .. }) && self.disk_rng.chance(300);
        let error = if full { IoError::NoSpace } else { IoError::Io };
        let rng = &mut self.disk_rng;
        DiskTiming { halves: halves.map(|half| half.filter(|_| rng.chance(400))), done, result: Err(error) }
    }
}
