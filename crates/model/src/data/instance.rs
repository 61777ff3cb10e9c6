//! How large the explored instance is.

/// Limits of what may happen in a run, and which mistake the protocol makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Commands of each of the two writers, one after the other.
    pub commands: [u8; 2],
    /// Reads of the reader, one after the other.
    pub reads: u8,
    /// How often a new epoch begins.
    pub epochs: u8,
    /// How often a command is sent again on a card that is still attached: its reply may be lost.
    pub resends: u8,
    /// How often a lease ends before it is renewed.
    pub lapses: u8,
    /// How often a card that has a lease attaches again.
    pub reattaches: u8,
    /// How often a message that was delivered stays in flight.
    pub repeats: u8,
    /// A new epoch begins on another node, while the old primary's process goes on; both reach one medium, which
    /// has a gate and keeps the origins of writes. Else the primary's process ends and starts again.
    pub moves: bool,
    /// Counts of stamps that one mark covers.
    pub interval: u8,
    /// New cards, acquires and reads reach the primary at once. Far fewer states: what is granted or delivered may
    /// still come late.
    pub prompt: bool,
    /// The deliberate mistake.
    pub mistake: Option<Mistake>,
}

impl Instance {
    /// One command each, one restart of the primary, one lost reply.
    #[must_use]
    pub const fn restart() -> Self {
        Self {
            commands: [1, 1],
            reads: 1,
            epochs: 1,
            resends: 1,
            lapses: 0,
            reattaches: 0,
            repeats: 0,
            moves: false,
            interval: 1,
            prompt: true,
            mistake: None,
        }
    }

    /// One command each, one move of the primary.
    #[must_use]
    pub const fn moved() -> Self {
        Self { moves: true, interval: 4, resends: 0, ..Self::restart() }
    }

    /// The same instance of a protocol that makes `mistake`.
    #[must_use]
    pub const fn with(self, mistake: Mistake) -> Self {
        Self { mistake: Some(mistake), ..self }
    }

    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

/// A rule that the protocol does not keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// R17: a command does not enter its sender in the directory.
    NoCommandLock,
    /// R20: a write is applied before all holders have acknowledged its invalidation.
    WriteUnconfirmed,
    /// R11: a delivery is kept whatever it is as of.
    DataUnjudged,
    /// R10: a parked copy becomes usable whatever it is as of.
    ParkedUnjudged,
    /// R21: a reply is accepted that answers an earlier sending of the command.
    LateDone,
    /// R6: a new epoch begins writes at once.
    SkipGrace,
    /// R18: a command that was applied is applied again when it is sent again.
    NoReplyCache,
    /// R24: a card repeats a command that was overtaken.
    RepeatOvertaken,
    /// R24 c: a repeat is applied although another node wrote in this epoch.
    RepeatOverThisEpoch,
    /// R13: a release that an acquire has overtaken removes the holder.
    ReleaseUnordered,
    /// R10: a grant of an acquire that was deleted counts.
    LateGranted,
    /// R8: a copy is used without the lock.
    UseReleased,
    /// A6: the medium takes writes of a deposed primary.
    NoGate,
    /// R26: a new primary does not look for a repeated command among the origins.
    NoOrigins,
}
