//! All that is seen of requests, for one daemon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cards_admin::{Io, Mark, SlowRequests};
use cards_advise::{Rate, Sample};
use cards_core::{CommandKind, DiskWork, Instant, Message, NodeId, OpId, Output, PgId};

use crate::counts::Counts;
use crate::names::Names;
use crate::recorder::Recorder;
use crate::samples::Samples;
use crate::slow::Slow;
use crate::spans::Spans;
use crate::step::{self, Step};
use crate::tap::Tap;
use crate::times::ReadTimes;

/// What a probe has to know of its daemon.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// This node.
    pub me: NodeId,
    /// All numbers of nodes there are.
    pub members: u16,
    /// Data threads.
    pub threads: usize,
    /// Bytes of a block, a power of two.
    pub block: usize,
    /// Blocks that the cache has room for.
    pub cache_blocks: u64,
    /// Requests are noted as slow from this time on; none if it is zero.
    pub slow: Duration,
    /// Requests fail after this time if a disk does not answer.
    pub disk_wait: Duration,
    /// One request in so many is traced; zero if none is.
    pub trace_one_in: u32,
}

/// The probe of a daemon.
pub struct Probe {
    pub(crate) options: Options,
    pub(crate) counts: Counts,
    pub(crate) slow: Slow,
    /// All that clients ask for.
    pub recorder: Recorder,
    pub(crate) samples: Samples,
    /// What happened to traced requests.
    pub spans: Spans,
}

impl Probe {
    /// A probe that has seen nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            counts: Counts::default(),
            slow: Slow::new(options.me, options.slow, options.disk_wait),
            recorder: Recorder::new(options.threads, options.members),
            samples: Samples::new(options.threads, options.cache_blocks),
            spans: Spans::new(options.me, options.trace_one_in),
        }
    }

    /// For a new client of a volume, served by a data thread.
    #[must_use]
    pub fn tap(self: &Arc<Self>, thread: u8, volume: PgId, name: &str) -> Tap {
        Tap::new(self, thread, volume, name)
    }

    /// A message leaves.
    #[inline]
    pub fn sent(&self, to: NodeId, message: &Message, now: impl FnOnce() -> Instant) {
        if self.spans.is_on() {
            self.spans.note(Step::sent(self.at(), to, message), now);
        }
    }

    /// A message has arrived.
    #[inline]
    pub fn arrived(&self, from: NodeId, message: &Message, now: Instant) {
        if self.spans.is_on() {
            self.spans.note(Step::arrived(self.at(), from, message), || now);
        }
    }

    /// A client of this node has to wait until this is done, for a command or for a block.
    #[inline]
    pub fn wanted(
        &self,
        shard: u16,
        command: Option<CommandKind>,
        output: &Output,
        now: impl FnOnce() -> Instant,
    ) {
        if self.spans.is_on() {
            self.spans.note(Step::wanted(self.at(), shard, command, output), now);
        }
    }

    /// The disk is about to be asked.
    #[inline]
    pub fn disk_asked(
        &self,
        shard: u16,
        op: OpId,
        volume: PgId,
        work: &DiskWork,
        now: impl FnOnce() -> Instant,
    ) {
        if self.spans.is_on() {
            self.spans.note(Some(Step::disk_asked(self.at(), shard, op, volume, work)), now);
        }
    }

    /// The disk has answered.
    #[inline]
    pub fn disk_done(&self, shard: u16, op: OpId, failed: bool, now: Instant) {
        if self.spans.is_on() {
            self.spans.note(Some(Step::DiskDone { shard, op, failed }), || now);
        }
    }

    const fn at(&self) -> step::At {
        step::At { me: self.options.me, block: self.options.block as u64 }
    }

    /// What clients have asked of volumes, by their names. A disk that moved to another node is another volume of the
    /// same name.
    #[must_use]
    pub fn io(&self) -> BTreeMap<String, Io> {
        self.counts.io()
    }

    /// What clients have asked of a volume; nothing if none has used it.
    #[must_use]
    pub fn io_of(&self, volume: PgId) -> Option<Io> {
        self.counts.io_of(volume)
    }

    /// Slow requests, at most so many of each kind. `at`: now, and in microseconds since 1970 (UTC).
    pub fn slow_requests(&self, names: &dyn Names, at: (Instant, u64), most: usize) -> SlowRequests {
        self.slow.show((names, &self.counts), at, most)
    }

    /// How many slow requests there were.
    pub fn slow_count(&self) -> u64 {
        self.slow.count()
    }

    /// Calls `wake`, on the thread of the client, at the first reference to a sample after each [`Self::collect_samples`].
    pub fn on_sample(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.samples.on_reference(wake);
    }

    /// Takes the references that are in the threads' rings into the samples; says how many. `at`: as above. To be called
    /// several times a second while clients ask for much, whenever a sample is wanted, and once at the start.
    pub fn collect_samples(&self, at: (Instant, u64)) -> usize {
        self.samples.collect(&self.counts, at)
    }

    /// The sample of a volume, at most `most` references and blocks before them, and what was measured in its time, up to now, in
    /// microseconds since 1970 (UTC); an empty one of a volume that no client has used.
    pub fn sample(&self, volume: PgId, most: usize, utc_us: u64) -> (Sample, Vec<Mark>) {
        self.samples.of(&self.counts, volume, most, utc_us)
    }

    /// What clients have asked for since a time, in microseconds since 1970 (UTC): references to blocks of a rate, at most `most` of them, the
    /// last ones.
    pub fn references_since(&self, volume: PgId, since_us: u64, rate: Rate, most: usize) -> Sample {
        self.samples.since(volume, since_us, rate, most)
    }

    /// How long reads of a volume by clients of this node took.
    #[must_use]
    pub fn read_times(&self, volume: PgId) -> ReadTimes {
        self.counts.read_times(volume)
    }

    /// References to samples that found no room in a ring.
    pub fn samples_lost(&self) -> u64 {
        self.samples.lost()
    }
}
