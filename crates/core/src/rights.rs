//! Who may have cards: that, too, comes from outside.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::fmt;

use crate::ids::{NodeId, PgId};
use crate::volume::Access;

/// Says who may attach the volumes of a node. The node itself may: it has their disks.
pub trait Rights: fmt::Debug + Send + Sync {
    /// The most that a card of the node may do. None if it may have none.
    fn most(&self, volume: PgId, node: NodeId) -> Option<Access>;

    /// The nodes that may have a card, however little it may do.
    fn allowed(&self, volume: PgId) -> Allowed;
}

/// The nodes that may have a card of a volume, by the word of its primary. Who has copies gives them to nobody else: not when
/// asked, and not to make room.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Allowed {
    /// Every member, those that are yet to come too.
    #[default]
    All,
    /// These, and the primary.
    Only(Arc<BTreeSet<NodeId>>),
}

impl Allowed {
    /// Whether the node is one of them. Of the primary it is not said.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        match self {
            Self::All => true,
            Self::Only(nodes) => nodes.contains(&node),
        }
    }
}

/// Everybody may do everything.
#[derive(Clone, Copy, Debug)]
pub struct NoLimits;

impl Rights for NoLimits {
    fn most(&self, _volume: PgId, _node: NodeId) -> Option<Access> {
        Some(Access::Exclusive)
    }

    fn allowed(&self, _volume: PgId) -> Allowed {
        Allowed::All
    }
}
