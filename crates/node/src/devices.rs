//! What devices are asked, and say.
//!
//! A shard, or the control, wants pages withdrawn before somebody else's write; here it is found out whose pages these
//! are, and what waits for them. Nobody's are gone already.

mod claims;
mod predecessors;
mod watch;

use std::ops::Range;

use cards_core::{ControlInput, Input, PgId, WithdrawalId};

use crate::node::devices::Waiter;
use crate::node::{Call, Event, Local, Node};

pub(crate) use claims::claims;
pub(crate) use predecessors::await_none;
pub(crate) use watch::{Watch, watch};

impl Node {
    /// The pages that `waiter` waits for are gone.
    fn withdrawn(&self, waiter: Waiter) {
        let call: Call = match waiter {
            Waiter::Shard(shard, id) => Box::new(move |local| {
                let now = local.node.now();
                local.shard(shard, |state| state.handle(now, Input::Withdrawn { id }));
            }),
            Waiter::Control(volume) => {
                Box::new(move |local| local.control(ControlInput::Withdrawn { volume }))
            }
        };
        let thread = match waiter {
            Waiter::Shard(shard, _) => usize::from(shard) % self.threads.len(),
            Waiter::Control(_) => 0,
        };
        self.threads[thread].post(Event::Call(call));
    }
}

impl Local {
    /// A shard wants pages of these blocks withdrawn.
    pub(crate) fn withdraw(&self, shard: u16, id: WithdrawalId, volume: PgId, blocks: &[Range<u32>]) {
        let block = self.node.arena.block() as u64;
        let bytes = |start: u32, blocks: u64| (u64::from(start) * block, blocks * block);
        let card = self.node.cards.of(volume);
        let parts = card.as_ref().and_then(|card| card.parts()).filter(|parts| parts.is_shared());
        let ranges = match parts.and_then(|parts| Some((parts, parts.number(volume)?))) {
            None => blocks.iter().map(|blocks| bytes(blocks.start, blocks.len() as u64)).collect(),
            Some((parts, part)) => {
                let some = blocks.iter().filter(|blocks| !blocks.is_empty());
                let whole = parts.whole(part, some.map(|blocks| (blocks.start, blocks.end - 1))).into_iter();
                whole.map(|(first, last)| bytes(first, u64::from(last - first) + 1)).collect()
            }
        };
        self.withdraw_or_say(volume, Waiter::Shard(shard, id), ranges);
    }

    /// The control wants all pages of a volume withdrawn.
    pub(crate) fn withdraw_all(&self, volume: PgId) {
        self.withdraw_or_say(volume, Waiter::Control(volume), vec![(0, u64::MAX)]);
    }

    fn withdraw_or_say(&self, volume: PgId, waiter: Waiter, ranges: Vec<(u64, u64)>) {
        let now = self.node.now();
        let first = self.node.cards.of(volume).and_then(|card| card.volume());
        let asked = self
            .node
            .devices
            .of(first.unwrap_or(volume))
            .is_some_and(|watcher| watcher.ask(now, waiter, ranges));
        if !asked {
            self.node.withdrawn(waiter);
        }
    }
}
