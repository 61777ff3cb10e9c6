//! Home-based Serverless Cooperative Caching as a module: the policy `hscc` of nodes, with its defaults. Both count the same.
//!
//! Each block has a home, which caches it or knows the node that asked for it last. All copies of a block form a list through the
//! nodes' index entries: *next* leads to newer copies, *previous* to older ones. (Olaru and Tichy, CARDs: Cluster-Aware Remote
//! Disks, CCGrid 2003, section 3.)

use cards_policy_sdk::{
    Answer, Asker, Context, Eviction, Node, Note, Offer, Policy, Room, View, abi, export,
};

/// To the home: the sender keeps what the node in the value has evicted.
const INDEX_UPDATE: u8 = 0;
/// Drop the index entry and tell the previous node, until the node in the value is reached: it has the most recent copy.
const INVALIDATE_INDEX: u8 = 1;
/// The block was written by the node in the value.
const INVALIDATE: u8 = 127;

/// An evicted block that is the only copy.
const SINGLETON: u8 = 0;
/// An evicted block that is the copy requested last.
const MOST_RECENT: u8 = 1;

/// Nodes that a most recent copy is offered to at most.
const DEPTH: u8 = 2;

struct Hscc;

impl Policy for Hscc {
    const NEEDS: u16 = abi::needs::HOME | abi::needs::INDEX | abi::needs::RESIDENCE | abi::needs::NODES;

    fn route(&self, view: &View, asker: Asker) -> Option<Node> {
        let next = view.next().filter(|&next| next != asker.requester);
        match asker.via == view.me() {
            true => next.or(Some(view.home())),
            false => next.filter(|_| view.home() == view.me()),
        }
    }

    fn asked(&mut self, cx: &mut Context, asker: Asker, _to: Option<Node>) {
        if cx.home() == cx.me() && asker.requester != cx.me() && !cx.is_cached() {
            cx.set_next(Some(asker.requester));
        }
    }

    fn handle_eviction(&mut self, cx: &mut Context) -> Eviction {
        match (cx.next(), cx.previous()) {
            (Some(_), _) | (None, None) => Eviction::Drop,
            (None, Some(previous)) if previous == cx.disk_node() => {
                let turn = (hash(cx.volume(), cx.block()) % u64::from(cx.node_bound())) as u16;
                let singleton = |to| Eviction::Send { to, class: SINGLETON, depth: 0 };
                cx.freest(turn).map_or(Eviction::Drop, singleton)
            }
            (None, Some(to)) => Eviction::Send { to, class: MOST_RECENT, depth: DEPTH },
        }
    }

    fn keep_consistency(&mut self, cx: &mut Context, writer: Node) {
        if writer != cx.me() {
            return;
        }
        let written = written_by(writer);
        let home = cx.home();
        cx.say(home, written);
        if let Some(previous) = cx.previous().filter(|&p| p != cx.disk_node() && p != home) {
            cx.say(previous, written);
        }
        if home == cx.me()
            && let Some(next) = cx.next()
        {
            cx.say(next, written);
        }
        cx.forget();
    }

    fn offered(&mut self, cx: &mut Context, offer: Offer) -> Answer {
        let Offer { class, depth, evictor, .. } = offer;
        if cx.is_cached() {
            // The node that asked for the block after this one has lost it.
            if cx.next() == Some(evictor) {
                cx.set_next(None);
            }
            announce(cx, evictor);
            return Answer::Present;
        }
        let room = match () {
            () if cx.has_room(Room::Free) => Some(Room::Free),
            () if class == MOST_RECENT && depth <= 1 && cx.has_room(Room::Unread) => Some(Room::Unread),
            () => None,
        };
        if let Some(room) = room {
            announce(cx, evictor);
            return Answer::Keep(room);
        }
        let home = cx.home();
        let onward = match class {
            SINGLETON => (home != cx.me() && home != evictor).then_some(home),
            MOST_RECENT if depth > 1 => cx.previous(),
            _ => None,
        };
        let onward = onward.filter(|&to| to != cx.me() && to != evictor && cx.is_up(to));
        onward.map_or(Answer::Drop, Answer::Forward)
    }

    fn note(&mut self, cx: &mut Context, from: Node, note: Note) {
        let named = note.value as Node;
        match note.kind {
            INDEX_UPDATE => moved(cx, from, named),
            INVALIDATE_INDEX => invalidate_index(cx, named),
            INVALIDATE => written(cx, named),
            _ => {}
        }
    }
}

export!(Hscc, Hscc, [asked, note]);

fn written_by(writer: Node) -> Note {
    Note { kind: INVALIDATE, value: writer.into() }
}

/// Tells the home that the block is here now.
fn announce(cx: &mut Context, evictor: Node) {
    let home = cx.home();
    match home == cx.me() {
        true => moved(cx, home, evictor),
        false => cx.say(home, Note { kind: INDEX_UPDATE, value: evictor.into() }),
    }
}

/// `holder` keeps what `evictor` has evicted.
fn moved(cx: &mut Context, holder: Node, evictor: Node) {
    if cx.next().is_none_or(|next| next == evictor || next == holder) {
        cx.set_next(Some(holder));
        if evictor != holder {
            cx.say(evictor, Note { kind: INVALIDATE_INDEX, value: holder.into() });
        }
    }
}

/// The most recent copy is at `holder` now.
fn invalidate_index(cx: &mut Context, holder: Node) {
    if holder == cx.me() || cx.is_resident() {
        return;
    }
    let (next, previous) = (cx.next(), cx.previous());
    // The node that it is passed on to is forgotten, or two nodes could pass it to each other for ever.
    cx.forget();
    if cx.home() == cx.me() {
        cx.set_next(next);
    }
    if let Some(previous) = previous.filter(|&p| p != cx.disk_node() && p != holder) {
        cx.say(previous, Note { kind: INVALIDATE_INDEX, value: holder.into() });
    }
}

/// A client of `writer` has written the block.
fn written(cx: &mut Context, writer: Node) {
    let (next, previous) = (cx.next(), cx.previous());
    let known = cx.is_cached() || next.is_some() || previous.is_some();
    cx.invalidate();
    cx.forget();
    let next = next.filter(|_| cx.home() == cx.me());
    for to in [previous, next].into_iter().flatten().filter(|_| known) {
        if to != writer && to != cx.disk_node() {
            cx.say(to, written_by(writer));
        }
    }
}

/// As nodes hash blocks, so that ties go round in the same order.
fn hash(volume: u32, block: u32) -> u64 {
    let mut z = (u64::from(volume) << 32 | u64::from(block)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
