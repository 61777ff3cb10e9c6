//! The whole: what there is, and what can happen next.

use std::collections::BTreeSet;

use cards_core::{Duration, Instant};
use cards_register::{
    Accepted, Acceptor, AcceptorState, ArbiterChange, Arbiters, Ballot, Outcome, Output, Proposer,
    ProposerId, Reply, ReplyBody, Request, RequestBody, StoreId, Timing, Value,
};

pub use super::instance::Disk;
use super::{Instance, Judge, Log, Message, Network, Step};

/// There is no clock: it is always now.
const NOW: Instant = Instant(0);
/// A node whose store was lost has one with this added to its ID.
const AGAIN: u128 = 100;

/// Everything there is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// By node.
    acceptors: Vec<Acceptor<Log>>,
    /// What their disks have that do not sync: a state before the last vote. By node.
    unsynced: Vec<Option<AcceptorState<Log>>>,
    proposers: Vec<Author>,
    network: Network,
    /// Stores that may still be lost.
    losses: u8,
    /// What has happened.
    pub judge: Judge,
}

/// A proposer and its driver.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Author {
    proposer: Proposer<Log>,
    /// Steps of its script that are done.
    step: usize,
    /// The letter of its proposal that has no outcome yet.
    open: Option<u8>,
    /// What had been answered when it last asked.
    asked: Log,
    /// Proposals that were not taken, so that one that is repeated has another letter.
    failures: u8,
    /// It has begun.
    begun: bool,
    /// How often it may still prepare.
    prepares: u8,
}

/// What can happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A proposer begins, or gives up waiting and reads the register anew.
    Read(usize),
    /// A message arrives.
    Deliver(Message),
    /// A node loses its store.
    Lose(usize),
    /// A node restarts with what its disk has.
    Restart(usize),
}

impl State {
    /// Before anything has happened.
    ///
    /// # Panics
    /// The instance has no arbiters.
    #[must_use]
    pub fn new(instance: &Instance) -> Self {
        let stores: BTreeSet<StoreId> = (0..instance.arbiters).map(store_of).collect();
        let arbiters = Arbiters::new(stores.clone()).expect("one to seven arbiters");
        let value = Value { version: 0, origin: Ballot::FIRST, arbiters, content: Log::default() };
        let first = Accepted { ballot: Ballot::FIRST, value };
        let mut judge = Judge::default();
        let acceptors = (0..instance.nodes).map(|node| {
            let mut state = AcceptorState::blank(store_of(node));
            if node < instance.arbiters {
                judge.votes(state.store, &first);
                state.accepted = Some(first.clone());
            }
            (instance.acceptor)(state)
        });
        let acceptors: Vec<_> = acceptors.collect();
        let proposers = (0..instance.scripts.len()).map(|number| {
            let id = ProposerId(if instance.one_id { 1 } else { 1 + number as u64 });
            // Back-off ends at once, and nothing is sent again: what was not delivered is in flight.
            let timing = Timing { resend: Duration::from_secs(1), backoff: (Duration::ZERO, Duration::ZERO) };
            Author {
                proposer: (instance.proposer)(Proposer::new(id, timing, stores.clone())),
                step: 0,
                open: None,
                asked: Log::default(),
                failures: 0,
                begun: false,
                prepares: instance.prepares[number] + u8::from(number == 0),
            }
        });
        let proposers = proposers.collect();
        let mut state = Self {
            unsynced: vec![None; instance.nodes],
            acceptors,
            proposers,
            network: Network::default(),
            losses: instance.losses,
            judge,
        };
        state.settle_first(instance);
        state
    }

    /// The first proposer reads, and all messages arrive at once until it proposes.
    fn settle_first(&mut self, instance: &Instance) {
        self.read(0, instance);
        while self.proposers[0].open.is_none() {
            let Some(message) = self.network.messages().next().cloned() else { return };
            self.deliver(message, instance);
        }
        self.unsynced = vec![None; instance.nodes];
        self.prune();
    }

    /// All that can happen next.
    #[must_use]
    pub fn actions(&self, instance: &Instance) -> Vec<Action> {
        let mut actions: Vec<Action> = self.network.messages().cloned().map(Action::Deliver).collect();
        for (number, author) in self.proposers.iter().enumerate() {
            let waits = author.proposer.next_timeout().is_some() || !author.begun;
            if author.prepares > 0 && waits {
                actions.push(Action::Read(number));
            }
        }
        if self.losses > 0 {
            actions.push(Action::Lose(instance.forgetful));
        }
        let behind = (0..self.unsynced.len()).filter(|node| self.unsynced[*node].is_some());
        actions.extend(behind.map(Action::Restart));
        actions
    }

    /// What is after `action`.
    #[must_use]
    pub fn after(&self, action: Action, instance: &Instance) -> Self {
        let mut next = self.clone();
        match action {
            Action::Read(proposer) => next.read(proposer, instance),
            Action::Deliver(message) => next.deliver(message, instance),
            Action::Lose(node) => next.lose(node, instance),
            Action::Restart(node) => {
                if let Some(state) = next.unsynced[node].take() {
                    next.acceptors[node] = (instance.acceptor)(state);
                }
            }
        }
        next.prune();
        next
    }

    /// A proposer has done all of its script.
    #[must_use]
    pub fn is_done(&self, proposer: usize, instance: &Instance) -> bool {
        self.proposers[proposer].step == instance.scripts[proposer].len()
    }

    fn read(&mut self, number: usize, instance: &Instance) {
        let author = &mut self.proposers[number];
        author.begun = true;
        author.prepares -= 1;
        author.asked = self.judge.asked();
        match author.proposer.next_timeout() {
            // The pause after a rejection is over.
            Some(NOW) => author.proposer.timeout(NOW),
            _ => author.proposer.read(NOW),
        }
        self.flush(number, instance);
    }

    fn lose(&mut self, node: usize, instance: &Instance) {
        self.losses -= 1;
        let again = if instance.disk == Disk::SameId { 0 } else { AGAIN };
        let store = StoreId(store_of(node).0 + again);
        self.acceptors[node] = (instance.acceptor)(AcceptorState::blank(store));
        self.unsynced[node] = None;
    }

    fn deliver(&mut self, message: Message, instance: &Instance) {
        self.network.remove(&message);
        match message {
            Message::Request { proposer, request } => {
                let reply = self.reply(&request, instance);
                if instance.prompt {
                    self.receive(proposer, reply, instance);
                } else {
                    self.network.send(Message::Reply { proposer, reply });
                }
            }
            Message::Reply { proposer, reply } => self.receive(proposer, reply, instance),
        }
    }

    fn reply(&mut self, request: &Request<Log>, instance: &Instance) -> Reply<Log> {
        let node = node_of(request.store);
        let decision = self.acceptors[node].decide(request);
        if let Some(state) = decision.state {
            if instance.disk == Disk::Unsynced {
                self.unsynced[node] = Some(self.acceptors[node].state().clone());
            }
            self.acceptors[node].take(state);
        }
        if let (RequestBody::Accept(accepted), ReplyBody::Accept { .. }) =
            (&request.body, &decision.reply.body)
        {
            self.judge.votes(decision.reply.store, accepted);
        }
        decision.reply
    }

    fn receive(&mut self, number: usize, reply: Reply<Log>, instance: &Instance) {
        self.proposers[number].proposer.receive(NOW, 0, reply);
        self.flush(number, instance);
    }

    /// Does what a proposer wants done.
    fn flush(&mut self, number: usize, instance: &Instance) {
        while let Some(output) = self.proposers[number].proposer.poll() {
            match output {
                Output::Send(request) => self.network.send(Message::Request { proposer: number, request }),
                Output::Chosen { value, outcome } => {
                    let author = &mut self.proposers[number];
                    let proposed = author.open.take();
                    self.judge.answers(&author.asked, &value, proposed, outcome);
                    self.go_on(number, &value, outcome, instance);
                }
            }
        }
    }

    /// The driver of a proposer: the next proposal of its script.
    fn go_on(&mut self, number: usize, value: &Value<Log>, outcome: Option<Outcome>, instance: &Instance) {
        let author = &mut self.proposers[number];
        let script = instance.scripts[number];
        match script.get(author.step) {
            Some(Step::Append(_)) if outcome.is_some() => author.step += 1,
            Some(Step::Change(_, stores)) if is_changed(value, stores) => author.step += 1,
            _ => {}
        }
        if matches!(outcome, Some(Outcome::NotTaken | Outcome::Unknown)) {
            author.failures += 1;
        }
        let Some(step) = script.get(author.step) else { return };
        let (letter, change) = match step {
            Step::Append(letter) => (*letter, ArbiterChange::Keep),
            Step::Change([first, _], stores) if value.arbiters.next().is_empty() => {
                (*first, ArbiterChange::Begin(stores.iter().map(|node| store_of(*node)).collect()))
            }
            Step::Change([_, second], _) => (*second, ArbiterChange::Finish),
        };
        let letter = letter + 10 * author.failures;
        author.asked = self.judge.asked();
        author.open = Some(letter);
        let proposed = author.proposer.propose(NOW, value.content.with(letter), change);
        proposed.expect("the register was read, and this change is possible");
    }

    /// Forgets messages that change nothing: replies to what a proposer asks no more, and requests whose replies would be
    /// such, unless they are votes. (A promise to a proposer that does not wait for it could only have later requests
    /// rejected. The proposers of those would begin anew, as they may at any time.)
    fn prune(&mut self) {
        let Self { acceptors, proposers, network, .. } = self;
        network.retain(|message| match message {
            Message::Request { proposer, request } => {
                let reply = acceptors[node_of(request.store)].decide(request).reply;
                let is_vote = matches!(reply.body, ReplyBody::Accept { .. });
                is_vote || proposers[*proposer].heeds(&reply)
            }
            Message::Reply { proposer, reply } => proposers[*proposer].heeds(reply),
        });
    }
}

impl Author {
    /// Whether a reply would change anything.
    fn heeds(&self, reply: &Reply<Log>) -> bool {
        let mut other = self.proposer.clone();
        other.receive(NOW, 0, reply.clone());
        other != self.proposer
    }
}

fn is_changed(value: &Value<Log>, stores: &[usize]) -> bool {
    let stores: BTreeSet<StoreId> = stores.iter().map(|node| store_of(*node)).collect();
    value.arbiters.next().is_empty() && *value.arbiters.current() == stores
}

fn store_of(node: usize) -> StoreId {
    StoreId(1 + node as u128)
}

/// The node with the store, or with the one that was made after it was lost.
fn node_of(store: StoreId) -> usize {
    (store.0 % AGAIN) as usize - 1
}
