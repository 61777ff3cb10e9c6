//! Hash Distributed Caching (Dahlin et al., OSDI 1994), as the CARDs paper compares it (section 5.2).
//!
//! A local miss goes to the block's home, a miss there to the disk node (HDC-1). Only the disk node saves
//! what it evicts: it sends it to the home, irrespective of load; what homes evict is dropped (HDC-2).
//! Simpler than HSCC and cheaper on a cold cache, worse on a warm one (HDC-3).
//!
//! In the CARDs paper what homes are sent competes with what they read themselves; originally it has a part of
//! each cache for itself (`split`).
//!
//! Where the papers leave a choice:
//! - A home serves its own copies as well, in whichever part they are; it has a block once at most.
//! - In a write the home has all other copies dropped. For this, and only where no other protocol does it, it
//!   is told what leaves the caches of others.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::policy::{Answer, Asker, Context, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note};

use super::directory::{Directory, GONE};
use super::words::{INVALIDATE, class, invalidate, node};
use super::{Build, Entry, Parameter};

struct Hdc {
    split: u8,
    /// At a home: the copies of all others but the disk node, if it has to invalidate them.
    copies: Directory,
}

impl Policy for Hdc {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        (asker.via == cx.me()).then(|| cx.home(block))
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, _to: Option<NodeId>) {
        let from_client = asker.requester != cx.me() && asker.requester != cx.disk_node();
        if cx.invalidates() && cx.home(block) == cx.me() && from_client {
            self.copies.add(block, asker.requester);
        }
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.copies.holders(block).collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let home = cx.home(block);
        if cx.me() == cx.disk_node() && home != cx.me() {
            return Eviction::Send { to: home, class: class::SERVER, depth: 0 };
        }
        if cx.invalidates() {
            cx.note(home, block, Note { kind: GONE, value: 0 });
        }
        Eviction::Drop
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            self.copies.written(cx, block, writer);
            cx.note(cx.home(block), block, invalidate(writer));
        }
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, _offer: Offer) -> Answer {
        if cx.cached(block) {
            cx.refresh(block);
            return Answer::Present;
        }
        Answer::Keep(Room::Evict)
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        match note {
            Note { kind: GONE, .. } => {
                self.copies.remove(block, from);
            }
            Note { kind: INVALIDATE, value } => {
                let writer = node(value);
                self.copies.written(cx, block, writer);
                if writer != cx.me() {
                    cx.invalidate(block);
                }
            }
            _ => {}
        }
    }

    fn set_apart(&self) -> u8 {
        self.split
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "hdc",
    title: "hash distributed caching",
    paper: "Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994; CARDs, section 5.2",
    parameters: &[Parameter {
        name: "split",
        default: "0",
        meaning: "percent of each cache but the disk node's that is for what the disk node sends, 0 (all compete, as in CARDs) to 99; 80 for the original",
    }],
    when_not: "the data is larger than the disk node's cache and is read again: homes fill with what nobody asks for",
    build: Build::Shard(|arguments| {
        let split = arguments
            .parse_with("split", "a number from 0 to 99", |v| v.parse().ok().filter(|s| *s <= 99))?;
        Ok(Box::new(Hdc { split, copies: Directory::default() }))
    }),
};
