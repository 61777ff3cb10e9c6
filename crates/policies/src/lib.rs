//! What the core decides with, by name: the policies of cooperative caching, the replacements, and read-ahead.
//!
//! The protocol of [`cards_core`] is right whatever these answer; how good it is depends on them. All are
//! deterministic and know no clock, like the core.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod built_in;
pub mod policy;
pub mod read_ahead;
pub mod replacement;

pub use built_in::BuiltIn;
pub use replacement::Replacement;
