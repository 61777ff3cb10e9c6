//! Each reader keeps what it reads, the primary knows who has what, and it hears of that in few messages.
//!
//! A miss asks the primary, as a plain remote disk does. That has a directory of all copies and passes the request to the last node that has asked, if
//! there is one. It keeps what it has read for others only as long as nothing else wants the place: their readers have it. Nodes tell
//! it of what has left their caches in notes that stand for several blocks ([`departures`]). On a fast disk these notes are what makes the
//! difference to [`super::greedy`].
//!
//! Where a disk takes more than eight times as long as a peer, as measured, more is done, since it pays for its messages there:
//! - A copy of a block that another node has, too, is a *duplicate*: it goes before only copies among the oldest blocks. A node knows that by how a
//!   copy has come and whom it has served, and the primary says so when the others have gone.
//! - An only copy that was found worth keeping, or for which there is a free place, is not dropped but goes to its home, once. There is
//!   room made for it, and what leaves for that goes nowhere. A home that serves such a block gives it away.
//! - What no node has any more the primary remembers, as many blocks as nine tenths of all caches. The first reader that asks for one again
//!   is told so, and counts it as used: the ghosts of a replacement, for the whole cluster.
//!
//! Where the design of it leaves a choice, or cannot be had:
//! - The directory and the ghosts are at the primary, not at homes: it hears of all reads that reach the disk anyway, so no read takes another way than with
//!   `rd`. Which queue a block has left is not said.
//! - How often a block was used only its replacement knows. So a duplicate does not need one use more for its second chance, but loses it
//!   when it is among the oldest; and a block that is known again is not put into the main queue but counted as used twice, which brings it there.
//! - In a replacement that does not tell new blocks from others, every only copy is worth keeping.
//!
//! Coherence is left to the locks. A copy that a write has dropped stays in the directory until it is asked for in vain.
//!
//! Unfit where a disk is much slower than a peer and nodes share much: each has a copy of its own ([`super::single`] has one for all).

mod departures;

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::policy::{Answer, Asker, Context, Delivery, Eviction, Fetched, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note, Source};

use self::departures::Departures;
use super::directory::Directory;
use super::early::Early;
use super::typical::Typical;
use super::words::{class, node, note};
use super::{Build, Entry};
use crate::replacement::ghosts::{GhostKind, Ghosts};

/// To the primary: the sender has the copy that the node in the value has evicted.
const MOVED: u8 = 3;
/// The receiver's copy is the only one. Said of a block that is on its way: and it was in use before.
const ONLY: u8 = 4;

/// The tag of a duplicate; that of an only copy is zero.
const DUPLICATE: u32 = 1;

/// A disk is dear that takes more than so many times as long as a peer.
const DEAR: u64 = 8;
/// Nanoseconds, before a peer has delivered anything: a network of 25 Gbit/s.
const NOMINAL_PEER: u64 = 45_000;

/// Departures that a node keeps back at most, and how many blocks the cache has for each of them.
const BATCH: usize = 64;
const BLOCKS_PER_DEPARTURE: usize = 16;

/// Old blocks among which a duplicate is looked for at most: an eighth of the cache, if that is less.
const SEARCH: usize = 64;

#[derive(Default)]
struct Local {
    /// At the primary: the copies of all others.
    copies: Directory,
    /// At the primary: what no node has any more. Made when it is known for how many blocks.
    ghosts: Option<Ghosts>,
    /// Copies that have left here, of which the primary has not been told.
    departures: Departures,
    /// Blocks on their way here that are [`ONLY`] copies.
    early: Early,
    peer: Typical,
    disk: Typical,
    /// The replacement tells new blocks from others.
    has_main: bool,
    /// A block is about to be kept for another node.
    makes_room: bool,
}

impl Local {
    fn is_dear(&self) -> bool {
        self.disk.get().is_some_and(|disk| disk > self.peer.get().unwrap_or(NOMINAL_PEER) * DEAR)
    }

    fn ghosts(&mut self, cx: &Context<'_>) -> &mut Ghosts {
        let all = u64::from(cx.capacity().0) * cx.nodes().count() as u64;
        self.ghosts.get_or_insert_with(|| Ghosts::new(all * 9 / 10, GhostKind::Hashed))
    }

    /// At the primary: a copy has gone, here or elsewhere. The primary has one itself, or not.
    fn gone(&mut self, cx: &mut Context<'_>, block: BlockId, is_here: bool) {
        if !self.is_dear() {
            return;
        }
        let holders: Vec<NodeId> = self.copies.holders(block).take(2).collect();
        match holders[..] {
            [] if is_here => cx.set_tag(block, 0),
            [] => self.ghosts(cx).put(block.hash()),
            [last] if !is_here => cx.note(last, block, note(ONLY, 0)),
            _ => {}
        }
    }

    /// A copy leaves this node.
    fn leaves(&mut self, cx: &mut Context<'_>, block: BlockId) {
        if cx.me() == cx.disk_node() {
            return self.gone(cx, block, false);
        }
        let most = match self.is_dear() {
            // A request that is passed on in vain costs more than a note: the disk may be read for it.
            true => 1,
            false => (cx.capacity().0 as usize / BLOCKS_PER_DEPARTURE).clamp(3, BATCH),
        };
        if let Some((about, note)) = self.departures.add(block, most) {
            cx.note(cx.disk_node(), about, note);
        }
    }

    /// Where an only copy goes, and the class that it has there: one worth keeping takes another one's place, any other one only a free one.
    fn way_home(&self, cx: &Context<'_>, block: BlockId) -> Option<(NodeId, u8)> {
        let home = cx.home(block);
        let class = match cx.is_main(block) || !self.has_main {
            true => class::SINGLETON,
            false if cx.free_at(home) > 0 => class::SERVER,
            false => return None,
        };
        let is_only = cx.tag(block) != DUPLICATE && !cx.is_replica(block);
        (is_only && self.is_dear() && home != cx.me() && cx.is_up(home)).then_some((home, class))
    }

    /// Makes a duplicate the next victim, if one is among the oldest blocks of a full cache.
    fn choose_victim(&self, cx: &mut Context<'_>) {
        let (capacity, resident) = cx.capacity();
        if resident < capacity || !self.is_dear() {
            return;
        }
        let is_duplicate = |block: &BlockId| block.volume == cx.volume() && cx.tag(*block) == DUPLICATE;
        let duplicate = cx.tail().take(SEARCH.min(capacity as usize / 8)).find(is_duplicate);
        if let Some(duplicate) = duplicate {
            cx.cool(duplicate);
        }
    }
}

/// The only copy, of a block that was in use before.
fn set_known(cx: &mut Context<'_>, block: BlockId) {
    cx.set_tag(block, 0);
    cx.refresh(block);
    cx.refresh(block);
}

impl Policy for Local {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        self.copies.route(cx, block, asker)
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, _to: Option<NodeId>) {
        if asker.via == cx.me() || asker.requester == cx.me() {
            return self.departures.forget(block);
        }
        if cx.me() == cx.disk_node() {
            let is_held = cx.cached(block) || self.copies.holders(block).any(|node| node != asker.requester);
            self.copies.asked(cx, block, asker);
            if !is_held && self.is_dear() && self.ghosts(cx).take(block.hash()) {
                cx.note(asker.requester, block, note(ONLY, 0));
            }
        }
        if cx.is_hosted(block) && cx.cached(block) {
            cx.note(asker.requester, block, note(ONLY, 0));
            if cx.me() != cx.disk_node() {
                self.leaves(cx, block);
            }
            cx.discard(block);
        } else if !cx.is_replica(block) {
            cx.set_tag(block, DUPLICATE);
        }
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.copies.holders(block).collect()
    }

    fn keeps(&mut self, cx: &mut Context<'_>, _block: BlockId, _delivery: Delivery) -> bool {
        self.choose_victim(cx);
        true
    }

    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) {
        self.has_main |= cx.is_main(block);
        let is_known = self.early.take(block).is_some();
        if delivery.for_others && cx.me() == cx.disk_node() {
            cx.set_replica(block, true);
        } else if is_known {
            set_known(cx, block);
        } else if delivery.source == Source::Cache {
            cx.set_tag(block, DUPLICATE);
        }
    }

    fn fetched(&mut self, cx: &mut Context<'_>, _block: BlockId, fetched: Fetched) {
        let Some(took) = fetched.took else { return };
        let ns = took.as_nanos() as u64;
        match fetched.asked == cx.me() || fetched.source == Source::Disk {
            true => self.disk.add(ns),
            false => self.peer.add(ns),
        }
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        self.has_main |= cx.is_main(block);
        let makes_room = core::mem::take(&mut self.makes_room);
        if let Some((to, class)) = self.way_home(cx, block).filter(|_| !makes_room) {
            return Eviction::Send { to, class, depth: 0 };
        }
        if !cx.is_replica(block) {
            self.leaves(cx, block);
        }
        Eviction::Drop
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        let room = if offer.class == class::SERVER { Room::Free } else { Room::Evict };
        let is_here = cx.cached(block);
        if !is_here && !cx.has_room(room) {
            return Answer::Drop;
        }
        match cx.me() == cx.disk_node() {
            true => _ = self.copies.remove(block, offer.evictor),
            false => cx.note(cx.disk_node(), block, note(MOVED, offer.evictor.0.into())),
        }
        self.departures.forget(block);
        self.makes_room = !is_here;
        match is_here {
            true => Answer::Present,
            false => Answer::Keep(room),
        }
    }

    fn stored(&mut self, cx: &mut Context<'_>, block: BlockId, _depth: u8) {
        self.makes_room = false;
        set_known(cx, block);
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        for gone in Departures::of(block, note) {
            if self.copies.remove(gone, from) {
                let is_here = cx.cached(gone) && !cx.is_replica(gone);
                self.gone(cx, gone, is_here);
            }
        }
        match note.kind {
            MOVED => {
                self.copies.remove(block, node(note.value));
                self.copies.add(block, from);
            }
            ONLY if cx.cached(block) => cx.set_tag(block, 0),
            ONLY => self.early.put(block, false),
            _ => {}
        }
    }

    fn has_replicas(&self) -> bool {
        true
    }

    fn needs_frame_data(&self) -> bool {
        true
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "local",
    title: "a copy at each reader, only copies saved where the disk is slow",
    paper: "this project's own; it unites greedy and N-Chance forwarding (OSDI 1994) with the ghosts of S3-FIFO (SOSP 2023)",
    parameters: &[],
    when_not: "nodes share much, and a disk is much slower than a peer: each node has a copy of its own",
    build: Build::Shard(|_| Ok(Box::new(Local::default()))),
};
