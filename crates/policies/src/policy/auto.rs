//! `auto`: no policy of its own, but the one that is measured to be the best.
//!
//! Whoever runs a volume with it has a chooser (the crate `cards-chooser`) that sees a sample of the references of all nodes, tries
//! the candidates on it, and gives the volume another policy when that pays ([`cards_core::Input::PolicyChosen`]). What is built
//! here is what the volume begins with, and has where nobody chooses.

use super::{Build, Entry};

/// The name.
pub const NAME: &str = "auto";

/// What a volume begins with. It asks homes whatever that costs: until something has been measured, many nodes that read the same at once read the
/// origin once.
pub const START: &str = "single ask=home";

/// Whether a spec means it.
#[must_use]
pub fn is_auto(spec: &str) -> bool {
    spec.split_whitespace().next() == Some(NAME)
}

pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "chosen by measurement",
    paper: "this project's own; the sample: Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015, section 3",
    parameters: &[],
    when_not: "the load is known and its best policy, too: learning and each change cost some reads; too few reads to tell",
    build: Build::Shard(|_| super::build(START)),
};
