//! Cards that are void while a kernel of this node still has pages of their volumes ([`crate::Output::Withdraw`]).
//!
//! A disk node that hears that a card is void no longer asks it before a write. So it hears nothing that says so until
//! the pages are gone: not that the node attaches anew, not that it detaches, and not that it knows of the disk node's
//! new life.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{Control, ControlOutput, volumes_of};
use crate::ids::{Generation, NodeId, PgId};
use crate::message::ControlMessage;
use crate::mistakes::{Mistake, makes};

/// See the module's head.
#[derive(Default)]
pub(super) struct Partings {
    /// Volumes of which pages are kept.
    kept: BTreeSet<PgId>,
    /// Volumes whose pages are being withdrawn, and the card that is then given back.
    open: BTreeMap<PgId, Option<Generation>>,
    /// Lives of disk nodes that are acknowledged when no volume of theirs is in `open`.
    seen: BTreeMap<NodeId, u64>,
}

impl Control {
    pub(super) fn pages_kept(&mut self, volume: PgId, kept: bool) {
        if kept {
            self.partings.kept.insert(volume);
        } else {
            self.partings.kept.remove(&volume);
            self.withdrawn(volume);
        }
    }

    pub(super) fn is_parting(&self, volume: PgId) -> bool {
        self.partings.open.contains_key(&volume)
    }

    /// The card is void from now on.
    pub(super) fn part(&mut self, volume: PgId) {
        let has_pages = self.partings.kept.contains(&volume) && !makes(Mistake::KeepPagesAfterSuspension);
        if has_pages && !self.is_parting(volume) {
            self.partings.open.insert(volume, None);
            self.outputs.push_back(ControlOutput::Withdraw { volume });
        }
    }

    pub(super) fn send_detach(&mut self, volume: PgId, generation: Generation) {
        match self.partings.open.get_mut(&volume) {
            Some(given_back) => *given_back = Some(generation),
            None => self.push_send(volume.disk_node(), ControlMessage::Detach { volume, generation }),
        }
    }

    /// Tells a disk node that its life is known, and what was before it is void.
    pub(super) fn send_seen(&mut self, node: NodeId, incarnation: u64) {
        if self.partings.open.range(volumes_of(node)).next().is_some() {
            self.partings.seen.insert(node, incarnation);
        } else {
            self.push_send(node, ControlMessage::Seen { incarnation });
        }
    }

    /// The pages are gone: what waited for that is said.
    pub(super) fn withdrawn(&mut self, volume: PgId) {
        let Some(given_back) = self.partings.open.remove(&volume) else { return };
        if let Some(generation) = given_back {
            self.send_detach(volume, generation);
        }
        self.send_attach(volume);
        let node = volume.disk_node();
        if let Some(incarnation) = self.partings.seen.remove(&node) {
            self.send_seen(node, incarnation);
        }
    }
}
