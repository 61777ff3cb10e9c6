//! Random runs: messages are lost, repeated and late, nodes stand still and lose their stores, proposers restart, and the
//! arbiters change. All chosen contents are one history, and at the end, when all is well again, all proposers go on.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{Duration, Instant};
use cards_register::{
    Accepted, Acceptor, AcceptorState, ArbiterChange, Ballot, Outcome, Output, Proposer, ProposerId, Reply,
    ReplyBody, Request, RequestBody, StoreId, Timing, Value,
};

type History = Vec<u64>;

/// Nodes, each with one store.
const NODES: u64 = 5;
const PROPOSERS: usize = 3;
const STEPS: usize = 3000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn percent(&mut self, of: u64) -> bool {
        self.next() % 100 < of
    }
}

enum Message {
    Request(usize, Request<History>),
    Reply(usize, Reply<History>),
}

struct Author {
    proposer: Proposer<History>,
    open: Option<u64>,
    /// What had been answered when it asked.
    asked: History,
}

struct Run {
    random: Random,
    now: Instant,
    acceptors: Vec<Acceptor<History>>,
    authors: Vec<Author>,
    network: Vec<Message>,
    votes: BTreeMap<(Ballot, History), (Value<History>, BTreeSet<StoreId>)>,
    answered: History,
    refused: BTreeSet<u64>,
    entries: u64,
    next_id: u64,
    losses: usize,
    outcomes: BTreeMap<String, usize>,
    changes: usize,
    is_calm: bool,
}

fn is_prefix(earlier: &History, later: &History) -> bool {
    later.starts_with(earlier)
}

impl Run {
    fn new(seed: u64) -> Self {
        let founder = AcceptorState::founder(StoreId(1), History::new());
        let mut acceptors = vec![Acceptor::new(founder.clone())];
        acceptors.extend((2..=NODES).map(|id| Acceptor::new(AcceptorState::blank(StoreId(id.into())))));
        let mut run = Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: Instant(0),
            acceptors,
            authors: Vec::new(),
            network: Vec::new(),
            votes: BTreeMap::new(),
            answered: History::new(),
            refused: BTreeSet::new(),
            entries: 0,
            next_id: 1,
            losses: 0,
            outcomes: BTreeMap::new(),
            changes: 0,
            is_calm: false,
        };
        run.vote(StoreId(1), &founder.accepted.expect("the founder has the first value"));
        for _ in 0..PROPOSERS {
            let author = run.author();
            run.authors.push(author);
        }
        run
    }

    fn author(&mut self) -> Author {
        let id = ProposerId(self.next_id);
        self.next_id += 1;
        let backoff = (Duration::from_millis(5), Duration::from_millis(80));
        let timing = Timing { resend: Duration::from_millis(50), backoff };
        let mut proposer = Proposer::new(id, timing, [StoreId(1)].into());
        // As after a restart: any store that has been an arbiter will do. The founder's may be lost.
        proposer.ask(self.acceptors.iter().map(|acceptor| acceptor.state().store));
        Author { proposer, open: None, asked: History::new() }
    }

    fn vote(&mut self, store: StoreId, accepted: &Accepted<History>) {
        let key = (accepted.ballot, accepted.value.content.clone());
        self.votes.entry(key).or_insert_with(|| (accepted.value.clone(), BTreeSet::new())).1.insert(store);
    }

    fn chosen(&self) -> impl Iterator<Item = &Value<History>> {
        let chosen =
            self.votes.values().filter(|(value, stores)| value.arbiters.is_quorum(|s| stores.contains(&s)));
        chosen.map(|(value, _)| value)
    }

    fn check(&self) {
        let chosen: Vec<_> = self.chosen().collect();
        for pair in chosen.windows(2) {
            assert!(is_prefix(&pair[0].content, &pair[1].content), "{:?} then {:?}", pair[0], pair[1]);
        }
        let refused =
            |value: &&&Value<History>| value.content.iter().any(|entry| self.refused.contains(entry));
        assert!(chosen.iter().find(refused).is_none(), "an entry is in although it was said not to be");
    }

    fn deliver(&mut self, message: &Message) {
        match message {
            Message::Request(from, request) => {
                let Some(node) = self.acceptors.iter().position(|node| node.state().store == request.store)
                else {
                    return;
                };
                let decision = self.acceptors[node].decide(request);
                if let Some(state) = decision.state {
                    self.acceptors[node].take(state);
                }
                if let (RequestBody::Accept(accepted), ReplyBody::Accept { .. }) =
                    (&request.body, &decision.reply.body)
                {
                    self.vote(request.store, accepted);
                    self.check();
                }
                self.network.push(Message::Reply(*from, decision.reply));
            }
            Message::Reply(to, reply) => {
                let random = self.random.next();
                self.authors[*to].proposer.receive(self.now, random, reply.clone());
                self.flush(*to);
            }
        }
    }

    fn flush(&mut self, number: usize) {
        while let Some(output) = self.authors[number].proposer.poll() {
            match output {
                Output::Send(request) => self.network.push(Message::Request(number, request)),
                Output::Chosen { value, outcome } => self.chose(number, &value, outcome),
            }
        }
    }

    fn chose(&mut self, number: usize, value: &Value<History>, outcome: Option<Outcome>) {
        assert!(self.chosen().any(|chosen| chosen == value), "{value:?} is not chosen");
        let author = &mut self.authors[number];
        assert!(is_prefix(&author.asked, &value.content), "{:?} then {value:?}", author.asked);
        let open = author.open.take();
        if let (Some(entry), Some(outcome)) = (open, outcome) {
            let has = value.content.contains(&entry);
            match outcome {
                Outcome::Taken => assert!(has),
                Outcome::NotTaken => {
                    assert!(!has);
                    self.refused.insert(entry);
                }
                Outcome::Unknown => {}
            }
            *self.outcomes.entry(format!("{outcome:?}")).or_default() += 1;
        }
        if is_prefix(&self.answered, &value.content) {
            self.answered = value.content.clone();
        }
        self.check();
    }

    fn act(&mut self, number: usize) {
        self.entries += 1;
        let entry = self.entries;
        let Some(value) = self.authors[number].proposer.chosen().cloned() else {
            if self.authors[number].proposer.next_timeout().is_none() || self.random.percent(5) {
                self.authors[number].asked = self.answered.clone();
                self.authors[number].proposer.read(self.now);
                self.flush(number);
            }
            return;
        };
        let change = if !value.arbiters.next().is_empty() {
            ArbiterChange::Finish
        } else if !self.is_calm && self.random.percent(30) {
            self.changes += 1;
            let first = self.random.below(self.acceptors.len());
            let count = [1, 3, 3, 5][self.random.below(4)];
            let nodes = (0..count).map(|i| (first + i) % self.acceptors.len());
            ArbiterChange::Begin(nodes.map(|node| self.acceptors[node].state().store).collect())
        } else {
            ArbiterChange::Keep
        };
        let mut content = value.content;
        content.push(entry);
        let author = &mut self.authors[number];
        author.asked = self.answered.clone();
        author.open = Some(entry);
        author.proposer.propose(self.now, content, change).expect("it was read");
        self.flush(number);
    }

    /// A node comes back with a blank store, if its old one is no arbiter any more or a quorum is left without it.
    fn lose(&mut self) {
        let node = self.random.below(self.acceptors.len());
        let lost = self.acceptors[node].state().store;
        let here =
            |store: StoreId| store != lost && self.acceptors.iter().any(|node| node.state().store == store);
        // Of all values that may be found: none may need the store.
        if self.votes.values().any(|(value, _)| !value.arbiters.is_quorum(here)) {
            return;
        }
        self.losses += 1;
        let store = StoreId(1000 + self.losses as u128);
        self.acceptors[node] = Acceptor::new(AcceptorState::blank(store));
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_micros(500);
        let number = self.random.below(PROPOSERS);
        if self.random.percent(if self.is_calm { 2 } else { 8 }) {
            self.act(number);
        }
        if self.authors[number].proposer.next_timeout().is_some_and(|at| at <= self.now) {
            self.authors[number].proposer.timeout(self.now);
            self.flush(number);
        }
        if !self.is_calm && self.random.next().is_multiple_of(400) {
            self.authors[number] = self.author();
        }
        if !self.is_calm && self.random.next().is_multiple_of(400) {
            self.lose();
        }
        for _ in 0..3 {
            if self.network.is_empty() {
                return;
            }
            let at = if self.is_calm { 0 } else { self.random.below(self.network.len()) };
            let message = self.network.remove(at);
            if self.is_calm || !self.random.percent(15) {
                self.deliver(&message);
            }
            if !self.is_calm && self.random.percent(10) {
                self.network.push(message);
            }
        }
    }
}

fn run(seed: u64) -> Run {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.is_calm = true;
    let reached = run.answered.len();
    for _ in 0..4 * STEPS {
        run.step();
    }
    assert!(run.answered.len() > reached + 5, "seed {seed}: nothing goes on after {reached} entries");
    run
}

#[test]
fn all_chosen_values_are_one_history() {
    let (mut outcomes, mut losses, mut changes) = (BTreeMap::<String, usize>::new(), 0, 0);
    for seed in 1..=30 {
        let run = run(seed);
        losses += run.losses;
        changes += run.changes;
        run.outcomes.into_iter().for_each(|(name, count)| *outcomes.entry(name).or_default() += count);
    }
    println!("{outcomes:?}, {changes} changes of arbiters, {losses} stores lost");
    assert!(outcomes.len() == 3 && losses > 0 && changes > 100, "something never happened");
}
