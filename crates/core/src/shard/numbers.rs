//! What commands of this node's clients are known by at all primaries of a volume that is no plain disk.
//!
//! A request's number names a command to one primary, in one term. Where the medium itself keeps account of what was done, a command needs a
//! number that it keeps while it goes from primary to primary, and, if this node becomes the primary, from the card to the disk and back.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ids::{PgId, Token};

/// See the module's head.
#[derive(Default)]
pub(super) struct Numbers {
    last: u64,
    open: BTreeMap<Token, (PgId, u64)>,
    volumes: BTreeMap<PgId, BTreeSet<u64>>,
}

impl Numbers {
    /// A client's command begins. Two that are open at a time have different tokens: the number of one would name the other, and the
    /// medium take that for done.
    pub(super) fn begin(&mut self, token: Token, volume: PgId) {
        self.last += 1;
        let before = self.open.insert(token, (volume, self.last));
        debug_assert_eq!(before, None, "{token:?} names a command that is open");
        self.volumes.entry(volume).or_default().insert(self.last);
    }

    /// The client has its answer: the command is sent to nobody any more.
    pub(super) fn end(&mut self, token: Token) {
        let Some((volume, number)) = self.open.remove(&token) else { return };
        let Some(numbers) = self.volumes.get_mut(&volume) else { return };
        numbers.remove(&number);
        if numbers.is_empty() {
            self.volumes.remove(&volume);
        }
    }

    /// The command's number, and the lowest one of those of its volume that may be repeated.
    pub(super) fn of(&self, token: Token) -> Option<(u64, u64)> {
        let (volume, number) = self.open.get(&token)?;
        Some((*number, *self.volumes.get(volume)?.first()?))
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_that_of_the_volume() {
        let mut numbers = Numbers::default();
        let (one, other) = (PgId(1 << 30), PgId(1 << 31));
        for (token, volume) in [(1, one), (2, other), (3, one)] {
            numbers.begin(Token(token), volume);
        }
        assert_eq!(
            [1, 2, 3].map(|token| numbers.of(Token(token))),
            [Some((1, 1)), Some((2, 2)), Some((3, 1))]
        );
        numbers.end(Token(1));
        assert_eq!((numbers.of(Token(1)), numbers.of(Token(3))), (None, Some((3, 3))));
        (2..4).for_each(|token| numbers.end(Token(token)));
        numbers.end(Token(3));
        assert_eq!((numbers.len(), numbers.volumes.len()), (0, 0));
    }
}
