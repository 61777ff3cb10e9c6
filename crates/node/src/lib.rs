//! The daemon: sockets, disks and front ends around the core.

mod admin_server;
mod api;
mod arena;
mod attach;
mod audit;
mod clock;
mod credentials;
mod devices;
mod disk_watch;
mod disks;
mod dispatch;
mod error;
mod failures;
mod front;
mod history;
mod identity;
mod inbox;
mod inquiry;
mod journal;
mod keeper;
mod life;
mod limits;
mod lobby;
mod locks;
mod marks;
mod membership;
mod metrics;
mod names;
mod net;
mod node;
mod pins;
mod places;
mod prefault;
mod problems;
mod record;
mod report;
mod rights;
mod sampling;
mod seldom;
mod serve;
mod service_manager;
mod slab;
mod spans;
mod starting;
mod state_dir;
mod thread;
mod traffic;
mod warm;
mod web;

pub use credentials::{read as read_identity, refuses};
pub use error::ServeError;
pub use membership::HomeError;
pub use serve::{Daemon, object_source, serve};

#[cfg(test)]
mod tests;
