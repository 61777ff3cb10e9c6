//! Which nodes are to be the arbiters.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::arbiters::StoreId;

/// Arbiters of a register when there are as many nodes.
pub const ARBITERS: usize = 3;
/// Arbiters when there are as many.
pub const ARBITERS_OF_MANY: usize = 5;

/// The stores of nodes that may be arbiters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Candidates {
    /// They answer; those first that are best, as the leader.
    pub up: Vec<StoreId>,
    /// They do not, and are expected back.
    pub away: Vec<StoreId>,
    /// They have been away for so long that others take their places, if there are others.
    pub lost: Vec<StoreId>,
}

/// The arbiters that should take the place of the present ones; none if these may stay.
///
/// Five when there are as many nodes, three when there are as many, else one: two are no safer than one, as both would have to
/// live. A node is counted if it is up, or an arbiter that is away. An arbiter stays while it is not lost: a node that is back has
/// missed what a vote tells it, while a change needs majorities of two sets. One that is lost stays while there is no other. No set
/// is begun of which a majority is not up: it would wait for the others, and everybody for it.
#[must_use]
pub fn arbiters_for(present: &BTreeSet<StoreId>, candidates: &Candidates) -> Option<BTreeSet<StoreId>> {
    let Candidates { up, away, lost } = candidates;
    let is_present = |store: &&StoreId| present.contains(store);
    let (stays, others): (Vec<_>, Vec<_>) = up.iter().partition(is_present);
    let (away, lost) = (away.iter().filter(is_present), lost.iter().filter(is_present));
    let count = match up.len() + away.clone().count() + lost.clone().count() {
        nodes if nodes < ARBITERS => 1,
        nodes if nodes < ARBITERS_OF_MANY => ARBITERS,
        _ => ARBITERS_OF_MANY,
    };
    let order = stays.into_iter().chain(away).chain(others).chain(lost);
    let chosen: BTreeSet<StoreId> = order.copied().take(count).collect();
    let up_of_them = up.iter().filter(|store| chosen.contains(store)).count();
    (2 * up_of_them > chosen.len() && chosen != *present).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores<const N: usize>(ids: [u128; N]) -> BTreeSet<StoreId> {
        ids.map(StoreId).into()
    }

    fn candidates(up: &[u128], away: &[u128], lost: &[u128]) -> Candidates {
        let stores = |ids: &[u128]| ids.iter().copied().map(StoreId).collect();
        Candidates { up: stores(up), away: stores(away), lost: stores(lost) }
    }

    fn next<const N: usize>(present: [u128; N], up: &[u128]) -> Option<BTreeSet<StoreId>> {
        arbiters_for(&stores(present), &candidates(up, &[], &[]))
    }

    #[test]
    fn one_of_two_nodes_three_of_more_and_five_of_many() {
        assert_eq!(next([1], &[1]), None);
        assert_eq!(next([1], &[2, 1]), None);
        assert_eq!(next([1], &[1, 3, 2]), Some(stores([1, 2, 3])));
        assert_eq!(next([1], &[9, 8, 7, 1]), Some(stores([1, 8, 9])));
        assert_eq!(next([1, 2, 3], &[4, 3, 2, 1]), None);
        assert_eq!(next([1, 2, 3], &[6, 5, 4, 3, 2, 1]), Some(stores([1, 2, 3, 5, 6])));
    }

    #[test]
    fn one_that_has_left_is_replaced_by_the_best_and_the_others_stay() {
        assert_eq!(next([1, 2, 3], &[5, 4, 3, 1]), Some(stores([1, 3, 5])));
        assert_eq!(next([1, 2, 3], &[4, 5, 6]), Some(stores([4, 5, 6])));
        assert_eq!(next([1, 2, 3, 4, 5], &[1, 2, 3, 4, 6]), Some(stores([1, 2, 3, 4, 6])));
    }

    #[test]
    fn of_two_that_are_left_the_better_one_stays() {
        assert_eq!(next([1, 2, 3], &[3, 1]), Some(stores([3])));
        assert_eq!(next([1, 2, 3], &[4, 1]), Some(stores([1])));
        assert_eq!(next([1, 2, 3, 4, 5], &[1, 2, 3, 4]), Some(stores([1, 2, 3])));
        assert_eq!(next([1], &[]), None);
    }

    #[test]
    fn one_that_is_away_stays_and_one_that_is_lost_stays_while_there_is_no_other() {
        let of = |present: [u128; 3], up: &[u128], away: &[u128], lost: &[u128]| {
            arbiters_for(&stores(present), &candidates(up, away, lost))
        };
        assert_eq!(of([1, 2, 3], &[1, 2, 4], &[3], &[]), None);
        assert_eq!(of([1, 2, 3], &[1, 2, 4], &[], &[3]), Some(stores([1, 2, 4])));
        assert_eq!(of([1, 2, 3], &[1, 2], &[], &[3]), None);
        // None that is no arbiter is counted while it is away.
        assert_eq!(arbiters_for(&stores([1]), &candidates(&[1, 2], &[3], &[4])), None);
        assert_eq!(of([1, 2, 3], &[1, 2, 4], &[3, 5], &[6]), None);
    }

    #[test]
    fn no_set_is_begun_of_which_most_do_not_answer() {
        assert_eq!(arbiters_for(&stores([1, 2, 3]), &candidates(&[4], &[1, 2], &[3])), None);
        let five = stores([1, 2, 3, 4, 5]);
        assert_eq!(
            arbiters_for(&five, &candidates(&[1, 2, 6], &[3], &[4, 5])),
            Some(stores([1, 2, 3, 4, 6]))
        );
        assert_eq!(arbiters_for(&five, &candidates(&[1, 6], &[2, 3], &[4, 5])), None);
    }

    #[test]
    fn what_was_chosen_stays() {
        for up in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]] {
            let chosen = next([1], &up).unwrap();
            assert_eq!(arbiters_for(&chosen, &candidates(&up, &[], &[])), None);
        }
    }
}
