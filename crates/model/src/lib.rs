//! Small models of the two protocols, for a model checker to visit every state.
//!
//! | module | protocol |
//! |---|---|
//! | [`locks`] | the lock service: leases, grants and fencing tokens of one lock |
//! | [`data`] | reads and writes of one block: cards, primary, directory, repeats, restart and move of the primary |
//!
//! The tests run both through Stateright.

pub mod data;
pub mod locks;
