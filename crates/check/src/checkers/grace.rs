//! A disk node that has restarted writes nothing while cards of its last life may be used: until every other node has said
//! that it knows the new life, or they have run out.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{ControlMessage, DiskWork, Instant, NodeId};

use super::cards::Cards;
use crate::faults::{Seen, Word};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Grace {
    /// The life of each node that was seen last, and when it began.
    lives: BTreeMap<NodeId, (u64, Instant)>,
    /// The incarnation of each node that each other node knows.
    known: BTreeSet<(NodeId, NodeId, u64)>,
}

impl Grace {
    /// The node is in this life now.
    pub(super) fn lives(&mut self, node: NodeId, life: u64, now: Instant) {
        if self.lives.get(&node).is_none_or(|&(last, _)| last != life) {
            self.lives.insert(node, (life, now));
        }
    }

    /// When the present life of a node began.
    pub(super) fn began(&self, node: NodeId) -> Option<Instant> {
        self.lives.get(&node).map(|&(_, began)| began)
    }

    /// Judges a write that begins. True when cards of the last life might still have been used, for all time tells.
    pub(super) fn saw(&mut self, cards: &Cards, nodes: u16, seen: &Seen) -> Result<bool, String> {
        match *seen {
            Seen::Sent { from, to, word: Word::Control(ControlMessage::Seen { incarnation }), .. } => {
                self.known.insert((from, to, incarnation));
                Ok(false)
            }
            Seen::Disk { at, volume, work: DiskWork::Command { kind, .. }, .. } if !kind.is_flush() => {
                let disk_node = volume.disk_node();
                let Some(&(life, began)) = self.lives.get(&disk_node) else { return Ok(false) };
                if life == 1 || at >= cards.trusted(disk_node, began) {
                    return Ok(false);
                }
                let ignorant =
                    |node: &NodeId| *node != disk_node && !self.known.contains(&(*node, disk_node, life));
                match (0..nodes).map(NodeId).find(ignorant) {
                    None => Ok(true),
                    Some(node) => Err(format!(
                        "{disk_node:?} writes {volume:?} at {at:?}, in a life that began at {began:?} and that {node:?} does not know of"
                    )),
                }
            }
            _ => Ok(false),
        }
    }
}
