//! Sealed: the journal says durably that the disk is synced, and what its marks are.
//!
//! A node that dies while its disk is sealed has lost nothing, and its next life knows of all writes, as after a clean stop.
//! The driver seals a disk that is idle, and the first write after that waits until the journal says the contrary: the journal
//! confirms it like a card that has copies.

use alloc::vec::Vec;

use super::Primary;
use crate::ids::{NodeId, OpId, PgId};
use crate::io::Output;
use crate::mistakes::{Mistake, makes};
use crate::shard::Shard;
use crate::time::Instant;

/// The journal, among those that confirm a write. No node has this number.
const JOURNAL: NodeId = NodeId(u16::MAX);

/// Nothing is being done to a disk for one shard, and was not since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quiet {
    /// Since when nothing is written.
    pub since: Instant,
    /// Commands that the disk was given in this term, flushes too.
    pub(super) commands: u64,
}

/// Whether a primary may write without asking.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    Open,
    Sealed,
    /// Sealed, and the journal was asked.
    Opening,
}

impl Shard {
    /// None while a command for the volume is open or held, while a sync has failed and that is not told, while the disk is sealed,
    /// or while the volume's primary is elsewhere.
    #[must_use]
    pub fn quiet(&self, volume: PgId) -> Option<Quiet> {
        let Primary { quiet, unjudged, seal, .. } = self.primary(volume)?;
        let is_open = unjudged.is_some()
            || *seal != Seal::Open
            || self.disk_commands.values().any(|command| command.volume == volume)
            || self.held_commands.iter().any(|(_, command)| command.volume == volume);
        (!is_open).then_some(*quiet)
    }

    /// The last life has left the disk sealed: said before anybody has a card, and so before the disk is given anything.
    pub fn begin_sealed(&mut self, volume: PgId) {
        if let Some(primary) = self.primary_mut(volume).filter(|primary| primary.seal == Seal::Open) {
            primary.seal = Seal::Sealed;
        }
    }

    /// From now on the volume's disk is given no write before [`crate::Input::Unsealed`]. No, if it was given anything since it was
    /// quiet like that: a sync that began then need not cover it, and need not have heard of every failure.
    pub fn seal(&mut self, volume: PgId, quiet: Quiet) -> bool {
        let is_quiet = self.quiet(volume) == Some(quiet) || makes(Mistake::SealLate);
        if let Some(primary) = self.primary_mut(volume).filter(|_| is_quiet) {
            primary.seal = Seal::Sealed;
        }
        is_quiet
    }

    /// The journal was not sealed after all. A write that waits has asked already, and is answered by [`crate::Input::Unsealed`].
    /// That would be wrong here: it could be late, and open the next seal.
    pub fn seal_failed(&mut self, volume: PgId) {
        if let Some(primary) = self.primary_mut(volume).filter(|primary| primary.seal == Seal::Sealed) {
            primary.seal = Seal::Open;
        }
    }

    /// Who has to confirm a write beside cards: the journal, if the disk is sealed.
    pub(super) fn ask_journal(&mut self, volume: PgId) -> Option<NodeId> {
        let primary = self.primary_mut(volume).filter(|primary| primary.seal != Seal::Open)?;
        if primary.seal == Seal::Sealed {
            primary.seal = Seal::Opening;
            self.outputs.push_back(Output::Unseal { volume });
        }
        (!makes(Mistake::UnsealLate)).then_some(JOURNAL)
    }

    /// See [`crate::Input::Unsealed`].
    pub(in crate::shard) fn unsealed(&mut self, volume: PgId) {
        let Some(primary) = self.primary_mut(volume) else { return };
        primary.seal = Seal::Open;
        let open = self.disk_commands.iter().filter(|(_, command)| command.volume == volume);
        let waiting: Vec<OpId> = open.map(|(&op, _)| op).collect();
        waiting.into_iter().for_each(|op| self.confirmed(op, JOURNAL));
    }
}
