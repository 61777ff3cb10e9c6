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
}

impl Registry {
    /// What that means, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let names = self.arbiters.join(", ");
        let leader = self.leader.as_ref().map(|leader| format!(", led by {leader}")).unwrap_or_default();
        let may_fail = match self.arbiters.len() {
            0 | 1 => {
                return format!(
                    "the registry is at {names} only, as in a cluster of fewer than three nodes: while that is away nobody joins, leaves or \
                     is declared dead"
                );
            }
            3 => "one of the three may fail".to_owned(),
            5 => "two of the five may fail".to_owned(),
            count => format!("{} of {count} may fail", (count - 1) / 2),
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
            Registry { leader: leader.map(str::to_owned), arbiters }.describe()
        };
        assert!(
            said(Some("n1"), &["n1"])
                .starts_with("the registry is at n1 only, as in a cluster of fewer than three")
        );
        assert_eq!(
            said(Some("n2"), &["n1", "n2", "n3"]),
            "the registry is at n1, n2, n3, led by n2: one of the three may fail"
        );
        assert_eq!(
            said(None, &["a", "b", "c", "d", "e"]),
            "the registry is at a, b, c, d, e: two of the five may fail"
        );
    }
}
