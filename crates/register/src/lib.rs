//! A register: one value that is read and replaced by compare-and-set, kept by several arbiters, of which any majority is
//! enough (CASPaxos, Rystsov, [arXiv 1802.07000](https://arxiv.org/abs/1802.07000)).
//!
//! | file | noun |
//! |---|---|
//! | `ballot` | the numbers that order proposals |
//! | `arbiters` | the set of stores that keep the register, and its majorities |
//! | `value` | what the register holds, and the values that may follow |
//! | `message` | requests to arbiters and their replies |
//! | `acceptor` | an arbiter's part: promises and votes |
//! | `leader` | how long a proposer may act without asking the register |
//! | `arbiter` | an acceptor that keeps to a leader for a while |
//! | `choice` | which nodes are to be the arbiters |
//! | `replica` | one node's part of a register that has a leader: arbiter, and leader when there is none |
//! | `proposer` | reads, proposes, and finds out what became of a proposal |
//!
//! **How it works.** A proposer first *prepares* a ballot: each acceptor promises to accept nothing below, and tells the
//! value it has accepted last. The value with the highest ballot is the one to go on from. It is *chosen* when a quorum
//! has accepted it at one ballot; if the replies do not show that, the proposer has it accepted at its own ballot first.
//! Then it may propose a successor. A proposer that was the last to succeed needs no further preparation: its next
//! proposal is one round trip, at the next *step* of its ballot, of which no other proposer has any.
//!
//! **Whom to ask** is in the value itself. The quorum of a value is a majority of its arbiters, and while these change, a
//! majority of the next ones as well. A change takes two values: one that names both sets, then one that names the new set
//! only. A successor is only ever proposed to a value that is known to be chosen; so a value with the new set alone
//! follows one that a majority of each set has accepted, and a proposer that knows the old set only, however outdated, meets
//! the change. It may begin at any store that has ever kept the register: values that it is told of name the rest.
//!
//! What the driver owes:
//!
//! - the state that [`Acceptor::decide`] returns is durable before the reply is sent;
//! - a store has a [`StoreId`] that no other store has ever had. One that was lost is not made again under its old ID, nor
//!   brought back from an old copy: it comes back as a stranger;
//! - a [`ProposerId`] is used by one proposer in one run of one process: a proposer that starts anew has forgotten which
//!   ballots it has used;
//! - exactly one store is made with the first value ([`AcceptorState::founder`]); all others begin blank.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod acceptor;
mod arbiter;
mod arbiters;
mod ballot;
mod choice;
mod leader;
mod message;
pub mod mistakes;
mod proposer;
mod replica;
mod value;

pub use acceptor::{Acceptor, AcceptorState, Decision};
pub use arbiter::Arbiter;
pub use arbiters::{ARBITERS_MAX, Arbiters, ArbitersError, StoreId};
pub use ballot::{Ballot, ProposerId};
pub use choice::{ARBITERS, ARBITERS_OF_MANY, Candidates, arbiters_for};
pub use leader::{LeaderTiming, Leadership};
pub use message::{Accepted, Reply, ReplyBody, Request, RequestBody};
pub use proposer::{NotRead, Outcome, Output, ProposeError, Proposer, Timing};
pub use replica::{Event, Led, NotProposed, Replica, ReplicaTiming};
pub use value::{ArbiterChange, Value};
