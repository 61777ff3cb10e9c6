//! I/O traces: what the processes of a cluster ask of its volumes, in order.
//!
//! A [`Source`] yields [`Request`]s one by one, so that memory does not grow with the length of a trace. It
//! reads a file in one of the public formats, or draws from a [generator](generate). [`open`] takes
//! either, by a file's name or by `gen:NAME`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod request;
mod source;

pub use error::TraceError;
pub use request::{Op, Request};
pub use source::{Progress, Skipped, Source};
