//! What a node has found damaged at copies of mirrored volumes that it leads.

use std::sync::atomic::AtomicU64;

use cards_array::group::Extent;

use crate::damage::Damage as Known;

/// What this node has found as the primary of a group, since its daemon started.
#[derive(Debug, Default)]
pub(crate) struct GroupDamage {
    /// Units that no copy in sync has, until they are written anew.
    pub(crate) known: Known,
    /// Units that were written anew from another copy.
    pub(crate) repaired: AtomicU64,
    /// Units that no copy in sync had, each as often as it was found.
    pub(crate) unrepaired: AtomicU64,
}

/// Units of a copy that did not fit their checksums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) column: u8,
    pub(crate) extent: Extent,
    pub(crate) is_repaired: bool,
}
