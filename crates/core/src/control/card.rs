//! This node's cards: keeping them attached and their leases running.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::journal::Then;
use super::{Control, ControlOutput, ControlTimer};
use crate::algorithms::Algorithms;
use crate::ids::{Generation, NodeId, PgId, RequestId, Token};
use crate::io::Input;
use crate::message::{ControlMessage, Extent, IoError, Refusal};
use crate::mistakes::{Mistake, makes};
use crate::rights::Allowed;
use crate::time::{Duration, Instant};
use crate::timing::ControlTiming;
use crate::volume::{Access, VolumeSpec};

/// A card of this node, attached or to be attached.
pub(super) struct Card {
    wish: Wish,
    /// Who is told of the first attachment.
    tokens: Vec<Token>,
    pub(super) generation: Option<Generation>,
    /// The last one that was attached, if there was one.
    last: Option<Generation>,
    /// Since this card of the node no other was given one that may write. Of a later part: since its rank.
    alone_since: Generation,
    /// What was asked for last, see [`Wish::rank`].
    rank: Generation,
    /// The attach request under way.
    request: RequestId,
    /// When that was first sent: the lease of a new card runs from then.
    asked: Option<Instant>,
    /// The last request of this node when the card was attached: every renewal after it has named the card.
    attached_after: RequestId,
    /// Which list of who may have cards it has been told.
    allowed: u64,
    lease: Duration,
    /// What the disk node said last, if it was no.
    pub(super) refused: Option<Refusal>,
}

impl Card {
    pub(super) fn access(&self) -> Access {
        self.wish.access
    }

    /// It is attached. If it has the volume for itself, the next one is to go on for it.
    fn grant(&mut self, generation: Generation, alone_since: Generation) {
        (self.generation, self.last) = (Some(generation), Some(generation));
        self.alone_since = alone_since;
        let known_by = if self.wish.first.is_some() { self.rank } else { generation };
        self.wish.succeeds = (self.wish.access == Access::Exclusive).then_some(known_by);
        self.refused = None;
    }

    /// The card, and since which one of the node no other was given one that may write: if it is attached and has the volume
    /// for itself.
    pub(super) fn claim(&self) -> Option<(Generation, Generation)> {
        self.generation.filter(|_| self.wish.access == Access::Exclusive).map(|card| (card, self.alone_since))
    }
}

/// What is asked for when a volume is attached.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// The policy the card insists on; empty: the volume's.
    pub(super) policy: String,
    pub(super) access: Access,
    /// Cards in the way are given up, for [`Access::Exclusive`].
    pub(super) takeover: bool,
    /// The card that it goes on for, with [`Access::Exclusive`]: refused if another node has had one that may write since. Of a
    /// later part: the rank of that card.
    pub(super) succeeds: Option<Generation>,
    /// The first part of the volume, for a later one: at the node that asks.
    pub(super) first: Option<PgId>,
    /// For a later part, the node's last card of the first one. Zero: it is the first one, or the only one.
    pub(super) rank: Generation,
}

impl Wish {
    /// Whether the volume can be attached like this, whatever cards there are.
    pub(super) fn fits(&self, spec: &VolumeSpec, algorithms: &dyn Algorithms) -> Result<(), Refusal> {
        let same = self.policy.is_empty() || algorithms.is_same_policy(&self.policy, &spec.policy);
        if !same {
            return Err(Refusal::PolicyIs(spec.policy.clone()));
        }
        if spec.read_only && self.access.may_write() {
            return Err(Refusal::ReadOnly);
        }
        Ok(())
    }
}

/// The last renewals that were sent to a disk node, and when.
#[derive(Default)]
pub(super) struct Renewals {
    sent: [Option<(RequestId, Instant)>; 4],
}

/// A question about the extents of a volume that waits for the answer of its disk node.
pub(super) struct Pending {
    volume: PgId,
    give_up: Instant,
    token: Token,
    offset: u64,
    length: u32,
}

impl Control {
    pub(super) fn attach(&mut self, token: Token, volume: PgId, mut wish: Wish) {
        // Only who is alone has clients that nobody tells what others write.
        wish.succeeds = wish.succeeds.filter(|_| wish.access == Access::Exclusive);
        if let Some(card) = self.cards.get(&volume)
            && let Some(generation) = card.generation
        {
            match self.suffices(volume, card, &wish) {
                Ok(()) if self.is_primary_of(volume) => {
                    self.when_durable(Then::Own(Some(token), volume, generation));
                }
                result => {
                    let result = result.map(|()| generation);
                    self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
                }
            }
            return;
        }
        if self.is_primary_of(volume) && !self.cards.contains_key(&volume) {
            let ranked = self.ranked(&wish);
            let rank = ranked.as_ref().map_or(Generation::default(), |ranked| ranked.rank);
            let granted = ranked.ok_or(Refusal::NoAnswer).and_then(|ranked| self.attach_own(volume, &ranked));
            match granted {
                Ok(generation) => {
                    let alone_since = self.alone_since(self.config.node, volume, generation);
                    let mut card = self.new_card(wish, None);
                    card.rank = rank;
                    card.grant(generation, alone_since);
                    self.cards.insert(volume, card);
                    let repeat_from = self.desk.journals.repeat_from(volume, self.config.node);
                    self.when_durable(Then::Shards(Input::RepeatFrom { volume, generation: repeat_from }));
                    self.when_durable(Then::Own(Some(token), volume, generation));
                }
                Err(refusal) => {
                    let result = Err(refusal);
                    self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
                }
            }
            return;
        }
        if let Some(card) = self.cards.get(&volume) {
            // What has its clients goes on for them, whoever else asks meanwhile.
            let goes_on = card.wish.succeeds.is_some() && wish.succeeds.is_none();
            let spec = self.specs.get(&volume).filter(|_| goes_on);
            if let Some(Err(refusal)) = spec.map(|spec| wish.fits(spec, &*self.config.algorithms)) {
                self.outputs.push_back(ControlOutput::AttachDone { token, volume, result: Err(refusal) });
                return;
            }
            if (goes_on || card.wish == wish)
                && let Some(card) = self.cards.get_mut(&volume)
            {
                card.tokens.push(token);
                return;
            }
        }
        let card = self.new_card(wish, Some(token));
        if let Some(superseded) = self.cards.insert(volume, card) {
            self.answer_attach(&superseded, volume);
        }
        self.send_attach(volume);
    }

    /// Whether an attached card is what `wish` asks for. The card stays, whatever the answer is.
    fn suffices(&self, volume: PgId, card: &Card, wish: &Wish) -> Result<(), Refusal> {
        if let Some(spec) = self.specs.get(&volume) {
            wish.fits(spec, &*self.config.algorithms)?;
        }
        let access = card.wish.access;
        if wish.succeeds.is_some_and(|earlier| earlier < card.alone_since) {
            return Err(Refusal::Overtaken(None));
        }
        if access.covers(wish.access) { Ok(()) } else { Err(Refusal::Attached(access)) }
    }

    /// The card is over: another node takes this node's own volume over, or has had one that this card had for itself.
    pub(super) fn evict(&mut self, volume: PgId, refusal: Refusal) {
        self.detach(volume);
        self.outputs.push_back(ControlOutput::Evicted { volume, refusal });
    }

    /// Whoever waits for a card that is given up is told so.
    fn answer_attach(&mut self, card: &Card, volume: PgId) {
        for &token in &card.tokens {
            let result = Err(Refusal::NoAnswer);
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
        }
    }

    fn new_card(&mut self, wish: Wish, token: Option<Token>) -> Card {
        Card {
            wish,
            tokens: Vec::from_iter(token),
            generation: None,
            last: None,
            alone_since: Generation::default(),
            rank: Generation::default(),
            request: self.next_request(),
            asked: None,
            attached_after: RequestId(u64::MAX),
            allowed: 0,
            lease: self.timing.lease,
            refused: None,
        }
    }

    /// What is asked of the primary: for a later part, in the name of the card of the first one. None if there was no such card.
    fn ranked(&self, wish: &Wish) -> Option<Wish> {
        let rank = match wish.first {
            Some(first) => self.cards.get(&first)?.last?,
            None => Generation::default(),
        };
        Some(Wish { rank, ..wish.clone() })
    }

    pub(super) fn send_attach(&mut self, volume: PgId) {
        let now = self.now;
        let parting = self.is_parting(volume);
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if card.generation.is_some() {
            return;
        }
        self.alarms.set(ControlTimer::Attach(volume), now + self.timing.attaches_again(volume));
        if parting {
            return;
        }
        if self.is_primary_of(volume) {
            self.reattach_own(volume);
            return;
        }
        let Some(Wish { policy, access, takeover, succeeds, rank, .. }) =
            self.cards.get(&volume).and_then(|card| self.ranked(&card.wish))
        else {
            return;
        };
        let Some(card) = self.cards.get_mut(&volume) else { return };
        card.rank = rank;
        card.asked.get_or_insert(now);
        let request = card.request;
        let message = ControlMessage::Attach { request, volume, policy, access, takeover, succeeds, rank };
        self.push_send(self.primary_of(volume), message);
    }

    /// A client waits for a card that this node's own term was to give: the next primary's will do.
    pub(super) fn wait_for_card(&mut self, token: Token, volume: PgId) {
        if let Some(card) = self.cards.get_mut(&volume) {
            card.tokens.push(token);
        } else {
            let result = Err(Refusal::NoAnswer);
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
        }
    }

    /// This node has become the primary of a volume that it has a card of.
    fn reattach_own(&mut self, volume: PgId) {
        let Some(wish) = self.cards.get(&volume).and_then(|card| self.ranked(&card.wish)) else { return };
        let generation = match self.attach_own(volume, &wish) {
            Ok(generation) => generation,
            Err(refusal) => {
                self.own_refused(volume, refusal);
                return;
            }
        };
        let repeat_from = self.desk.journals.repeat_from(volume, self.config.node);
        let alone_since = self.alone_since(self.config.node, volume, generation);
        let Some(card) = self.cards.get_mut(&volume) else { return };
        card.rank = wish.rank;
        card.grant(generation, alone_since);
        let tokens = core::mem::take(&mut card.tokens);
        self.alarms.clear(ControlTimer::Attach(volume));
        self.when_durable(Then::Shards(Input::RepeatFrom { volume, generation: repeat_from }));
        self.when_durable(Then::Own(None, volume, generation));
        tokens.into_iter().for_each(|token| self.when_durable(Then::Own(Some(token), volume, generation)));
    }

    fn own_refused(&mut self, volume: PgId, refusal: Refusal) {
        let Some(card) = self.cards.get_mut(&volume).filter(|_| refusal != Refusal::NoAnswer) else { return };
        if card.tokens.is_empty() && matches!(refusal, Refusal::Overtaken(_)) {
            self.evict(volume, refusal);
        } else if card.tokens.is_empty() {
            card.refused = Some(refusal);
        } else {
            self.refuse(volume, &refusal);
        }
    }

    pub(super) fn attached(
        &mut self,
        from: NodeId,
        request: RequestId,
        volume: PgId,
        (generation, repeat_from, alone_since): (Generation, Generation, Generation),
        lease_us: u32,
        (revision, allowed): (u64, Allowed),
    ) {
        let no_lease = self.needs_no_lease(volume);
        let now = self.now;
        // One that an ended term has given is void: the role may have been elsewhere since.
        let term = self.specs.get(&volume).map_or(0, |spec| spec.epoch);
        if from != self.primary_of(volume) || generation.life() < term {
            return;
        }
        let Some(card) = self.cards.get_mut(&volume).filter(|card| card.request == request) else {
            // Nobody here wants that card (any more).
            self.send_detach(volume, generation);
            return;
        };
        if card.generation.is_some() {
            if card.generation == Some(generation) && card.allowed <= revision {
                card.allowed = revision;
                self.push_shards(Input::Allowed { volume, nodes: allowed });
            }
            return;
        }
        card.grant(generation, alone_since);
        card.allowed = revision;
        card.attached_after = RequestId(self.last_request);
        card.lease = Duration::from_micros(u64::from(lease_us));
        // Once is enough: two cards must not take a volume from each other for ever.
        card.wish.takeover = false;
        // Nobody grants what was not asked for; if somebody does, it is good for nothing.
        let until = card.asked.map_or(Instant(0), |asked| asked + card.lease);
        self.alarms.clear(ControlTimer::Attach(volume));
        if !no_lease {
            let at = now.min(until) + ControlTiming::first_renewal(card.lease);
            let before = self.alarms.at(ControlTimer::Renew(from));
            self.alarms.set(ControlTimer::Renew(from), before.map_or(at, |before| at.min(before)));
        }
        let (tokens, access) = (core::mem::take(&mut card.tokens), card.wish.access);
        self.push_shards(Input::RepeatFrom { volume, generation: repeat_from });
        self.push_shards(Input::Allowed { volume, nodes: allowed });
        self.push_shards(Input::Attached { volume, generation, access });
        if !no_lease {
            self.push_shards(Input::Lease { volume, until });
        }
        for token in tokens {
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result: Ok(generation) });
        }
    }

    pub(super) fn refused(&mut self, from: NodeId, request: RequestId, volume: PgId, refusal: Refusal) {
        if from != self.primary_of(volume) {
            return;
        }
        let fresh = self.next_request();
        let now = self.now;
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if card.request != request || card.generation.is_some() {
            return;
        }
        if card.tokens.is_empty() && matches!(refusal, Refusal::Overtaken(_)) {
            // What its clients remember is void for good, and nobody can tell them: it must not come back.
            self.evict(volume, refusal);
            return;
        }
        if refusal == Refusal::NoAnswer || card.tokens.is_empty() {
            // To be repeated, or it was attached before: then it comes back, however long that takes.
            card.refused = (refusal != Refusal::NoAnswer).then_some(refusal);
            card.request = fresh;
            card.asked = None;
            self.alarms.set(ControlTimer::Attach(volume), now + self.timing.attaches_again(volume));
            return;
        }
        self.refuse(volume, &refusal);
    }

    /// This node's cards of another node's volumes whose leases are to be renewed.
    fn leased(&self, node: NodeId) -> impl Iterator<Item = (PgId, Generation, &Card)> {
        let leased =
            self.led_by(node).filter(move |&volume| node != self.config.node && !self.needs_no_lease(volume));
        let cards = leased.filter_map(|volume| Some((volume, self.cards.get(&volume)?)));
        cards.filter_map(|(volume, card)| card.generation.map(|generation| (volume, generation, card)))
    }

    /// A card is gone: if it was the last one, nothing is renewed until there is one again.
    fn end_renewals(&mut self, node: NodeId) {
        if self.leased(node).next().is_none() {
            self.renewals.remove(&node);
            self.alarms.clear(ControlTimer::Renew(node));
        }
    }

    pub(super) fn send_renew(&mut self, node: NodeId) {
        let interval = self.leased(node).map(|(.., card)| ControlTiming::renewal(card.lease)).min();
        let Some(interval) = interval else { return };
        let cards = self.leased(node).map(|(volume, generation, _)| (volume, generation)).collect();
        let request = self.next_request();
        let sent = &mut self.renewals.entry(node).or_default().sent;
        sent.rotate_right(1);
        sent[0] = Some((request, self.now));
        self.alarms.set(ControlTimer::Renew(node), self.now + interval);
        self.push_send(node, ControlMessage::Renew { request, cards });
    }

    pub(super) fn renewed(&mut self, from: NodeId, request: RequestId, expired: Vec<(PgId, Generation)>) {
        // These are void, however late the answer is: first, so that they are not renewed.
        for (volume, generation) in expired {
            self.expired(from, volume, generation);
        }
        let sent = self.renewals.get(&from).and_then(|r| r.sent.iter().flatten().find(|s| s.0 == request));
        let Some(&(_, sent)) = sent else { return };
        let named = self.leased(from).filter(|(.., card)| card.attached_after < request);
        let leases: Arc<[_]> = named.map(|(volume, _, card)| (volume, sent + card.lease)).collect();
        if !leases.is_empty() {
            self.push_shards(Input::Leases { leases });
        }
    }

    pub(super) fn expired(&mut self, from: NodeId, volume: PgId, generation: Generation) {
        let current = self.cards.get(&volume).and_then(|card| card.generation);
        if from == self.primary_of(volume) && current == Some(generation) {
            self.suspend(volume);
            self.send_attach(volume);
        }
    }

    /// Nobody can write the volume any more: a card that could reads on, and whoever waits for one is refused.
    pub(super) fn seal_card(&mut self, volume: PgId) {
        let Some(card) = self.cards.get_mut(&volume).filter(|card| card.wish.access.may_write()) else {
            return;
        };
        // Nobody writes any more: what it reads is what there is.
        (card.wish.access, card.wish.succeeds) = (Access::Read, None);
        if !card.tokens.is_empty() {
            self.refuse(volume, &Refusal::ReadOnly);
        }
    }

    fn refuse(&mut self, volume: PgId, refusal: &Refusal) {
        let Some(card) = self.cards.remove(&volume) else { return };
        self.alarms.clear(ControlTimer::Attach(volume));
        for token in card.tokens {
            let result = Err(refusal.clone());
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
        }
    }

    /// The card is void. Copies of a volume that nobody writes stay good.
    pub(super) fn suspend(&mut self, volume: PgId) {
        let fresh = self.next_request();
        let keeps = self.keeps_copies(volume);
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if card.generation.take().is_none() {
            return;
        }
        card.request = fresh;
        card.asked = None;
        self.end_renewals(self.primary_of(volume));
        if !(keeps || !volume.is_plain() && makes(Mistake::KeepOverMove)) {
            self.push_shards(Input::Suspended { volume });
            self.part(volume);
        }
    }

    pub(super) fn detach(&mut self, volume: PgId) {
        let Some(card) = self.cards.remove(&volume) else { return };
        self.alarms.clear(ControlTimer::Attach(volume));
        self.end_renewals(self.primary_of(volume));
        self.answer_attach(&card, volume);
        for request in self.questions_about(volume) {
            self.give_up(request);
        }
        self.push_shards(Input::Suspended { volume });
        if self.is_primary_of(volume) {
            self.detach_own(volume);
        } else {
            self.part(volume);
            if let Some(generation) = card.generation {
                self.send_detach(volume, generation);
            }
        }
    }

    pub(super) fn extents(&mut self, token: Token, volume: PgId, offset: u64, length: u32) {
        if self.is_primary_of(volume) {
            self.extents_own(token, volume, offset, length);
            return;
        }
        let request = self.next_request();
        let give_up = self.now + self.timing.give_up;
        self.pending.insert(request, Pending { volume, give_up, token, offset, length });
        self.questions.insert((volume, request));
        self.send_pending(request);
    }

    pub(super) fn send_pending(&mut self, request: RequestId) {
        let now = self.now;
        let Some(pending) = self.pending.get(&request) else { return };
        if now >= pending.give_up {
            self.give_up(request);
            return;
        }
        self.alarms.set(ControlTimer::Request(request), pending.give_up.min(now + self.timing.resend));
        let &Pending { volume, offset, length, .. } = pending;
        let primary = self.primary_of(volume);
        if primary == self.config.node {
            let Some(Pending { token, .. }) = self.end_pending(request) else { return };
            self.extents_own(token, volume, offset, length);
            return;
        }
        self.push_send(primary, ControlMessage::Extents { request, volume, offset, length });
    }

    /// The questions about the volume that wait for an answer.
    fn questions_about(&self, volume: PgId) -> Vec<RequestId> {
        let of_volume = (volume, RequestId(0))..=(volume, RequestId(u64::MAX));
        self.questions.range(of_volume).map(|&(_, request)| request).collect()
    }

    /// They are asked of whoever is the primary now.
    pub(super) fn ask_again(&mut self, volume: PgId) {
        self.questions_about(volume).into_iter().for_each(|request| self.send_pending(request));
    }

    fn end_pending(&mut self, request: RequestId) -> Option<Pending> {
        let pending = self.pending.remove(&request)?;
        self.questions.remove(&(pending.volume, request));
        self.alarms.clear(ControlTimer::Request(request));
        Some(pending)
    }

    fn give_up(&mut self, request: RequestId) {
        if let Some(Pending { token, .. }) = self.end_pending(request) {
            self.outputs.push_back(ControlOutput::ExtentsDone { token, result: Err(IoError::NoAnswer) });
        }
    }

    pub(super) fn extents_done(
        &mut self,
        from: NodeId,
        request: RequestId,
        result: Result<Vec<Extent>, IoError>,
    ) {
        if self.pending.get(&request).is_some_and(|pending| self.primary_of(pending.volume) == from)
            && let Some(Pending { token, .. }) = self.end_pending(request)
        {
            self.outputs.push_back(ControlOutput::ExtentsDone { token, result });
        }
    }
}
