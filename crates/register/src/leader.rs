//! How long a proposer may act as the leader without asking the register.
//!
//! The leader is the proposer that the register's content names, with the ballot that it has prepared. It asks the arbiters
//! again and again to confirm that they have promised no higher ballot. When a quorum has confirmed a question, or voted for
//! a value, the leader may act for a *term* from the moment at which it asked. An arbiter that has confirmed or voted
//! lets no other proposer prepare for a *pledge*, counted from when it answered ([`crate::Arbiter`]). A pledge is
//! longer than a term by more than two clocks can run apart: so nobody else is the leader before the term has ended.

use alloc::collections::{BTreeMap, BTreeSet};

use cards_core::{Duration, Instant};

use crate::arbiters::{Arbiters, StoreId};

/// Questions of which the replies are waited for at a time; the oldest is given up.
const QUESTIONS_MAX: usize = 8;

/// The times of a leader and its arbiters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaderTiming {
    /// A leader acts for so long, by its own clock.
    pub term: Duration,
    /// An arbiter lets no other proposer prepare for so long, by its own clock.
    pub pledge: Duration,
}

impl LeaderTiming {
    /// A pledge of one term and a half: enough while no clock runs more than a third faster than another.
    #[must_use]
    pub fn new(term: Duration) -> Self {
        Self { term, pledge: term + term / 2 }
    }

    /// How often a leader asks: three times in a term, so that one lost question does not end it.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.term / 3
    }
}

/// What a leader knows of its own time. Empty for a proposer that is no leader.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Leadership {
    timing: LeaderTiming,
    /// When the term ends.
    until: Option<Instant>,
    next: u64,
    /// When each question was asked, and which stores have confirmed.
    questions: BTreeMap<u64, (Instant, BTreeSet<StoreId>)>,
}

impl Leadership {
    /// Of a proposer that is no leader.
    #[must_use]
    pub const fn none(timing: LeaderTiming) -> Self {
        Self { timing, until: None, next: 0, questions: BTreeMap::new() }
    }

    /// A quorum has voted for a value of this proposer that names it the leader. `asked`: when it was first sent, or
    /// before.
    pub fn voted(&mut self, asked: Instant) {
        let until = asked + self.timing.term;
        self.until = Some(self.until.map_or(until, |earlier| earlier.max(until)));
    }

    /// The number of a question that is asked now.
    pub fn ask(&mut self, now: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.questions.len() == QUESTIONS_MAX {
            self.questions.pop_first();
        }
        self.questions.insert(number, (now, BTreeSet::new()));
        number
    }

    /// A store has confirmed a question. `arbiters` are those of the value that this proposer was the last to find chosen.
    pub fn confirmed(&mut self, number: u64, store: StoreId, arbiters: &Arbiters) {
        let Some((asked, stores)) = self.questions.get_mut(&number) else { return };
        stores.insert(store);
        if arbiters.is_quorum(|store| stores.contains(&store)) {
            let asked = *asked;
            self.questions = self.questions.split_off(&(number + 1));
            if self.until.is_some() {
                self.voted(asked);
            }
        }
    }

    /// Another proposer is the leader, or this one gives it up.
    pub fn end(&mut self) {
        self.until = None;
        self.questions.clear();
    }

    /// Whether the proposer may act as the leader.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When it may not any more, unless a question is confirmed; none if it is no leader.
    #[must_use]
    pub const fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn three() -> Arbiters {
        Arbiters::new([1, 2, 3].map(StoreId).into()).unwrap()
    }

    fn leader() -> Leadership {
        let mut leader = Leadership::none(LeaderTiming::new(Duration::from_millis(900)));
        leader.voted(at(0));
        leader
    }

    #[test]
    fn a_term_counts_from_when_the_question_was_asked() {
        let mut leader = leader();
        let number = leader.ask(at(300));
        leader.confirmed(number, StoreId(1), &three());
        assert_eq!(leader.until(), Some(at(900)), "one of three");
        leader.confirmed(number, StoreId(1), &three());
        assert_eq!(leader.until(), Some(at(900)), "the same again");
        leader.confirmed(number, StoreId(9), &three());
        assert_eq!(leader.until(), Some(at(900)), "no arbiter");
        leader.confirmed(number, StoreId(3), &three());
        assert_eq!(leader.until(), Some(at(1200)));
        assert!(leader.leads(at(1199)) && !leader.leads(at(1200)));
    }

    #[test]
    fn replies_to_different_questions_do_not_add_up() {
        let mut leader = leader();
        let (first, second) = (leader.ask(at(300)), leader.ask(at(600)));
        leader.confirmed(first, StoreId(1), &three());
        leader.confirmed(second, StoreId(2), &three());
        assert_eq!(leader.until(), Some(at(900)));
        leader.confirmed(second, StoreId(3), &three());
        assert_eq!(leader.until(), Some(at(1500)));
        leader.confirmed(first, StoreId(2), &three());
        assert_eq!(leader.until(), Some(at(1500)), "an older question takes nothing back");
    }

    #[test]
    fn while_arbiters_change_both_sets_have_to_confirm() {
        let both = three().changing_to([3, 4, 5].map(StoreId).into()).unwrap();
        let mut leader = leader();
        let number = leader.ask(at(300));
        for store in [1, 2, 3] {
            leader.confirmed(number, StoreId(store), &both);
        }
        assert_eq!(leader.until(), Some(at(900)));
        leader.confirmed(number, StoreId(5), &both);
        assert_eq!(leader.until(), Some(at(1200)));
    }

    #[test]
    fn one_that_is_no_leader_does_not_become_one_by_confirmations() {
        let mut other = Leadership::none(LeaderTiming::new(Duration::from_millis(900)));
        let number = other.ask(at(0));
        [1, 2].into_iter().for_each(|store| other.confirmed(number, StoreId(store), &three()));
        assert!(!other.leads(at(1)));
        let mut ended = leader();
        ended.end();
        assert!(!ended.leads(at(1)));
    }
}
