//! One life of a node: its cores, their memory and their timers.

use std::collections::BTreeMap;
use std::sync::Arc;

use cards_core::{Control, FlushPoint, Instant, PgId, Shard, Token, Unflushed};
use cards_user_policy::Modules;

use crate::device::Watch;
use crate::memory::Memory;
use crate::world::GroupLife;

/// A node between its start and its death.
pub(crate) struct Life {
    pub(crate) control: Control,
    pub(crate) control_alarm: Alarm,
    pub(crate) shards: Vec<ShardLife>,
    /// What its shards ask for policies.
    pub(crate) modules: Arc<Modules>,
    /// The devices that are connected.
    pub(crate) watches: BTreeMap<PgId, Watch>,
    /// When the leases of the cards end, as it is known.
    pub(crate) leases: BTreeMap<PgId, Instant>,
    /// What the cards have to flush, and the commands that concern it.
    pub(crate) unflushed: BTreeMap<PgId, Unflushed>,
    pub(crate) commands: BTreeMap<Token, Pending>,
    /// The groups that have columns here.
    pub(crate) groups: BTreeMap<PgId, GroupLife>,
}

/// A command of a client that changes what is to be flushed.
#[derive(Clone, Copy)]
pub(crate) enum Pending {
    Write(PgId),
    Flush(PgId, FlushPoint),
}

/// One shard and what the driver keeps for it.
pub(crate) struct ShardLife {
    pub(crate) core: Shard,
    pub(crate) memory: Memory,
    pub(crate) alarm: Alarm,
}

/// Part of a node that takes inputs and has timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Control,
    Shard(u16),
    Group(PgId),
}

/// The earliest alarm that is already in the event heap. Later ones need no event of their own: when an
/// alarm turns out to be too early it is set again.
#[derive(Debug)]
pub(crate) struct Alarm {
    set: Instant,
    fired_at: Instant,
    fired: u32,
}

/// A timer that keeps firing without time passing is an endless loop in a real driver.
const FIRED_MAX: u32 = 10_000;

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { set: Instant::NEVER, fired_at: Instant::default(), fired: 0 }
    }

    /// Whether an event is needed for a timer due at `due`.
    pub(crate) fn set(&mut self, due: Instant) -> bool {
        let earlier = due < self.set;
        if earlier {
            self.set = due;
        }
        earlier
    }

    /// The event set last has come.
    pub(crate) fn rang(&mut self) {
        self.set = Instant::NEVER;
    }

    /// A timer fires.
    pub(crate) fn fire(&mut self, now: Instant, timer: &str) {
        if self.fired_at == now {
            self.fired += 1;
            assert!(self.fired < FIRED_MAX, "{timer} fires for ever at {now:?}");
        } else {
            self.fired_at = now;
            self.fired = 1;
        }
    }
}
