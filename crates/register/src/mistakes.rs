//! Deliberate mistakes, one at a time for each machine, to show that the model finds them.
//!
//! Without the feature `mistakes` no machine can make one, and nothing of this is in the program.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// An acceptor accepts a value below the ballot that it has promised.
    AcceptBelowPromise,
    /// A proposer goes on from the value with the lowest ballot that it was told of.
    AdoptLowest,
    /// A proposer asks for a majority of the earlier arbiters only while they change.
    EarlierMajority,
    /// A proposer goes on from a value that may not be chosen.
    SkipWriteBack,
    /// A proposer whose proposal was rejected proposes again without a read.
    SkipReadBack,
    /// A proposer takes its proposal for not taken because a quorum has an earlier value.
    ForgetDoubt,
    /// A proposer finishes the change of arbiters in the value that begins it.
    ChangeAtOnce,
    /// A proposer repeats a step of its ballot with another value.
    RepeatStep,
}

/// The mistake that a machine makes.
#[cfg(feature = "mistakes")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Made(pub(crate) u8);

/// The mistake that a machine makes: none.
#[cfg(not(feature = "mistakes"))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Made(());

impl Made {
    #[cfg(feature = "mistakes")]
    pub(crate) const fn new(mistake: Mistake) -> Self {
        Self(mistake as u8 + 1)
    }

    #[cfg(feature = "mistakes")]
    pub(crate) const fn is(self, mistake: Mistake) -> bool {
        self.0 == mistake as u8 + 1
    }

    #[cfg(not(feature = "mistakes"))]
    pub(crate) const fn is(self, _: Mistake) -> bool {
        false
    }
}
