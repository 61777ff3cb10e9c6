//! Nodes start and die, and learn of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cards_core::{
    Algorithms, Control, ControlConfig, ControlInput, DiskJournal, DiskWork, Input, Loss, NodeId, PgId,
    Placement, Shard, ShardConfig, Token, mix,
};
use cards_policies::BuiltIn;
use cards_user_policy::Modules;

use super::rights::AllBut;
use super::{Asker, Event, Place, World};
use crate::client::Outcome;
use crate::memory::Memory;
use crate::models::Models;
use crate::node::{Alarm, Life, ShardLife};

impl<M: Models> World<M> {
    /// A node hears that a volume has another policy, and remembers it.
    pub(super) fn choose_policy(&mut self, at: NodeId, volume: PgId, policy: String) {
        let Some(spec) = self.config.volumes.iter().find(|spec| spec.id == volume) else { return };
        let name = spec.name.clone();
        let place = self.place_mut(at);
        place.chosen.insert(name, policy);
        let Some(running) = &place.running else { return };
        running.modules.choose(place.chosen.clone());
        running.modules.fallbacks().forgive(volume);
        for shard in 0..self.config.shards {
            self.shard_input(at, shard, Input::PolicyChosen { volume });
        }
    }

    pub(super) fn boot(&mut self, node: NodeId) {
        if self.is_running(node) {
            return;
        }
        let life = self.place(node).life + 1;
        let skipped = self.models.skipped_lives(node);
        let place = self.place_mut(node);
        (place.life, place.before) = (life, place.incarnation);
        place.incarnation += 1 + skipped;
        let incarnation = place.incarnation;
        trace!(self, "{node:?} boots, life {life}, number {incarnation}");
        self.begin_lives(node);
        let disks = self.led_by(node);
        let led: BTreeSet<PgId> = disks.iter().map(|spec| spec.id).collect();
        led.iter().for_each(|&volume| self.count_outdated(node, volume));
        let config = &self.config;
        let own = &config.nodes[usize::from(node.0)];
        let modules = Arc::new(Modules::beside(BuiltIn::with(own.replacement)));
        config.module.iter().for_each(|module| modules.add(module.clone()));
        modules.choose(self.place(node).chosen.clone());
        let algorithms: Arc<dyn Algorithms> = Arc::clone(&modules) as _;
        let control = ControlConfig {
            node,
            nodes: self.places.len() as u16,
            incarnation,
            lease: config.lease,
            algorithms: Arc::clone(&algorithms),
            rights: Arc::new(AllBut { nodes: self.places.len() as u16, strangers: config.strangers.clone() }),
            disk_wait: config.disk_wait,
            journals: self.journals.values().filter(|disk| led.contains(&disk.volume)).copied().collect(),
            acquainted: (0..self.places.len() as u16).map(NodeId).collect(),
            cards: disks
                .iter()
                .filter(|spec| !spec.read_only)
                .map(|spec| (spec.id, self.place(node).journals.get(&spec.id).cloned().unwrap_or_default()))
                .collect(),
            disks,
        };
        let placement = Placement::new(config.placement, self.places.len() as u16);
        let shards = (0..config.shards).map(|shard| {
            let core = Shard::new(
                ShardConfig {
                    node,
                    nodes: self.places.len() as u16,
                    incarnation,
                    shard,
                    shards: config.shards,
                    capacity_blocks: own.capacity_blocks,
                    algorithms: Arc::clone(&algorithms),
                    placement: placement.clone(),
                    peer_timeout: config.peer_timeout,
                    hedge: config.hedge,
                    disk_wait: config.disk_wait,
                    marks: self.marks_of(node, shard),
                    park: own.park,
                    limits: config.limits,
                    block_bytes: config.block_bytes,
                },
                mix(config.seed ^ mix(u64::from(node.0) << 32 | u64::from(shard) << 16 | life)),
            );
            let memory = Memory::new(core.slots(), config.sectors);
            ShardLife { core, memory, alarm: Alarm::new() }
        });
        let running = Life {
            control: Control::new(control, self.clock(node)),
            control_alarm: Alarm::new(),
            modules,
            shards: shards.collect(),
            watches: BTreeMap::new(),
            leases: BTreeMap::new(),
            unflushed: BTreeMap::new(),
            commands: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        let place = self.place_mut(node);
        place.running = Some(running);
        place.pauses.clear();
        place.stood.clear();
        place.links.fill(None);
        self.drain_control(node);
        for shard in 0..self.config.shards {
            self.drain_shard(node, shard);
        }
        self.hear_of_roles(node);
        self.begin_seals(node);
        self.begin_groups(node);
    }

    /// The machine of a node loses its power, and with it the media of which it is the primary: what these have not synced
    /// may be gone.
    pub(super) fn lose_power(&mut self, node: NodeId) {
        if !self.is_running(node) {
            return;
        }
        self.crash(node);
        trace!(self, "{node:?} has lost its power");
        self.models.rebooted(node, self.now);
        self.place_mut(node).marks.clear();
        self.cut_columns(node);
        let led: Vec<PgId> = self.led_by(node).into_iter().map(|spec| spec.id).collect();
        let sealed = &self.places[usize::from(node.0)].sealed;
        for (&volume, media) in self.media.iter_mut().filter(|(volume, _)| led.contains(volume)) {
            let models = &mut self.models;
            let changed = media.lose_power(|| models.survives_power_loss(volume));
            if sealed.contains_key(&volume) {
                continue;
            }
            self.losses.push_back(super::Loss { volume, changed });
            let journal = self.journals.get_mut(&volume).expect("every volume has a journal");
            journal.persistence.0 += 1;
            (journal.loss, journal.held) = (Loss::Power, true);
        }
    }

    /// A disk failed to sync: the journal says so before the shards of the primary do.
    pub(super) fn sync_failed(&mut self, volume: PgId) {
        let journal = self.journals.get_mut(&volume).expect("every volume has a journal");
        journal.persistence.0 += 1;
        journal.loss = Loss::Sync;
        let &mut DiskJournal { persistence: life, loss, .. } = journal;
        let primary = self.primary(volume);
        let shards = if self.is_running(primary) { self.config.shards } else { 0 };
        for shard in 0..shards {
            self.shard_input(primary, shard, Input::Persistence { volume, life, loss });
        }
    }

    /// The process of a node ends in order.
    pub(super) fn end(&mut self, node: NodeId) {
        if self.is_running(node) {
            self.close_columns(node);
        }
        self.crash(node);
    }

    pub(super) fn crash(&mut self, node: NodeId) {
        if !self.is_running(node) {
            return;
        }
        trace!(self, "{node:?} crashes");
        let keys: Vec<u64> =
            self.disk_ops.iter().filter(|(_, op)| op.node == node).map(|(key, _)| *key).collect();
        for key in keys {
            let op = &self.disk_ops[&key];
            let (volume, write, open) = (op.volume, matches!(op.work, DiskWork::Command { .. }), op.open);
            for (half, open) in open.into_iter().enumerate() {
                if !write || !open {
                    continue;
                }
                if self.models.finishes_after_crash(volume) {
                    self.disk_half(key, half);
                } else if let Some((first, tags)) = self.change(key, half)
                    && let Some(late) =
                        self.models.lands_late(volume, first as u64..(first + tags.len()) as u64)
                {
                    self.events.push(self.now + late, Event::Lands { volume, first, tags });
                }
            }
            self.disk_ops.remove(&key);
        }
        self.end_groups(node);
        self.end_journals(node);
        self.end_marks(node);
        self.end_seals(node);
        let place = &mut self.places[usize::from(node.0)];
        let ended = place.running.take();
        for shard in ended.iter().flat_map(|life| &life.shards) {
            self.ended.add(shard.core.stats());
            self.ended_reached.add(shard.core.reached());
        }
        place.pauses.clear();
        place.stood.clear();
        let asks = |asker: &Asker| match *asker {
            Asker::Client(at) | Asker::Device(at, _) => at == node,
            Asker::DeviceClient(_) => false,
        };
        let lost: Vec<Token> =
            self.outstanding.iter().filter(|(_, asker)| asks(asker)).map(|(token, _)| *token).collect();
        for token in lost {
            self.complete(token, Outcome::Lost);
        }
        self.orphan_devices(node);
    }

    pub(super) fn peer_up(&mut self, at: NodeId, peer: NodeId, proof: Option<u64>) {
        if !self.is_running(at) || !self.is_running(peer) {
            return;
        }
        let &Place { life, incarnation, before, .. } = self.place(peer);
        let place = self.place_mut(at);
        place.links[usize::from(peer.0)] = Some(life);
        place.connections[usize::from(peer.0)] += 1;
        let disks = self.led_by(peer);
        let succeeds = Some(before).filter(|_| proof == Some(life));
        self.control_input(at, ControlInput::PeerUp { node: peer, incarnation, succeeds, disks });
        for shard in 0..self.config.shards {
            self.shard_input(at, shard, Input::PeerUp { node: peer });
        }
    }

    pub(super) fn members(&mut self, at: NodeId, members: Vec<NodeId>) {
        if !self.is_running(at) {
            return;
        }
        let placement = Placement::over(self.config.placement, members);
        for shard in 0..self.config.shards {
            self.shard_input(at, shard, Input::Members { placement: placement.clone() });
        }
    }

    pub(super) fn peer_down(&mut self, at: NodeId, peer: NodeId) {
        if !self.is_running(at) {
            return;
        }
        if self.place_mut(at).links[usize::from(peer.0)].take().is_some() {
            self.control_input(at, ControlInput::PeerDown { node: peer });
            for shard in 0..self.config.shards {
                self.shard_input(at, shard, Input::PeerDown { node: peer });
            }
        }
    }
}
