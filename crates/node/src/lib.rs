//! The daemon: sockets, disks and front ends around the core.

pub mod admin;
mod admin_server;
mod arena;
mod buffers;
mod cards;
mod clock;
pub mod config;
mod disks;
mod dispatch;
mod front;
mod inbox;
mod local;
mod net;
mod node;
mod prefault;
mod record;
mod report;
mod seldom;
mod serve;
mod slab;
mod traffic;

pub use serve::{Daemon, ServeError, serve};

#[cfg(test)]
mod tests;
