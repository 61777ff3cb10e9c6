//! Who is the primary of a volume. A plain disk's is its node, for each of its lives; a volume whose medium several nodes
//! reach has one after another, which a registry that never fails knows.
//!
//! The medium lets only the present primary read and write. A move seals it: what the last primary had under way reaches the
//! medium by then or never, whether or not that node still runs.

use cards_core::{
    CardJournal, ControlInput, DiskWork, Duration, Input, IoError, KnownCards, Marks, NodeId, OpId, PgId,
    Term, VolumeSpec, mix,
};

use super::{Action, World};
use crate::models::Models;
use crate::node::Life;

/// A node has heard of a change within this.
const NEWS: Duration = Duration::from_millis(60);

/// Who is the primary, and for which time a node is.
#[derive(Clone, Copy)]
pub(super) struct Role {
    node: NodeId,
    epoch: u64,
}

impl Role {
    /// Before anything has begun: at the node that has the disk, or would have if it were a plain one.
    pub(super) const fn first(volume: PgId) -> Self {
        Self { node: volume.disk_node(), epoch: 0 }
    }
}

impl<M: Models> World<M> {
    /// The volume's primary.
    #[must_use]
    pub fn primary(&self, volume: PgId) -> NodeId {
        let role = self.roles.get(&volume).map(|role| role.node);
        role.or_else(|| Some(self.leader(volume)?.0)).unwrap_or_else(|| volume.disk_node())
    }

    /// The number of the volume's term: the life of its node, for a plain disk.
    #[must_use]
    pub fn epoch(&self, volume: PgId) -> u64 {
        let number = |node: NodeId| self.places.get(usize::from(node.0)).map_or(0, |place| place.incarnation);
        let role = self.roles.get(&volume).map(|role| role.epoch);
        role.or_else(|| Some(self.leader(volume)?.1)).unwrap_or_else(|| number(volume.disk_node()))
    }

    /// The volume as it is now.
    fn spec(&self, spec: &VolumeSpec) -> VolumeSpec {
        VolumeSpec { primary: self.primary(spec.id), epoch: self.epoch(spec.id), ..spec.clone() }
    }

    /// A device of the node is to hear that it needs no lease.
    pub(super) fn is_led_by(&self, node: NodeId, volume: PgId) -> bool {
        let has_watch = |life: &Life| life.watches.contains_key(&volume);
        self.roles.get(&volume).is_some_and(|role| role.node == node)
            && self.place(node).running.as_ref().is_some_and(has_watch)
    }

    /// The volumes that a node is the primary of, without groups of copies.
    pub(super) fn led_by(&self, node: NodeId) -> Vec<VolumeSpec> {
        let disks = self.config.volumes.iter().filter(|spec| !self.is_mirror(spec.id));
        let led = disks.filter(|spec| self.primary(spec.id) == node);
        led.map(|spec| self.spec(spec)).collect()
    }

    /// Copies that terms have outdated whose primaries knew nothing of earlier writes.
    #[must_use]
    pub fn outdated(&self) -> u64 {
        self.outdated
    }

    /// The node is about to begin a term of the volume.
    pub(super) fn count_outdated(&mut self, node: NodeId, volume: PgId) {
        for number in 0..self.config.shards {
            if self.marks_of(node, number).contains_key(&volume) {
                continue;
            }
            let nodes = (0..self.places.len() as u16).map(NodeId);
            let shards = nodes.filter_map(|node| self.shards(node).nth(number.into()));
            let copies: u64 = shards.map(|shard| shard.cached(volume)).sum();
            self.outdated += copies;
        }
    }

    /// A node that has just started begins terms of what it leads, and hears of the rest.
    pub(super) fn begin_lives(&mut self, node: NodeId) {
        let led: Vec<PgId> =
            self.roles.iter().filter(|(_, role)| role.node == node).map(|(&id, _)| id).collect();
        for volume in led {
            self.roles.entry(volume).and_modify(|role| role.epoch += 1);
            self.announce(volume);
        }
    }

    /// What a registry tells a node that has just started.
    pub(super) fn hear_of_roles(&mut self, node: NodeId) {
        let volumes: Vec<PgId> = self.roles.keys().copied().collect();
        volumes.into_iter().for_each(|volume| self.tell_role(node, volume));
    }

    /// All nodes will hear of the present role.
    fn announce(&mut self, volume: PgId) {
        for node in (0..self.places.len() as u16).map(NodeId) {
            let chance = mix(self.config.seed
                ^ mix(self.epoch(volume) << 32 | u64::from(node.0) << 16)
                ^ u64::from(volume.0));
            let after = Duration::from_nanos(chance % NEWS.as_nanos() as u64);
            self.schedule(self.now + after, Action::TellRole { at: node, volume });
        }
    }

    /// A node hears who the primary is. If it is that itself, it begins its term.
    pub(super) fn tell_role(&mut self, node: NodeId, volume: PgId) {
        if self.is_mirror(volume) {
            return self.tell_map(node, volume);
        }
        let epoch = self.epoch(volume);
        let known = self.control(node).map(|control| control.volume(volume).map(|spec| spec.epoch));
        if known.is_none_or(|known| known == Some(epoch)) {
            return;
        }
        let Some(spec) =
            self.config.volumes.iter().find(|spec| spec.id == volume).map(|spec| self.spec(spec))
        else {
            return;
        };
        let mut term = None;
        if spec.primary == node {
            self.count_outdated(node, volume);
            for shard in 0..self.config.shards {
                if let Some(marks) = self.marks_of(node, shard).remove(&volume) {
                    self.shard_input(node, shard, Input::Marks { volume, marks });
                }
            }
            term = Some(Term {
                journal: self.journals[&volume],
                cards: KnownCards::Journal(
                    self.place(node).journals.get(&volume).cloned().unwrap_or_default(),
                ),
                acquainted: (0..self.places.len() as u16).map(NodeId).collect(),
            });
        }
        self.control_input(node, ControlInput::Group { spec, term });
    }

    /// The role moves to another node. Nothing happens when the medium is no shared one, or a node that must do something
    /// stands still.
    pub(super) fn move_primary(&mut self, volume: PgId, to: NodeId) {
        if self.is_mirror(volume) {
            return self.hand_over(volume, to);
        }
        let Some(&Role { node: from, epoch }) = self.roles.get(&volume) else { return };
        let stands_still = |node: NodeId| self.place(node).pauses.iter().any(|&end| end > self.now);
        if from == to || stands_still(from) {
            return;
        }
        trace!(self, "{volume:?} moves from {from:?} to {to:?}, epoch {}", epoch + 1);
        let ended = self.seal(volume);
        self.hand_on(volume, from, to);
        self.roles.insert(volume, Role { node: to, epoch: epoch + 1 });
        if self.is_running(from) {
            self.tell_role(from, volume);
            for (shard, op, result) in ended {
                self.shard_input(from, shard, Input::DiskDone { op, result });
            }
        }
        self.announce(volume);
    }

    /// The medium takes nothing more of what is under way. Returns how that has ended.
    fn seal(&mut self, volume: PgId) -> Vec<(u16, OpId, Result<(), IoError>)> {
        let keys: Vec<u64> =
            self.disk_ops.iter().filter(|(_, op)| op.volume == volume).map(|(key, _)| *key).collect();
        let mut ended = Vec::new();
        for key in keys {
            let is_command = matches!(self.disk_ops[&key].work, DiskWork::Command { .. });
            for half in 0..2 {
                let is_open = self.disk_ops[&key].open[half];
                if is_command && is_open && self.models.finishes_after_crash(volume) {
                    self.disk_half(key, half);
                }
            }
            let Some(op) = self.disk_ops.remove(&key) else { continue };
            let has_ended = match op.work {
                DiskWork::Read { slot, .. } => {
                    self.shard(op.node, op.shard).memory.filled(slot);
                    false
                }
                DiskWork::Command { .. } => op.open == [false; 2],
            };
            let result = if has_ended { op.result } else { Err(IoError::NotAttached) };
            self.sync(&op, result);
            if result.is_ok() {
                self.models.ended(op.began, self.now, volume, &op.work);
            }
            ended.push((op.shard, op.op, result));
        }
        ended
    }

    /// What is kept of cards and writes goes from one primary to the next: of writes sometimes nothing.
    fn hand_on(&mut self, volume: PgId, from: NodeId, to: NodeId) {
        let shards = self.config.shards;
        let chance = mix(self.config.seed ^ mix(self.epoch(volume) << 20 | u64::from(volume.0)));
        let mut marks: Vec<(u16, Marks)> = Vec::new();
        if !self.is_running(from) {
            marks.extend(
                (0..shards).filter_map(|n| Some((n, self.place(from).marks.get(&(volume, n))?.clone()))),
            );
        } else if chance & 1 == 0 {
            let known = (0..shards).zip(self.shards(from));
            marks.extend(known.filter_map(|(number, shard)| Some((number, shard.marks(volume)?))));
        }
        let place = self.place_mut(from);
        place.marks.retain(|&(known, _), _| known != volume);
        // What it has noted and is not durable has permitted nothing.
        place
            .journaling
            .iter_mut()
            .filter(|(_, known, _)| *known == volume)
            .for_each(|(.., note)| *note = None);
        let cards: CardJournal = place.journals.remove(&volume).unwrap_or_default();
        let place = self.place_mut(to);
        place.journals.insert(volume, cards);
        place.marks.retain(|&(known, _), _| known != volume);
        place.marks.extend(marks.into_iter().map(|(number, marks)| ((volume, number), marks)));
    }
}
