//! How large the explored instance is.

use cards_register::{Acceptor, AcceptorState, Proposer};

use super::Log;

/// What a proposer does next, once it has read the register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// It proposes the present content and a letter.
    Append(u8),
    /// It changes the arbiters to the stores of these nodes, in two proposals, each with a letter.
    Change([u8; 2], &'static [usize]),
}

/// What a proposer does, in this order. A proposal that was not taken is not repeated.
pub type Script = &'static [Step];

/// Limits of what may happen in a run, and how the machines are made.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Nodes with a store.
    pub nodes: usize,
    /// The first so many of them are the arbiters at first.
    pub arbiters: usize,
    /// The proposers. The first one has read the register already.
    pub scripts: &'static [Script],
    /// How often each proposer prepares, the first one not counting what it has read already.
    pub prepares: &'static [u8],
    /// How often one of the nodes loses its store.
    pub losses: u8,
    /// The node that may lose it.
    pub forgetful: usize,
    /// A reply reaches its proposer with the request that it answers. Far fewer states: requests may still come late.
    pub prompt: bool,
    /// What a store keeps.
    pub disk: Disk,
    /// The second proposer is the first one after a restart, and has taken its number again: a deliberate mistake.
    pub one_id: bool,
    /// An acceptor with this state.
    pub acceptor: fn(AcceptorState<Log>) -> Acceptor<Log>,
    /// The proposer, or the same with a deliberate mistake.
    pub proposer: fn(Proposer<Log>) -> Proposer<Log>,
}

/// How a store treats what it is to keep.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disk {
    /// A vote is durable before it is told.
    Synced,
    /// It is not: a restart takes the last vote back. A deliberate mistake.
    Unsynced,
    /// A store that was lost is made anew under its old ID: a deliberate mistake.
    SameId,
}

impl Instance {
    /// Two proposers with a letter each, three arbiters that stay.
    #[must_use]
    pub fn two_proposers() -> Self {
        Self {
            nodes: 3,
            arbiters: 3,
            scripts: &[&[Step::Append(1)], &[Step::Append(2)]],
            prepares: &[1, 1],
            losses: 0,
            forgetful: 2,
            prompt: true,
            disk: Disk::Synced,
            one_id: false,
            acceptor: Acceptor::new,
            proposer: |proposer| proposer,
        }
    }

    /// One proposer changes an arbiter of three and goes on, while another one that knows the first three appends a letter.
    #[must_use]
    pub fn change() -> Self {
        Self {
            nodes: 4,
            scripts: &[&[Step::Change([1, 2], &[0, 1, 3]), Step::Append(3)], &[Step::Append(4)]],
            prepares: &[0, 1],
            ..Self::two_proposers()
        }
    }
}
