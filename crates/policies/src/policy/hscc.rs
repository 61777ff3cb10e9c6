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
//! A disk of today may answer in a few times of what a message costs. Two things can therefore be otherwise:
//! - Runs of blocks have one home (`homes=run`), so that a read of several blocks passes one node, and the disk sees a sequence
//!   as one.
//! - A home is asked, a request passed on and an evicted block saved only where that pays, by what blocks have cost lately
//!   ([`costs`], `ask=measured`). Otherwise the disk node is asked at once. It keeps the index of what it was asked for, as a home does,
//!   so it passes a request on where that pays, and always if it keeps no copies itself: N readers of the same blocks cost its disk
//!   one read of each.
//!
//! With [`cards_core::Coherence::Policy`] a write reaches the copies in the list, which are not all, even when nodes take
//! turns: a home that delivers out of its own cache knows only whom it served last, and a writer's own copy is in no list.
//!
//! Unfit where each block is read by one node only: there is nothing to find, and with `ask=home` evicted blocks are sent about for
//! nobody.

pub(super) mod costs;

use alloc::boxed::Box;

use cards_core::policy::{Answer, Asker, Context, Eviction, Fetched, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note, STRIPE_BLOCKS};

use self::costs::Costs;

use super::words::{INVALIDATE, class, invalidate, node, note};
use super::{Build, Entry, Parameter};

/// Kind of a note to the home: the sender keeps what the node in the value has evicted.
const INDEX_UPDATE: u8 = 0;
/// Drop the index entry and tell the previous node, until the node in the value is reached: it has the most recent copy.
const INVALIDATE_INDEX: u8 = 1;
/// To the disk node: by so many nanoseconds a block that it passes a request on for comes later than one out of its own memory.
const OVERHEAD: u8 = 3;

struct Hscc {
    depth: u8,
    load: Load,
    room: Room,
    /// Blocks in a row with one home.
    run: u32,
    /// What has been measured, if that decides who is asked.
    costs: Option<Costs>,
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
        let home = cx.home(self.first(block));
        let next = cx.entry(block).next.filter(|&next| next != asker.requester);
        let is_own = asker.via == cx.me();
        match &self.costs {
            None if is_own => next.or(Some(home)),
            Some(costs) if cx.me() == cx.disk_node() => {
                let copy = next.filter(|_| !cx.leaves_copies() || costs.passing_on_pays(block, is_own));
                copy.or((is_own && costs.home_pays(block, true)).then_some(home))
            }
            Some(costs) if is_own => costs.home_pays(block, false).then_some(home),
            _ => next.filter(|_| home == cx.me()),
        }
    }

    /// HSCC-15 at the home, HSCC-16 elsewhere.
    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        let (me, at_disk) = (cx.me(), cx.me() == cx.disk_node());
        let next = cx.entry(block).next.filter(|&next| next != asker.requester);
        if let Some(costs) = self.costs.as_mut().filter(|_| at_disk || asker.via == me) {
            costs.asked(block, next.is_some());
            if at_disk && (to.is_some() || asker.failed) {
                costs.passed_on(asker.failed);
            }
        }
        let keeps_index = cx.home(self.first(block)) == me || at_disk && self.costs.is_some();
        if keeps_index && asker.requester != me && !cx.cached(block) {
            cx.set_next(block, Some(asker.requester));
        }
    }

    fn fetched(&mut self, cx: &mut Context<'_>, block: BlockId, fetched: Fetched) {
        let (me, disk_node) = (cx.me(), cx.disk_node());
        let overhead = self.costs.as_mut().and_then(|costs| costs.fetched(block, fetched, me, disk_node));
        if let Some(overhead) = overhead {
            cx.note(disk_node, block, note(OVERHEAD, overhead));
        }
    }

    /// HSCC-7.
    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let (entry, at_disk) = (cx.entry(block), cx.me() == cx.disk_node());
        match (entry.next, entry.previous) {
            (Some(_), _) | (None, None) => Eviction::Drop,
            _ if self.costs.as_ref().is_some_and(|costs| !costs.saving_pays(block, at_disk)) => {
                Eviction::Drop
            }
            (None, Some(previous)) if previous == cx.disk_node() => match self.least_loaded(cx, block) {
                Some(to) => Eviction::Send { to, class: class::SINGLETON, depth: 0 },
                None => Eviction::Drop,
            },
            // It would have been sent for nothing, unless that node has lost its copy.
            (None, Some(previous)) if self.costs.is_some() && cx.free_at(previous) == 0 => Eviction::Drop,
            (None, Some(previous)) => {
                Eviction::Send { to: previous, class: class::MOST_RECENT, depth: self.depth }
            }
        }
    }

    /// HSCC-13: write-through with invalidation. The home passes it to the most recent copy's holder, every
    /// receiver to its previous node.
    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if writer != cx.me() {
            // The disk node, which keeps an index as a home does.
            let next = cx.entry(block).next.filter(|&next| self.costs.is_some() && next != writer);
            if let Some(next) = next {
                cx.note(next, block, invalidate(writer));
                cx.forget(block);
            }
            return;
        }
        let note = invalidate(cx.me());
        let home = cx.home(self.first(block));
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
            INVALIDATE_INDEX => self.invalidate_index(cx, block, node(note.value)),
            INVALIDATE => self.written(cx, block, node(note.value)),
            OVERHEAD => {
                if let Some(costs) = &mut self.costs {
                    costs.hear_overhead(note.value);
                }
            }
            _ => {}
        }
    }
}

impl Hscc {
    /// The first block of the run, whose home is that of all.
    const fn first(&self, block: BlockId) -> BlockId {
        BlockId { index: block.index - block.index % self.run, ..block }
    }

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
        let home = cx.home(self.first(block));
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
        let home = match &self.costs {
            // Who would not ask the home does not tell it either.
            Some(costs) if !costs.home_pays(block, false) => cx.disk_node(),
            _ => cx.home(self.first(block)),
        };
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

    /// HSCC-12: the most recent copy is at `holder` now.
    fn invalidate_index(&self, cx: &mut Context<'_>, block: BlockId, holder: NodeId) {
        if holder == cx.me() || cx.is_resident(block) {
            return;
        }
        let entry = cx.entry(block);
        // Whom it is passed on to is forgotten, or two nodes could pass it to each other for ever.
        cx.forget(block);
        if cx.home(self.first(block)) == cx.me() {
            cx.set_next(block, entry.next);
        }
        if let Some(previous) = entry.previous.filter(|&p| p != cx.disk_node() && p != holder) {
            cx.note(previous, block, note(INVALIDATE_INDEX, holder.0.into()));
        }
    }

    /// HSCC-13.
    fn written(&self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        let entry = cx.entry(block);
        let known = cx.cached(block) || entry != cards_core::policy::Entry::default();
        cx.invalidate(block);
        cx.forget(block);
        let next = entry.next.filter(|_| cx.home(self.first(block)) == cx.me());
        for to in [entry.previous, next].into_iter().flatten().filter(|_| known) {
            if to != writer && to != cx.disk_node() {
                cx.note(to, block, invalidate(writer));
            }
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
        Parameter {
            name: "homes",
            default: "block",
            meaning: "which blocks have the same home: block (each its own, as in the paper) or run (16 in a row)",
        },
        Parameter {
            name: "ask",
            default: "home",
            meaning: "who is asked for a missing block: home (always, as in the paper) or measured (home or disk node, by what that has cost lately)",
        },
    ],
    when_not: "each block is read by one node only: there is nothing to find, and with ask=home evicted blocks are sent about for nobody",
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
            run: arguments.parse_with("homes", "run or block", |v| match v {
                "run" => Some(STRIPE_BLOCKS),
                "block" => Some(1),
                _ => None,
            })?,
            costs: arguments.parse_with("ask", "measured or home", |v| match v {
                "measured" => Some(Some(Costs::default())),
                "home" => Some(None),
                _ => None,
            })?,
        }))
    }),
};
