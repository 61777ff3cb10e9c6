//! Generated workloads: `gen:NAME:key=value,key=value`.
//!
//! A generator draws one [`Request`](crate::Request) after the other, by the order of their times. The stream
//! depends on nothing but the spec: the same spec gives the same stream. Memory grows with the nodes (and, where a
//! workload has state per file, with the files), never with the length.
//!
//! [`Request::compute`](crate::Request::compute) is what a process computes before a request.
//! [`Request::time`](crate::Request::time) adds these up, and the times at which users and jobs are idle: it is when
//! the request is issued if all I/O takes no time. A replay that waits for answers should therefore take it as a
//! lower bound: the second of two scans must not start before its time, however fast the first one was.

mod agenda;
mod boot;
mod charisma;
mod files;
mod model;
mod moment;
mod oltp;
mod parameter;
mod random;
mod registry;
mod scan;
mod spec;
mod sprite;
mod stream;
mod training;
mod webstone;

pub use parameter::{Kind, Parameter};
pub use registry::{Entry, registry};
pub use spec::{PREFIX, SpecError};

use crate::{Source, TraceError};

/// A source that knows how large the volumes must be that it uses.
pub trait Generator: Source {
    /// The size of each volume, counted from 0: no request reaches beyond it.
    fn volume_bytes(&self) -> Vec<u64>;

    /// All volumes together: at least what the requests touch.
    fn footprint_bytes(&self) -> u64 {
        self.volume_bytes().iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }
}

/// Opens the generator that a spec such as `gen:oltp:nodes=8,seed=2` names.
///
/// # Errors
/// There is no such generator or parameter, or a value makes no sense.
pub fn generator(spec: &str) -> Result<Box<dyn Generator>, SpecError> {
    let (entry, values) = spec::parse(spec)?;
    (entry.build)(&values)
}

/// As [`generator`], for those who only want the requests.
///
/// # Errors
/// As [`generator`]; the error names the spec in place of a file.
pub fn open(spec: &str) -> Result<Box<dyn Source>, TraceError> {
    match generator(spec) {
        Ok(generator) => Ok(generator),
        Err(error) => Err(TraceError::Io {
            path: spec.into(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
        }),
    }
}
