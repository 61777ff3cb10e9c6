//! What a client's connection tells.

use std::sync::Arc;
use std::time::Duration;

use cards_admin::{Op, bucket_of};
use cards_core::{Instant, Origin, PgId};

use crate::cell::Cell;
use crate::names::Names;
use crate::probe::Probe;
use crate::samples::Counting;
use crate::slow::Waited;
use crate::ticket::{Mark, Ticket};
use crate::waits::WaitReasons;

/// Where a client's connection tells the steps of its requests. Used by one data thread.
pub struct Tap {
    probe: Arc<Probe>,
    thread: u8,
    volume: PgId,
    /// The client's number in recordings.
    number: u32,
    cell: Arc<Cell>,
    sample: Counting,
}

impl Tap {
    pub(crate) fn new(probe: &Arc<Probe>, thread: u8, volume: PgId, name: &str) -> Self {
        let options = &probe.options;
        Self {
            thread,
            volume,
            number: probe.recorder.next_client(),
            cell: probe.counts.cell(volume, name, thread, options.threads),
            sample: Counting::new(probe.samples.open(volume), options.block.trailing_zeros()),
            probe: Arc::clone(probe),
        }
    }

    /// A request has come that is not refused, for a range: offset and length in bytes.
    #[inline]
    pub fn asked(&self, now: Instant, op: Op, range: (u64, u32)) {
        let Self { probe, thread, .. } = self;
        if matches!(op, Op::Read | Op::Write) {
            self.sample.count(op == Op::Write, range, |block, access, counts| {
                probe.samples.push(*thread, now, block, access, counts);
            });
        }
        probe.recorder.note(*thread, now, self.number, self.volume, op, range);
    }

    /// A block of a read has been had.
    #[inline]
    pub fn block(&self, origin: Origin) {
        self.cell.block(origin);
    }

    /// A read waits for a lock.
    pub fn lock_wait(&self) {
        self.cell.lock_wait();
    }

    /// A limit has had a request wait.
    pub fn throttled(&self, waited: Duration) {
        self.cell.throttled(waited);
    }

    /// A request that had to wait is about to be answered: its ticket, noted if it was slow.
    #[must_use]
    pub fn over(
        &self,
        mut ticket: Ticket,
        now: Instant,
        failed: bool,
        reasons: WaitReasons,
        names: &dyn Names,
    ) -> Ticket {
        if let Some(origin) = reasons.block_origin().filter(|_| ticket.op == Op::Read && !failed) {
            self.cell.waited(origin, ticket.took_ns(now));
        }
        if self.probe.slow.is(ticket.took_ns(now)) {
            self.note_slow(ticket, now, failed, Waited::For(reasons), names);
            ticket.mark = Mark::Noted;
        }
        ticket
    }

    /// Replies leave now.
    #[inline]
    pub fn leaving(&self, now: Instant) -> Leaving<'_> {
        // A time at which no request has come.
        Leaving { tap: self, now, start: Instant(u64::MAX), took: (0, 0) }
    }

    #[cold]
    fn note_slow(&self, ticket: Ticket, now: Instant, failed: bool, waited: Waited, names: &dyn Names) {
        let Probe { slow, counts, .. } = &*self.probe;
        slow.note((names, counts), self.volume, ticket, now, failed, waited);
    }
}

/// Replies that leave together. Requests that had come together are counted together: they took the same time.
pub struct Leaving<'a> {
    tap: &'a Tap,
    now: Instant,
    /// When the last of the requests had come.
    start: Instant,
    /// How long it took, in nanoseconds, and the bucket of that.
    took: (u64, usize),
}

impl Leaving<'_> {
    /// The reply to a request has left.
    #[inline]
    pub fn left(&mut self, ticket: Ticket, names: &dyn Names) {
        let tap = self.tap;
        if ticket.start != self.start {
            let took_ns = ticket.took_ns(self.now);
            (self.start, self.took) = (ticket.start, (took_ns, bucket_of(took_ns)));
        }
        tap.cell.request(ticket.op, self.took, ticket.length, ticket.mark == Mark::Failed);
        if ticket.mark == Mark::Done && tap.probe.slow.is(self.took.0) {
            tap.note_slow(ticket, self.now, false, Waited::Client, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use cards_admin::WaitKind;
    use cards_core::NodeId;

    use super::*;
    use crate::probe::Options;

    const VOLUME: PgId = PgId::plain(NodeId(0), 0);
    const MS: u64 = 1_000_000;

    struct Numbers;

    impl Names for Numbers {
        fn node(&self, node: NodeId) -> String {
            node.0.to_string()
        }

        fn find_node(&self, name: &str) -> Option<NodeId> {
            name.parse().ok().map(NodeId)
        }

        fn volume(&self, volume: PgId) -> String {
            volume.0.to_string()
        }
    }

    fn probe() -> Arc<Probe> {
        Arc::new(Probe::new(Options {
            me: NodeId(0),
            members: 1,
            threads: 1,
            block: 4096,
            cache_blocks: 1,
            slow: Duration::from_millis(100),
            disk_wait: Duration::from_secs(30),
            trace_one_in: 0,
        }))
    }

    fn ticket(start_ms: u64, op: Op, mark: Mark) -> Ticket {
        Ticket { start: Instant(start_ms * MS), offset: 0, length: 512, throttled_ms: 0, op, mark }
    }

    /// However requests come and leave together, each is counted with its own time.
    #[test]
    fn requests_that_leave_together_are_counted_as_if_they_left_alone() {
        let tickets: Vec<Ticket> = (0..200)
            .map(|n| {
                let op = [Op::Read, Op::Write][n % 3 / 2];
                let mark = [Mark::Done, Mark::Noted, Mark::Failed][n % 7 % 3];
                ticket([3, 3, 9, 90][n % 4], op, mark)
            })
            .collect();
        let counted = |at_a_time: usize| {
            let probe = probe();
            let tap = probe.tap(0, VOLUME, "disk");
            for tickets in tickets.chunks(at_a_time) {
                let mut leaving = tap.leaving(Instant(120 * MS));
                tickets.iter().for_each(|ticket| leaving.left(*ticket, &Numbers));
            }
            (probe.io_of(VOLUME).unwrap(), probe.slow_count())
        };
        let (io, slow) = counted(1);
        let all: u64 = io.ops.iter().map(|op| op.latency.count()).sum();
        let slow_ones = tickets.iter().filter(|t| t.mark == Mark::Done && t.start.0 <= 20 * MS).count();
        assert_eq!((all, slow), (200, slow_ones as u64));
        assert_eq!(counted(7), (io.clone(), slow));
        assert_eq!(counted(200), (io, slow));
    }

    #[test]
    fn what_is_asked_is_recorded_and_sampled_and_what_has_no_blocks_is_recorded_only() {
        let probe = probe();
        let tap = probe.tap(0, VOLUME, "disk");
        let session = probe.recorder.begin(Instant(0)).unwrap();
        let all = [Op::Read, Op::Write, Op::Zero, Op::Trim, Op::Flush, Op::Cache, Op::Status, Op::Other];
        all.iter().for_each(|&op| tap.asked(Instant(7), op, (4096, 8192)));
        let recorded = session.take(Instant(8));
        assert_eq!((recorded.demands.len(), recorded.lost), (5, 0));
        assert_eq!(probe.collect_samples((Instant(9), 1_000)), 4, "two blocks read and two written");
        let (sample, _) = probe.sample(VOLUME, usize::MAX, 0);
        let blocks: Vec<u32> = sample.references.iter().map(|reference| reference.block).collect();
        assert_eq!((blocks, probe.samples_lost()), (vec![1, 2, 1, 2], 0));
    }

    #[test]
    fn who_takes_samples_is_woken_once_for_what_came_since() {
        let (probe, woken) = (probe(), Arc::new(AtomicUsize::new(0)));
        let tap = probe.tap(0, VOLUME, "disk");
        let times = Arc::clone(&woken);
        probe.on_sample(move || {
            times.fetch_add(1, Ordering::Relaxed);
        });
        let ask = || tap.asked(Instant(7), Op::Read, (0, 4096));
        ask();
        assert_eq!(woken.load(Ordering::Relaxed), 0, "nothing was taken yet: it is about to be");
        for round in 1..=3 {
            assert_eq!(probe.collect_samples((Instant(9), 1_000)), if round == 1 { 1 } else { 2 });
            ask();
            ask();
            assert_eq!(woken.load(Ordering::Relaxed), round);
        }
    }

    #[test]
    fn a_slow_request_is_noted_once_with_what_it_waited_for() {
        let probe = probe();
        let tap = probe.tap(0, VOLUME, "disk");
        let waited = ticket(0, Op::Read, Mark::Done);
        let waited = tap.over(waited, Instant(150 * MS), false, WaitReasons::default(), &Numbers);
        assert_eq!(waited.mark, Mark::Noted);
        let mut leaving = tap.leaving(Instant(200 * MS));
        leaving.left(waited, &Numbers);
        leaving.left(ticket(0, Op::Read, Mark::Done), &Numbers);
        let slow = probe.slow_requests(&Numbers, (Instant(200 * MS), 0), usize::MAX);
        let kinds: Vec<(WaitKind, &str)> =
            slow.last.iter().map(|slow| (slow.waited_for, &*slow.volume)).collect();
        assert_eq!(kinds, [(WaitKind::Client, "disk"), (WaitKind::Other, "disk")]);
        let reads = probe.io_of(VOLUME).unwrap().op(Op::Read);
        assert_eq!((reads.latency.count(), reads.bytes, reads.errors), (2, 1024, 0));
    }
}
