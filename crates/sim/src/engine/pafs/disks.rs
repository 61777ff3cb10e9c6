//! Disk servers: one on the node of each disk (PAFS-1), which the cache servers ask by message and which copy blocks
//! from and to frames themselves.

use cards_core::BlockId;

use super::{Mail, Pafs, PafsEvent, Place, Step};
use crate::kernel::Kernel;

impl Pafs {
    /// A disk server is asked for a block.
    pub(super) fn read_disk(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place, block: BlockId) {
        let bytes = self.block_bytes.into();
        let at = kernel.model.disk_read(kernel.now(), block.volume.0, block.index.into(), 1, bytes);
        self.wait(kernel, at, Step::DiskRead(place, block));
    }

    /// It has read the block, and copies it to its frame.
    pub(super) fn fill(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place, block: BlockId) {
        let node = self.disk_node(kernel, block);
        let bytes = self.block_bytes.into();
        let at = kernel.model.copy(kernel.now(), node, node, place.frame.node.0, bytes);
        self.wait(kernel, at, Step::Filled(place, block));
    }

    /// A disk server is given a block: it copies it from its frame.
    pub(super) fn take_for_disk(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place, block: BlockId) {
        let node = self.disk_node(kernel, block);
        let bytes = self.block_bytes.into();
        let at = kernel.model.copy(kernel.now(), node, place.frame.node.0, node, bytes);
        self.wait(kernel, at, Step::Sent(place, block));
    }

    /// It has the block, and writes it; the cache server may use the buffer already.
    pub(super) fn write_disk(&mut self, kernel: &mut Kernel<PafsEvent>, place: Place, block: BlockId) {
        let bytes = self.block_bytes.into();
        let at = kernel.model.disk_write(kernel.now(), block.volume.0, block.index.into(), 1, bytes);
        if self.config.clean_is_written {
            self.wait(kernel, at, Step::Written(place, block));
        } else {
            self.tell_disk_done(kernel, block, Mail::Flushed(place), place);
        }
    }

    /// A disk server tells the cache server.
    pub(super) fn tell_disk_done(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        block: BlockId,
        mail: Mail,
        place: Place,
    ) {
        self.post(kernel, self.disk_node(kernel, block), self.node_of(place.server), mail);
    }
}
