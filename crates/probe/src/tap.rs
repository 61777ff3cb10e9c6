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
