//! Who the members are, at one time.

use std::collections::BTreeMap;

use cards_coordinator::{MemberState, View};
use cards_core::{NodeId, Placement, PlacementKind};

use crate::config::Config;

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
    /// The members of a cluster without a coordinator.
    pub(crate) fn fixed(config: &Config) -> Self {
        let member = |(number, member): (usize, &crate::config::Member)| {
            let (name, address) = (member.name.clone(), member.address.clone());
            let state = MemberState::Joined;
            (NodeId(number as u16), Member { name, address, membership: None, since: 0, state })
        };
        Self { epoch: 0, by_number: config.members.iter().enumerate().map(member).collect() }
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

    /// Homes over all members that are there to stay.
    pub(crate) fn placement(&self) -> Placement {
        let joined = self.all().filter(|(_, member)| member.state == MemberState::Joined);
        Placement::over(PlacementKind::Rendezvous, joined.map(|(node, _)| node).collect())
    }
}
