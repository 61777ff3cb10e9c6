//! Who keeps the list of members.

use serde::{Deserialize, Serialize};

/// The nodes that keep the list of members, as one of them knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    /// The one that decides now, by name; none while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// All that keep it, by name.
    pub arbiters: Vec<String>,
    /// They are being changed: those that have kept it so far, and those that will, are both needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
}

impl Registry {
    /// What that means, for people, by how many nodes are up, and which of the nodes that keep it.
    #[must_use]
    pub fn describe(&self, up: usize, is_up: impl Fn(&str) -> bool) -> String {
        let names = self.arbiters.join(", ");
        let leader = self.leader.as_ref().map(|leader| format!(", led by {leader}")).unwrap_or_default();
        if self.changes {
            return format!(
                "the registry is being handed over, to or from {names}{leader}: until that is done none may fail"
            );
        }
        let count = self.arbiters.len();
        if count < 2 && up >= 3 {
            return format!(
                "the registry is at {names} only, though {up} nodes are up: while that is away nobody joins, leaves or is declared dead. If \
                 this stays so, restart the daemons of the other nodes, one after the other: after `cards cluster recover` a node that \
                 had a part of the earlier registry keeps one of this after its next start"
            );
        }
        if count < 2 {
            return format!(
                "the registry is at {names} only, as in a cluster of fewer than three nodes: while that is away nobody joins, leaves or \
                 is declared dead"
            );
        }
        let down: Vec<&str> = self.arbiters.iter().map(String::as_str).filter(|name| !is_up(name)).collect();
        let are = if down.len() == 1 { "is" } else { "are" };
        let down = (down.len(), format!("{} {are} down", down.join(", ")));
        let may_fail = match ((count - 1) / 2).checked_sub(down.0) {
            None => {
                let down = down.1;
                return format!(
                    "the registry is at {names}, and {down}: nobody joins, leaves or is declared dead until more than half are up"
                );
            }
            Some(0) => format!("{}, and no other may fail", down.1),
            Some(left) if down.0 > 0 => format!("{}, and {left} more may fail", down.1),
            Some(_) if count == 3 => "one of the three may fail".to_owned(),
            Some(_) if count == 5 => "two of the five may fail".to_owned(),
            Some(left) => format!("{left} of {count} may fail"),
        };
        format!("the registry is at {names}{leader}: {may_fail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_may_fail() {
        let said = |leader: Option<&str>, arbiters: &[&str]| {
            let arbiters = arbiters.iter().map(|name| (*name).to_owned()).collect();
            Registry { leader: leader.map(str::to_owned), arbiters, changes: false }
                .describe(2, |name| !name.ends_with('-'))
        };
        assert!(
            said(Some("n1"), &["n1"])
                .starts_with("the registry is at n1 only, as in a cluster of fewer than three")
        );
        let recovered = Registry { leader: Some("n2".into()), arbiters: vec!["n2".into()], changes: false };
        let text = recovered.describe(3, |_| true);
        assert!(
            text.contains("at n2 only, though 3 nodes are up") && text.contains("restart the daemons"),
            "{text}"
        );
        assert_eq!(
            said(Some("n2"), &["n1", "n2", "n3"]),
            "the registry is at n1, n2, n3, led by n2: one of the three may fail"
        );
        assert_eq!(
            said(None, &["a", "b", "c", "d", "e"]),
            "the registry is at a, b, c, d, e: two of the five may fail"
        );
        assert_eq!(
            said(Some("n2"), &["n1", "n2", "n3-"]),
            "the registry is at n1, n2, n3-, led by n2: n3- is down, and no other may fail"
        );
        assert_eq!(
            said(Some("a"), &["a", "b", "c", "d", "e-"]),
            "the registry is at a, b, c, d, e-, led by a: e- is down, and 1 more may fail"
        );
        assert_eq!(
            said(Some("n2-"), &["n1", "n2-", "n3-"]),
            "the registry is at n1, n2-, n3-, and n2-, n3- are down: nobody joins, leaves or is declared dead until more than half are up"
        );
        let arbiters = vec!["n1".to_owned(), "n2".to_owned()];
        assert_eq!(
            Registry { leader: Some("n1".into()), arbiters, changes: true }.describe(2, |_| true),
            "the registry is being handed over, to or from n1, n2, led by n1: until that is done none may fail"
        );
    }
}
