//! Answers at random: what no policy may break.
//!
//! A policy says where copies may be found and where they go; whether a copy may be used is decided elsewhere. So one
//! that sends everybody anywhere, keeps what nobody wants and discards what everybody needs must be slow and never
//! wrong. The fault-injecting checker runs it; nobody else should.

use alloc::boxed::Box;

use cards_core::policy::{Answer, Asker, Context, Eviction, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note};

use super::words::{invalidate, note};
use super::{Build, Entry};

struct Chaos;

fn anybody(cx: &mut Context<'_>) -> NodeId {
    let nodes = cx.nodes().count() as u64;
    let chosen = cx.random(nodes.max(1));
    cx.nodes().nth(chosen as usize).unwrap_or(cx.me())
}

fn anything(cx: &mut Context<'_>) -> Note {
    match cx.random(4) {
        0 => invalidate(anybody(cx)),
        _ => note(cx.random(256) as u8, cx.random(1 << 32)),
    }
}

/// Now and then something that nobody asked for.
fn stir(cx: &mut Context<'_>, block: BlockId) {
    match cx.random(16) {
        0 => {
            let (to, said) = (anybody(cx), anything(cx));
            cx.note(to, block, said);
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
    fn route(&self, cx: &View<'_>, _block: BlockId, _asker: Asker) -> Option<NodeId> {
        let nodes = cx.nodes().count() as u64;
        let drawn = cx.nodes().nth(cx.draw(2, nodes) as usize);
        drawn.filter(|_| cx.draw(1, 4) != 0)
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, _to: Option<NodeId>) {
        // What the route has drawn is used up.
        let _ = (cx.random(4), cx.random(4));
        stir(cx, block);
        if asker.via != cx.me() && cx.random(7) == 0 {
            cx.discard(block);
        }
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        stir(cx, block);
        let class = cx.random(4) as u8;
        match cx.random(3) {
            0 => Eviction::Drop,
            _ => Eviction::Send { to: anybody(cx), class, depth: cx.random(256) as u8 },
        }
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, _writer: NodeId) {
        stir(cx, block);
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, _offer: Offer) -> Answer {
        stir(cx, block);
        match cx.random(7) {
            0 | 1 => Answer::Present,
            2 => Answer::Forward(anybody(cx)),
            3 | 4 => Answer::Keep(room(cx, block)),
            _ => Answer::Drop,
        }
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, _from: NodeId, _note: Note) {
        stir(cx, block);
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
