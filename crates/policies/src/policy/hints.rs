//! Hint-based cooperative caching (Sarkar and Hartman, OSDI 1996).
//!
//! No node knows where all copies are. Each keeps *hints*: the probable holder of a block's *master copy*, which
//! is the copy that came from the server; a miss follows them from node to node and ends at the server if they
//! are wrong. Only master copies are saved when they are evicted, by *best guess*: at the node that is believed
//! to have the oldest block of all, or, if the victim itself is older than that, in the server's *discard
//! cache*. Nodes tell each other the ages of their oldest blocks with every block they send.
//!
//! What is ours, for want of files, of opens and of a manager of files:
//! - The disk node is the server and the manager. Its hint is whom it delivered the block to last. A node without
//!   a hint asks it, and is passed on to the holder and told the hints about the six blocks that follow (in the
//!   paper a client gets the hints about a file from its last opener).
//! - *Writes*: a node that holds a block of a megabyte has opened that extent, as files are opened in the paper;
//!   the disk node tells all openers to drop a written block.
//! - A forwarded block keeps its age, and is replaced in its turn.
//! - A host that makes room for a stored block sends its victim, if that is a master copy, to the discard cache.
//! - Ages go with the blocks that are sent; besides, a host tells who stores at it when its age has halved or
//!   doubled. A node with free places is older than all others.
//! - Every node asked may pass a request on, up to the four hops the core allows (`forwards=2`), or only the
//!   first one asked (`forwards=1`), or none.
//!
//! Unfit where data is written by many nodes: each write tells all who have opened the extent.

mod discards;
mod extents;
mod peers;
mod table;

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::policy::{Answer, Asker, Context, Delivery, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, Instant, NodeId, Note};

use super::hosted::Hosted;
use super::words::{INVALIDATE, class, invalidate};
use super::{Build, Entry, Parameter};

use discards::Discards;
use extents::{Opened, Openers};
use peers::Peers;
use table::Table;

struct Hints {
    forwards: u8,
    table: Table,
    peers: Peers,
    hosted: Hosted,
    opened: Opened,
    /// At the disk node.
    openers: Openers,
    /// At the disk node.
    discards: Discards,
    /// When this node took a stored block in for which the replacement may have to evict another.
    made_room_at: Option<Instant>,
}

/// A block's tag. A stored block has none, and only master copies are stored.
const MASTER: u32 = 0;
const COPY: u32 = 1;

/// To the disk node: the sender has a block of an extent that it had none of before.
const OPENED: u8 = 0;
/// The age of the sender's oldest block, in milliseconds.
const OLDEST: u8 = 1;
/// From the disk node: the probable holders of the blocks that follow, ten bits each.
const HOLDERS: u8 = 2;

/// Blocks whose holders one note names, and the bits for each.
const TOLD: u32 = 6;
const HOLDER_BITS: u32 = 10;
const NOBODY: u64 = (1 << HOLDER_BITS) - 1;

impl Policy for Hints {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        let Asker { requester, via, failed, .. } = asker;
        let known = self.table.get(block).filter(|&holder| holder != requester);
        if via == cx.me() {
            return known;
        }
        if cx.me() == cx.disk_node() {
            return known.filter(|&holder| !failed && cx.is_up(holder));
        }
        let asked_first = via == requester || via == cx.disk_node();
        let may_forward = self.forwards > 1 || self.forwards == 1 && asked_first;
        known.filter(|&holder| may_forward && holder != via)
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        let at_server = cx.me() == cx.disk_node();
        if asker.via == cx.me() {
            if !at_server {
                self.hosted.choose_victim(cx, block.volume);
            }
        } else if at_server {
            self.asked_at_server(cx, block, asker, to);
        }
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.table.get(block).into_iter().collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let made_room = self.made_room_at.take() == Some(cx.now());
        if cx.me() == cx.disk_node() || cx.tag(block) != MASTER {
            return Eviction::Drop;
        }
        let guess = if made_room { None } else { self.peers.oldest(cx, block) };
        match guess.filter(|guess| guess.age_ms >= u64::from(cx.age_ms(block))) {
            Some(guess) => {
                self.peers.stored_at(guess.node);
                self.table.set(cx, block, Some(guess.node));
                Eviction::Send { to: guess.node, class: class::SINGLETON, depth: 0 }
            }
            None => Eviction::Send { to: cx.disk_node(), class: class::DEMOTED, depth: 0 },
        }
    }

    /// At the disk node: whoever has opened the extent drops the block. At the writer: its copy is the master.
    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            for node in self.openers.of(cx, block).filter(|&node| node != writer) {
                cx.note(node, block, invalidate(writer));
            }
            let holder = self.table.get(block).filter(|&holder| holder == writer);
            self.table.set(cx, block, holder);
        }
        if cx.me() == writer {
            cx.set_tag(block, MASTER);
        }
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        self.peers.heard(cx, offer.evictor, offer.oldest_ms);
        if cx.me() == cx.disk_node() {
            self.table.set(cx, block, None);
            return self.discards.store(cx, block);
        }
        self.store(cx, block, offer.evictor, offer.age_ms)
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        match note {
            Note { kind: INVALIDATE, .. } => cx.invalidate(block),
            Note { kind: OPENED, .. } => self.openers.add(block, from),
            Note { kind: OLDEST, value } => {
                self.peers.heard(cx, from, u32::try_from(value).unwrap_or(u32::MAX));
            }
            Note { kind: HOLDERS, value } => self.learn_holders(cx, block, value),
            Note { .. } => {}
        }
    }

    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) {
        let from_server = delivery.from == cx.disk_node();
        cx.set_tag(block, if from_server { MASTER } else { COPY });
        if delivery.from != cx.me() {
            self.peers.heard(cx, delivery.from, delivery.oldest_ms);
            self.table.set(cx, block, Some(delivery.from).filter(|_| !from_server));
        }
        // The disk node knows whom it delivers to.
        if self.opened.is_first(block) && !from_server {
            cx.note(cx.disk_node(), block, Note { kind: OPENED, value: 0 });
        }
    }

    fn needs_frame_data(&self) -> bool {
        true
    }
}

impl Hints {
    fn asked_at_server(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        let Asker { requester, failed, .. } = asker;
        if requester == cx.me() {
            self.table.set(cx, block, None);
            return;
        }
        self.openers.add(block, requester);
        if !failed {
            self.tell_holders(cx, block, requester);
        }
        if to.is_none() {
            self.table.set(cx, block, Some(requester));
        }
    }

    /// A master copy has come: it takes the oldest block's place.
    fn store(&mut self, cx: &mut Context<'_>, block: BlockId, evictor: NodeId, age_ms: u32) -> Answer {
        self.hosted.choose_victim(cx, block.volume);
        self.peers.tell(cx, block, evictor);
        if cx.cached(block) {
            cx.set_tag(block, MASTER);
            return Answer::Present;
        }
        if self.opened.is_first(block) {
            cx.note(cx.disk_node(), block, Note { kind: OPENED, value: 0 });
        }
        self.table.set(cx, block, None);
        self.hosted.add(cx, block, age_ms);
        let (capacity, resident) = cx.capacity();
        self.made_room_at = Some(cx.now()).filter(|_| resident >= capacity);
        Answer::Keep(Room::Evict)
    }

    /// Whoever lacks a hint about this block lacks those about the next ones.
    fn tell_holders(&self, cx: &mut Context<'_>, block: BlockId, to: NodeId) {
        let mut value = 0;
        let mut known = false;
        for by in 1..=TOLD {
            let holder = following(block, by).and_then(|b| self.table.get(b)).filter(|&holder| holder != to);
            known |= holder.is_some();
            value |= holder.map_or(NOBODY, |node| u64::from(node.0)) << (HOLDER_BITS * (by - 1));
        }
        if known {
            cx.note(to, block, Note { kind: HOLDERS, value });
        }
    }

    /// Takes the hints about blocks this node knows nothing of.
    fn learn_holders(&mut self, cx: &mut Context<'_>, block: BlockId, value: u64) {
        for by in 1..=TOLD {
            let holder = value >> (HOLDER_BITS * (by - 1)) & NOBODY;
            let Some(block) = following(block, by).filter(|_| holder != NOBODY) else { continue };
            if !cx.cached(block) && self.table.get(block).is_none() {
                self.table.set(cx, block, Some(NodeId(holder as u16)));
            }
        }
    }
}

fn following(block: BlockId, by: u32) -> Option<BlockId> {
    block.index.checked_add(by).map(|index| BlockId::new(block.volume, index))
}

pub(super) const ENTRY: Entry = Entry {
    name: "hints",
    title: "hint-based cooperative caching",
    paper: "Sarkar and Hartman, Efficient Cooperative Caching Using Hints, OSDI 1996",
    parameters: &[
        Parameter {
            name: "forwards",
            default: "2",
            meaning: "who passes a request on by its own hint: 0 (nobody), 1 (the first node asked) or 2 (each)",
        },
        Parameter {
            name: "discard_share",
            default: "25",
            meaning: "percent of the disk node's cache that discarded blocks may fill, 0 to 100",
        },
    ],
    when_not: "many nodes write: each write tells all who have opened the extent",
    build: Build::Shard(|arguments| {
        let percent = |v: &str| v.parse().ok().filter(|percent| *percent <= 100);
        Ok(Box::new(Hints {
            forwards: arguments
                .parse_with("forwards", "a number from 0 to 2", |v| v.parse().ok().filter(|n| *n <= 2))?,
            table: Table::default(),
            peers: Peers::default(),
            hosted: Hosted::new(100),
            opened: Opened::default(),
            openers: Openers::default(),
            discards: Discards::new(arguments.parse_with(
                "discard_share",
                "a number from 0 to 100",
                percent,
            )?),
            made_room_at: None,
        }))
    }),
};
