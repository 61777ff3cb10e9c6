//! The fail-over of one group with two copies, and of one unit in it: which node orders the writes, and what each copy has. Both nodes
//! run the `Group` of `cards-array`, not a copy of its rules.
//!
//! | file | noun |
//! |---|---|
//! | `instance.rs` | how large the explored instance is |
//! | `medium.rs` | a node's disk |
//! | `judge.rs` | what clients wrote and saw, and what no run may show |
//! | `node.rs` | a node: its clock, its disk, its process |
//! | `state.rs` | all of it together, and what can happen next |
//!
//! Time goes in ticks, four to a lease. A tick moves all clocks, but one of them may stand still: it is slower than the other one.
//! What a node sends arrives at once, unless the link is cut: then it is lost, and some of it may arrive at any later time. A process
//! may end, and may stand still while its clock goes on. The register is one object that takes a map or does not, at any time after it was
//! asked, and perhaps without an answer. Clients write a value each, and repeat it at the other node; anybody reads anywhere.
//!
//! Not here: power that is lost, flushes, columns that are replaced, rot, cards, an order of messages and timers within a tick other
//! than the one that the model has. The tests' world of `cards-array` has all of that, at random.

mod instance;
mod judge;
mod medium;
mod node;
mod state;

pub use instance::{Instance, Make};
pub use judge::{Judge, Verdict};
pub use node::Node;
pub use state::{Action, State};
