//! Leaders, one after the other, by clocks of different rates: nodes restart and stand still, links are cut, messages are
//! late, the arbiters change. At no moment do two nodes act as the leader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cards_core::{Duration, Instant};
use cards_register::{
    Accepted, AcceptorState, ArbiterChange, Arbiters, Ballot, Event, LeaderTiming, Led, NotProposed, Outcome,
    ProposerId, Replica, ReplicaTiming, Reply, Request, RequestBody, StoreId, Timing, Value,
};

/// The numbers of all proposals that led to a value.
type History = Vec<u64>;

const NODES: u64 = 5;
const TERM_MS: u64 = 60;
/// Steps of half a millisecond.
const STEPS: u64 = 12_000;

/// What a run is like.
#[derive(Clone, Copy)]
struct Settings {
    timing: LeaderTiming,
    /// The fastest clock, in percent of the slowest.
    fastest: u64,
    /// A node that restarts does not wait until its last pledge must have ended: a mistake.
    forgets: bool,
    /// A leader that has resigned goes on to lead: a mistake.
    goes_on: bool,
}

impl Settings {
    fn right() -> Self {
        let timing = LeaderTiming::new(Duration::from_millis(TERM_MS));
        Self { timing, fastest: 133, forgets: false, goes_on: false }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

enum Message {
    Request(Request<Led<History>>),
    Reply(Reply<Led<History>>),
}

struct Flight {
    from: u64,
    to: u64,
    /// In microseconds of true time.
    at: u64,
    message: Message,
}

struct Node {
    /// Rate of its clock, in percent of the slowest one.
    rate: u64,
    replica: Replica<History>,
    /// What it goes on from, while it leads.
    content: History,
    /// It does nothing before then (true time).
    stands_until: u64,
    /// It has resigned, and its process ends then, and another one begins (true time).
    ends: Option<u64>,
}

struct Run {
    settings: Settings,
    random: Random,
    /// True time, in microseconds.
    now: u64,
    nodes: Vec<Node>,
    flights: Vec<Flight>,
    cut: BTreeSet<(u64, u64)>,
    next_id: u64,
    entries: u64,
    is_calm: bool,
    /// The longest content that a leader was told of.
    told: History,
    seen: BTreeMap<&'static str, u64>,
    two_leaders: bool,
}

fn store(node: u64) -> StoreId {
    StoreId(u128::from(node) + 1)
}

impl Run {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut run = Self {
            settings,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: 0,
            nodes: Vec::new(),
            flights: Vec::new(),
            cut: BTreeSet::new(),
            next_id: 0,
            entries: 0,
            is_calm: false,
            told: History::new(),
            seen: BTreeMap::new(),
            two_leaders: false,
        };
        for number in 0..NODES {
            let state = match number {
                0 => {
                    AcceptorState::founder(store(0), Led { leader: None, epoch: 0, content: History::new() })
                }
                _ => AcceptorState::blank(store(number)),
            };
            let rate = 100 + run.random.below(settings.fastest - 99);
            let replica = run.replica(state, true, Instant(0));
            run.nodes.push(Node { rate, replica, content: History::new(), stands_until: 0, ends: None });
        }
        run
    }

    fn replica(
        &mut self,
        state: AcceptorState<Led<History>>,
        is_free: bool,
        now: Instant,
    ) -> Replica<History> {
        self.next_id += 1;
        let backoff = (Duration::from_millis(4), Duration::from_millis(40));
        let proposer = Timing { resend: Duration::from_millis(15), backoff };
        let timing = ReplicaTiming { proposer, leader: self.settings.timing };
        Replica::new(state, ProposerId(self.next_id), timing, is_free, now)
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn clock(&self, node: u64) -> Instant {
        Instant(self.now * 10 * self.nodes[node as usize].rate)
    }

    fn send(&mut self, from: u64, to: u64, message: Message) {
        let is_lost = !self.is_calm && (self.cut.contains(&(from, to)) || self.random.one_in(12));
        if is_lost && from != to {
            return;
        }
        // Now and then a message is late by more than a pledge.
        let late = if !self.is_calm && self.random.one_in(15) { 3000 * TERM_MS } else { 2000 };
        let at = self.now + if from == to { 0 } else { self.random.below(late) };
        self.flights.push(Flight { from, to, at, message });
    }

    fn deliver(&mut self, Flight { from, to, message, .. }: Flight) {
        let (now, random) = (self.clock(to), self.random.below(u64::MAX));
        let replica = &mut self.nodes[to as usize].replica;
        match message {
            Message::Request(request) => {
                if let Some(decision) = replica.decide(now, &request) {
                    if let Some(state) = decision.state {
                        replica.take(state);
                    }
                    self.send(to, from, Message::Reply(decision.reply));
                }
            }
            Message::Reply(reply) => replica.receive(now, random, reply),
        }
        self.flush(to);
    }

    fn flush(&mut self, number: u64) {
        while let Some(event) = self.nodes[number as usize].replica.poll() {
            match event {
                Event::Send(request) => {
                    let to = (request.store.0 - 1) as u64;
                    self.send(number, to, Message::Request(request));
                }
                Event::Leads(value) => {
                    self.saw("terms");
                    self.tell(number, value.content.content);
                }
                Event::Proposed { value, outcome } => {
                    self.saw(match outcome {
                        Outcome::Taken => "taken",
                        Outcome::NotTaken | Outcome::Unknown => "not taken",
                    });
                    self.tell(number, value.content.content);
                }
                Event::Ended => self.saw("ended"),
            }
        }
    }

    /// What one leader is told follows what the last one was told.
    fn tell(&mut self, number: u64, content: History) {
        assert!(content.starts_with(&self.told), "{:?} then {content:?}", self.told);
        self.told.clone_from(&content);
        self.nodes[number as usize].content = content;
    }

    fn act(&mut self, number: u64) {
        let (now, random) = (self.clock(number), self.random.below(u64::MAX));
        let node = &mut self.nodes[number as usize];
        if node.replica.next_timeout().is_some_and(|at| at <= now) {
            node.replica.timeout(now, random);
            self.flush(number);
        }
        if self.random.one_in(20) {
            let grows = self.nodes[number as usize]
                .replica
                .state()
                .accepted
                .as_ref()
                .is_some_and(|accepted| accepted.value.arbiters.current().len() == 1);
            let change = if (!self.is_calm && self.random.one_in(4)) || grows {
                let first = self.random.below(NODES);
                ArbiterChange::Begin((0..3).map(|i| store((first + i) % NODES)).collect())
            } else {
                ArbiterChange::Keep
            };
            let is_change = change != ArbiterChange::Keep;
            self.entries += 1;
            let node = &mut self.nodes[number as usize];
            let mut content = node.content.clone();
            content.push(self.entries);
            match node.replica.propose(now, content, change) {
                Ok(()) if is_change => self.saw("changes"),
                Ok(()) | Err(NotProposed::NotLeader | NotProposed::Busy) => {}
                Err(error) => panic!("{error}"),
            }
            self.flush(number);
        }
    }

    fn trouble(&mut self) {
        let number = self.random.below(NODES);
        let now = self.clock(number);
        if self.random.one_in(120) {
            self.nodes[number as usize].stands_until = self.now + self.random.below(3000 * TERM_MS);
        }
        if self.random.one_in(150) {
            self.restart(number);
        }
        if self.random.one_in(400) && self.nodes[number as usize].replica.leads(now) {
            let ends = self.random.below(2000 * TERM_MS);
            self.resign(number, ends);
        }
        if self.random.one_in(40) {
            let other = self.random.below(NODES);
            if !self.cut.remove(&(number, other)) && self.cut.len() < 6 {
                self.cut.insert((number, other));
            }
        }
    }

    /// The node proposes this, if it can now.
    fn proposes(&mut self, number: u64, entry: u64) -> bool {
        let now = self.clock(number);
        let node = &mut self.nodes[number as usize];
        let mut content = node.content.clone();
        content.push(entry);
        let is_proposed = node.replica.propose(now, content, ArbiterChange::Keep).is_ok();
        self.flush(number);
        is_proposed
    }

    /// How many arbiters there are, as a node knows.
    fn arbiters_of(&self, number: u64) -> usize {
        let accepted = &self.nodes[number as usize].replica.state().accepted;
        accepted.as_ref().map_or(0, |accepted| accepted.value.arbiters.stores().count())
    }

    /// The process of a node says that it leads no more, and ends some time after.
    fn resign(&mut self, number: u64, after: u64) {
        self.saw("resigned");
        let node = &mut self.nodes[number as usize];
        let before = self.settings.goes_on.then(|| node.replica.clone());
        node.ends = Some(self.now + after);
        node.replica.resign();
        self.flush(number);
        if let Some(before) = before {
            self.nodes[number as usize].replica = before;
        }
    }

    /// The process of a node ends, and another one begins.
    fn restart(&mut self, number: u64) {
        let state = self.nodes[number as usize].replica.state().clone();
        let replica = self.replica(state, self.settings.forgets, self.clock(number));
        let node = &mut self.nodes[number as usize];
        (node.replica, node.ends) = (replica, None);
    }

    fn step(&mut self) {
        self.now += 500;
        if !self.is_calm {
            self.trouble();
        }
        for number in 0..NODES {
            if self.nodes[number as usize].ends.is_some_and(|at| at <= self.now) {
                self.restart(number);
            }
        }
        let due = |flight: &Flight, nodes: &[Node], now| {
            flight.at <= now && nodes[flight.to as usize].stands_until <= now
        };
        while let Some(at) = self.flights.iter().position(|flight| due(flight, &self.nodes, self.now)) {
            let flight = self.flights.remove(at);
            self.deliver(flight);
        }
        for number in 0..NODES {
            if self.nodes[number as usize].stands_until <= self.now {
                self.act(number);
            }
        }
        // Also those that stand still: they may go on in the middle of an answer.
        self.two_leaders |= self.leaders().count() > 1;
    }

    fn leaders(&self) -> impl Iterator<Item = u64> {
        (0..NODES).filter(|node| self.nodes[*node as usize].replica.leads(self.clock(*node)))
    }
}

fn run(seed: u64, settings: Settings) -> Run {
    let mut run = Run::new(seed, settings);
    for _ in 0..STEPS {
        run.step();
    }
    run
}

#[test]
fn there_is_one_leader_at_a_time_and_always_another() {
    let mut seen = BTreeMap::<_, u64>::new();
    for seed in 1..=40 {
        let mut run = run(seed, Settings::right());
        // When all is well again, there is a leader for good.
        (run.is_calm, run.cut) = (true, BTreeSet::new());
        run.nodes.iter_mut().for_each(|node| node.stands_until = 0);
        let (mut since, length) = (0, run.told.len());
        for _ in 0..80 * TERM_MS {
            run.step();
            since = if run.leaders().next().is_some() { since + 1 } else { 0 };
        }
        assert!(!run.two_leaders, "seed {seed}: two leaders");
        assert!(since > 20 * TERM_MS, "seed {seed}: no leader stays");
        assert!(run.told.len() > length + 10, "seed {seed}: nothing is taken");
        run.seen.into_iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);
    }
    println!("{seen:?}");
    for what in ["terms", "ended", "changes", "taken"] {
        assert!(seen.get(what).is_some_and(|count| *count > 100), "{what}: {seen:?}");
    }
    assert!(seen.get("resigned").is_some_and(|count| *count > 10), "{seen:?}");
}

#[test]
fn a_register_of_one_has_its_leader_at_once_and_again_after_a_restart() {
    let mut run = Run::new(1, Settings::right());
    run.is_calm = true;
    let founder = run.nodes[0].replica.state().clone();
    let mut one = run.replica(founder, true, Instant(0));
    for start in [Instant(0), Instant(5)] {
        assert_eq!(one.next_timeout(), Some(start));
        one.timeout(start, 0);
        while let Some(event) = one.poll() {
            if let Event::Send(request) = event {
                let decision = one.decide(start, &request).unwrap();
                decision.state.into_iter().for_each(|state| one.take(state));
                one.receive(start, 0, decision.reply);
            }
        }
        assert!(one.leads(start));
        one = run.replica(one.state().clone(), true, Instant(5));
    }
}

#[test]
fn when_the_leader_is_dead_another_leads_within_three_terms() {
    let mut longest = 0;
    for seed in 1..=20 {
        let mut run = Run::new(seed, Settings::right());
        run.is_calm = true;
        while run.told.len() < 20 {
            run.step();
        }
        let dead = run.leaders().next().unwrap();
        run.nodes[dead as usize].stands_until = u64::MAX;
        let began = run.now;
        while !run.leaders().any(|node| node != dead) {
            run.step();
        }
        longest = longest.max(run.now - began);
        let length = run.told.len();
        while run.told.len() < length + 5 {
            run.step();
        }
    }
    println!("{longest} us");
    assert!(longest < 3000 * TERM_MS, "{longest} us");
}

/// One that says so is not waited for, also when it says so while arbiters vote for what it has proposed: that is taken.
#[test]
fn when_the_leader_resigns_another_leads_long_before_its_term_would_have_ended() {
    for proposes in [false, true] {
        let mut longest = 0;
        for seed in 1..=20 {
            let mut run = Run::new(seed, Settings::right());
            run.is_calm = true;
            while run.told.len() < 20 || run.leaders().all(|node| run.arbiters_of(node) < 3) {
                run.step();
            }
            let leader = run.leaders().next().unwrap();
            let length = run.told.len();
            if proposes {
                while !run.proposes(leader, 1_000_000) {
                    run.step();
                }
            }
            run.resign(leader, 3000 * TERM_MS);
            let began = run.now;
            while run.leaders().all(|node| node == leader) {
                run.step();
            }
            longest = longest.max(run.now - began);
            while run.told.len() < length + 5 {
                run.step();
            }
            assert!(!run.two_leaders, "seed {seed}");
            assert!(run.nodes[leader as usize].ends.is_some(), "seed {seed}: its process has ended first");
            assert_eq!(run.told.contains(&1_000_000), proposes, "seed {seed}");
        }
        println!("proposes: {proposes}, {longest} us");
        assert!(longest < 1000 * TERM_MS / 2, "{longest} us");
    }
}

/// One that takes the lead while it resigns, too: arbiters that have voted for it hear that it does not.
#[test]
fn one_that_resigns_while_it_is_elected_is_not_waited_for() {
    let mut longest = 0;
    for seed in 1..=20 {
        let mut run = Run::new(seed, Settings::right());
        run.is_calm = true;
        while run.told.len() < 20 || run.leaders().all(|node| run.arbiters_of(node) < 3) {
            run.step();
        }
        let leader = run.leaders().next().unwrap();
        let epoch = |run: &Run, node: usize| {
            let accepted = &run.nodes[node].replica.state().accepted;
            accepted.as_ref().map_or((0, None), |last| (last.value.content.epoch, last.value.content.leader))
        };
        let (before, _) = epoch(&run, leader as usize);
        run.resign(leader, 3000 * TERM_MS);
        // The first that votes for itself is next.
        let next = loop {
            run.step();
            let voted = |node: &usize| {
                let (last, named) = epoch(&run, *node);
                last > before && named == Some(store(*node as u64))
            };
            if let Some(next) = (0..NODES as usize).find(voted) {
                break next as u64;
            }
        };
        run.resign(next, 3000 * TERM_MS);
        let began = run.now;
        while run.leaders().all(|node| node == leader || node == next) {
            run.step();
        }
        longest = longest.max(run.now - began);
        assert!(!run.two_leaders, "seed {seed}");
    }
    println!("{longest} us");
    assert!(longest < 1000 * TERM_MS, "{longest} us");
}

/// A setting with which two nodes lead at a time in one of some seeds.
fn is_found(settings: Settings) -> bool {
    let found = (1..=200).find(|seed| run(*seed, settings).two_leaders);
    println!("{found:?}");
    found.is_some()
}

#[test]
fn a_pledge_as_short_as_a_term_makes_two_leaders() {
    let right = Settings::right();
    let timing = LeaderTiming { pledge: right.timing.term * 3 / 4, ..right.timing };
    assert!(is_found(Settings { timing, ..right }));
}

#[test]
fn clocks_beyond_the_bound_make_two_leaders() {
    assert!(is_found(Settings { fastest: 400, ..Settings::right() }));
}

#[test]
fn a_pledge_that_a_restart_forgets_makes_two_leaders() {
    assert!(is_found(Settings { forgets: true, ..Settings::right() }));
}

#[test]
fn a_leader_that_leads_on_when_it_has_resigned_makes_two_leaders() {
    assert!(is_found(Settings { goes_on: true, ..Settings::right() }));
}

/// An arbiter that was away while a leader was elected hears its questions, and then one that an earlier leader asked long ago. That one
/// must not be the leader again while the other one acts.
#[test]
fn a_question_of_an_earlier_leader_that_is_late_makes_it_none() {
    let timing =
        ReplicaTiming { proposer: Timing::default(), leader: LeaderTiming::new(Duration::from_millis(900)) };
    // The leader, the one before it, and the one that was away.
    let (leader, earlier, away) = (0, 1, 2);
    let before = Ballot::prepared(1, ProposerId(1));
    let founded = Value::first(store(1), Led { leader: Some(store(1)), epoch: 1, content: History::new() });
    let arbiters = Arbiters::new((0..3).map(store).collect()).unwrap();
    let accepted = Accepted { ballot: before, value: Value { origin: before, arbiters, ..founded } };
    let mut nodes: Vec<Replica<History>> = [2, 1, 3]
        .into_iter()
        .zip(0..)
        .map(|(id, number)| {
            let accepted = Some(accepted.clone());
            let state = AcceptorState { store: store(number), promised: before, accepted };
            Replica::new(state, ProposerId(id), timing, true, Instant(0))
        })
        .collect();
    let decide = |node: &mut Replica<History>, now, request: &Request<Led<History>>| {
        let decision = node.decide(now, request)?;
        decision.state.into_iter().for_each(|state| node.take(state));
        Some(decision.reply)
    };
    let mut elected = None;
    for ms in 0..6000 {
        let now = Instant(ms * 1_000_000);
        // The one that was away is back, and from then on those two do not reach each other.
        let is_back = elected.is_some_and(|at| ms > at + 10);
        let mut requests = VecDeque::new();
        for number in [leader, earlier] {
            let is_up = number == leader || is_back;
            if is_up && nodes[number].next_timeout().is_some_and(|at| at <= now) {
                nodes[number].timeout(now, 7 * ms);
            }
            loop {
                while let Some(event) = nodes[number].poll() {
                    if let Event::Send(request) = event {
                        requests.push_back(request);
                    }
                }
                let Some(request) = requests.pop_front() else { break };
                let to = (request.store.0 - 1) as usize;
                let is_linked = to == number || (if is_back { to == away } else { to != away });
                if !is_linked {
                    continue;
                }
                if to == away && number == earlier {
                    let body = RequestBody::Confirm { ballot: before.next_step(), number: 3 };
                    let late = Request { store: store(2), body };
                    let _ = decide(&mut nodes[away], now, &late);
                }
                if let Some(reply) = decide(&mut nodes[to], now, &request) {
                    nodes[number].receive(now, 7 * ms, reply);
                }
            }
        }
        if elected.is_none() && nodes[leader].leads(now) {
            elected = Some(ms);
        }
        assert!(!(nodes[leader].leads(now) && nodes[earlier].leads(now)), "two leaders after {ms} ms");
    }
    assert!(
        nodes[leader].leads(Instant(5999 * 1_000_000)),
        "the leader is still confirmed by one of two others"
    );
}

/// An arbiter that was replaced while it was away: the others are pledged to their leader and answer nothing, so it would ask for ever.
#[test]
fn an_arbiter_that_was_replaced_while_it_was_away_asks_no_more_once_it_is_told() {
    let timing =
        ReplicaTiming { proposer: Timing::default(), leader: LeaderTiming::new(Duration::from_millis(900)) };
    let ballot = Ballot::prepared(1, ProposerId(1));
    let founded = Value::first(store(1), Led { leader: Some(store(1)), epoch: 1, content: History::new() });
    let arbiters = Arbiters::new((0..3).map(store).collect()).unwrap();
    let value = Value { version: 7, origin: ballot, arbiters, ..founded };
    let state =
        AcceptorState { store: store(0), promised: ballot, accepted: Some(Accepted { ballot, value }) };
    let mut node = Replica::new(state, ProposerId(2), timing, false, Instant(0));
    let asked = |node: &mut Replica<History>, seconds: std::ops::Range<u64>| {
        let mut asked = 0;
        for ms in seconds.start * 1000..seconds.end * 1000 {
            let now = Instant(ms * 1_000_000);
            if node.next_timeout().is_some_and(|at| at <= now) {
                node.timeout(now, ms);
            }
            while let Some(event) = node.poll() {
                asked += u64::from(matches!(event, Event::Send(_)));
            }
        }
        asked
    };
    assert!(asked(&mut node, 0..10) > 10 && asked(&mut node, 10..20) > 10, "nobody replies");
    // What it has itself is later.
    node.dismiss(6);
    assert!(asked(&mut node, 20..30) > 10);
    node.dismiss(9);
    assert_eq!(asked(&mut node, 30..60), 0);
    assert_eq!(node.next_timeout(), None);
}
