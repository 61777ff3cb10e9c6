//! What a node knows of what other homes hold, and of what it held itself in earlier views.
//!
//! Nothing is forgotten before everything is copied anew in the present view: so a home that dies halfway
//! costs nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use cards_core::NodeId;
use cards_core::rendezvous::{Members, RegionId};

use crate::message::{Change, Evidence, GroupKey, Part};

/// See the module's head.
pub(super) struct Copies {
    /// By home and epoch.
    snapshots: BTreeMap<(NodeId, u64), Snapshot>,
    /// Parts that others had copied here.
    parts: usize,
    limit: usize,
}

#[derive(Default)]
struct Snapshot {
    /// The number of the last change.
    applied: u64,
    complete: bool,
    parts: BTreeMap<(RegionId, GroupKey), Part>,
}

impl Copies {
    pub(super) const fn new(limit: usize) -> Self {
        Self { snapshots: BTreeMap::new(), parts: 0, limit }
    }

    /// Makes the changes that follow those made before, and tells the number of the last one made.
    pub(super) fn apply(&mut self, home: NodeId, epoch: u64, first: u64, changes: Vec<Change>) -> u64 {
        let snapshot = self.snapshots.entry((home, epoch)).or_default();
        for (number, change) in (first..u64::MAX).zip(changes) {
            if number <= snapshot.applied {
                continue;
            }
            if number > snapshot.applied + 1 {
                break;
            }
            match change {
                Change::Put(part) => {
                    let name = (part.region, part.key);
                    if !snapshot.parts.contains_key(&name) {
                        if self.parts >= self.limit {
                            break;
                        }
                        self.parts += 1;
                    }
                    snapshot.parts.insert(name, part);
                }
                Change::Remove { region, key } => {
                    self.parts -= usize::from(snapshot.parts.remove(&(region, key)).is_some());
                }
                Change::Complete => snapshot.complete = true,
            }
            snapshot.applied = number;
        }
        snapshot.applied
    }

    /// What this node itself held in a view, and is not the home of any more.
    pub(super) fn retire(&mut self, node: NodeId, epoch: u64, parts: Vec<Part>) {
        self.parts += parts.len();
        let parts = parts.into_iter().map(|part| ((part.region, part.key), part)).collect();
        self.snapshots.insert((node, epoch), Snapshot { applied: 0, complete: true, parts });
    }

    pub(super) fn is_complete(&self, home: NodeId, epoch: u64) -> bool {
        self.snapshots.get(&(home, epoch)).is_some_and(|snapshot| snapshot.complete)
    }

    /// What is known of the regions whose home is `home`.
    pub(super) fn evidence(&self, members: &Members, home: NodeId) -> Vec<Evidence> {
        let concerns = |part: &&Part| members.home(part.region) == Some(home);
        let snapshots = self.snapshots.iter().map(|(&(known, epoch), snapshot)| Evidence {
            home: known,
            epoch,
            complete: snapshot.complete,
            parts: snapshot.parts.values().filter(concerns).cloned().collect(),
        });
        snapshots.filter(|evidence| evidence.complete || !evidence.parts.is_empty()).collect()
    }

    pub(super) fn forget_before(&mut self, epoch: u64) {
        self.snapshots.retain(|&(_, known), _| known >= epoch);
        self.parts = self.snapshots.values().map(|snapshot| snapshot.parts.len()).sum();
    }

    pub(super) const fn len(&self) -> usize {
        self.parts
    }
}

/// What was held, by all that the members know: with each piece of evidence, who gave it.
///
/// The copies of a home in a view count if any of them is complete, for then all have what it began with; what
/// was granted after is answered only when copied behind that. What a home says of itself is better than what
/// was copied. Of several views the last counts that holds anything in the region: if really all of that was
/// released since and only an older one shows parts, those end with their sessions or when these do not name
/// them.
pub(super) fn weigh(evidence: &[(NodeId, Evidence)]) -> Vec<Part> {
    let names = |wanted: fn(&(NodeId, Evidence)) -> bool| -> BTreeSet<(NodeId, u64)> {
        evidence.iter().filter(|known| wanted(known)).map(|(_, e)| (e.home, e.epoch)).collect()
    };
    let complete = names(|(_, evidence)| evidence.complete);
    let own = names(|(teller, evidence)| *teller == evidence.home);
    let counts = |(teller, evidence): &&(NodeId, Evidence)| {
        let name = (evidence.home, evidence.epoch);
        complete.contains(&name) && (*teller == evidence.home || !own.contains(&name))
    };
    let mut regions: BTreeMap<RegionId, (u64, Vec<&Part>)> = BTreeMap::new();
    for (_, evidence) in evidence.iter().filter(counts) {
        for part in &evidence.parts {
            let (epoch, parts) = regions.entry(part.region).or_default();
            if evidence.epoch > *epoch {
                *epoch = evidence.epoch;
                parts.clear();
            }
            if evidence.epoch == *epoch {
                parts.push(part);
            }
        }
    }
    regions.into_values().flat_map(|(_, parts)| parts).cloned().collect()
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;
    use crate::fence::Fence;
    use crate::message::SessionId;
    use std::vec;

    fn part(group: u64) -> Part {
        let session = SessionId { node: NodeId(9), number: 1 };
        let region = RegionId { volume: PgId(0), index: 0 };
        Part { region, key: GroupKey { session, group }, ranges: vec![], token: Fence::default() }
    }

    fn evidence(home: u16, epoch: u64, complete: bool, groups: &[u64]) -> Evidence {
        let parts = groups.iter().map(|&group| part(group)).collect();
        Evidence { home: NodeId(home), epoch, complete, parts }
    }

    fn groups(evidence: &[(u16, Evidence)]) -> Vec<u64> {
        let evidence: Vec<_> = evidence.iter().map(|(node, e)| (NodeId(*node), e.clone())).collect();
        weigh(&evidence).iter().map(|part| part.key.group).collect()
    }

    #[test]
    fn a_copy_counts_when_any_copy_of_its_home_is_complete() {
        let (old, new) = (evidence(0, 5, true, &[1]), evidence(0, 6, false, &[2]));
        assert_eq!(groups(&[(1, old.clone()), (2, new.clone())]), [1]);
        assert_eq!(groups(&[(1, old), (2, new), (3, evidence(0, 6, true, &[]))]), [2]);
    }

    #[test]
    fn what_a_home_says_of_itself_is_better_than_a_copy() {
        assert_eq!(groups(&[(1, evidence(0, 5, true, &[1, 2])), (0, evidence(0, 5, true, &[2]))]), [2]);
    }

    #[test]
    fn changes_are_made_once_and_in_order() {
        let mut copies = Copies::new(2);
        let home = NodeId(0);
        let remove = Change::Remove { region: part(1).region, key: part(1).key };
        assert_eq!(copies.apply(home, 1, 2, vec![Change::Put(part(2))]), 0);
        assert_eq!(copies.apply(home, 1, 1, vec![Change::Put(part(1)), Change::Put(part(2))]), 2);
        assert_eq!(copies.apply(home, 1, 3, vec![Change::Put(part(3))]), 2, "no room");
        assert_eq!(copies.apply(home, 1, 3, vec![remove, Change::Put(part(3))]), 4);
        assert_eq!(copies.apply(home, 1, 1, vec![Change::Put(part(1))]), 4, "made before");
        assert_eq!(copies.len(), 2);
        copies.forget_before(2);
        assert_eq!(copies.len(), 0);
    }
}
