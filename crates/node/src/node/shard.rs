//! A shard of the cache behind its lock.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::{BlockId, Input, Instant, Read, Shard, Slot, Token};

/// A shard and what the driver knows about it.
pub(crate) struct ShardCell {
    state: Mutex<ShardState>,
    /// When the shard wants to be woken, in nanoseconds; written under the lock.
    pub(crate) wake: AtomicU64,
}

/// What a shard's lock protects.
pub(crate) struct ShardState {
    /// The latest time the shard has heard of.
    now: Instant,
    pub(crate) shard: Shard,
    /// Slots pinned by replies that clients have not taken yet.
    pub(crate) lent: u32,
    /// Most slots that replies may pin, so that no client who reads slowly takes the cache from others.
    pub(crate) lent_max: u32,
}

impl ShardCell {
    pub(crate) fn new(shard: Shard, capacity: u32) -> Self {
        let lent_max = (capacity / 8).max(1);
        Self {
            state: Mutex::new(ShardState { now: Instant(0), shard, lent: 0, lent_max }),
            wake: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ShardState> {
        // A poisoned shard has lost an invariant; its thread's panic ends the daemon (see `serve`).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardState {
    /// Gives the shard an input. Threads look at the clock before they have the lock: the shard's time still
    /// never goes back.
    pub(crate) fn handle(&mut self, now: Instant, input: Input) {
        self.now = self.now.max(now);
        self.shard.handle(self.now, input);
    }

    /// Asks the shard for a block.
    pub(crate) fn read(&mut self, now: Instant, token: Token, block: BlockId) -> Read {
        self.now = self.now.max(now);
        self.shard.read(self.now, token, block)
    }
}

/// A slot with its shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) shard: u16,
    pub(crate) slot: Slot,
}
