//! The versions of the protocol: which ones a node speaks, and which one two nodes agree on.
//!
//! A release speaks its own version and that of the release before, so that a cluster can be upgraded one node after the
//! other. Two nodes speak the newest version that both know; what a version has added is not said in an earlier one.

/// The newest version that this release speaks.
pub const VERSION: u8 = 12;

/// The oldest.
pub const OLDEST: u8 = 11;

/// Since this version a Read or a Data may be of several blocks.
pub const RUNS: u8 = 12;

/// Since this version nodes can have columns of groups of copies.
pub const GROUPS: u8 = 12;

/// Since this version frames have checksums.
pub(super) const SUMS: u8 = 12;

/// Since this version an Attached says who may have cards of the volume.
pub(super) const ALLOWED: u8 = 12;

/// Since this version an Attach of a later part of a volume says in the name of which card of the first one.
pub(super) const RANKS: u8 = 12;

/// Since this version a Hello has more than one earlier life.
pub(super) const LIVES: u8 = 12;

/// All versions from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u8,
    /// The newest.
    pub newest: u8,
}

impl Default for Versions {
    /// Those of this release.
    fn default() -> Self {
        Self { oldest: OLDEST, newest: VERSION }
    }
}

impl Versions {
    /// One version.
    pub const fn only(version: u8) -> Self {
        Self { oldest: version, newest: version }
    }

    /// The version that who speaks these uses with who speaks `theirs`. None: they cannot talk.
    pub fn agree(self, theirs: Self) -> Option<u8> {
        let version = self.newest.min(theirs.newest);
        (version >= self.oldest && version >= theirs.oldest).then_some(version)
    }
}
