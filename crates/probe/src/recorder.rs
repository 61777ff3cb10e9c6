//! The recorder: what clients ask for, to be replayed or simulated.
//!
//! Each data thread writes into a ring of its own, which one reader empties over the admin socket. Without a
//! recording, a request costs one relaxed load. A full ring loses what comes, and a recording says how much: clients never
//! wait for a reader.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cards_admin::{Demand, DemandKind, Op, Recorded};
use cards_core::{Instant, PgId};

use crate::ring::Ring;

/// Demands of one [`Session::take`].
const TAKE_MAX: usize = 1 << 15;

/// A daemon's recorder.
pub struct Recorder {
    on: AtomicBool,
    /// A session has it.
    taken: AtomicBool,
    /// One for each data thread; made for the first recording.
    rings: OnceLock<Box<[Ring]>>,
    threads: usize,
    members: u16,
    clients: AtomicU32,
}

impl Recorder {
    pub(crate) fn new(threads: usize, members: u16) -> Self {
        Self {
            on: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            rings: OnceLock::new(),
            threads,
            members,
            clients: AtomicU32::new(0),
        }
    }

    /// The number of a volume in recordings: no two of the cluster have the same.
    pub fn number_of(&self, volume: PgId) -> u16 {
        if !volume.is_plain() {
            // From the end: the last disks of the last nodes are not there.
            return u16::MAX.wrapping_sub(volume.0 as u16);
        }
        volume.disk() * self.members + volume.disk_node().0
    }

    /// The number of a new client.
    pub(crate) fn next_client(&self) -> u32 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes a demand, if there is a recording. `thread` is the caller's.
    #[inline]
    pub(crate) fn note(
        &self,
        thread: u8,
        now: Instant,
        client: u32,
        volume: PgId,
        op: Op,
        range: (u64, u32),
    ) {
        if self.on.load(Ordering::Relaxed) {
            self.record(thread, now, client, volume, op, range);
        }
    }

    #[cold]
    fn record(
        &self,
        thread: u8,
        now: Instant,
        client: u32,
        volume: PgId,
        op: Op,
        (offset, bytes): (u64, u32),
    ) {
        let Some(kind) = kind_of_op(op) else { return };
        let Some(ring) = self.rings.get().and_then(|rings| rings.get(usize::from(thread))) else { return };
        let last = u64::from(volume.0) << 8 | kind_code(kind);
        ring.push([now.0, offset, u64::from(client) << 32 | u64::from(bytes), last]);
    }

    /// Begins to record; none if there is a recording already.
    pub fn begin(&self, now: Instant) -> Option<Session<'_>> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        let rings = self.rings.get_or_init(|| (0..self.threads).map(|_| Ring::new()).collect());
        rings.iter().for_each(Ring::clear);
        self.on.store(true, Ordering::Relaxed);
        Some(Session { recorder: self, began: now })
    }
}

/// A recording, until this is dropped.
pub struct Session<'a> {
    recorder: &'a Recorder,
    began: Instant,
}

impl Session<'_> {
    /// What has come since the last time.
    pub fn take(&self, now: Instant) -> Recorded {
        let mut recorded = Recorded { now_ns: now.0.saturating_sub(self.began.0), ..Recorded::default() };
        for ring in self.recorder.rings.get().into_iter().flatten() {
            recorded.more |= ring.take(TAKE_MAX - recorded.demands.len(), |words| {
                recorded.demands.push(self.demand(words));
            });
            recorded.lost += ring.lost();
        }
        recorded
    }

    fn demand(&self, [time, offset, client_and_bytes, volume_and_kind]: [u64; 4]) -> Demand {
        let volume = PgId((volume_and_kind >> 8) as u32);
        Demand {
            time_ns: time.saturating_sub(self.began.0),
            client: (client_and_bytes >> 32) as u32,
            volume: self.recorder.number_of(volume),
            kind: kind_of(volume_and_kind & 0xff),
            offset,
            bytes: client_and_bytes as u32,
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.recorder.on.store(false, Ordering::Relaxed);
        self.recorder.taken.store(false, Ordering::Release);
    }
}

/// What a request is in a recording; none if it is not recorded.
const fn kind_of_op(op: Op) -> Option<DemandKind> {
    match op {
        Op::Read => Some(DemandKind::Read),
        Op::Write | Op::Zero => Some(DemandKind::Write),
        Op::Trim => Some(DemandKind::Trim),
        Op::Flush => Some(DemandKind::Flush),
        Op::Cache | Op::Status | Op::Other => None,
    }
}

const KINDS: [DemandKind; 4] = [DemandKind::Read, DemandKind::Write, DemandKind::Trim, DemandKind::Flush];

const fn kind_code(kind: DemandKind) -> u64 {
    match kind {
        DemandKind::Read => 0,
        DemandKind::Write => 1,
        DemandKind::Trim => 2,
        DemandKind::Flush => 3,
    }
}

fn kind_of(code: u64) -> DemandKind {
    KINDS[(code % KINDS.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use cards_core::NodeId;

    use super::*;
    use crate::ring::ROOM;

    fn note(recorder: &Recorder, thread: u8, time: u64) {
        let volume = PgId::plain(NodeId(2), 5);
        recorder.note(thread, Instant(time), 7, volume, Op::Trim, (1 << 40, u32::MAX));
    }

    #[test]
    fn what_is_noted_is_taken_once() {
        let recorder = Recorder::new(2, 3);
        note(&recorder, 0, 1);
        let session = recorder.begin(Instant(10)).unwrap();
        note(&recorder, 1, 12);
        let want = Demand {
            time_ns: 2,
            client: 7,
            volume: 17,
            kind: DemandKind::Trim,
            offset: 1 << 40,
            bytes: u32::MAX,
        };
        let recorded = session.take(Instant(15));
        assert_eq!(recorded, Recorded { demands: vec![want], more: false, lost: 0, now_ns: 5 });
        assert!(session.take(Instant(16)).demands.is_empty());
        assert!(KINDS.iter().all(|&kind| kind_of(kind_code(kind)) == kind));
    }

    #[test]
    fn a_full_ring_loses_what_comes_and_says_so() {
        let recorder = Recorder::new(1, 1);
        let session = recorder.begin(Instant(0)).unwrap();
        (0..ROOM + 3).for_each(|time| note(&recorder, 0, time));
        let recorded = session.take(Instant(0));
        assert_eq!((recorded.demands.len(), recorded.lost), (ROOM as usize, 3));
        assert!(recorded.demands.iter().zip(0..).all(|(demand, time)| demand.time_ns == time));
        note(&recorder, 0, 9);
        assert_eq!(session.take(Instant(0)).demands.len(), 1);
    }

    #[test]
    fn a_long_list_is_taken_in_parts() {
        let recorder = Recorder::new(2, 1);
        let session = recorder.begin(Instant(0)).unwrap();
        (0..ROOM).for_each(|time| note(&recorder, 0, time));
        note(&recorder, 1, 1);
        let parts: Vec<_> = (0..2).map(|_| session.take(Instant(0))).collect();
        assert!(parts[0].more && !parts[1].more);
        assert_eq!(parts.iter().map(|part| part.demands.len() as u64).sum::<u64>(), ROOM + 1);
    }

    #[test]
    fn one_records_at_a_time_and_nothing_is_left_for_the_next() {
        let recorder = Recorder::new(1, 1);
        let session = recorder.begin(Instant(0)).unwrap();
        assert!(recorder.begin(Instant(0)).is_none());
        note(&recorder, 0, 1);
        drop(session);
        note(&recorder, 0, 2);
        assert!(recorder.begin(Instant(0)).unwrap().take(Instant(0)).demands.is_empty());
    }

    #[test]
    fn a_reader_beside_the_writer_gets_all_in_order() {
        let recorder = Recorder::new(1, 1);
        let session = recorder.begin(Instant(0)).unwrap();
        let mut times = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..100_000).for_each(|time| note(&recorder, 0, time)));
            loop {
                let last = writer.is_finished();
                let recorded = session.take(Instant(0));
                times.extend(recorded.demands.iter().map(|demand| demand.time_ns));
                if last && !recorded.more {
                    assert_eq!(times.len() as u64 + recorded.lost, 100_000);
                    break;
                }
            }
        });
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
