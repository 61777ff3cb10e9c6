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

use cards_core::policy::{Answer, Asked, Context, Eviction, Policy, Request, Target};
use cards_core::{BlockId, NodeId, Note};

use super::directory::{Directory, GONE};
use super::{Build, Entry};

#[derive(Default)]
struct Greedy {
    /// At the disk node: the copies of all others.
    copies: Directory,
}

impl Policy for Greedy {
    fn lookup(&mut self, cx: &mut Context<'_>, block: BlockId) -> Target {
        self.would_ask(cx, block)
    }

    fn would_ask(&self, cx: &Context<'_>, block: BlockId) -> Target {
        match self.copies.holder(cx, block, cx.me()) {
            Some(holder) => Target::Node(holder),
            None => Target::DiskNode,
        }
    }

    fn would_pass_to(&self, cx: &Context<'_>, block: BlockId, read: Asked) -> Option<NodeId> {
        let directs = cx.me() == cx.disk_node() && !read.failed;
        self.copies.holder(cx, block, read.requester).filter(|_| directs)
    }

    fn believed_holders(&self, block: BlockId) -> Vec<NodeId> {
        self.copies.holders(block).collect()
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        cx.note(cx.disk_node(), block, Note::Private { kind: GONE, value: 0 });
        Eviction::Drop
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            self.copies.written(cx, block, writer);
        }
    }

    fn handle_request(&mut self, cx: &mut Context<'_>, block: BlockId, request: Request) -> Answer {
        match request {
            Request::Read { requester, via, failed } if cx.me() == cx.disk_node() => {
                let holder = self.copies.request(cx, block, requester, via, failed);
                match holder {
                    _ if cx.cached(block) => Answer::Serve,
                    Some(holder) => Answer::Forward(holder),
                    None => Answer::DiskNode,
                }
            }
            Request::Read { .. } if cx.cached(block) => Answer::Serve,
            Request::Read { .. } => Answer::DiskNode,
            Request::Note { from, note: Note::Private { kind: GONE, .. } } => {
                self.copies.remove(block, from);
                Answer::Drop
            }
            Request::Note { note: Note::Invalidate { .. }, .. } => {
                cx.discard(block);
                Answer::Drop
            }
            Request::Store { .. } | Request::Note { .. } => Answer::Drop,
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
