//! Deliberate mistakes, one at a time, to show that the tests' world finds them.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mistake {
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
}

/// The mistake that a machine makes: none, outside tests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Made {
    #[cfg(test)]
    mistake: u8,
}

impl Made {
    #[cfg(test)]
    pub(super) const fn new(mistake: Mistake) -> Self {
        Self { mistake: mistake as u8 + 1 }
    }

    #[cfg(test)]
    pub(super) const fn is(self, mistake: Mistake) -> bool {
        self.mistake == mistake as u8 + 1
    }

    #[cfg(not(test))]
    pub(super) const fn is(self, _: Mistake) -> bool {
        false
    }
}
