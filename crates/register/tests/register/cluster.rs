//! Arbiters in one process, and the messages between them and some proposers.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{Duration, Instant};
use cards_register::{
    Acceptor, AcceptorState, ArbiterChange, Outcome, Output, Proposer, ProposerId, Reply, Request,
    RequestBody, StoreId, Timing, Value,
};

pub(crate) type Text = &'static str;

pub(crate) const TIMING: Timing = Timing {
    resend: Duration::from_millis(200),
    backoff: (Duration::from_millis(10), Duration::from_millis(100)),
};

/// Arbiters that answer at once, or not at all.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) acceptors: BTreeMap<StoreId, Acceptor<Text>>,
    /// Stores that nothing reaches.
    pub(crate) cut: BTreeSet<StoreId>,
    pub(crate) now: Instant,
    /// Prepares and accepts that were answered.
    pub(crate) prepares: usize,
    pub(crate) accepts: usize,
}

pub(crate) fn stores<const N: usize>(ids: [u128; N]) -> BTreeSet<StoreId> {
    ids.map(StoreId).into()
}

pub(crate) fn proposer<const N: usize>(id: u64, known: [u128; N]) -> Proposer<Text> {
    Proposer::new(ProposerId(id), TIMING, stores(known))
}

impl Cluster {
    /// A founder, and blank stores.
    pub(crate) fn new(blank: impl IntoIterator<Item = u128>) -> Self {
        let mut cluster = Self::default();
        cluster.acceptors.insert(StoreId(1), Acceptor::new(AcceptorState::founder(StoreId(1), "first")));
        for id in blank {
            cluster.acceptors.insert(StoreId(id), Acceptor::new(AcceptorState::blank(StoreId(id))));
        }
        cluster
    }

    /// Three arbiters.
    pub(crate) fn of_three() -> Self {
        let mut cluster = Self::new([2, 3]);
        let mut grower = proposer(1000, [1]);
        cluster.read(&mut grower);
        cluster.change(&mut grower, [1, 2, 3]);
        cluster
    }

    pub(crate) fn answer(&mut self, request: &Request<Text>) -> Option<Reply<Text>> {
        if self.cut.contains(&request.store) {
            return None;
        }
        let acceptor = self.acceptors.get_mut(&request.store)?;
        let decision = acceptor.decide(request);
        if let Some(state) = decision.state {
            acceptor.take(state);
        }
        match request.body {
            RequestBody::Prepare(_) => self.prepares += 1,
            RequestBody::Accept(_) => self.accepts += 1,
            RequestBody::Confirm { .. } | RequestBody::Release(_) => {}
        }
        Some(decision.reply)
    }

    /// Does what the proposer wants until it wants nothing; the last value that it has found chosen.
    pub(crate) fn run(&mut self, proposer: &mut Proposer<Text>) -> Option<(Value<Text>, Option<Outcome>)> {
        let mut chosen = None;
        while let Some(output) = proposer.poll() {
            match output {
                Output::Send(request) => {
                    if let Some(reply) = self.answer(&request) {
                        proposer.receive(self.now, 0, reply);
                    }
                }
                Output::Chosen { value, outcome } => chosen = Some((value, outcome)),
            }
        }
        chosen
    }

    /// Lets time pass until something is chosen.
    pub(crate) fn wait(&mut self, proposer: &mut Proposer<Text>) -> (Value<Text>, Option<Outcome>) {
        for _ in 0..20 {
            if let Some(chosen) = self.run(proposer) {
                return chosen;
            }
            self.now = proposer.next_timeout().expect("it waits for something").max(self.now);
            proposer.timeout(self.now);
        }
        panic!("nothing is chosen: {proposer:?}");
    }

    pub(crate) fn read(&mut self, proposer: &mut Proposer<Text>) -> Text {
        proposer.read(self.now);
        self.wait(proposer).0.content
    }

    pub(crate) fn propose(&mut self, proposer: &mut Proposer<Text>, content: Text) -> Option<Outcome> {
        proposer.propose(self.now, content, ArbiterChange::Keep).unwrap();
        self.wait(proposer).1
    }

    pub(crate) fn change<const N: usize>(&mut self, proposer: &mut Proposer<Text>, next: [u128; N]) {
        let content = proposer.chosen().unwrap().content;
        proposer.propose(self.now, content, ArbiterChange::Begin(stores(next))).unwrap();
        assert_eq!(self.wait(proposer).1, Some(Outcome::Taken));
        proposer.propose(self.now, content, ArbiterChange::Finish).unwrap();
        assert_eq!(self.wait(proposer).1, Some(Outcome::Taken));
    }
}
