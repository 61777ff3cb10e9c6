//! Who has just asked a home for a block: these pass it on to who asks next.
//!
//! When many nodes want the same block at the same time, the link of its home is what they wait for. So the home answers the first few only, and
//! sends each of the others to one that has asked before it, few to each: they form a tree. One that has nothing any more sends the
//! question back, and the home answers.
//!
//! No nodes wait for each other in a circle: each waits for one whose last question came before its own. Who asks again is answered by the home,
//! since some may still wait for it, and so is a holder that others were sent to. Whoever asks after the home has forgotten all that is sent to
//! such as have asked after that, too.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use cards_core::{BlockId, Duration, Instant, NodeId, STRIPE_BLOCKS};

/// To how many a node passes a block on.
const WAYS: u8 = 2;
/// Nodes that have still to pass a block on and are remembered.
const MOST: usize = 32;
/// Runs whose blocks are remembered, each at its place in a table, the last that was asked for: at most, and as many blocks as a quarter of the cache.
const RUNS: usize = 4;
/// A node has what it has received for so long at least, unless it reads much else.
const STAYS: Duration = Duration::from_millis(100);

/// Nodes that read a block at about the same time.
#[derive(Clone, Default)]
struct Crowd {
    index: u32,
    since: Instant,
    /// All of them: bit *n* of word *m* is node 64 *m* + *n*.
    asked: Vec<u64>,
    /// Those that the home has answered.
    answered: u8,
    /// Those that can pass the block on, and to how many more, in the order in which they have asked.
    free: VecDeque<(NodeId, u8)>,
}

impl Crowd {
    fn is_of(&self, block: BlockId, now: Instant) -> bool {
        self.index == block.index && now.since(self.since) <= STAYS
    }

    fn has_asked(&self, node: NodeId) -> bool {
        self.asked.get(usize::from(node.0 / 64)).is_some_and(|word| word & 1 << (node.0 % 64) != 0)
    }

    /// The node is answered by the home if it asks (again).
    fn mark(&mut self, node: NodeId) {
        let word = usize::from(node.0 / 64);
        self.asked.resize(self.asked.len().max(word + 1), 0);
        self.asked[word] |= 1 << (node.0 % 64);
    }

    fn add(&mut self, node: NodeId) {
        self.mark(node);
        if self.free.len() < MOST {
            self.free.push_back((node, WAYS));
        }
    }

    /// A node passes the block on once more.
    fn passes_on(&mut self, node: NodeId) {
        let Some(at) = self.free.iter().position(|&(free, _)| free == node) else { return };
        self.free[at].1 -= 1;
        if self.free[at].1 == 0 {
            self.free.remove(at);
        }
    }
}

pub(super) struct Receivers {
    /// How many of a crowd the home answers itself.
    answers: u8,
    /// Empty before anybody has asked.
    crowds: Vec<Crowd>,
}

/// Those of a run are side by side. Runs by hash: the numbers of those that one shard has, and whose home one node is, are equal in many bits.
const fn place(block: BlockId, places: usize) -> usize {
    let run = BlockId { index: block.index / STRIPE_BLOCKS, ..block };
    let runs = places / STRIPE_BLOCKS as usize;
    run.hash() as usize % runs * STRIPE_BLOCKS as usize + (block.index % STRIPE_BLOCKS) as usize
}

impl Receivers {
    pub(super) const fn new(answers: u8) -> Self {
        Self { answers, crowds: Vec::new() }
    }

    fn of(&self, block: BlockId) -> Option<&Crowd> {
        if self.crowds.is_empty() { None } else { self.crowds.get(place(block, self.crowds.len())) }
    }

    fn of_mut(&mut self, block: BlockId) -> Option<&mut Crowd> {
        let places = self.crowds.len();
        if places == 0 { None } else { self.crowds.get_mut(place(block, places)) }
    }

    /// There are places, for a cache of so many blocks.
    pub(super) fn make_places(&mut self, cache_blocks: u32) {
        if self.crowds.is_empty() {
            let runs = (cache_blocks / STRIPE_BLOCKS) as usize / 4;
            self.crowds = vec![Crowd::default(); runs.clamp(1, RUNS) * STRIPE_BLOCKS as usize];
        }
    }

    /// Who answers a node that asks for the block now, if not the home.
    pub(super) fn next(
        &self,
        block: BlockId,
        requester: NodeId,
        now: Instant,
        is_up: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let crowd = self.of(block)?;
        let is_sent_on =
            crowd.is_of(block, now) && crowd.answered >= self.answers && !crowd.has_asked(requester);
        let mut free = crowd.free.iter().map(|&(node, _)| node).filter(|_| is_sent_on);
        free.find(|&node| is_up(node))
    }

    /// A node has asked for the block; it was sent to another, or the home answers.
    pub(super) fn asked(
        &mut self,
        block: BlockId,
        requester: NodeId,
        to: Option<NodeId>,
        now: Instant,
        is_up: impl Fn(NodeId) -> bool,
    ) {
        let sent_on = self.next(block, requester, now, is_up).filter(|&node| to == Some(node));
        let Some(crowd) = self.of_mut(block) else { return };
        if !crowd.is_of(block, now) {
            *crowd = Crowd { index: block.index, since: now, ..Crowd::default() };
        }
        match sent_on {
            Some(node) => crowd.passes_on(node),
            None => crowd.answered = crowd.answered.saturating_add(1),
        }
        if !crowd.has_asked(requester) {
            crowd.add(requester);
        }
        // A holder that has lost the block and asks for it next is not sent to one that waits for it.
        to.into_iter().for_each(|node| crowd.mark(node));
    }

    /// A question has been sent back, and goes on to another node, or the home sees to it. Others that have asked before are likely not to be
    /// receiving the block any more, either: so the crowd begins anew with this requester.
    pub(super) fn sent_back(&mut self, block: BlockId, requester: NodeId, to: Option<NodeId>) {
        if let Some(crowd) = self.of_mut(block).filter(|crowd| crowd.index == block.index) {
            crowd.free.clear();
            crowd.answered = 1;
            crowd.add(requester);
            to.into_iter().for_each(|node| crowd.mark(node));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use cards_core::PgId;

    use super::*;

    const BLOCK: BlockId = BlockId::new(PgId(0), 7);
    const PLACES: usize = RUNS * STRIPE_BLOCKS as usize;
    const NOW: Instant = Instant(1_000_000_000);

    fn receivers() -> Receivers {
        let mut receivers = Receivers::new(2);
        receivers.make_places(4096);
        receivers
    }

    /// Nodes that ask one after the other, and to whom each is sent.
    fn ask(receivers: &mut Receivers, nodes: impl Iterator<Item = u16>, now: Instant) -> Vec<Option<u16>> {
        nodes
            .map(NodeId)
            .map(|node| {
                let to = receivers.next(BLOCK, node, now, |_| true);
                receivers.asked(BLOCK, node, to, now, |_| true);
                to.map(|to| to.0)
            })
            .collect()
    }

    #[test]
    fn a_crowd_is_a_tree_of_two_ways() {
        let mut receivers = receivers();
        let to = ask(&mut receivers, 1..=8, NOW);
        assert_eq!(to, [None, None, Some(1), Some(1), Some(2), Some(2), Some(3), Some(3)]);
        let to = ask(&mut receivers, 9..=1000, NOW);
        assert!((9..).zip(to).all(|(node, to)| to.is_some_and(|to| to < node)), "few come after any");
    }

    #[test]
    fn who_asks_again_is_answered_by_the_home() {
        let mut receivers = receivers();
        ask(&mut receivers, 1..=5, NOW);
        assert_eq!(ask(&mut receivers, 1..=5, NOW), [None; 5]);
        assert_eq!(ask(&mut receivers, 6..=7, NOW), [Some(2), Some(3)], "and passes on no more");
    }

    #[test]
    fn who_has_sent_a_question_back_is_asked_no_more_nor_are_those_before() {
        let mut receivers = receivers();
        ask(&mut receivers, 1..=3, NOW);
        receivers.sent_back(BLOCK, NodeId(3), None);
        assert_eq!(ask(&mut receivers, 4..=7, NOW), [None, Some(3), Some(3), Some(4)]);
    }

    #[test]
    fn a_crowd_is_over_after_a_while_and_when_its_place_is_taken() {
        let mut receivers = receivers();
        ask(&mut receivers, 1..=3, NOW);
        let later = NOW + STAYS + Duration::from_nanos(1);
        assert_eq!(ask(&mut receivers, 4..=6, later), [None, None, Some(4)]);
        let mut others = (8..).map(|index| BlockId::new(PgId(0), index));
        let other = others.find(|&other| place(other, PLACES) == place(BLOCK, PLACES)).unwrap();
        receivers.asked(other, NodeId(1), None, later, |_| true);
        assert_eq!(ask(&mut receivers, 7..=9, later), [None, None, Some(7)]);
    }

    #[test]
    fn the_blocks_of_one_shard_of_many_take_all_places() {
        let blocks = (0..4096).map(|index| BlockId::new(PgId(0), index)).filter(|block| block.shard(8) == 3);
        let places: std::collections::BTreeSet<usize> = blocks.map(|block| place(block, PLACES)).collect();
        assert_eq!(places.len(), PLACES);
    }
}
