//! Values of a register.

use alloc::collections::BTreeSet;

use crate::arbiters::{Arbiters, ArbitersError, StoreId};
use crate::ballot::Ballot;

/// What a register holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value<T> {
    /// Number of successors since the first value.
    pub version: u64,
    /// The ballot at which the value was first proposed: no other value has it.
    pub origin: Ballot,
    /// Whom to ask about the value, and how many have to agree.
    pub arbiters: Arbiters,
    /// What the register is for.
    pub content: T,
}

/// What a successor does to the set of arbiters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ArbiterChange {
    /// Nothing.
    Keep,
    /// Begin to change to these stores. Majorities of both sets agree from now on.
    Begin(BTreeSet<StoreId>),
    /// Finish the change that has begun: only the next set counts from now on.
    Finish,
}

impl<T> Value<T> {
    /// The first value of a register.
    #[must_use]
    pub fn first(founder: StoreId, content: T) -> Self {
        Self { version: 0, origin: Ballot::FIRST, arbiters: Arbiters::founder(founder), content }
    }

    /// The value that follows, proposed at `origin`.
    ///
    /// # Errors
    /// The arbiters cannot change so.
    pub fn successor(
        &self,
        origin: Ballot,
        content: T,
        change: ArbiterChange,
    ) -> Result<Self, ArbitersError> {
        let arbiters = match change {
            ArbiterChange::Keep => self.arbiters.clone(),
            ArbiterChange::Begin(next) => self.arbiters.changing_to(next)?,
            ArbiterChange::Finish => self.arbiters.changed()?,
        };
        Ok(Self { version: self.version + 1, origin, arbiters, content })
    }
}
