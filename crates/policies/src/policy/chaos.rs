//! Answers at random: what no policy may break.
//!
//! A policy says where copies may be found and where they go; whether a copy may be used is decided elsewhere. So one
//! that sends everybody anywhere, keeps what nobody wants and discards what everybody needs must be slow and never
//! wrong. The fault-injecting checker runs it; nobody else should.

use alloc::boxed::Box;

use cards_core::policy::{Answer, Context, Eviction, Policy, Request, Room, Target};
use cards_core::{BlockId, CopyClass, NodeId, Note};

use super::{Build, Entry};

struct Chaos;

fn anybody(cx: &mut Context<'_>) -> NodeId {
    let nodes = cx.nodes().count() as u64;
    let chosen = cx.random(nodes.max(1));
    cx.nodes().nth(chosen as usize).unwrap_or(cx.me())
}

fn anything(cx: &mut Context<'_>) -> Note {
    let node = anybody(cx);
    match cx.random(4) {
        0 => Note::IndexUpdate { holder: node, evictor: anybody(cx) },
        1 => Note::InvalidateIndex { holder: node },
        2 => Note::Invalidate { writer: node },
        _ => Note::Private { kind: cx.random(8) as u8, value: cx.random(1 << 32) },
    }
}

/// Now and then something that nobody asked for.
fn stir(cx: &mut Context<'_>, block: BlockId) {
    match cx.random(16) {
        0 => {
            let (to, note) = (anybody(cx), anything(cx));
            cx.note(to, block, note);
        }
        1 => cx.discard(block),
        2 => {
            let next = anybody(cx);
            cx.set_next(block, Some(next));
        }
        3 => cx.forget(block),
        _ => {}
    }
}

fn room(cx: &mut Context<'_>, block: BlockId) -> Room {
    match cx.random(5) {
        0 => Room::Free,
        1 => Room::Duplicate,
        2 => Room::Unread,
        3 => Room::Evict,
        _ => {
            let tail = cx.tail().next();
            tail.map_or(Room::Of(block), Room::Of)
        }
    }
}

impl Policy for Chaos {
    fn is_random(&self) -> bool {
        true
    }

    fn lookup(&mut self, cx: &mut Context<'_>, block: BlockId) -> Target {
        stir(cx, block);
        match cx.random(4) {
            0 => Target::DiskNode,
            _ => Target::Node(anybody(cx)),
        }
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        stir(cx, block);
        let class = match cx.random(4) {
            0 => CopyClass::Singleton,
            1 => CopyClass::MostRecent,
            2 => CopyClass::Server,
            _ => CopyClass::Demoted,
        };
        match cx.random(3) {
            0 => Eviction::Drop,
            _ => Eviction::Send { to: anybody(cx), class, depth: cx.random(256) as u8 },
        }
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, _writer: NodeId) {
        stir(cx, block);
    }

    fn handle_request(&mut self, cx: &mut Context<'_>, block: BlockId, _request: Request) -> Answer {
        stir(cx, block);
        match cx.random(7) {
            0 => Answer::Serve,
            1 => Answer::Give,
            2 => Answer::Forward(anybody(cx)),
            3 => Answer::DiskNode,
            4 => Answer::Keep(room(cx, block)),
            5 => Answer::Present,
            _ => Answer::Drop,
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "chaos",
    title: "random answers",
    paper: "none: it tests that no policy can be wrong, only slow",
    parameters: &[],
    when_not: "always, except in tests of the rest",
    build: Build::Shard(|_| Ok(Box::new(Chaos))),
};
