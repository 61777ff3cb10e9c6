//! Who looks after a region of a volume, among members that come and go.
//!
//! Highest random weight (D. Thaler and C. Ravishankar, *Using name-based mappings to increase hit rates*,
//! IEEE/ACM Transactions on Networking 6(1), 1998, section 3): every member draws a number from the region
//! and itself, and the highest wins. So when a member goes, only its regions move, and each moves to the
//! member that came second, which is the one that kept a copy; when one comes, it takes only what it wins.

use alloc::vec::Vec;

use crate::ids::{NodeId, PgId, mix};
use crate::placement::PlacementKind;

/// A part of a volume whose locks have one home. `index` counts regions from the start of the volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionId {
    /// The volume.
    pub volume: PgId,
    /// Its position, in regions.
    pub index: u32,
}

/// The members of the cluster at one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    epoch: u64,
    nodes: Vec<NodeId>,
    kind: PlacementKind,
}

impl Members {
    /// The members `nodes`, in any order, repetitions allowed. The `epoch` is higher than that of all earlier
    /// lists that differ.
    #[must_use]
    pub fn new(epoch: u64, mut nodes: Vec<NodeId>, kind: PlacementKind) -> Self {
        nodes.sort_unstable();
        nodes.dedup();
        Self { epoch, nodes, kind }
    }

    /// Which list this is.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The members, in ascending order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// `node` is a member.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }

    /// The region's home: none when there are no members.
    #[must_use]
    pub fn home(&self, region: RegionId) -> Option<NodeId> {
        self.first_two(region).0
    }

    /// Who keeps a copy of what the home knows, and is the home when that one goes: none when there are fewer
    /// than two members.
    #[must_use]
    pub fn successor(&self, region: RegionId) -> Option<NodeId> {
        self.first_two(region).1
    }

    fn first_two(&self, region: RegionId) -> (Option<NodeId>, Option<NodeId>) {
        match self.kind {
            PlacementKind::Rendezvous => self.highest_two(region),
            PlacementKind::Modulo => self.modulo_two(region),
        }
    }

    fn highest_two(&self, region: RegionId) -> (Option<NodeId>, Option<NodeId>) {
        let name = mix(u64::from(region.volume.0) << 32 | u64::from(region.index));
        let (mut first, mut second) = (None, None);
        for &node in &self.nodes {
            // The node itself decides between equal weights.
            let drawn = Some((mix(name ^ mix(u64::from(node.0))), node));
            if drawn > first {
                (first, second) = (drawn, first);
            } else if drawn > second {
                second = drawn;
            }
        }
        (first.map(|(_, node)| node), second.map(|(_, node)| node))
    }

    fn modulo_two(&self, region: RegionId) -> (Option<NodeId>, Option<NodeId>) {
        let count = self.nodes.len() as u64;
        if count == 0 {
            return (None, None);
        }
        let position = (u64::from(region.volume.0) + u64::from(region.index)) % count;
        let at = |position: u64| self.nodes.get((position % count) as usize).copied();
        (at(position), at(position + 1).filter(|_| count > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(epoch: u64, nodes: impl IntoIterator<Item = u16>) -> Members {
        Members::new(epoch, nodes.into_iter().map(NodeId).collect(), PlacementKind::Rendezvous)
    }

    fn regions(count: u32) -> impl Iterator<Item = RegionId> {
        (0..count).map(|i| RegionId { volume: PgId((i % 7) * 64), index: i / 7 })
    }

    #[test]
    fn when_a_member_goes_only_its_regions_move_and_to_their_successors() {
        let before = members(1, 0..9);
        for gone in 0..9 {
            let after = members(2, (0..9).filter(|&n| n != gone));
            for region in regions(5_000) {
                let expected = match before.home(region) {
                    Some(NodeId(home)) if home == gone => before.successor(region),
                    home => home,
                };
                assert_eq!(after.home(region), expected, "{region:?} when {gone} goes");
            }
        }
    }

    #[test]
    fn when_a_member_comes_regions_move_only_to_it() {
        let (before, after) = (members(1, 0..8), members(2, 0..9));
        let mut moved = 0;
        for region in regions(9_000) {
            if before.home(region) != after.home(region) {
                assert_eq!(after.home(region), Some(NodeId(8)));
                moved += 1;
            }
        }
        assert!((900..1_100).contains(&moved), "{moved} of 9000 moved to the ninth member");
    }

    #[test]
    fn homes_and_successors_are_spread_evenly() {
        for count in [2, 3, 7, 16] {
            let list = members(1, 0..count);
            let total = 60_000;
            let mut homes = [0_u32; 16];
            let mut successors = [0_u32; 16];
            for region in regions(total) {
                homes[usize::from(list.home(region).unwrap().0)] += 1;
                successors[usize::from(list.successor(region).unwrap().0)] += 1;
            }
            let fair = total / u32::from(count);
            for share in homes.iter().chain(&successors).filter(|&&share| share > 0) {
                assert!(share.abs_diff(fair) * 100 <= fair * 5, "{count} members: {share} for {fair}");
            }
        }
    }

    #[test]
    fn modulo_goes_round_the_members() {
        let list = Members::new(1, [5, 2, 9, 2].map(NodeId).to_vec(), PlacementKind::Modulo);
        let region = |index| RegionId { volume: PgId(0), index };
        let homes: Vec<_> = (0..4).map(|i| list.home(region(i)).unwrap().0).collect();
        let successors: Vec<_> = (0..4).map(|i| list.successor(region(i)).unwrap().0).collect();
        assert_eq!((homes, successors), ([2, 5, 9, 2].to_vec(), [5, 9, 2, 5].to_vec()));
    }

    #[test]
    fn too_few_members_have_no_home_or_no_successor() {
        for kind in [PlacementKind::Rendezvous, PlacementKind::Modulo] {
            let region = RegionId { volume: PgId(0), index: 3 };
            let (nobody, alone) =
                (Members::new(1, Vec::new(), kind), Members::new(1, [NodeId(4)].to_vec(), kind));
            assert_eq!((nobody.home(region), nobody.successor(region)), (None, None));
            assert_eq!((alone.home(region), alone.successor(region)), (Some(NodeId(4)), None));
        }
    }
}
