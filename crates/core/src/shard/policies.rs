//! The volumes' policies: what they are asked, and what they want done.

use super::Shard;
use crate::ids::{BlockId, NodeId, PgId};
use crate::io::Payload;
use crate::message::{Body, Note};
use crate::policy::{Context, Effect, Policy, Request};
use crate::time::Instant;
use crate::timers::Timer;

impl Shard {
    /// A volume's policy, and what it may see and change.
    pub(super) fn policy(&mut self, now: Instant, volume: PgId) -> Option<(&mut dyn Policy, Context<'_>)> {
        let known = self.volumes.get_mut(&volume)?;
        let context = Context {
            now,
            random: &mut self.random,
            frame_data: &mut self.frame_data,
            me: self.config.node,
            volume,
            primary: known.spec.primary,
            placement: &self.placement,
            cache: &mut self.cache,
            index: &mut self.index,
            free_of: &self.free_of,
            up: &self.up,
            load_of: &self.load_of,
            attached: known.may_use_copies(now),
            invalidates: !known.spec.read_only && !known.confirms(),
            effects: &mut self.effects,
        };
        Some((known.policy.as_mut(), context))
    }

    /// Lets the volume's policy do something, then carries out its effects.
    pub(super) fn with_policy<T>(
        &mut self,
        volume: PgId,
        run: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let (policy, mut context) = self.policy(self.now, volume)?;
        let answer = run(policy, &mut context);
        let mut effects = core::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Note { to, block, note } => {
                    if to != self.config.node && self.is_up(to) {
                        self.send(to, block.volume, Body::Note { block: block.index, note }, Payload::None);
                    }
                }
                Effect::Discard(block) => self.drop_copy(block),
                Effect::WakeAt(at) => self.wake_policy(volume, at),
            }
        }
        self.effects = effects;
        Some(answer)
    }

    fn wake_policy(&mut self, id: PgId, at: Instant) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        self.timers.clear(volume.policy_wake, Timer::Policy(id));
        volume.policy_wake = at;
        self.timers.set(at, Timer::Policy(id));
    }

    /// Calls the policy at its own wish; one whose card is not attached sleeps until it is.
    pub(super) fn tick_policy(&mut self, id: PgId) {
        if self.card(id).is_some_and(|card| card.generation.is_some()) {
            self.with_policy(id, |policy, cx| policy.tick(cx));
        }
    }

    pub(super) fn note(&mut self, from: NodeId, block: BlockId, note: Note) {
        let request = Request::Note { from, note };
        let had_copy = self.contains(block);
        self.with_policy(block.volume, |policy, cx| policy.handle_request(cx, block, request));
        if had_copy && !self.contains(block) {
            self.stats.invalidations += 1;
        }
    }
}
