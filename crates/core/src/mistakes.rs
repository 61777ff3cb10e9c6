//! Deliberate mistakes in the protocol, one at a time, to show that the checker finds them.
//!
//! Without the feature `mistakes` nobody can make one, and nothing of this is in the program.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Mistake {
    /// One card is not told that a write begins.
    ForgetInvalidation = 1,
    /// A write does not wait until all copies are gone.
    WriteUnconfirmed,
    /// A card confirms, and keeps its copies.
    KeepInvalidated,
    /// Copies are used after the lease.
    ServeAfterLease,
    /// The disk node gives a card up before its lease ends.
    ExpireEarly,
    /// A delivered block is used however old it is.
    UseStale,
    /// The disk node serves blocks that are being written.
    ServeUnderWrite,
    /// A write goes into the writer's copy although another one was under way.
    PatchAfterOther,
    /// A command of a card that was given up is done.
    AcceptOldCard,
    /// A repeated command is done again.
    RepeatCommands,
    /// A command that outlived the disk node is done again, whatever came after it.
    RepeatAfterRestart,
    /// Writes begin at once after the disk node's restart.
    SkipGrace,
    /// A card that was lost keeps its copies.
    KeepAfterSuspension,
    /// A card that may only read may write.
    LetReadersWrite,
    /// A card uses copies where it holds no lock.
    UseReleased,
    /// A grant counts though the card has released something since it asked.
    LateGranted,
    /// Parked copies are used again however old they are.
    KeepUnjudged,
    /// The primary goes by a release that is older than what it has granted since.
    ReleaseUnordered,
    /// The primary forgets a lock that it revokes before the card has given it up.
    RevokeUnacknowledged,
    /// A primary that knows nothing of its earlier lives believes that they have written nothing.
    ForgetEarlierWrites,
    /// A command does not acquire what it changes.
    NoCommandLock,
    /// A card that is being given up may still write.
    ForgetFence,
    /// A new life of a node is believed to follow its last one, which may be alive.
    BelieveSuccession,
    /// A card confirms an invalidation while a kernel still has pages.
    ConfirmBeforeWithdrawn,
    /// A node writes what its own kernel has pages of.
    ForgetOwnPages,
    /// The disk node writes what its own kernel has pages of.
    ForgetPagesAtDisk,
    /// A card that was lost is attached anew while a kernel still has pages.
    KeepPagesAfterSuspension,
    /// The disk node's next life does not know who has a volume for itself.
    ForgetExclusive,
    /// A flush is answered though what it was to make durable is lost.
    IgnorePersistence,
    /// A sync that failed is no loss.
    ForgetFailedSync,
    /// A node's renewal is taken for all its cards, those that were given up too.
    RenewExpired,
    /// The first delivery of a fetch is refused as stale, unless the disk node was asked after a failure.
    RefuseDeliveries,
    /// Unanswered commands are sent again on a connection that lives, and soon.
    RepeatHastily,
    /// A delivery that a write has made stale is given to readers that came after the write, too.
    GiveStaleToAll,
    /// Commands that wait for one primary take the slots of all.
    ShareSlots,
    /// Every card is asked before a write, whatever it holds.
    AskAll,
    /// The bound of a segment is not raised when a write to it begins.
    ForgetBegun,
    /// A command that is void before it comes is done when it comes.
    ForgetVoid,
    /// The blocks of a command that was given up are free, though it may yet be done.
    ForgetDoubt,
    /// Nobody hears that a command was given up.
    IgnoreVoid,
    /// A command whose slot has been used again since is done.
    RepeatStale,
    /// The first write after an idle time is given to the disk before the journal says that the disk is written.
    UnsealLate,
    /// The journal says that a disk is synced that was written since the sync began.
    SealLate,
    /// Who had a volume for itself goes on whatever others have written meanwhile.
    ForgetOvertaken,
    /// Copies are given to members that may not attach the volume.
    ServeAnyMember,
    /// A primary that another one may have replaced grants and renews leases.
    LeaseWithoutRight,
    /// What was repeated to a primary goes into copies, though others may have written since it was done.
    KeepRepeated,
    /// A node says that it knows of a group's next primary, and uses the copies of its card until it has another one.
    KeepOverMove,
}

impl Mistake {
    /// Those of commands in flight, which random runs of a few shards find (`tests/mistakes.rs`).
    pub const IN_FLIGHT: [Self; 4] =
        [Self::ForgetVoid, Self::ForgetDoubt, Self::IgnoreVoid, Self::RepeatStale];

    /// All others: those that the checker finds.
    pub const ALL: [Self; 44] = [
        Self::ForgetInvalidation,
        Self::WriteUnconfirmed,
        Self::KeepInvalidated,
        Self::ServeAfterLease,
        Self::ExpireEarly,
        Self::UseStale,
        Self::ServeUnderWrite,
        Self::PatchAfterOther,
        Self::AcceptOldCard,
        Self::RepeatCommands,
        Self::RepeatAfterRestart,
        Self::SkipGrace,
        Self::KeepAfterSuspension,
        Self::LetReadersWrite,
        Self::UseReleased,
        Self::LateGranted,
        Self::KeepUnjudged,
        Self::ReleaseUnordered,
        Self::RevokeUnacknowledged,
        Self::ForgetEarlierWrites,
        Self::NoCommandLock,
        Self::ForgetFence,
        Self::BelieveSuccession,
        Self::ConfirmBeforeWithdrawn,
        Self::ForgetOwnPages,
        Self::ForgetPagesAtDisk,
        Self::KeepPagesAfterSuspension,
        Self::ForgetExclusive,
        Self::IgnorePersistence,
        Self::ForgetFailedSync,
        Self::RenewExpired,
        Self::RefuseDeliveries,
        Self::RepeatHastily,
        Self::GiveStaleToAll,
        Self::UnsealLate,
        Self::SealLate,
        Self::ShareSlots,
        Self::AskAll,
        Self::ForgetBegun,
        Self::ForgetOvertaken,
        Self::ServeAnyMember,
        Self::LeaseWithoutRight,
        Self::KeepRepeated,
        Self::KeepOverMove,
    ];
}

#[cfg(feature = "mistakes")]
static MADE: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// From now on every core of this process makes this mistake.
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
