//! The data protocol in its smallest instance: one block and the lock of its region, the cards of two nodes that
//! write and of one that reads, and a primary that may restart, or move to another node that reaches the same
//! medium.
//!
//! | file | noun |
//! |---|---|
//! | `instance.rs` | how large the explored instance is, and a deliberate mistake |
//! | `stamp.rs` | stamps, generations of cards, nodes and the contents of the block |
//! | `message.rs` | messages in flight: lost, overtaken, repeated |
//! | `card.rs` | the card: freshness, lock, parked copy, command in hand |
//! | `primary.rs` | the primary: cards, directory, grace, reply window, repeats |
//! | `write.rs` | the primary's writes: begin, invalidate, apply, reply |
//! | `medium.rs` | the medium: contents, journal, gate, origins |
//! | `judge.rs` | what no run may show |
//! | `state.rs` | all of it together, and what can happen next |
//!
//! The rules, as the files cite them: a card holds the lock that it was granted, and nothing when it attaches. A
//! copy is judged once, when it becomes usable: it must be as of the bound of the block or later. A copy whose lock
//! is gone is parked with the stamp that it is good as of, and judged at the next grant. A write waits until all
//! holders of the block have released their copies. A command enters its sender in the directory, so that a write
//! of another node overtakes a command in doubt, and the sender learns of it.
//!
//! There are no clocks. A lease ends at any time, and the primary drops a card (or ends the grace for a node) only
//! after its lease has ended: that is what clocks within the tolerated rate guarantee. The network delivers in any
//! order; a message that is never delivered is a lost one, so a card sends its command again.
//!
//! Not here: several blocks and regions, copies from peers, FLUSH and the persistence of writes, loss of power,
//! commands that the client has given up, exclusive cards.

mod card;
mod instance;
mod judge;
mod medium;
mod message;
mod primary;
mod stamp;
mod state;
mod write;

pub use card::{Card, Command, Freshness};
pub use instance::{Instance, Mistake};
pub use judge::{Judge, Verdict};
pub use medium::Medium;
pub use message::{Message, Network};
pub use primary::{Primary, Reply, Slot};
pub use stamp::{CommandId, Contents, Generation, NODES, Node, Nodes, Stamp};
pub use state::{Action, State};
pub use write::{OpenWrite, Outcome, QueuedWrite};
