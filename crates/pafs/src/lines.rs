//! Which buffers protect each other: parity lines, as in a RAID of level 5 (PAFS-15).

use alloc::vec::Vec;

use cards_core::NodeId;

use super::Frame;

/// The parity lines of a cluster, the same at every node.
///
/// Nodes form groups of consecutive numbers. The frames with the same slot at the nodes of a group are a line, so no
/// two of them are on one node. One of them is the parity buffer, at another node for each slot. A frame without a
/// partner (of caches of different sizes) is in no line and holds no blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lines {
    caches: Vec<u32>,
    /// Where each group begins, and the number of nodes.
    begins: Vec<u16>,
    /// By group, then by slot: the node of the parity buffer.
    parity: Vec<Vec<NodeId>>,
}

impl Lines {
    /// Lines over at most `width` (at least 2) nodes; `caches` has the frames of each node. If one node would
    /// remain alone, the last line is one wider.
    #[must_use]
    pub fn new(caches: &[u32], width: u16) -> Self {
        let nodes = caches.len() as u16;
        let mut begins: Vec<u16> = (0..nodes).step_by(usize::from(width.max(2))).collect();
        if begins.len() > 1 && begins.last().is_some_and(|&begin| nodes - begin < 2) {
            begins.pop();
        }
        begins.push(nodes);
        let group = |bounds: &[u16]| {
            let caches = &caches[usize::from(bounds[0])..usize::from(bounds[1])];
            let mut sizes = caches.to_vec();
            sizes.sort_unstable();
            // Slots beyond the second largest cache have no partner.
            let slots = sizes.len().checked_sub(2).map_or(0, |second| sizes[second]);
            let node_of = |slot: u32| {
                let members = || (bounds[0]..).zip(caches).filter(|(_, cache)| **cache > slot);
                let place = slot as usize % members().count();
                members().nth(place).map_or(NodeId(bounds[0]), |(node, _)| NodeId(node))
            };
            (0..slots).map(node_of).collect()
        };
        let parity = begins.windows(2).map(group).collect();
        Self { caches: caches.to_vec(), begins, parity }
    }

    fn group(&self, node: NodeId) -> usize {
        self.begins.partition_point(|&begin| begin <= node.0) - 1
    }

    /// The parity buffer of a frame's line (itself, if it is that); none if it is in no line.
    #[must_use]
    pub fn parity_of(&self, frame: Frame) -> Option<Frame> {
        let node = self.parity[self.group(frame.node)].get(frame.slot as usize)?;
        Some(Frame::new(*node, frame.slot))
    }

    /// Whether blocks may be kept in a frame: it is in a line, and not the line's parity buffer.
    #[must_use]
    pub fn holds_blocks(&self, frame: Frame) -> bool {
        self.parity_of(frame).is_some_and(|parity| parity != frame)
    }

    /// All frames of a frame's line, the parity buffer too.
    pub fn line(&self, frame: Frame) -> impl Iterator<Item = Frame> + '_ {
        let group = self.group(frame.node);
        let nodes = self.begins[group]..self.begins[group + 1];
        let has_slot = move |&node: &u16| frame.slot < self.caches[usize::from(node)];
        let in_line = self.parity_of(frame).is_some();
        nodes.filter(has_slot).map(move |node| Frame::new(NodeId(node), frame.slot)).filter(move |_| in_line)
    }

    /// Frames that hold no blocks.
    #[must_use]
    pub fn overhead(&self) -> u64 {
        let frames = (0u16..).zip(&self.caches);
        frames
            .flat_map(|(node, &cache)| (0..cache).map(move |slot| Frame::new(NodeId(node), slot)))
            .filter(|&frame| !self.holds_blocks(frame))
            .count() as u64
    }

    /// Bytes of tables.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        let slots: usize = self.parity.iter().map(Vec::len).sum();
        slots * size_of::<NodeId>()
            + self.caches.len() * size_of::<u32>()
            + self.begins.len() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// PAFS-15: no two buffers of a line on one node, one of them is the parity buffer.
    fn assert_is_a_line(lines: &Lines, frame: Frame) {
        let line: Vec<Frame> = lines.line(frame).collect();
        let nodes: BTreeSet<NodeId> = line.iter().map(|f| f.node).collect();
        assert_eq!(nodes.len(), line.len());
        let parity = lines.parity_of(frame);
        assert_eq!(parity.is_some(), line.len() >= 2);
        assert!(line.iter().all(|&f| lines.parity_of(f) == parity));
        if let Some(parity) = parity {
            assert!(line.contains(&parity) && line.contains(&frame));
        }
    }

    proptest! {
        #[test]
        fn every_frame_is_in_one_line_or_in_none(
            caches in prop::collection::vec(0u32..9, 1..12),
            width in 2u16..14,
        ) {
            let lines = Lines::new(&caches, width);
            for (node, &cache) in caches.iter().enumerate() {
                for slot in 0..cache {
                    assert_is_a_line(&lines, Frame::new(NodeId(node as u16), slot));
                }
            }
        }
    }

    /// PAFS-19: the parity buffers, and so the work of parity servers, are on all nodes alike.
    #[test]
    fn parity_buffers_rotate_over_the_nodes() {
        let lines = Lines::new(&[12; 6], 3);
        for node in 0..6 {
            let parity = (0..12).filter(|&slot| !lines.holds_blocks(Frame::new(NodeId(node), slot)));
            assert_eq!(parity.count(), 4);
        }
        assert_eq!(lines.overhead(), 24);
    }

    #[test]
    fn a_node_that_would_remain_alone_joins_the_line_before() {
        let lines = Lines::new(&[1; 7], 3);
        assert_eq!(lines.line(Frame::new(NodeId(6), 0)).count(), 4);
    }

    #[test]
    fn frames_beyond_the_second_largest_cache_hold_nothing() {
        let lines = Lines::new(&[4, 9, 6], 3);
        assert!((6..9).all(|slot| !lines.holds_blocks(Frame::new(NodeId(1), slot))));
        assert_eq!(lines.overhead(), 6 + 3);
    }
}
