//! Deliberate mistakes in the lock service, one at a time, to show that the random runs find them.
//!
//! Without the feature `mistakes` nobody can make one, and nothing of this is in the program.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Mistake {
    /// A new home grants before it has heard what the survivors know.
    SkipCollection = 1,
    /// A lock is granted before its copy is confirmed.
    GrantUncopied,
    /// The home waits for a silent session no longer than that believes in its lease.
    EndSessionsEarly,
    /// A new home grants at once though more was lost than was copied.
    ForgetLostLocks,
    /// The tokens of a new home begin again.
    RepeatTokens,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::SkipCollection,
        Self::GrantUncopied,
        Self::EndSessionsEarly,
        Self::ForgetLostLocks,
        Self::RepeatTokens,
    ];
}

#[cfg(feature = "mistakes")]
static MADE: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// From now on every home and session of this process makes this mistake.
#[cfg(feature = "mistakes")]
pub fn make(mistake: Option<Mistake>) {
    MADE.store(mistake.map_or(0, |mistake| mistake as u8), core::sync::atomic::Ordering::SeqCst);
}

/// Whether the mistake is being made.
#[cfg(feature = "mistakes")]
pub(crate) fn makes(mistake: Mistake) -> bool {
    MADE.load(core::sync::atomic::Ordering::Relaxed) == mistake as u8
}

/// Whether the mistake is being made: never.
#[cfg(not(feature = "mistakes"))]
pub(crate) const fn makes(_: Mistake) -> bool {
    false
}
