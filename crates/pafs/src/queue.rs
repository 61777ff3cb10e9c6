//! One LRU queue over the buffers of a partition, with the queue tip of PG-LRU.

use alloc::vec;
use alloc::vec::Vec;

pub(super) const NONE: u32 = u32::MAX;

/// The places of one buffer in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// In the queue.
    newer: u32,
    older: u32,
    /// Among the buffers of the tip on the same node.
    tip_newer: u32,
    tip_older: u32,
    /// Where the buffer lies.
    node: u16,
    place: Place,
}

/// Where in the queue a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Out,
    Queue,
    Tip,
}

impl Links {
    pub(super) const fn new(node: u16) -> Self {
        let (newer, older, tip_newer, tip_older) = (NONE, NONE, NONE, NONE);
        Self { newer, older, tip_newer, tip_older, node, place: Place::Out }
    }

    pub(super) const fn node(&self) -> u16 {
        self.node
    }
}

/// Both ends of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
}

const EMPTY: Ends = Ends { oldest: NONE, newest: NONE };

/// The queue. Its tip are its least recently used buffers, so many of them as [`Self::set_tip`] has said. The tip's
/// buffers are also listed by the nodes they lie on, so that PG-LRU finds its victim without a search.
#[derive(Debug)]
pub(super) struct Queue {
    ends: Ends,
    len: u32,
    tip_want: u32,
    tip_len: u32,
    /// The most recently used buffer of the tip.
    tip_newest: u32,
    /// The tip's buffers on each node.
    by_node: Vec<Ends>,
}

impl Queue {
    pub(super) fn new(nodes: u16) -> Self {
        let by_node = vec![EMPTY; usize::from(nodes)];
        Self { ends: EMPTY, len: 0, tip_want: 0, tip_len: 0, tip_newest: NONE, by_node }
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.by_node.len() * size_of::<Ends>()
    }

    /// The least recently used buffer.
    pub(super) fn oldest(&self) -> Option<u32> {
        some(self.ends.oldest)
    }

    /// The least recently used buffer of the tip that lies on a node.
    pub(super) fn oldest_in_tip_on(&self, node: u16) -> Option<u32> {
        some(self.by_node[usize::from(node)].oldest)
    }

    /// Buffers that the tip is to have, if there are as many.
    pub(super) fn set_tip(&mut self, links: &mut [Links], want: u32) {
        self.tip_want = want;
        self.adjust_tip(links);
    }

    /// Whether a buffer is in the queue.
    pub(super) fn contains(links: &[Links], at: u32) -> bool {
        links[at as usize].place != Place::Out
    }

    /// Adds a buffer as the most recently used one.
    pub(super) fn push_newest(&mut self, links: &mut [Links], at: u32) {
        self.link_newest(links, at);
        self.adjust_tip(links);
    }

    /// Adds a buffer as the least recently used one.
    pub(super) fn push_oldest(&mut self, links: &mut [Links], at: u32) {
        let oldest = self.ends.oldest;
        let link = &mut links[at as usize];
        (link.newer, link.older, link.place) = (oldest, NONE, Place::Queue);
        match oldest {
            NONE => self.ends.newest = at,
            oldest => links[oldest as usize].older = at,
        }
        self.ends.oldest = at;
        self.len += 1;
        if self.tip_len > 0 {
            self.tip_len += 1;
            let link = &mut links[at as usize];
            let ends = &mut self.by_node[usize::from(link.node)];
            (link.tip_newer, link.tip_older, link.place) = (ends.oldest, NONE, Place::Tip);
            match core::mem::replace(&mut ends.oldest, at) {
                NONE => ends.newest = at,
                oldest => links[oldest as usize].tip_older = at,
            }
        }
        self.adjust_tip(links);
    }

    /// Takes a buffer out.
    pub(super) fn remove(&mut self, links: &mut [Links], at: u32) {
        self.unlink(links, at);
        self.adjust_tip(links);
    }

    /// A buffer in the queue has been used.
    pub(super) fn touch(&mut self, links: &mut [Links], at: u32) {
        if self.ends.newest != at {
            self.unlink(links, at);
            self.push_newest(links, at);
        }
    }

    fn link_newest(&mut self, links: &mut [Links], at: u32) {
        let newest = self.ends.newest;
        let link = &mut links[at as usize];
        (link.newer, link.older, link.place) = (NONE, newest, Place::Queue);
        match newest {
            NONE => self.ends.oldest = at,
            newest => links[newest as usize].newer = at,
        }
        self.ends.newest = at;
        self.len += 1;
    }

    fn unlink(&mut self, links: &mut [Links], at: u32) {
        let Links { newer, older, place, .. } = links[at as usize];
        debug_assert!(place != Place::Out, "only what is in the queue leaves it");
        if place == Place::Tip {
            if self.tip_newest == at {
                self.tip_newest = older;
            }
            self.leave_tip(links, at);
        }
        match newer {
            NONE => self.ends.newest = older,
            newer => links[newer as usize].older = older,
        }
        match older {
            NONE => self.ends.oldest = newer,
            older => links[older as usize].newer = newer,
        }
        links[at as usize].place = Place::Out;
        self.len -= 1;
    }

    /// Moves the border of the tip: a step for each buffer that has come or gone.
    fn adjust_tip(&mut self, links: &mut [Links]) {
        let want = self.tip_want.min(self.len);
        while self.tip_len < want {
            let next = match self.tip_newest {
                NONE => self.ends.oldest,
                newest => links[newest as usize].newer,
            };
            self.enter_tip(links, next);
            self.tip_newest = next;
        }
        while self.tip_len > want {
            let leaves = self.tip_newest;
            self.tip_newest = links[leaves as usize].older;
            self.leave_tip(links, leaves);
        }
    }

    fn enter_tip(&mut self, links: &mut [Links], at: u32) {
        let link = &mut links[at as usize];
        let ends = &mut self.by_node[usize::from(link.node)];
        (link.tip_newer, link.tip_older, link.place) = (NONE, ends.newest, Place::Tip);
        match core::mem::replace(&mut ends.newest, at) {
            NONE => ends.oldest = at,
            newest => links[newest as usize].tip_newer = at,
        }
        self.tip_len += 1;
    }

    fn leave_tip(&mut self, links: &mut [Links], at: u32) {
        let Links { tip_newer, tip_older, node, .. } = links[at as usize];
        let ends = &mut self.by_node[usize::from(node)];
        match tip_newer {
            NONE => ends.newest = tip_older,
            newer => links[newer as usize].tip_older = tip_older,
        }
        match tip_older {
            NONE => ends.oldest = tip_newer,
            older => links[older as usize].tip_newer = tip_newer,
        }
        links[at as usize].place = Place::Queue;
        self.tip_len -= 1;
    }

    /// Panics unless the tip is the oldest part of the queue and each node's list is its part of the tip, in order.
    pub(super) fn check(&self, links: &[Links]) {
        let mut by_node = vec![Vec::new(); self.by_node.len()];
        let (mut at, mut before, mut len, mut tip_newest) = (self.ends.oldest, NONE, 0, NONE);
        while at != NONE {
            let link = &links[at as usize];
            assert!(link.older == before, "the queue has two directions that agree");
            assert!((link.place == Place::Tip) == (len < self.tip_len), "the tip is the oldest part");
            if link.place == Place::Tip {
                by_node[usize::from(link.node)].push(at);
                tip_newest = at;
            }
            (before, at, len) = (at, link.newer, len + 1);
        }
        assert!(before == self.ends.newest && len == self.len && tip_newest == self.tip_newest);
        assert!(self.tip_len == self.tip_want.min(self.len), "the tip is as long as it can be");
        for (ends, expected) in self.by_node.iter().zip(by_node) {
            let list = core::iter::successors(some(ends.oldest), |&at| some(links[at as usize].tip_newer));
            assert!(list.eq(expected.iter().copied()), "a node's list is its part of the tip");
            assert!(some(ends.newest) == expected.last().copied());
        }
        let linked = links.iter().filter(|link| link.place != Place::Out).count();
        assert!(linked == self.len as usize, "what is not in the queue does not say so");
    }
}

const fn some(link: u32) -> Option<u32> {
    if link == NONE { None } else { Some(link) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// PAFS-6, against a list that is searched.
        #[test]
        fn the_tip_is_what_a_search_would_find(
            ops in prop::collection::vec((0u32..24, 0u8..5, 0u32..10), 0..300),
        ) {
            let mut links: Vec<Links> = (0..24).map(|i| Links::new(i % 3)).collect();
            let mut queue = Queue::new(3);
            let mut model: Vec<u32> = Vec::new();
            let mut tip = 0;
            for (at, op, want) in ops {
                let position = model.iter().position(|&other| other == at);
                match (position, op) {
                    (None, 0 | 1) => { queue.push_newest(&mut links, at); model.push(at); }
                    (None, 2) => { queue.push_oldest(&mut links, at); model.insert(0, at); }
                    (Some(i), 0 | 1) => { queue.touch(&mut links, at); model.remove(i); model.push(at); }
                    (Some(i), 2) => { queue.remove(&mut links, at); model.remove(i); }
                    _ => { tip = want; queue.set_tip(&mut links, want); }
                }
                queue.check(&links);
                prop_assert_eq!(queue.oldest(), model.first().copied());
                for node in 0..3 {
                    let on_node = |at: &&u32| **at % 3 == u32::from(node);
                    let expected = model.iter().take(tip as usize).find(on_node).copied();
                    prop_assert_eq!(queue.oldest_in_tip_on(node), expected);
                }
            }
        }
    }
}
