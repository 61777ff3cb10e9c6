//! Who takes a node's place without proof gets no card before that of the last process has run out: it may be alive.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{ControlMessage, Generation, Instant, NodeId, PgId};

use super::cards::{Card, Cards};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Succession {
    /// Lives that cannot prove that the one before has ended.
    unproven: BTreeSet<(NodeId, u64)>,
    /// The life of its node that each card was granted to.
    lives: BTreeMap<(PgId, Generation), u64>,
    /// Cards that their own node has given up.
    ended: BTreeSet<(PgId, Generation)>,
}

impl Succession {
    pub(super) fn unproven(&mut self, node: NodeId, life: u64) {
        self.unproven.insert((node, life));
    }

    /// A node in this life says something.
    pub(super) fn said(&mut self, cards: &Cards, from: NodeId, life: u64, message: &ControlMessage) {
        match *message {
            ControlMessage::Detach { volume, generation } => {
                self.ended.insert((volume, generation));
            }
            // Who asks for a card has none any more.
            ControlMessage::Attach { volume, .. } => {
                let card = cards.of(volume, from).map(|card| (volume, card.generation));
                self.ended.extend(card.filter(|card| self.lives.get(card) == Some(&life)));
            }
            _ => {}
        }
    }

    /// The answer to an attach after which its node has sent another: it takes no notice of it.
    pub(super) fn unwanted(&mut self, card: &Card) {
        self.ended.insert((card.volume, card.generation));
    }

    /// Judges a new card, granted at `at` to this life of its node, which had the card `before`. True when the life
    /// could not prove that the last one had ended.
    pub(super) fn granted(
        &mut self,
        at: Instant,
        life: u64,
        card: &Card,
        before: Option<&Card>,
    ) -> Result<bool, String> {
        self.lives.insert((card.volume, card.generation), life);
        // A disk node that has begun a new life itself knows no cards; it writes nothing until they have run out.
        let known = before.filter(|before| before.generation.life() == card.generation.life());
        let Some(before) = known.filter(|before| before.until != Instant::NEVER) else { return Ok(false) };
        let key = (before.volume, before.generation);
        let follows = self.lives.get(&key).is_some_and(|last| last + 1 == life);
        if !follows || !self.unproven.contains(&(card.node, life)) || self.ended.contains(&key) {
            return Ok(false);
        }
        if at < before.until {
            return Err(format!(
                "{:?} gets a card of {:?} at {at:?}, though its last process, of which nobody knows whether it is alive, may use {:?} until {:?}",
                card.node, card.volume, before.generation, before.until
            ));
        }
        Ok(true)
    }
}
