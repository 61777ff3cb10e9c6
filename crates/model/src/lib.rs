//! Small models of the protocols, for a model checker to visit every state.
//!
//! | module | protocol |
//! |---|---|
//! | [`locks`] | the lock service: leases, grants and fencing tokens of one lock |
//! | [`data`] | reads and writes of one block: cards, primary, directory, repeats, restart and move of the primary |
//! | [`group`] | the fail-over of a volume's copies: leases, terms, and what every copy has |
//! | [`register`] | the register: promises, votes, and changes of its arbiters |
//!
//! The tests run all of them through Stateright.

pub mod data;
pub mod group;
pub mod locks;
pub mod register;
