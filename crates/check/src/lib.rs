//! The fault-injecting driver: random faults from one seed, checked against an oracle.
//!
//! One seed draws everything: the cluster, its volumes and policies, the behaviour of network, disks and
//! nodes, and what clients do ([`options`], which also says which faults CARDs claim to survive). A run
//! ([`run`]) has a storm, in which faults happen and safety must hold, and a calm, in which liveness must.
//! [`checkers`] judge it. The same seed gives the same run, byte for byte. [`shrink`] makes a failing run simpler,
//! and [`command`] is the command line of all that.

pub mod checkers;
pub mod command;
mod coordinator;
pub mod efficiency;
pub mod faults;
pub mod history;
mod nodes;
pub mod options;
pub mod overrides;
pub mod rng;
pub mod run;
pub mod seeds;
pub mod shrink;
mod takeovers;
mod workload;

pub use checkers::Observer;
pub use faults::Fault;
pub use options::Options;
pub use run::{Failure, Report};
