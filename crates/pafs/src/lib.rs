//! PAFS and PACA: cooperative caching without replication, hence without a coherence protocol.
//!
//! After Cortes, Girona and Labarta, *Design Issues of a Cooperative Cache with no Coherence Problems*, IOPADS
//! 1997. The memory of all nodes is cut into *buffers*. Each buffer belongs to one cache server, wherever it
//! lies, and each block to one cache server ([`Owners`]); so a block is cached at most once (PAFS-4) and a server
//! never asks another one for it (PAFS-2). PACA is the same with a single server.
//!
//! - [`CacheServer`]: the blocks and buffers of one server, PG-LRU, delayed writes, hand-over of buffers.
//! - [`Shares`]: how buffers follow the load (repartition server).
//! - [`Lines`], [`ParityServer`]: parity lines over dirty buffers, and what they give back when a node dies.
//!
//! These are decisions only: accesses and completions go in, [`Action`]s come out. There is no clock, no cost and
//! no data in here. What a driver owes:
//!
//! 1. It carries out each action, and reports it where the action says so.
//! 2. Copies into and out of *one buffer* happen in the order in which they were ordered. (So a buffer may be
//!    given away while a copy out of it is still under way.) Disk operations on one block likewise.
//! 3. Messages between two servers arrive once, in the order in which they were sent. Any other is a mistake of the
//!    driver and ends the program.
//!
//! The last demand is what a simulator can keep and a network cannot: there are no repetitions, no epochs and no leases
//! here, and the servers are fixed at the start. So this is no protocol for the daemon.
//!
//! To be used when all nodes are equal, copies between memories are cheap, and many nodes share blocks. Not to be
//! used when most reads of a block repeat on one node: nothing is brought nearer to its user.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod actions;
mod frames;
mod level;
mod lines;
mod owners;
mod parity;
mod partition;
mod partitions;
mod queue;
mod repartition;
mod server;
#[cfg(test)]
mod tests;

pub use actions::{Access, AccessKind, Action, BufferNumber, Found};
pub use frames::Frame;
pub use level::Level;
pub use lines::Lines;
pub use owners::Owners;
pub use parity::{Operand, ParityServer, Restore};
pub use partitions::deal;
pub use repartition::{Load, Repartition, Shares, Transfer};
pub use server::{CacheServer, ServerConfig, ServerStats};
