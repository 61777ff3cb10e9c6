//! A trace that shows how far it has been read, and ends early at Ctrl-C.

use std::process::ExitCode;
use std::time::Duration;

use cards_trace::{Progress as Read, Request, Skipped, Source, TraceError};

use crate::progress::Progress;
use crate::signals::{Arrived, Signals};

/// A source, with what people want to know while it is read.
pub(super) struct Watched {
    source: Box<dyn Source>,
    signals: Signals,
    progress: Progress,
    requests: u64,
    stopped: Option<i32>,
}

/// Requests between two looks.
const LOOK: u64 = 1 << 13;

impl Watched {
    pub(super) fn new(source: Box<dyn Source>, what: &str) -> Self {
        let progress = Progress::new(what);
        Self { source, signals: Signals::block(), progress, requests: 0, stopped: None }
    }

    /// Requests that were read.
    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }

    /// The exit status, if a signal has ended it early.
    pub(super) fn stopped(&self) -> Option<ExitCode> {
        self.stopped.map(|signal| ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)))
    }

    fn look(&mut self) {
        let Read { done, total } = self.source.progress();
        let share = total.filter(|&total| total > 0).map_or(0.0, |total| done as f64 / total as f64);
        self.progress.show(share, self.requests, None, "");
        let signal = self.signals.wait(Duration::ZERO).filter(|signal| Arrived::ends(*signal));
        self.stopped = signal.map(|signal| signal.number);
    }
}

impl Source for Watched {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.stopped.is_some() {
            return Ok(None);
        }
        let next = self.source.next()?;
        self.requests += u64::from(next.is_some());
        if self.requests.is_multiple_of(LOOK) {
            self.look();
        }
        Ok(next)
    }

    fn progress(&self) -> Read {
        self.source.progress()
    }

    fn skipped(&self) -> &Skipped {
        self.source.skipped()
    }

    fn has_times(&self) -> bool {
        self.source.has_times()
    }

    fn started_us(&self) -> Option<u64> {
        self.source.started_us()
    }
}
