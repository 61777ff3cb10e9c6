//! What cards' commands were answered at the disk node: a repeated command is not done again.
//!
//! A command is repeated by the life of the node that has sent it, and by no other, so what is known belongs to a life.
//! Lives do not follow each other in the order of their numbers: a clock may have been set back between two, and a name
//! that another process had taken can come back to the first. What that one had sent before is known still.

use alloc::collections::BTreeMap;

use crate::ids::{NodeId, RequestId, Stamp};
use crate::message::IoError;
use crate::persistence::Persistence;

/// Commands of one card the disk node takes at the same time.
const OPEN_MAX: usize = 4096;
/// Lives of a node that are remembered. A command is given up by its sender after a while
/// ([`super::ShardConfig::disk_wait`]), in which a node does not begin as many.
const LIVES_MAX: usize = 8;

/// See the module's head.
#[derive(Default)]
pub(super) struct Answered {
    /// Which life of a node has its card, or had it last.
    lives: BTreeMap<NodeId, u64>,
    answers: BTreeMap<(NodeId, u64), Answers>,
    begun: u64,
}

/// What the commands of one life were answered.
#[derive(Default)]
pub(super) struct Answers {
    /// When the life got a card last, in the order of all.
    begun: u64,
    oldest: RequestId,
    /// None while the command is under way.
    results: BTreeMap<RequestId, Option<Outcome>>,
}

#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) stamp: Stamp,
    pub(super) persistence: Persistence,
    pub(super) result: Result<(), IoError>,
}

impl Outcome {
    /// Nothing was done.
    pub(super) const fn failed(error: IoError) -> Self {
        Self { stamp: Stamp(0), persistence: Persistence::NONE, result: Err(error) }
    }
}

impl Answered {
    /// A life of a node has got a card.
    pub(super) fn begin(&mut self, node: NodeId, life: u64) {
        self.begun += 1;
        self.lives.insert(node, life);
        self.answers.entry((node, life)).or_default().begun = self.begun;
        let of_node = || self.answers.range((node, 0)..=(node, u64::MAX));
        if of_node().count() > LIVES_MAX
            && let Some(first) = of_node().min_by_key(|(_, answers)| answers.begun).map(|(&key, _)| key)
        {
            self.answers.remove(&first);
        }
    }

    /// What was answered to the life that has the node's card.
    pub(super) fn to(&self, node: NodeId) -> Option<&Answers> {
        self.answers.get(&(node, *self.lives.get(&node)?))
    }

    /// As [`Self::to`], and which life it is.
    pub(super) fn to_mut(&mut self, node: NodeId) -> Option<(u64, &mut Answers)> {
        let life = *self.lives.get(&node)?;
        Some((life, self.answers.get_mut(&(node, life))?))
    }

    /// A command is done.
    pub(super) fn done(&mut self, node: NodeId, life: u64, request: RequestId, outcome: Outcome) {
        if let Some(known) = self.answers.get_mut(&(node, life)).and_then(|a| a.results.get_mut(&request)) {
            *known = Some(outcome);
        }
    }

    /// A command will not be done: if its life asks again, it is a new one.
    pub(super) fn forget(&mut self, node: NodeId, life: u64, request: RequestId) {
        if let Some(answers) = self.answers.get_mut(&(node, life)) {
            answers.results.remove(&request);
        }
    }
}

impl Answers {
    /// The command has come before.
    pub(super) fn knows(&self, request: RequestId) -> bool {
        self.is_stale(request) || self.results.contains_key(&request)
    }

    /// Its sender has heard the answer: only an old repetition can come.
    pub(super) fn is_stale(&self, request: RequestId) -> bool {
        request < self.oldest
    }

    /// If the command has come before: how it ended, if it has.
    pub(super) fn get(&self, request: RequestId) -> Option<Option<Outcome>> {
        self.results.get(&request).copied()
    }

    /// No more are taken before some are forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.results.len() >= OPEN_MAX
    }

    /// Notes a command, or how it ended.
    pub(super) fn put(&mut self, request: RequestId, outcome: Option<Outcome>) {
        self.results.insert(request, outcome);
    }

    /// The sender has the answers to all requests below this one.
    pub(super) fn forget_below(&mut self, oldest: RequestId) {
        if oldest > self.oldest {
            self.oldest = oldest;
            self.results = self.results.split_off(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(3);

    #[test]
    fn lives_are_known_apart_and_again() {
        let mut answered = Answered::default();
        assert!(answered.to_mut(NODE).is_none());
        for life in [5, 7, 5] {
            answered.begin(NODE, life);
            let (now, answers) = answered.to_mut(NODE).unwrap();
            assert_eq!(now, life);
            let request = RequestId(life << 20);
            assert_eq!(answers.knows(request), life == 5 && answers.begun == 3, "{life}");
            answers.put(request, None);
            answers.forget_below(request);
        }
        assert!(answered.to(NODE).unwrap().is_stale(RequestId(4 << 20)));
    }

    #[test]
    fn few_lives_are_remembered_those_of_other_nodes_apart() {
        let mut answered = Answered::default();
        answered.begin(NodeId(2), 9);
        (0..100).rev().for_each(|life| answered.begin(NODE, life));
        assert_eq!(answered.answers.len(), LIVES_MAX + 1);
        assert!(answered.to(NODE).is_some() && answered.to(NodeId(2)).is_some());
    }
}
