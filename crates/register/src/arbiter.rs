//! An acceptor that keeps to a leader for a while.

use cards_core::Instant;

use crate::acceptor::{Acceptor, AcceptorState, Decision};
use crate::ballot::ProposerId;
use crate::leader::LeaderTiming;
use crate::message::{ReplyBody, Request, RequestBody};

/// An acceptor, and to whom it is pledged. The pledge is not durable: after a restart nobody may prepare until any
/// earlier one has ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Arbiter<T> {
    acceptor: Acceptor<T>,
    timing: LeaderTiming,
    pledge: Pledge,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pledge {
    /// None: to a proposer that is not remembered.
    to: Option<ProposerId>,
    until: Instant,
}

impl<T: Clone + Eq> Arbiter<T> {
    /// An arbiter whose store was opened again. A store that is new has pledged nothing: see [`Arbiter::is_free`].
    #[must_use]
    pub fn new(acceptor: Acceptor<T>, timing: LeaderTiming, now: Instant) -> Self {
        let pledge = Pledge { to: None, until: now + timing.pledge };
        Self { acceptor, timing, pledge }
    }

    /// An arbiter that is known to be pledged to nobody: its store is new, or is the only one and no other process has it.
    #[must_use]
    pub const fn is_free(acceptor: Acceptor<T>, timing: LeaderTiming) -> Self {
        Self { acceptor, timing, pledge: Pledge { to: None, until: Instant(0) } }
    }

    /// When the pledge ends: nothing was heard of a leader since a pledge before.
    #[must_use]
    pub const fn pledged_until(&self) -> Instant {
        self.pledge.until
    }

    /// Whether another proposer is the leader, or may be, as far as this arbiter knows.
    #[must_use]
    pub fn is_pledged_to_another(&self, now: Instant, proposer: ProposerId) -> bool {
        now < self.pledge.until && self.pledge.to != Some(proposer)
    }

    /// The state, as it was last taken.
    #[must_use]
    pub const fn state(&self) -> &AcceptorState<T> {
        self.acceptor.state()
    }

    /// What follows from a request; none if it gets no reply, because another proposer is the leader or it wants none. As with
    /// [`Acceptor::decide`], the new state is made durable and [`Arbiter::take`]n before the reply is sent.
    pub fn decide(&mut self, now: Instant, request: &Request<T>) -> Option<Decision<T>> {
        let by = request.body.ballot().proposer;
        if let RequestBody::Release(_) = request.body {
            if self.pledge.to == Some(by) && self.state().store == request.store {
                self.pledge = Pledge { to: None, until: Instant(0) };
            }
            return None;
        }
        if matches!(request.body, RequestBody::Prepare(_)) && self.is_pledged_to_another(now, by) {
            return None;
        }
        let decision = self.acceptor.decide(request);
        if matches!(decision.reply.body, ReplyBody::Accept { .. } | ReplyBody::Confirm { .. }) {
            self.pledge = Pledge { to: Some(by), until: now + self.timing.pledge };
        }
        Some(decision)
    }

    /// A state that was decided upon, and is durable.
    pub fn take(&mut self, state: AcceptorState<T>) {
        self.acceptor.take(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiters::StoreId;
    use crate::ballot::Ballot;

    #[test]
    fn a_pledge_ends_when_that_leader_says_that_it_leads_no_more() {
        let (leader, other, store) = (ProposerId(1), ProposerId(2), StoreId(7));
        let timing = LeaderTiming::new(cards_core::Duration::from_millis(900));
        let mut arbiter = Arbiter::is_free(Acceptor::new(AcceptorState::founder(store, ())), timing);
        let ballot = Ballot::prepared(2, leader).next_step();
        let mut ask = |store, body| arbiter.decide(Instant(0), &Request { store, body }).is_some();
        assert!(ask(store, RequestBody::Confirm { ballot, number: 1 }));
        let prepare = || RequestBody::Prepare(Ballot::prepared(3, other));
        assert!(!ask(store, RequestBody::Release(Ballot::prepared(9, other))));
        assert!(!ask(StoreId(8), RequestBody::Release(ballot)));
        assert!(!ask(store, prepare()), "it is pledged to a leader that has said nothing");
        assert!(!ask(store, RequestBody::Release(ballot)));
        assert!(ask(store, prepare()));
    }

    /// An arbiter that knows of an earlier leader only, as it was away when the present one was elected.
    #[test]
    fn who_has_confirmed_a_leader_does_not_go_back_to_an_earlier_one() {
        let (earlier, leader) = (ProposerId(1), ProposerId(2));
        let timing = LeaderTiming::new(cards_core::Duration::from_millis(900));
        let store = StoreId(7);
        let promised = Ballot::prepared(1, earlier);
        let state = AcceptorState { promised, ..AcceptorState::founder(store, ()) };
        let mut arbiter = Arbiter::is_free(Acceptor::new(state), timing);
        let mut ask = |ms: u64, body| {
            let decision = arbiter.decide(Instant(ms * 1_000_000), &Request { store, body })?;
            decision.state.into_iter().for_each(|state| arbiter.take(state));
            Some(decision.reply.body)
        };
        let ballot = Ballot::prepared(2, leader).next_step();
        let confirmed = ask(0, RequestBody::Confirm { ballot, number: 1 });
        assert_eq!(confirmed, Some(ReplyBody::Confirm { ballot, number: 1 }));
        // What the earlier one has asked comes now. Until 900 ms the leader acts.
        let late = RequestBody::Confirm { ballot: promised.next_step(), number: 9 };
        assert!(matches!(ask(100, late), Some(ReplyBody::Reject { .. })));
        assert_eq!(
            ask(200, RequestBody::Prepare(Ballot::prepared(3, earlier))),
            None,
            "its term has not ended"
        );
        // A vote of the leader that is late still counts.
        let value = crate::message::Accepted {
            ballot: Ballot::prepared(2, leader),
            value: crate::value::Value::first(store, ()),
        };
        assert!(matches!(ask(300, RequestBody::Accept(value)), Some(ReplyBody::Accept { .. })));
    }
}
