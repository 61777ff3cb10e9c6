//! Formats that are not in the order of time.

use super::checked::problem_of;
use super::{Lines, Parse, Parsed, Raw, Records};
use crate::{Op, Progress, TraceError};

/// The most requests that are put in order: 512 MiB of them, and half as much to sort.
const REQUESTS_MAX: usize = 1 << 24;

/// Reads all lines before the first request, and orders them by time; those of the same time stay as they
/// are.
pub(crate) struct Sorted<P> {
    lines: Lines<P>,
    packed: Vec<Packed>,
    /// The next to deliver; none until all are read.
    at: Option<usize>,
    skips: Vec<(&'static str, u64)>,
}

/// A read or write in 32 bytes.
struct Packed {
    time_ns: u64,
    offset: u64,
    bytes: u32,
    process: u32,
    /// Not more than a million of them: the highest bit says whether it is a write.
    node: u32,
    volume: u16,
}

const WRITE: u32 = 1 << 31;

impl<P: Parse> Sorted<P> {
    pub(crate) fn new(lines: Lines<P>) -> Self {
        Self { lines, packed: Vec::new(), at: None, skips: Vec::new() }
    }

    fn load(&mut self) -> Result<(), TraceError> {
        while let Some(parsed) = self.lines.next()? {
            match parsed {
                Parsed::Nothing => {}
                Parsed::Skip(reason) => self.skip(reason),
                Parsed::Request(raw) => {
                    if let Some(problem) = problem_of(&raw) {
                        return Err(self.lines.bad(problem));
                    }
                    if self.packed.len() == REQUESTS_MAX {
                        return Err(self.lines.bad(format!(
                            "more than {REQUESTS_MAX} requests to put in the order of time; \
                             sort the trace and convert it to CSV to read it as a stream"
                        )));
                    }
                    self.packed.push(Packed::new(&raw));
                }
            }
        }
        self.packed.sort_by_key(|packed| packed.time_ns);
        Ok(())
    }

    fn skip(&mut self, reason: &'static str) {
        match self.skips.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.skips.push((reason, 1)),
        }
    }
}

impl Packed {
    fn new(raw: &Raw) -> Self {
        let write = if raw.op == Op::Write { WRITE } else { 0 };
        let Raw { time_ns, offset, process, volume, .. } = *raw;
        Self { time_ns, offset, bytes: raw.bytes as u32, process, node: raw.node | write, volume }
    }

    fn raw(&self) -> Raw {
        let op = if self.node & WRITE == 0 { Op::Read } else { Op::Write };
        let &Self { time_ns, offset, process, volume, .. } = self;
        let node = self.node & !WRITE;
        Raw { time_ns, compute_ns: 0, offset, bytes: u64::from(self.bytes), node, process, volume, op }
    }
}

impl<P: Parse> Records for Sorted<P> {
    fn next(&mut self) -> Result<Option<Parsed>, TraceError> {
        let at = match self.at {
            Some(at) => at,
            None => {
                self.load()?;
                0
            }
        };
        self.at = Some(at);
        if let Some((reason, count)) = self.skips.last_mut() {
            let reason = *reason;
            *count -= 1;
            if *count == 0 {
                self.skips.pop();
            }
            return Ok(Some(Parsed::Skip(reason)));
        }
        self.at = Some(at + 1);
        Ok(self.packed.get(at).map(|packed| Parsed::Request(packed.raw())))
    }

    fn bad(&self, problem: String) -> TraceError {
        self.lines.bad(problem)
    }

    fn empty(&self, skipped: String) -> TraceError {
        self.lines.empty(skipped)
    }

    fn progress(&self) -> Progress {
        self.lines.progress()
    }

    fn has_times(&self) -> bool {
        self.lines.has_times()
    }
}
