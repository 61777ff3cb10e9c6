//! How much survives the death of a node.

use cards_core::NodeId;

/// The levels of fault tolerance (PAFS-18; section 3.3 of the paper).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// None: what the syncer has not written yet is lost with its node.
    #[default]
    A,
    /// Blocks cached on another node than their writer's are covered by parity. A block on its writer's own node
    /// is lost with that node, which is taken to be no loss to anyone else.
    B,
    /// All dirty blocks are covered.
    C,
}

impl Level {
    /// The level with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "A" | "a" => Some(Self::A),
            "B" | "b" => Some(Self::B),
            "C" | "c" => Some(Self::C),
            _ => None,
        }
    }

    /// Whether a write of a client on `writer` must be covered when its buffer lies on `holder`.
    #[must_use]
    pub fn covers(self, writer: NodeId, holder: NodeId) -> bool {
        match self {
            Self::A => false,
            Self::B => writer != holder,
            Self::C => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PAFS-18: two objects of a parallel make, each on the node that compiled it: B covers neither, C both.
    #[test]
    fn what_a_writer_keeps_on_its_own_node_is_covered_at_c_only() {
        let (here, there) = (NodeId(1), NodeId(2));
        assert_eq!([Level::A, Level::B, Level::C].map(|l| l.covers(here, here)), [false, false, true]);
        assert_eq!([Level::A, Level::B, Level::C].map(|l| l.covers(here, there)), [false, true, true]);
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(
            ["A", "b", "C", "D", ""].map(Level::parse),
            [Some(Level::A), Some(Level::B), Some(Level::C), None, None]
        );
    }
}
