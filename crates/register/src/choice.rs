//! Which nodes are to be the arbiters.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::arbiters::StoreId;

/// Arbiters of a register when there are as many nodes.
pub const ARBITERS: usize = 3;

/// The arbiters that should take the place of the present ones; none if these may stay.
///
/// Three when there are as many nodes, else one: two are no safer than one, as both would have to live. An arbiter stays for
/// as long as its node is a member, dead or alive: a node that is back has missed what a vote tells it, while a change needs
/// majorities of two sets. So a change is for nodes that have left, were forgotten or have lost their store, and for the
/// first three.
///
/// `members`: the stores of all nodes that may be arbiters, those first that are best: the leader, then nodes that are up.
#[must_use]
pub fn arbiters_for(present: &BTreeSet<StoreId>, members: &[StoreId]) -> Option<BTreeSet<StoreId>> {
    let count = match members.len() {
        members if members < ARBITERS => 1,
        members if members < present.len() => ARBITERS,
        _ => present.len().max(ARBITERS),
    };
    let (stays, others): (Vec<_>, Vec<_>) = members.iter().partition(|store| present.contains(store));
    let chosen: BTreeSet<StoreId> = stays.into_iter().chain(others).take(count).collect();
    (!chosen.is_empty() && chosen != *present).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores<const N: usize>(ids: [u128; N]) -> BTreeSet<StoreId> {
        ids.map(StoreId).into()
    }

    fn next<const N: usize, const M: usize>(
        present: [u128; N],
        members: [u128; M],
    ) -> Option<BTreeSet<StoreId>> {
        arbiters_for(&stores(present), &members.map(StoreId))
    }

    #[test]
    fn one_of_two_nodes_and_three_of_more() {
        assert_eq!(next([1], [1]), None);
        assert_eq!(next([1], [2, 1]), None);
        assert_eq!(next([1], [1, 3, 2]), Some(stores([1, 2, 3])));
        assert_eq!(next([1], [9, 8, 7, 6, 1]), Some(stores([1, 8, 9])));
        assert_eq!(next([1, 2, 3], [5, 4, 3, 2, 1]), None);
    }

    #[test]
    fn one_that_is_gone_is_replaced_by_the_best_and_the_others_stay() {
        assert_eq!(next([1, 2, 3], [5, 4, 3, 1]), Some(stores([1, 3, 5])));
        assert_eq!(next([1, 2, 3], [4, 5, 6]), Some(stores([4, 5, 6])));
    }

    #[test]
    fn of_two_that_are_left_the_better_one_stays() {
        assert_eq!(next([1, 2, 3], [3, 1]), Some(stores([3])));
        assert_eq!(next([1, 2, 3], [4, 1]), Some(stores([1])));
    }

    #[test]
    fn five_stay_five_and_nobody_is_replaced_by_nobody() {
        assert_eq!(next([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]), None);
        assert_eq!(next([1, 2, 3, 4, 5], [1, 2, 3, 4, 6]), Some(stores([1, 2, 3, 4, 6])));
        assert_eq!(next([1, 2, 3, 4, 5], [1, 2, 3, 4]), Some(stores([1, 2, 3])));
        assert_eq!(next([1], []), None);
    }

    #[test]
    fn what_was_chosen_stays() {
        for members in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]] {
            let chosen = next([1], members).unwrap();
            assert_eq!(arbiters_for(&chosen, &members.map(StoreId)), None);
        }
    }
}
