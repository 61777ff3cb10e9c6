//! Revocation: a directory is bounded by having cards give up locks that they have not acquired anew for long.
//!
//! A lock leaves the directory with its card's own word alone, or with the card. So room is made ahead: when an eighth of it is
//! left, for each new lock up to two are revoked, by an invalidation without blocks. The card parks its copies there, which
//! it uses again when it has acquired the region anew, and keeps what it is just using. While there is no room at all, an
//! acquire waits, or is asked again, and a command is told to come again: its lock waits in the same line, and is there when it
//! comes. A card that does not answer is given up like one that
//! holds up a write.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::directory::Cold;
use crate::ids::{Generation, NodeId, PgId, Stamp};
use crate::io::{Output, Payload};
use crate::message::Body;
use crate::mistakes::{Mistake, makes};
use crate::shard::{Limit, Shard};
use crate::time::Instant;
use crate::timers::Timer;
use crate::timing::SILENT_AFTER;

/// So many regions are revoked of one card at a time: a silent one does not take the others' turns.
const AT_ONCE: usize = 16;

/// So many acquires wait for room, and as many commands. Others are made again by their cards.
const WAITING_MAX: usize = 64;

/// An acquire that there was no room for, or a command that was told to come again.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) node: NodeId,
    pub(super) generation: Generation,
    pub(super) index: u32,
    pub(super) turn: u64,
    pub(super) ahead: u8,
    pub(super) is_command: bool,
}

/// The locks that cards were asked to give up, and the acquires that wait for that.
pub(super) struct Revocations {
    open: BTreeMap<(NodeId, u32), Revocation>,
    /// When they are asked again.
    pub(super) deadline: Instant,
    waiting: VecDeque<Waiting>,
}

struct Revocation {
    generation: Generation,
    repetitions: u32,
}

impl Default for Revocations {
    fn default() -> Self {
        Self { open: BTreeMap::new(), deadline: Instant::NEVER, waiting: VecDeque::new() }
    }
}

impl Revocations {
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    /// One that its card repeats takes the place that it has. Whether there is room for it.
    pub(super) fn wait(&mut self, acquire: Waiting) -> bool {
        let is_alike = |known: &Waiting| known.is_command == acquire.is_command;
        let same = |known: &&mut Waiting| {
            (known.node, known.index) == (acquire.node, acquire.index) && is_alike(known)
        };
        if let Some(known) = self.waiting.iter_mut().find(same) {
            *known = acquire;
            return true;
        }
        let has_room = self.waiting.iter().filter(|known| is_alike(known)).count() < WAITING_MAX;
        if has_room {
            self.waiting.push_back(acquire);
        }
        has_room
    }

    /// A command has come again, and there was room.
    pub(super) fn came(&mut self, node: NodeId, index: u32) {
        self.waiting.retain(|known| !known.is_command || (known.node, known.index) != (node, index));
    }

    fn may_ask(&self, cold: &Cold) -> bool {
        let of_node = || self.open.range((cold.node, 0)..=(cold.node, u32::MAX));
        of_node().all(|(&(_, region), _)| region != cold.region) && of_node().count() < AT_ONCE
    }

    /// The node has another card, or none.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.waiting.retain(|acquire| acquire.node != node);
        while let Some((&key, _)) = self.open.range((node, 0)..=(node, u32::MAX)).next() {
            self.open.remove(&key);
        }
    }
}

impl Shard {
    /// If there is little room in the directory, and the card is not known in the region, locks that are not used are revoked.
    pub(super) fn make_room_for_lock(&mut self, id: PgId, node: NodeId, region: u32) {
        let Some(primary) = self.primary_mut(id) else { return };
        if !primary.directory.is_crowded() || primary.directory.knows(node, region) {
            return;
        }
        let revocations = &primary.revocations;
        let cold = primary.directory.coldest(&primary.cards, |cold| revocations.may_ask(cold));
        for lock in &cold {
            let revocation = Revocation { generation: lock.generation, repetitions: 0 };
            primary.revocations.open.insert((lock.node, lock.region), revocation);
            if makes(Mistake::RevokeUnacknowledged) {
                primary.directory.strike(lock);
            }
        }
        cold.into_iter().for_each(|lock| self.send_revocation(id, lock));
        self.arm_revocations(id);
    }

    fn send_revocation(&mut self, id: PgId, Cold { node, generation, region }: Cold) {
        self.stats.locks_revoked += 1;
        self.reached.note(Limit::Revocation, true);
        let (block, _) = self.ends_of_region(region);
        let body = Body::Invalidate { generation, stamp: Stamp(0), block, count: 0 };
        self.send(node, id, body, Payload::None);
    }

    pub(super) fn arm_revocations(&mut self, id: PgId) {
        let again = self.now + self.timing.resend;
        let Some(primary) = self.primary_mut(id) else { return };
        let revocations = &mut primary.revocations;
        if revocations.len() > 0 && revocations.deadline == Instant::NEVER {
            revocations.deadline = again;
            self.timers.set(again, Timer::Revoke(id));
        }
    }

    /// A card has answered, whatever it has released.
    pub(super) fn revoked(&mut self, id: PgId, node: NodeId, region: u32) {
        if let Some(primary) = self.primary_mut(id) {
            primary.revocations.open.remove(&(node, region));
        }
    }

    /// A lock is gone from the directory.
    pub(super) fn grant_waiting(&mut self, id: PgId) {
        while let Some(acquire) = self.primary_mut(id).and_then(|p| p.revocations.waiting.pop_front()) {
            if !self.grant(acquire, id) {
                if let Some(primary) = self.primary_mut(id) {
                    primary.revocations.waiting.push_front(acquire);
                }
                return;
            }
        }
    }

    pub(in crate::shard) fn revoke_timeout(&mut self, id: PgId) {
        let Some(primary) = self.primary_mut(id) else { return };
        primary.revocations.deadline = Instant::NEVER;
        let asked = primary.revocations.open.iter_mut().map(|(&(node, region), revocation)| {
            revocation.repetitions += 1;
            let is_silent = revocation.repetitions.is_multiple_of(SILENT_AFTER);
            (Cold { node, generation: revocation.generation, region }, is_silent)
        });
        for (lock, is_silent) in asked.collect::<Vec<_>>() {
            self.send_revocation(id, lock);
            if is_silent {
                let Cold { node, generation, .. } = lock;
                self.outputs.push_back(Output::Silent { volume: id, node, generation });
            }
        }
        self.grant_waiting(id);
        self.arm_revocations(id);
    }
}
