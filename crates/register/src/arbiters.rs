//! Sets of stores, and which of their subsets decide.

use alloc::collections::BTreeSet;
use core::fmt;

/// A store of an arbiter, from the moment it was made to its loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreId(pub u128);

/// Stores that can keep a register at a time.
pub const ARBITERS_MAX: usize = 7;

/// The stores that keep a register.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Arbiters {
    current: BTreeSet<StoreId>,
    /// Those that are to take over; not empty only while they change.
    next: BTreeSet<StoreId>,
}

/// Why stores cannot be the arbiters of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArbitersError {
    /// A set of stores has a number of members that none can have.
    Count {
        /// Stores given. From 1 to [`ARBITERS_MAX`] is right.
        stores: usize,
    },
    /// An earlier change is not finished.
    Changing,
    /// There is no change to finish.
    NotChanging,
}

impl fmt::Display for ArbitersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { stores } => {
                write!(f, "a register has 1 to {ARBITERS_MAX} arbiters, not {stores}")
            }
            Self::Changing => f.write_str("an earlier change of arbiters is not finished"),
            Self::NotChanging => f.write_str("no change of arbiters has begun"),
        }
    }
}

impl core::error::Error for ArbitersError {}

impl Arbiters {
    /// These stores, and no change of them.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn new(stores: BTreeSet<StoreId>) -> Result<Self, ArbitersError> {
        check_count(&stores)?;
        Ok(Self { current: stores, next: BTreeSet::new() })
    }

    /// The founder of a register alone.
    #[must_use]
    pub fn founder(store: StoreId) -> Self {
        Self { current: BTreeSet::from([store]), next: BTreeSet::new() }
    }

    /// The same stores while they change to `next`.
    ///
    /// # Errors
    /// They change already, or `next` has no stores or too many.
    pub fn changing_to(&self, next: BTreeSet<StoreId>) -> Result<Self, ArbitersError> {
        if !self.next.is_empty() {
            return Err(ArbitersError::Changing);
        }
        check_count(&next)?;
        Ok(Self { current: self.current.clone(), next })
    }

    /// The stores after the change.
    ///
    /// # Errors
    /// No change has begun.
    pub fn changed(&self) -> Result<Self, ArbitersError> {
        if self.next.is_empty() {
            return Err(ArbitersError::NotChanging);
        }
        Ok(Self { current: self.next.clone(), next: BTreeSet::new() })
    }

    /// The stores that keep the register; before a change ends, the earlier ones.
    #[must_use]
    pub fn current(&self) -> &BTreeSet<StoreId> {
        &self.current
    }

    /// The stores that are to take over; empty unless a change has begun.
    #[must_use]
    pub fn next(&self) -> &BTreeSet<StoreId> {
        &self.next
    }

    /// All stores of both sets.
    pub fn stores(&self) -> impl Iterator<Item = StoreId> {
        self.current.union(&self.next).copied()
    }

    /// Whether stores for which `has` holds are a majority, of both sets while they change.
    pub fn is_quorum(&self, has: impl Fn(StoreId) -> bool) -> bool {
        let is_majority = |stores: &BTreeSet<StoreId>| {
            2 * stores.iter().filter(|store| has(**store)).count() > stores.len()
        };
        is_majority(&self.current) && (self.next.is_empty() || is_majority(&self.next))
    }

    /// As [`Arbiters::is_quorum`], with the earlier set only: a deliberate mistake.
    #[cfg(feature = "mistakes")]
    pub(crate) fn is_quorum_of_current(&self, has: impl Fn(StoreId) -> bool) -> bool {
        Self { next: BTreeSet::new(), ..self.clone() }.is_quorum(has)
    }
}

fn check_count(stores: &BTreeSet<StoreId>) -> Result<(), ArbitersError> {
    match stores.len() {
        1..=ARBITERS_MAX => Ok(()),
        stores => Err(ArbitersError::Count { stores }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores<const N: usize>(ids: [u128; N]) -> BTreeSet<StoreId> {
        ids.map(StoreId).into()
    }

    #[test]
    fn more_than_half_is_a_quorum() {
        for (count, least) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)] {
            let arbiters = Arbiters::new((0..count).map(StoreId).collect()).unwrap();
            assert!(arbiters.is_quorum(|store| store.0 < least), "{least} of {count}");
            assert!(!arbiters.is_quorum(|store| store.0 + 1 < least), "{} of {count}", least - 1);
        }
    }

    #[test]
    fn while_they_change_both_sets_need_a_majority() {
        let change = Arbiters::new(stores([1, 2, 3])).unwrap().changing_to(stores([3, 4, 5])).unwrap();
        assert!(!change.is_quorum(|store| [1, 2, 3].contains(&store.0)), "one of the next three");
        assert!(!change.is_quorum(|store| [3, 4, 5].contains(&store.0)), "one of the earlier three");
        assert!(change.is_quorum(|store| [2, 3, 4].contains(&store.0)));
        assert_eq!(change.stores().count(), 5);
    }

    #[test]
    fn a_change_begins_once_and_ends_once() {
        let one = Arbiters::founder(StoreId(1));
        assert_eq!(one.changed(), Err(ArbitersError::NotChanging));
        let change = one.changing_to(stores([1, 2, 3])).unwrap();
        assert_eq!(change.changing_to(stores([4])), Err(ArbitersError::Changing));
        assert_eq!(change.changed(), Arbiters::new(stores([1, 2, 3])));
    }

    #[test]
    fn no_set_is_empty_or_too_large() {
        assert_eq!(Arbiters::new(stores([])), Err(ArbitersError::Count { stores: 0 }));
        let eight = (0..8).map(StoreId).collect();
        assert_eq!(Arbiters::founder(StoreId(1)).changing_to(eight), Err(ArbitersError::Count { stores: 8 }));
    }
}
