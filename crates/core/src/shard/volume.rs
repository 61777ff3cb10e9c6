//! What a shard knows of a volume: its card, and at the node of its disk, its primary.

use alloc::boxed::Box;

use super::Shard;
use super::card::Card;
use super::card::held::Held;
use super::primary::Primary;
use crate::ids::{NodeId, Stamp};
use crate::mistakes::{Mistake, makes};
use crate::policy::Policy;
use crate::time::Instant;
use crate::volume::{Coherence, VolumeSpec};

pub(super) struct Volume {
    pub(super) spec: VolumeSpec,
    pub(super) policy: Box<dyn Policy>,
    /// When the policy is called, if it wants to be.
    pub(super) policy_wake: Instant,
    /// What this node does for its clients.
    pub(super) card: Card,
    /// Who orders the writes, if that is this node.
    pub(super) primary: Option<Primary>,
}

impl Volume {
    /// Whether copies of the volume may be kept here and used now.
    pub(super) fn may_use_copies(&self, now: Instant) -> bool {
        let leased = self.needs_no_lease() || self.card.is_leased(now) || makes(Mistake::ServeAfterLease);
        self.primary.as_ref().map_or(self.card.generation.is_some() && leased, |primary| !primary.held)
    }

    /// As of which stamp this node's copy of a block is good. The primary's is of the last write that has begun, since it
    /// uses no copy of a block that is being written.
    pub(super) fn as_of(&self, block: u32) -> Stamp {
        self.primary.as_ref().map_or_else(|| self.card.as_of(block), |primary| primary.last_stamp)
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
        let own = node == self.spec.id.disk_node() && self.card.generation.is_some();
        let peer = self.primary.as_ref().is_some_and(|primary| primary.lets_write(node));
        !self.spec.read_only && (own || peer)
    }
}

impl Shard {
    pub(super) fn volume_known(&mut self, spec: VolumeSpec) {
        let id = spec.id;
        let known = self.volumes.get(&id);
        if known.is_some_and(|known| known.spec == spec) {
            return;
        }
        let held = known.map_or_else(Held::default, |known| Held::after(&known.card.held));
        let pages = self.has_pages(id);
        let Some(policy) = self.config.algorithms.policy(&spec.policy) else { return };
        let is_primary = id.disk_node() == self.config.node;
        self.drop_copies(id);
        if policy.needs_frame_data() {
            self.frame_data.enable(self.cache.slots());
        }
        if policy.set_apart() > 0 && !is_primary {
            let algorithms = &self.config.algorithms;
            self.cache.set_apart(policy.set_apart(), |capacity| algorithms.replacer(capacity));
            self.make_room();
        }
        let first = Stamp(self.config.incarnation << 20);
        // Once: they know nothing of what this life has written.
        let marks = self.config.marks.remove(&id);
        let primary = is_primary.then(|| Primary::new(self.config.limits, first, marks.as_ref()));
        let card = Card::new(self.config.limits, held, pages);
        self.volumes.insert(id, Volume { spec, policy, policy_wake: Instant::NEVER, card, primary });
        if is_primary && self.hands_over(id) {
            self.writers.enable(self.config.limits.writers);
        }
    }
}
