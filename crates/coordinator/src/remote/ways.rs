//! Whom to ask: the nodes that may know the registry, the likeliest first.

use std::collections::BTreeSet;

use crate::ids::{Epoch, History, Revision};
use crate::kept::{Kept, Route};

use super::connection::Connection;

/// The latest of a registry that somebody has heard of. Whoever leads it knows of that and perhaps of more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The epoch.
    pub epoch: Epoch,
    /// The revision.
    pub revision: Revision,
}

impl Seen {
    /// This and that.
    pub(crate) fn join(&mut self, other: Self) {
        self.epoch = self.epoch.max(other.epoch);
        self.revision = self.revision.max(other.revision);
    }
}

/// What is known of the registry and of whom to ask.
#[derive(Debug, Default)]
pub(super) struct Ways {
    pub(super) kept: Kept,
    pub(super) history: Option<History>,
    pub(super) seen: Seen,
    /// The node that has answered last.
    present: Option<Route>,
    /// An open connection to it that nobody uses.
    idle: Option<Connection>,
}

impl Ways {
    /// Hears who keeps the registry, or one that has succeeded it.
    pub(super) fn hear(&mut self, kept: &Kept) {
        if self.history.is_none() || kept.has_succeeded(self.history) {
            self.history = kept.history.or(self.history);
        }
        self.kept.learn(kept);
    }

    /// What is known before anybody was asked.
    pub(super) fn of(history: Option<History>, seen: Seen) -> Self {
        Self { history, seen, ..Self::default() }
    }

    /// All that can be asked, each once: who has answered last, the leader, the arbiters, and those that are named.
    pub(super) fn all(&self, named: &[Route], own: Option<&str>) -> Vec<Route> {
        let Kept { leader, arbiters, .. } = &self.kept;
        let mut known = BTreeSet::new();
        let all = self.present.iter().chain(leader).chain(arbiters).chain(named);
        let others = all.filter(|route| own != Some(route.address.as_str()));
        others.filter(|route| known.insert(route.address.clone())).cloned().collect()
    }

    /// The open connection to there, if there is one.
    pub(super) fn take_idle(&mut self, route: &Route) -> Option<Connection> {
        match self.present.as_ref() == Some(route) {
            true => self.idle.take(),
            false => None,
        }
    }

    /// Somebody has answered; true if it is another one than before.
    pub(super) fn answered(&mut self, route: &Route, connection: Connection) -> bool {
        let is_other = self.present.as_ref() != Some(route);
        self.present = Some(route.clone());
        self.idle = Some(connection);
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_asked_once_the_likeliest_first_and_nobody_asks_himself() {
        let route = |node: &str| Route { node: node.into(), address: format!("{node}:1") };
        let mut ways = Ways::default();
        let named = [route("home"), route("b")];
        let asked = |ways: &Ways, own| {
            let all = ways.all(&named, own);
            all.iter().map(|route| route.node.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked(&ways, None), "home b");
        ways.kept.leader = Some(route("c"));
        ways.kept.arbiters = vec![route("a"), route("b"), route("c")];
        assert_eq!(asked(&ways, None), "c a b home");
        ways.present = Some(route("a"));
        assert_eq!(asked(&ways, Some("b:1")), "a c home");
    }
}
