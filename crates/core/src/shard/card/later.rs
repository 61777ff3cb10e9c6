//! Commands of this node's clients that have not begun, in the order in which they came. Each waits for one thing at a time.
//! One that an earlier primary may have done waits for a slot alone: who waits for a slot is passed by nobody.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::{BlockId, Generation, PgId, Token};
use crate::io::Payload;
use crate::shard::change::Change;
use crate::time::Instant;

/// What a client has asked for.
pub(in crate::shard) struct Wanted {
    pub(in crate::shard) token: Token,
    pub(in crate::shard) change: Change,
    pub(in crate::shard) fua: bool,
    pub(in crate::shard) payload: Payload,
    /// A primary of this card may have done it.
    pub(in crate::shard) sent_under: Option<Generation>,
}

/// A command that has not begun.
pub(super) struct Later {
    /// Its client is told that it has failed then, or a little later if it has just begun.
    pub(super) give_up: Instant,
    pub(super) volume: PgId,
    pub(super) wanted: Wanted,
}

/// What a command waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::shard) enum Hindrance {
    /// All slots of the volume are taken.
    Slots(PgId),
    /// A read of the block goes first, which has waited for a write before.
    Read(BlockId),
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Queue {
    last: u64,
    commands: BTreeMap<u64, (Hindrance, Later)>,
    waiting: BTreeMap<Hindrance, BTreeSet<u64>>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(super) fn push(&mut self, hindrance: Hindrance, command: Later) {
        self.last += 1;
        self.commands.insert(self.last, (hindrance, command));
        self.waiting.entry(hindrance).or_default().insert(self.last);
    }

    /// The first of those that wait for it.
    pub(super) fn first_of(&self, hindrance: Hindrance) -> Option<(u64, &Later)> {
        let number = *self.waiting.get(&hindrance)?.first()?;
        self.commands.get(&number).map(|(_, command)| (number, command))
    }

    /// It waits for something else now.
    pub(super) fn turn_to(&mut self, number: u64, hindrance: Hindrance) {
        let Some((before, _)) = self.commands.get_mut(&number) else { return };
        let before = core::mem::replace(before, hindrance);
        self.leave(number, before);
        self.waiting.entry(hindrance).or_default().insert(number);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Later> {
        let (hindrance, command) = self.commands.remove(&number)?;
        self.leave(number, hindrance);
        Some(command)
    }

    fn leave(&mut self, number: u64, hindrance: Hindrance) {
        if let Some(waiting) = self.waiting.get_mut(&hindrance) {
            waiting.remove(&number);
            if waiting.is_empty() {
                self.waiting.remove(&hindrance);
            }
        }
    }

    /// Takes out all of a volume.
    pub(super) fn take_of(&mut self, volume: PgId) -> Vec<Later> {
        let of_volume = self.commands.iter().filter(|(_, (_, later))| later.volume == volume);
        let numbers: Vec<u64> = of_volume.map(|(&number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// When the first of all is given up.
    pub(super) fn give_up(&self) -> Instant {
        self.commands.first_key_value().map_or(Instant::NEVER, |(_, (_, command))| command.give_up)
    }

    pub(super) fn pop_given_up(&mut self, now: Instant) -> Option<Later> {
        let (&number, _) = self.commands.first_key_value().filter(|(_, (_, later))| later.give_up <= now)?;
        self.remove(number)
    }
}
