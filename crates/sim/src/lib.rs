//! The performance simulator: what a cluster of any size would do with a trace.
//!
//! A discrete-event driver of the same [`cards_core::Shard`] that the daemon runs. A [`Machine`] says how fast
//! memories, links, disks and CPUs are; a [`model::Model`] keeps their queues; an [`engine::Engine`] is the
//! system under study (the production core with one of its policies, or a comparator that needs more than a
//! node has); [`run`] feeds it a trace and returns a [`Report`].
//!
//! Same trace, same [`Setup`], same result: the simulator draws nothing at random but from the seed, and
//! ties in time are broken by the order in which events were scheduled.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod elevator;
pub mod engine;
pub mod equations;
mod kernel;
mod machine;
pub mod model;
pub mod plot;
mod processes;
mod report;
mod run;
mod setup;
mod study;
mod workload;

pub use engine::{Array, Attachment, Delivery, Ethernet, Heads, RemoteDisk};
pub use kernel::{Io, IoToken, Kernel};
pub use machine::{Disk, Figure, Library, Machine, MachineError};
pub use plot::Plot;
pub use report::Report;
pub use run::{Interrupt, Pace, RunError, run, run_from};
pub use setup::{Setup, SetupError, Timing, WarmUp};
pub use study::{Combination, Done, Watch, run_all, survey_all};
pub use workload::{Survey, Workload};
