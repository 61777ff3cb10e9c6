//! Every timeout and period of a node, made from the three that are configured.

use crate::PgId;
use crate::control::ControlConfig;
use crate::mistakes::{Mistake, makes};
use crate::shard::ShardConfig;
use crate::time::Duration;

/// Repetitions of an unanswered word to a card after which it counts as silent: two seconds of [`ShardTiming::resend`].
pub(crate) const SILENT_AFTER: u32 = 20;

/// The times of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardTiming {
    /// A node that is asked for a block, or the primary for a lock, has so long to answer.
    pub(crate) peer: Duration,
    /// The primary has so long to answer a read: it may have a long queue, and nobody can stand in for it.
    pub(crate) primary: Duration,
    /// What nobody has answered by then fails.
    pub(crate) give_up: Duration,
    /// A short word between a card and the primary is repeated after this.
    pub(crate) resend: Duration,
    /// A node that is sent an evicted block has so long to answer before the sender forgets the block.
    pub(crate) store: Duration,
    /// The first and the longest pause after the primary was too busy for a command. It doubles.
    pub(crate) busy: (Duration, Duration),
    /// The primary is asked for an unanswered command after the first, at last each time after the second. It doubles. Some of the
    /// questions, or answers, may be lost with connections before the command is given up.
    pub(crate) probe: (Duration, Duration),
    /// A lock whose copies nobody has read for so long goes with the next invalidation: it would cost the writer one each
    /// time.
    pub(crate) unread: Duration,
    /// The primary keeps what it has answered to cards that are gone: longer than any command is open, by clocks of which
    /// none is as slow as two thirds of another.
    pub(crate) replies: Duration,
}

impl ShardTiming {
    pub(crate) fn new(config: &ShardConfig) -> Self {
        let ShardConfig { peer_timeout: peer, disk_wait, .. } = *config;
        Self {
            peer,
            primary: peer * 4,
            give_up: disk_wait,
            resend: Duration::from_millis(100),
            store: Duration::from_millis(100),
            busy: (Duration::from_millis(10), Duration::from_secs(1)),
            probe: (peer, Duration::from_secs(4).min(disk_wait / 6).max(peer)),
            unread: Duration::from_secs(1),
            replies: disk_wait * 3 / 2,
        }
    }
}

/// The times of a control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlTiming {
    /// A card uses copies for so long without a word from its primary, counted from when it has sent its request.
    pub(crate) lease: Duration,
    /// The primary gives a card up so long after its last request has come: later than the card does, as long as no clock
    /// runs more than a third faster than another. A term begins no write before.
    pub(crate) expiry: Duration,
    /// A card that takes a volume over waits for others to end at most so long after it has asked last.
    pub(crate) takeover: Duration,
    /// A request that nobody has answered by then fails.
    pub(crate) give_up: Duration,
    /// An unanswered request is repeated after this.
    pub(crate) resend: Duration,
    /// The same of an attachment to a group: its primary was named a moment ago, and serves in another one.
    pub(crate) resend_to_group: Duration,
}

impl ControlTiming {
    pub(crate) fn new(config: &ControlConfig) -> Self {
        let ControlConfig { lease, disk_wait, .. } = *config;
        let expiry = if makes(Mistake::ExpireEarly) { lease / 2 } else { lease + lease / 2 };
        let resend = Duration::from_millis(200);
        Self { lease, expiry, takeover: expiry * 2, give_up: disk_wait, resend, resend_to_group: resend / 5 }
    }

    /// When an attachment that is not answered is asked for again.
    pub(crate) const fn attaches_again(&self, volume: PgId) -> Duration {
        if volume.is_plain() { self.resend } else { self.resend_to_group }
    }

    /// How often a lease of this length, which the primary has granted, is renewed.
    pub(crate) fn renewal(lease: Duration) -> Duration {
        (lease / 4).max(Duration::from_millis(1))
    }

    /// When a new card's is renewed first: later, so that those of one node come together.
    pub(crate) fn first_renewal(lease: Duration) -> Duration {
        lease / 3
    }
}
