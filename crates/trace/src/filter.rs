//! A part of a source.

use std::time::Duration;

use crate::{Op, Progress, Request, Skipped, Source, TraceError};

/// What to take of a source. The default takes all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Selection {
    /// At most so many requests (of those that are taken).
    pub limit: Option<u64>,
    /// Only reads; the others are counted as left out.
    pub only_reads: bool,
    /// Times and compute times are multiplied by it: 0.5 makes the load twice as dense. Finite and not
    /// negative.
    pub time_scale: f64,
}

impl Default for Selection {
    fn default() -> Self {
        Self { limit: None, only_reads: false, time_scale: 1.0 }
    }
}

/// Part of a source.
pub struct Filter {
    source: Box<dyn Source>,
    selection: Selection,
    taken: u64,
    skipped: Skipped,
    seen: Skipped,
}

impl Filter {
    /// Takes part of a source.
    ///
    /// # Errors
    /// The scale makes no sense.
    pub fn new(source: Box<dyn Source>, selection: Selection) -> Result<Self, TraceError> {
        if !selection.time_scale.is_finite() || selection.time_scale < 0.0 {
            return Err(TraceError::setting(
                "time scale",
                selection.time_scale,
                "must be 0 or more, and finite",
            ));
        }
        Ok(Self { source, selection, taken: 0, skipped: Skipped::default(), seen: Skipped::default() })
    }

    fn scaled(&self, duration: Duration) -> Duration {
        match self.selection.time_scale {
            1.0 => duration,
            scale => Duration::try_from_secs_f64(duration.as_secs_f64() * scale).unwrap_or(Duration::MAX),
        }
    }
}

impl Source for Filter {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        while self.selection.limit.is_none_or(|limit| self.taken < limit) {
            let next = self.source.next()?;
            self.skipped.follow(self.source.skipped(), &mut self.seen);
            let Some(mut request) = next else { return Ok(None) };
            if self.selection.only_reads && request.op != Op::Read {
                self.skipped.count("not a read");
                continue;
            }
            self.taken += 1;
            request.time = self.scaled(request.time);
            request.compute = self.scaled(request.compute);
            return Ok(Some(request));
        }
        Ok(None)
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        self.source.has_times()
    }

    fn started_us(&self) -> Option<u64> {
        self.source.started_us()
    }
}
