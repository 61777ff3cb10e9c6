//! Who may have cards: that, too, comes from outside.

use core::fmt;

use crate::ids::{NodeId, PgId};
use crate::volume::Access;

/// Says who may attach the volumes of a node. The node itself may: it has their disks.
pub trait Rights: fmt::Debug + Send + Sync {
    /// The most that a card of the node may do. None if it may have none.
    fn most(&self, volume: PgId, node: NodeId) -> Option<Access>;
}

/// Everybody may do everything.
#[derive(Clone, Copy, Debug)]
pub struct NoLimits;

impl Rights for NoLimits {
    fn most(&self, _volume: PgId, _node: NodeId) -> Option<Access> {
        Some(Access::Exclusive)
    }
}
