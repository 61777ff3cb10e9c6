//! Virtual time, event heap and node pump: what every driver without real I/O shares.
//!
//! A [`World`] runs whole nodes (each one [`cards_core::Control`] and its [`cards_core::Shard`]s) in one
//! thread and in virtual time. It routes messages, does the work of disks, lands payloads in slots, holds
//! and releases pins, fires timers, and starts and kills nodes. It decides nothing: how long anything takes
//! and whether it succeeds is the answer of the [`models`], who is started, killed, paused or cut off is an
//! [`Action`] of the caller's. The same pump therefore serves hostile models (fault injection) and
//! calibrated ones (performance).
//!
//! A node can have volumes as local devices, of which a kernel keeps pages. The pump plays the device and the kernel, too.
//!
//! Bytes are modelled by tags: each block has a few sectors, each sector a `u64` that names the write it
//! came from. Payloads carry tags and patches copy them, so a torn or misdirected block shows.
//!
//! Besides running the cores, the pump asserts what a driver may rely on: no slot is written while somebody
//! else uses it, a pinned slot does not change, no buffer is used after its release, no request is
//! answered twice.
//!
//! Same inputs, same models, same order: two runs are equal event by event. [`Trace`] makes this testable.

mod client;
mod column;
mod device;
mod events;
mod media;
mod memory;
pub mod models;
mod node;
mod trace;
mod world;

pub use client::{Completion, Outcome, Request};
pub use media::{Media, initial_tag};
pub use memory::Tags;
pub use trace::Trace;
pub use world::{
    Action, ColumnEvent, DriverMistake, Loss, MirrorConfig, MirrorCounts, NodeConfig, PageEvent, World,
    WorldConfig,
};
