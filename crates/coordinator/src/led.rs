//! The registry at one of the nodes that keep it together: whichever leads decides changes and judges leases. No I/O, no clock.
//!
//! A change is answered when a quorum of arbiters has voted for the registry with it. A renewal changes no record: the
//! leader answers it by itself, which it may because nobody else leads before its term ends. The next leader gives
//! every live member a full lease. So a lease that any leader has given ends for its holder before it ends for the cluster,
//! whoever leads then.

use std::collections::VecDeque;
use std::time::Duration;

use cards_core::Instant;
use cards_register::{
    ArbiterChange, Candidates, Decision, Event, Led, NotProposed, Outcome, Replica, Reply, Request, StoreId,
    arbiters_for,
};

use crate::change::{Applied, Change};
use crate::ids::{Now, WallClock};
use crate::record::{Certificate, Damage};
use crate::refusal::Refusal;
use crate::registry::{Registry, records_in};
use crate::view::View;

/// Changes that wait at a time: two for each member.
const QUEUE_MAX: usize = 2048;

/// What a node wants done.
#[derive(Debug)]
pub enum LedOutput {
    /// Send a request to the node with its store; it may be this one.
    Send(Request<Led<Vec<u8>>>),
    /// The answer to a change.
    Answer {
        /// What [`LedRegistry::submit`] was called with.
        ticket: u64,
        /// The answer.
        answer: Result<Applied, LedError>,
    },
}

/// Why a change has no answer but this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedError {
    /// It is refused; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This node does not lead.
    #[error("this node does not lead the registry")]
    NotLeader {
        /// The store of another node that leads, as far as this one knows; it may not any more.
        leader: Option<StoreId>,
    },
    /// The change may have been made or not. It may be asked again, of the node that leads then.
    #[error("the registry has another leader now; ask again, which is safe")]
    OutcomeUnknown,
    /// Too many changes wait.
    #[error("{QUEUE_MAX} changes wait; ask again")]
    Full,
    /// What the register holds is no registry.
    #[error("the registry is damaged: {0}")]
    Damaged(Damage),
}

/// The registry at a node.
#[derive(Debug)]
pub struct LedRegistry {
    replica: Replica<Vec<u8>>,
    /// While this node leads.
    held: Option<Result<Registry, Damage>>,
    /// What is being voted for.
    open: Option<Open>,
    queue: VecDeque<Asked>,
    outputs: VecDeque<LedOutput>,
}

/// A change that waits.
#[derive(Debug)]
struct Asked {
    ticket: u64,
    /// What its asker has shown: it is recorded first.
    shown: Option<Certificate>,
    change: Change,
    /// When it was asked.
    at: Instant,
}

#[derive(Debug)]
struct Open {
    next: Registry,
    /// Who waits for it; none if it is this node's own doing.
    answer: Option<(u64, Applied)>,
}

impl LedRegistry {
    /// The registry at the node of this replica.
    #[must_use]
    pub fn new(replica: Replica<Vec<u8>>) -> Self {
        Self { replica, held: None, open: None, queue: VecDeque::new(), outputs: VecDeque::new() }
    }

    /// Whether this node leads now.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.replica.leads(now)
    }

    /// The registry, if this node leads.
    #[must_use]
    pub fn view(&self, now: Instant) -> Option<View> {
        self.registry(now).map(Registry::view)
    }

    /// The same, not copied.
    #[must_use]
    pub fn registry(&self, now: Instant) -> Option<&Registry> {
        let registry = self.held.as_ref()?.as_ref().ok()?;
        self.leads(now).then_some(registry)
    }

    /// The replica, for requests: see [`Replica::decide`].
    pub fn decide(
        &mut self,
        now: Instant,
        request: &Request<Led<Vec<u8>>>,
    ) -> Option<Decision<Led<Vec<u8>>>> {
        self.replica.decide(now, request)
    }

    /// The replica, for its state: see [`Replica::take`].
    pub fn replica(&mut self) -> &mut Replica<Vec<u8>> {
        &mut self.replica
    }

    /// A change is asked for. It has one answer, perhaps much later; its asker gives up by itself.
    pub fn submit(&mut self, now: Instant, wall: WallClock, ticket: u64, change: Change) {
        self.submit_as(now, wall, ticket, None, change);
    }

    /// The same for an asker that has shown a certificate. It is recorded first; if its key was revoked, nothing changes.
    pub fn submit_as(
        &mut self,
        now: Instant,
        wall: WallClock,
        ticket: u64,
        shown: Option<Certificate>,
        change: Change,
    ) {
        if self.queue.len() == QUEUE_MAX {
            return self.answer(ticket, Err(LedError::Full));
        }
        self.queue.push_back(Asked { ticket, shown, change, at: now });
        self.advance(now, wall);
    }

    /// The stores of nodes that may be arbiters. Begins a change of arbiters if one is due.
    pub fn offer(&mut self, now: Instant, wall: WallClock, candidates: &Candidates) {
        self.advance(now, wall);
        let (None, Some(Ok(registry)), true) = (&self.open, &self.held, self.replica.leads(now)) else {
            return;
        };
        let Some(accepted) = &self.replica.state().accepted else { return };
        if let Some(next) = arbiters_for(accepted.value.arbiters.current(), candidates) {
            let (content, next_registry) = (registry.content(), registry.clone());
            if self.replica.propose(now, content, ArbiterChange::Begin(next)).is_ok() {
                self.open = Some(Open { next: next_registry, answer: None });
            }
        }
        self.flush(now);
    }

    /// A reply has arrived. `random` is any number.
    pub fn receive(&mut self, now: Instant, wall: WallClock, random: u64, reply: Reply<Led<Vec<u8>>>) {
        self.replica.receive(now, random, reply);
        self.flush(now);
        self.advance(now, wall);
    }

    /// This node does not lead from now on, nor tries to: see [`Replica::resign`].
    pub fn resign(&mut self, now: Instant, wall: WallClock) {
        self.replica.resign();
        self.flush(now);
        self.advance(now, wall);
    }

    /// Time has passed. `random` is any number.
    pub fn timeout(&mut self, now: Instant, wall: WallClock, random: u64) {
        if self.replica.next_timeout().is_some_and(|at| at <= now) {
            self.replica.timeout(now, random);
        }
        self.flush(now);
        self.advance(now, wall);
    }

    /// When [`LedRegistry::timeout`] is to be called; none if only a message or a change can alter anything.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let lease_end = match (&self.held, &self.open) {
            (Some(Ok(registry)), None) => registry.next_lease_end(),
            _ => None,
        };
        let lease_end = lease_end.map(|end| Instant(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX)));
        [self.replica.next_timeout(), lease_end].into_iter().flatten().min()
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<LedOutput> {
        self.outputs.pop_front()
    }

    /// Decides what waits, as far as it can now.
    fn advance(&mut self, now: Instant, wall: WallClock) {
        let at = Now { mono: Duration::from_nanos(now.0), wall };
        loop {
            if !self.replica.leads(now) {
                let leader = self.known_leader();
                while let Some(Asked { ticket, .. }) = self.queue.pop_front() {
                    self.answer(ticket, Err(LedError::NotLeader { leader }));
                }
                return;
            }
            if self.open.is_none() {
                self.renew(at);
            }
            let (Some(held), None) = (&self.held, &self.open) else { return };
            let registry = match held {
                Ok(registry) => registry,
                Err(damage) => {
                    let error = LedError::Damaged(damage.clone());
                    while let Some(Asked { ticket, .. }) = self.queue.pop_front() {
                        self.answer(ticket, Err(error.clone()));
                    }
                    return;
                }
            };
            // First those are declared dead whose lease has ended, and who has not asked in time.
            let expired =
                registry.decide(at, &Change::Expire).ok().filter(|effects| !effects.writes.is_empty());
            let (ticket, decided) = match (expired, self.queue.front()) {
                (Some(effects), _) => (None, Ok(effects)),
                (None, Some(Asked { ticket, shown, change, .. })) => {
                    let certify = |certificate: &Certificate| {
                        registry
                            .decide(at, &Change::Certify { certificate: certificate.clone(), alone: false })
                    };
                    match shown.as_ref().map(certify) {
                        // What it asks for comes after that.
                        Some(Ok(effects)) if !effects.writes.is_empty() => (None, Ok(effects)),
                        Some(Err(refusal)) => (Some(*ticket), Err(refusal)),
                        Some(Ok(_)) | None => (Some(*ticket), registry.decide(at, change)),
                    }
                }
                (None, None) => return,
            };
            let effects = match (decided, ticket) {
                (Ok(effects), _) => effects,
                (Err(refusal), ticket) => {
                    self.queue.pop_front();
                    ticket.into_iter().for_each(|ticket| self.answer(ticket, Err(refusal.clone().into())));
                    continue;
                }
            };
            if effects.writes.is_empty() {
                self.queue.pop_front();
                let Some(Ok(registry)) = &mut self.held else { return };
                let applied = registry.take(at, effects);
                ticket.into_iter().for_each(|ticket| self.answer(ticket, Ok(applied.clone())));
            } else {
                let mut next = registry.clone();
                let applied = next.take(at, effects);
                match self.replica.propose(now, next.content(), ArbiterChange::Keep) {
                    Ok(()) => self.open = Some(Open { next, answer: ticket.map(|ticket| (ticket, applied)) }),
                    // The arbiters are being changed; what waits goes on after it.
                    Err(NotProposed::Busy | NotProposed::NotLeader | NotProposed::Proposal(_)) => return,
                }
                if ticket.is_some() {
                    self.queue.pop_front();
                }
                self.flush(now);
            }
        }
    }

    /// Renewals wait behind no other changes, of which each takes a vote: a member that asks in time would be declared dead meanwhile.
    /// Those that write nothing are made, as of when they were asked.
    fn renew(&mut self, now: Now) {
        let Some(Ok(registry)) = &mut self.held else { return };
        let mut done = Vec::new();
        self.queue.retain(|Asked { ticket, shown, change, at }| {
            if !matches!(change, Change::Renew { .. }) {
                return true;
            }
            let asked = Now { mono: Duration::from_nanos(at.0), ..now };
            let certify = shown
                .iter()
                .map(|certificate| Change::Certify { certificate: certificate.clone(), alone: false });
            let is_known = certify
                .into_iter()
                .all(|certify| registry.decide(now, &certify).is_ok_and(|effects| effects.writes.is_empty()));
            match registry.decide(asked, change) {
                Ok(effects) if is_known && effects.writes.is_empty() => {
                    done.push((*ticket, registry.take(now, effects)));
                    false
                }
                _ => true,
            }
        });
        done.into_iter().for_each(|(ticket, applied)| self.answer(ticket, Ok(applied)));
    }

    fn flush(&mut self, now: Instant) {
        while let Some(event) = self.replica.poll() {
            match event {
                Event::Send(request) => self.outputs.push_back(LedOutput::Send(request)),
                Event::Leads(value) => self.load(now, &value.content.content),
                Event::Proposed { outcome: Outcome::Taken, .. } => {
                    if let Some(Open { next, answer }) = self.open.take() {
                        self.held = Some(Ok(next));
                        answer.into_iter().for_each(|(ticket, applied)| self.answer(ticket, Ok(applied)));
                    }
                }
                Event::Proposed { value, outcome: Outcome::NotTaken | Outcome::Unknown } => {
                    self.give_up();
                    self.load(now, &value.content.content);
                }
                Event::Ended => {
                    self.give_up();
                    self.held = None;
                }
            }
        }
    }

    /// The registry of the register. All leases begin anew: another leader may have given some that end so late.
    fn load(&mut self, now: Instant, content: &[u8]) {
        let records = records_in(content);
        let lease_end = |lease: Duration| Duration::from_nanos(now.0).saturating_add(lease);
        self.held =
            Some(records.and_then(|records| Registry::load(records, |_, head| lease_end(head.lease()))));
    }

    /// Nobody knows whether what was voted for is taken.
    fn give_up(&mut self) {
        if let Some(Open { answer: Some((ticket, _)), .. }) = self.open.take() {
            self.answer(ticket, Err(LedError::OutcomeUnknown));
        }
    }

    /// The leader that this node knows of. It is not itself: whoever asked would come back for ever.
    fn known_leader(&self) -> Option<StoreId> {
        let state = self.replica.state();
        let leader = state.accepted.as_ref().and_then(|accepted| accepted.value.content.leader);
        leader.filter(|leader| *leader != state.store)
    }

    fn answer(&mut self, ticket: u64, answer: Result<Applied, LedError>) {
        self.outputs.push_back(LedOutput::Answer { ticket, answer });
    }
}
