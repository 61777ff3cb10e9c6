//! One lock, its home, two clients and the storage behind: leases, grants and fencing tokens, small enough
//! for a model checker to visit every state.
//!
//! What can happen, at any time and any number of times: a message is lost, repeated, delayed or overtaken;
//! the home starts anew; and the first client, the unreliable one, stops between the moment it looks at its
//! lease and the moment it writes, and has a clock that stands still while others go on, though not more than
//! once in three ticks.
//!
//! Nothing counts upwards for ever, so the model is finite without a limit on what happens: leases are what
//! is *left* of them, tokens are ranks among those that anybody still remembers, and of a client's attempts
//! to get the lock only the present one is told from all earlier ones.

mod client;
mod home;
mod state;
mod tokens;
mod wire;

pub use client::{Client, Phase};
pub use home::{Home, Tenure};
pub use state::{Action, State, Store};
pub use wire::{Message, Wire};

/// The client with the slow clock that stops at bad moments.
pub const UNRELIABLE: usize = 0;

/// A rank among tokens; zero is before all.
pub type Token = u8;

/// Which protocol. [`Rules::default`] is the one in `cards-core`; the rest are its mistakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Ticks that a client believes in the lock after it has said something.
    pub lease: u8,
    /// Ticks that the home waits after it has heard something.
    pub term: u8,
    /// Ticks before a home that started anew grants anything.
    pub grace: u8,
    /// The storage checks tokens.
    pub fence: bool,
    /// A grant is good for the attempt that asked for it only.
    pub bound: bool,
    /// The unreliable client's clock may stand still.
    pub stands: bool,
    /// Messages to and from the other client arrive at once.
    pub steady: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { lease: 2, term: 3, grace: 3, fence: true, bound: true, stands: true, steady: true }
    }
}
