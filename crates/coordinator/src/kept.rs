//! Who keeps a registry, as one of the nodes knows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::History;

/// A node of the cluster, and where it is reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Route {
    /// Its name; empty if only the address is known.
    pub node: String,
    /// `host:port`; empty if only its name is known, or what has become of it.
    pub address: String,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.node.as_str(), self.address.as_str()) {
            ("", address) => f.write_str(address),
            (node, "") => f.write_str(node),
            (node, address) => write!(f, "{node} ({address})"),
        }
    }
}

/// Who keeps a registry.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Which registry it is; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Which version of the register says so: the higher one is newer.
    pub version: u64,
    /// The node that leads; it may not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Route>,
    /// The arbiters, in the order of their names, and while they change the next ones too. Empty if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arbiters: Vec<Route>,
    /// The arbiters are being changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// The registries that it goes on from, of which most parts were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub succeeds: Vec<History>,
}

impl Kept {
    /// Whether this is kept of a registry that has taken the place of that one.
    #[must_use]
    pub fn has_succeeded(&self, other: Option<History>) -> bool {
        other.is_some_and(|other| self.succeeds.contains(&other))
    }

    /// How many of the arbiters may fail at a time without anything of the registry coming to a stop.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.arbiters.len().saturating_sub(1) / 2
    }

    /// This, or the other if that is newer. What is of another registry is not, unless that succeeds this one.
    pub(crate) fn learn(&mut self, other: &Self) -> bool {
        let is_successor = other.has_succeeded(self.history);
        let is_other = self.history.is_some() && other.history != self.history && !is_successor;
        let is_news = !other.arbiters.is_empty()
            && !is_other
            && (self.arbiters.is_empty() || is_successor || other.version > self.version)
            && *self != *other;
        if is_news {
            *self = other.clone();
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(version: u64, leader: &str, arbiters: &[&str]) -> Kept {
        let route = |node: &str| Route { node: node.into(), address: format!("{node}:1") };
        let arbiters = arbiters.iter().map(|node| route(node)).collect();
        let (history, leader) = (Some(History(7)), Some(route(leader)));
        Kept { history, version, leader, arbiters, ..Kept::default() }
    }

    #[test]
    fn the_newer_word_counts_and_none_of_another_registry() {
        let mut known = Kept::default();
        assert!(known.learn(&kept(3, "a", &["a", "b", "c"])));
        assert!(!known.learn(&kept(2, "b", &["b"])), "older");
        assert!(!known.learn(&Kept { version: 9, ..Kept::default() }), "from who knows nothing");
        assert!(
            !known.learn(&Kept { history: Some(History(8)), ..kept(9, "b", &["b"]) }),
            "another registry"
        );
        let successor = Kept {
            history: Some(History(8)),
            succeeds: vec![History(6), History(7)],
            ..kept(1, "d", &["d"])
        };
        let (mut follows, before) = (known.clone(), known.clone());
        assert!(follows.learn(&successor), "of its successor");
        assert!(!follows.learn(&before) && follows == successor, "there is no way back");
        assert!(known.learn(&kept(4, "b", &["a", "b", "c"])));
        assert_eq!(known.leader.as_ref().map(ToString::to_string).as_deref(), Some("b (b:1)"));
    }

    #[test]
    fn a_minority_may_fail() {
        for (arbiters, spare) in [(0, 0), (1, 0), (2, 0), (3, 1), (5, 2)] {
            let names = ["a", "b", "c", "d", "e"];
            assert_eq!(kept(1, "a", &names[..arbiters]).spare(), spare);
        }
    }
}
