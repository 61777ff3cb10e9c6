//! A register in small instances: three arbiters, perhaps a fourth that is to take a place, and two or three proposers.
//! Acceptors and proposers are those of `cards-register`, not copies of their rules.
//!
//! | file | noun |
//! |---|---|
//! | `instance.rs` | how large the explored instance is |
//! | `log.rs` | the content of the register: the letters of all proposals that led to it |
//! | `network.rs` | messages in flight: lost, overtaken, late |
//! | `judge.rs` | votes and answers as they happened, and what no run may show |
//! | `state.rs` | all of it together, and what can happen next |
//!
//! Every proposal appends a letter of its own, so the content is its own history: of two values that were chosen, the
//! later one must begin with the earlier one.
//!
//! There are no clocks: a proposer that waits gives up or goes on at any time. The network delivers in any order; a
//! message that is never delivered is a lost one, and a proposer that never goes on is one that has crashed. A store
//! may be lost: its node comes back with a blank store under another ID.
//!
//! Not here: content that several proposals merge, and how a driver finds the first arbiter.

mod instance;
mod judge;
mod log;
mod network;
mod state;

pub use instance::{Instance, Script, Step};
pub use judge::{Judge, Verdict};
pub use log::Log;
pub use network::{Message, Network};
pub use state::{Action, Disk, State};
