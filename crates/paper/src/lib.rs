//! Published figures on cooperative caching, single I/O spaces and remote disks, reproduced with the simulator.
//!
//! A [`Study`] says what to simulate ([`Study::combinations`]); with the reports it finds the numbers of each figure,
//! draws them, and judges what the paper says: a statement is a predicate over the numbers. Same version, same findings:
//! the pages in `docs/papers` are written by `cards paper`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cards;
mod chart;
mod figure;
mod pafs;
mod page;
mod plan;
mod rdd;
mod sios;
mod study;

pub use figure::{Cell, Figure, Plot, Statement, Table};
pub use study::{Findings, Paper, Scale, Study};
