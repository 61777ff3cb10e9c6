//! Who has a volume for itself has it alone: until that ends no other card is attached and no other write accepted. A card
//! of which that is true again, for the same client, had nobody with write access in between.

use std::collections::BTreeMap;

use cards_core::{
    Access, Body, CommandKind, ControlMessage, Exclusivity, Generation, Instant, Message, NodeId, PgId,
    Refusal, RequestId, Stamp,
};

use super::cards::{Card, Cards};
use super::grace::Began;
use crate::faults::{Seen, Word};
use crate::history::Step;
use crate::workload::Ticket;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    held: BTreeMap<PgId, Held>,
    /// Who had a volume for itself when its disk node died.
    claims: BTreeMap<PgId, NodeId>,
    /// Clients that were told that they have a volume for themselves, and have not given it up: what they remember of it
    /// nobody withdraws. With the first other node that has had a card since which may write.
    alone: BTreeMap<(PgId, NodeId), Option<NodeId>>,
    /// The card with which a node first sent each command: it may be answered, also to a repetition, when the node has another.
    writes: BTreeMap<(NodeId, u16, RequestId), Generation>,
    /// The last request of each node for a card: it wants none that an earlier one gets it.
    asked: BTreeMap<(PgId, NodeId), RequestId>,
}

#[derive(Debug)]
struct Held {
    node: NodeId,
    generation: Generation,
    /// When its client was told; none yet.
    told: Option<Step>,
    /// The first write of this card in each shard that was answered.
    stamps: BTreeMap<u16, Stamp>,
}

/// Requests are numbered by the life that has made them.
pub(super) const fn life_of(request: RequestId) -> u64 {
    request.0 >> 20
}

impl Takeovers {
    /// A disk node grants a card, to a life that `lives`. True if a client goes on with it that had the volume for itself.
    pub(super) fn granted(
        &mut self,
        cards: &Cards,
        at: Instant,
        lives: bool,
        card: &Card,
    ) -> Result<bool, String> {
        let goes_on = match self.alone.get(&(card.volume, card.node)) {
            Some(Some(by)) if card.access == Access::Exclusive => {
                return Err(format!(
                    "{:?} goes on with {:?} for itself, which {by:?} could write meanwhile",
                    card.node, card.volume
                ));
            }
            since => since.is_some() && card.access == Access::Exclusive,
        };
        if card.access.may_write() {
            self.may_write(card.volume, card.node);
        }
        self.still_held(cards, at, card.volume);
        if let Some(held) = self.held.get(&card.volume).filter(|held| held.node != card.node) {
            return Err(format!(
                "{:?} gets a card of {:?}, which {:?} has for itself",
                card.node, card.volume, held.node
            ));
        }
        self.held.remove(&card.volume);
        if card.access == Access::Exclusive && lives {
            let (node, generation) = (card.node, card.generation);
            let held = Held { node, generation, told: None, stamps: BTreeMap::new() };
            self.held.insert(card.volume, held);
        }
        Ok(goes_on)
    }

    /// The node has a card that may write: at the primary's own node, or at another one.
    pub(super) fn may_write(&mut self, volume: PgId, node: NodeId) {
        let of_volume = (volume, NodeId(0))..=(volume, NodeId(u16::MAX));
        for ((_, other), by) in self.alone.range_mut(of_volume) {
            if *other != node {
                by.get_or_insert(node);
            }
        }
    }

    /// The node's client gives the volume up, or ends: the next one remembers nothing.
    pub(super) fn parted(&mut self, volume: PgId, node: NodeId) {
        self.alone.remove(&(volume, node));
    }

    /// The node's card of a group of copies is over, by the word of a primary; `known`: what primaries have noted. It may be only
    /// because another node was let in, whether that has heard of it or not.
    pub(super) fn evicted(
        &self,
        volume: PgId,
        node: NodeId,
        refusal: &Refusal,
        known: Exclusivity,
    ) -> Result<(), String> {
        let is_alone = self.alone.get(&(volume, node)) == Some(&None);
        let was_noted_last = known == Exclusivity::default() || known.writer.is_some_and(|w| w.0 == node);
        if is_alone && was_noted_last && *refusal == Refusal::Overtaken(None) {
            return Err(format!(
                "{node:?} had {volume:?} for itself, and a primary that does not know it gives its card up: {known:?}"
            ));
        }
        Ok(())
    }

    /// A client is told that it has the volume for itself, at the primary's own node or at another one.
    pub(super) fn begins(&mut self, ticket: &Ticket, generation: Generation, now: Step, is_own: bool) {
        let node = ticket.node;
        self.alone.insert((ticket.volume, node), None);
        if is_own {
            self.may_write(ticket.volume, node);
            let held = Held { node, generation, told: None, stamps: BTreeMap::new() };
            self.held.insert(ticket.volume, held);
        }
        let held = self.held.get_mut(&ticket.volume);
        if let Some(held) = held.filter(|held| held.node == node && held.generation == generation) {
            held.told = Some(now);
        }
    }

    /// The node has not asked for another card since that request.
    pub(super) fn wants(&self, volume: PgId, node: NodeId, request: RequestId) -> bool {
        self.asked.get(&(volume, node)).is_none_or(|&last| last <= request)
    }

    /// The process that has sent this request has sent another since.
    pub(super) fn asked_anew(&self, volume: PgId, node: NodeId, request: RequestId) -> bool {
        let last = self.asked.get(&(volume, node));
        last.is_some_and(|&last| last > request && life_of(last) == life_of(request))
    }

    /// The node gives its card up, or dies.
    pub(super) fn ends(&mut self, volume: PgId, node: NodeId) {
        if self.held.get(&volume).is_some_and(|held| held.node == node) {
            self.held.remove(&volume);
        }
    }

    /// A card is attached, in a term that `began` then. True if another node had the volume for itself in an earlier one.
    pub(super) fn claimed(
        &mut self,
        cards: &Cards,
        at: Instant,
        began: Option<Began>,
        volume: PgId,
        node: NodeId,
    ) -> Result<bool, String> {
        let Some(holder) = self.claims.remove(&volume).filter(|&holder| holder != node) else {
            return Ok(false);
        };
        match began.filter(|began| at < cards.trusted(began.primary, began.at)) {
            Some(Began { primary, .. }) => Err(format!(
                "{node:?} gets a card of {volume:?} at {at:?}, which {holder:?} had for itself in a term before this one of {primary:?}, and may still have"
            )),
            None => Ok(true),
        }
    }

    /// The node does not want the volume for itself any more.
    pub(super) fn unclaimed(&mut self, volume: PgId, node: NodeId) {
        if self.claims.get(&volume) == Some(&node) {
            self.claims.remove(&volume);
        }
    }

    /// A node dies. What it had for itself it has no more, in whichever term: the next life begins anew.
    pub(super) fn died(&mut self, node: NodeId) {
        self.held.retain(|_, held| held.node != node);
        self.claims.retain(|_, holder| *holder != node);
        self.alone.retain(|&(_, alone), _| alone != node);
    }

    /// The term of a volume's primary is over that `began` then. The next one knows of no card, but of who had the volume for
    /// itself; a claim of before that term is over if the term was long enough for it to end.
    pub(super) fn forgotten(&mut self, cards: &Cards, volume: PgId, began: Began, now: Instant) {
        if now >= cards.trusted(began.primary, began.at) {
            self.claims.remove(&volume);
        }
        self.still_held(cards, now, volume);
        if let Some(held) = self.held.remove(&volume) {
            self.claims.insert(volume, held.node);
        }
    }

    /// Judges an answer to another card's command.
    pub(super) fn saw(&mut self, cards: &Cards, seen: &Seen) -> Result<bool, String> {
        let Seen::Sent { at, from, to, word, .. } = seen else { return Ok(false) };
        match word {
            // It gives its card up itself.
            Word::Control(ControlMessage::Attach { request, volume, access, .. }) => {
                self.ends(*volume, *from);
                self.asked.insert((*volume, *from), *request);
                if *access != Access::Exclusive {
                    self.unclaimed(*volume, *from);
                }
                Ok(false)
            }
            Word::Control(ControlMessage::Detach { volume, .. }) => {
                self.ends(*volume, *from);
                self.unclaimed(*volume, *from);
                Ok(false)
            }
            Word::Control(_) => Ok(false),
            Word::Shard(Message { volume, shard, body, .. }) => match *body {
                Body::Command { request, kind, generation, .. } => {
                    if !matches!(kind, CommandKind::Flush { .. }) {
                        self.writes.entry((*from, *shard, request)).or_insert(generation);
                    }
                    Ok(false)
                }
                Body::CommandDone { request, stamp, result: Ok(()), .. } => {
                    let Some(&sent_with) = self.writes.get(&(*to, *shard, request)) else {
                        return Ok(false);
                    };
                    self.still_held(cards, *at, *volume);
                    let Some(held) = self.held.get_mut(volume) else { return Ok(false) };
                    if held.node == *to {
                        if held.generation == sent_with {
                            held.stamps.entry(*shard).or_insert(stamp);
                        }
                        return Ok(false);
                    }
                    match held.stamps.get(shard).filter(|&&first| stamp > first) {
                        None => Ok(true),
                        Some(first) => Err(format!(
                            "{from:?} has done a write of {to:?} ({stamp:?}) after one of {:?} ({first:?}), which has {volume:?} for itself",
                            held.node
                        )),
                    }
                }
                _ => Ok(false),
            },
        }
    }

    /// Judges a write that a client was told is done.
    pub(super) fn written(&mut self, cards: &Cards, ticket: &Ticket, at: Instant) -> Result<(), String> {
        self.still_held(cards, at, ticket.volume);
        let others = self.held.get(&ticket.volume).filter(|held| held.node != ticket.node);
        match others.filter(|held| held.told.is_some_and(|told| told < ticket.invoked)) {
            Some(held) => {
                Err(format!("{ticket:?} is done, though {:?} has the volume for itself", held.node))
            }
            None => Ok(()),
        }
    }

    /// Whether a client's request is for a volume that another node has for itself.
    pub(super) fn is_in_the_way_of(&self, ticket: &Ticket) -> bool {
        self.held.get(&ticket.volume).is_some_and(|held| held.node != ticket.node)
    }

    /// A card that is not renewed may have been given up.
    pub(super) fn still_held(&mut self, cards: &Cards, at: Instant, volume: PgId) {
        let card = self.held.get(&volume).and_then(|held| cards.of(volume, held.node));
        if let Some(card) = card
            && card.surely_until < at
        {
            self.held.remove(&volume);
        }
    }
}
