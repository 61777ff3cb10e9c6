//! The cards that exist, as the messages of the disk nodes tell, and how long each is trusted: by the true time of the
//! run, not by any node's clock.

use std::collections::BTreeMap;

use cards_core::{Access, ControlMessage, Duration, Generation, Instant, NodeId, PgId, RequestId};

use crate::options::{Clocks, Options};

/// See the module's head.
#[derive(Debug)]
pub(super) struct Cards {
    /// How long a disk node trusts a card without a word from it, by its clock.
    term: Duration,
    clocks: Clocks,
    /// What cards were asked for, and when first.
    asked: BTreeMap<(NodeId, RequestId), (Access, Instant)>,
    granted: BTreeMap<(PgId, NodeId), Card>,
    /// Until when nodes are trusted that were primaries and had pages.
    led: BTreeMap<(PgId, NodeId), Instant>,
    /// The cards that each renewal names.
    renewals: BTreeMap<(NodeId, RequestId), Vec<(PgId, Generation)>>,
}

/// A card, as its disk node has granted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Card {
    pub(super) volume: PgId,
    pub(super) node: NodeId,
    pub(super) generation: Generation,
    pub(super) access: Access,
    /// Unless it is renewed, its disk node may have given it up from then on.
    pub(super) until: Instant,
    /// The same, if it was granted when it was asked for, and its node was told later, as of one that has the volume for itself.
    pub(super) surely_until: Instant,
}

impl Cards {
    pub(super) fn new(options: &Options) -> Self {
        let lease = options.world.lease;
        let (term, clocks) = (lease + lease / 2, options.clocks.clone());
        let (asked, granted, led, renewals) = Default::default();
        Self { term, clocks, asked, granted, led, renewals }
    }

    /// Until when `disk_node` trusts a card that it hears of at `at`.
    pub(super) fn trusted(&self, disk_node: NodeId, at: Instant) -> Instant {
        self.clocks.shows(disk_node, self.clocks.clock(disk_node, at) + self.term)
    }

    /// Follows a message. A card that is new, and the one that its node had before.
    pub(super) fn follow(
        &mut self,
        at: Instant,
        from: NodeId,
        to: NodeId,
        message: &ControlMessage,
    ) -> Option<(Card, Option<Card>)> {
        match *message {
            ControlMessage::Attach { request, access, .. } => {
                self.asked.entry((from, request)).or_insert((access, at));
                None
            }
            ControlMessage::Attached { request, volume, generation, .. } => {
                let before = self.granted.get(&(volume, to)).copied();
                if before.is_some_and(|card| card.generation == generation) {
                    return None; // said once more, which renews nothing
                }
                let (access, asked) =
                    self.asked.get(&(to, request)).copied().unwrap_or((Access::default(), at));
                let (until, surely_until) = (self.trusted(from, at), self.trusted(from, asked));
                let card = Card { volume, node: to, generation, access, until, surely_until };
                self.granted.insert((volume, to), card);
                Some((card, before))
            }
            ControlMessage::Renew { request, ref cards } => {
                self.renewals.insert((from, request), cards.clone());
                None
            }
            ControlMessage::Renewed { request, ref expired } => {
                let until = self.trusted(from, at);
                let named = self.renewals.get(&(to, request)).into_iter().flatten();
                for &(volume, generation) in named.filter(|card| !expired.contains(card)) {
                    let card = self.granted.get_mut(&(volume, to));
                    if let Some(card) = card.filter(|card| card.generation == generation) {
                        (card.until, card.surely_until) = (until, until);
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// The node was the volume's primary; the next one writes nothing before.
    pub(super) fn trust_primary(&mut self, volume: PgId, node: NodeId, until: Instant) {
        self.led.insert((volume, node), until);
    }

    /// Until when pages are good that a primary's node has had.
    pub(super) fn primary_until(&self, volume: PgId, node: NodeId) -> Option<Instant> {
        self.led.get(&(volume, node)).copied()
    }

    /// The last card of the volume that the node was given.
    pub(super) fn of(&self, volume: PgId, node: NodeId) -> Option<&Card> {
        self.granted.get(&(volume, node))
    }

    /// The last cards of a volume, of all nodes.
    pub(super) fn of_volume(&self, volume: PgId) -> impl Iterator<Item = &Card> {
        self.granted.range((volume, NodeId(0))..=(volume, NodeId(u16::MAX))).map(|(_, card)| card)
    }
}
