//! What a policy sees, and what it can have done.

use core::ops::Deref;

use crate::abi::{EFFECTS_MAX, Effect, NO_NODE, NODES_MAX, Record, TAIL_MAX, TailBlock, effect, flags, node};
use crate::{Node, Note, View};

/// What a policy sees, and may change. Changes of the block at hand are seen at once; the node carries them out after the call.
#[derive(Debug)]
#[repr(transparent)]
pub struct Context {
    view: View,
}

impl Deref for Context {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Context {
    /// A view of nothing, which the node fills in; tests begin with it.
    #[must_use]
    pub const fn empty() -> Self {
        let nothing = Effect { kind: 0, note_kind: 0, node: 0, block: 0, value: 0 };
        Self {
            view: View {
                record: Record {
                    now: 0,
                    random: 0,
                    block: 0,
                    volume: 0,
                    capacity: 0,
                    resident: 0,
                    tag: 0,
                    age_ms: 0,
                    me: 0,
                    disk_node: 0,
                    home: NO_NODE,
                    run_home: NO_NODE,
                    next: NO_NODE,
                    previous: NO_NODE,
                    node_bound: 0,
                    flags: 0,
                    room: 0,
                    tail_count: 0,
                    effect_count: 0,
                    drew: 0,
                    reserved_percent: 0,
                    needs: 0,
                    tail: [TailBlock { block: 0, age_ms: 0 }; TAIL_MAX],
                    effects: [nothing; EFFECTS_MAX],
                    nodes: [0; NODES_MAX],
                    free: [u16::MAX; NODES_MAX],
                    load: [0; NODES_MAX],
                },
            },
        }
    }

    /// For tests: `nodes` nodes that can be reached, seen from node `me`; node 0 has the disk.
    #[must_use]
    pub fn of_cluster(nodes: Node, me: Node) -> Self {
        let mut cx = Self::empty();
        let record = cx.record();
        (record.me, record.node_bound) = (me, nodes);
        record.flags = flags::MAY_HOLD;
        (record.home, record.run_home) = (0, 0);
        record.nodes.iter_mut().take(usize::from(nodes)).for_each(|bits| *bits = node::MEMBER | node::UP);
        cx
    }

    /// The record beneath: what the node reads and writes, and tests set.
    pub const fn record(&mut self) -> &mut Record {
        &mut self.view.record
    }

    /// The effects that the policy has asked for in this call.
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        let record = &self.view.record;
        &record.effects[..usize::from(record.effect_count).min(EFFECTS_MAX)]
    }

    /// A number below `bound` (zero if that is zero), evenly distributed, the same in every run from the same seed.
    pub fn random(&mut self, bound: u64) -> u64 {
        let drawn = self.draw(1, bound);
        let record = self.record();
        record.random = record.random.wrapping_add(1);
        record.drew = 1;
        drawn
    }

    /// Says something about the block to another node. (To itself a node says nothing.)
    pub fn say(&mut self, to: Node, note: Note) {
        if to != self.me() {
            self.push(Effect {
                kind: effect::NOTE,
                note_kind: note.kind,
                node: to,
                block: self.block(),
                value: note.value,
            });
        }
    }

    /// Drops this node's copy of the block after the call: it is not needed here.
    pub fn discard(&mut self) {
        self.on_block(effect::DISCARD);
    }

    /// Drops this node's copy of the block after the call: another node has written the block.
    pub fn invalidate(&mut self) {
        self.on_block(effect::INVALIDATE);
    }

    /// Sets the node that asked for the block last. (No node follows itself.)
    pub fn set_next(&mut self, next: Option<Node>) {
        let number = next.filter(|&next| next != self.me()).unwrap_or(NO_NODE);
        self.record().next = number;
        let block = self.block();
        self.push(Effect { kind: effect::SET_NEXT, note_kind: 0, node: number, block, value: 0 });
    }

    /// Forgets the index entry of a block that is not here; of one that is, the node that asked for it last.
    pub fn forget(&mut self) {
        let resident = self.is_resident();
        let record = self.record();
        record.next = NO_NODE;
        if !resident {
            record.previous = NO_NODE;
        }
        self.on_block(effect::FORGET);
    }

    /// Sets the policy's word on the block, if it is here.
    pub fn set_tag(&mut self, tag: u32) {
        self.record().tag = tag;
        let block = self.block();
        self.push(Effect { kind: effect::SET_TAG, note_kind: 0, node: 0, block, value: tag.into() });
    }

    /// Counts as a use of the block.
    pub fn refresh(&mut self) {
        self.on_block(effect::REFRESH);
    }

    /// Makes the block the next victim.
    pub fn demote(&mut self) {
        self.on_block(effect::DEMOTE);
    }

    /// Has [`crate::Policy::tick`] called at this time, in nanoseconds as [`View::now_ns`].
    pub fn wake_at(&mut self, at_ns: u64) {
        self.push(Effect { kind: effect::WAKE_AT, note_kind: 0, node: 0, block: 0, value: at_ns });
    }

    fn on_block(&mut self, kind: u8) {
        let block = self.block();
        self.push(Effect { kind, note_kind: 0, node: 0, block, value: 0 });
    }

    /// Adds an effect, of any block; lost if the call has [`EFFECTS_MAX`] already.
    pub fn push(&mut self, effect: Effect) {
        let record = self.record();
        if let Some(place) = record.effects.get_mut(usize::from(record.effect_count)) {
            *place = effect;
            record.effect_count += 1;
        }
    }
}
