//! Greedy forwarding (Dahlin et al., OSDI 1994): every cache is managed by its own node alone, but the disk node
//! knows the copies and passes a request that it cannot serve from its cache to a node that has one.
//!
//! A client asks the disk node only. Evicted blocks are dropped, and the disk node is told. A write has all other
//! copies dropped.
//!
//! Where the paper leaves a choice:
//! - Of several holders the last one that asked is chosen: the block will stay there longest.
//! - A request that meets no copy goes back to the disk node, which then uses its disk and tries nobody else.
//! - The word that a copy is gone is a message of its own; nobody waits for it.
//!
//! Unfit where memory is idle at some nodes and short at others: nothing is moved there.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::policy::{Asker, Context, Eviction, Policy, View};
use cards_core::{BlockId, NodeId, Note};

use super::directory::{Directory, GONE};
use super::words::INVALIDATE;
use super::{Build, Entry};

#[derive(Default)]
struct Greedy {
    /// At the disk node: the copies of all others.
    copies: Directory,
}

impl Policy for Greedy {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        self.copies.route(cx, block, asker)
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, _to: Option<NodeId>) {
        self.copies.asked(cx, block, asker);
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.copies.holders(block).collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        cx.note(cx.disk_node(), block, Note { kind: GONE, value: 0 });
        Eviction::Drop
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            self.copies.written(cx, block, writer);
        }
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        match note {
            Note { kind: GONE, .. } => {
                self.copies.remove(block, from);
            }
            Note { kind: INVALIDATE, .. } => cx.invalidate(block),
            _ => {}
        }
    }
}

pub(super) fn build() -> Box<dyn Policy> {
    Box::new(Greedy::default())
}

pub(super) const ENTRY: Entry = Entry {
    name: "greedy",
    title: "greedy forwarding",
    paper: "Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994, section on greedy forwarding",
    parameters: &[],
    when_not: "memory is idle at some nodes and short at others: every node keeps what it reads itself, and no more",
    build: Build::Shard(|_| Ok(build())),
};
