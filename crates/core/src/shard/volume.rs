//! What a shard knows of a volume: its card, and at the node of its disk, its primary.

use alloc::boxed::Box;

use super::Shard;
use super::card::Card;
use super::card::held::Held;
use super::primary::Primary;
use crate::ids::{NodeId, PgId, Stamp};
use crate::mistakes::{Mistake, makes};
use crate::policy::Policy;
use crate::rights::Allowed;
use crate::time::Instant;
use crate::timers::Timer;
use crate::volume::{Coherence, VolumeSpec};

pub(super) struct Volume {
    pub(super) spec: VolumeSpec,
    pub(super) policy: Box<dyn Policy>,
    /// When the policy is called, if it wants to be.
    pub(super) policy_wake: Instant,
    /// The nodes that may have cards, by the word of the primary.
    pub(super) allowed: Allowed,
    /// What this node does for its clients.
    pub(super) card: Card,
    /// Who orders the writes, if that is this node. Apart: it is large, and most nodes are primaries of few of the volumes they attach.
    pub(super) primary: Option<Box<Primary>>,
}

impl Volume {
    /// Whether copies of the volume may be kept here and used now.
    pub(super) fn may_use_copies(&self, now: Instant) -> bool {
        let leased = self.needs_no_lease() || self.card.is_leased(now) || makes(Mistake::ServeAfterLease);
        self.primary
            .as_ref()
            .map_or(self.card.generation.is_some() && leased, |primary| !primary.held && now < primary.right)
    }

    /// As of which stamp this node's copy of a block is good. The primary's is of the last write that has begun, since it
    /// uses no copy of a block that is being written.
    pub(super) fn as_of(&self, block: u32) -> Stamp {
        self.primary.as_ref().map_or_else(|| self.card.as_of(block), |primary| primary.last_stamp)
    }

    /// Whether contents may be given to the node.
    pub(super) fn allows(&self, node: NodeId) -> bool {
        node == self.spec.primary || self.allowed.has(node) || makes(Mistake::ServeAnyMember)
    }

    /// Whether the primary is asked to keep copies of what is read here.
    pub(super) fn leaves_copies(&self) -> bool {
        self.card.leave_copies.unwrap_or(!self.spec.network_attached)
    }

    /// Nobody can write it, or nobody promises anything about writes.
    pub(super) fn needs_no_lease(&self) -> bool {
        self.spec.read_only || !self.confirms()
    }

    /// The primary has copies invalidated, and acknowledged, before it writes.
    pub(super) fn confirms(&self) -> bool {
        self.spec.coherence == Coherence::Confirmed
    }

    /// At the primary: whether a card may write.
    pub(super) fn may_write(&self, node: NodeId) -> bool {
        let own = node == self.spec.primary && self.card.may_write();
        let peer = self.primary.as_ref().is_some_and(|primary| primary.lets_write(node));
        !self.spec.read_only && (own || peer)
    }
}

impl Shard {
    pub(super) fn volume_known(&mut self, spec: VolumeSpec) {
        let id = spec.id;
        let known = self.volumes.get(&id);
        if known.is_some_and(|known| spec.continues(&known.spec)) {
            self.volume_changed(spec);
            return;
        }
        if known.is_some_and(|known| known.primary.is_some()) {
            self.end_term(id);
        }
        let known = self.volumes.get(&id);
        let held = known.map_or_else(Held::default, |known| Held::after(&known.card.held));
        let pages = self.has_pages(id);
        let Some(policy) = self.config.algorithms.policy_of(&spec) else { return };
        self.drop_copies(id);
        self.provide_for(policy.as_ref());
        let is_primary = spec.primary == self.config.node;
        let card = Card::new(self.config.limits, held, pages);
        let allowed = self.volumes.remove(&id).map_or_else(Allowed::default, |known| known.allowed);
        let policy_wake = Instant::NEVER;
        self.volumes.insert(id, Volume { spec, policy, policy_wake, allowed, card, primary: None });
        match is_primary {
            true => self.begin_term(id),
            false => self.set_apart(id),
        }
    }

    /// The volume has grown, or another node is its primary from now on, or another term of one has begun.
    fn volume_changed(&mut self, spec: VolumeSpec) {
        let (id, me) = (spec.id, self.config.node);
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let before = core::mem::replace(&mut volume.spec, spec);
        let spec = &volume.spec;
        let (is_primary, primary_moved) = (spec.primary == me, spec.primary != before.primary);
        if before.epoch == spec.epoch && !primary_moved {
            return;
        }
        if before.primary == me {
            self.end_term(id);
            self.set_apart(id);
        }
        if is_primary {
            // First: what begins to wait with the term is sent to nobody.
            if let Some(card) = self.card_mut(id) {
                (card.awaited, card.generation) = (true, None);
            }
            self.begin_term(id);
        } else if primary_moved {
            self.ask_anew(id);
        }
    }

    /// Another policy goes on, with nothing but the cache and the index. What is under way keeps the way that it was sent, and notes
    /// of the policy before come to this one: hints, whatever they mean to it.
    pub(super) fn policy_chosen(&mut self, id: PgId) {
        let Some(volume) = self.volumes.get(&id) else { return };
        // It may have told others of copies that the next one knows nothing of.
        if !volume.spec.read_only && !volume.confirms() {
            return;
        }
        let Some(policy) = self.config.algorithms.policy_of(&volume.spec) else { return };
        self.provide_for(policy.as_ref());
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let is_primary = volume.spec.primary == self.config.node;
        volume.policy = policy;
        let wake = core::mem::replace(&mut volume.policy_wake, Instant::NEVER);
        self.timers.clear(wake, Timer::Policy(id));
        if !is_primary {
            self.set_apart(id);
        }
        self.tick_policy(id);
    }

    /// Words and ages of cached blocks, if the policy uses them. Those of blocks that were here before it came begin at zero.
    fn provide_for(&mut self, policy: &dyn Policy) {
        if policy.needs_frame_data() && !self.cache.data.is_enabled() {
            let slots = self.cache.slots();
            self.cache.data.enable(slots);
        }
        if policy.has_replicas() {
            self.cache.keep_ages();
        }
    }

    /// Sets places apart for what the policy stores at nodes other than the primary's.
    fn set_apart(&mut self, id: PgId) {
        let Some(volume) = self.volumes.get(&id) else { return };
        let percent = volume.policy.set_apart();
        if percent > 0 {
            let algorithms = &self.config.algorithms;
            self.cache.set_apart(percent, |capacity| algorithms.replacer(capacity));
            self.make_room();
        }
    }
}
