//! A proposer: reads the register, proposes a successor of what it has read, and finds out what became of it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use cards_core::{Duration, Instant};

use crate::arbiters::{ArbitersError, StoreId};
use crate::ballot::{Ballot, ProposerId};
use crate::message::{Accepted, Reply, ReplyBody, Request, RequestBody};
use crate::mistakes::{Made, Mistake};
use crate::value::{ArbiterChange, Value};

/// The times of a proposer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timing {
    /// A request that has no reply is repeated after this.
    pub resend: Duration,
    /// Pause after a rejection: the first one, and the longest. It doubles with each rejection in a row; a random part
    /// of it, half at least, is waited for, so that two proposers do not go on rejecting each other.
    pub backoff: (Duration, Duration),
}

impl Default for Timing {
    /// 200 ms, and 10 ms to 1 s.
    fn default() -> Self {
        Self {
            resend: Duration::from_millis(200),
            backoff: (Duration::from_millis(10), Duration::from_secs(1)),
        }
    }
}

/// What a proposer wants done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output<T> {
    /// Send a request to the arbiter with its store.
    Send(Request<T>),
    /// The proposer has read a value, or its proposal was taken. The value was chosen at some moment since
    /// [`Proposer::read`] or [`Proposer::propose`] was called. A successor can be proposed now.
    Chosen {
        /// The value.
        value: Value<T>,
        /// What became of the proposal; none if the register was only read.
        outcome: Option<Outcome>,
    },
}

/// What became of a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The register holds it.
    Taken,
    /// The register does not hold it, and never will.
    NotTaken,
    /// The register holds a later value of another proposer, which may follow the proposed one or not.
    Unknown,
}

/// The register was not read since the last proposal, or a proposal is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotRead;

/// Why nothing was proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProposeError {
    /// The register has to be read first.
    NotRead(NotRead),
    /// The arbiters cannot change so.
    Arbiters(ArbitersError),
}

impl fmt::Display for ProposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRead(NotRead) => f.write_str("the register has not been read"),
            Self::Arbiters(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ProposeError {}

/// A proposer. A driver calls [`Proposer::read`], [`Proposer::propose`], [`Proposer::receive`] and
/// [`Proposer::timeout`], after each of them [`Proposer::poll`] until there is no output, and
/// [`Proposer::timeout`] again at [`Proposer::next_timeout`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proposer<T> {
    id: ProposerId,
    timing: Timing,
    /// Stores that are asked; more are found in what they reply.
    known: BTreeSet<StoreId>,
    /// The highest round of this proposer or of any rejection.
    round: u64,
    phase: Phase<T>,
    /// A proposal of which the outcome is not known yet.
    open: Option<Value<T>>,
    /// Rejections since a value was last found to be chosen.
    rejections: u32,
    outputs: VecDeque<Output<T>>,
    made: Made,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase<T> {
    /// Nothing is known.
    Idle,
    /// Another proposer goes first.
    BackingOff {
        until: Instant,
    },
    Preparing {
        ballot: Ballot,
        promises: BTreeMap<StoreId, Option<Accepted<T>>>,
        resend: Instant,
    },
    Accepting {
        proposal: Accepted<T>,
        accepted: BTreeSet<StoreId>,
        resend: Instant,
    },
    /// `value` is chosen, and `ballot` is prepared and was not used yet.
    Ready {
        ballot: Ballot,
        value: Value<T>,
    },
}

impl<T: Clone + Eq> Proposer<T> {
    /// A proposer that asks these stores first.
    #[must_use]
    pub fn new(id: ProposerId, timing: Timing, known: BTreeSet<StoreId>) -> Self {
        Self {
            id,
            timing,
            known,
            round: 0,
            phase: Phase::Idle,
            open: None,
            rejections: 0,
            outputs: VecDeque::new(),
            made: Made::default(),
        }
    }

    /// The same with a deliberate mistake.
    #[cfg(feature = "mistakes")]
    #[must_use]
    pub fn with_mistake(self, mistake: Mistake) -> Self {
        Self { made: Made::new(mistake), ..self }
    }

    /// The stores that are asked.
    #[must_use]
    pub const fn known(&self) -> &BTreeSet<StoreId> {
        &self.known
    }

    /// Asks other stores beside the known ones: those may be gone.
    pub fn ask(&mut self, stores: impl IntoIterator<Item = StoreId>) {
        for store in stores {
            if self.known.insert(store)
                && let Phase::Preparing { ballot, .. } = self.phase
            {
                self.send(store, RequestBody::Prepare(ballot));
            }
        }
    }

    /// The value that the proposer was the last to find chosen, if a successor can be proposed now. Another proposer may
    /// have replaced it since.
    #[must_use]
    pub const fn chosen(&self) -> Option<&Value<T>> {
        match &self.phase {
            Phase::Ready { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Reads the register. What was begun before is given up; of a proposal that is open, the outcome is found out.
    pub fn read(&mut self, now: Instant) {
        match core::mem::replace(&mut self.phase, Phase::Idle) {
            // Others may have gone on: the value is confirmed by one more vote.
            Phase::Ready { ballot, value } => self.accept(now, ballot, value),
            Phase::BackingOff { until } => self.phase = Phase::BackingOff { until },
            Phase::Idle | Phase::Preparing { .. } | Phase::Accepting { .. } => self.prepare(now),
        }
    }

    /// Gives up what was begun, and asks nothing until the next read, which finds out what became of an open proposal.
    pub fn rest(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Proposes a successor of the value that was read.
    ///
    /// # Errors
    /// The register was not read since the last proposal, or the arbiters cannot change so. Nothing is proposed.
    pub fn propose(&mut self, now: Instant, content: T, change: ArbiterChange) -> Result<(), ProposeError> {
        let Phase::Ready { ballot, value } = &self.phase else {
            return Err(ProposeError::NotRead(NotRead));
        };
        let ballot = *ballot;
        let mut next = value.successor(ballot, content, change).map_err(ProposeError::Arbiters)?;
        if self.made.is(Mistake::ChangeAtOnce) {
            next.arbiters = next.arbiters.changed().unwrap_or(next.arbiters);
        }
        self.open = Some(next.clone());
        self.accept(now, ballot, next);
        Ok(())
    }

    /// A reply has arrived. `random` is any number, for back-off.
    pub fn receive(&mut self, now: Instant, random: u64, reply: Reply<T>) {
        let Reply { store, body } = reply;
        match (&mut self.phase, body) {
            (Phase::Preparing { ballot, promises, .. }, ReplyBody::Promise { ballot: of, accepted })
                if of == *ballot =>
            {
                promises.insert(store, accepted);
                self.promised(now);
            }
            (Phase::Accepting { proposal, accepted, .. }, ReplyBody::Accept { ballot })
                if ballot == proposal.ballot =>
            {
                accepted.insert(store);
                self.voted();
            }
            (Phase::Preparing { ballot, .. }, ReplyBody::Reject { ballot: of, promised })
                if of == *ballot =>
            {
                self.rejected(now, random, promised);
            }
            (Phase::Accepting { proposal, .. }, ReplyBody::Reject { ballot, promised })
                if ballot == proposal.ballot =>
            {
                self.rejected(now, random, promised);
            }
            // An arbiter would refuse the next proposal: one that missed a vote, or has promised another proposer since.
            (Phase::Ready { ballot, .. }, ReplyBody::Reject { ballot: of, promised })
                if of.round == ballot.round && promised.round > of.round =>
            {
                self.rejected(now, random, promised);
            }
            // Of an earlier ballot, or repeated.
            _ => {}
        }
    }

    /// The time of [`Proposer::next_timeout`] has come. Does nothing before.
    pub fn timeout(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::BackingOff { until } if *until <= now => self.prepare(now),
            Phase::Preparing { ballot, promises, resend } if *resend <= now => {
                *resend = now + self.timing.resend;
                let ballot = *ballot;
                let silent: Vec<_> =
                    self.known.iter().copied().filter(|store| !promises.contains_key(store)).collect();
                silent.into_iter().for_each(|store| self.send(store, RequestBody::Prepare(ballot)));
            }
            Phase::Accepting { proposal, accepted, resend } if *resend <= now => {
                *resend = now + self.timing.resend;
                let proposal = proposal.clone();
                let stores = proposal.value.arbiters.stores();
                let silent: Vec<_> = stores.filter(|store| !accepted.contains(store)).collect();
                for store in silent {
                    self.send(store, RequestBody::Accept(proposal.clone()));
                }
            }
            _ => {}
        }
    }

    /// The ballot at which the next value is proposed, if one can be proposed now: what a leader has confirmed.
    #[must_use]
    pub const fn ballot(&self) -> Option<Ballot> {
        match &self.phase {
            Phase::Ready { ballot, .. } => Some(*ballot),
            _ => None,
        }
    }

    /// When [`Proposer::timeout`] is to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::BackingOff { until } => Some(until),
            Phase::Preparing { resend, .. } | Phase::Accepting { resend, .. } => Some(resend),
            Phase::Idle | Phase::Ready { .. } => None,
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output<T>> {
        self.outputs.pop_front()
    }

    fn prepare(&mut self, now: Instant) {
        self.round += 1;
        let ballot = Ballot::prepared(self.round, self.id);
        let resend = now + self.timing.resend;
        self.phase = Phase::Preparing { ballot, promises: BTreeMap::new(), resend };
        for store in self.known.clone() {
            self.send(store, RequestBody::Prepare(ballot));
        }
    }

    /// Whether these promises are enough, and what they tell.
    fn promised(&mut self, now: Instant) {
        let Phase::Preparing { ballot, promises, .. } = &self.phase else { return };
        let ballot = *ballot;
        let told = promises.values().flatten();
        let found = if self.made.is(Mistake::AdoptLowest) {
            told.min_by_key(|accepted| accepted.ballot)
        } else {
            told.max_by_key(|accepted| accepted.ballot)
        };
        // Blank stores only: whoever asks them does not know the register.
        let Some(Accepted { ballot: highest, value }) = found.cloned() else { return };
        let is_promised = self.is_quorum(&value, |store| promises.contains_key(&store));
        let has_it = |store| {
            let accepted = promises.get(&store).and_then(Option::as_ref);
            accepted.is_some_and(|accepted| accepted.ballot == highest)
        };
        let is_chosen = self.is_quorum(&value, has_it) || self.made.is(Mistake::SkipWriteBack);
        let unknown: Vec<_> = value.arbiters.stores().filter(|store| !self.known.contains(store)).collect();
        for store in unknown {
            self.known.insert(store);
            self.send(store, RequestBody::Prepare(ballot));
        }
        if !is_promised {
            return;
        }
        // An open proposal may have been accepted by a few: another proposer could still find it there and have it chosen,
        // unless the value that was found is accepted by a quorum at a higher ballot.
        let is_in_doubt = self.open.as_ref().is_some_and(|open| open.origin != value.origin)
            && !self.made.is(Mistake::ForgetDoubt);
        if is_chosen && !is_in_doubt {
            self.settle(ballot, value);
        } else {
            self.accept(now, ballot, value);
        }
    }

    /// Has a value accepted.
    fn accept(&mut self, now: Instant, ballot: Ballot, value: Value<T>) {
        let proposal = Accepted { ballot, value };
        for store in proposal.value.arbiters.stores() {
            let body = RequestBody::Accept(proposal.clone());
            self.outputs.push_back(Output::Send(Request { store, body }));
        }
        let resend = now + self.timing.resend;
        self.phase = Phase::Accepting { proposal, accepted: BTreeSet::new(), resend };
    }

    /// Whether these votes are enough.
    fn voted(&mut self) {
        let Phase::Accepting { proposal: Accepted { ballot, value }, accepted, .. } = &self.phase else {
            return;
        };
        if self.is_quorum(value, |store| accepted.contains(&store)) {
            let next = if self.made.is(Mistake::RepeatStep) { *ballot } else { ballot.next_step() };
            self.settle(next, value.clone());
        }
    }

    /// The value is chosen.
    fn settle(&mut self, ballot: Ballot, value: Value<T>) {
        self.known = value.arbiters.stores().collect();
        self.rejections = 0;
        let outcome = self.open.take().map(|open| {
            if value.origin == open.origin {
                Outcome::Taken
            } else if value.version <= open.version {
                Outcome::NotTaken
            } else {
                Outcome::Unknown
            }
        });
        self.outputs.push_back(Output::Chosen { value: value.clone(), outcome });
        self.phase = Phase::Ready { ballot, value };
    }

    /// Another proposer has a higher ballot. The register is read after a pause: what was proposed may be chosen or not.
    fn rejected(&mut self, now: Instant, random: u64, promised: Ballot) {
        self.round = self.round.max(promised.round);
        if self.made.is(Mistake::SkipReadBack)
            && let Phase::Accepting { proposal, .. } = &self.phase
        {
            let (ballot, value) = (Ballot::prepared(self.round + 1, self.id), proposal.value.clone());
            self.round += 1;
            return self.settle(ballot, value);
        }
        let (first, longest) = self.timing.backoff;
        let pause = first.saturating_mul(1 << self.rejections.min(16)).min(longest);
        self.rejections = self.rejections.saturating_add(1);
        let half = u64::try_from(pause.as_nanos() / 2).unwrap_or(u64::MAX);
        let wait = half + random % (half + 1);
        self.phase = Phase::BackingOff { until: now + Duration::from_nanos(wait) };
    }

    fn is_quorum(&self, value: &Value<T>, has: impl Fn(StoreId) -> bool) -> bool {
        #[cfg(feature = "mistakes")]
        if self.made.is(Mistake::EarlierMajority) {
            return value.arbiters.is_quorum_of_current(has);
        }
        value.arbiters.is_quorum(has)
    }

    fn send(&mut self, store: StoreId, body: RequestBody<T>) {
        self.outputs.push_back(Output::Send(Request { store, body }));
    }
}
