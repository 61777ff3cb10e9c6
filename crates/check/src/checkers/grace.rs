//! A primary whose term has begun writes nothing while cards of an earlier term may be used: until every other node has said
//! that it knows the new one, or they have run out.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{ControlMessage, DiskWork, Instant, NodeId, PgId};

use super::cards::Cards;
use crate::faults::{Seen, Word};

/// The beginning of a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    pub(super) primary: NodeId,
    /// At the earliest.
    pub(super) at: Instant,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Grace {
    /// The last term of each volume, who is its primary, and when it began at the earliest.
    terms: BTreeMap<PgId, (u64, NodeId, Instant)>,
    /// Volumes whose last term is over.
    over: BTreeSet<PgId>,
    /// Terms that each node knows.
    known: BTreeSet<(NodeId, PgId, u64)>,
}

impl Grace {
    /// The volume is in this term now, of this node. The one before, if that was under way.
    pub(super) fn term(&mut self, volume: PgId, epoch: u64, primary: NodeId, now: Instant) -> Option<Began> {
        if self.terms.get(&volume).is_some_and(|&(last, ..)| last == epoch) {
            return None;
        }
        let before = self.end_term(volume);
        self.terms.insert(volume, (epoch, primary, now));
        self.over.remove(&volume);
        before
    }

    /// The volume's term is over, if it was not before.
    fn end_term(&mut self, volume: PgId) -> Option<Began> {
        let before = self.began(volume)?;
        self.over.insert(volume).then_some(before)
    }

    /// A node dies. The volumes whose terms are over with it.
    pub(super) fn died(&mut self, node: NodeId) -> Vec<(PgId, Began)> {
        let led = self.terms.iter().filter(|(_, term)| term.1 == node);
        let led: Vec<PgId> = led.map(|(&volume, _)| volume).collect();
        led.into_iter().filter_map(|volume| Some((volume, self.end_term(volume)?))).collect()
    }

    /// The last term of the volume.
    pub(super) fn began(&self, volume: PgId) -> Option<Began> {
        self.terms.get(&volume).map(|&(_, primary, at)| Began { primary, at })
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
