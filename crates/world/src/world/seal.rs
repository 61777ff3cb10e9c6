//! Disks that are sealed while nothing is written, as the daemon does it: a sync that begins when all shards are quiet, then the
//! shards, if they still are, then the journal. Of a change of the journal that is under way a crash leaves all or nothing.
//!
//! Whether another one has written a disk is not asked here: what the daemon looks at for that would hide an own write, too.

use std::collections::BTreeMap;

use cards_core::{Duration, Input, Loss, Marks, NodeId, PgId, Quiet, mix};

use super::{Event, World};
use crate::models::Models;

/// A node looks for quiet disks no more often than this: runs go on for minutes after the last write.
const LOOK: Duration = Duration::from_millis(5);

/// A sync, or a change of the journal, takes up to this.
const LATEST: Duration = Duration::from_millis(40);

/// What a process does about the seal of a disk.
pub(super) enum Sealing {
    /// The disk is being synced, up to this write. Its shards were quiet like that.
    Syncing { quiet: Vec<Quiet>, covered: u64 },
    /// The journal is being sealed.
    Closing { marks: BTreeMap<u16, Marks>, is_asked: bool },
    /// Nothing is written.
    Sealed,
    /// The journal is being unsealed.
    Opening,
}

impl<M: Models> World<M> {
    /// The journal of a plain disk says that it is synced, and what was written when.
    #[must_use]
    pub fn is_sealed(&self, volume: PgId) -> bool {
        self.place(self.primary(volume)).sealed.contains_key(&volume)
    }

    /// A number that is another one for each change, whatever else is drawn.
    fn seal_chance(&self, node: NodeId, volume: PgId, what: u64) -> u64 {
        let place = mix(u64::from(node.0) << 32 | u64::from(volume.0)) ^ mix(self.now.0) ^ what;
        mix(self.config.seed ^ mix(place))
    }

    fn schedule_seal(&mut self, node: NodeId, volume: PgId) {
        let after = Duration::from_nanos(self.seal_chance(node, volume, 1) % LATEST.as_nanos() as u64);
        let life = self.place(node).life;
        self.events.push(self.now + after, Event::Seal { node, life, volume: Some(volume) });
    }

    fn unseal_all(&mut self, node: NodeId, volume: PgId) {
        (0..self.config.shards).for_each(|shard| self.shard_input(node, shard, Input::Unsealed { volume }));
    }

    /// The node has started: what is sealed is so until it is written.
    pub(super) fn begin_seals(&mut self, node: NodeId) {
        let sealed: Vec<PgId> = self.place(node).sealed.keys().copied().collect();
        for volume in sealed {
            for shard in 0..self.config.shards {
                self.shard(node, shard).core.begin_sealed(volume);
            }
            self.place_mut(node).sealing.insert(volume, Sealing::Sealed);
        }
        self.look_for_quiet(node);
    }

    /// Comes again, as long as the node lives.
    pub(super) fn look_for_quiet(&mut self, node: NodeId) {
        let after = self.config.seal_after;
        if after == Duration::ZERO {
            return;
        }
        let now = self.clock(node);
        let plain = |volume: &PgId| !self.config.shared.contains(volume);
        let disks = self.led_by(node).into_iter().filter(|spec| !spec.read_only).map(|spec| spec.id);
        for volume in disks.filter(plain).collect::<Vec<_>>() {
            let is_done = self.place(node).sealing.contains_key(&volume);
            if is_done || self.journals[&volume].loss == Loss::Sync {
                continue;
            }
            let quiet: Option<Vec<Quiet>> = self.shards(node).map(|shard| shard.quiet(volume)).collect();
            let Some(quiet) = quiet.filter(|all| all.iter().all(|quiet| quiet.since + after <= now)) else {
                continue;
            };
            let covered = self.media[&volume].written();
            self.place_mut(node).sealing.insert(volume, Sealing::Syncing { quiet, covered });
            self.schedule_seal(node, volume);
        }
        let life = self.place(node).life;
        self.events.push(self.now + (after / 2).max(LOOK), Event::Seal { node, life, volume: None });
    }

    /// What was under way is done.
    pub(super) fn seal_step(&mut self, node: NodeId, volume: PgId) {
        match self.place_mut(node).sealing.remove(&volume) {
            Some(Sealing::Syncing { quiet, covered }) => {
                self.media.get_mut(&volume).expect("every volume has a medium").synced(None, covered);
                let mut is_sealed = self.journals[&volume].loss != Loss::Sync;
                for (shard, quiet) in (0..).zip(quiet) {
                    is_sealed = is_sealed && self.shard(node, shard).core.seal(volume, quiet);
                }
                if !is_sealed {
                    for shard in 0..self.config.shards {
                        self.shard(node, shard).core.seal_failed(volume);
                    }
                    return;
                }
                trace!(self, "{node:?} seals {volume:?}");
                let known = (0..).zip(self.shards(node));
                let marks =
                    known.filter_map(|(number, shard)| Some((number, shard.marks(volume)?))).collect();
                let closing = Sealing::Closing { marks, is_asked: false };
                self.place_mut(node).sealing.insert(volume, closing);
                self.schedule_seal(node, volume);
            }
            Some(Sealing::Closing { marks, is_asked }) => {
                let place = self.place_mut(node);
                place.sealed.insert(volume, marks);
                place.sealing.insert(volume, Sealing::Sealed);
                if is_asked {
                    self.unseal(node, volume);
                }
            }
            Some(Sealing::Opening) => {
                trace!(self, "{node:?} has unsealed {volume:?}");
                self.place_mut(node).sealed.remove(&volume);
                self.unseal_all(node, volume);
            }
            Some(Sealing::Sealed) | None => unreachable!("nothing was under way"),
        }
    }

    /// A write waits.
    pub(super) fn unseal(&mut self, node: NodeId, volume: PgId) {
        match self.place_mut(node).sealing.get_mut(&volume) {
            Some(Sealing::Closing { is_asked, .. }) => *is_asked = true,
            Some(sealing @ Sealing::Sealed) => {
                *sealing = Sealing::Opening;
                self.schedule_seal(node, volume);
            }
            Some(Sealing::Opening) => {}
            Some(Sealing::Syncing { .. }) | None => unreachable!("its shards are not sealed"),
        }
    }

    /// The process ends.
    pub(super) fn end_seals(&mut self, node: NodeId) {
        for (volume, sealing) in std::mem::take(&mut self.place_mut(node).sealing) {
            let is_durable = self.seal_chance(node, volume, 2) & 1 == 0;
            let sealed = &mut self.place_mut(node).sealed;
            match sealing {
                Sealing::Closing { marks, .. } if is_durable => _ = sealed.insert(volume, marks),
                Sealing::Opening if is_durable => _ = sealed.remove(&volume),
                _ => {}
            }
        }
    }
}
