//! Parity servers: what is in the parity buffers, and what they give back (section 3.3).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use cards_core::{BlockId, NodeId};

use super::{Frame, Lines};

/// The parity server of one node (PAFS-19): it keeps the parity buffers that lie there.
///
/// A parity buffer is the exclusive or of the *covered* buffers of its line: those that have been modified and are
/// not on their disks yet. The bytes are the driver's. A write goes (PAFS-16):
///
/// ```text
/// cache server                    parity server
///    | -- will modify ---------------> | copies the buffer as it is (will_modify)
///    | <------------------------ ready |
///    | copies client -> buffer         | copies client -> its copy; parity ^= before, ^= after (covered)
///    | <---------------------- covered |
///    | answers the client              |
///    : later, block on its disk        :
///    | -- uncover -------------------> | copies the buffer; parity ^= buffer (uncovered)
///    | <-------------------- uncovered |
/// ```
///
/// `before` counts only if the buffer was covered already. The parity buffer changes at once, when all bytes are
/// there; so it is consistent at every moment, and with it what [`Self::restore`] says.
#[derive(Debug, Default)]
pub struct ParityServer {
    /// The buffers in some line's parity, and the blocks they hold.
    covered: BTreeMap<Frame, BlockId>,
    /// Buffers that are being modified: this server has a copy from before.
    saved: BTreeMap<Frame, BlockId>,
}

/// Something to be exclusive-ored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A parity buffer.
    Parity(Frame),
    /// A buffer of a cache server.
    Buffer(Frame),
    /// The parity server's copy of a buffer that is being modified.
    Saved(Frame),
}

/// A block that was lost with its node, and how to get it back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restore {
    /// To be written to its disk (PAFS-17).
    pub block: BlockId,
    /// Its contents: the exclusive or of all these.
    pub from: Vec<Operand>,
}

impl ParityServer {
    /// A buffer will be modified: the driver copies it as it is, then answers that it is ready.
    pub fn will_modify(&mut self, frame: Frame, block: BlockId) {
        let before = self.saved.insert(frame, block);
        assert!(before.is_none(), "{frame:?} is modified by one write at a time");
    }

    /// The driver has the modified bytes. Returns whether the saved copy was in the parity and must leave it
    /// as the modified one enters; the driver does both at once, then answers that the buffer is covered.
    pub fn covered(&mut self, frame: Frame) -> bool {
        let Some(block) = self.saved.remove(&frame) else {
            unreachable!("{frame:?} was announced before it was modified");
        };
        self.covered.insert(frame, block).is_some()
    }

    /// The driver has the contents of a buffer that is on its disk, takes them out of the parity, and answers.
    pub fn uncovered(&mut self, frame: Frame) {
        let before = self.covered.remove(&frame);
        assert!(before.is_some(), "only a covered buffer leaves the parity");
    }

    /// The covered buffers.
    pub fn buffers(&self) -> impl Iterator<Item = (Frame, BlockId)> + '_ {
        self.covered.iter().map(|(&frame, &block)| (frame, block))
    }

    /// How many buffers are covered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.covered.len()
    }

    /// Whether no buffer is covered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.covered.is_empty()
    }

    /// Bytes of its tables, about.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        (self.covered.len() + self.saved.len()) * size_of::<(Frame, BlockId)>() * 3 / 2
    }

    /// A node is dead: the blocks that were covered there, and how to get them back. Writes that have not been
    /// acknowledged are lost; of a buffer that is being modified elsewhere the saved copy counts.
    #[must_use]
    pub fn restore(&self, dead: NodeId, lines: &Lines) -> Vec<Restore> {
        let lost = self.buffers().filter(|(frame, _)| frame.node == dead);
        let restore = |(lost, block): (Frame, BlockId)| {
            let others = lines.line(lost).filter(|f| *f != lost && self.covered.contains_key(f));
            let operand = |frame| match self.saved.contains_key(&frame) {
                true => Operand::Saved(frame),
                false => Operand::Buffer(frame),
            };
            let parity = lines.parity_of(lost).map(Operand::Parity);
            Restore { block, from: parity.into_iter().chain(others.map(operand)).collect() }
        };
        lost.map(restore).collect()
    }

    /// A node with parity buffers is dead: the lines that have lost theirs, each with the frame that takes its place
    /// (the next node's; a block in it must be written to its disk and go) and the buffers to cover anew. `covered` are
    /// the covered buffers of all cache servers, `alive` says which nodes are.
    #[must_use]
    pub fn recompute(
        dead: NodeId,
        lines: &Lines,
        covered: impl Iterator<Item = Frame>,
        alive: impl Fn(NodeId) -> bool,
    ) -> Vec<(Frame, Vec<Frame>)> {
        let bare = |frame: &Frame| lines.parity_of(*frame).is_some_and(|parity| parity.node == dead);
        let covered: BTreeSet<Frame> = covered.filter(|frame| frame.node != dead).filter(bare).collect();
        let mut by_line: BTreeMap<Frame, Vec<Frame>> = BTreeMap::new();
        for &frame in &covered {
            let line = || lines.line(frame).filter(|f| f.node != dead && alive(f.node));
            let next = line().find(|f| f.node > dead).or_else(|| line().next());
            if let Some(parity) = next {
                let others = by_line.entry(parity).or_default();
                if frame != parity {
                    others.push(frame);
                }
            }
        }
        by_line.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;

    const fn frame(node: u16) -> Frame {
        Frame::new(NodeId(node), 0)
    }

    const fn block(index: u32) -> BlockId {
        BlockId::new(PgId(0), index)
    }

    fn cover(parity: &mut ParityServer, node: u16) -> bool {
        parity.will_modify(frame(node), block(node.into()));
        parity.covered(frame(node))
    }

    /// PAFS-17. The parity buffer of slot 0 is on node 0.
    #[test]
    fn a_lost_block_is_the_parity_of_what_remains() {
        let lines = Lines::new(&[1; 4], 4);
        let mut parity = ParityServer::default();
        assert!(!cover(&mut parity, 1));
        assert!(!cover(&mut parity, 2));
        assert!(!cover(&mut parity, 3));
        assert!(cover(&mut parity, 3), "it was covered before");
        parity.uncovered(frame(2));
        let from = [Operand::Parity(frame(0)), Operand::Buffer(frame(3))].to_vec();
        assert_eq!(parity.restore(NodeId(1), &lines), [Restore { block: block(1), from }]);
        assert!(parity.restore(NodeId(2), &lines).is_empty(), "it is on its disk");
        assert_eq!(parity.len(), 2);
    }

    /// PAFS-16: this is what step 2 is good for.
    #[test]
    fn of_a_buffer_that_is_being_modified_the_saved_copy_counts() {
        let lines = Lines::new(&[1; 3], 3);
        let mut parity = ParityServer::default();
        cover(&mut parity, 1);
        cover(&mut parity, 2);
        parity.will_modify(frame(2), block(2));
        let from = [Operand::Parity(frame(0)), Operand::Saved(frame(2))].to_vec();
        assert_eq!(parity.restore(NodeId(1), &lines), [Restore { block: block(1), from }]);
    }

    #[test]
    fn a_lost_parity_buffer_moves_to_the_next_node() {
        let lines = Lines::new(&[2; 4], 4);
        // Slot 0 has its parity on node 0, slot 1 on node 1.
        let covered = [frame(1), frame(3), Frame::new(NodeId(2), 1)];
        let plan = ParityServer::recompute(NodeId(0), &lines, covered.into_iter(), |node| node != NodeId(0));
        assert_eq!(plan, [(frame(1), [frame(3)].to_vec())]);
    }

    #[test]
    #[should_panic(expected = "one write at a time")]
    fn two_writes_do_not_modify_a_buffer_together() {
        let mut parity = ParityServer::default();
        parity.will_modify(frame(1), block(1));
        parity.will_modify(frame(1), block(1));
    }
}
