//! What this crate offers, as the core asks for it.

use alloc::boxed::Box;
use alloc::sync::Arc;

use cards_core::Algorithms;
use cards_core::policy::Policy;
use cards_core::replacement::Replacer;

use crate::replacement::GhostKind;
use crate::{Replacement, policy};

/// All policies of the registry, and one replacement.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn {
    /// Which block leaves when room is needed.
    pub replacement: Replacement,
    /// How it remembers evicted blocks.
    pub ghosts: GhostKind,
}

impl BuiltIn {
    /// All policies, and this replacement, to be given to the core.
    #[must_use]
    pub fn with(replacement: Replacement) -> Arc<dyn Algorithms> {
        Self::with_ghosts(replacement, GhostKind::Hashed)
    }

    /// All policies, and this replacement with ghosts of this kind.
    #[must_use]
    pub fn with_ghosts(replacement: Replacement, ghosts: GhostKind) -> Arc<dyn Algorithms> {
        Arc::new(Self { replacement, ghosts })
    }
}

impl Algorithms for BuiltIn {
    fn policy(&self, spec: &str) -> Option<Box<dyn Policy>> {
        policy::build(spec).ok()
    }

    fn is_same_policy(&self, one: &str, other: &str) -> bool {
        policy::normalize(one) == policy::normalize(other)
    }

    fn replacer(&self, capacity: u32) -> Box<dyn Replacer> {
        self.replacement.build_with(capacity, self.ghosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_and_its_defaults_written_out_are_the_same_policy() {
        let algorithms = BuiltIn::default();
        assert!(algorithms.is_same_policy("hscc depth=2", "hscc"));
        assert!(!algorithms.is_same_policy("hscc depth=3", "hscc"));
        assert!(!algorithms.is_same_policy("hdc", "hscc"));
    }
}
