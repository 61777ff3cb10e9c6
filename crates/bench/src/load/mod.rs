//! A load generator that is never the bottleneck: one thread, several connections, and all free slots
//! of a connection filled and sent by one `write`, all replies that arrived parsed from one `read`.

mod connection;
mod options;
mod pattern;
mod run;

pub use options::{Access, Mode, Options};
pub use pattern::Pattern;
pub use run::{Outcome, Target, fill, probe, read_all, run};
