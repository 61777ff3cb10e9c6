//! What happens in a second: differences of counters.

use std::rc::Rc;
use std::time::Duration;

use cards_admin::{Counters, DiskCounters, Status};

use super::demand::IoNow;

/// What a daemon said, and when.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Since `cards top` was started.
    pub(crate) at: Duration,
    pub(crate) status: Rc<Status>,
}

/// What one node counted between two readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    /// How long that was; above zero.
    seconds: f64,
    pub(crate) counted: Counters,
    disks: Vec<(String, DiskCounters)>,
    volumes: Vec<(String, IoNow)>,
}

impl Rates {
    /// None if the daemon was started anew in between: its counters are of another life.
    pub(crate) fn between(before: &Reading, now: &Reading) -> Option<Self> {
        let seconds = seconds_between(before, now)?;
        let restarted = now.status.uptime_s < before.status.uptime_s;
        if restarted || seconds <= 0.0 {
            return None;
        }
        let earlier = |name: &str| before.status.disks.iter().find(|disk| disk.name == name);
        let disks = now.status.disks.iter().filter_map(|disk| {
            Some((disk.name.clone(), difference(&disk.counters, &earlier(&disk.name)?.counters)))
        });
        let counted = now.status.counters.since(&before.status.counters);
        let earlier = |name: &str| before.status.volumes.iter().find(|volume| volume.name == name);
        let volumes = now.status.volumes.iter().filter_map(|volume| {
            let io = volume.io.since(&earlier(&volume.name)?.io);
            Some((volume.name.clone(), IoNow::of(io, seconds)))
        });
        Some(Self { seconds, counted, disks: disks.collect(), volumes: volumes.collect() })
    }

    /// How often a second.
    pub(crate) fn per_second(&self, counter: impl Fn(&Counters) -> u64) -> f64 {
        counter(&self.counted) as f64 / self.seconds
    }

    /// What clients of this node ask of a volume; none if it did not speak of it both times.
    pub(crate) fn volume(&self, name: &str) -> Option<&IoNow> {
        self.volumes.iter().find(|(volume, _)| volume == name).map(|(_, io)| io)
    }

    /// The same of all volumes together.
    pub(crate) fn volumes(&self) -> IoNow {
        self.volumes.iter().fold(IoNow::default(), |sum, (_, io)| sum.plus(io))
    }

    /// The same of the disk `name`; none if this node does not have it.
    pub(crate) fn disk_per_second(&self, name: &str, counter: fn(&DiskCounters) -> u64) -> Option<f64> {
        let (_, counted) = self.disks.iter().find(|(disk, _)| disk == name)?;
        Some(counter(counted) as f64 / self.seconds)
    }

    /// The same of all disks of this node; none if it has none.
    pub(crate) fn disks_per_second(&self, counter: fn(&DiskCounters) -> u64) -> Option<f64> {
        let each = self.disks.iter().map(|(_, counted)| counter(counted) as f64 / self.seconds);
        each.reduce(|a, b| a + b)
    }
}

/// How much later a reading is, by the daemon's own clock: its answer may have been on its way for some time. If that
/// has been set, by ours.
fn seconds_between(before: &Reading, now: &Reading) -> Option<f64> {
    match now.status.time_ms.checked_sub(before.status.time_ms) {
        Some(ms @ 1..) => Some(ms as f64 / 1e3),
        _ => Some(now.at.checked_sub(before.at)?.as_secs_f64()),
    }
}

const fn difference(now: &DiskCounters, before: &DiskCounters) -> DiskCounters {
    DiskCounters {
        reads: now.reads.saturating_sub(before.reads),
        writes: now.writes.saturating_sub(before.writes),
        bytes_read: now.bytes_read.saturating_sub(before.bytes_read),
        bytes_written: now.bytes_written.saturating_sub(before.bytes_written),
    }
}

/// Answered reads, by where they were answered from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) here: u64,
    pub(crate) peers: u64,
    pub(crate) disk: u64,
}

impl From<&Counters> for Answered {
    fn from(counters: &Counters) -> Self {
        Self { here: counters.local_hits, peers: counters.remote_hits, disk: counters.disk_reads }
    }
}

impl Answered {
    /// Of all, a part in percent; none of nothing.
    pub(crate) fn percent(self, part: u64) -> Option<f64> {
        let all = self.here.saturating_add(self.peers).saturating_add(self.disk);
        (all > 0).then(|| 100.0 * part as f64 / all as f64)
    }

    /// The part that the caches spared the disk, in percent.
    pub(crate) fn spared(self) -> Option<f64> {
        self.percent(self.here.saturating_add(self.peers))
    }
}
