//! This node's cards: keeping them attached and their leases running.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Control, ControlOutput, ControlTimer, RESEND};
use crate::ids::{Generation, NodeId, RequestId, Token, VolumeId};
use crate::io::Input;
use crate::message::{ControlMessage, Extent, IoError, Refusal};
use crate::time::{Duration, Instant};

/// A card of this node, attached or to be attached.
pub(super) struct Card {
    policy: String,
    /// Wants to be the writer (again).
    wants_writer: bool,
    /// Who is told of the first attachment.
    tokens: Vec<Token>,
    pub(super) generation: Option<Generation>,
    /// The attach request under way.
    request: RequestId,
    /// When to ask again, or to renew.
    deadline: Instant,
    /// Recent renewals: number and when they were sent.
    renewals: [(u32, Instant); 4],
    sequence: u32,
    lease: Duration,
    pub(super) writer: Option<NodeId>,
}

impl Card {
    pub(super) fn timer(&self, volume: VolumeId) -> Option<(Instant, ControlTimer)> {
        let timer = match self.generation {
            None => ControlTimer::Attach(volume),
            Some(_) => ControlTimer::Renew(volume),
        };
        (self.deadline != Instant::NEVER).then_some((self.deadline, timer))
    }
}

/// A request to a disk node that waits for its answer.
pub(super) struct Pending {
    pub(super) volume: VolumeId,
    pub(super) deadline: Instant,
    give_up: Instant,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Take(Token),
    Release,
    Extents { token: Token, offset: u64, length: u32 },
}

impl Control {
    pub(super) fn attach(&mut self, token: Token, volume: VolumeId, policy: String, writer: bool) {
        if let Some(generation) = self.cards.get(&volume).and_then(|card| card.generation) {
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result: Ok(generation) });
            return;
        }
        if volume.disk_node() == self.config.node {
            let result = self.attach_own(volume, &policy, writer);
            if let Ok(generation) = result {
                let mut card = self.new_card(policy, writer, None);
                card.generation = Some(generation);
                card.deadline = Instant::NEVER;
                self.cards.insert(volume, card);
                self.push_shards(Input::Attached { volume, generation });
            }
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
            return;
        }
        if let Some(card) = self.cards.get_mut(&volume)
            && (&card.policy, card.wants_writer) == (&policy, writer)
        {
            card.tokens.push(token);
            return;
        }
        let card = self.new_card(policy, writer, Some(token));
        if let Some(superseded) = self.cards.insert(volume, card) {
            self.answer_attach(&superseded, volume);
        }
        self.send_attach(volume);
    }

    /// Whoever waits for a card that is given up is told so.
    fn answer_attach(&mut self, card: &Card, volume: VolumeId) {
        for &token in &card.tokens {
            let result = Err(Refusal::NoAnswer);
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
        }
    }

    fn new_card(&mut self, policy: String, wants_writer: bool, token: Option<Token>) -> Card {
        Card {
            policy,
            wants_writer,
            tokens: Vec::from_iter(token),
            generation: None,
            request: self.next_request(),
            deadline: Instant::NEVER,
            renewals: [(0, Instant(0)); 4],
            sequence: 0,
            lease: self.config.lease,
            writer: None,
        }
    }

    pub(super) fn send_attach(&mut self, volume: VolumeId) {
        let now = self.now;
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if card.generation.is_some() {
            return;
        }
        card.deadline = now + RESEND;
        card.sequence = card.sequence.wrapping_add(1);
        // The lease of a new card runs from when it was first asked for.
        if card.renewals[0].0 == 0 {
            card.renewals[0] = (1, now);
        }
        let message = ControlMessage::Attach {
            request: card.request,
            volume,
            policy: card.policy.clone(),
            writer: card.wants_writer,
        };
        self.push_send(volume.disk_node(), message);
    }

    pub(super) fn attach_or_renew(&mut self, volume: VolumeId) {
        match self.cards.get(&volume).map(|card| card.generation) {
            Some(None) => self.send_attach(volume),
            Some(Some(_)) => self.send_renew(volume),
            None => {}
        }
    }

    pub(super) fn attached(
        &mut self,
        from: NodeId,
        request: RequestId,
        volume: VolumeId,
        generation: Generation,
        lease_us: u32,
        writer: bool,
    ) {
        let no_lease = self.needs_no_lease(volume);
        let (me, now) = (self.config.node, self.now);
        if from != volume.disk_node() {
            return;
        }
        let Some(card) = self.cards.get_mut(&volume).filter(|card| card.request == request) else {
            // Nobody here wants that card (any more).
            self.push_send(from, ControlMessage::Detach { volume, generation });
            return;
        };
        if card.generation.is_some() {
            return;
        }
        card.generation = Some(generation);
        card.lease = Duration::from_micros(u64::from(lease_us));
        card.writer = writer.then_some(me);
        let until = card.renewals[0].1 + card.lease;
        card.deadline = if no_lease { Instant::NEVER } else { now.min(until) + card.lease / 3 };
        let tokens = core::mem::take(&mut card.tokens);
        self.push_shards(Input::Attached { volume, generation });
        if !no_lease {
            self.push_shards(Input::Lease { volume, until });
        }
        for token in tokens {
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result: Ok(generation) });
        }
        // The disk node takes requests of the new card in order: those from before get new numbers.
        let waiting: Vec<RequestId> =
            self.pending.iter().filter(|(_, p)| p.volume == volume).map(|(&r, _)| r).collect();
        for old in waiting {
            let Some(pending) = self.pending.remove(&old) else { continue };
            let request = self.next_request();
            self.pending.insert(request, pending);
            self.send_pending(request);
        }
    }

    pub(super) fn refused(&mut self, from: NodeId, request: RequestId, volume: VolumeId, refusal: Refusal) {
        if from != volume.disk_node() {
            return;
        }
        if let Some(pending) = self.pending.get(&request) {
            if let What::Take(token) = pending.what {
                self.pending.remove(&request);
                self.outputs.push_back(ControlOutput::WriterDone { token, volume, result: Err(refusal) });
            }
            return;
        }
        let fresh = self.next_request();
        let now = self.now;
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if card.request != request || card.generation.is_some() {
            return;
        }
        if refusal == Refusal::NoAnswer {
            card.request = fresh;
            card.renewals = [(0, Instant(0)); 4];
            card.deadline = now + RESEND;
            return;
        }
        if card.tokens.is_empty() {
            // It was attached before: come back as a reader, however long it takes.
            card.wants_writer = false;
            card.request = fresh;
            card.renewals = [(0, Instant(0)); 4];
            card.deadline = now + RESEND;
            return;
        }
        let tokens = core::mem::take(&mut card.tokens);
        self.cards.remove(&volume);
        for token in tokens {
            let result = Err(refusal.clone());
            self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
        }
    }

    pub(super) fn send_renew(&mut self, volume: VolumeId) {
        let now = self.now;
        let no_lease = self.needs_no_lease(volume);
        let Some(card) = self.cards.get_mut(&volume) else { return };
        let Some(generation) = card.generation else { return };
        if no_lease || volume.disk_node() == self.config.node {
            card.deadline = Instant::NEVER;
            return;
        }
        card.sequence = card.sequence.wrapping_add(1);
        card.renewals.rotate_right(1);
        card.renewals[0] = (card.sequence, now);
        card.deadline = now + (card.lease / 4).max(Duration::from_millis(1));
        let sequence = card.sequence;
        self.push_send(volume.disk_node(), ControlMessage::Renew { volume, generation, sequence });
    }

    pub(super) fn renewed(
        &mut self,
        from: NodeId,
        volume: VolumeId,
        generation: Generation,
        sequence: u32,
        writer: Option<NodeId>,
    ) {
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if from != volume.disk_node() || card.generation != Some(generation) {
            return;
        }
        card.writer = writer;
        if let Some(&(_, sent)) = card.renewals.iter().find(|(number, _)| *number == sequence) {
            let until = sent + card.lease;
            self.push_shards(Input::Lease { volume, until });
        }
    }

    pub(super) fn expired(&mut self, from: NodeId, volume: VolumeId, generation: Generation) {
        let current = self.cards.get(&volume).and_then(|card| card.generation);
        if from == volume.disk_node() && current == Some(generation) {
            self.reattach(volume);
        }
    }

    pub(super) fn reattach(&mut self, volume: VolumeId) {
        if volume.disk_node() != self.config.node {
            self.suspend(volume);
            self.send_attach(volume);
        }
    }

    /// The card is void. Copies of a volume that nobody writes stay good.
    pub(super) fn suspend(&mut self, volume: VolumeId) {
        let fresh = self.next_request();
        let (me, keeps) = (self.config.node, self.keeps_copies(volume));
        let Some(card) = self.cards.get_mut(&volume) else { return };
        if card.generation.take().is_none() {
            return;
        }
        card.wants_writer |= card.writer == Some(me);
        card.writer = None;
        card.request = fresh;
        card.renewals = [(0, Instant(0)); 4];
        if !keeps {
            self.push_shards(Input::Suspended { volume });
        }
    }

    pub(super) fn detach(&mut self, volume: VolumeId) {
        let Some(card) = self.cards.remove(&volume) else { return };
        self.answer_attach(&card, volume);
        let gone: Vec<RequestId> =
            self.pending.iter().filter(|(_, p)| p.volume == volume).map(|(&r, _)| r).collect();
        gone.into_iter().for_each(|request| self.give_up(request));
        self.push_shards(Input::Suspended { volume });
        if volume.disk_node() == self.config.node {
            self.detach_own(volume);
        } else if let Some(generation) = card.generation {
            self.push_send(volume.disk_node(), ControlMessage::Detach { volume, generation });
        }
    }

    pub(super) fn take_writer(&mut self, token: Token, volume: VolumeId) {
        if volume.disk_node() == self.config.node {
            let result = self.take_writer_own(volume);
            self.outputs.push_back(ControlOutput::WriterDone { token, volume, result });
            return;
        }
        self.request(volume, What::Take(token));
    }

    pub(super) fn release_writer(&mut self, volume: VolumeId) {
        if volume.disk_node() == self.config.node {
            self.release_writer_own(volume);
            return;
        }
        if let Some(card) = self.cards.get_mut(&volume) {
            card.wants_writer = false;
            self.request(volume, What::Release);
        }
    }

    pub(super) fn extents(&mut self, token: Token, volume: VolumeId, offset: u64, length: u32) {
        if volume.disk_node() == self.config.node {
            self.extents_own(token, volume, offset, length);
        } else {
            self.request(volume, What::Extents { token, offset, length });
        }
    }

    fn request(&mut self, volume: VolumeId, what: What) {
        let request = self.next_request();
        let give_up = self.now + self.config.disk_wait;
        self.pending.insert(request, Pending { volume, deadline: self.now, give_up, what });
        self.send_pending(request);
    }

    pub(super) fn send_pending(&mut self, request: RequestId) {
        let now = self.now;
        let Some(pending) = self.pending.get_mut(&request) else { return };
        if now >= pending.give_up {
            self.give_up(request);
            return;
        }
        pending.deadline = pending.give_up.min(now + RESEND);
        let volume = pending.volume;
        let generation = self.cards.get(&volume).and_then(|card| card.generation);
        let message = match (pending.what, generation) {
            (What::Extents { offset, length, .. }, _) => {
                ControlMessage::Extents { request, volume, offset, length }
            }
            (What::Take(_), Some(generation)) => {
                ControlMessage::Writer { request, volume, generation, take: true }
            }
            (What::Release, Some(generation)) => {
                ControlMessage::Writer { request, volume, generation, take: false }
            }
            (What::Take(_) | What::Release, None) => return,
        };
        self.push_send(volume.disk_node(), message);
    }

    fn give_up(&mut self, request: RequestId) {
        let Some(pending) = self.pending.remove(&request) else { return };
        let volume = pending.volume;
        match pending.what {
            What::Take(token) => {
                let result = Err(Refusal::NoAnswer);
                self.outputs.push_back(ControlOutput::WriterDone { token, volume, result });
            }
            What::Release => {}
            What::Extents { token, .. } => {
                self.outputs.push_back(ControlOutput::ExtentsDone { token, result: Err(IoError::Io) });
            }
        }
    }

    pub(super) fn writer_done(&mut self, from: NodeId, request: RequestId, volume: VolumeId) {
        let Some(pending) = self.pending.get(&request) else { return };
        if from != volume.disk_node() || pending.volume != volume {
            return;
        }
        let what = pending.what;
        let me = self.config.node;
        self.pending.remove(&request);
        let Some(card) = self.cards.get_mut(&volume) else { return };
        match what {
            What::Take(token) => {
                card.writer = Some(me);
                card.wants_writer = true;
                self.outputs.push_back(ControlOutput::WriterDone { token, volume, result: Ok(()) });
            }
            What::Release => card.writer = card.writer.filter(|&w| w != me),
            What::Extents { .. } => {}
        }
    }

    pub(super) fn extents_done(
        &mut self,
        from: NodeId,
        request: RequestId,
        result: Result<Vec<Extent>, IoError>,
    ) {
        let Some(pending) = self.pending.get(&request) else { return };
        if let What::Extents { token, .. } = pending.what
            && from == pending.volume.disk_node()
        {
            self.pending.remove(&request);
            self.outputs.push_back(ControlOutput::ExtentsDone { token, result });
        }
    }
}
