//! The primary's side: who has a card of its volumes, and what each may do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::card::Wish;
use super::journal::{Journals, KnownCards, Then};
use super::{Control, ControlOutput, ControlTimer, DiskJournal};
use crate::ids::{Generation, NodeId, OpId, PgId, RequestId, Token};
use crate::io::Input;
use crate::message::{ControlMessage, Extent, IoError, Refusal};
use crate::mistakes::{Mistake, makes};
use crate::rights::Allowed;
use crate::time::Instant;
use crate::volume::Access;

/// See the module's head.
#[derive(Default)]
pub(super) struct Desk {
    cards: BTreeMap<(PgId, NodeId), Holder>,
    /// What this node's own cards may do, and their ranks.
    own: BTreeMap<PgId, (Access, Generation)>,
    /// Who is taking a volume over, until when others are refused for it, and the rank of that card.
    takeovers: BTreeMap<PgId, (NodeId, Instant, Generation)>,
    /// Until when no other node is the primary, of volumes whose primaries move.
    rights: BTreeMap<PgId, Instant>,
    /// The other nodes that have or had cards in their present lives.
    guests: BTreeMap<NodeId, Guest>,
    /// The operations on this node's disks, and who wants their results.
    extents: BTreeMap<OpId, Asker>,
    askers: BTreeSet<Asker>,
    /// Terms in which nothing is written yet.
    graces: BTreeMap<PgId, Grace>,
    /// Who knows of a term that this node has yet to hear of: of each volume the last one.
    early: BTreeMap<PgId, (u64, BTreeSet<NodeId>)>,
    pub(super) journals: Journals,
    /// Who may have cards, as all have been told.
    allowed: BTreeMap<PgId, Allowed>,
    /// How often that has changed.
    revision: u64,
    last_generation: BTreeMap<PgId, Generation>,
    last_op: u64,
}

/// The beginning of a term, until no card of an earlier one can be alive.
struct Grace {
    epoch: u64,
    /// Members that have not yet said that they know the term.
    unseen: BTreeSet<NodeId>,
    /// When they have lost their leases.
    until: Instant,
}

/// What a node has here.
struct Guest {
    /// Volumes it has cards of.
    cards: BTreeSet<PgId>,
    /// Its cards are given up then, but those that have a time of their own.
    expires: Instant,
    /// The last request for each volume that was granted: a late repetition of it makes no card.
    granted: BTreeMap<PgId, RequestId>,
}

impl Guest {
    fn new() -> Self {
        Self { cards: BTreeSet::new(), expires: Instant(0), granted: BTreeMap::new() }
    }
}

/// Another node's card.
struct Holder {
    generation: Generation,
    /// The request it was attached by.
    request: RequestId,
    access: Access,
    /// See [`Wish::rank`].
    rank: Generation,
    /// It is being given up: it is not renewed.
    fenced: bool,
    /// Another process speaks for the node, and nobody knows whether the card's own is alive.
    lost: bool,
    /// When it is given up if that is not when its node's other cards are: its node does not renew it, or may not.
    /// Never, for a volume without leases.
    expires: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asker {
    Client(Token),
    Peer(NodeId, RequestId),
}

impl Desk {
    pub(super) fn is_in_grace(&self) -> bool {
        !self.graces.is_empty()
    }

    pub(super) fn cards_of(&self, volume: PgId) -> impl Iterator<Item = NodeId> {
        self.holders(volume).map(|(node, _)| node)
    }

    /// Until when no other node is the primary, of volumes whose primaries move.
    pub(super) fn right(&self, volume: PgId) -> Option<Instant> {
        self.rights.get(&volume).copied()
    }

    fn holders(&self, volume: PgId) -> impl Iterator<Item = (NodeId, &Holder)> {
        let cards = self.cards.range((volume, NodeId(0))..=(volume, NodeId(u16::MAX)));
        cards.map(|(&(_, node), holder)| (node, holder))
    }

    fn next_generation(&mut self, volume: PgId) -> Generation {
        let last = self.last_generation.entry(volume).or_default();
        last.0 += 1;
        *last
    }

    fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }
}

impl Control {
    /// This node is the volume's primary from now on, and begins with what was noted by the last one.
    pub(super) fn begin_term(
        &mut self,
        volume: PgId,
        journal: Option<&DiskJournal>,
        cards: Option<KnownCards>,
        acquainted: &[NodeId],
    ) {
        let Some(epoch) = self.specs.get(&volume).map(|spec| spec.epoch) else { return };
        let until = self.now + self.timing.expiry;
        self.desk.last_generation.insert(volume, Generation(epoch << 20));
        self.desk.journals.begin(volume, epoch, cards, until);
        if let Some(&DiskJournal { persistence: life, loss, held, .. }) = journal {
            self.push_shards(Input::Persistence { volume, life, loss });
            if held {
                self.push_shards(Input::Hold { volume });
            }
        }
        let allowed = self.config.rights.allowed(volume);
        self.desk.allowed.insert(volume, allowed.clone());
        self.push_shards(Input::Allowed { volume, nodes: allowed });
        let (_, early) = self.desk.early.remove(&volume).filter(|early| early.0 == epoch).unwrap_or_default();
        let others = acquainted.iter().copied().filter(|&node| node != self.config.node);
        let unseen = others.filter(|node| !early.contains(node)).collect();
        self.desk.graces.insert(volume, Grace { epoch, unseen, until });
        self.alarms.set(ControlTimer::Grace(volume), until);
        self.end_grace(volume);
    }

    /// This node is the volume's primary no longer.
    pub(super) fn end_term(&mut self, volume: PgId) {
        let holders: Vec<NodeId> = self.desk.cards_of(volume).collect();
        for node in holders {
            self.remove_holder(volume, node);
        }
        for guest in self.desk.guests.values_mut() {
            guest.granted.remove(&volume);
        }
        self.desk.own.remove(&volume);
        self.desk.allowed.remove(&volume);
        self.desk.takeovers.remove(&volume);
        self.desk.rights.remove(&volume);
        self.desk.graces.remove(&volume);
        self.alarms.clear(ControlTimer::Grace(volume));
        for token in self.desk.journals.end(volume) {
            self.wait_for_card(token, volume);
        }
    }

    /// See [`super::ControlInput::Right`].
    pub(super) fn right_lasts(&mut self, volume: PgId, until: Instant) {
        if self.is_primary_of(volume) {
            self.desk.rights.insert(volume, until);
            self.push_shards(Input::Right { volume, until });
        }
    }

    /// Leases may be granted: no other node is the volume's primary.
    pub(super) fn has_right(&self, volume: PgId) -> bool {
        self.desk.rights.get(&volume).map_or(volume.is_plain(), |&until| self.now < until)
            || makes(Mistake::LeaseWithoutRight)
    }

    /// The node uses nothing of an earlier term.
    pub(super) fn peer_seen(&mut self, node: NodeId, volume: PgId, epoch: u64) {
        if let Some(grace) = self.desk.graces.get_mut(&volume).filter(|grace| grace.epoch == epoch) {
            grace.unseen.remove(&node);
            self.end_grace(volume);
        } else if self.specs.get(&volume).map_or(!volume.is_plain(), |spec| spec.epoch < epoch) {
            // It has heard of the term before this node has; of the first one of a new volume, before this node knows that there is one.
            let early = self.desk.early.entry(volume).or_default();
            if early.0 < epoch {
                *early = (epoch, BTreeSet::new());
            }
            if early.0 == epoch {
                early.1.insert(node);
            }
        }
    }

    /// Allows writes once no card of an earlier term can be alive.
    pub(super) fn end_grace(&mut self, volume: PgId) {
        let over = |grace: &Grace| grace.unseen.is_empty() || self.now >= grace.until;
        if self.desk.graces.get(&volume).is_some_and(over) {
            self.desk.graces.remove(&volume);
            self.alarms.clear(ControlTimer::Grace(volume));
            self.push_shards(Input::WritesAllowed { volume });
        }
    }

    fn check_attach(&self, node: NodeId, volume: PgId, wish: &Wish) -> Result<(), Refusal> {
        // That there is a group is for its registry to say: here it may not have been heard of yet.
        let unknown = if volume.is_plain() { Refusal::NoSuchVolume } else { Refusal::NoAnswer };
        let spec = self.specs.get(&volume).ok_or(unknown)?;
        if !self.is_primary_of(volume) {
            // Who asks has heard earlier that this node is to be the primary, or later that it is no more.
            return Err(Refusal::NoAnswer);
        }
        self.check_rights(node, volume, wish)?;
        wish.fits(spec, &*self.config.algorithms)?;
        self.check_succession(node, volume, wish)?;
        self.check_rank(node, volume, wish)?;
        if let Some(holder) = self.claim_against(node, volume) {
            return Err(Refusal::Exclusive(holder));
        }
        if let Some(&(by, until, _)) = self.desk.takeovers.get(&volume)
            && by != node
            && self.now < until
        {
            return Err(Refusal::Exclusive(by));
        }
        // One of them is enough: who has the volume for itself is alone.
        let peer = self.desk.holders(volume).map(|(other, holder)| (other, holder.access));
        let peer = peer.filter(|&(other, _)| other != node);
        let own = self.desk.own.get(&volume).map(|&(access, _)| (self.config.node, access));
        let own = own.filter(|&(other, _)| other != node);
        if let Some((other, theirs)) = peer.chain(own).next() {
            if theirs == Access::Exclusive {
                return Err(Refusal::Exclusive(other));
            }
            if wish.access == Access::Exclusive {
                return Err(Refusal::InUse(other));
            }
        }
        Ok(())
    }

    fn check_rights(&self, node: NodeId, volume: PgId, wish: &Wish) -> Result<(), Refusal> {
        let most = self.config.rights.most(volume, node);
        let may = node == self.config.node || most.is_some_and(|most| most.covers(wish.access));
        if may { Ok(()) } else { Err(Refusal::NotAllowed(most)) }
    }

    /// Clients that lived on remember the volume as it was: nobody else may have written it.
    fn check_succession(&self, node: NodeId, volume: PgId, wish: &Wish) -> Result<(), Refusal> {
        let Some(card) = wish.succeeds.filter(|_| !makes(Mistake::ForgetOvertaken)) else { return Ok(()) };
        match self.desk.journals.writer(volume) {
            Some((last, first)) if last == node && first <= card => Ok(()),
            last => Err(Refusal::Overtaken(last.map(|(last, _)| last).filter(|&last| last != node))),
        }
    }

    /// A card that had the volume for itself was given later by the primary of the first part: then every card that is asked for in
    /// the name of an earlier one is void there.
    fn check_rank(&self, node: NodeId, volume: PgId, wish: &Wish) -> Result<(), Refusal> {
        if wish.rank >= self.desk.journals.rank(volume) {
            return Ok(());
        }
        let holder = self.desk.journals.exclusive(volume).filter(|&holder| holder != node);
        Err(holder.map_or(Refusal::NoAnswer, Refusal::Exclusive))
    }

    /// Whatever is in the way was given before, by the primary of the first part: it is void there. No for a first part.
    fn outranks_all(&self, node: NodeId, volume: PgId, rank: Generation) -> bool {
        let cards = self.desk.holders(volume).map(|(other, holder)| (other, holder.rank));
        let own = self.desk.own.get(&volume).map(|&(_, rank)| (self.config.node, rank));
        let taker = self.desk.takeovers.get(&volume).filter(|&&(_, until, _)| self.now < until);
        let taker = taker.map(|&(by, _, rank)| (by, rank));
        let others = cards.chain(own).chain(taker).filter(|&(other, _)| other != node);
        rank > Generation::default() && others.map(|(_, theirs)| theirs).all(|theirs| theirs < rank)
    }

    /// Since which card of the node no other was given one that may write. `card`: its present one.
    pub(super) fn alone_since(&self, node: NodeId, volume: PgId, card: Generation) -> Generation {
        let last = self.desk.journals.writer(volume).filter(|&(last, _)| last == node);
        last.map_or(card, |(_, first)| first)
    }

    /// Another node had the volume for itself in an earlier life of this one, and its card may be alive.
    fn claim_against(&self, node: NodeId, volume: PgId) -> Option<NodeId> {
        self.desk.journals.claim(volume, self.now).filter(|&holder| holder != node)
    }

    /// Gives up whatever cards keep the node from having the volume for itself. Until all are gone it asks again.
    fn take_over(&mut self, node: NodeId, volume: PgId, rank: Generation) {
        let until = self.now + self.timing.takeover;
        self.desk.takeovers.insert(volume, (node, until, rank));
        let others: Vec<NodeId> = self.desk.cards_of(volume).filter(|&other| other != node).collect();
        for other in others {
            let Some(holder) = self.desk.cards.get_mut(&(volume, other)) else { continue };
            let first = !core::mem::replace(&mut holder.fenced, true);
            let generation = holder.generation;
            self.run_out(volume, other);
            if first {
                self.when_durable(Then::Shards(Input::CardFenced { volume, node: other }));
            }
            // Not before it is true: the shards may have to hear of the card itself first. Repetitions do not queue up.
            if first || self.desk.journals.are_durable(volume) {
                self.when_durable(Then::Send(other, ControlMessage::Expired { volume, generation }));
            }
        }
        if node != self.config.node
            && let Some((access, _)) = self.desk.own.get(&volume)
        {
            let refusal = match access {
                Access::Exclusive => Refusal::Overtaken(Some(node)),
                Access::Read | Access::Write => Refusal::Exclusive(node),
            };
            self.evict(volume, refusal);
        }
    }

    /// What [`Self::check_attach`] says, after what a takeover can do about it.
    fn admit(&mut self, node: NodeId, volume: PgId, wish: &Wish) -> Result<(), Refusal> {
        let mut admitted = self.check_attach(node, volume, wish);
        if let Err(Refusal::Exclusive(other) | Refusal::InUse(other)) = admitted {
            // Of a later part nobody else decides.
            let outranks = self.outranks_all(node, volume, wish.rank);
            let is_first = wish.rank == Generation::default();
            let may_take = is_first && wish.takeover && wish.access == Access::Exclusive || outranks;
            let taken = self.desk.takeovers.get(&volume);
            let is_taken = taken.is_some_and(|&(by, until, _)| by == other && self.now < until);
            let is_claimed = self.claim_against(node, volume).is_some();
            if may_take && !is_claimed && (outranks || !is_taken) {
                self.take_over(node, volume, wish.rank);
                admitted = self.check_attach(node, volume, wish).map_err(|_| Refusal::NoAnswer);
            } else if outranks {
                admitted = Err(Refusal::NoAnswer);
            }
        }
        if admitted.is_ok() && self.desk.takeovers.get(&volume).is_some_and(|&(by, ..)| by == node) {
            self.desk.takeovers.remove(&volume);
        }
        admitted
    }

    pub(super) fn attach_own(&mut self, volume: PgId, wish: &Wish) -> Result<Generation, Refusal> {
        self.admit(self.config.node, volume, wish)?;
        self.desk.own.insert(volume, (wish.access, wish.rank));
        let generation = self.desk.next_generation(volume);
        self.note_attached(volume, self.config.node, (generation, wish.rank), wish.access);
        Ok(generation)
    }

    pub(super) fn detach_own(&mut self, volume: PgId) {
        self.desk.own.remove(&volume);
        self.note_detached(volume, self.config.node, None);
    }

    /// The card expires when it would by what was promised until now, whatever else its node renews.
    fn run_out(&mut self, volume: PgId, node: NodeId) {
        let Some(guest) = self.desk.guests.get(&node) else { return };
        if let Some(holder) = self.desk.cards.get_mut(&(volume, node))
            && holder.expires.is_none()
        {
            holder.expires = Some(guest.expires);
            self.alarms.set(ControlTimer::ExpireCard(volume, node), guest.expires);
        }
    }

    /// The leases of the node's cards run from now on.
    fn promise_all(&mut self, node: NodeId) {
        if let Some(guest) = self.desk.guests.get_mut(&node) {
            guest.expires = guest.expires.max(self.now + self.timing.expiry);
            self.alarms.set(ControlTimer::Expire(node), guest.expires);
        }
    }

    pub(super) fn peer_attach(&mut self, node: NodeId, request: RequestId, volume: PgId, wish: &Wish) {
        let known = self.desk.cards.get(&(volume, node));
        if known.is_some_and(|holder| holder.lost) {
            let refusal = Refusal::NoAnswer;
            self.push_send(node, ControlMessage::Refused { request, volume, refusal });
            return;
        }
        let generation = match known.map(|h| (h.request, h.generation, h.fenced)) {
            Some((last, generation, true)) if request == last => {
                self.push_send(node, ControlMessage::Expired { volume, generation });
                return;
            }
            // It is told when that is durable, which may take longer than a lease.
            Some((last, generation, false)) if request == last && !self.desk.journals.are_durable(volume) => {
                return self.promise(volume, node, generation);
            }
            Some((last, generation, false)) if request == last => generation,
            // Its card was given up since. If the node still waits, it asks anew.
            _ if self.was_granted(node, volume, request) || self.desk.journals.are_full(volume) => {
                let refusal = Refusal::NoAnswer;
                self.push_send(node, ControlMessage::Refused { request, volume, refusal });
                return;
            }
            _ => {
                // Whatever card the node had before, it has given up.
                self.drop_holder(volume, node);
                if let Err(refusal) = self.admit(node, volume, wish) {
                    self.push_send(node, ControlMessage::Refused { request, volume, refusal });
                    return;
                }
                let generation = self.desk.next_generation(volume);
                let access = wish.access;
                let expires = self.needs_no_lease(volume).then_some(Instant::NEVER);
                let rank = wish.rank;
                let holder =
                    Holder { generation, request, access, rank, fenced: false, lost: false, expires };
                self.desk.cards.insert((volume, node), holder);
                let guest = self.desk.guests.entry(node).or_insert_with(Guest::new);
                guest.cards.insert(volume);
                guest.granted.insert(volume, request);
                if expires.is_none() {
                    self.promise_all(node);
                }
                let life = self.lives.get(&node).copied().unwrap_or_default();
                self.note_attached(volume, node, (generation, rank), access);
                let input = Input::CardAttached { volume, node, life, generation, access };
                self.when_durable(Then::Shards(input));
                generation
            }
        };
        self.send_attached(node, request, volume, generation);
    }

    fn send_attached(&mut self, node: NodeId, request: RequestId, volume: PgId, generation: Generation) {
        let lease_us = u32::try_from(self.timing.lease.as_micros()).unwrap_or(u32::MAX);
        let repeat_from = self.desk.journals.repeat_from(volume, node);
        let alone_since = self.alone_since(node, volume, generation);
        let allowed = self.desk.allowed.get(&volume).cloned().unwrap_or_default();
        let message = ControlMessage::Attached {
            request,
            volume,
            generation,
            lease_us,
            repeat_from,
            alone_since,
            allowed,
            revision: self.desk.revision,
        };
        self.when_durable(Then::Send(node, message));
    }

    /// A node has come, under a number that may have been another's. If that changes who may have cards, all cards hear of it
    /// now; and the node's own, which may have been out of reach.
    pub(super) fn tell_allowed(&mut self, node: NodeId) {
        let volumes: Vec<PgId> = self.led_by(self.config.node).collect();
        for volume in volumes {
            let now = self.config.rights.allowed(volume);
            let before = self.desk.allowed.insert(volume, now.clone());
            let is_new = before.as_ref() != Some(&now);
            if is_new {
                self.desk.revision += 1;
                self.push_shards(Input::Allowed { volume, nodes: now.clone() });
            } else if now == Allowed::All {
                continue;
            }
            let holders = self
                .desk
                .holders(volume)
                .filter(|&(other, holder)| (is_new || other == node) && !holder.fenced && !holder.lost);
            let holders: Vec<_> = holders.map(|(other, h)| (other, h.request, h.generation)).collect();
            for (other, request, generation) in holders {
                self.send_attached(other, request, volume, generation);
            }
        }
    }

    /// The request was granted, or a later one.
    fn was_granted(&self, node: NodeId, volume: PgId, request: RequestId) -> bool {
        let last = self.desk.guests.get(&node).and_then(|guest| guest.granted.get(&volume));
        last.is_some_and(|&last| request <= last)
    }

    fn remove_holder(&mut self, volume: PgId, node: NodeId) -> Option<Holder> {
        let holder = self.desk.cards.remove(&(volume, node))?;
        self.alarms.clear(ControlTimer::ExpireCard(volume, node));
        if let Some(guest) = self.desk.guests.get_mut(&node) {
            guest.cards.remove(&volume);
            if guest.cards.is_empty() {
                self.alarms.clear(ControlTimer::Expire(node));
            }
        }
        Some(holder)
    }

    pub(super) fn drop_holder(&mut self, volume: PgId, node: NodeId) {
        if let Some(holder) = self.remove_holder(volume, node) {
            self.note_dropped(volume, node, holder.generation, holder.access);
            self.when_durable(Then::Shards(Input::CardDetached { volume, node }));
        }
    }

    /// A node has begun a new life. The cards of the old one are gone if that `is_over`; else they run out.
    pub(super) fn desk_forgets(&mut self, node: NodeId, is_over: bool) {
        if !is_over {
            self.note_parted(node);
        }
        let Some(guest) = self.desk.guests.get_mut(&node) else { return };
        guest.granted.clear();
        for volume in guest.cards.clone() {
            let Some(holder) = self.desk.cards.get_mut(&(volume, node)) else { continue };
            if is_over || holder.expires == Some(Instant::NEVER) {
                self.drop_holder(volume, node);
            } else {
                (holder.fenced, holder.lost) = (true, true);
                self.run_out(volume, node);
                self.when_durable(Then::Shards(Input::CardLost { volume, node }));
            }
        }
    }

    /// The node has renewed nothing for too long.
    pub(super) fn expire(&mut self, node: NodeId) {
        let Some(guest) = self.desk.guests.get(&node) else { return };
        for volume in guest.cards.clone() {
            if self.desk.cards.get(&(volume, node)).is_some_and(|holder| holder.expires.is_none()) {
                self.drop_holder(volume, node);
            }
        }
    }

    fn holder(&mut self, volume: PgId, node: NodeId, generation: Generation) -> Option<&mut Holder> {
        self.desk.cards.get_mut(&(volume, node)).filter(|holder| holder.generation == generation)
    }

    /// The card's lease is granted now: it is gone a lease and a half from here on at the earliest.
    pub(super) fn promise(&mut self, volume: PgId, node: NodeId, generation: Generation) {
        let at = self.now + self.timing.expiry;
        let Some(holder) = self.holder(volume, node, generation) else { return };
        match &mut holder.expires {
            None => self.promise_all(node),
            Some(expires) => {
                *expires = at.max(*expires);
                let at = *expires;
                self.alarms.set(ControlTimer::ExpireCard(volume, node), at);
            }
        }
    }

    /// See [`crate::ControlInput::Silent`]. If the card hears of it, it attaches anew at once.
    pub(super) fn silent(&mut self, volume: PgId, node: NodeId, generation: Generation) {
        if let Some(holder) = self.holder(volume, node, generation) {
            holder.fenced = true;
            self.run_out(volume, node);
            self.push_send(node, ControlMessage::Expired { volume, generation });
        }
    }

    /// Renews what the node names. What it does not name may be a card that it has not heard of yet: that is not given up
    /// at once, but runs out unless it is named later.
    pub(super) fn peer_renew(&mut self, node: NodeId, request: RequestId, cards: Vec<(PgId, Generation)>) {
        let mut named = Vec::with_capacity(cards.len());
        let mut expired = cards;
        expired.retain(|&(volume, generation)| {
            let has_right = self.has_right(volume);
            let holder = self.holder(volume, node, generation).filter(|holder| has_right && !holder.fenced);
            let Some(holder) = holder else { return true };
            named.push(volume);
            if holder.expires.take_if(|at| *at != Instant::NEVER).is_some() {
                self.alarms.clear(ControlTimer::ExpireCard(volume, node));
            }
            false
        });
        named.sort_unstable();
        let cards = self.desk.guests.get(&node).into_iter().flat_map(|guest| &guest.cards);
        let unnamed: Vec<PgId> =
            cards.copied().filter(|volume| named.binary_search(volume).is_err()).collect();
        for volume in unnamed {
            self.run_out(volume, node);
        }
        if !named.is_empty() {
            self.promise_all(node);
        }
        if makes(Mistake::RenewExpired) {
            expired.clear();
        }
        self.push_send(node, ControlMessage::Renewed { request, expired });
    }

    pub(super) fn peer_detach(&mut self, node: NodeId, volume: PgId, generation: Generation) {
        if self.holder(volume, node, generation).is_some() {
            self.drop_holder(volume, node);
        }
        self.note_detached(volume, node, Some(generation));
    }

    pub(super) fn extents_own(&mut self, token: Token, volume: PgId, offset: u64, length: u32) {
        self.ask_disk(volume, offset, length, Asker::Client(token));
    }

    pub(super) fn peer_extents(
        &mut self,
        node: NodeId,
        request: RequestId,
        volume: PgId,
        offset: u64,
        length: u32,
    ) {
        // Who asks an earlier primary, or the next one too soon, asks again.
        if self.is_primary_of(volume) {
            self.ask_disk(volume, offset, length, Asker::Peer(node, request));
        }
    }

    fn ask_disk(&mut self, volume: PgId, offset: u64, length: u32, asker: Asker) {
        let inside = self.specs.get(&volume).is_some_and(|spec| {
            length > 0 && offset.checked_add(u64::from(length)).is_some_and(|end| end <= spec.size_bytes)
        });
        if !inside {
            self.answer_extents(asker, Err(IoError::Invalid));
            return;
        }
        if !self.desk.askers.insert(asker) {
            // Asked again because the disk takes long: one answer will do.
            return;
        }
        let op = self.desk.next_op();
        self.desk.extents.insert(op, asker);
        self.outputs.push_back(ControlOutput::ReadExtents { op, volume, offset, length });
    }

    pub(super) fn extents_read(&mut self, op: OpId, result: Result<Vec<Extent>, IoError>) {
        if let Some(asker) = self.desk.extents.remove(&op) {
            self.desk.askers.remove(&asker);
            self.answer_extents(asker, result);
        }
    }

    fn answer_extents(&mut self, asker: Asker, mut result: Result<Vec<Extent>, IoError>) {
        if let Ok(extents) = &mut result {
            extents.truncate(ControlMessage::MAX_EXTENTS);
        }
        match asker {
            Asker::Client(token) => self.outputs.push_back(ControlOutput::ExtentsDone { token, result }),
            Asker::Peer(node, request) => {
                self.push_send(node, ControlMessage::ExtentsDone { request, result });
            }
        }
    }
}
