//! Who the members are, at one time.

use std::collections::BTreeMap;

use cards_coordinator::{MemberState, View};
use cards_core::{NodeId, Placement, PlacementKind};

/// The members of the cluster in one epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    epoch: u64,
    by_number: BTreeMap<NodeId, Member>,
}

/// One member, also one that is not live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where its peer port listens.
    pub(crate) address: String,
    /// What the coordinator calls its present membership; none without a coordinator.
    pub(crate) membership: Option<u64>,
    /// The epoch in which its state began.
    pub(crate) since: u64,
    pub(crate) state: MemberState,
}

impl Members {
    /// A node without a coordinator is the only member, and nobody reaches it.
    pub(crate) fn alone(node: &str) -> Self {
        let (name, address, state) = (node.into(), String::new(), MemberState::Joined);
        let member = Member { name, address, membership: None, since: 0, state };
        Self { epoch: 0, by_number: [(NodeId(0), member)].into() }
    }

    /// The members that the registry has. A number that no node can have is nobody's: it comes from another process.
    pub(crate) fn of(view: &View) -> Self {
        let member = |member: &cards_coordinator::Member| {
            let (name, address) = (member.name.clone(), member.address.clone());
            let (membership, since) = (Some(member.incarnation.0), member.since.0);
            (NodeId(member.id), Member { name, address, membership, since, state: member.state })
        };
        let numbered = view.members.values().filter(|member| usize::from(member.id) < NodeId::MAX_NODES);
        Self { epoch: view.epoch.0, by_number: numbered.map(member).collect() }
    }

    /// The same with another member of that number.
    #[cfg(test)]
    pub(crate) fn with(&self, node: NodeId, member: Member) -> Self {
        let mut members = self.clone();
        members.by_number.insert(node, member);
        members
    }

    /// Which version of the member set this is; zero without a coordinator.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All members with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.by_number.iter().map(|(&node, member)| (node, member))
    }

    /// The members that take part, those on their way out too.
    pub(crate) fn live(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.all().filter(|(_, member)| member.state.is_live())
    }

    /// The number of the member of that name.
    pub(crate) fn number(&self, name: &str) -> Option<NodeId> {
        self.by_number.iter().find(|(_, member)| member.name == name).map(|(&number, _)| number)
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Member> {
        self.by_number.get(&node)
    }

    /// The member of that number if it takes part.
    pub(crate) fn live_one(&self, node: NodeId) -> Option<&Member> {
        self.get(node).filter(|member| member.state.is_live())
    }

    pub(crate) fn find(&self, name: &str) -> Option<(NodeId, &Member)> {
        self.all().find(|(_, member)| member.name == name)
    }

    /// What has become of each member since `before`, for people.
    pub(crate) fn since(&self, before: &Self) -> Vec<String> {
        let news = self.all().filter_map(|(node, member)| {
            let then = before.get(node).filter(|then| then.name == member.name);
            let is_same = then.is_some_and(|then| {
                then.state == member.state
                    && (then.membership == member.membership || !member.state.is_live())
            });
            let what = match member.state {
                _ if is_same => return None,
                MemberState::Joined => "has joined",
                MemberState::Leaving => "is leaving",
                MemberState::Left => "has left",
                MemberState::Dead => "was declared dead",
            };
            Some(format!("{} {what}", member.name))
        });
        let gone = before.all().filter(|(_, member)| self.find(&member.name).is_none());
        news.chain(gone.map(|(_, member)| format!("{} was forgotten", member.name))).collect()
    }

    /// Homes over all members that are there to stay.
    pub(crate) fn placement(&self) -> Placement {
        let joined = self.all().filter(|(_, member)| member.state == MemberState::Joined);
        Placement::over(PlacementKind::Rendezvous, joined.map(|(node, _)| node).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(states: &[(u16, &str, u64, MemberState)]) -> Members {
        let member = |&(number, name, membership, state): &(u16, &str, u64, MemberState)| {
            let (name, membership) = (name.to_owned(), Some(membership));
            (NodeId(number), Member { name, address: String::new(), membership, since: 0, state })
        };
        Members { epoch: 0, by_number: states.iter().map(member).collect() }
    }

    #[test]
    fn changes_are_told_by_name() {
        use MemberState::{Dead, Joined, Leaving, Left};
        let before =
            members(&[(0, "a", 1, Joined), (1, "b", 1, Joined), (2, "c", 1, Leaving), (3, "d", 1, Dead)]);
        let after =
            members(&[(0, "a", 1, Joined), (1, "b", 1, Dead), (2, "c", 1, Left), (4, "e", 1, Joined)]);
        let told = ["b was declared dead", "c has left", "e has joined", "d was forgotten"];
        assert_eq!(after.since(&before), told);
        let again =
            members(&[(0, "a", 2, Joined), (1, "b", 1, Dead), (2, "c", 1, Left), (4, "e", 1, Joined)]);
        assert_eq!(again.since(&after), ["a has joined"]);
        assert!(again.since(&again).is_empty());
    }
}
