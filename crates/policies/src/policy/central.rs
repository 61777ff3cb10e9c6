//! Centrally coordinated caching (Dahlin et al., OSDI 1994): each client gives most of its cache to the disk node,
//! which manages these parts together as one cache, by one LRU queue, and with what it evicts from its own.
//!
//! A client's miss goes to the disk node: it delivers from its cache, else it passes the request to the client
//! where the block lies, whose copy stays there and becomes the most recently used of all, else it reads its disk.
//! What the disk node evicts goes to a client with a free place in its managed part, else it replaces the
//! least recently used of all managed blocks. What clients evict from their own parts is dropped.
//!
//! Where the paper leaves a choice:
//! - A client finds what lies in its managed part without asking; the disk node does not count it as a use.
//! - A block is at most once at a client, in the part where it came first.
//! - The disk node names the block to be replaced in a message of its own, ahead of the new one.
//! - In a write all other copies are dropped. For this, and only where no other protocol does it, the disk node
//!   is told what leaves the clients' own parts.
//!
//! Unfit where each node's own working set nearly fills its cache: only a fifth of it is left.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::policy::{Answer, Asker, Context, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, Duration, NodeId, Note};

use super::directory::{Directory, GONE};
use super::words::{INVALIDATE, class};
use super::{Build, Entry, Parameter};

/// Kind of a [`Note`]: drop the block, its place is needed.
const REPLACED: u8 = 1;

/// The sender has room, as every message says.
const HERE: u8 = 2;

/// How soon a client looks again whether its card can be used.
const WAIT: Duration = Duration::from_millis(100);

struct Central {
    split: u8,
    /// At the disk node: what lies in the managed parts, once each.
    managed: Directory,
    /// At the disk node: the copies in the clients' own parts, if it has to invalidate them.
    own: Directory,
}

impl Policy for Central {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        self.managed.route(cx, block, asker)
    }

    /// At the disk node: a client has a miss, or the managed copy was not where it should be.
    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        let Asker { requester, via, failed, .. } = asker;
        if cx.me() != cx.disk_node() {
            return;
        }
        // Whoever asks for a block or sends the request back has none.
        self.managed.remove(block, requester);
        if failed {
            self.managed.remove(block, via);
        }
        if cx.invalidates() && requester != cx.me() {
            self.own.add(block, requester);
        }
        if to.is_some() {
            self.managed.touch(block);
        }
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.managed.holders(block).chain(self.own.holders(block)).collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        if cx.me() == cx.disk_node() {
            return self.save(cx, block);
        }
        // The disk node should have named what leaves the managed part; if it has not, it must be told.
        if cx.invalidates() || cx.is_apart(block) {
            cx.note(cx.disk_node(), block, Note { kind: GONE, value: 0 });
        }
        Eviction::Drop
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            self.managed.written(cx, block, writer);
            self.own.written(cx, block, writer);
        }
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, _offer: Offer) -> Answer {
        if cx.me() == cx.disk_node() {
            Answer::Drop
        } else if cx.cached(block) {
            Answer::Present
        } else {
            Answer::Keep(Room::Evict)
        }
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        match note {
            Note { kind: GONE, .. } => {
                self.managed.remove(block, from);
                self.own.remove(block, from);
            }
            Note { kind: REPLACED, .. } if from == cx.disk_node() && cx.is_apart(block) => {
                cx.discard(block);
            }
            Note { kind: INVALIDATE, .. } => cx.invalidate(block),
            _ => {}
        }
    }

    /// A client that asks for nothing has room all the same: the disk node must hear of it once.
    fn tick(&mut self, cx: &mut Context<'_>) {
        if cx.me() == cx.disk_node() {
            return;
        }
        if cx.may_hold() {
            cx.note(cx.disk_node(), BlockId::new(cx.volume(), 0), Note { kind: HERE, value: 0 });
        } else {
            cx.wake_at(cx.now() + WAIT);
        }
    }

    fn set_apart(&self) -> u8 {
        self.split
    }
}

impl Central {
    /// At the disk node: what leaves its cache goes to a managed part, unless it is in one.
    fn save(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        if self.managed.holders(block).any(|node| node != cx.me() && cx.is_up(node)) {
            return Eviction::Drop;
        }
        let Some(to) = free_place(cx, block).or_else(|| self.replace(cx)) else { return Eviction::Drop };
        self.managed.add(block, to);
        Eviction::Send { to, class: class::SERVER, depth: 0 }
    }

    /// Has the least recently used of all managed blocks dropped; where it was.
    fn replace(&mut self, cx: &mut Context<'_>) -> Option<NodeId> {
        loop {
            let (oldest, holder) = self.managed.oldest()?;
            self.managed.remove(oldest, holder);
            if cx.is_up(holder) {
                cx.note(holder, oldest, Note { kind: REPLACED, value: 0 });
                return Some(holder);
            }
        }
    }
}

/// The client with the most free places in its managed part. Ties go round by the block.
fn free_place(cx: &Context<'_>, block: BlockId) -> Option<NodeId> {
    let nodes = u64::from(cx.node_bound());
    let turn = block.hash() % nodes;
    // A node that has said nothing yet may have no card.
    let free = |node: NodeId| cx.free_at(node) % u16::MAX;
    cx.nodes()
        .filter(|&node| node != cx.me() && cx.is_up(node) && free(node) > 0)
        .max_by_key(|&node| (free(node), (u64::from(node.0) + turn) % nodes))
}

pub(super) const ENTRY: Entry = Entry {
    name: "central",
    title: "centrally coordinated caching",
    paper: "Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994, section on centrally coordinated caching",
    parameters: &[Parameter {
        name: "split",
        default: "80",
        meaning: "percent of each client's cache that the disk node manages, 1 to 99",
    }],
    when_not: "each node's own working set nearly fills its cache, or the disk node's CPU is short: it takes part in every miss",
    build: Build::Shard(|arguments| {
        let split = arguments.parse_with("split", "a number from 1 to 99", |v| {
            v.parse().ok().filter(|s| (1..=99).contains(s))
        })?;
        Ok(Box::new(Central { split, managed: Directory::default(), own: Directory::default() }))
    }),
};
