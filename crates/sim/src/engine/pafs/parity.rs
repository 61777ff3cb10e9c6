//! Parity servers: messages by ports, data by copies (PAFS-16). The exclusive or itself costs nothing.

use cards_core::BlockId;

use super::{Mail, Pafs, PafsEvent, Place, Step};
use crate::kernel::{IoToken, Kernel};

impl Pafs {
    /// A buffer will be modified: the parity server copies all of it.
    pub(super) fn save(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        place: Place,
        block: BlockId,
        token: IoToken,
    ) {
        let node = self.parity_node(place.frame);
        self.parities[usize::from(node)].will_modify(place.frame, block);
        let at = self.copy_to_parity(kernel, place, node);
        self.wait(kernel, at, Step::Saved(place, block, token));
    }

    fn copy_to_parity(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        place: Place,
        node: u16,
    ) -> cards_core::Instant {
        let bytes = self.block_bytes.into();
        kernel.model.copy(kernel.now(), node, place.frame.node.0, node, bytes)
    }

    /// It has: the cache server may go on, and it fetches the client's bytes for itself.
    pub(super) fn saved(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        place: Place,
        block: BlockId,
        token: IoToken,
    ) {
        let node = self.parity_node(place.frame);
        self.post(kernel, node, self.node_of(place.server), Mail::Ready(place));
        let at = self.copy_from_client(kernel, node, token, block, node);
        self.wait(kernel, at, Step::Copied(place));
    }

    /// The parity is up to date.
    pub(super) fn copied(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place) {
        let node = self.parity_node(place.frame);
        self.parities[usize::from(node)].covered(place.frame);
        self.counts.covered_writes += 1;
        self.post(kernel, node, self.node_of(place.server), Mail::Covered(place));
    }

    /// A buffer is on its disk: its contents leave the parity.
    pub(super) fn take_from_parity(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place) {
        let node = self.parity_node(place.frame);
        let at = self.copy_to_parity(kernel, place, node);
        self.wait(kernel, at, Step::Removed(place));
    }

    /// They have left.
    pub(super) fn removed(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place) {
        let node = self.parity_node(place.frame);
        self.parities[usize::from(node)].uncovered(place.frame);
        self.post(kernel, node, self.node_of(place.server), Mail::Uncovered(place));
    }
}
