//! GMS: global memory service (Feeley, Morgan, Pighin, Karlin, Levy and Thekkath, SOSP 1995).
//!
//! The memory of all nodes is managed as one. A node's pages are *local* (used here) or *global* (kept for
//! others). A *global cache directory* (GCD) names the holders of each block. What a node evicts goes to the nodes
//! that hold the oldest pages of the cluster, in proportion to how many they hold: in each *epoch* an initiator
//! gathers histograms of ages, finds the M oldest pages, and tells everybody the age of the youngest of them
//! (*MinAge*) and how many lie where (the *weights*). Pages older than MinAge are dropped. See [`epochs`].
//!
//! Where it differs from the paper, or the paper leaves a choice:
//! - The directory of a block is at its home, for private blocks too: whether a block is private is not known
//!   beforehand. So a hit takes three messages, or two if the home is asked for what it has itself.
//! - The requester and the holder of a global page swap pages in the paper. Here the holder gives its page away
//!   (that is one free place) and the requester's victim goes the way of all victims.
//! - *Boost*: global pages age faster, by `boost`. The paper says that they do, not how much.
//! - *Duplicates*: a page whose holder has delivered a copy to another node is dropped. (The newest copy is the
//!   one worth saving, as in HSCC.) One that is saved nevertheless is dropped when the directory hears of it.
//! - The disk node is asked last in any case, so the directory does not list it.
//! - *Writes*: the disk node tells the directory, which tells all holders but the writer.
//!
//! Unfit where all nodes are equally busy: nothing old is found anywhere, and the epochs are for nothing.

mod directory;
mod epochs;
mod histogram;
mod plan;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use cards_core::policy::{Answer, Asker, Context, Delivery, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, Duration, NodeId, Note};

use super::hosted::Hosted;
use super::words::{INVALIDATE, class, invalidate, node, note};
use super::{Build, Entry, Parameter};

use directory::Directory;
use epochs::Epochs;

struct Gms {
    directory: Directory,
    globals: Hosted,
    epochs: Epochs,
    /// Blocks somebody asked for in vain: the directory was told that they are not here. Some may be on their way.
    denied: BTreeSet<u32>,
}

/// A block's tag: the directory knows it as a local page. It knows one without, which was stored, as global.
const LOCAL: u32 = 1;

/// To the directory: the copy of the node in the value is gone.
const GONE: u8 = 0;
/// To the directory: the sender has a copy of its own.
const HELD: u8 = 1;
/// From the directory: there are other copies of the global page.
const DUPLICATE: u8 = 2;
/// To the directory: the sender keeps as a global page what the node in the value has evicted.
const MOVED: u8 = 4;
/// From the directory: there are no other copies.
const LAST: u8 = 3;

/// Blocks asked for in vain that are remembered.
const DENIED: usize = 256;

impl Policy for Gms {
    /// The home knows who else has a copy, if asking others has not failed.
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        let home = cx.home(block);
        if home != cx.me() {
            return (asker.via == cx.me()).then_some(home);
        }
        let is_other = |node: NodeId| !asker.failed && node != asker.requester && cx.is_up(node);
        self.directory.get(block).iter().map(|holder| holder.node).find(|&node| is_other(node))
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        let (at_home, own) = (cx.home(block) == cx.me(), asker.via == cx.me());
        if own {
            self.globals.choose_victim(cx, block.volume);
        }
        if cx.cached(block) {
            self.served(cx, block, asker.requester);
        } else if at_home {
            let holder = self.directory.get(block).iter().find(|holder| Some(holder.node) == to);
            if let Some(global) = holder.filter(|holder| holder.global) {
                // It is going to be given away.
                self.directory.remove(block, global.node);
            }
            self.register(cx, block, asker.requester);
        } else if !own {
            self.deny(cx, block);
        }
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.directory.get(block).iter().map(|holder| holder.node).collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        self.epochs.replaced(cx, block, &self.globals);
        let age_ms = match cx.is_hosted(block) {
            true => self.globals.boosted(cx.age_ms(block)),
            false => cx.age_ms(block),
        };
        let target = match self.is_duplicate(cx, block) {
            true => None,
            false => self.epochs.target(cx, age_ms),
        };
        match target {
            Some(to) => Eviction::Send { to, class: class::SINGLETON, depth: 0 },
            None => {
                self.gone(cx, block, cx.me());
                Eviction::Drop
            }
        }
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            if cx.home(block) == cx.me() {
                self.invalidate(cx, block, writer);
            } else {
                cx.note(cx.home(block), block, invalidate(writer));
            }
        } else if cx.cached(block) {
            cx.set_next(block, None);
        }
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        self.store(cx, block, offer.evictor, offer.age_ms)
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        self.hear(cx, block, from, note);
    }

    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, _delivery: Delivery) {
        cx.set_tag(block, LOCAL);
        if self.denied.remove(&block.index) {
            cx.note(cx.home(block), block, private(HELD));
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.epochs.tick(cx);
    }

    fn needs_frame_data(&self) -> bool {
        true
    }
}

const fn private(kind: u8) -> Note {
    note(kind, 0)
}

impl Gms {
    fn served(&mut self, cx: &mut Context<'_>, block: BlockId, requester: NodeId) {
        let global = cx.is_hosted(block);
        if cx.home(block) == cx.me() {
            self.register(cx, block, requester);
        } else if !global && cx.tag(block) != LOCAL {
            // The directory expects that it is given away.
            cx.note(cx.home(block), block, private(HELD));
            cx.set_tag(block, LOCAL);
        }
        if global {
            cx.discard(block);
        }
    }

    /// At the home: the requester is going to have a local copy.
    fn register(&mut self, cx: &Context<'_>, block: BlockId, requester: NodeId) {
        if requester != cx.me() && requester != cx.disk_node() {
            let mut holders = self.directory.get(block);
            holders.add(requester, false);
            self.directory.set(block, holders, cx.capacity().0);
        }
    }

    /// Not here, whatever the directory says; but it may be on its way.
    fn deny(&mut self, cx: &mut Context<'_>, block: BlockId) {
        if cx.me() == cx.disk_node() {
            return;
        }
        self.gone(cx, block, cx.me());
        if self.denied.len() >= DENIED {
            self.denied.pop_first();
        }
        self.denied.insert(block.index);
    }

    /// Tells the directory that a node has no copy any more.
    fn gone(&mut self, cx: &mut Context<'_>, block: BlockId, node: NodeId) {
        if node == cx.disk_node() {
            return;
        }
        let home = cx.home(block);
        if home == cx.me() {
            self.directory.remove(block, node);
        } else if home != node {
            cx.note(home, block, Note { kind: GONE, value: u64::from(node.0) });
        }
    }

    /// Whether another copy is worth more than this one. At the home that is known exactly.
    fn is_duplicate(&self, cx: &mut Context<'_>, block: BlockId) -> bool {
        let other = match cx.home(block) == cx.me() {
            true => self.directory.get(block).iter().next(),
            false => return cx.entry(block).next.is_some(),
        };
        if let Some(other) = other {
            cx.note(other.node, block, private(LAST));
        }
        other.is_some()
    }

    /// A page has come to be kept for others: it takes the oldest one's place.
    fn store(&mut self, cx: &mut Context<'_>, block: BlockId, evictor: NodeId, age_ms: u32) -> Answer {
        self.epochs.received(cx, block, &self.globals);
        let duplicate = cx.home(block) == cx.me() && self.has_others(cx, block, evictor);
        if cx.cached(block) || duplicate {
            self.gone(cx, block, evictor);
            return if duplicate { Answer::Drop } else { Answer::Present };
        }
        let (capacity, resident) = cx.capacity();
        let room = if resident < capacity {
            Room::Free
        } else if let Some(victim) = self.globals.oldest_of_all(cx, block.volume) {
            self.gone(cx, victim, cx.me());
            Room::Of(victim)
        } else {
            self.gone(cx, block, evictor);
            return Answer::Drop;
        };
        self.globals.add(cx, block, age_ms);
        if cx.home(block) == cx.me() || cx.me() == cx.disk_node() {
            self.gone(cx, block, evictor);
        } else {
            cx.note(cx.home(block), block, note(MOVED, evictor.0.into()));
        }
        Answer::Keep(room)
    }

    /// At the home: whether a node besides these has a copy; the newest one's holder is told to save it.
    fn has_others(&mut self, cx: &mut Context<'_>, block: BlockId, evictor: NodeId) -> bool {
        let other = self.directory.get(block).iter().find(|h| h.node != evictor);
        if let Some(other) = other {
            cx.note(other.node, block, private(LAST));
        }
        other.is_some()
    }

    fn hear(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        let at_home = cx.home(block) == cx.me();
        match note {
            Note { kind: MOVED, value } if at_home => self.moved(cx, block, from, node(value)),
            Note { kind: INVALIDATE, value } if at_home => self.invalidate(cx, block, node(value)),
            Note { kind: INVALIDATE, .. } => cx.invalidate(block),
            Note { kind: GONE, value } if at_home => {
                self.directory.remove(block, node(value));
            }
            Note { kind: HELD, .. } if at_home => self.register(cx, block, from),
            Note { kind: DUPLICATE, .. } => {
                if cx.is_hosted(block) {
                    cx.discard(block);
                } else if cx.cached(block) {
                    cx.note(cx.home(block), block, private(HELD));
                    cx.set_tag(block, LOCAL);
                }
            }
            Note { kind: LAST, .. } => {
                if cx.cached(block) {
                    cx.set_next(block, None);
                }
            }
            Note { kind: MOVED, .. } => {}
            Note { kind, value } => {
                self.epochs.note(cx, block, from, kind, value, &self.globals);
            }
        }
    }

    /// At the home: a page has moved to another node's global memory, where it is not needed if there are others.
    fn moved(&mut self, cx: &mut Context<'_>, block: BlockId, holder: NodeId, evictor: NodeId) {
        let mut holders = self.directory.get(block);
        holders.remove(evictor);
        let other = holders.iter().find(|h| h.node != holder);
        match other {
            Some(other) => {
                cx.note(other.node, block, private(LAST));
                cx.note(holder, block, private(DUPLICATE));
            }
            None if cx.cached(block) => {
                cx.set_next(block, None);
                cx.note(holder, block, private(DUPLICATE));
            }
            None => holders.add(holder, true),
        }
        self.directory.set(block, holders, cx.capacity().0);
    }

    /// At the home: all copies but the writer's are old.
    fn invalidate(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        let known = self.directory.get(block);
        let mut rest = directory::Holders::default();
        for holder in known.iter() {
            if holder.node == writer {
                rest.add(writer, holder.global);
            } else {
                cx.note(holder.node, block, invalidate(writer));
            }
        }
        if known.are_more() {
            for node in cx.nodes() {
                if node != writer && node != cx.disk_node() && known.iter().all(|h| h.node != node) {
                    cx.note(node, block, invalidate(writer));
                }
            }
        }
        self.directory.set(block, rest, cx.capacity().0);
        if cx.me() != writer && cx.me() != cx.disk_node() {
            cx.invalidate(block);
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "gms",
    title: "global memory service",
    paper: "Feeley et al., Implementing Global Memory Management in a Workstation Cluster, SOSP 1995",
    parameters: &[
        Parameter { name: "epoch", default: "5", meaning: "seconds an epoch lasts at most, 1 to 30" },
        Parameter {
            name: "pages",
            default: "1",
            meaning: "replacements of an epoch, in percent of all nodes' places (64 at least), 0.1 to 10",
        },
        Parameter {
            name: "boost",
            default: "1.25",
            meaning: "how much faster pages age that are kept for others, 1 to 2",
        },
    ],
    when_not: "all nodes are equally busy: there is nothing old to replace anywhere",
    build: Build::Shard(|arguments| {
        let seconds = arguments.parse_with("epoch", "a number from 1 to 30", |v| {
            v.parse().ok().filter(|seconds| (1..=30).contains(seconds))
        })?;
        let pages = arguments.parse_with("pages", "a number from 0.1 to 10", |v| scaled(v, 10, 1, 100))?;
        let boost = arguments.parse_with("boost", "a number from 1 to 2", |v| scaled(v, 100, 100, 200))?;
        Ok(Box::new(Gms {
            directory: Directory::default(),
            globals: Hosted::new(boost),
            epochs: Epochs::new(Duration::from_secs(seconds), pages),
            denied: BTreeSet::new(),
        }))
    }),
};

/// A decimal fraction times `scale`, if that is from `least` to `most`.
fn scaled(text: &str, scale: u16, least: u32, most: u32) -> Option<u32> {
    let value: f32 = text.parse().ok()?;
    let value = value * f32::from(scale);
    // The cast saturates, and makes zero of what is no number.
    Some((value + 0.5) as u32).filter(|value| (least..=most).contains(value))
}
