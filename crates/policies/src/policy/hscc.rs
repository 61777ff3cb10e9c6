//! HSCC: Home-based Serverless Cooperative Caching (CARDs, section 3).
//!
//! Each block has a home, which caches it or knows the node that asked for it last. All copies of a block
//! form a doubly linked list through the nodes' index entries: *next* leads to newer copies, *previous*
//! to older ones. A miss asks *next*, else the home; the home passes the request to the last requester,
//! else to the disk node; whoever has the block delivers it straight to the requester. An evicted block
//! is worth saving if it is the only copy (it goes to the least loaded node) or the most recent one (it
//! goes to the node that had delivered it).
//!
//! Where the paper leaves a choice:
//! - "If there are no newer block requests" (GAP-2): the home still names the evicting node as the last
//!   requester, or nobody.
//! - A most recent copy whose previous node has one as well is dropped; that node tells the home that its
//!   own copy is the most recent now, so that the hint does not go stale.
//! - Index entries of blocks that are not here: two for each block of the cache, the latest ones (GAP: the paper bounds none).
//! - *Room*: a free place (`room=free`), or also that of a block near eviction that has a newer copy
//!   elsewhere (`room=dup`).
//! - *Least loaded*: the node that last said it has the most free places (`load=free`), or, literally, the
//!   home for which the fewest blocks are cached here (`load=home`).
//!
//! With [`cards_core::Coherence::Policy`] a write reaches the copies in the list, which are not all, even when nodes take
//! turns: a home that delivers out of its own cache knows only whom it served last, and a writer's own copy is in no list.
//!
//! Unfit where each block is read by one node only: evicted blocks are sent about for nobody.

use alloc::boxed::Box;

use cards_core::policy::{Answer, Asker, Context, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note};

use super::words::{INVALIDATE, class, invalidate, node, note};
use super::{Build, Entry, Parameter};

/// Kind of a note to the home: the sender keeps what the node in the value has evicted.
const INDEX_UPDATE: u8 = 0;
/// Drop the index entry and tell the previous node, until the node in the value is reached: it has the most recent copy.
const INVALIDATE_INDEX: u8 = 1;

struct Hscc {
    depth: u8,
    load: Load,
    room: Room,
}

/// How the least loaded node is found.
#[derive(Clone, Copy)]
enum Load {
    Free,
    Home,
}

impl Policy for Hscc {
    /// HSCC-6 for a miss here: the one that has asked for the block after this node, else the home. Of others' requests the
    /// home passes each on to the one that has asked last before (HSCC-15).
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        let (home, next) = (cx.home(block), cx.entry(block).next.filter(|&next| next != asker.requester));
        match asker.via == cx.me() {
            true => next.or(Some(home)),
            false => next.filter(|_| home == cx.me()),
        }
    }

    /// HSCC-15 at the home, HSCC-16 elsewhere.
    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, _to: Option<NodeId>) {
        if cx.home(block) == cx.me() && asker.requester != cx.me() && !cx.cached(block) {
            cx.set_next(block, Some(asker.requester));
        }
    }

    /// HSCC-7.
    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let entry = cx.entry(block);
        match (entry.next, entry.previous) {
            (Some(_), _) | (None, None) => Eviction::Drop,
            (None, Some(previous)) if previous == cx.disk_node() => match self.least_loaded(cx, block) {
                Some(to) => Eviction::Send { to, class: class::SINGLETON, depth: 0 },
                None => Eviction::Drop,
            },
            (None, Some(previous)) => {
                Eviction::Send { to: previous, class: class::MOST_RECENT, depth: self.depth }
            }
        }
    }

    /// HSCC-13: write-through with invalidation. The home passes it to the most recent copy's holder, every
    /// receiver to its previous node.
    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if writer != cx.me() {
            return;
        }
        let note = invalidate(cx.me());
        let home = cx.home(block);
        cx.note(home, block, note);
        let entry = cx.entry(block);
        if let Some(previous) = entry.previous.filter(|&p| p != cx.disk_node() && p != home) {
            cx.note(previous, block, note);
        }
        if home == cx.me()
            && let Some(next) = entry.next
        {
            cx.note(next, block, note);
        }
        cx.forget(block);
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        self.store(cx, block, offer)
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        match note.kind {
            INDEX_UPDATE => moved(cx, block, from, node(note.value)),
            INVALIDATE_INDEX => invalidate_index(cx, block, node(note.value)),
            INVALIDATE => written(cx, block, node(note.value)),
            _ => {}
        }
    }
}

impl Hscc {
    /// HSCC-9 for singletons; HSCC-10 and HSCC-11 for most recent copies.
    fn store(&self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        let Offer { class, depth, evictor, .. } = offer;
        if cx.cached(block) {
            // Whoever was asked for the block after this node has lost it.
            if cx.entry(block).next == Some(evictor) {
                cx.set_next(block, None);
            }
            self.announce(cx, block, evictor);
            return Answer::Present;
        }
        let room = if cx.has_room(self.room) {
            Some(self.room)
        } else if class == class::MOST_RECENT && depth <= 1 && cx.has_room(Room::Unread) {
            Some(Room::Unread)
        } else {
            None
        };
        if let Some(room) = room {
            self.announce(cx, block, evictor);
            return Answer::Keep(room);
        }
        let home = cx.home(block);
        let onward = match class {
            class::SINGLETON => (home != cx.me() && home != evictor).then_some(home),
            class::MOST_RECENT if depth > 1 => cx.entry(block).previous,
            _ => None,
        };
        match onward.filter(|&to| to != cx.me() && to != evictor && cx.is_up(to)) {
            Some(to) => Answer::Forward(to),
            None => Answer::Drop,
        }
    }

    /// Tells the home that the block is here now.
    fn announce(&self, cx: &mut Context<'_>, block: BlockId, evictor: NodeId) {
        let home = cx.home(block);
        if home == cx.me() {
            moved(cx, block, cx.me(), evictor);
        } else {
            cx.note(home, block, note(INDEX_UPDATE, evictor.0.into()));
        }
    }

    /// HSCC-8. Ties go round by the block, so that equal nodes get equal shares.
    fn least_loaded(&self, cx: &Context<'_>, block: BlockId) -> Option<NodeId> {
        let turn = (block.hash() % u64::from(cx.node_bound())) as u16;
        match self.load {
            Load::Free => cx.freest(turn),
            // The block that leaves still counts; the paper does not say.
            Load::Home => cx.least_cached_for(turn),
        }
    }
}

/// HSCC-12: `holder` keeps what `evictor` has evicted.
fn moved(cx: &mut Context<'_>, block: BlockId, holder: NodeId, evictor: NodeId) {
    if cx.entry(block).next.is_none_or(|next| next == evictor || next == holder) {
        cx.set_next(block, Some(holder));
        if evictor != holder {
            cx.note(evictor, block, note(INVALIDATE_INDEX, holder.0.into()));
        }
    }
}

/// HSCC-12: the most recent copy is at `holder` now.
fn invalidate_index(cx: &mut Context<'_>, block: BlockId, holder: NodeId) {
    if holder == cx.me() || cx.is_resident(block) {
        return;
    }
    let entry = cx.entry(block);
    // Whom it is passed on to is forgotten, or two nodes could pass it to each other for ever.
    cx.forget(block);
    if cx.home(block) == cx.me() {
        cx.set_next(block, entry.next);
    }
    if let Some(previous) = entry.previous.filter(|&p| p != cx.disk_node() && p != holder) {
        cx.note(previous, block, note(INVALIDATE_INDEX, holder.0.into()));
    }
}

/// HSCC-13.
fn written(cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
    let entry = cx.entry(block);
    let known = cx.cached(block) || entry != cards_core::policy::Entry::default();
    cx.invalidate(block);
    cx.forget(block);
    let next = entry.next.filter(|_| cx.home(block) == cx.me());
    for to in [entry.previous, next].into_iter().flatten().filter(|_| known) {
        if to != writer && to != cx.disk_node() {
            cx.note(to, block, invalidate(writer));
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "hscc",
    title: "home-based serverless cooperative caching",
    paper: "Olaru and Tichy, CARDs: Cluster-Aware Remote Disks, CCGrid 2003, section 3",
    parameters: &[
        Parameter {
            name: "depth",
            default: "2",
            meaning: "nodes a most recent copy is offered to at most, 0 to 8",
        },
        Parameter {
            name: "load",
            default: "free",
            meaning: "who is least loaded: free (has the most free places) or home (fewest blocks cached here for it, as in the paper)",
        },
        Parameter {
            name: "room",
            default: "free",
            meaning: "what a stored block may displace: free (nothing) or dup (a block near eviction with a newer copy elsewhere)",
        },
    ],
    when_not: "each block is read by one node only: evicted blocks are sent about for nobody",
    build: Build::Shard(|arguments| {
        Ok(Box::new(Hscc {
            depth: arguments
                .parse_with("depth", "a number from 0 to 8", |v| v.parse().ok().filter(|d| *d <= 8))?,
            load: arguments.parse_with("load", "free or home", |v| match v {
                "free" => Some(Load::Free),
                "home" => Some(Load::Home),
                _ => None,
            })?,
            room: arguments.parse_with("room", "free or dup", |v| match v {
                "free" => Some(Room::Free),
                "dup" => Some(Room::Duplicate),
                _ => None,
            })?,
        }))
    }),
};
