//! Which members were lost since all records of locks were at two nodes.

use std::collections::BTreeMap;

use cards_core::NodeId;

/// What this node knows of the lives of the members. A life counts from the view in which its node joined to the
/// one in which it is gone, or is another one's.
#[derive(Debug, Default)]
pub(super) struct Lives {
    epoch: u64,
    members: BTreeMap<NodeId, u64>,
    /// Members of the last view in which this node's home said that all is settled; none if there was none.
    settled: Option<usize>,
    /// Lives lost since.
    lost: usize,
}

impl Lives {
    /// The members have changed. Says whether no record can be lost, as
    /// [`HomeInput::View`](cards_locks::HomeInput::View) wants to know: what happened while this node was in
    /// no view is not known, so that is taken for the worst.
    pub(super) fn view(&mut self, epoch: u64, joined: u64, lives: &[(NodeId, u64)]) -> bool {
        let lives: BTreeMap<NodeId, u64> = lives.iter().copied().collect();
        if self.epoch < joined {
            self.settled = None;
        }
        // A life that came and went between two views of this node lost nothing: it had to hear from all
        // members, and so from this one, before it granted anything.
        self.lost += self.members.iter().filter(|&(node, life)| lives.get(node) != Some(life)).count();
        (self.epoch, self.members) = (epoch, lives);
        // Each life that began or ended has an epoch of its own, so none has ended yet: there was nothing to lose.
        let unbroken = epoch == self.members.len() as u64;
        unbroken || self.settled.is_some_and(|members| self.lost == 0 || self.lost == 1 && members > 1)
    }

    /// This node's home says that in this view everything is copied.
    pub(super) fn settled(&mut self, epoch: u64) {
        if epoch == self.epoch {
            self.settled = Some(self.members.len());
            self.lost = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives(of: &[(u16, u64)]) -> Vec<(NodeId, u64)> {
        of.iter().map(|&(node, life)| (NodeId(node), life)).collect()
    }

    fn settled(of: &[(u16, u64)]) -> Lives {
        let mut known = Lives::default();
        assert!(!known.view(11, 11, &lives(of)), "nothing is known at the start");
        known.settled(11);
        known
    }

    #[test]
    fn a_cluster_that_nobody_has_left_has_lost_nothing() {
        let mut known = Lives::default();
        assert!(known.view(1, 1, &lives(&[(0, 1)])));
        assert!(known.view(2, 1, &lives(&[(0, 1), (1, 1)])));
        assert!(!known.view(3, 1, &lives(&[(0, 1)])));
        assert!(!known.view(4, 1, &lives(&[(0, 1), (1, 2)])));
    }

    #[test]
    fn one_life_may_go_between_settled_and_settled() {
        let mut known = settled(&[(0, 1), (1, 1), (2, 1)]);
        assert!(known.view(12, 11, &lives(&[(0, 1), (1, 1)])));
        assert!(!known.view(13, 11, &lives(&[(0, 1)])));
        let mut known = settled(&[(0, 1), (1, 1), (2, 1)]);
        assert!(known.view(12, 11, &lives(&[(0, 1), (1, 1)])));
        known.settled(12);
        assert!(known.view(13, 11, &lives(&[(0, 1)])));
    }

    #[test]
    fn a_node_that_starts_anew_has_lost_a_life() {
        let mut known = settled(&[(0, 1), (1, 1), (2, 1)]);
        assert!(known.view(12, 11, &lives(&[(0, 1), (1, 2), (2, 1)])));
        assert!(!known.view(13, 11, &lives(&[(0, 1), (1, 3), (2, 1)])));
    }

    #[test]
    fn who_was_left_out_knows_nothing() {
        let mut known = settled(&[(0, 1), (1, 1)]);
        assert!(!known.view(15, 14, &lives(&[(0, 2), (1, 1)])));
    }

    #[test]
    fn the_only_member_has_nobody_to_copy_for_it() {
        let mut known = settled(&[(0, 1)]);
        assert!(known.view(12, 11, &lives(&[(0, 1), (1, 1)])));
        assert!(!known.view(13, 11, &lives(&[(1, 1)])));
    }

    #[test]
    fn a_word_of_an_old_view_changes_nothing() {
        let mut known = settled(&[(0, 1), (1, 1), (2, 1)]);
        assert!(known.view(12, 11, &lives(&[(0, 1), (1, 1)])));
        known.settled(11);
        assert!(!known.view(13, 11, &lives(&[(0, 1)])));
    }
}
