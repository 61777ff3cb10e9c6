//! Side-by-side measurements of NBD servers: CARDs, its peers, and the practical floor.
//!
//! A number from another minute or another machine says nothing, so every comparison runs all
//! servers alternately in one process, in random order within a round, and compares medians of the
//! ratios *within* rounds. The server is pinned to one core and the client to another; what a request
//! costs the server is read from the kernel's per-process CPU clock, which is far less noisy than
//! throughput on a shared machine.
//!
//! Two clients drive each server: `fio` with its NBD engine (what users measure, one request per
//! system call), and [`load`], a generator that batches requests so that the server, not the client,
//! is the bottleneck.

pub mod bare;
pub mod compare;
pub mod content;
pub mod coop;
mod error;
pub mod fio;
pub mod idle;
pub mod interrupt;
pub mod lanes;
pub mod load;
pub mod mirror;
pub mod nbd;
pub mod peers;
pub mod proc;
pub mod remote;
pub mod report;
pub mod rng;
pub mod scale;
pub mod sharing;
pub mod simulators;
pub mod size;
pub mod stats;
pub mod stripes;
pub mod suite;
pub mod table1;
pub mod warm;

/// NBD addresses, as everywhere in the project.
pub use cards_wire::nbd::client::{Address, Uri};
pub use error::Error;
