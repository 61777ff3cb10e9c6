//! The disk node's side: who has a card of its volumes, and who may write.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Control, ControlConfig, ControlOutput, ControlTimer};
use crate::ids::{Generation, NodeId, OpId, RequestId, Token, VolumeId};
use crate::io::Input;
use crate::message::{ControlMessage, Extent, IoError, Refusal};
use crate::policy;
use crate::time::{Duration, Instant};

/// See the module's head.
pub(super) struct Desk {
    cards: BTreeMap<(VolumeId, NodeId), Holder>,
    writers: BTreeMap<VolumeId, NodeId>,
    /// The last request of each node that was granted: a late repetition of it makes no card.
    granted: BTreeMap<(VolumeId, NodeId), RequestId>,
    /// The operations on this node's disks, and who wants their results.
    extents: BTreeMap<OpId, Asker>,
    /// Members that have not yet said that they know this life.
    pub(super) unseen: BTreeSet<NodeId>,
    /// When the members of an earlier life have lost their leases; none once writes are allowed.
    pub(super) grace_until: Option<Instant>,
    last_generation: u64,
    last_op: u64,
}

/// Another node's card.
struct Holder {
    generation: Generation,
    /// The request it was attached by.
    request: RequestId,
    /// The last request about the writer's role.
    writer_request: RequestId,
    /// When it is given up; never, for a volume without leases.
    expires: Instant,
}

#[derive(PartialEq)]
enum Asker {
    Client(Token),
    Peer(NodeId, RequestId),
}

impl Desk {
    pub(super) fn new(config: &ControlConfig, now: Instant) -> Self {
        Self {
            cards: BTreeMap::new(),
            writers: BTreeMap::new(),
            granted: BTreeMap::new(),
            extents: BTreeMap::new(),
            unseen: (0..config.nodes).map(NodeId).filter(|&n| n != config.node).collect(),
            grace_until: Some(now + term(config.lease)),
            last_generation: config.incarnation << 20,
            last_op: 0,
        }
    }

    pub(super) fn writer(&self, volume: VolumeId) -> Option<NodeId> {
        self.writers.get(&volume).copied()
    }

    pub(super) fn cards_of(&self, volume: VolumeId) -> impl Iterator<Item = NodeId> {
        self.cards.keys().filter(move |(v, _)| *v == volume).map(|&(_, node)| node)
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = (Instant, ControlTimer)> {
        let cards = self.cards.iter().filter(|(_, holder)| holder.expires != Instant::NEVER);
        let cards =
            cards.map(|(&(volume, node), holder)| (holder.expires, ControlTimer::Expire(volume, node)));
        cards.chain(self.grace_until.map(|at| (at, ControlTimer::Grace)))
    }

    fn next_generation(&mut self) -> Generation {
        self.last_generation += 1;
        Generation(self.last_generation)
    }

    fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }
}

/// How long the disk node waits for a renewal: longer than the card trusts its lease.
fn term(lease: Duration) -> Duration {
    lease + lease / 2
}

impl Control {
    /// Allows writes once no card of an earlier life can be alive.
    pub(super) fn end_grace(&mut self) {
        let Some(until) = self.desk.grace_until else { return };
        if self.desk.unseen.is_empty() || self.now >= until {
            self.desk.grace_until = None;
            self.push_shards(Input::WritesAllowed);
        }
    }

    fn check_attach(
        &self,
        node: NodeId,
        volume: VolumeId,
        policy: &str,
        writer: bool,
    ) -> Result<(), Refusal> {
        let spec = self.specs.get(&volume).filter(|_| volume.disk_node() == self.config.node);
        let spec = spec.ok_or(Refusal::NoSuchVolume)?;
        let same = policy.is_empty() || policy::normalize(policy) == policy::normalize(&spec.policy);
        if !same {
            return Err(Refusal::PolicyIs(spec.policy.clone()));
        }
        match writer {
            true => self.check_writer(node, volume),
            false => Ok(()),
        }
    }

    fn check_writer(&self, node: NodeId, volume: VolumeId) -> Result<(), Refusal> {
        let spec = self.specs.get(&volume).ok_or(Refusal::NoSuchVolume)?;
        match self.desk.writer(volume) {
            _ if spec.read_only => Err(Refusal::ReadOnly),
            Some(writer) if writer != node => Err(Refusal::WriterIs(writer)),
            _ => Ok(()),
        }
    }

    pub(super) fn attach_own(
        &mut self,
        volume: VolumeId,
        policy: &str,
        writer: bool,
    ) -> Result<Generation, Refusal> {
        self.check_attach(self.config.node, volume, policy, writer)?;
        if writer {
            self.set_writer(volume, Some(self.config.node));
        }
        Ok(self.desk.next_generation())
    }

    pub(super) fn detach_own(&mut self, volume: VolumeId) {
        self.release_writer_own(volume);
    }

    pub(super) fn take_writer_own(&mut self, volume: VolumeId) -> Result<(), Refusal> {
        self.check_writer(self.config.node, volume)?;
        self.set_writer(volume, Some(self.config.node));
        Ok(())
    }

    pub(super) fn release_writer_own(&mut self, volume: VolumeId) {
        if self.desk.writer(volume) == Some(self.config.node) {
            self.set_writer(volume, None);
        }
    }

    fn set_writer(&mut self, volume: VolumeId, node: Option<NodeId>) {
        if self.desk.writer(volume) == node {
            return;
        }
        match node {
            Some(node) => self.desk.writers.insert(volume, node),
            None => self.desk.writers.remove(&volume),
        };
        self.push_shards(Input::Writer { volume, node });
    }

    fn expiry(&self, volume: VolumeId) -> Instant {
        if self.needs_no_lease(volume) { Instant::NEVER } else { self.now + term(self.config.lease) }
    }

    pub(super) fn peer_attach(
        &mut self,
        node: NodeId,
        request: RequestId,
        volume: VolumeId,
        policy: &str,
        writer: bool,
    ) {
        let known = self.desk.cards.get(&(volume, node)).map(|h| (h.request, h.generation));
        let generation = match known {
            Some((last, generation)) if request == last => generation,
            // Its card was given up since. If the node still waits, it asks anew.
            _ if self.desk.granted.get(&(volume, node)).is_some_and(|&last| request <= last) => {
                let refusal = Refusal::NoAnswer;
                self.push_send(node, ControlMessage::Refused { request, volume, refusal });
                return;
            }
            _ => {
                if let Err(refusal) = self.check_attach(node, volume, policy, writer) {
                    self.push_send(node, ControlMessage::Refused { request, volume, refusal });
                    return;
                }
                // Whatever card the node had before, it has given up.
                self.drop_holder(volume, node);
                let generation = self.desk.next_generation();
                let expires = self.expiry(volume);
                let holder = Holder { generation, request, writer_request: request, expires };
                self.desk.cards.insert((volume, node), holder);
                self.desk.granted.insert((volume, node), request);
                self.push_shards(Input::CardAttached { volume, node, generation });
                if writer {
                    self.set_writer(volume, Some(node));
                }
                generation
            }
        };
        let lease_us = u32::try_from(self.config.lease.as_micros()).unwrap_or(u32::MAX);
        let writer = self.desk.writer(volume) == Some(node);
        self.push_send(node, ControlMessage::Attached { request, volume, generation, lease_us, writer });
    }

    fn drop_holder(&mut self, volume: VolumeId, node: NodeId) {
        if self.desk.cards.remove(&(volume, node)).is_some() {
            // In this order: a command that comes between is told to wait for a card, and not that it may not
            // write, which would be the last word.
            self.push_shards(Input::CardDetached { volume, node });
            if self.desk.writer(volume) == Some(node) {
                self.set_writer(volume, None);
            }
        }
    }

    /// A node has begun a new life: the cards of the old one are gone.
    pub(super) fn desk_forgets(&mut self, node: NodeId) {
        let gone: Vec<VolumeId> =
            self.desk.cards.keys().filter(|(_, n)| *n == node).map(|&(volume, _)| volume).collect();
        gone.into_iter().for_each(|volume| self.drop_holder(volume, node));
        self.desk.granted.retain(|&(_, n), _| n != node);
    }

    pub(super) fn expire(&mut self, volume: VolumeId, node: NodeId) {
        self.drop_holder(volume, node);
    }

    fn holder(&mut self, volume: VolumeId, node: NodeId, generation: Generation) -> Option<&mut Holder> {
        self.desk.cards.get_mut(&(volume, node)).filter(|holder| holder.generation == generation)
    }

    pub(super) fn peer_renew(
        &mut self,
        node: NodeId,
        volume: VolumeId,
        generation: Generation,
        sequence: u32,
    ) {
        let expires = self.expiry(volume);
        let Some(holder) = self.holder(volume, node, generation) else {
            self.push_send(node, ControlMessage::Expired { volume, generation });
            return;
        };
        holder.expires = expires;
        let writer = self.desk.writer(volume);
        self.push_send(node, ControlMessage::Renewed { volume, generation, sequence, writer });
    }

    pub(super) fn peer_detach(&mut self, node: NodeId, volume: VolumeId, generation: Generation) {
        if self.holder(volume, node, generation).is_some() {
            self.drop_holder(volume, node);
        }
    }

    pub(super) fn peer_writer(
        &mut self,
        node: NodeId,
        request: RequestId,
        volume: VolumeId,
        generation: Generation,
        take: bool,
    ) {
        let Some(holder) = self.holder(volume, node, generation) else {
            self.push_send(node, ControlMessage::Expired { volume, generation });
            return;
        };
        if request < holder.writer_request {
            return;
        }
        holder.writer_request = request;
        let refusal = if take { self.check_writer(node, volume).err() } else { None };
        if let Some(refusal) = refusal {
            self.push_send(node, ControlMessage::Refused { request, volume, refusal });
            return;
        }
        if take {
            self.set_writer(volume, Some(node));
        } else if self.desk.writer(volume) == Some(node) {
            self.set_writer(volume, None);
        }
        self.push_send(node, ControlMessage::WriterDone { request, volume });
    }

    pub(super) fn extents_own(&mut self, token: Token, volume: VolumeId, offset: u64, length: u32) {
        self.ask_disk(volume, offset, length, Asker::Client(token));
    }

    pub(super) fn peer_extents(
        &mut self,
        node: NodeId,
        request: RequestId,
        volume: VolumeId,
        offset: u64,
        length: u32,
    ) {
        self.ask_disk(volume, offset, length, Asker::Peer(node, request));
    }

    fn ask_disk(&mut self, volume: VolumeId, offset: u64, length: u32, asker: Asker) {
        let spec = self.specs.get(&volume).filter(|_| volume.disk_node() == self.config.node);
        let inside = spec.is_some_and(|spec| {
            length > 0 && offset.checked_add(u64::from(length)).is_some_and(|end| end <= spec.size_bytes)
        });
        if !inside {
            self.answer_extents(asker, Err(IoError::Invalid));
            return;
        }
        if self.desk.extents.values().any(|known| *known == asker) {
            // Asked again because the disk takes long: one answer will do.
            return;
        }
        let op = self.desk.next_op();
        self.desk.extents.insert(op, asker);
        self.outputs.push_back(ControlOutput::ReadExtents { op, volume, offset, length });
    }

    pub(super) fn extents_read(&mut self, op: OpId, result: Result<Vec<Extent>, IoError>) {
        if let Some(asker) = self.desk.extents.remove(&op) {
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
