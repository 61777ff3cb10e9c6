//! What a node counted in a step.

use cards_admin::{Counters, DiskCounters, Io, Op, OpIo, Status, Volume};

macro_rules! sample {
    ($($counter:ident)*; $($disk:ident = $of_disk:ident)*; $($sum:ident)*; $($now:ident)*; $($most:ident)*) => {
        /// Counters are what was counted in the step; the last ones are values at its end or in its course.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Sample {
            $($counter: u64,)*
            $($disk: u64,)*
            $($sum: u64,)*
            $($now: u64,)*
            $($most: u64,)*
        }

        impl Sample {
            /// The names of its numbers, in the order of [`Sample::values`].
            pub(crate) const FIELDS: &[&str] = &[
                $(stringify!($counter),)* $(stringify!($disk),)* $(stringify!($sum),)* $(stringify!($now),)*
                $(stringify!($most),)*
            ];
            /// Of so many of them, the last ones, several nodes together have the largest, and of the others the sum.
            pub(crate) const MOST: usize = [$(stringify!($most)),*].len();

            fn new(counters: &Counters, disks: &DiskCounters) -> Self {
                Self { $($counter: counters.$counter,)* $($disk: disks.$of_disk,)* ..Self::default() }
            }

            /// What was counted since `before`; values are as they are.
            const fn since(&self, before: &Self) -> Self {
                Self {
                    $($counter: self.$counter.saturating_sub(before.$counter),)*
                    $($disk: self.$disk.saturating_sub(before.$disk),)*
                    $($sum: self.$sum.saturating_sub(before.$sum),)*
                    $($now: self.$now,)*
                    $($most: self.$most,)*
                }
            }

            /// The part `part` of `parts`, from 0, of what was counted; together they are all of it. Values are as they are.
            pub(crate) const fn part(&self, part: u64, parts: u64) -> Self {
                const fn share(counted: u64, part: u64, parts: u64) -> u64 {
                    let each = counted / parts;
                    each + if part < counted % parts { 1 } else { 0 }
                }
                Self {
                    $($counter: share(self.$counter, part, parts),)*
                    $($disk: share(self.$disk, part, parts),)*
                    $($sum: share(self.$sum, part, parts),)*
                    $($now: self.$now,)*
                    $($most: self.$most,)*
                }
            }

            /// Its numbers.
            pub(crate) fn values(&self) -> Vec<u64> {
                vec![
                    $(self.$counter,)* $(self.$disk,)* $(self.$sum,)* $(self.$now,)* $(self.$most,)*
                ]
            }
        }
    };
}

sample! {
    reads local_hits remote_hits disk_reads failed writes bytes_read bytes_written bytes_sent bytes_received
    evictions forwarded stored_for_others invalidations locks_asked locks_given_up lock_waits lock_wait_us;
    disk_bytes_read = bytes_read disk_bytes_written = bytes_written;
    read_requests read_us write_requests write_us;
    cache_used;
    read_p99_us write_p99_us
}

/// What a node has counted since its start.
#[derive(Debug)]
pub(crate) struct Totals {
    sums: Sample,
    io: Io,
}

impl Totals {
    pub(crate) fn of(status: &Status) -> Self {
        let disks = status.disks.iter().fold(DiskCounters::default(), |sum, disk| sum.plus(disk.counters));
        let io = status.volumes.iter().fold(Io::default(), |sum, volume| sum.plus(&volume.io));
        Self::with(status.cache.used, &status.counters, &disks, io)
    }

    /// What clients have asked of one volume: what a node counts for all its volumes together stays zero.
    pub(crate) fn of_volume(volume: &Volume) -> Self {
        let Io { local_hits, remote_hits, disk_reads, lock_waits, .. } = volume.io;
        let counters = Counters {
            reads: local_hits + remote_hits + disk_reads,
            local_hits,
            remote_hits,
            disk_reads,
            lock_waits,
            bytes_read: volume.io.op(Op::Read).bytes,
            bytes_written: volume.io.op(Op::Write).bytes,
            ..Counters::default()
        };
        let used = volume.cached_blocks * u64::from(volume.block);
        Self::with(used, &counters, &DiskCounters::default(), volume.io.clone())
    }

    fn with(cache_used: u64, counters: &Counters, disks: &DiskCounters, io: Io) -> Self {
        let (read, write) = (io.op(Op::Read), io.op(Op::Write));
        let sums = Sample {
            read_requests: read.latency.count(),
            read_us: read.total_us,
            write_requests: write.latency.count(),
            write_us: write.total_us,
            cache_used,
            ..Sample::new(counters, disks)
        };
        Self { sums, io }
    }

    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Sample {
        let io = self.io.since(&before.io);
        let p99 = |of: OpIo| of.latency.quantile(0.99).map_or(0, |p99| p99.as_micros() as u64);
        Sample {
            read_p99_us: p99(io.op(Op::Read)),
            write_p99_us: p99(io.op(Op::Write)),
            ..self.sums.since(&before.sums)
        }
    }
}

#[cfg(test)]
impl Totals {
    /// With so many block reads, and read requests of so many microseconds.
    pub(crate) fn example(reads: u64, requests_us: &[u64]) -> Self {
        let mut io = OpIo { total_us: requests_us.iter().sum(), ..OpIo::none(Op::Read) };
        requests_us.iter().for_each(|us| io.latency.add(cards_admin::bucket_of(us * 1_000), 1));
        let sums = Sample {
            read_requests: io.latency.count(),
            read_us: io.total_us,
            ..Sample::new(&Counters { reads, ..Counters::default() }, &DiskCounters::default())
        };
        Self { sums, io: Io { ops: vec![io], ..Io::default() } }
    }
}
