//! From a workload to a source.

use std::time::Duration;

use super::Generator;
use super::spec::Values;
use crate::{Progress, Request, Skipped, Source, TraceError};

/// What a generator draws: requests in the order of their times.
pub(crate) trait Workload: Send {
    /// The next request; none at the end.
    fn next(&mut self) -> Option<Request>;

    /// How many requests there are, if the workload has an end and knows it.
    fn total(&self) -> Option<u64> {
        None
    }

    /// The size of each volume.
    fn volumes(&self) -> Vec<u64>;
}

/// A workload, cut and scaled as the parameters say that all generators have in common.
pub(crate) struct Stream<W> {
    workload: W,
    done: u64,
    limit: u64,
    /// Factor on all times.
    scale: f64,
    ended: bool,
    skipped: Skipped,
}

impl<W: Workload + 'static> Stream<W> {
    /// Boxed, because that is what the registry keeps.
    pub(crate) fn boxed(workload: W, values: &Values) -> Box<dyn Generator> {
        Box::new(Self {
            workload,
            done: 0,
            limit: values.number("requests"),
            scale: values.real("time"),
            ended: false,
            skipped: Skipped::default(),
        })
    }
}

impl<W: Workload> Source for Stream<W> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ended || self.done >= self.limit {
            return Ok(None);
        }
        let Some(mut request) = self.workload.next() else {
            self.ended = true;
            return Ok(None);
        };
        self.done += 1;
        if self.scale != 1.0 {
            request.time = scaled(request.time, self.scale);
            request.compute = scaled(request.compute, self.scale);
        }
        Ok(Some(request))
    }

    fn progress(&self) -> Progress {
        let total = match self.workload.total() {
            _ if self.ended => self.done,
            Some(total) => total.min(self.limit),
            None => self.limit,
        };
        Progress { done: self.done, total: (total < u64::MAX).then_some(total) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        true
    }
}

impl<W: Workload> Generator for Stream<W> {
    fn volume_bytes(&self) -> Vec<u64> {
        self.workload.volumes()
    }
}

/// Saturates instead of overflowing, as the conversion from a float does.
fn scaled(time: Duration, scale: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * scale) as u64)
}
