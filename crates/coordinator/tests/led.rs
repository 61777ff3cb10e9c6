//! The registry at three nodes that keep it together, while nodes die and come back, in simulated time.

mod maps;

use std::collections::BTreeMap;
use std::time::Duration;

use cards_coordinator::{
    Change, LedError, LedOutput, LedRegistry, MemberState, Refusal, Registry, View, WallClock,
};
use cards_core::Instant;
use cards_register::{
    AcceptorState, Candidates, LeaderTiming, Led, ProposerId, Replica, ReplicaTiming, Reply, Request,
    StoreId, Timing,
};

use crate::common::{NOON, join, registry, seat};

const NODES: usize = 3;
const TERM_MS: u64 = 900;
/// As the registry of the tests has it, less what its holder takes off.
const LEASE_MS: u64 = 3000 - 60;

enum Message {
    Request(Request<Led<Vec<u8>>>),
    Reply(Reply<Led<Vec<u8>>>),
    Ask { member: usize, asked: u64, change: Change },
    Answer { member: usize, asked: u64, answer: Result<(), LedError> },
}

struct Flight {
    at: u64,
    from: usize,
    to: usize,
    message: Message,
}

/// A process that wants to be a member.
struct Member {
    name: &'static str,
    incarnation: u64,
    is_member: bool,
    /// It counts on its membership until then.
    until: u64,
    /// Which node it asks.
    node: usize,
    /// When it asks next; when it has asked last.
    next: u64,
    is_silent: bool,
    /// It reaches no other node.
    only: Option<usize>,
    joins: u64,
}

struct World {
    now: u64,
    random: u64,
    nodes: Vec<Option<LedRegistry>>,
    states: Vec<AcceptorState<Led<Vec<u8>>>>,
    flights: Vec<Flight>,
    /// A node that the other nodes do not reach; members do.
    cut: Option<usize>,
    /// A node whose process stands still.
    still: Option<usize>,
    members: Vec<Member>,
    /// By node and ticket: the member, and when it asked.
    asked: BTreeMap<(usize, u64), (usize, u64)>,
    tickets: u64,
    /// The revision that any leader has shown.
    revision: u64,
    proposers: Option<maps::Proposers>,
}

fn store(node: usize) -> StoreId {
    StoreId(node as u128 + 1)
}

impl World {
    fn new(seed: u64, members: &[&'static str]) -> Self {
        Self::over(seed, members, registry())
    }

    fn over(seed: u64, members: &[&'static str], registry: Registry) -> Self {
        let mut world = Self {
            now: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            nodes: (0..NODES).map(|_| None).collect(),
            states: (0..NODES).map(|node| AcceptorState::blank(store(node))).collect(),
            flights: Vec::new(),
            cut: None,
            still: None,
            members: Vec::new(),
            asked: BTreeMap::new(),
            tickets: 0,
            revision: 0,
            proposers: None,
        };
        let content = Led { leader: None, epoch: 0, content: registry.content() };
        world.states[0] = AcceptorState::founder(store(0), content);
        (0..NODES).for_each(|node| world.start(node, true));
        members.iter().for_each(|name| world.begin(name));
        world
    }

    fn begin(&mut self, name: &'static str) {
        self.members.push(Member {
            name,
            incarnation: 1,
            is_member: false,
            until: 0,
            node: 0,
            next: self.now,
            is_silent: false,
            only: None,
            joins: 0,
        });
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn clock(&self) -> (Instant, WallClock) {
        (Instant(self.now * 1_000_000), WallClock(NOON.0 + self.now))
    }

    fn start(&mut self, node: usize, is_free: bool) {
        let id = ProposerId(self.random(u64::MAX));
        let timing = ReplicaTiming {
            proposer: Timing::default(),
            leader: LeaderTiming::new(Duration::from_millis(TERM_MS)),
        };
        let replica = Replica::new(self.states[node].clone(), id, timing, is_free, self.clock().0);
        self.nodes[node] = Some(LedRegistry::new(replica));
    }

    fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    fn leader(&self) -> Option<usize> {
        let leads = |node: &Option<LedRegistry>| node.as_ref().is_some_and(|node| node.leads(self.clock().0));
        self.nodes.iter().position(leads)
    }

    fn view(&self) -> Option<View> {
        self.nodes[self.leader()?].as_ref()?.view(self.clock().0)
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let are_apart = from != to && from < NODES && to < NODES;
        if are_apart && self.cut.is_some_and(|cut| [from, to].contains(&cut)) {
            return;
        }
        let at = self.now + u64::from(from != to) * (1 + self.random(4));
        self.flights.push(Flight { at, from, to, message });
    }

    fn step(&mut self) {
        self.now += 1;
        while let Some(at) =
            self.flights.iter().position(|flight| flight.at <= self.now && self.still != Some(flight.to))
        {
            let flight = self.flights.remove(at);
            self.deliver(flight);
        }
        let ((now, wall), random) = (self.clock(), self.random(u64::MAX));
        for number in (0..NODES).filter(|number| self.still != Some(*number)).collect::<Vec<_>>() {
            if let Some(node) = &mut self.nodes[number] {
                if node.next_timeout().is_some_and(|at| at <= now) {
                    node.timeout(now, wall, random);
                }
                // The leader first, then the others that are members.
                let up = (0..NODES).map(|other| store((number + other) % NODES)).collect();
                let best = Candidates { up, ..Candidates::default() };
                node.offer(now, wall, &best);
                self.flush(number);
            }
        }
        for number in 0..self.members.len() {
            self.ask(number);
        }
        self.propose();
        self.judge();
    }

    fn deliver(&mut self, Flight { from, to, message, .. }: Flight) {
        let ((now, wall), random) = (self.clock(), self.random(u64::MAX));
        if let Message::Answer { member, asked, answer } = message {
            return self.answered(member, asked, answer);
        }
        let Some(node) = &mut self.nodes[to] else { return };
        match message {
            Message::Request(request) => {
                if let Some(decision) = node.decide(now, &request) {
                    if let Some(state) = decision.state {
                        self.states[to] = state.clone();
                        node.replica().take(state);
                    }
                    self.send(to, from, Message::Reply(decision.reply));
                }
            }
            Message::Reply(reply) => node.receive(now, wall, random, reply),
            Message::Ask { member, asked, change } => {
                self.tickets += 1;
                self.asked.insert((to, self.tickets), (member, asked));
                node.submit(now, wall, self.tickets, change);
            }
            Message::Answer { .. } => {}
        }
        self.flush(to);
    }

    fn flush(&mut self, number: usize) {
        while let Some(output) = self.nodes[number].as_mut().and_then(LedRegistry::poll) {
            match output {
                LedOutput::Send(request) => {
                    let to = (request.store.0 - 1) as usize;
                    self.send(number, to, Message::Request(request));
                }
                LedOutput::Answer { ticket, answer } => {
                    let (member, asked) = self.asked.remove(&(number, ticket)).unwrap();
                    let answer = answer.map(|applied| {
                        assert!(
                            applied.revision.0 >= self.revision,
                            "a leader answers of an earlier registry"
                        );
                        self.revision = applied.revision.0;
                    });
                    let message = Message::Answer { member, asked, answer };
                    self.send(number, usize::MAX, message);
                }
            }
        }
    }

    /// A member joins or renews, and asks the next node if it hears nothing.
    fn ask(&mut self, number: usize) {
        let (now, wall) = (self.now, self.clock().1);
        let member = &mut self.members[number];
        if member.is_silent || now < member.next {
            return;
        }
        let seat = seat(member.name, member.incarnation);
        let change = match member.is_member {
            true => Change::Renew { seat, clock: wall },
            false => Change::Join(join(member.name, member.incarnation, wall)),
        };
        let node = member.only.unwrap_or(member.node);
        member.node = (node + 1) % NODES;
        member.next = now + 250;
        self.send(usize::MAX, node, Message::Ask { member: number, asked: now, change });
    }

    fn answered(&mut self, number: usize, asked: u64, answer: Result<(), LedError>) {
        if number >= maps::PROPOSERS {
            return self.proposal_answered(number, asked, answer);
        }
        let now = self.now;
        let member = &mut self.members[number];
        match answer {
            Ok(()) => {
                member.joins += u64::from(!member.is_member);
                (member.is_member, member.until) = (true, member.until.max(asked + LEASE_MS));
                // It stays with the node that has answered.
                member.node = (member.node + NODES - 1) % NODES;
                member.next = now + 1000;
            }
            Err(LedError::NotLeader { leader }) => {
                member.node = leader.map_or(member.node, |store| (store.0 - 1) as usize);
                member.next = now + 50;
            }
            Err(LedError::Refused(Refusal::LeaseEnded { .. })) => {
                (member.is_member, member.incarnation) = (false, member.incarnation + 1);
            }
            Err(LedError::OutcomeUnknown | LedError::Full) => {}
            Err(error) => panic!("{}: {error}", member.name),
        }
    }

    /// Nobody is dead who counts on its membership, and there is one leader.
    fn judge(&self) {
        let now = self.clock().0;
        let leaders = self.nodes.iter().flatten().filter(|node| node.leads(now));
        assert!(leaders.count() <= 1, "two leaders");
        let Some(view) = self.view() else { return };
        for member in self.members.iter().filter(|member| member.is_member && member.until > self.now) {
            let known = &view.members[member.name];
            assert!(
                known.state == MemberState::Joined,
                "{} is {} at {}, and counts on its membership until {}",
                member.name,
                known.state,
                self.now,
                member.until
            );
        }
    }

    /// Lets time pass until it is so; how long it took, in milliseconds.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> u64 {
        let began = self.now;
        while !is_so(self) {
            self.step();
            assert!(self.now < began + 30_000, "{what}: never");
        }
        self.now - began
    }

    fn pass(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.step());
    }

    fn is_in(&self, name: &str) -> bool {
        self.view().and_then(|view| Some(view.members.get(name)?.state)) == Some(MemberState::Joined)
    }

    /// All three nodes keep the registry.
    fn settle(&mut self) {
        self.until("three arbiters", |world| {
            (0..NODES).all(|node| {
                world.states[node].accepted.as_ref().is_some_and(|accepted| {
                    accepted.value.arbiters.current().len() == 3 && accepted.value.arbiters.next().is_empty()
                })
            })
        });
    }
}

#[test]
fn the_death_of_the_leader_stops_no_join_and_ends_no_membership() {
    let mut longest = 0;
    for seed in 1..=20 {
        let mut world = World::new(seed, &["a", "b", "c", "quiet"]);
        world.settle();
        world.until("all are in", |world| ["a", "b", "c", "quiet"].iter().all(|name| world.is_in(name)));
        world.pass(500);
        let leader = world.leader().unwrap();
        world.kill(leader);
        world.members[3].is_silent = true;
        world.begin("new");
        longest = longest.max(world.until("a join", |world| world.is_in("new")));
        world.until("a death", |world| {
            world.view().is_some_and(|view| view.members["quiet"].state == MemberState::Dead)
        });
        // The node is back, and the next leader dies.
        world.start(leader, false);
        world.pass(3000);
        world.kill(world.leader().unwrap());
        world.begin("newer");
        longest = longest.max(world.until("another join", |world| world.is_in("newer")));
        world.pass(10_000);
        let joins: Vec<u64> = world.members.iter().map(|member| member.joins).collect();
        assert_eq!(joins, [1, 1, 1, 1, 1, 1], "seed {seed}: somebody had to join again");
    }
    println!("a join after the leader's death took {longest} ms at most");
    assert!(longest < 5 * TERM_MS, "{longest} ms");
}

#[test]
fn a_leader_that_is_cut_off_gives_no_lease_of_which_the_next_one_does_not_know() {
    for seed in 1..=20 {
        let mut world = World::new(seed, &["a", "b", "c", "d"]);
        world.settle();
        world.until("all are in", |world| ["a", "b", "c", "d"].iter().all(|name| world.is_in(name)));
        for _ in 0..4 {
            let pause = 300 + world.random(1000);
            world.pass(pause);
            let leader = world.leader().unwrap();
            world.cut = Some(leader);
            world.until("another leader", |world| world.leader().is_some_and(|other| other != leader));
            world.pass(5000);
            world.cut = None;
            world.pass(1000);
            world.until("a leader", |world| world.leader().is_some());
        }
        assert!(world.members.iter().all(|member| member.joins == 1), "seed {seed}");
    }
}

#[test]
fn a_leader_that_stood_still_answers_nothing_once_another_leads() {
    for seed in 1..=20 {
        let mut world = World::new(seed, &["a", "b"]);
        world.settle();
        world.until("all are in", |world| world.is_in("a") && world.is_in("b"));
        let leader = world.leader().unwrap();
        // One member knows of no other node. What it asked meanwhile is read first when the leader goes on.
        world.members[0].only = Some(leader);
        world.pass(1500);
        world.still = Some(leader);
        let pause = 1500 + world.random(1500);
        world.pass(pause);
        world.still = None;
        world.pass(50);
        world.members[0].is_silent = true;
        world.until("its death", |world| {
            world.view().is_some_and(|view| view.members["a"].state == MemberState::Dead)
        });
    }
}

#[test]
fn the_death_of_another_node_is_not_noticed() {
    for seed in 1..=10 {
        let mut world = World::new(seed, &["a"]);
        world.settle();
        world.until("a is in", |world| world.is_in("a"));
        let leader = world.leader().unwrap();
        world.kill((leader + 1) % NODES);
        world.begin("new");
        assert!(world.until("a join", |world| world.is_in("new")) < TERM_MS);
        world.pass(10_000);
        assert_eq!(world.leader(), Some(leader));
        world.start((leader + 1) % NODES, false);
        world.pass(10_000);
        assert_eq!(world.leader(), Some(leader));
    }
}

#[test]
fn with_two_of_three_dead_changes_wait_until_one_is_back() {
    for seed in 1..=10 {
        let mut world = World::new(seed, &["a"]);
        world.settle();
        world.until("a is in", |world| world.is_in("a"));
        let leader = world.leader().unwrap();
        let others = [(leader + 1) % NODES, (leader + 2) % NODES];
        others.into_iter().for_each(|node| world.kill(node));
        world.begin("new");
        world.pass(10_000);
        assert_eq!(world.leader(), None);
        assert_eq!(world.members[1].joins, 0);
        world.start(others[0], false);
        world.until("a join", |world| world.is_in("new") && world.is_in("a"));
    }
}

#[test]
fn a_registry_of_one_node_is_there_again_when_the_node_is() {
    let (mut now, mut steps) = (Instant(0), 0);
    let mut state =
        AcceptorState::founder(store(0), Led { leader: None, epoch: 0, content: registry().content() });
    let timing = ReplicaTiming {
        proposer: Timing::default(),
        leader: LeaderTiming::new(Duration::from_millis(TERM_MS)),
    };
    for life in 1..=2 {
        let replica = Replica::new(state.clone(), ProposerId(life), timing, true, now);
        let mut node = LedRegistry::new(replica);
        let mut answer = None;
        node.timeout(now, NOON, 0);
        while answer.is_none() {
            while let Some(output) = node.poll() {
                match output {
                    LedOutput::Send(request) => {
                        let decision = node.decide(now, &request).unwrap();
                        if let Some(new) = decision.state {
                            state = new.clone();
                            node.replica().take(new);
                        }
                        node.receive(now, NOON, 0, decision.reply);
                    }
                    LedOutput::Answer { answer: given, .. } => answer = Some(given),
                }
            }
            if answer.is_none() {
                node.submit(now, NOON, 1, Change::Join(join("a", life, NOON)));
            }
            (now, steps) = (Instant(now.0 + 1), steps + 1);
            assert!(steps < 100);
        }
        match (life, answer.unwrap()) {
            (1, Ok(applied)) => assert_eq!(applied.revision.0, 1),
            // What the first life has made is there.
            (2, Err(LedError::Refused(Refusal::NameInUse { .. }))) => {}
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_renews_in_time_stays_a_member_however_slow_the_disk_is() {
    let (mut now, mut ticket) = (0, 0);
    let at = |now: u64| (Instant(now * 1_000_000), WallClock(NOON.0 + now));
    let timing = ReplicaTiming {
        proposer: Timing { resend: Duration::from_secs(60), ..Timing::default() },
        leader: LeaderTiming::new(Duration::from_millis(TERM_MS)),
    };
    let founder = Led { leader: None, epoch: 0, content: registry().content() };
    let state = AcceptorState::founder(store(0), founder);
    let mut node = LedRegistry::new(Replica::new(state, ProposerId(1), timing, true, at(0).0));
    // A vote takes so long, and one is awaited at a time.
    let (mut vote, mut answers) = (None::<(u64, Reply<Led<Vec<u8>>>)>, BTreeMap::new());
    while now < 9000 {
        let (instant, wall) = at(now);
        if let Some((_, reply)) = vote.take_if(|(due, _)| *due <= now) {
            node.receive(instant, wall, 0, reply);
        }
        if node.next_timeout().is_some_and(|due| due <= instant) {
            node.timeout(instant, wall, 0);
        }
        let mut ask = |node: &mut LedRegistry, change| {
            ticket += 1;
            node.submit(instant, wall, ticket, change);
        };
        match now {
            1000 => ask(&mut node, Change::Join(join("a", 1, wall))),
            // It has a lot to tell; and it renews three times in a lease.
            2000 => (0..12).for_each(|disk| {
                let (seat, disk) = (seat("a", 1), format!("disk{disk}"));
                ask(&mut node, Change::PutDisk { seat, disk, bytes: 1 << 30 });
            }),
            2010.. if now % 1000 == 10 => ask(&mut node, Change::Renew { seat: seat("a", 1), clock: wall }),
            _ => {}
        }
        while let Some(output) = node.poll() {
            match output {
                LedOutput::Send(request) => {
                    let is_vote = matches!(request.body, cards_register::RequestBody::Accept(_));
                    let decision = node.decide(instant, &request).unwrap();
                    decision.state.into_iter().for_each(|state| node.replica().take(state));
                    match is_vote {
                        true => vote = Some((now + 400, decision.reply)),
                        false => node.receive(instant, wall, 0, decision.reply),
                    }
                }
                LedOutput::Answer { ticket, answer } => drop(answers.insert(ticket, (now, answer))),
            }
        }
        now += 1;
    }
    let refused: Vec<_> = answers.iter().filter(|(_, (_, answer))| answer.is_err()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    // All that was asked.
    assert_eq!(answers.len(), 1 + 12 + 7);
    let view = node.view(at(now).0).unwrap();
    assert_eq!(view.members["a"].state, MemberState::Joined);
}
