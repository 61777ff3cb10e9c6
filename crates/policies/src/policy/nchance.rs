//! N-Chance forwarding (Dahlin et al., OSDI 1994): greedy forwarding (see [`super::greedy`]), and the only copy of
//! a block is not dropped but sent to another client, up to n times unless it is used meanwhile.
//!
//! A copy on such a tour *recirculates*. If its host uses it, it becomes an ordinary copy; if another node reads it,
//! it moves there. Whoever takes one in drops something less worth and sends nothing on: the oldest duplicate in
//! its cache, else the oldest of the recirculating copies with the fewest chances left, else its oldest block.
//!
//! Where the paper leaves a choice:
//! - A node knows that it has the only copy by a mark on it, which the disk node corrects when the number of
//!   holders becomes one or two. The copy in the disk node's cache does not count, nor does the disk node take
//!   in what clients evict.
//! - To whom: a random client (`peer=random`, as published), of two random ones the one with more free places
//!   (`two_choices`), or the one with the most (`free`).
//! - Duplicates are looked for among the `search` oldest blocks. The paper searches the whole list (`search=all`): with it a
//!   cluster that shares a working set hits 1 to 15 points more, at the price of a search over the cache for each block stored.
//!
//! Unfit where all nodes are equally busy and share nothing: blocks go round that nobody reads again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::policy::{Answer, Asker, Context, Delivery, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note};

use super::directory::{Directory, GONE};
use super::early::Early;
use super::words::{INVALIDATE, class};
use super::{Build, Entry, Parameter, greedy};

/// Kind of a [`Note`]: the sender's copy goes to the node that the value names.
const MOVED: u8 = 1;
/// The receiver's copy is the only one.
const SINGLET: u8 = 2;
/// It is not.
const DUPLICATE: u8 = 3;

/// In the tag of a copy: it is not the only one. The bits below count the chances left to a recirculating copy,
/// its next one included.
const DUPLICATE_TAG: u32 = 1 << 31;

struct NChance {
    n: u8,
    peer: Peer,
    search: usize,
    /// At the disk node: the copies of all others.
    copies: Directory,
    early: Early,
}

/// How the next host is chosen.
#[derive(Clone, Copy)]
enum Peer {
    Random,
    TwoChoices,
    Free,
}

impl Policy for NChance {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        self.copies.route(cx, block, asker)
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        if cx.me() != cx.disk_node() {
            served(cx, block, asker);
            return;
        }
        if asker.via != cx.me() {
            self.copies.asked(cx, block, asker);
            if to.is_none() {
                self.tell_of_others(cx, block, asker.requester);
            }
        }
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.copies.holders(block).collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        if cx.me() == cx.disk_node() {
            return Eviction::Drop;
        }
        let chances = chances(cx, block).map_or(self.n, |left| left - 1);
        let to = match chances == 0 || is_duplicate(cx, block) {
            true => None,
            false => self.next_host(cx, block),
        };
        match to {
            Some(to) => {
                cx.note(cx.disk_node(), block, Note { kind: MOVED, value: u64::from(to.0) });
                Eviction::Send { to, class: class::SINGLETON, depth: chances }
            }
            None => {
                say_gone(cx, block);
                Eviction::Drop
            }
        }
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            self.copies.written(cx, block, writer);
        } else {
            // The only copy, and an ordinary one.
            cx.set_tag(block, 0);
        }
    }

    /// A singlet looks for a host.
    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, _offer: Offer) -> Answer {
        if cx.cached(block) {
            return Answer::Present;
        }
        if cx.me() == cx.disk_node() {
            return Answer::Drop;
        }
        let room = self.room(cx, block);
        if let Room::Of(victim) = room {
            say_gone(cx, victim);
        }
        Answer::Keep(room)
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        self.hear(cx, block, from, note);
    }

    /// From a disk the copy is taken for the only one, from another client not, unless the disk node has said more.
    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) {
        let from_client = delivery.from != cx.disk_node();
        let duplicate = self.early.take(block).unwrap_or(from_client);
        cx.set_tag(block, if duplicate { DUPLICATE_TAG } else { 0 });
    }

    fn stored(&mut self, cx: &mut Context<'_>, block: BlockId, depth: u8) {
        let duplicate = self.early.take(block).unwrap_or(false);
        cx.set_tag(block, u32::from(depth) | if duplicate { DUPLICATE_TAG } else { 0 });
    }

    fn needs_frame_data(&self) -> bool {
        true
    }
}

fn is_duplicate(cx: &Context<'_>, block: BlockId) -> bool {
    cx.tag(block) & DUPLICATE_TAG != 0
}

/// The chances left, if the copy recirculates.
fn chances(cx: &Context<'_>, block: BlockId) -> Option<u8> {
    let left = cx.tag(block) as u8;
    (left > 0 && cx.is_hosted(block)).then_some(left)
}

fn say_gone(cx: &mut Context<'_>, block: BlockId) {
    cx.note(cx.disk_node(), block, Note { kind: GONE, value: 0 });
}

/// At a client. The disk node's copy does not count, so it takes nothing away.
fn served(cx: &mut Context<'_>, block: BlockId, asker: Asker) {
    if asker.via == cx.me() || asker.requester == cx.disk_node() || !cx.cached(block) {
        return;
    }
    if chances(cx, block).is_some() {
        say_gone(cx, block);
        cx.discard(block);
    } else {
        cx.set_tag(block, DUPLICATE_TAG);
    }
}

impl NChance {
    /// At the disk node, which delivers the block itself: those who cannot know are told that their copy is not the only
    /// one: the requester, and the one who had the only one.
    fn tell_of_others(&self, cx: &mut Context<'_>, block: BlockId, requester: NodeId) {
        let mut others = self.copies.holders(block).filter(|&node| node != requester);
        let duplicate = Note { kind: DUPLICATE, value: 0 };
        match (others.next(), others.next()) {
            _ if requester == cx.me() => {}
            (None, _) => {}
            (Some(only), None) => {
                cx.note(requester, block, duplicate);
                cx.note(only, block, duplicate);
            }
            (Some(_), Some(_)) => cx.note(requester, block, duplicate),
        }
    }

    /// What a singlet displaces. Nothing of other volumes, as long as there is something of its own.
    fn room(&self, cx: &Context<'_>, block: BlockId) -> Room {
        let (capacity, resident) = cx.capacity();
        if resident < capacity {
            return Room::Free;
        }
        let mut oldest = None;
        let mut fewest: Option<(u8, BlockId)> = None;
        for candidate in cx.tail().take(self.search).filter(|other| other.volume == block.volume) {
            oldest = oldest.or(Some(candidate));
            if is_duplicate(cx, candidate) {
                return Room::Of(candidate);
            }
            if let Some(left) = chances(cx, candidate)
                && fewest.is_none_or(|(least, _)| left < least)
            {
                fewest = Some((left, candidate));
            }
        }
        fewest.map(|(_, candidate)| candidate).or(oldest).map_or(Room::Evict, Room::Of)
    }

    fn hear(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        match note {
            Note { kind: GONE, .. } => {
                self.copies.remove(block, from);
                self.tell_the_last(cx, block);
            }
            Note { kind: MOVED, value } => {
                let other_holders = self.copies.holders(block).any(|node| node != from);
                self.copies.remove(block, from);
                if let Some(to) = u16::try_from(value).ok().map(NodeId).filter(|&to| cx.is_up(to)) {
                    self.copies.add(block, to);
                }
                if other_holders {
                    self.tell_the_last(cx, block);
                }
            }
            Note { kind: kind @ (SINGLET | DUPLICATE), .. } => {
                let duplicate = kind == DUPLICATE;
                if cx.cached(block) {
                    let chances = cx.tag(block) & !DUPLICATE_TAG;
                    cx.set_tag(block, chances | if duplicate { DUPLICATE_TAG } else { 0 });
                } else {
                    self.early.put(block, duplicate);
                }
            }
            Note { kind: INVALIDATE, .. } => cx.invalidate(block),
            Note { .. } => {}
        }
    }

    /// Of two holders one has gone.
    fn tell_the_last(&self, cx: &mut Context<'_>, block: BlockId) {
        let mut holders = self.copies.holders(block);
        if let (Some(last), None) = (holders.next(), holders.next()) {
            cx.note(last, block, Note { kind: SINGLET, value: 0 });
        }
    }

    fn next_host(&self, cx: &mut Context<'_>, block: BlockId) -> Option<NodeId> {
        match self.peer {
            Peer::Random => random_client(cx, None),
            Peer::TwoChoices => {
                let one = random_client(cx, None)?;
                let other = random_client(cx, Some(one)).unwrap_or(one);
                Some(if cx.free_at(other) > cx.free_at(one) { other } else { one })
            }
            Peer::Free => {
                // Ties go round by the block, so that equal nodes get equal shares.
                let nodes = u64::from(cx.node_bound());
                let turn = block.hash() % nodes;
                let place = |node: NodeId| (u64::from(node.0) + turn) % nodes;
                clients(cx, None).max_by_key(|&node| (cx.free_at(node), place(node)))
            }
        }
    }
}

/// The clients that can be reached, but for this one and perhaps another.
fn clients(cx: &Context<'_>, but: Option<NodeId>) -> impl Iterator<Item = NodeId> {
    cx.nodes()
        .filter(move |&node| node != cx.me() && node != cx.disk_node() && Some(node) != but && cx.is_up(node))
}

fn random_client(cx: &mut Context<'_>, but: Option<NodeId>) -> Option<NodeId> {
    let count = clients(cx, but).count();
    let nth = cx.random(count as u64) as usize;
    clients(cx, but).nth(nth)
}

pub(super) const ENTRY: Entry = Entry {
    name: "nchance",
    title: "N-Chance forwarding",
    paper: "Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994, section on N-Chance forwarding",
    parameters: &[
        Parameter {
            name: "n",
            default: "2",
            meaning: "how often the only copy of a block is forwarded without having been used, 0 (greedy forwarding) to 8",
        },
        Parameter {
            name: "peer",
            default: "random",
            meaning: "to whom: random, two_choices (of two random clients the one with more free places) or free (the one with the most)",
        },
        Parameter {
            name: "search",
            default: "64",
            meaning: "old blocks among which a host looks for what to drop, 1 to 1000000, or all (as published; in `cards sim` the default)",
        },
    ],
    when_not: "all nodes are equally busy and share nothing: blocks go round that nobody reads again",
    build: Build::Shard(|arguments| {
        let n = arguments.parse_with("n", "a number from 0 to 8", |v| v.parse().ok().filter(|n| *n <= 8))?;
        let peer = arguments.parse_with("peer", "random, two_choices or free", |v| match v {
            "random" => Some(Peer::Random),
            "two_choices" => Some(Peer::TwoChoices),
            "free" => Some(Peer::Free),
            _ => None,
        })?;
        let search = arguments.parse_with("search", "a number from 1 to 1000000, or all", |v| match v {
            "all" => Some(usize::MAX),
            _ => v.parse().ok().filter(|s| (1..=1_000_000).contains(s)),
        })?;
        Ok(match n {
            0 => greedy::build(),
            _ => Box::new(NChance { n, peer, search, copies: Directory::default(), early: Early::default() }),
        })
    }),
};
