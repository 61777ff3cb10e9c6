//! A notification to make.

use std::ops::Range;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// A notification to make, and the way to the thread that makes it, which comes back with the report.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) token: u64,
    pub(crate) range: Range<u64>,
    /// Not before then.
    pub(crate) start: Instant,
    pub(crate) thread: Sender<Job>,
}
