//! One node's part of a register that has a leader: its arbiter, and the proposer by which it becomes the leader when none is heard of.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use cards_core::{Duration, Instant};

use crate::acceptor::{Acceptor, AcceptorState, Decision};
use crate::arbiter::Arbiter;
use crate::arbiters::StoreId;
use crate::ballot::ProposerId;
use crate::leader::{LeaderTiming, Leadership};
use crate::message::{Accepted, Reply, ReplyBody, Request, RequestBody};
use crate::proposer::{Outcome, Output, ProposeError, Proposer, Timing};
use crate::value::{ArbiterChange, Value};

/// The content of a register that has a leader.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Led<T> {
    /// The store of the node that leads; none before the first leader.
    pub leader: Option<StoreId>,
    /// How often a node has begun to lead.
    pub epoch: u64,
    /// What the register is for.
    pub content: T,
}

/// The times of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReplicaTiming {
    /// Of its proposals.
    pub proposer: Timing,
    /// Of leaders.
    pub leader: LeaderTiming,
}

/// What a replica wants done or known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event<T> {
    /// Send a request to the node with its store; it may be this one.
    Send(Request<Led<T>>),
    /// This node leads from now on, and goes on from this value.
    Leads(Value<Led<T>>),
    /// What [`Replica::propose`] was called for has an outcome; the register holds this value now.
    Proposed {
        /// The value.
        value: Value<Led<T>>,
        /// What became of the proposal.
        outcome: Outcome,
    },
    /// This node does not lead any more. What it has proposed may be taken or not.
    Ended,
}

/// Why nothing was proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotProposed {
    /// This node does not lead.
    NotLeader,
    /// The last proposal has no outcome yet, or a change of arbiters has to be finished first.
    Busy,
    /// The arbiters cannot change so.
    Proposal(ProposeError),
}

impl fmt::Display for NotProposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader => f.write_str("another node leads, or none does"),
            Self::Busy => f.write_str("the last proposal has no outcome yet"),
            Self::Proposal(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NotProposed {}

/// What the open proposal is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Purpose {
    TakeOver,
    FinishChange,
    Asked,
}

/// One node's part of a register that has a leader.
///
/// A driver gives it requests ([`Replica::decide`], then [`Replica::take`] once the state is durable), replies
/// ([`Replica::receive`]) and the time ([`Replica::timeout`] at [`Replica::next_timeout`]), and after each takes
/// [`Replica::poll`] until there is no event. Whatever it does as the leader it does only if [`Replica::leads`] says so at
/// that moment. The time is that of a clock which nobody sets and which goes on while the machine is suspended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Replica<T> {
    arbiter: Arbiter<Led<T>>,
    id: ProposerId,
    proposer: Proposer<Led<T>>,
    leadership: Leadership,
    timing: ReplicaTiming,
    /// [`Event::Leads`] was given, and [`Event::Ended`] was not.
    is_leader: bool,
    open: Option<Purpose>,
    /// When the open proposal was made.
    proposed: Instant,
    next_question: Instant,
    /// The version of the last value that was read in which this node is no arbiter. Nobody tells it of later ones, so its
    /// store may still say that it is.
    dismissed: Option<u64>,
    /// This node does not try to lead before.
    not_before: Instant,
    /// It resigns as soon as what it has proposed has an outcome.
    resigns: bool,
    events: VecDeque<Event<T>>,
}

impl<T: Clone + Eq> Replica<T> {
    /// A node with the state of its store. `is_free` says that its arbiter is pledged to nobody for certain: the store is
    /// new, or it is the only arbiter, and no other process has it.
    #[must_use]
    pub fn new(
        state: AcceptorState<Led<T>>,
        id: ProposerId,
        timing: ReplicaTiming,
        is_free: bool,
        now: Instant,
    ) -> Self {
        let known = match &state.accepted {
            Some(accepted) => accepted.value.arbiters.stores().collect(),
            None => [state.store].into(),
        };
        let acceptor = Acceptor::new(state);
        let arbiter = match is_free {
            true => Arbiter::is_free(acceptor, timing.leader),
            false => Arbiter::new(acceptor, timing.leader, now),
        };
        Self {
            arbiter,
            id,
            proposer: Proposer::new(id, timing.proposer, known),
            leadership: Leadership::none(timing.leader),
            timing,
            is_leader: false,
            open: None,
            proposed: now,
            next_question: now,
            dismissed: None,
            not_before: now,
            resigns: false,
            events: VecDeque::new(),
        }
    }

    /// The state of the store, as it was last taken. Its value is the last one that this node has heard of; it may not be
    /// chosen, and who leads may have changed since.
    #[must_use]
    pub const fn state(&self) -> &AcceptorState<Led<T>> {
        self.arbiter.state()
    }

    /// Whether this node may act as the leader now.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.is_leader && self.leadership.leads(now)
    }

    /// What follows from a request; none if it gets no reply. The new state, if there is one, is durable and was given to
    /// [`Replica::take`] before the reply is sent.
    pub fn decide(&mut self, now: Instant, request: &Request<Led<T>>) -> Option<Decision<Led<T>>> {
        let before = self.arbiter.pledged_until();
        let decision = self.arbiter.decide(now, request);
        if self.arbiter.pledged_until() < before {
            self.not_before = self.not_before.max(now + self.turn());
        }
        decision
    }

    /// How long this node waits when the leader has resigned: until all others have heard that, and until those that come before it have had
    /// time to lead. If all tried at once, some would vote for one and some for another.
    fn turn(&self) -> Duration {
        let AcceptorState { store, accepted, .. } = self.arbiter.state();
        let before = accepted.iter().flat_map(|Accepted { value, .. }| {
            value.arbiters.stores().filter(|one| one < store && Some(*one) != value.content.leader)
        });
        let term = self.timing.leader.term;
        term / 100 + term / 4 * u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    /// A state that was decided upon, and is durable.
    pub fn take(&mut self, state: AcceptorState<Led<T>>) {
        self.arbiter.take(state);
    }

    /// A reply has arrived. `random` is any number.
    pub fn receive(&mut self, now: Instant, random: u64, reply: Reply<Led<T>>) {
        if let (ReplyBody::Confirm { number, .. }, Some(value)) = (&reply.body, self.proposer.chosen()) {
            self.leadership.confirmed(*number, reply.store, &value.arbiters);
        }
        self.proposer.receive(now, random, reply);
        self.flush(now);
    }

    /// Proposes new content, and perhaps the beginning of a change of arbiters; that it ends is the replica's affair.
    ///
    /// # Errors
    /// This node does not lead, or something else is being proposed. Nothing is proposed.
    pub fn propose(&mut self, now: Instant, content: T, change: ArbiterChange) -> Result<(), NotProposed> {
        if !self.leads(now) || self.resigns {
            return Err(NotProposed::NotLeader);
        }
        let Some(value) = self.proposer.chosen().filter(|value| value.arbiters.next().is_empty()) else {
            return Err(NotProposed::Busy);
        };
        let led = Led { content, ..value.content.clone() };
        self.begin(now, led, change, Purpose::Asked).map_err(NotProposed::Proposal)?;
        self.flush(now);
        Ok(())
    }

    /// The register has come to a value of this version in which this node is no arbiter. Until its own store has a later one, the node
    /// does not try to lead: the arbiters are pledged to their leader, and would leave its questions without a reply for ever.
    pub fn dismiss(&mut self, version: u64) {
        if self.is_leader {
            return;
        }
        self.dismissed = self.dismissed.max(Some(version));
        if self.looks_at().is_none() && self.open.is_none() {
            self.proposer.rest();
        }
    }

    /// The process ends: it does not lead from now on, nor tries to, and if it did the arbiters hear of it. Another one leads as soon as it
    /// has the votes, not a pledge later. This node's arbiter goes on. What it has proposed gets its outcome first, which is a round trip: arbiters that
    /// have voted for it are pledged, and would wait.
    pub fn resign(&mut self) {
        self.not_before = Instant::NEVER;
        self.resigns = self.open.is_some() && self.proposer.ballot().is_none();
        if self.resigns {
            return;
        }
        let named =
            self.arbiter.state().accepted.iter().flat_map(|accepted| accepted.value.arbiters.stores());
        let stores: Vec<StoreId> = named.collect();
        if let Some(ballot) = self.proposer.ballot().filter(|_| self.is_leader) {
            let release = |store| Event::Send(Request { store, body: RequestBody::Release(ballot) });
            self.ended();
            self.events.extend(stores.into_iter().map(release));
        }
        self.proposer.rest();
    }

    /// Time has passed. `random` is any number.
    pub fn timeout(&mut self, now: Instant, random: u64) {
        if self.is_leader && !self.leadership.leads(now) {
            self.ended();
            self.proposer.rest();
        }
        if self.arbiter.is_pledged_to_another(now, self.id) && !self.is_leader {
            // Another node leads. What this one has begun would only get in its way.
            self.proposer.rest();
        }
        if self.proposer.next_timeout().is_some_and(|at| at <= now) {
            self.proposer.timeout(now);
        } else if self.leads(now) {
            self.lead(now);
        } else if self.looks_at().is_some_and(|at| at <= now) {
            self.proposer.read(now);
            // Random, so that two do not try at once for ever.
            let half = u64::try_from(self.timing.leader.term.as_nanos() / 2).unwrap_or(u64::MAX);
            self.not_before = now + Duration::from_nanos(half.saturating_add(random % (half + 1)));
        }
        self.flush(now);
    }

    /// When [`Replica::timeout`] is to be called; none if only a message can change anything.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let times = [
            self.proposer.next_timeout(),
            self.leadership.until().filter(|_| self.is_leader),
            Some(self.next_question).filter(|_| self.is_leader && self.proposer.chosen().is_some()),
            self.looks_at(),
        ];
        times.into_iter().flatten().min()
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// When this node tries to become the leader: it is an arbiter, and has heard of no leader for a pledge.
    fn looks_at(&self) -> Option<Instant> {
        let AcceptorState { store, accepted, .. } = self.arbiter.state();
        let is_arbiter = accepted.as_ref().is_some_and(|Accepted { value, .. }| {
            value.arbiters.stores().any(|one| one == *store) && Some(value.version) > self.dismissed
        });
        let waits = self.is_leader || self.proposer.next_timeout().is_some();
        let tries = is_arbiter && !waits && self.not_before != Instant::NEVER;
        tries.then(|| self.arbiter.pledged_until().max(self.not_before))
    }

    /// What a leader does by itself.
    fn lead(&mut self, now: Instant) {
        let Some((ballot, value)) = self.proposer.ballot().zip(self.proposer.chosen()) else { return };
        if !value.arbiters.next().is_empty() {
            let led = value.content.clone();
            // A change that has begun can be finished.
            let _ = self.begin(now, led, ArbiterChange::Finish, Purpose::FinishChange);
        } else if self.next_question <= now {
            self.next_question = now + self.timing.leader.period();
            let number = self.leadership.ask(now);
            for store in value.arbiters.stores() {
                let body = RequestBody::Confirm { ballot, number };
                self.events.push_back(Event::Send(Request { store, body }));
            }
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        led: Led<T>,
        change: ArbiterChange,
        purpose: Purpose,
    ) -> Result<(), ProposeError> {
        self.proposer.propose(now, led, change)?;
        (self.open, self.proposed) = (Some(purpose), now);
        Ok(())
    }

    fn flush(&mut self, now: Instant) {
        while let Some(output) = self.proposer.poll() {
            match output {
                Output::Send(request) => self.events.push_back(Event::Send(request)),
                Output::Chosen { value, outcome } => self.chose(now, value, outcome),
            }
        }
    }

    fn chose(&mut self, now: Instant, value: Value<Led<T>>, outcome: Option<Outcome>) {
        let store = self.arbiter.state().store;
        let is_named = value.content.leader == Some(store);
        let purpose = self.open.take();
        if is_named && outcome == Some(Outcome::Taken) {
            self.leadership.voted(self.proposed);
        }
        if !(is_named && self.leadership.leads(now)) {
            self.ended();
            return self.take_over(now, store, value);
        }
        match (purpose, outcome) {
            (Some(Purpose::Asked), Some(outcome)) if self.is_leader => {
                self.events.push_back(Event::Proposed { value: value.clone(), outcome });
            }
            _ if !self.is_leader => {
                self.is_leader = true;
                self.next_question = now;
                self.events.push_back(Event::Leads(value.clone()));
            }
            _ => {}
        }
        if self.resigns {
            // A change of arbiters that has begun, the next leader finishes.
            self.resign();
        } else if !value.arbiters.next().is_empty() {
            self.lead(now);
        }
    }

    /// Proposes this node as the leader, if it is an arbiter.
    fn take_over(&mut self, now: Instant, store: StoreId, value: Value<Led<T>>) {
        if !value.arbiters.stores().any(|one| one == store) {
            self.dismissed = self.dismissed.max(Some(value.version));
            return self.proposer.rest();
        }
        if self.arbiter.is_pledged_to_another(now, self.id) || self.not_before == Instant::NEVER {
            return self.proposer.rest();
        }
        let led = Led { leader: Some(store), epoch: value.content.epoch + 1, content: value.content.content };
        // It was read a moment ago.
        let _ = self.begin(now, led, ArbiterChange::Keep, Purpose::TakeOver);
    }

    fn ended(&mut self) {
        self.leadership.end();
        self.resigns = false;
        if core::mem::replace(&mut self.is_leader, false) {
            self.open = None;
            self.events.push_back(Event::Ended);
        }
    }
}
