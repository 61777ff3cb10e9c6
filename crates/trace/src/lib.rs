//! I/O traces: what the processes of a cluster ask of its volumes, in order.
//!
//! A [`Source`] yields [`Request`]s one by one, so that memory does not grow with the length of a trace. It
//! reads a file in one of the public formats, or draws from a [generator](generate). [`open`] takes either,
//! by a file's name or by `gen:NAME`.
//!
//! Sources are stacked: a [`Filter`] takes part of one, a [`Spread`] deals the requests of one to the nodes
//! of a cluster, a [`Merge`] makes one of several. [`Info`] says what is in one. [`RecordWriter`] writes one
//! to a file.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod detect;
mod error;
mod filter;
mod format;
pub mod generate;
mod info;
mod input;
mod merge;
mod names;
mod number;
mod open;
mod processes;
mod readers;
mod recording;
mod request;
mod source;
mod spread;
mod zstd;

pub use error::TraceError;
pub use filter::{Filter, Selection};
pub use format::{BlkAction, DxtLevel, Format};
pub use info::{Info, Reuse};
pub use merge::{Merge, Shift, Together};
pub use open::{Options, open};
pub use recording::RecordWriter;
pub use request::{Op, Request};
pub use source::{Progress, Skipped, Source};
pub use spread::{Beyond, Spread};
