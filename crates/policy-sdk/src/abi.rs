//! The record that a node and a module share, and the codes of answers: what to implement in a language other than Rust.
//!
//! A module exports its `memory` and the functions below. Node numbers and small numbers are `i32`, without sign. Before a call the
//! node writes [`Record`] up to [`Record::tail`] (and what [`needs`] asks for) at the address that `cards_policy_1` has returned;
//! after the call it carries out the effects that the module has written there.
//!
//! | export | type | |
//! |---|---|---|
//! | `cards_policy_1` | `() -> i32` | called once: writes `needs` and `reserved_percent`, returns the record's address, a multiple of 8 |
//! | `route` | `(requester, via, hops, failed: i32) -> i32` | a node, or -1 |
//! | `handle_eviction` | `() -> i32` | see [`eviction`] |
//! | `keep_consistency` | `(writer: i32)` | |
//! | `offered` | `(class, depth, evictor, previous, age_ms, oldest_ms: i32) -> i64` | see [`answer`] |
//! | `asked` | `(requester, via, hops, failed, to: i32)` | optional; `to` -1: no node |
//! | `note` | `(from, kind: i32, value: i64)` | optional |
//! | `filled` | `(from, source, oldest_ms, for_others: i32)` | optional; source 0: cache, 1: disk |
//! | `fetched` | `(asked, from, source: i32, took_ns: i64)` | optional; `took_ns` -1: unknown |
//! | `stored` | `(depth: i32)` | optional |
//! | `tick` | `()` | optional |
//!
//! All integers are little-endian. A module has no imports.

use crate::{Answer, Eviction, Node, Room};

/// No node, in the fields of [`Record`].
pub const NO_NODE: Node = Node::MAX;

/// Nodes that [`Record`] has places for.
pub const NODES_MAX: usize = 1024;

/// Blocks at the tail of the cache that [`Record`] shows at most.
pub const TAIL_MAX: usize = 8;

/// Effects of one call at most; later ones are lost.
pub const EFFECTS_MAX: usize = 64;

/// What a policy wants to see. What it does not ask for is absent or zero.
pub mod needs {
    /// [`super::Record::home`].
    pub const HOME: u16 = 1;
    /// [`super::Record::run_home`].
    pub const RUN_HOME: u16 = 2;
    /// [`super::Record::next`] and [`super::Record::previous`].
    pub const INDEX: u16 = 4;
    /// The flags `CACHED`, `RESIDENT`, `HOSTED` and `RESERVED`.
    pub const RESIDENCE: u16 = 8;
    /// [`super::Record::tag`] and [`super::Record::age_ms`], which cost eight bytes of memory for each block of the cache.
    pub const FRAME_DATA: u16 = 16;
    /// [`super::Record::tail`], except in `route`.
    pub const TAIL: u16 = 32;
    /// [`super::Record::nodes`], [`super::Record::free`] and [`super::Record::load`].
    pub const NODES: u16 = 64;
}

/// Bits of [`Record::flags`].
pub mod flags {
    /// This node may hold copies of the volume.
    pub const MAY_HOLD: u16 = 1;
    /// The policy must have other copies dropped after a write: `keep_consistency` is called.
    pub const INVALIDATES: u16 = 2;
    /// The disk node keeps copies of what other nodes read.
    pub const LEAVES_COPIES: u16 = 4;
    /// A copy of the block is here that is not being written.
    pub const CACHED: u16 = 8;
    /// A copy of the block is here, usable or not.
    pub const RESIDENT: u16 = 16;
    /// The copy is here for another node, and was not used here.
    pub const HOSTED: u16 = 32;
    /// The copy is in the reserved part of the cache.
    pub const RESERVED: u16 = 64;
}

/// Bits of [`Record::room`]: an offered block would find room of the kind.
pub mod room {
    /// See [`crate::Room::Free`].
    pub const FREE: u8 = 1;
    /// See [`crate::Room::Duplicate`].
    pub const DUPLICATE: u8 = 2;
    /// See [`crate::Room::Unread`].
    pub const UNREAD: u8 = 4;
    /// See [`crate::Room::Evict`].
    pub const EVICT: u8 = 8;
}

/// Bits of [`Record::nodes`].
pub mod node {
    /// The node is a member of the cluster.
    pub const MEMBER: u8 = 1;
    /// The node can be reached, as far as this one knows.
    pub const UP: u8 = 2;
}

/// Values of [`Effect::kind`].
pub mod effect {
    /// Say something about the block to `node`: `note_kind` and `value`.
    pub const NOTE: u8 = 1;
    /// Drop this node's copy of the block: it is not needed here.
    pub const DISCARD: u8 = 2;
    /// Drop this node's copy of the block: another node has written the block.
    pub const INVALIDATE: u8 = 3;
    /// `node` asked for the block last ([`super::NO_NODE`]: none).
    pub const SET_NEXT: u8 = 4;
    /// Forget the index entry of the block.
    pub const FORGET: u8 = 5;
    /// Set the policy's word on the block to `value`.
    pub const SET_TAG: u8 = 6;
    /// Count as a use of the block.
    pub const REFRESH: u8 = 7;
    /// Make the block the next victim.
    pub const DEMOTE: u8 = 8;
    /// Call `tick` at the time `value` in nanoseconds; at the earliest 10 ms from now.
    pub const WAKE_AT: u8 = 9;
}

/// A block at the tail of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TailBlock {
    /// The block.
    pub block: u32,
    /// Milliseconds since its last use, with [`needs::FRAME_DATA`].
    pub age_ms: u32,
}

/// Something that is done after the call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Effect {
    /// One of [`effect`].
    pub kind: u8,
    /// The kind of a note.
    pub note_kind: u8,
    /// A node.
    pub node: u16,
    /// A block of the volume.
    pub block: u32,
    /// A value.
    pub value: u64,
}

/// What node and module share.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// Nanoseconds, from a beginning that is the node's own.
    pub now: u64,
    /// A random number: the same in every run from the same seed.
    pub random: u64,
    /// The block at hand.
    pub block: u32,
    /// The volume.
    pub volume: u32,
    /// Blocks that this cache holds at most.
    pub capacity: u32,
    /// Blocks that it holds.
    pub resident: u32,
    /// The policy's word on the block.
    pub tag: u32,
    /// Milliseconds since the block was last used here.
    pub age_ms: u32,
    /// This node.
    pub me: u16,
    /// The node with the disk.
    pub disk_node: u16,
    /// The block's home.
    pub home: u16,
    /// The home of the first block of its run of 16.
    pub run_home: u16,
    /// The node that asked for the block last.
    pub next: u16,
    /// The node that delivered the block here.
    pub previous: u16,
    /// One more than the highest number of a node.
    pub node_bound: u16,
    /// See [`flags`].
    pub flags: u16,
    /// See [`room`]; in `offered` alone.
    pub room: u8,
    /// How many of [`Self::tail`] there are.
    pub tail_count: u8,
    /// Written by the module: how many of [`Self::effects`] there are. Zero before each call.
    pub effect_count: u16,
    /// Written by the module: it has used [`Self::random`], so the next call gets another number. Zero before each call.
    pub drew: u8,
    /// Written by the module in `cards_policy_1`: percent of the cache reserved for blocks of other nodes.
    pub reserved_percent: u8,
    /// Written by the module in `cards_policy_1`: see [`needs`].
    pub needs: u16,
    /// The next candidates for eviction, the likeliest first.
    pub tail: [TailBlock; TAIL_MAX],
    /// Written by the module.
    pub effects: [Effect; EFFECTS_MAX],
    /// Of each node: see [`node`].
    pub nodes: [u8; NODES_MAX],
    /// Of each node: free places, as it said last; the highest number before it said anything.
    pub free: [u16; NODES_MAX],
    /// Of each node: blocks cached here whose home it is.
    pub load: [u32; NODES_MAX],
}

/// The code of an answer of `handle_eviction`: -1, or the node, the class from bit 16 and the depth from bit 24.
#[must_use]
pub const fn eviction(eviction: Eviction) -> i32 {
    match eviction {
        Eviction::Drop => -1,
        Eviction::Send { to, class, depth } => (to as i32) | ((class as i32) << 16) | ((depth as i32) << 24),
    }
}

/// What a code of `handle_eviction` means.
#[must_use]
pub const fn read_eviction(code: i32) -> Eviction {
    match code {
        -1 => Eviction::Drop,
        code => Eviction::Send { to: code as u16, class: (code >> 16) as u8, depth: (code >> 24) as u8 },
    }
}

/// The code of an answer of `offered`: 0 drop, 1 present, 2 forward (the node from bit 32), and 3 to 7 keep with the room
/// free, duplicate, unread, evict, or of the block from bit 32.
#[must_use]
pub const fn answer(answer: Answer) -> i64 {
    match answer {
        Answer::Drop => 0,
        Answer::Present => 1,
        Answer::Forward(node) => 2 | ((node as i64) << 32),
        Answer::Keep(Room::Free) => 3,
        Answer::Keep(Room::Duplicate) => 4,
        Answer::Keep(Room::Unread) => 5,
        Answer::Keep(Room::Evict) => 6,
        Answer::Keep(Room::Of(block)) => 7 | ((block as i64) << 32),
    }
}

/// What a code of `offered` means; None: nothing.
#[must_use]
pub const fn read_answer(code: i64) -> Option<Answer> {
    let value = (code as u64 >> 32) as u32;
    let answer = match code as u32 {
        2 if value <= u16::MAX as u32 => return Some(Answer::Forward(value as u16)),
        7 => return Some(Answer::Keep(Room::Of(value))),
        0 => Answer::Drop,
        1 => Answer::Present,
        3 => Answer::Keep(Room::Free),
        4 => Answer::Keep(Room::Duplicate),
        5 => Answer::Keep(Room::Unread),
        6 => Answer::Keep(Room::Evict),
        _ => return None,
    };
    if value == 0 { Some(answer) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_meant() {
        for one in [
            Answer::Drop,
            Answer::Present,
            Answer::Forward(1022),
            Answer::Keep(Room::Free),
            Answer::Keep(Room::Duplicate),
            Answer::Keep(Room::Unread),
            Answer::Keep(Room::Evict),
            Answer::Keep(Room::Of(u32::MAX)),
        ] {
            assert_eq!(read_answer(answer(one)), Some(one));
        }
        for code in [8, -1, 1 << 32, 2 | 1 << 48] {
            assert_eq!(read_answer(code), None, "{code}");
        }
    }

    #[test]
    fn evictions_are_read_as_they_were_meant() {
        for one in [Eviction::Drop, Eviction::Send { to: 1022, class: 255, depth: 255 }] {
            assert_eq!(read_eviction(eviction(one)), one);
        }
    }

    #[test]
    fn the_record_has_no_padding_and_keeps_its_layout() {
        assert_eq!(core::mem::offset_of!(Record, me), 40);
        assert_eq!(core::mem::offset_of!(Record, needs), 62);
        assert_eq!(core::mem::offset_of!(Record, tail), 64);
        assert_eq!(core::mem::offset_of!(Record, effects), 128);
        assert_eq!(core::mem::offset_of!(Record, nodes), 1152);
        assert_eq!(size_of::<Record>(), 1152 + 7 * NODES_MAX);
    }
}
