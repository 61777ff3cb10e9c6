//! Ballots.

/// One proposer in one run of its process. No two have the same, in the whole life of a register: a driver takes a random
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProposerId(pub u64);

/// The number of a proposal. Higher ones prevail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ballot {
    /// A proposer prepares with a higher round than it has heard of.
    pub round: u64,
    /// The proposer that the ballot belongs to.
    pub proposer: ProposerId,
    /// Proposals after one preparation: 0, 1, 2 ... All ballots of a round between two steps are the same proposer's, so
    /// that a promise for one step is a promise against all others up to the next.
    pub step: u64,
}

impl Ballot {
    /// Below that of every proposer: the ballot at which the founder of a register has its first value.
    pub const FIRST: Self = Self { round: 0, proposer: ProposerId(0), step: 0 };

    /// The first step of a round.
    #[must_use]
    pub const fn prepared(round: u64, proposer: ProposerId) -> Self {
        Self { round, proposer, step: 0 }
    }

    /// The next step.
    #[must_use]
    pub const fn next_step(self) -> Self {
        Self { step: self.step + 1, ..self }
    }
}
