//! Who has the group's volume for itself, as the keeper of its map keeps it for the next primary.

use cards_core::Exclusivity;

use super::map::Map;

/// An [`Exclusivity`], and the primary that has noted it.
///
/// It is kept beside the map, and is fenced by that: a primary changes it only while the map names the epoch in which that process took
/// over. Who takes over after that finds it with the map, and it changes no more but by its own word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptExclusivity {
    /// The generation of the map.
    pub generation: u32,
    /// The epoch in which the primary took over ([`Map::since`]).
    pub since: u64,
    /// The number that the primary has given it: the highest one of a term is the last.
    pub number: u64,
    /// Who has the volume for itself.
    pub exclusivity: Exclusivity,
}

impl KeptExclusivity {
    /// Whether it was noted by the primary that the map names. Of another one it is not taken.
    #[must_use]
    pub fn is_of(&self, map: &Map) -> bool {
        self.generation == map.term.generation && self.since == map.since
    }

    /// Whether it takes the place of `before`. One that has been under way for long does not.
    #[must_use]
    pub fn is_later_than(&self, before: &Self) -> bool {
        (self.generation, self.since, self.number) > (before.generation, before.since, before.number)
    }

    /// What the primary of a map begins with. Where a person gave up another history for this one, what clients of a card remember
    /// may be in that one: no card goes on.
    #[must_use]
    pub fn known_to(&self, map: &Map) -> Exclusivity {
        if self.generation == map.term.generation { self.exclusivity } else { Exclusivity::default() }
    }
}

#[cfg(test)]
mod tests {
    use cards_core::{Generation, NodeId};
    use cards_layout::format::Uuid;

    use super::*;
    use crate::group::{Marks, Member};

    #[test]
    fn it_is_fenced_by_the_map_and_goes_with_its_history() {
        let member = |node| Member { node: NodeId(node), incarnation: 1 };
        let disks = [(Uuid([1; 16]), NodeId(0)), (Uuid([2; 16]), NodeId(1))];
        let first = Map::first(Uuid([9; 16]), 0, member(0), &disks).unwrap();
        let exclusivity = Exclusivity { card: Some((NodeId(2), Generation(7))), ..Exclusivity::default() };
        let kept = KeptExclusivity { generation: 1, since: first.since, number: 3, exclusivity };
        assert!(kept.is_of(&first) && kept.is_later_than(&KeptExclusivity::default()));
        assert!(!KeptExclusivity { number: 2, ..kept }.is_later_than(&kept), "it was under way for long");

        let dropped = first.without(member(0), 1, 1, Marks(0)).unwrap();
        assert!(kept.is_of(&dropped), "the process is the primary still");
        let next = first.taken_over(member(1)).unwrap();
        assert!(!kept.is_of(&next));
        assert_eq!(kept.known_to(&next), exclusivity);
        let of_next = KeptExclusivity { since: next.since, number: 1, ..kept };
        assert!(of_next.is_later_than(&kept));
        assert_eq!(kept.known_to(&next.forced(member(1)).unwrap()), Exclusivity::default());
    }
}
