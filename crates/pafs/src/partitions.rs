//! The places of all nodes, dealt out to the servers.

use alloc::vec;
use alloc::vec::Vec;

use cards_core::NodeId;

use super::{Frame, Lines};

/// The partitions at boot (PAFS-3): the frames of all nodes, dealt out to the servers one by one.
///
/// `caches` has the frames of each node. Frames are dealt slot by slot over all nodes, beginning one node later
/// with each slot; so every server gets an equal share (within one frame), spread over all nodes, even with as
/// many servers as nodes. With parity, frames that hold no blocks ([`Lines::holds_blocks`]) are left out.
#[must_use]
pub fn deal(caches: &[u32], parity: Option<&Lines>, servers: u16) -> Vec<Vec<Frame>> {
    let mut partitions = vec![Vec::new(); usize::from(servers.max(1))];
    let nodes = caches.len();
    let mut dealt = 0;
    for slot in 0..caches.iter().copied().max().unwrap_or(0) {
        for i in 0..nodes {
            let node = (i + slot as usize) % nodes;
            let frame = Frame::new(NodeId(node as u16), slot);
            let usable = slot < caches[node] && parity.is_none_or(|lines| lines.holds_blocks(frame));
            if usable {
                let count = partitions.len();
                partitions[dealt % count].push(frame);
                dealt += 1;
            }
        }
    }
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// PAFS-3: equal shares, on all nodes, each frame once.
    #[test]
    fn partitions_are_equal_and_spread_over_all_nodes() {
        let partitions = deal(&[8; 4], None, 4);
        for partition in &partitions {
            assert_eq!(partition.len(), 8);
            for node in 0..4 {
                assert_eq!(partition.iter().filter(|f| f.node.0 == node).count(), 2);
            }
        }
        assert_eq!(partitions.concat().into_iter().collect::<BTreeSet<_>>().len(), 32);
    }

    #[test]
    fn unequal_caches_and_any_number_of_servers_share_within_one_frame() {
        for servers in 1..9 {
            let sizes: Vec<usize> = deal(&[5, 1, 7], None, servers).iter().map(Vec::len).collect();
            assert_eq!(sizes.iter().sum::<usize>(), 13);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn parity_buffers_are_dealt_to_nobody() {
        let lines = Lines::new(&[8; 4], 4);
        let frames = deal(&[8; 4], Some(&lines), 4).concat();
        assert_eq!(frames.len(), 24);
        assert!(frames.iter().all(|&frame| lines.parity_of(frame).is_some_and(|parity| parity != frame)));
    }
}
