//! Deliberate mistakes, one at a time, to show that the tests' world and the model find them.
//!
//! Outside tests and without the feature `mistakes` no machine can make one.

use super::extents::EXTENTS_MAX;
use super::origins::{APPLIED_MAX, ORIGINS_MAX};
use super::primary::{OPEN_MAX, SYNCED, TOLD};

/// How much a machine remembers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Ranges that were missed, or are not at all columns.
    pub(super) extents: usize,
    /// Ranges that a column being filled has confirmed.
    pub(super) copied: usize,
    /// In how many parts it is told what a fill has copied.
    pub(super) told: u64,
    /// Bytes that a fill copies before they are made durable.
    pub(super) synced: u64,
    /// Commands of a client that were applied, beyond which others wait while one is open.
    pub(super) applied: usize,
    /// Commands of all clients that a column reports.
    pub(super) origins: usize,
    /// Bytes of writes that are open at the columns, beyond which others wait.
    pub(super) open: u64,
}

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// A primary serves after its right has ended.
    ServeWithoutRight,
    /// A node takes over, and a column seals for another node, while its promise lasts.
    SealWithinPromise,
    /// A column has promised nothing after a start.
    ForgetPromise,
    /// A column takes writes of an epoch below the one it is sealed for.
    AcceptEarlierEpoch,
    /// A column says that it is sealed before that is durable.
    SealBeforeDurable,
    /// A write is acknowledged when most columns in sync have it.
    MajorityAcknowledges,
    /// A node with a stale column takes over.
    TakeOverStale,
    /// A primary does not make the columns agree.
    SkipReconciliation,
    /// A primary writes while cards of the last one may be valid.
    SkipGrace,
    /// A primary knows no commands of the last one.
    ForgetOrigins,
    /// A missed region is cleared when its copy is sent.
    ClearWhenSent,
    /// Missed regions are cleared when the column that missed them is let in.
    ClearAtLetIn,
    /// What was not complete when a column was dropped does not count as missed.
    ForgetUnstable,
    /// A column is admitted before what was copied is durable there.
    AdmitBeforeHardened,
    /// A disk that says it was in sync is believed, whatever the map says.
    TrustDisk,
    /// A write that the column being filled did not confirm is forgotten.
    ForgetFillWrites,
    /// A new column counts as in sync at once.
    AddInSync,
    /// A column in sync leaves before the one that takes its place is filled.
    RetireUnfilled,
    /// A column that had left and is added again is believed what its disk says.
    TrustReturned,
    /// The promise of a column that has left counts in the place of the one of its successor.
    CountRetired,
    /// What is being repaired does not keep writes out.
    RepairOvertakes,
    /// A disk that was put back to what it was is believed: what it has counted, and which terms it was sealed for, is not compared.
    IgnoreMarks,
    /// A write that no column could do fails, though each has what another one lacks.
    FailAtOnce,
    /// A primary that leaves the group to another one frees the columns of their promises before the register has the next map, and serves on.
    ResignEarly,
    /// A primary that leaves the group to another one answers what is open as if it were done.
    AnswerAtHandOver,
    /// A primary whose column has grown fills others as far as that had reached before.
    FillAsBefore,
    /// What one column has missed and got is forgotten, though another one has missed it, too.
    ClearForOthers,
    /// A column forgets what was missed although it has a write that came later.
    ClearOvertaken,
    /// A column trusts its memory of commands although a copy may have undone one.
    TrustCopied,
    /// What a fill has copied is told when the column is given up already, and lacks what others were written there.
    TellGivenUp,
    /// A column that is filled is believed its disk, whatever the map says that it has counted.
    FillPutBack,
}

/// The mistake that a machine makes, and how much it remembers: none, and all that is allowed, in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Made {
    #[cfg(any(test, feature = "mistakes"))]
    mistake: u8,
    /// It remembers next to nothing.
    #[cfg(any(test, feature = "mistakes"))]
    pub(super) has_little_room: bool,
}

impl Made {
    #[cfg(any(test, feature = "mistakes"))]
    pub(super) const fn new(mistake: Mistake) -> Self {
        Self { mistake: mistake as u8 + 1, has_little_room: false }
    }

    /// How much the machine remembers.
    pub(super) const fn bounds(self) -> Bounds {
        #[cfg(any(test, feature = "mistakes"))]
        if self.has_little_room {
            return Bounds { extents: 1, copied: 1, told: 2, synced: 2, applied: 2, origins: 2, open: 2 };
        }
        Bounds {
            extents: EXTENTS_MAX,
            copied: 16 * EXTENTS_MAX,
            told: TOLD,
            synced: SYNCED,
            applied: APPLIED_MAX,
            origins: ORIGINS_MAX,
            open: OPEN_MAX,
        }
    }

    #[cfg(any(test, feature = "mistakes"))]
    pub(super) const fn is(self, mistake: Mistake) -> bool {
        self.mistake == mistake as u8 + 1
    }

    #[cfg(not(any(test, feature = "mistakes")))]
    pub(super) const fn is(self, _: Mistake) -> bool {
        false
    }
}
