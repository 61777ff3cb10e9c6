//! An arbiter's part: it promises and votes.

use crate::arbiters::StoreId;
use crate::ballot::Ballot;
use crate::message::{Accepted, Reply, ReplyBody, Request, RequestBody};
use crate::mistakes::{Made, Mistake};
use crate::value::Value;

/// What an acceptor must not forget.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AcceptorState<T> {
    /// The store.
    pub store: StoreId,
    /// Nothing below this ballot is accepted any more.
    pub promised: Ballot,
    /// The value accepted last; none in a store that is new to the register.
    pub accepted: Option<Accepted<T>>,
}

impl<T> AcceptorState<T> {
    /// A store that is new: it knows no value.
    #[must_use]
    pub const fn blank(store: StoreId) -> Self {
        Self { store, promised: Ballot::FIRST, accepted: None }
    }

    /// The store with which a register begins. There is one for a register.
    #[must_use]
    pub fn founder(store: StoreId, content: T) -> Self {
        let accepted = Accepted { ballot: Ballot::FIRST, value: Value::first(store, content) };
        Self { store, promised: Ballot::FIRST, accepted: Some(accepted) }
    }
}

/// What an acceptor does about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision<T> {
    /// To be made durable before the reply is sent, then given to [`Acceptor::take`]; none if nothing has changed.
    pub state: Option<AcceptorState<T>>,
    /// The reply.
    pub reply: Reply<T>,
}

/// One arbiter of a register.
///
/// A driver, for each request: [`Acceptor::decide`]; make the new state durable, if there is one; [`Acceptor::take`] it;
/// send the reply. If the state cannot be made durable, the driver answers nothing any more until it has read the store
/// again: nobody knows which of the two states the disk has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acceptor<T> {
    state: AcceptorState<T>,
    made: Made,
}

impl<T: Clone + Eq> Acceptor<T> {
    /// An acceptor with the state that its store has.
    #[must_use]
    pub fn new(state: AcceptorState<T>) -> Self {
        Self { state, made: Made::default() }
    }

    /// The same with a deliberate mistake.
    #[cfg(feature = "mistakes")]
    #[must_use]
    pub fn with_mistake(self, mistake: Mistake) -> Self {
        Self { made: Made::new(mistake), ..self }
    }

    /// The state, as it was last taken.
    #[must_use]
    pub const fn state(&self) -> &AcceptorState<T> {
        &self.state
    }

    /// What follows from a request. Nothing has changed yet.
    #[must_use]
    pub fn decide(&self, request: &Request<T>) -> Decision<T> {
        let AcceptorState { store, promised, ref accepted } = self.state;
        let decision =
            |state: Option<AcceptorState<T>>, body| Decision { state, reply: Reply { store, body } };
        if request.store != store {
            return decision(None, ReplyBody::Stranger { asked: request.store });
        }
        let ballot = request.body.ballot();
        if ballot < promised && !self.made.is(Mistake::AcceptBelowPromise) {
            return decision(None, ReplyBody::Reject { ballot, promised });
        }
        let (accepted, body) = match &request.body {
            RequestBody::Prepare(_) => {
                (accepted.clone(), ReplyBody::Promise { ballot, accepted: accepted.clone() })
            }
            RequestBody::Accept(value) => (Some(value.clone()), ReplyBody::Accept { ballot }),
            RequestBody::Confirm { number, .. } => {
                // The proposer has prepared the ballot at a quorum, perhaps without this one. What was asked before by another, and
                // comes late, must not be confirmed after it.
                let prepared = Ballot::prepared(ballot.round, ballot.proposer);
                let accepted = accepted.clone();
                let state =
                    (prepared > promised).then_some(AcceptorState { store, promised: prepared, accepted });
                return decision(state, ReplyBody::Confirm { ballot, number: *number });
            }
            // Of no concern here: what it has promised goes on.
            RequestBody::Release(_) => return decision(None, ReplyBody::Reject { ballot, promised }),
        };
        let next = AcceptorState { store, promised: ballot.max(promised), accepted };
        decision(Some(next).filter(|next| *next != self.state), body)
    }

    /// A state that was decided upon, and is durable.
    pub fn take(&mut self, state: AcceptorState<T>) {
        self.state = state;
    }
}
