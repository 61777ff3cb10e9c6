//! What a flush must say when applied writes were lost.
//!
//! A disk has a [`Persistence`] life: a number that is another one as soon as writes that were applied and not flushed
//! may be lost, by a loss of power or by a failed sync. Each write is answered with the life it was applied under. A card
//! ([`Unflushed`]) remembers the lives of the writes that it has acknowledged and not flushed; its flush carries what it
//! remembers, and the disk node fails the flush if that is not the present life. So each card with unflushed writes hears
//! of a loss once, and a card without any hears nothing. Of several clients of a card one flushes first: the others have
//! to be told by the driver, which knows by [`Unflushed::losses`] that there is something to tell.

use alloc::vec::Vec;

use crate::message::IoError;

/// A persistence life of a disk. A later life has a higher number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Persistence(pub u64);

impl Persistence {
    /// No life: nothing was applied, or nothing is unflushed.
    pub const NONE: Self = Self(0);
    /// A life that is over for certain.
    pub const OVER: Self = Self(u64::MAX);
}

/// Why a persistence life has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loss {
    /// The machine lost what was not flushed.
    #[default]
    Power,
    /// The disk failed to sync.
    Sync,
}

impl Loss {
    /// What a flush is answered that comes after the loss.
    #[must_use]
    pub const fn error(self) -> IoError {
        match self {
            Self::Power => IoError::PowerLost,
            Self::Sync => IoError::SyncFailed,
        }
    }
}

/// Lives that are told apart.
const LIVES_MAX: usize = 4;

/// The unflushed writes of a card of one volume. It outlives the attachment; all shards of the node share it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unflushed {
    lives: Vec<Applied>,
    /// Counts the acknowledged writes.
    acknowledged: u64,
    losses: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Applied {
    life: Persistence,
    /// The number of the last write that was applied under it.
    last: u64,
}

/// Where a flush has begun: it concerns the writes acknowledged before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushPoint {
    /// For [`crate::CommandKind::Flush`].
    pub since: Persistence,
    acknowledged: u64,
}

impl Unflushed {
    /// A write that is not durable by itself is being acknowledged.
    pub fn acknowledge(&mut self, life: Persistence) {
        if life == Persistence::NONE {
            return;
        }
        self.acknowledged += 1;
        let last = self.acknowledged;
        if let Some(known) = self.lives.iter_mut().find(|known| known.life == life) {
            known.last = last;
            return;
        }
        if self.lives.len() == LIVES_MAX {
            // Both are over. A flush fails for the later of them, too.
            let second = self.lives.remove(1);
            self.lives[0] = Applied { life: Persistence::OVER, last: second.last.max(self.lives[0].last) };
        }
        self.lives.push(Applied { life, last });
    }

    /// A flush begins.
    #[must_use]
    pub fn begin_flush(&self) -> FlushPoint {
        let since = match *self.lives {
            [] => Persistence::NONE,
            [one] => one.life,
            // One of them is over.
            _ => Persistence::OVER,
        };
        FlushPoint { since, acknowledged: self.acknowledged }
    }

    /// The flush has succeeded, or has failed because of a loss: it is not told again.
    pub fn end_flush(&mut self, point: FlushPoint, result: Result<(), IoError>) {
        let is_loss = matches!(result, Err(IoError::PowerLost | IoError::SyncFailed));
        if result.is_ok() || is_loss {
            let before = self.lives.len();
            self.lives.retain(|applied| applied.last > point.acknowledged);
            // Flushes that were under way at the same time tell of one loss.
            self.losses += u64::from(is_loss && self.lives.len() < before);
        }
    }

    /// How many losses flushes have told of.
    #[must_use]
    pub const fn losses(&self) -> u64 {
        self.losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Persistence = Persistence(7);
    const NEW: Persistence = Persistence(8);
    const LOST: Result<(), IoError> = Err(IoError::PowerLost);

    #[test]
    fn a_flush_carries_the_life_of_what_it_is_to_make_durable() {
        let mut card = Unflushed::default();
        assert_eq!(card.begin_flush().since, Persistence::NONE);
        card.acknowledge(Persistence::NONE);
        assert_eq!(card.begin_flush().since, Persistence::NONE);
        card.acknowledge(OLD);
        card.acknowledge(OLD);
        assert_eq!(card.begin_flush().since, OLD);
        card.acknowledge(NEW);
        assert_eq!(card.begin_flush().since, Persistence::OVER);
    }

    #[test]
    fn a_loss_is_told_once_and_a_flush_that_failed_otherwise_is_not_the_end() {
        for (result, left) in [(Ok(()), false), (LOST, false), (Err(IoError::Io), true)] {
            let mut card = Unflushed::default();
            card.acknowledge(OLD);
            let point = card.begin_flush();
            card.end_flush(point, result);
            assert_eq!(card.begin_flush().since != Persistence::NONE, left, "{result:?}");
        }
    }

    #[test]
    fn losses_are_counted_once_and_by_cards_that_had_something_to_lose() {
        let mut card = Unflushed::default();
        card.end_flush(card.begin_flush(), LOST);
        assert_eq!(card.losses(), 0);
        card.acknowledge(OLD);
        let (one, other) = (card.begin_flush(), card.begin_flush());
        card.end_flush(one, Err(IoError::Io));
        assert_eq!(card.losses(), 0);
        card.end_flush(one, LOST);
        card.end_flush(other, LOST);
        assert_eq!(card.losses(), 1);
    }

    #[test]
    fn what_is_acknowledged_during_a_flush_needs_the_next_one() {
        let mut card = Unflushed::default();
        card.acknowledge(OLD);
        let first = card.begin_flush();
        card.acknowledge(NEW);
        card.end_flush(first, LOST);
        assert_eq!(card.begin_flush().since, NEW);
        let second = card.begin_flush();
        card.acknowledge(NEW);
        card.end_flush(second, Ok(()));
        assert_eq!(card.begin_flush().since, NEW);
    }

    #[test]
    fn of_many_lives_few_are_told_apart() {
        let mut card = Unflushed::default();
        (1..=100).for_each(|life| card.acknowledge(Persistence(life)));
        assert_eq!((card.lives.len(), card.begin_flush().since), (LIVES_MAX, Persistence::OVER));
        card.end_flush(card.begin_flush(), LOST);
        assert_eq!(card.begin_flush().since, Persistence::NONE);
    }
}
