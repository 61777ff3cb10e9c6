//! Hash Distributed Caching (Dahlin et al., OSDI 1994), as the CARDs paper compares it (section 5.2).
//!
//! A local miss goes to the block's home, a miss there to the disk node (HDC-1). Only the disk node saves
//! what it evicts: it sends it to the home, irrespective of load; what homes evict is dropped (HDC-2).
//! Simpler than HSCC and cheaper on a cold cache, worse on a warm one (HDC-3).

use alloc::boxed::Box;

use super::{Answer, Build, Context, Entry, Eviction, Policy, Request, Room, Target};
use crate::ids::BlockId;
use crate::message::CopyClass;

struct Hdc;

impl Policy for Hdc {
    fn lookup(&mut self, cx: &mut Context<'_>, block: BlockId) -> Target {
        Target::Node(cx.home(block))
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let home = cx.home(block);
        if cx.me() == cx.disk_node() && home != cx.me() {
            Eviction::Send { to: home, class: CopyClass::Server, depth: 0 }
        } else {
            Eviction::Drop
        }
    }

    fn handle_request(&mut self, cx: &mut Context<'_>, block: BlockId, request: Request) -> Answer {
        match request {
            Request::Read { .. } if cx.cached(block) => Answer::Serve,
            Request::Read { .. } => Answer::DiskNode,
            Request::Store { .. } if cx.cached(block) => Answer::Present,
            Request::Store { .. } => Answer::Keep(Room::Evict),
            Request::Note { .. } => Answer::Drop,
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "hdc",
    title: "hash distributed caching",
    paper: "Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994; CARDs, section 5.2",
    parameters: &[],
    when_not: "the data is larger than the disk node's cache and is read again: homes fill with what nobody asks for",
    build: Build::Shard(|_| Ok(Box::new(Hdc))),
};
