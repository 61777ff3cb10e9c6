//! Cards that are void while a kernel of this node still has pages of their volumes ([`crate::Output::Withdraw`]).
//!
//! A disk node that hears that a card is void no longer asks it before a write. So it hears nothing that says so until
//! the pages are gone: not that the node attaches anew, not that it detaches, and not that it knows of the disk node's
//! new life.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Control, ControlOutput};
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
            None => {
                let to = self.primary_of(volume);
                // One that an earlier primary has given is void if this node is the primary by now.
                if to != self.config.node {
                    self.push_send(to, ControlMessage::Detach { volume, generation });
                }
            }
        }
    }

    /// Tells a primary that its terms are known, and what was before them is void: of volumes whose pages are gone.
    pub(super) fn send_seen(&mut self, primary: NodeId, volumes: &[PgId]) {
        let known = volumes.iter().filter(|&&volume| !self.is_parting(volume));
        let terms: Vec<(PgId, u64)> =
            known.filter_map(|&volume| Some((volume, self.specs.get(&volume)?.epoch))).collect();
        if primary == self.config.node {
            return;
        }
        for terms in terms.chunks(ControlMessage::MAX_CARDS) {
            self.push_send(primary, ControlMessage::Seen { terms: terms.to_vec() });
        }
    }

    /// The pages are gone: what waited for that is said.
    pub(super) fn withdrawn(&mut self, volume: PgId) {
        let Some(given_back) = self.partings.open.remove(&volume) else { return };
        if let Some(generation) = given_back {
            self.send_detach(volume, generation);
        }
        self.send_attach(volume);
        self.send_seen(self.primary_of(volume), &[volume]);
    }
}
