//! A primary whose term has begun writes nothing while cards of an earlier term may be used: until every other node has said
//! that it knows the new one, or they have run out.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{ControlMessage, DiskWork, Instant, NodeId, PgId};

use super::cards::Cards;
use crate::faults::{Seen, Word};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Grace {
    /// The life of each node that was seen last, and when it began.
    lives: BTreeMap<NodeId, (u64, Instant)>,
    /// The last term of each volume, who is its primary, and when it began at the earliest.
    terms: BTreeMap<PgId, (u64, NodeId, Instant)>,
    /// Terms that each node knows.
    known: BTreeSet<(NodeId, PgId, u64)>,
}

impl Grace {
    /// The node is in this life now.
    pub(super) fn lives(&mut self, node: NodeId, life: u64, now: Instant) {
        if self.lives.get(&node).is_none_or(|&(last, _)| last != life) {
            self.lives.insert(node, (life, now));
        }
    }

    /// The volume is in this term now, of this node.
    pub(super) fn term(&mut self, volume: PgId, epoch: u64, primary: NodeId, now: Instant) {
        if self.terms.get(&volume).is_none_or(|&(last, ..)| last != epoch) {
            self.terms.insert(volume, (epoch, primary, now));
        }
    }

    /// When the present life of a node began.
    pub(super) fn began(&self, node: NodeId) -> Option<Instant> {
        self.lives.get(&node).map(|&(_, began)| began)
    }

    /// Judges a write that begins. True when cards of the last life might still have been used, for all time tells.
    pub(super) fn saw(&mut self, cards: &Cards, nodes: u16, seen: &Seen) -> Result<bool, String> {
        match *seen {
            Seen::Sent { from, word: Word::Control(ControlMessage::Seen { ref terms }), .. } => {
                self.known.extend(terms.iter().map(|&(volume, epoch)| (from, volume, epoch)));
                Ok(false)
            }
            Seen::Disk { at, volume, work: DiskWork::Command { kind, .. }, .. } if !kind.is_flush() => {
                let Some(&(epoch, primary, began)) = self.terms.get(&volume) else { return Ok(false) };
                if epoch == 1 || at >= cards.trusted(primary, began) {
                    return Ok(false);
                }
                let ignorant =
                    |node: &NodeId| *node != primary && !self.known.contains(&(*node, volume, epoch));
                match (0..nodes).map(NodeId).find(ignorant) {
                    None => Ok(true),
                    Some(node) => Err(format!(
                        "{primary:?} writes {volume:?} at {at:?}, in a term that began at {began:?} and that {node:?} does not know of"
                    )),
                }
            }
            _ => Ok(false),
        }
    }
}
