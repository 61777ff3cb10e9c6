use super::*;

const STEP: u64 = 256 << 10;
const MAX: u64 = 16 * STEP;

fn peer(number: u16) -> NodeId {
    NodeId(number)
}

impl Budget {
    pub(crate) fn limit(&mut self, bytes: u64) {
        self.max = bytes;
    }

    pub(crate) const fn promised(&self) -> u64 {
        self.promised
    }

    /// The last news for this connection.
    fn told(&mut self, connection: Connection) -> Option<u64> {
        let mut told = None;
        while let Some((to, granted)) = self.news() {
            assert_eq!(to, connection);
            told = Some(granted);
        }
        told
    }

    /// What is promised is what the connections have, and what those have left that have ended.
    fn check(&self, ended: u64) {
        let held: u64 = self.grants.values().map(Grant::held).sum();
        assert_eq!(self.promised, held + ended);
        assert!(self.promised <= self.max);
        let waiting = |(_, grant): &(&Connection, &Grant)| grant.waits();
        assert_eq!(self.grants.iter().filter(waiting).count(), self.waiting.len());
    }
}

#[test]
fn a_connection_begins_with_one_longest_write() {
    let mut budget = Budget::new(MAX, STEP);
    let connection = budget.connected(peer(1));
    assert_eq!(budget.told(connection), Some(STEP));
    assert_eq!(budget.arrives(connection, STEP), Ok(()));
    assert_eq!(budget.arrives(connection, 1), Err(Overdrawn { bytes: 1, left: 0 }));
}

/// What was granted once is there again when the memory is: nobody is asked for it again.
#[test]
fn who_is_alone_keeps_what_it_has_needed() {
    let mut budget = Budget::new(MAX, STEP);
    let connection = budget.connected(peer(1));
    budget.told(connection);
    budget.said(connection, 4 * STEP, 0).unwrap();
    assert_eq!(budget.told(connection), Some(4 * STEP));
    for _ in 0..4 {
        budget.arrives(connection, STEP).unwrap();
    }
    for _ in 0..4 {
        budget.released(connection, STEP);
    }
    assert_eq!(budget.told(connection), Some(8 * STEP));
}

/// The half that was given because it was asked for is there for the next one who asks.
#[test]
fn what_nobody_asks_for_is_a_half_at_most() {
    let mut budget = Budget::new(MAX, STEP);
    let first = budget.connected(peer(1));
    budget.said(first, MAX, 0).unwrap();
    budget.arrives(first, MAX).unwrap();
    budget.released(first, MAX);
    assert_eq!(budget.told(first), Some(MAX));
    budget.released(first, 0);
    budget.check(0);
    let second = budget.connected(peer(2));
    budget.said(second, MAX, 0).unwrap();
    assert_eq!(budget.told(second), Some(MAX));
}

#[test]
fn whoever_has_least_comes_first() {
    let mut budget = Budget::new(MAX, STEP);
    let greedy = budget.connected(peer(1));
    budget.said(greedy, 100 * MAX, 0).unwrap();
    assert_eq!(budget.told(greedy), Some(MAX));
    budget.arrives(greedy, MAX).unwrap();
    let late = budget.connected(peer(2));
    budget.said(late, 100 * MAX, 0).unwrap();
    let shares = |budget: &Budget| [greedy, late].map(|connection| budget.grants[&connection].held() / STEP);
    assert_eq!(shares(&budget), [16, 0]);
    for i in 1..=8 {
        budget.released(greedy, STEP);
        assert_eq!(shares(&budget), [16 - i, i]);
    }
    budget.released(greedy, STEP);
    assert_eq!(shares(&budget), [8, 8]);
    budget.check(0);
}

#[test]
fn what_an_ended_connection_has_sent_counts_until_it_is_released() {
    let mut budget = Budget::new(MAX, STEP);
    let ended = budget.connected(peer(1));
    budget.said(ended, MAX, 0).unwrap();
    budget.arrives(ended, MAX / 2).unwrap();
    budget.disconnected(ended);
    budget.check(MAX / 2);
    let connection = budget.connected(peer(1));
    assert_eq!(budget.told(connection), None);
    budget.said(connection, MAX, 0).unwrap();
    assert_eq!(budget.told(connection), Some(MAX / 2));
    budget.released(ended, MAX / 2);
    assert_eq!(budget.told(connection), Some(MAX));
    assert_eq!(budget.arrives(ended, 1), Err(Overdrawn { bytes: 1, left: 0 }));
}

#[test]
fn nothing_can_be_given_back_that_is_not_there() {
    let mut budget = Budget::new(MAX, STEP);
    let connection = budget.connected(peer(1));
    budget.arrives(connection, STEP / 2).unwrap();
    assert_eq!(budget.said(connection, 0, STEP), Err(Overdrawn { bytes: STEP, left: STEP / 2 }));
    assert_eq!(budget.said(connection, u64::MAX, STEP / 2), Ok(()));
    budget.check(0);
    let mut purse = Purse::default();
    purse.grant(u64::MAX);
    assert!(
        purse.take(1) && !purse.rest(None) && purse.rest(None) && !purse.ask(KEPT) && purse.ask(u64::MAX / 2)
    );
}

#[test]
fn a_sender_gives_back_what_it_does_not_need() {
    let mut purse = Purse::default();
    purse.grant(STEP);
    assert!(!purse.rest(None), "it has just come");
    assert!(purse.take(STEP / 2) && !purse.take(STEP));
    purse.grant(2 * STEP);
    assert!(purse.rest(None));
    assert_eq!(purse.says(), (0, STEP / 2 - KEPT));
    assert!(purse.rest(None));
    assert_eq!(purse.unused(), KEPT);
    assert!(!purse.rest(None));
    assert!(!purse.rest(Some(KEPT)) && purse.rest(Some(KEPT + 1)), "what is too little is of no use");
    purse.grant(2 * STEP + KEPT);
    assert!(purse.ask(STEP) && !purse.ask(STEP));
    assert_eq!(purse.says().0, 2 * STEP + STEP);
}

/// Senders, a receiver, and all that is between them.
struct Run {
    random: u64,
    max: u64,
    step: u64,
    budget: Budget,
    senders: Vec<Sender>,
    /// Payloads whose memory is in use.
    held: Vec<(Connection, u64)>,
    /// Of these, those of connections that have ended.
    ended: u64,
}

struct Sender {
    connection: Connection,
    purse: Purse,
    /// Payloads that wait.
    waiting: Vec<u64>,
    /// On their way: payloads, and what the ends say.
    sent: std::collections::VecDeque<Frame>,
    told: std::collections::VecDeque<u64>,
    done: u64,
}

#[derive(Clone, Copy)]
enum Frame {
    Payload(u64),
    Says(u64, u64),
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Self {
            random: seed,
            max: 0,
            step: 0,
            budget: Budget::new(0, 0),
            senders: Vec::new(),
            held: Vec::new(),
            ended: 0,
        };
        run.step = [STEP, 1 << 20][run.draw(2) as usize];
        let senders = 1 + run.draw(12) as u16;
        // As in a node: what is kept by all, and a step, are no more than a half.
        run.max = 2 * (KEPT * u64::from(senders) + run.step) + run.draw(8) * STEP;
        run.budget = Budget::new(run.max, run.step);
        run.senders = (0..senders)
            .map(|number| Sender {
                connection: run.budget.connected(peer(number)),
                purse: Purse::default(),
                waiting: Vec::new(),
                sent: Default::default(),
                told: Default::default(),
                done: 0,
            })
            .collect();
        run
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = cards_core::mix(self.random);
        self.random % below
    }

    fn write(&mut self, at: usize) {
        let bytes = [512, 4096, 1 + self.draw(self.step), self.step][self.draw(4) as usize];
        self.senders[at].waiting.insert(0, bytes);
    }

    fn leave(&mut self, at: usize) {
        let Sender { purse, waiting, sent, .. } = &mut self.senders[at];
        if purse.ask(waiting.iter().sum()) {
            let (wanted, returned) = purse.says();
            sent.push_back(Frame::Says(wanted, returned));
        }
        while waiting.last().is_some_and(|&bytes| purse.take(bytes)) {
            sent.push_back(Frame::Payload(waiting.pop().unwrap()));
        }
    }

    fn arrive(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        match sender.sent.pop_front() {
            Some(Frame::Payload(bytes)) => {
                self.budget.arrives(sender.connection, bytes).unwrap();
                self.held.push((sender.connection, bytes));
            }
            Some(Frame::Says(wanted, returned)) => {
                self.budget.said(sender.connection, wanted, returned).unwrap();
            }
            None => {}
        }
        if let Some(granted) = self.senders[at].told.pop_front() {
            self.senders[at].purse.grant(granted);
        }
    }

    /// The disk takes them in the order in which they have come, nearly.
    fn disk(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.draw(4.min(self.held.len() as u64)) as usize;
        let (connection, bytes) = self.held.remove(at);
        self.budget.released(connection, bytes);
        match self.senders.iter_mut().find(|sender| sender.connection == connection) {
            Some(sender) => sender.done += bytes,
            None => self.ended -= bytes,
        }
    }

    fn rest(&mut self, at: usize) {
        let Sender { purse, waiting, sent, .. } = &mut self.senders[at];
        if purse.rest(waiting.last().copied()) {
            let (wanted, returned) = purse.says();
            sent.push_back(Frame::Says(wanted, returned));
        }
    }

    fn reconnect(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        let lost = sender.connection;
        self.budget.disconnected(lost);
        self.ended += self.held.iter().filter(|held| held.0 == lost).map(|held| held.1).sum::<u64>();
        sender.connection = self.budget.connected(lost.peer);
        (sender.purse, sender.sent, sender.told) = Default::default();
    }

    fn settle(&mut self) {
        while let Some((connection, granted)) = self.budget.news() {
            let mut all = self.senders.iter_mut();
            let sender = all.find(|sender| sender.connection == connection).expect("no news for the dead");
            sender.told.push_back(granted);
        }
        let held: u64 = self.held.iter().map(|held| held.1).sum();
        assert!(held <= self.max, "{held} of {}", self.max);
        self.budget.check(self.ended);
    }

    fn step(&mut self, faults: bool) {
        let at = self.draw(self.senders.len() as u64) as usize;
        match self.draw(if faults { 100 } else { 90 }) {
            0..40 => self.arrive(at),
            40..60 => self.leave(at),
            60..80 => self.disk(),
            80..89 => self.write(at),
            89 => self.rest(at),
            90..96 => self.write(at),
            // One that waits is given up.
            96..98 => drop(self.senders[at].waiting.pop()),
            98 => self.reconnect(at),
            _ => self.rest(at),
        }
        self.settle();
    }

    /// Nothing is asked any more: all that waits comes through.
    fn end(&mut self) {
        for round in 0..100_000 {
            if self.held.is_empty() && self.senders.iter().all(|s| s.waiting.is_empty() && s.sent.is_empty())
            {
                return;
            }
            for at in 0..self.senders.len() {
                self.leave(at);
                self.arrive(at);
                if round % 100 == at {
                    self.rest(at);
                }
            }
            self.disk();
            self.settle();
        }
        panic!("held up for ever: {:?}", self.budget);
    }
}

#[test]
fn no_budget_is_exceeded_and_nobody_waits_for_ever() {
    for seed in 0..100 {
        let mut run = Run::new(seed);
        for _ in 0..2000 {
            run.step(true);
        }
        run.end();
        (0..2 * run.senders.len()).for_each(|at| run.rest(at % run.senders.len()));
        run.end();
        let kept: u64 = run.budget.grants.values().map(Grant::held).sum();
        assert!(kept <= run.senders.len() as u64 * KEPT.max(run.step), "seed {seed}: {kept}");
    }
}

/// All want more than there is, whatever their writes are like and whoever came first: the disk does as much for each.
#[test]
fn shares_are_fair_when_all_want_more_than_there_is() {
    for seed in 0..4 {
        let mut run = Run::new(seed);
        (run.step, run.max) = (STEP, 64 * STEP);
        run.budget = Budget::new(run.max, run.step);
        for at in 0..run.senders.len() {
            run.senders[at].connection = run.budget.connected(peer(at as u16));
        }
        run.settle();
        for round in 0..8000 {
            if round == 4000 {
                run.senders.iter_mut().for_each(|sender| sender.done = 0);
            }
            // The first one is alone for a while.
            for at in 0..if round < 500 { 1 } else { run.senders.len() } {
                let Sender { waiting, .. } = &mut run.senders[at];
                while waiting.len() < 64 {
                    waiting.push([STEP / 16, STEP / 4, STEP][at % 3]);
                }
                run.leave(at);
                (0..4).for_each(|_| run.arrive(at));
            }
            (0..4).for_each(|_| run.disk());
            run.settle();
        }
        let done = || run.senders.iter().map(|sender| sender.done);
        let (least, most) = (done().min().unwrap(), done().max().unwrap());
        assert!(most <= 2 * least, "seed {seed}: {:?}", done().collect::<Vec<_>>());
    }
}
