//! Which nodes may attach a disk of this one.

use std::collections::BTreeMap;

use cards_core::Access;
use serde::{Deserialize, Serialize};

use super::Mode;

/// Stands for the nodes that are not named.
const OTHERS: &str = "*";

/// What each node may do at most; who is not named and not meant by `*` may not attach the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Allow(pub BTreeMap<String, Mode>);

impl Allow {
    /// The nodes that are named.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|&node| node != OTHERS)
    }

    /// Every node may have a card.
    pub fn is_for_all(&self) -> bool {
        self.0.contains_key(OTHERS)
    }

    /// What a card of the node may do at most. None if it may have none.
    pub fn most(&self, node: &str) -> Option<Access> {
        let mode = self.0.get(node).or_else(|| self.0.get(OTHERS))?;
        Some(mode.access(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_is_not_one_of_the_others() {
        let allow: Allow = toml::from_str("n2 = \"exclusive\"\nn3 = \"ro\"\n\"*\" = \"rw\"").unwrap();
        let most = |node| allow.most(node);
        assert_eq!(most("n2"), Some(Access::Exclusive));
        assert_eq!(most("n3"), Some(Access::Read));
        assert_eq!(most("n4"), Some(Access::Write));
        assert_eq!(Allow::default().most("n4"), None);
    }
}
