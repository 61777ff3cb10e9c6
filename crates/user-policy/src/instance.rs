//! A module with its memory.

use core::mem::offset_of;
use core::ops::Deref;

use cards_core::policy::{Context, Room, View};
use cards_core::{BlockId, Cache, Instant, NodeId, Note};
use cards_policy_sdk::abi::{self, Record, effect, flags, needs, node, room};
use wasmi::{Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc};
use wasmi::{WasmParams, WasmResults};

use crate::error::ModuleError;
use crate::failure::Failure;
use crate::limits::{CALL_FUEL, FIRST_FUEL, MEMORY_BYTES, TABLE_ELEMENTS, WAKE_MS};
use crate::notes::Notes;

/// The part of the record that is written before each call.
const HEAD: usize = offset_of!(Record, tail);
const EFFECT: usize = size_of::<abi::Effect>();

type Void<P> = Option<TypedFunc<P, ()>>;

/// The functions of a module.
pub(crate) struct Functions {
    pub(crate) route: TypedFunc<(i32, i32, i32, i32), i32>,
    pub(crate) handle_eviction: TypedFunc<(), i32>,
    pub(crate) keep_consistency: TypedFunc<i32, ()>,
    pub(crate) offered: TypedFunc<(i32, i32, i32, i32, i32, i32), i64>,
    pub(crate) asked: Void<(i32, i32, i32, i32, i32)>,
    pub(crate) note: Void<(i32, i32, i64)>,
    pub(crate) filled: Void<(i32, i32, i32, i32)>,
    pub(crate) fetched: Void<(i32, i32, i32, i64)>,
    pub(crate) stored: Void<i32>,
    pub(crate) tick: Void<()>,
}

/// One instance, for one volume at one shard.
pub(crate) struct Instance {
    store: Store<StoreLimits>,
    memory: Memory,
    functions: Functions,
    /// Where the record begins.
    record: usize,
    needs: u16,
    reserved_percent: u8,
    notes: Notes,
}

impl Instance {
    pub(crate) fn new(module: &Module) -> Result<Self, ModuleError> {
        let engine = module.engine();
        let limits = StoreLimitsBuilder::new()
            .memory_size(MEMORY_BYTES)
            .table_elements(TABLE_ELEMENTS)
            .instances(1)
            .memories(1)
            .tables(4)
            .build();
        let mut store = Store::new(engine, limits);
        store.limiter(|limits| limits);
        let beginning = |error: wasmi::Error| ModuleError::Beginning { reason: error.to_string() };
        store.set_fuel(FIRST_FUEL).map_err(beginning)?;
        let linker = <Linker<StoreLimits>>::new(engine);
        let instance = linker.instantiate_and_start(&mut store, module).map_err(beginning)?;
        let begin = instance.get_typed_func::<(), i32>(&store, "cards_policy_1").map_err(beginning)?;
        let address = begin.call(&mut store, ()).map_err(beginning)? as u32;
        let required = |name: &'static str| {
            move |error: wasmi::Error| ModuleError::Beginning { reason: format!("export `{name}`: {error}") }
        };
        let functions = Functions {
            route: instance.get_typed_func(&store, "route").map_err(required("route"))?,
            handle_eviction: instance
                .get_typed_func(&store, "handle_eviction")
                .map_err(required("handle_eviction"))?,
            keep_consistency: instance
                .get_typed_func(&store, "keep_consistency")
                .map_err(required("keep_consistency"))?,
            offered: instance.get_typed_func(&store, "offered").map_err(required("offered"))?,
            asked: instance.get_typed_func(&store, "asked").ok(),
            note: instance.get_typed_func(&store, "note").ok(),
            filled: instance.get_typed_func(&store, "filled").ok(),
            fetched: instance.get_typed_func(&store, "fetched").ok(),
            stored: instance.get_typed_func(&store, "stored").ok(),
            tick: instance.get_typed_func(&store, "tick").ok(),
        };
        let memory = instance
            .get_memory(&store, "memory")
            .ok_or(ModuleError::MissingExport { name: "memory", wanted: "memory" })?;
        let record = address as usize;
        let bytes =
            record.checked_add(size_of::<Record>()).and_then(|end| memory.data(&store).get(record..end));
        let Some(bytes) = bytes.filter(|_| record.is_multiple_of(align_of::<Record>())) else {
            return Err(ModuleError::Record { address, record_bytes: size_of::<Record>() });
        };
        let needs = u16_at(bytes, offset_of!(Record, needs));
        let reserved_percent = bytes[offset_of!(Record, reserved_percent)];
        if reserved_percent >= 100 {
            return Err(ModuleError::Reserved { percent: reserved_percent });
        }
        Ok(Self { store, memory, functions, record, needs, reserved_percent, notes: Notes::new() })
    }

    pub(crate) const fn functions(&self) -> &Functions {
        &self.functions
    }

    pub(crate) const fn needs(&self) -> u16 {
        self.needs
    }

    pub(crate) const fn reserved_percent(&self) -> u8 {
        self.reserved_percent
    }

    pub(crate) const fn needs_frame_data(&self) -> bool {
        self.needs & needs::FRAME_DATA != 0
    }

    /// Something has happened that the module may tell others.
    pub(crate) fn event(&mut self) {
        self.notes.event();
    }

    /// A note has come, or a time.
    pub(crate) fn echo(&mut self) {
        self.notes.echo();
    }

    fn record(&mut self) -> &mut [u8] {
        // Checked when the instance was made, and a memory does not shrink.
        &mut self.memory.data_mut(&mut self.store)[self.record..self.record + size_of::<Record>()]
    }

    /// Writes what the module sees.
    pub(crate) fn show<C: Deref<Target = Cache>>(&mut self, view: &View<'_, C>, block: BlockId, room: u8) {
        let mut head = [0; HEAD];
        let wants = |need: u16| self.needs & need != 0;
        let number = |node: Option<NodeId>| node.map_or(abi::NO_NODE, |node| node.0);
        let (capacity, resident) = view.capacity();
        let run = BlockId { index: block.index - block.index % cards_core::STRIPE_BLOCKS, ..block };
        let index =
            if wants(needs::INDEX) { view.entry(block) } else { cards_core::policy::Entry::default() };
        put(&mut head, offset_of!(Record, now), &view.now().0.to_le_bytes());
        put(&mut head, offset_of!(Record, random), &view.draw(1, u64::MAX).to_le_bytes());
        put(&mut head, offset_of!(Record, block), &block.index.to_le_bytes());
        put(&mut head, offset_of!(Record, volume), &block.volume.0.to_le_bytes());
        put(&mut head, offset_of!(Record, capacity), &capacity.to_le_bytes());
        put(&mut head, offset_of!(Record, resident), &resident.to_le_bytes());
        if wants(needs::FRAME_DATA) {
            put(&mut head, offset_of!(Record, tag), &view.tag(block).to_le_bytes());
            put(&mut head, offset_of!(Record, age_ms), &view.age_ms(block).to_le_bytes());
        }
        let home = wants(needs::HOME).then(|| view.home(block));
        let run_home = wants(needs::RUN_HOME).then(|| view.home(run));
        let nodes = [
            (offset_of!(Record, me), view.me().0),
            (offset_of!(Record, disk_node), view.disk_node().0),
            (offset_of!(Record, home), number(home)),
            (offset_of!(Record, run_home), number(run_home)),
            (offset_of!(Record, next), number(index.next)),
            (offset_of!(Record, previous), number(index.previous)),
            (offset_of!(Record, node_bound), view.node_bound()),
            (offset_of!(Record, flags), flags_of(view, block, wants(needs::RESIDENCE))),
        ];
        for (place, value) in nodes {
            put(&mut head, place, &value.to_le_bytes());
        }
        head[offset_of!(Record, room)] = room;
        let shows_nodes = wants(needs::NODES);
        let record = self.record();
        record[..HEAD].copy_from_slice(&head);
        if shows_nodes {
            show_nodes(record, view);
        }
    }

    /// Writes the blocks at the tail of the cache, if the module wants them.
    pub(crate) fn show_tail(&mut self, cx: &Context<'_>) {
        if self.needs & needs::TAIL == 0 {
            return;
        }
        let record = self.record();
        let mut count = 0;
        for block in cx.tail().take(abi::TAIL_MAX) {
            let place = HEAD + count * size_of::<abi::TailBlock>();
            put(record, place, &block.index.to_le_bytes());
            put(record, place + 4, &cx.age_ms(block).to_le_bytes());
            count += 1;
        }
        record[offset_of!(Record, tail_count)] = count as u8;
    }

    /// Calls a function.
    pub(crate) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        operation: &'static str,
        function: TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, Failure> {
        let trap = |error: wasmi::Error| match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Failure::OutOfFuel { operation },
            _ => Failure::Trap { operation, reason: error.to_string() },
        };
        self.store.set_fuel(CALL_FUEL).map_err(trap)?;
        function.call(&mut self.store, parameters).map_err(trap)
    }

    /// Carries out what the module has asked for in a call.
    pub(crate) fn carry_out(
        &mut self,
        operation: &'static str,
        cx: &mut Context<'_>,
        at: BlockId,
    ) -> Result<(), Failure> {
        let record = self.record();
        let count = usize::from(u16_at(record, offset_of!(Record, effect_count)));
        if record[offset_of!(Record, drew)] != 0 {
            cx.random(1);
        }
        if count > abi::EFFECTS_MAX {
            let want = "at most 64 effects";
            return Err(Failure::BadAnswer { operation, answer: count as i64, want });
        }
        for place in (0..count).map(|position| offset_of!(Record, effects) + position * EFFECT) {
            let wanted: [u8; EFFECT] = array(self.record(), place);
            let of_node = NodeId(u16_at(&wanted, offset_of!(abi::Effect, node)));
            let block = BlockId { index: u32_at(&wanted, offset_of!(abi::Effect, block)), ..at };
            let value = u64_at(&wanted, offset_of!(abi::Effect, value));
            let note = Note { kind: wanted[offset_of!(abi::Effect, note_kind)], value };
            match wanted[offset_of!(abi::Effect, kind)] {
                effect::NOTE => {
                    if is_node(of_node.0) && self.notes.allow() {
                        cx.note(of_node, block, note);
                    }
                }
                effect::DISCARD => cx.discard(block),
                effect::INVALIDATE => cx.invalidate(block),
                effect::SET_NEXT => cx.set_next(block, Some(of_node).filter(|node| is_node(node.0))),
                effect::FORGET => cx.forget(block),
                effect::SET_TAG if self.needs_frame_data() => cx.set_tag(block, value as u32),
                effect::SET_TAG => {}
                effect::REFRESH => cx.refresh(block),
                effect::DEMOTE => cx.cool(block),
                effect::WAKE_AT => {
                    let soonest = cx.now().0.saturating_add(WAKE_MS * 1_000_000);
                    cx.wake_at(Instant(value.max(soonest)));
                }
                kind => {
                    let want = "effects of kinds 1 to 9";
                    return Err(Failure::BadAnswer { operation, answer: kind.into(), want });
                }
            }
        }
        Ok(())
    }
}

/// Whether a node can have the number.
pub(crate) const fn is_node(number: u16) -> bool {
    (number as usize) < NodeId::MAX_NODES
}

fn flags_of<C: Deref<Target = Cache>>(view: &View<'_, C>, block: BlockId, of_block: bool) -> u16 {
    let bit = |yes: bool, flag: u16| if yes { flag } else { 0 };
    let of_node = bit(view.may_hold(), flags::MAY_HOLD)
        | bit(view.invalidates(), flags::INVALIDATES)
        | bit(view.leaves_copies(), flags::LEAVES_COPIES);
    if !of_block || !view.is_resident(block) {
        return of_node;
    }
    of_node
        | flags::RESIDENT
        | bit(view.cached(block), flags::CACHED)
        | bit(view.is_hosted(block), flags::HOSTED)
        | bit(view.is_apart(block), flags::RESERVED)
}

/// The kinds of room that an offered block would find.
pub(crate) fn room_of(cx: &Context<'_>) -> u8 {
    let kinds = [
        (Room::Free, room::FREE),
        (Room::Duplicate, room::DUPLICATE),
        (Room::Unread, room::UNREAD),
        (Room::Evict, room::EVICT),
    ];
    kinds.into_iter().filter(|&(kind, _)| cx.has_room(kind)).fold(0, |bits, (_, bit)| bits | bit)
}

fn show_nodes<C: Deref<Target = Cache>>(record: &mut [u8], view: &View<'_, C>) {
    let bound = usize::from(view.node_bound()).min(abi::NODES_MAX);
    let (nodes, free, load) = (offset_of!(Record, nodes), offset_of!(Record, free), offset_of!(Record, load));
    record[nodes..nodes + bound].fill(0);
    for member in view.nodes().take_while(|member| usize::from(member.0) < bound) {
        let number = usize::from(member.0);
        record[nodes + number] = node::MEMBER | if view.is_up(member) { node::UP } else { 0 };
        put(record, free + 2 * number, &view.free_at(member).to_le_bytes());
        put(record, load + 4 * number, &view.cached_for(member).to_le_bytes());
    }
}

fn put(bytes: &mut [u8], place: usize, value: &[u8]) {
    bytes[place..place + value.len()].copy_from_slice(value);
}

fn array<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[place..place + N]);
    array
}

fn u16_at(bytes: &[u8], place: usize) -> u16 {
    u16::from_le_bytes(array(bytes, place))
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(array(bytes, place))
}

fn u64_at(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(array(bytes, place))
}
