//! Weighted LRU: what would be missed least leaves, by its age and by what it costs to get it again.
//!
//! Dahlin, Wang, Anderson and Patterson, *Cooperative Caching*, OSDI 1994. Readers keep what they read. A copy is worth what it costs to have the
//! block again over the time since it was used: the disk, if it is the only one, and else another memory. A full node gives up the copy
//! that is worth least there. If that is an only one, it goes to the node whose least copy is worth least of all, in place of that one.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use crate::engine::xfs::key::Key;

/// What a block costs to have again, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Costs {
    /// From another memory.
    pub(super) memory: u64,
    /// From the disk.
    pub(super) disk: u64,
}

/// The memories of all nodes, which know each other.
pub(super) struct WeightedLru {
    costs: Costs,
    nodes: Vec<Node>,
    /// When each copy of a block was used.
    copies: BTreeMap<(Key, u16), u64>,
    /// References so far: the time.
    now: u64,
    evictions: u64,
}

struct Node {
    capacity: usize,
    /// When its copies were used, the oldest first: of blocks that only this node has, and of others.
    only: BTreeSet<(u64, Key)>,
    others: BTreeSet<(u64, Key)>,
}

/// A copy that may leave, and what it is worth: its cost over its age.
#[derive(Clone, Copy, Debug)]
struct Least {
    cost: u64,
    age: u64,
    key: Key,
    is_only: bool,
}

impl Least {
    fn is_below(&self, other: &Self) -> bool {
        u128::from(self.cost) * u128::from(other.age) < u128::from(other.cost) * u128::from(self.age)
    }
}

/// A block that was sent to another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Forward {
    pub(super) to: u16,
}

impl WeightedLru {
    pub(super) fn new(capacities: impl Iterator<Item = u32>, costs: Costs) -> Self {
        let node = |capacity: u32| Node {
            capacity: capacity as usize,
            only: BTreeSet::new(),
            others: BTreeSet::new(),
        };
        Self { costs, nodes: capacities.map(node).collect(), copies: BTreeMap::new(), now: 0, evictions: 0 }
    }

    pub(super) fn resident(&self) -> u64 {
        self.copies.len() as u64
    }

    pub(super) const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// A node reads a block, and has a copy afterwards.
    pub(super) fn read(&mut self, node: u16, key: Key) -> (Found, Option<Forward>) {
        self.now += 1;
        if self.copies.contains_key(&(key, node)) {
            let used = self.now;
            self.remove(node, key);
            self.insert(node, key, used);
            return (Found::Local, None);
        }
        let found = match self.holders(key).next() {
            Some(holder) => Found::Remote(holder),
            None => Found::Nowhere,
        };
        let forward = self.make_room(node);
        self.insert(node, key, self.now);
        (found, forward)
    }

    /// A node writes a block, and has the only copy afterwards; returns who has lost one.
    pub(super) fn write(&mut self, node: u16, key: Key) -> (Found, Option<Forward>, Vec<u16>) {
        let others: Vec<u16> = self.holders(key).filter(|&one| one != node).collect();
        others.iter().for_each(|&other| self.remove(other, key));
        let (found, forward) = self.read(node, key);
        let found = match (found, others.first()) {
            (Found::Nowhere, Some(&other)) => Found::Remote(other),
            (found, _) => found,
        };
        (found, forward, others)
    }

    /// A block leaves all memories.
    pub(super) fn forget(&mut self, key: Key) {
        let holders: Vec<u16> = self.holders(key).collect();
        holders.into_iter().for_each(|holder| self.remove(holder, key));
    }

    fn holders(&self, key: Key) -> impl Iterator<Item = u16> {
        self.copies.range((key, 0)..=(key, u16::MAX)).map(|(&(_, node), _)| node)
    }

    /// The node with the only copy.
    fn single(&self, key: Key) -> Option<u16> {
        let mut holders = self.holders(key);
        holders.next().filter(|_| holders.next().is_none())
    }

    fn is_full(&self, node: u16) -> bool {
        let node = &self.nodes[usize::from(node)];
        node.only.len() + node.others.len() >= node.capacity
    }

    fn make_room(&mut self, node: u16) -> Option<Forward> {
        if !self.is_full(node) {
            return None;
        }
        let victim = self.least(node)?;
        let used = self.now - victim.age;
        self.remove(node, victim.key);
        self.evictions += 1;
        if !victim.is_only {
            return None;
        }
        let to = self.place_for(node, &victim)?;
        if self.is_full(to) {
            let dropped = self.least(to)?;
            self.remove(to, dropped.key);
            self.evictions += 1;
        }
        self.insert(to, victim.key, used);
        Some(Forward { to })
    }

    /// The other node that has the least to lose by taking a copy in, if that is less than the copy is worth: the first one with room, if there is
    /// one.
    fn place_for(&self, node: u16, victim: &Least) -> Option<u16> {
        let others = || (0..self.nodes.len() as u16).filter(|&other| other != node);
        others().find(|&other| !self.is_full(other)).or_else(|| {
            let mut lowest: Option<(u16, Least)> = None;
            for other in others() {
                let Some(least) = self.least(other) else { continue };
                if lowest.as_ref().is_none_or(|(_, lowest)| least.is_below(lowest)) {
                    lowest = Some((other, least));
                }
            }
            lowest.filter(|(_, lowest)| lowest.is_below(victim)).map(|(other, _)| other)
        })
    }

    /// The copy of a node that is worth least: of two that are worth the same, the one that others have.
    fn least(&self, node: u16) -> Option<Least> {
        let Node { only, others, .. } = &self.nodes[usize::from(node)];
        // A copy that has just been used has an age too.
        let of = |list: &BTreeSet<(u64, Key)>, cost, is_only| {
            list.first().map(|&(used, key)| Least { cost, age: (self.now - used).max(1), key, is_only })
        };
        let only = of(only, self.costs.disk, true);
        let other = of(others, self.costs.memory, false);
        match (only, other) {
            (Some(only), Some(other)) => Some(if only.is_below(&other) { only } else { other }),
            (only, other) => only.or(other),
        }
    }

    fn insert(&mut self, node: u16, key: Key, used: u64) {
        if let Some(single) = self.single(key) {
            let entry = (self.copies[&(key, single)], key);
            let Node { only, others, .. } = &mut self.nodes[usize::from(single)];
            only.remove(&entry);
            others.insert(entry);
        }
        self.copies.insert((key, node), used);
        let is_only = self.single(key).is_some();
        let Node { only, others, .. } = &mut self.nodes[usize::from(node)];
        if is_only { only } else { others }.insert((used, key));
    }

    fn remove(&mut self, node: u16, key: Key) {
        let Some(used) = self.copies.remove(&(key, node)) else { return };
        let Node { only, others, .. } = &mut self.nodes[usize::from(node)];
        only.remove(&(used, key));
        others.remove(&(used, key));
        if let Some(single) = self.single(key) {
            let entry = (self.copies[&(key, single)], key);
            let Node { only, others, .. } = &mut self.nodes[usize::from(single)];
            others.remove(&entry);
            only.insert(entry);
        }
    }

    /// Bytes of its tables, with trees filled by two thirds.
    pub(super) fn table_bytes(&self) -> usize {
        self.copies.len() * (size_of::<((Key, u16), u64)>() + size_of::<(u64, Key)>()) * 3 / 2
    }

    /// Panics when an invariant is broken.
    pub(super) fn check(&self) {
        let mut listed = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            assert!(node.only.len() + node.others.len() <= node.capacity);
            listed += node.only.len() + node.others.len();
            for (list, is_only) in [(&node.only, true), (&node.others, false)] {
                for &(used, key) in list {
                    assert_eq!(self.copies.get(&(key, number as u16)), Some(&used));
                    assert_eq!(self.single(key).is_some(), is_only);
                }
            }
        }
        assert_eq!(listed, self.copies.len());
    }
}
