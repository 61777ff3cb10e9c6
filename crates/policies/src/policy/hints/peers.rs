//! What a node believes of the ages of other nodes' oldest blocks.

use alloc::vec::Vec;

use cards_core::policy::Context;
use cards_core::{BlockId, Duration, Instant, NodeId, Note};

use super::OLDEST;

#[derive(Default)]
pub(super) struct Peers {
    of: Vec<Peer>,
}

#[derive(Clone, Copy, Default)]
struct Peer {
    /// When its oldest block was used last, going by what it said last.
    oldest_used: Option<Instant>,
    /// The binary logarithm of what it was told of this node's age, plus one.
    told: u8,
    /// Blocks sent to it; it may have no card of the volume and will never answer.
    stored: u8,
}

/// The node that is believed to have the oldest block.
pub(super) struct Guess {
    pub(super) node: NodeId,
    /// The block's age.
    pub(super) age_ms: u64,
}

/// Blocks sent to a node of which nothing was ever heard.
const TRIALS: u8 = 4;

impl Peers {
    fn of(&mut self, node: NodeId) -> &mut Peer {
        let at = usize::from(node.0);
        if at >= self.of.len() {
            self.of.resize(at + 1, Peer::default());
        }
        &mut self.of[at]
    }

    /// A node has sent the age of its oldest block.
    pub(super) fn heard(&mut self, cx: &Context<'_>, node: NodeId, oldest_ms: u32) {
        let age = Duration::from_millis(u64::from(oldest_ms));
        let used = Instant(cx.now().since(Instant(0)).saturating_sub(age).as_nanos() as u64);
        self.of(node).oldest_used = Some(used);
    }

    pub(super) fn stored_at(&mut self, node: NodeId) {
        let peer = self.of(node);
        peer.stored = peer.stored.saturating_add(1);
    }

    /// Tells a node that stores here how old this node's oldest block is, if it has halved or doubled since.
    pub(super) fn tell(&mut self, cx: &mut Context<'_>, block: BlockId, node: NodeId) {
        let oldest = cx.tail().next();
        let age_ms = oldest.map_or(0, |oldest| cx.age_ms(oldest));
        let told = age_ms.checked_ilog2().map_or(1, |log| log as u8 + 2);
        let (capacity, resident) = cx.capacity();
        let peer = self.of(node);
        // That there are free places every message says.
        if resident >= capacity && peer.told != told {
            peer.told = told;
            cx.note(node, block, Note { kind: OLDEST, value: u64::from(age_ms) });
        }
    }

    /// The best guess. Ties go round by the block.
    pub(super) fn oldest(&self, cx: &Context<'_>, block: BlockId) -> Option<Guess> {
        let nodes = cx.nodes().count() as u64;
        let turn = block.hash() % nodes.max(1);
        let candidate = |node: &NodeId| {
            let peer = self.of.get(usize::from(node.0)).copied().unwrap_or_default();
            *node != cx.me()
                && *node != cx.disk_node()
                && cx.is_up(*node)
                && (cx.free_at(*node) != u16::MAX || peer.stored < TRIALS)
        };
        let age_ms = |node: NodeId| {
            let used = self.of.get(usize::from(node.0)).and_then(|peer| peer.oldest_used);
            match used {
                _ if cx.free_at(node) > 0 => u64::MAX,
                // Full, and silent: maybe idle.
                None => u64::MAX - 1,
                Some(used) => cx.now().since(used).as_millis() as u64,
            }
        };
        cx.nodes()
            .filter(candidate)
            .map(|node| (age_ms(node), cx.free_at(node), (u64::from(node.0) + turn) % nodes, node))
            .max()
            .map(|(age_ms, _, _, node)| Guess { node, age_ms })
    }
}
