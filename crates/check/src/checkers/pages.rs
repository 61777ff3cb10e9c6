//! No page is used that was withdrawn, and a disk node hears that a card is void only when no page is left of it.
//!
//! That no page is old, and none is used when its card may have been given up, is judged with all other reads.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{ControlMessage, Generation, NodeId, PgId};
use cards_world::PageEvent;

use super::cards::Cards;
use crate::options::Options;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Pages {
    /// Volumes whose cards can be void.
    writable: BTreeSet<PgId>,
    /// The pages that there are, and the card they came with; at the primary there may be none.
    kept: BTreeMap<(NodeId, PgId), BTreeMap<u32, Option<Generation>>>,
}

impl Pages {
    pub(super) fn new(options: &Options) -> Self {
        let writable = options.world.volumes.iter().filter(|spec| !spec.read_only);
        Self { writable: writable.map(|spec| spec.id).collect(), kept: BTreeMap::new() }
    }

    /// Judges what happened to a page. True when there was something to judge.
    pub(super) fn happened(&mut self, cards: &Cards, event: &PageEvent) -> Result<bool, String> {
        match event {
            PageEvent::Filled(node, block) => {
                let card = cards.of(block.volume, *node).map(|card| card.generation);
                self.kept.entry((*node, block.volume)).or_default().insert(block.index, card);
                Ok(false)
            }
            PageEvent::Used(node, block) => {
                let kept = self.kept.get(&(*node, block.volume));
                match kept.is_some_and(|pages| pages.contains_key(&block.index)) {
                    true => Ok(true),
                    false => Err(format!("a kernel of {node:?} uses a page of {block:?} that was withdrawn")),
                }
            }
            PageEvent::Withdrawn(node, volume, blocks) => {
                if let Some(pages) = self.kept.get_mut(&(*node, *volume)) {
                    pages.retain(|block, _| !blocks.iter().any(|range| range.contains(block)));
                }
                Ok(false)
            }
            PageEvent::Cleared(node, volume, ..) => {
                self.kept.remove(&(*node, *volume));
                Ok(false)
            }
            PageEvent::Voided(..) => Ok(false),
        }
    }

    /// Judges what a node tells a disk node, which no longer asks a card that is void before it writes. True when the
    /// node has, or had, pages.
    pub(super) fn said(&self, from: NodeId, to: NodeId, message: &ControlMessage) -> Result<bool, String> {
        let of_node = self.kept.range((from, PgId(0))..=(from, PgId(u32::MAX)));
        let mut judged = false;
        for (&(_, volume), pages) in of_node.filter(|((_, volume), _)| self.writable.contains(volume)) {
            let is_void = |card: &Generation| match *message {
                // Who asks for a card has none any more.
                ControlMessage::Attach { volume: asked, .. } => asked == volume,
                ControlMessage::Detach { volume: given, generation } => {
                    given == volume && generation == *card
                }
                ControlMessage::Seen { ref terms } => {
                    terms.iter().any(|&(known, epoch)| known == volume && card.life() < epoch)
                }
                _ => false,
            };
            // What came without a card came in a term of this node's own.
            let left = pages.iter().find(|(_, card)| is_void(&card.unwrap_or_default()));
            if let Some((block, card)) = left {
                return Err(format!(
                    "{from:?} says {message:?} to {to:?}, but its kernel has a page of block {block} of {volume:?} under {card:?}"
                ));
            }
            judged = true;
        }
        Ok(judged)
    }
}
