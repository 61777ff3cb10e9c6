//! A module as a policy.

use std::cell::RefCell;
use std::sync::Arc;

use cards_core::policy::{Answer, Asker, Context, Delivery, Eviction, Fetched, Offer, Policy, Room, View};
use cards_core::{BlockId, NodeId, Note, PgId, Source};
use cards_policy_sdk::abi;
use cards_policy_sdk::{Answer as AnswerOf, Eviction as EvictionOf, Room as RoomOf};

use crate::digest::Digest;
use crate::failure::{Failure, Fallbacks};
use crate::instance::{Instance, is_node, room_of};
use crate::module::Module;

/// A module at work at one shard of one node, for one volume. Once it has failed, it answers as the policy `rd` does: nothing.
pub struct UserPolicy {
    digest: Digest,
    /// None: it was never here.
    module: Option<Module>,
    /// None: it has failed. [`Policy::route`] runs it, too, which is only lent the policy.
    instance: RefCell<Option<Instance>>,
    needs_frame_data: bool,
    reserved_percent: u8,
    fallbacks: Arc<Fallbacks>,
    /// Why there never was an instance, until it is known for which volume.
    absent: RefCell<Option<Failure>>,
    /// Changes of the fallbacks when they were last looked at.
    seen: std::cell::Cell<u64>,
}

impl UserPolicy {
    /// An instance of the module.
    #[must_use]
    pub fn new(module: &Module, fallbacks: Arc<Fallbacks>) -> Self {
        let instance = Instance::new(module.inner());
        let absent = instance.as_ref().err().map(|error| Failure::NoInstance { reason: error.to_string() });
        let instance = instance.ok();
        Self {
            digest: module.digest(),
            module: Some(module.clone()),
            needs_frame_data: instance.as_ref().is_some_and(Instance::needs_frame_data),
            reserved_percent: instance.as_ref().map_or(0, Instance::reserved_percent),
            instance: RefCell::new(instance),
            fallbacks,
            absent: RefCell::new(absent),
            // So that they are looked at once.
            seen: std::cell::Cell::new(u64::MAX),
        }
    }

    /// What a volume has whose module is not here.
    #[must_use]
    pub fn absent(digest: Digest, fallbacks: Arc<Fallbacks>) -> Self {
        Self {
            digest,
            module: None,
            needs_frame_data: false,
            reserved_percent: 0,
            instance: RefCell::new(None),
            fallbacks,
            absent: RefCell::new(Some(Failure::Absent { digest })),
            seen: std::cell::Cell::new(u64::MAX),
        }
    }

    /// Runs the module, unless it has failed, here or at another shard.
    fn run<T>(&self, volume: PgId, run: impl FnOnce(&mut Instance) -> Result<T, Failure>) -> Option<T> {
        let changes = self.fallbacks.changes();
        if changes != self.seen.get() {
            self.look(volume, changes);
        }
        let mut instance = self.instance.borrow_mut();
        match run(instance.as_mut()?) {
            Ok(answer) => Some(answer),
            Err(failure) => {
                *instance = None;
                if let Some(module) = &self.module {
                    module.failed(&failure);
                }
                self.fallbacks.add(volume, self.digest, failure);
                None
            }
        }
    }

    /// Looks whether another shard has given the module up, or tells others that there is none.
    fn look(&self, volume: PgId, changes: u64) {
        self.seen.set(changes);
        if let Some(absent) = self.absent.take() {
            self.fallbacks.add(volume, self.digest, absent);
        }
        if self.fallbacks.contains(volume, self.digest) {
            *self.instance.borrow_mut() = None;
        }
    }
}

fn number(node: NodeId) -> i32 {
    node.0.into()
}

const fn code(source: Source) -> i32 {
    match source {
        Source::Cache => 0,
        Source::Disk => 1,
    }
}

/// Milliseconds as 32 bits without a sign.
const fn bits(ms: u32) -> i32 {
    ms as i32
}

/// The node, if it is one of the cluster: a policy may remember one that has left.
fn member(cx: &Context<'_>, number: u16) -> Option<NodeId> {
    (number < cx.node_bound()).then_some(NodeId(number))
}

impl Policy for UserPolicy {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        self.run(block.volume, |instance| {
            instance.show(cx, block, 0);
            let Asker { requester, via, hops, failed } = asker;
            let parameters = (number(requester), number(via), hops.into(), failed.into());
            let node = instance.call("route", instance.functions().route, parameters)?;
            match u16::try_from(node) {
                Ok(node) if is_node(node) => Ok((node < cx.node_bound()).then_some(NodeId(node))),
                Err(_) if node == -1 => Ok(None),
                _ => Err(Failure::BadAnswer {
                    operation: "route",
                    answer: node.into(),
                    want: "a node, 0 to 1022, or -1",
                }),
            }
        })
        .flatten()
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        self.run(block.volume, |instance| {
            let Some(function) = instance.functions().asked else { return Ok(()) };
            instance.event();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            let Asker { requester, via, hops, failed } = asker;
            let to = to.map_or(-1, number);
            let parameters = (number(requester), number(via), hops.into(), failed.into(), to);
            instance.call("asked", function, parameters)?;
            instance.carry_out("asked", cx, block)
        });
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let answer = self.run(block.volume, |instance| {
            instance.event();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            let code = instance.call("handle_eviction", instance.functions().handle_eviction, ())?;
            let answer = match abi::read_eviction(code) {
                EvictionOf::Send { to, .. } if !is_node(to) => {
                    let want = "-1, or a node from 0 to 1022 with class and depth";
                    return Err(Failure::BadAnswer {
                        operation: "handle_eviction",
                        answer: code.into(),
                        want,
                    });
                }
                EvictionOf::Send { to, class, depth } => {
                    member(cx, to).map_or(Eviction::Drop, |to| Eviction::Send { to, class, depth })
                }
                EvictionOf::Drop => Eviction::Drop,
            };
            instance.carry_out("handle_eviction", cx, block)?;
            Ok(answer)
        });
        answer.unwrap_or(Eviction::Drop)
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        self.run(block.volume, |instance| {
            instance.event();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            let function = instance.functions().keep_consistency;
            instance.call("keep_consistency", function, number(writer))?;
            instance.carry_out("keep_consistency", cx, block)
        });
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        let answer = self.run(block.volume, |instance| {
            instance.event();
            instance.show(cx, block, room_of(cx));
            instance.show_tail(cx);
            let Offer { class, depth, evictor, previous, age_ms, oldest_ms } = offer;
            let parameters = (
                class.into(),
                depth.into(),
                number(evictor),
                number(previous),
                bits(age_ms),
                bits(oldest_ms),
            );
            let code = instance.call("offered", instance.functions().offered, parameters)?;
            let answer = match abi::read_answer(code) {
                Some(AnswerOf::Forward(to)) if is_node(to) => {
                    member(cx, to).map_or(Answer::Drop, Answer::Forward)
                }
                Some(AnswerOf::Drop) => Answer::Drop,
                Some(AnswerOf::Present) => Answer::Present,
                Some(AnswerOf::Keep(room)) => Answer::Keep(match room {
                    RoomOf::Free => Room::Free,
                    RoomOf::Duplicate => Room::Duplicate,
                    RoomOf::Unread => Room::Unread,
                    RoomOf::Evict => Room::Evict,
                    RoomOf::Of(index) => Room::Of(BlockId { index, ..block }),
                }),
                Some(AnswerOf::Forward(_)) | None => {
                    let want = "a code from 0 to 7, with a node from 0 to 1022 for 2 and a block for 7";
                    return Err(Failure::BadAnswer { operation: "offered", answer: code, want });
                }
            };
            instance.carry_out("offered", cx, block)?;
            Ok(answer)
        });
        answer.unwrap_or(Answer::Drop)
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, note: Note) {
        self.run(block.volume, |instance| {
            let Some(function) = instance.functions().note else { return Ok(()) };
            instance.echo();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            instance.call("note", function, (number(from), note.kind.into(), note.value as i64))?;
            instance.carry_out("note", cx, block)
        });
    }

    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) {
        self.run(block.volume, |instance| {
            let Some(function) = instance.functions().filled else { return Ok(()) };
            instance.event();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            let Delivery { from, source, oldest_ms, for_others, ahead: _ } = delivery;
            let parameters = (number(from), code(source), bits(oldest_ms), for_others.into());
            instance.call("filled", function, parameters)?;
            instance.carry_out("filled", cx, block)
        });
    }

    fn fetched(&mut self, cx: &mut Context<'_>, block: BlockId, fetched: Fetched) {
        self.run(block.volume, |instance| {
            let Some(function) = instance.functions().fetched else { return Ok(()) };
            instance.event();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            let Fetched { asked, from, source, took } = fetched;
            let took = took.map_or(-1, |took| i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
            let parameters = (number(asked), number(from), code(source), took);
            instance.call("fetched", function, parameters)?;
            instance.carry_out("fetched", cx, block)
        });
    }

    fn stored(&mut self, cx: &mut Context<'_>, block: BlockId, depth: u8) {
        self.run(block.volume, |instance| {
            let Some(function) = instance.functions().stored else { return Ok(()) };
            instance.event();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            instance.call("stored", function, depth.into())?;
            instance.carry_out("stored", cx, block)
        });
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        let block = BlockId::new(cx.volume(), 0);
        self.run(block.volume, |instance| {
            let Some(function) = instance.functions().tick else { return Ok(()) };
            instance.echo();
            instance.show(cx, block, 0);
            instance.show_tail(cx);
            instance.call("tick", function, ())?;
            instance.carry_out("tick", cx, block)
        });
    }

    fn set_apart(&self) -> u8 {
        self.reserved_percent
    }

    fn needs_frame_data(&self) -> bool {
        self.needs_frame_data
    }
}
