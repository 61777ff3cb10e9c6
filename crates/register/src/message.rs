//! Messages between proposers and acceptors. All may be lost, repeated and delayed.

use crate::arbiters::StoreId;
use crate::ballot::Ballot;
use crate::value::Value;

/// A request to an acceptor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Request<T> {
    /// The store that is asked: another one at the same address does not answer for it.
    pub store: StoreId,
    /// What is asked.
    pub body: RequestBody<T>,
}

/// What an acceptor is asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RequestBody<T> {
    /// Promise to accept nothing below this ballot, and tell what was accepted.
    Prepare(Ballot),
    /// Accept a value.
    Accept(Accepted<T>),
    /// Confirm that no higher ballot is promised. The leader asks: see [`crate::Leadership`].
    Confirm {
        /// The leader's ballot.
        ballot: Ballot,
        /// The number of the question.
        number: u64,
    },
    /// The leader with this ballot leads no more: nobody need wait until its term must have ended. There is no reply.
    Release(Ballot),
}

/// A value at a ballot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Accepted<T> {
    /// The ballot.
    pub ballot: Ballot,
    /// The value.
    pub value: Value<T>,
}

/// The reply of an acceptor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reply<T> {
    /// The store that replies.
    pub store: StoreId,
    /// What it says.
    pub body: ReplyBody<T>,
}

/// What an acceptor replies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReplyBody<T> {
    /// It has promised.
    Promise {
        /// The ballot of the request.
        ballot: Ballot,
        /// What it has accepted last; none if nothing.
        accepted: Option<Accepted<T>>,
    },
    /// It has accepted the value.
    Accept {
        /// The ballot of the request.
        ballot: Ballot,
    },
    /// It has not promised a higher ballot.
    Confirm {
        /// The ballot of the request.
        ballot: Ballot,
        /// The number of the question.
        number: u64,
    },
    /// It has promised a higher ballot.
    Reject {
        /// The ballot of the request.
        ballot: Ballot,
        /// The ballot of its promise.
        promised: Ballot,
    },
    /// The store that was asked is not there; it was lost, if it ever was here.
    Stranger {
        /// The store that was asked.
        asked: StoreId,
    },
}

impl<T> RequestBody<T> {
    /// The ballot of the request.
    #[must_use]
    pub const fn ballot(&self) -> Ballot {
        match self {
            Self::Prepare(ballot)
            | Self::Accept(Accepted { ballot, .. })
            | Self::Confirm { ballot, .. }
            | Self::Release(ballot) => *ballot,
        }
    }
}
