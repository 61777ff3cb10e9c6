//! The requests of a trace as a captive cluster can do them: on one disk, in pieces.

use std::collections::BTreeMap;

use cards_sim::Workload;
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

use super::{ReplayError, interrupted};
use crate::error::Error;
use crate::progress;
use crate::signals::Signals;
use crate::verbs::sim::SimError;

/// Bytes of a request at most, where requests are not cut at blocks.
pub(super) const PIECE_MAX: u64 = 4 << 20;
/// The disk's size is a multiple of this.
const DISK_UNIT: u64 = 1 << 20;
/// Requests between two looks at the signals.
const LOOK: u64 = 1 << 13;
const NO_IO: &str = "open, close, flush or send (not replayed)";

/// A trace, and where its volumes lie on the disk.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) workload: Workload,
    /// Bytes of a block.
    pub(super) block: u32,
    nodes: u16,
    /// Requests of the trace at most.
    limit: u64,
    /// No piece reaches over a multiple of this.
    piece: u64,
    /// Where each volume begins.
    bases: BTreeMap<u16, u64>,
    disk_bytes: u64,
    /// Its processes, with their nodes.
    pub(super) processes: BTreeMap<u32, u32>,
    /// Pieces in all.
    pub(super) pieces: u64,
}

impl Load {
    /// Reads the trace once.
    pub(super) fn survey(
        workload: Workload,
        nodes: u16,
        limit: u64,
        piece: u64,
        block: u32,
        signals: &Signals,
    ) -> Result<Self, Error> {
        let mut load = Self {
            workload,
            block,
            nodes,
            limit,
            piece,
            bases: BTreeMap::new(),
            disk_bytes: 0,
            processes: BTreeMap::new(),
            pieces: 0,
        };
        let mut ends: BTreeMap<u16, u64> = BTreeMap::new();
        let mut source = load.open()?;
        let progress = progress::Progress::new("reading");
        while let Some(request) = source.next().map_err(SimError::from)? {
            let end = request.offset.saturating_add(u64::from(request.bytes));
            let known = ends.entry(request.volume).or_default();
            *known = end.max(*known);
            load.pieces += 1;
            load.meet(&request)?;
            if load.pieces.is_multiple_of(LOOK) {
                progress.show(0.0, load.pieces, None, "");
                if interrupted(signals) {
                    return Err(ReplayError::Interrupted.into());
                }
            }
        }
        load.lay_out(&ends)?;
        Ok(load)
    }

    fn meet(&mut self, request: &Request) -> Result<(), ReplayError> {
        let first = *self.processes.entry(request.process).or_insert(request.node);
        if first == request.node {
            return Ok(());
        }
        let (trace, process) = (self.workload.name.clone(), request.process);
        Err(ReplayError::TwoNodes { trace, process, first, second: request.node })
    }

    /// The volumes one after the other. Each begins at a border of pieces, and of stripes of blocks.
    fn lay_out(&mut self, ends: &BTreeMap<u16, u64>) -> Result<(), ReplayError> {
        let trace = || self.workload.name.clone();
        let block = u64::from(self.block);
        if ends.is_empty() {
            return Err(ReplayError::Nothing { trace: trace() });
        }
        let unit = DISK_UNIT.max(u64::from(cards_core::STRIPE_BLOCKS) * block).max(self.piece);
        let mut next: u64 = 0;
        for (&volume, &end) in ends {
            self.bases.insert(volume, next);
            next = next.saturating_add(end.div_ceil(unit).saturating_mul(unit));
        }
        if next / block > u64::from(u32::MAX) {
            return Err(ReplayError::TooLarge { trace: trace(), bytes: next, block });
        }
        self.disk_bytes = next;
        Ok(())
    }

    /// The size of the disk.
    pub(super) const fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// The pieces, in order.
    pub(super) fn open(&self) -> Result<Box<dyn Source>, Error> {
        let inner = self.workload.open(self.nodes).map_err(SimError::from)?;
        Ok(Box::new(Pieces {
            inner,
            left: self.limit,
            piece: self.piece,
            bases: self.bases.clone(),
            rest: None,
            skipped: Skipped::default(),
        }))
    }
}

/// Reads, writes and trims, in pieces, on one disk. While it is not known where volumes lie, they stay where they
/// are.
struct Pieces {
    inner: Box<dyn Source>,
    left: u64,
    piece: u64,
    bases: BTreeMap<u16, u64>,
    /// What has not been handed out of the last request.
    rest: Option<Request>,
    skipped: Skipped,
}

impl Pieces {
    /// The next request with a range.
    fn fetch(&mut self) -> Result<Option<Request>, TraceError> {
        while self.left > 0 {
            let Some(mut request) = self.inner.next()? else { return Ok(None) };
            self.left -= 1;
            if !matches!(request.op, Op::Read | Op::Write | Op::Trim) || request.bytes == 0 {
                self.skipped.count(NO_IO);
                continue;
            }
            if let Some(base) = self.bases.get(&request.volume) {
                request.offset += base;
                request.volume = 0;
            }
            return Ok(Some(request));
        }
        Ok(None)
    }
}

impl Source for Pieces {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let request = match self.rest.take() {
            Some(rest) => rest,
            None => match self.fetch()? {
                Some(request) => request,
                None => return Ok(None),
            },
        };
        let room = self.piece - request.offset % self.piece;
        let bytes = u64::from(request.bytes).min(room) as u32;
        if bytes < request.bytes {
            self.rest = Some(Request {
                offset: request.offset + u64::from(bytes),
                bytes: request.bytes - bytes,
                compute: std::time::Duration::ZERO,
                ..request
            });
        }
        Ok(Some(Request { bytes, ..request }))
    }

    fn progress(&self) -> Progress {
        self.inner.progress()
    }

    /// Those of the trace itself are not among them: whoever reads it is told by `cards trace info`.
    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        self.inner.has_times()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use cards_trace::{Beyond, Options, Spread};

    use super::*;

    fn load(csv: &str, limit: u64, piece: u64) -> Result<Load, Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        let workload = Workload {
            name: file.path().display().to_string(),
            options: Options::default(),
            spread: Spread::AsIs,
            beyond: Beyond::Refuse,
        };
        let load = Load::survey(workload, 3, limit, piece, 4096, &Signals::block());
        // It is opened again.
        file.keep().unwrap();
        load
    }

    fn pieces(load: &Load) -> Vec<(Op, u16, u64, u32)> {
        let mut source = load.open().unwrap();
        let mut pieces = Vec::new();
        while let Some(request) = source.next().unwrap() {
            pieces.push((request.op, request.volume, request.offset, request.bytes));
        }
        std::fs::remove_file(&load.workload.name).unwrap();
        pieces
    }

    const TRACE: &str = "node,process,volume,op,offset,bytes\n\
                         0,1,a,R,4000,5000\n\
                         1,2,b,W,8192,4096\n\
                         1,2,b,F,0,0\n\
                         2,3,a,R,1048570,10\n";

    #[test]
    fn volumes_lie_one_after_the_other_and_requests_are_cut_at_blocks() {
        let load = load(TRACE, u64::MAX, 4096).unwrap();
        assert_eq!((load.disk_bytes(), load.processes.len()), (3 << 20, 3));
        let base = 2 << 20;
        assert_eq!(
            pieces(&load),
            [
                (Op::Read, 0, 4000, 96),
                (Op::Read, 0, 4096, 4096),
                (Op::Read, 0, 8192, 808),
                (Op::Write, 0, base + 8192, 4096),
                (Op::Read, 0, 1_048_570, 6),
                (Op::Read, 0, 1_048_576, 4),
            ]
        );
    }

    #[test]
    fn a_limit_counts_requests_of_the_trace() {
        let load = load(TRACE, 1, PIECE_MAX).unwrap();
        assert_eq!(pieces(&load), [(Op::Read, 0, 4000, 5000)]);
    }

    #[test]
    fn what_cannot_be_replayed_is_named() {
        let none = load("op,offset,bytes\nF,0,0\n", 9, 4096).unwrap_err().to_string();
        assert!(none.contains("no request reads"), "{none}");
    }
}
