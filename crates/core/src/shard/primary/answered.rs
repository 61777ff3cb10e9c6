//! What cards' commands were answered at the primary: a repeated command is not done again.
//!
//! A command is repeated by the life of the node that has sent it, and by no other, so what is known belongs to a life.
//! Lives do not follow each other in the order of their numbers: a clock may have been set back between two, and a name
//! that another process had taken can come back to the first. What that one had sent before is known still.
//!
//! A life has its commands in *slots*: one at a time in each, a later one with a higher number. So a command in a slot
//! says that the one before it has ended at its sender, and what is remembered is what is in flight, however long one
//! of them takes.

use alloc::collections::BTreeMap;

use crate::ids::{NodeId, RequestId, Stamp};
use crate::message::IoError;
use crate::persistence::Persistence;
use crate::time::{Duration, Instant};

/// Commands that one card has under way at a time, at both ends. More wait at the card.
pub const SLOTS_MAX: u16 = 4096;

/// See the module's head.
pub(in crate::shard) struct Answered {
    /// Which life of a node has its card, or had it last.
    lives: BTreeMap<NodeId, u64>,
    answers: BTreeMap<(NodeId, u64), Answers>,
    begun: u64,
    /// Lives of a node that are remembered.
    lives_max: usize,
}

/// What the commands of one life were answered.
#[derive(Default)]
pub(in crate::shard) struct Answers {
    /// When the life got a card last, in the order of all.
    begun: u64,
    /// Since when it has none.
    resting: Option<Instant>,
    slots: BTreeMap<u16, Known>,
}

/// The last command in a slot.
struct Known {
    request: RequestId,
    /// None while it is under way.
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy)]
pub(in crate::shard) struct Outcome {
    pub(in crate::shard) stamp: Stamp,
    pub(in crate::shard) persistence: Persistence,
    pub(in crate::shard) result: Result<(), IoError>,
}

/// A command of a card, as its sender names it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shard) struct Place {
    pub(in crate::shard) slot: u16,
    pub(in crate::shard) request: RequestId,
}

impl Outcome {
    /// Nothing was done.
    pub(in crate::shard) const fn failed(error: IoError) -> Self {
        Self { stamp: Stamp(0), persistence: Persistence::NONE, result: Err(error) }
    }
}

impl Answered {
    pub(in crate::shard) const fn new(lives_max: usize) -> Self {
        Self { lives: BTreeMap::new(), answers: BTreeMap::new(), begun: 0, lives_max }
    }

    /// A life of a node has got a card. Whether another one was forgotten for it.
    pub(in crate::shard) fn begin(&mut self, node: NodeId, life: u64, now: Instant) -> bool {
        self.rest(node, now);
        self.begun += 1;
        self.lives.insert(node, life);
        let answers = self.answers.entry((node, life)).or_default();
        (answers.begun, answers.resting) = (self.begun, None);
        let of_node = || self.answers.range((node, 0)..=(node, u64::MAX));
        let is_over = of_node().count() > self.lives_max;
        if is_over
            && let Some(first) = of_node().min_by_key(|(_, answers)| answers.begun).map(|(&key, _)| key)
        {
            self.answers.remove(&first);
        }
        is_over
    }

    /// The node's card is gone.
    pub(in crate::shard) fn rest(&mut self, node: NodeId, now: Instant) {
        if let Some((_, answers)) = self.to_mut(node) {
            answers.resting.get_or_insert(now);
        }
    }

    /// Lives that have no card.
    pub(in crate::shard) fn resting(&self) -> usize {
        self.answers.values().filter(|answers| answers.resting.is_some()).count()
    }

    /// Forgets lives that have had no card for so long; when to do so again.
    pub(in crate::shard) fn forget_resting(&mut self, now: Instant, patience: Duration) -> Option<Instant> {
        let until = |answers: &Answers| answers.resting.map(|since| since + patience);
        self.answers.retain(|_, answers| until(answers).is_none_or(|until| now < until));
        self.lives.retain(|&node, &mut life| self.answers.contains_key(&(node, life)));
        self.answers.values().filter_map(until).min()
    }

    /// What was answered to the life that has the node's card.
    pub(in crate::shard) fn to(&self, node: NodeId) -> Option<&Answers> {
        self.answers.get(&(node, *self.lives.get(&node)?))
    }

    /// As [`Self::to`], and which life it is.
    pub(in crate::shard) fn to_mut(&mut self, node: NodeId) -> Option<(u64, &mut Answers)> {
        let life = *self.lives.get(&node)?;
        Some((life, self.answers.get_mut(&(node, life))?))
    }

    /// A command is done.
    pub(in crate::shard) fn done(&mut self, node: NodeId, life: u64, place: Place, outcome: Outcome) {
        let known =
            self.answers.get_mut(&(node, life)).and_then(|answers| answers.slots.get_mut(&place.slot));
        if let Some(known) = known.filter(|known| known.request == place.request) {
            known.outcome = Some(outcome);
        }
    }

    /// A command will not be done: if its life asks again, it is a new one.
    pub(in crate::shard) fn forget(&mut self, node: NodeId, life: u64, place: Place) {
        if let Some(answers) = self.answers.get_mut(&(node, life))
            && answers.slots.get(&place.slot).is_some_and(|known| known.request == place.request)
        {
            answers.slots.remove(&place.slot);
        }
    }
}

impl Answers {
    /// The command has come before, or one after it in its slot.
    pub(in crate::shard) fn knows(&self, place: Place) -> bool {
        self.slots.get(&place.slot).is_some_and(|known| place.request <= known.request)
    }

    /// Its sender has used the slot again: only an old repetition can come.
    pub(in crate::shard) fn is_stale(&self, place: Place) -> bool {
        self.slots.get(&place.slot).is_some_and(|known| place.request < known.request)
    }

    /// If the command has come before: how it ended, if it has.
    pub(in crate::shard) fn get(&self, place: Place) -> Option<Option<Outcome>> {
        self.slots.get(&place.slot).filter(|known| known.request == place.request).map(|known| known.outcome)
    }

    /// Notes a command, or how it ended.
    pub(in crate::shard) fn put(&mut self, place: Place, outcome: Option<Outcome>) {
        self.slots.insert(place.slot, Known { request: place.request, outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES_MAX: usize = 8;

    const NODE: NodeId = NodeId(3);

    const fn place(slot: u16, request: u64) -> Place {
        Place { slot, request: RequestId(request) }
    }

    #[test]
    fn lives_are_known_apart_and_again() {
        let mut answered = Answered::new(LIVES_MAX);
        assert!(answered.to_mut(NODE).is_none());
        for life in [5, 7, 5] {
            answered.begin(NODE, life, Instant(0));
            let (now, answers) = answered.to_mut(NODE).unwrap();
            assert_eq!(now, life);
            let place = place(0, life << 20);
            assert_eq!(answers.knows(place), life == 5 && answers.begun == 3, "{life}");
            answers.put(place, None);
        }
        assert!(answered.to(NODE).unwrap().is_stale(place(0, 4 << 20)));
    }

    #[test]
    fn few_lives_are_remembered_those_of_other_nodes_apart() {
        let mut answered = Answered::new(LIVES_MAX);
        answered.begin(NodeId(2), 9, Instant(0));
        (0..100).rev().for_each(|life| _ = answered.begin(NODE, life, Instant(0)));
        assert_eq!(answered.answers.len(), LIVES_MAX + 1);
        assert!(answered.to(NODE).is_some() && answered.to(NodeId(2)).is_some());
    }

    #[test]
    fn a_life_without_a_card_is_forgotten_when_it_can_repeat_nothing_any_more() {
        let patience = Duration::from_nanos(10);
        let mut answered = Answered::new(LIVES_MAX);
        answered.begin(NODE, 5, Instant(1));
        answered.begin(NODE, 7, Instant(2));
        answered.begin(NodeId(2), 7, Instant(2));
        assert_eq!(
            (answered.resting(), answered.forget_resting(Instant(2), patience)),
            (1, Some(Instant(12)))
        );
        answered.rest(NODE, Instant(4));
        answered.rest(NODE, Instant(9));
        assert_eq!(answered.forget_resting(Instant(12), patience), Some(Instant(14)));
        answered.begin(NODE, 7, Instant(13));
        assert_eq!(answered.forget_resting(Instant(14), patience), None);
        answered.rest(NODE, Instant(14));
        assert_eq!(answered.forget_resting(Instant(24), patience), None);
        assert!(answered.to(NODE).is_none() && answered.to(NodeId(2)).is_some());
        assert_eq!((answered.answers.len(), answered.lives.len()), (1, 1));
    }

    #[test]
    fn a_slot_knows_its_last_command_and_that_those_before_it_are_stale() {
        let mut answered = Answered::new(LIVES_MAX);
        answered.begin(NODE, 1, Instant(0));
        let (life, answers) = answered.to_mut(NODE).unwrap();
        (0..1000).for_each(|request| answers.put(place(1, request), None));
        answers.put(place(0, 1), None);
        assert_eq!(answers.slots.len(), 2);
        assert!(answers.is_stale(place(1, 998)) && answers.knows(place(1, 998)));
        assert!(answers.get(place(1, 999)).unwrap().is_none() && !answers.knows(place(1, 1000)));
        let outcome = Outcome { stamp: Stamp(1), persistence: Persistence::NONE, result: Ok(()) };
        answered.done(NODE, life, place(1, 998), outcome);
        answered.forget(NODE, life, place(1, 998));
        assert!(answered.to(NODE).unwrap().get(place(1, 999)).unwrap().is_none());
        answered.forget(NODE, life, place(1, 999));
        assert!(!answered.to(NODE).unwrap().knows(place(1, 999)));
    }
}
