//! What no run may show. The judge sees the votes of acceptors and the answers of proposers as they happen.

use std::collections::{BTreeMap, BTreeSet};

use cards_register::{Accepted, Ballot, Outcome, StoreId, Value};

use super::Log;

/// What has happened so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Judge {
    /// The stores that have ever accepted a value at a ballot.
    votes: BTreeMap<(Ballot, Log), (Value<Log>, BTreeSet<StoreId>)>,
    /// The longest content that a proposer has answered.
    answered: Log,
    /// Letters that are said to be in no content, now and for ever.
    refused: BTreeSet<u8>,
    /// The first thing that was wrong.
    pub verdict: Option<Verdict>,
}

/// What was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Two values were chosen, and the later one does not follow from the earlier one.
    Forked,
    /// A proposer has answered with a value that is not chosen.
    NotChosen,
    /// A proposer has answered with less than had been answered before it was asked.
    Outdated,
    /// A proposal is in a chosen value although it was said never to be, or the reverse.
    FalseOutcome,
}

impl Judge {
    pub(crate) fn votes(&mut self, store: StoreId, accepted: &Accepted<Log>) {
        let Accepted { ballot, value } = accepted;
        let entry = self.votes.entry((*ballot, value.content));
        entry.or_insert_with(|| (value.clone(), BTreeSet::new())).1.insert(store);
        if let Some(verdict) = self.wrong() {
            self.verdict.get_or_insert(verdict);
        }
    }

    /// A question begins: its answer must have as much as this.
    pub(crate) fn asked(&self) -> Log {
        self.answered
    }

    pub(crate) fn answers(
        &mut self,
        asked: &Log,
        value: &Value<Log>,
        proposed: Option<u8>,
        outcome: Option<Outcome>,
    ) {
        let has = proposed.is_some_and(|letter| value.content.letters().contains(&letter));
        let is_false = match outcome {
            Some(Outcome::Taken) => !has,
            Some(Outcome::NotTaken) => {
                self.refused.extend(proposed);
                has
            }
            Some(Outcome::Unknown) | None => false,
        };
        let found = if !self.chosen().any(|(_, chosen)| chosen == value) {
            Some(Verdict::NotChosen)
        } else if !asked.leads_to(&value.content) {
            Some(Verdict::Outdated)
        } else if is_false {
            Some(Verdict::FalseOutcome)
        } else {
            self.wrong()
        };
        if let Some(verdict) = found {
            self.verdict.get_or_insert(verdict);
        }
        if self.answered.leads_to(&value.content) {
            self.answered = value.content;
        }
    }

    /// All values that a quorum has accepted at one ballot, by ballot.
    pub fn chosen(&self) -> impl Iterator<Item = (Ballot, &Value<Log>)> {
        let voted = self.votes.iter().map(|((ballot, _), (value, stores))| (*ballot, value, stores));
        let chosen =
            voted.filter(|(_, value, stores)| value.arbiters.is_quorum(|store| stores.contains(&store)));
        chosen.map(|(ballot, value, _)| (ballot, value))
    }

    fn wrong(&self) -> Option<Verdict> {
        let contents: Vec<&Log> = self.chosen().map(|(_, value)| &value.content).collect();
        // Ordered by ballot: it is enough that each leads to the next.
        if contents.windows(2).any(|pair| !pair[0].leads_to(pair[1])) {
            return Some(Verdict::Forked);
        }
        let refused = |content: &&Log| content.letters().iter().any(|letter| self.refused.contains(letter));
        contents.iter().any(refused).then_some(Verdict::FalseOutcome)
    }
}
