//! A captive cluster: real daemons on this machine that live as long as this program.

mod cluster;
mod error;
mod mirror;
mod plan;
mod process;

pub(crate) use cluster::Cluster;
pub(crate) use error::CaptiveError;
pub(crate) use mirror::MirrorPlan;
pub(crate) use plan::{DiskFrom, Plan, is_object};
pub(crate) use process::Daemon;
