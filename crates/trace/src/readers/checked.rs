//! What holds for the requests of all files.

use std::time::Duration;

use super::{Parsed, Raw};
use crate::{Op, Progress, Request, Skipped, Source, TraceError};

/// Where raw requests come from.
pub(crate) trait Records: Send {
    /// The next; none at the end. Never [`Parsed::Nothing`].
    fn next(&mut self) -> Result<Option<Parsed>, TraceError>;

    /// An error at the line or record that came last.
    fn bad(&self, problem: String) -> TraceError;

    /// The error if there was no request.
    fn empty(&self, skipped: String) -> TraceError;

    fn progress(&self) -> Progress;

    fn has_times(&self) -> bool;

    fn started_us(&self) -> Option<u64> {
        None
    }
}

/// The end of the largest volume: 2^32 blocks of 4 KiB. A request beyond is a sign of a wrong format or
/// column.
pub(crate) const OFFSET_MAX: u64 = 1 << 44;
/// A trim may be larger than [`Request::bytes`] holds (a whole device): it becomes several of this size.
const TRIM_BYTES_MAX: u64 = 1 << 30;

/// The most nodes of a trace.
pub(crate) const NODES_MAX: u32 = 1_000_000;

const ZERO_SIZE: &str = "zero size";
const TIME_BACK: &str = "time goes back (set to the latest before it)";

/// Requests whose times start at zero and never go back, that have a size and lie within a volume.
pub(crate) struct Checked<R> {
    records: R,
    skipped: Skipped,
    /// What the times of the file are counted from.
    origin_ns: Option<u64>,
    latest_ns: u64,
    /// What is still to come of a large trim.
    rest: Option<Raw>,
    yielded: bool,
    ended: bool,
}

impl<R: Records> Checked<R> {
    pub(crate) fn new(records: R) -> Self {
        // A file that tells when it was started counts its times from there.
        let origin_ns = records.started_us().map(|_| 0);
        let skipped = Skipped::default();
        Self { records, skipped, origin_ns, latest_ns: 0, rest: None, yielded: false, ended: false }
    }

    fn advance(&mut self) -> Result<Option<Request>, TraceError> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(self.piece(rest)));
        }
        loop {
            let mut raw = match self.records.next()? {
                None if self.yielded => return Ok(None),
                None => return Err(self.records.empty(self.skipped.to_string())),
                Some(Parsed::Nothing) => continue,
                Some(Parsed::Skip(reason)) => {
                    self.skipped.count(reason);
                    continue;
                }
                Some(Parsed::Request(raw)) => raw,
            };
            if let Some(problem) = problem_of(&raw) {
                return Err(self.records.bad(problem));
            }
            let ranged = raw.op.is_data() || raw.op == Op::Trim;
            if ranged && raw.bytes == 0 {
                self.skipped.count(ZERO_SIZE);
                continue;
            }
            let origin = *self.origin_ns.get_or_insert(raw.time_ns);
            if raw.time_ns < origin.max(self.latest_ns) {
                self.skipped.count(TIME_BACK);
                raw.time_ns = self.latest_ns.max(origin);
            }
            self.latest_ns = raw.time_ns;
            self.yielded = true;
            return Ok(Some(self.piece(raw)));
        }
    }

    /// The request, or its first part if it is too large for one.
    fn piece(&mut self, mut raw: Raw) -> Request {
        if raw.op == Op::Trim && raw.bytes > TRIM_BYTES_MAX {
            self.rest = Some(Raw {
                compute_ns: 0,
                offset: raw.offset + TRIM_BYTES_MAX,
                bytes: raw.bytes - TRIM_BYTES_MAX,
                ..raw
            });
            raw.bytes = TRIM_BYTES_MAX;
        }
        Request {
            time: Duration::from_nanos(raw.time_ns - self.origin_ns.unwrap_or(0)),
            compute: Duration::from_nanos(raw.compute_ns),
            process: raw.process,
            node: raw.node,
            volume: raw.volume,
            op: raw.op,
            offset: raw.offset,
            // Checked to fit.
            bytes: raw.bytes as u32,
        }
    }
}

/// What is wrong with a request whatever the format.
pub(crate) fn problem_of(raw: &Raw) -> Option<String> {
    let Raw { offset, bytes, node, .. } = *raw;
    if node >= NODES_MAX {
        return Some(format!("the node {node}; nodes are numbered from 0 to {}", NODES_MAX - 1));
    }
    if bytes > u64::from(u32::MAX) && raw.op != Op::Trim {
        return Some(format!("a request of {bytes} bytes; at most {} can be", u32::MAX));
    }
    if offset.checked_add(bytes).is_none_or(|end| end > OFFSET_MAX) {
        return Some(format!(
            "the range of {bytes} bytes at {offset} ends beyond 16 TiB; is it the right format, column and block size?"
        ));
    }
    None
}

impl<R: Records> Source for Checked<R> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let next = self.advance();
        self.ended = !matches!(next, Ok(Some(_)));
        next
    }

    fn progress(&self) -> Progress {
        self.records.progress()
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        self.records.has_times()
    }

    fn started_us(&self) -> Option<u64> {
        self.records.started_us()
    }
}
