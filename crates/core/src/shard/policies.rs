//! The volumes' policies: what they are asked, and what they want done.

use alloc::vec::Vec;

use super::{Shard, Volume};
use crate::cache::Mark;
use crate::ids::{BlockId, NodeId, PgId};
use crate::io::Payload;
use crate::message::{Body, Note};
use crate::policy::{Ages, Asker, Context, Effect, Policy, View};
use crate::time::Instant;
use crate::timers::Timer;

/// What a policy sees of a volume, with the cache lent to look at or to change.
macro_rules! view {
    ($shard:expr, $volume:expr, $cache:expr) => {
        View {
            now: $shard.policy_clock.unwrap_or($shard.now),
            random: $shard.random,
            me: $shard.config.node,
            volume: $volume.spec.id,
            primary: $volume.spec.primary,
            placement: &$shard.placement,
            cache: $cache,
            free_of: &$shard.free_of,
            up: &$shard.up,
            load_of: &$shard.load_of,
            attached: $volume.may_use_copies($shard.now),
            leaves_copies: $volume.leaves_copies(),
            invalidates: !$volume.spec.read_only && !$volume.confirms(),
        }
    };
}

impl Shard {
    /// Which node the volume's policy sends a read to, if not to the primary.
    pub(super) fn policy_route(&self, block: BlockId, asker: Asker) -> Option<NodeId> {
        let volume = self.volumes.get(&block.volume)?;
        volume.policy.route(&view!(self, volume, &self.cache), block, asker)
    }

    /// Whether another node's read ever waits for a fetch of this node's.
    pub(super) fn policy_has_fetches_for_others(&self, volume: PgId) -> bool {
        self.volumes.get(&volume).is_some_and(|volume| volume.policy.has_fetches_for_others())
    }

    /// Whether another node's read waits for a fetch of this node's, see [`Policy::fetches_for`].
    pub(super) fn policy_fetches_for(&self, block: BlockId, asker: Asker) -> bool {
        self.volumes
            .get(&block.volume)
            .is_some_and(|volume| volume.policy.fetches_for(&view!(self, volume, &self.cache), block, asker))
    }

    /// Whom the volume's policy has answer in this node's place, see [`Policy::relieved`].
    pub(super) fn policy_relieved(&self, block: BlockId, asker: Asker) -> Option<NodeId> {
        let volume = self.volumes.get(&block.volume)?;
        volume.policy.relieved(&view!(self, volume, &self.cache), block, asker)
    }

    /// Whether who has sent the read here sees to it that no nodes wait in a circle, see [`Policy::vouched`].
    pub(super) fn policy_vouches(&self, block: BlockId, asker: Asker) -> bool {
        self.volumes
            .get(&block.volume)
            .is_some_and(|volume| volume.policy.vouched(&view!(self, volume, &self.cache), block, asker))
    }

    /// Whether the volume's policy lets the oldest replica go; those of a volume that is no more do.
    pub(super) fn replica_goes(&self, volume: PgId, ages: Ages) -> bool {
        self.volumes
            .get(&volume)
            .is_none_or(|volume| volume.policy.replica_goes(&view!(self, volume, &self.cache), ages))
    }

    /// Lets the volume's policy do something, then carries out its effects.
    pub(super) fn with_policy<T>(
        &mut self,
        volume: PgId,
        run: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let known = self.volumes.get_mut(&volume)?;
        let view = view!(self, known, &mut self.cache);
        let mut context = Context { view, effects: &mut self.effects };
        let answer = run(known.policy.as_mut(), &mut context);
        self.random = context.view.random;
        let mut effects = core::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Note { to, block, note } => {
                    if to != self.config.node && self.is_up(to) {
                        self.send(to, block.volume, Body::Note { block: block.index, note }, Payload::None);
                    }
                }
                Effect::Discard(block) => {
                    if !self.stays(block) {
                        self.drop_copy(block);
                    }
                }
                Effect::Invalidate(block) => {
                    self.stats.invalidations += u64::from(self.contains(block));
                    self.drop_copy(block);
                }
                Effect::WakeAt(at) => self.wake_policy(volume, at),
            }
        }
        self.effects = effects;
        Some(answer)
    }

    /// Whether a policy has no say in whether a copy stays. Where copies are only as fresh as the policy sees to, it has: it may
    /// have told others that the copy is gone, and nobody would invalidate it.
    fn stays(&self, block: BlockId) -> bool {
        let slot = self.cache.lookup(block).filter(|&slot| self.cache.is(slot, Mark::RETAINED));
        let volume = self.volumes.get(&block.volume);
        slot.is_some() && volume.is_some_and(|volume| volume.spec.read_only || volume.confirms())
    }

    /// The time, for policies.
    pub(super) fn policy_now(&self) -> Instant {
        self.policy_clock.unwrap_or(self.now)
    }

    /// Policies that wanted to be called by now are called here: no timer knows their time. The first time, all that wanted to
    /// be called at all: what they have said was by another clock.
    pub(super) fn set_policy_clock(&mut self, at: Option<Instant>) {
        let is_first = self.policy_clock.is_none();
        self.policy_clock = at;
        let Some(at) = at else { return };
        let is_due = |wake: Instant| wake <= at || is_first && wake != Instant::NEVER;
        let due = |(&id, volume): (&PgId, &Volume)| is_due(volume.policy_wake).then_some(id);
        let due: Vec<PgId> = self.volumes.iter().filter_map(due).collect();
        for id in due {
            if let Some(volume) = self.volumes.get_mut(&id) {
                self.timers.clear(volume.policy_wake, Timer::Policy(id));
                volume.policy_wake = Instant::NEVER;
            }
            self.tick_policy(id);
        }
    }

    fn wake_policy(&mut self, id: PgId, at: Instant) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        self.timers.clear(volume.policy_wake, Timer::Policy(id));
        volume.policy_wake = at;
        if self.policy_clock.is_some() {
            return;
        }
        self.timers.set(at, Timer::Policy(id));
    }

    /// Calls the policy at its own wish; one whose card is not attached sleeps until it is.
    pub(super) fn tick_policy(&mut self, id: PgId) {
        if self.card(id).is_some_and(|card| card.generation.is_some()) {
            self.with_policy(id, |policy, cx| policy.tick(cx));
        }
    }

    pub(super) fn note(&mut self, from: NodeId, block: BlockId, note: Note) {
        self.with_policy(block.volume, |policy, cx| policy.note(cx, block, from, note));
    }
}
