//! What the machines of the lock service say to each other.

use alloc::vec::Vec;

use cards_core::rendezvous::RegionId;
use cards_core::{Duration, Instant, NodeId};

use super::error::LockError;
use super::fence::Fence;
use super::range::Locked;

/// A client's session: one life of one user of the lock service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId {
    /// The node that speaks for it.
    pub node: NodeId,
    /// Its number there; never used twice, by any life of the node.
    pub number: u64,
}

/// The name of a lock group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// Who owns it.
    pub session: SessionId,
    /// Its number in the session; grows from group to group.
    pub group: u64,
}

/// When a session said something; comes back in the answer, which tells how long the session may believe it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Beat {
    /// Grows from message to message of a session.
    pub sequence: u64,
    /// By the clock of the session.
    pub sent: Instant,
}

/// What a group holds in one region.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The region.
    pub region: RegionId,
    /// The group.
    pub key: GroupKey,
    /// What of it, and how.
    pub ranges: Vec<Locked>,
    /// The token of the grant.
    pub token: Fence,
}

/// A change of what a home's copies say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// The part is held.
    Put(Part),
    /// It is not held any more.
    Remove {
        /// The region.
        region: RegionId,
        /// The group.
        key: GroupKey,
    },
    /// Every member has all that the home began the view with.
    Complete,
}

/// What a node knows of what a home held in a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The home.
    pub home: NodeId,
    /// The view.
    pub epoch: u64,
    /// The home has said [`Change::Complete`], or is the one that tells.
    pub complete: bool,
    /// Of that, what concerns the node that asks.
    pub parts: Vec<Part>,
}

/// A message of the lock service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockMessage {
    /// The sender's view. A receiver in another view takes no notice; what matters is sent again.
    pub epoch: u64,
    /// What is said.
    pub body: LockBody,
}

/// The body of a [`LockMessage`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockBody {
    /// Session to home: asks for a part of a group; repeated until it is answered.
    Acquire {
        /// The region.
        region: RegionId,
        /// The group.
        key: GroupKey,
        /// What, all in this region.
        ranges: Vec<Locked>,
        /// Refuse rather than wait.
        try_only: bool,
        /// Renews the session, too.
        beat: Beat,
    },
    /// Session to home: gives a part up, granted or not.
    Release {
        /// The region.
        region: RegionId,
        /// The group.
        key: GroupKey,
        /// Renews the session, too.
        beat: Beat,
    },
    /// Session to home: renews the lease, and says everything that the session has there. What it does not
    /// name, and asked for earlier, it has given up.
    Renew {
        /// Who.
        session: SessionId,
        /// When.
        beat: Beat,
        /// What it holds.
        held: Vec<Part>,
        /// What it waits for, and the number of the group.
        wanted: Vec<(RegionId, u64)>,
    },
    /// Home to session: the part is granted, and copied.
    Granted {
        /// The region.
        region: RegionId,
        /// The group.
        key: GroupKey,
        /// For storage to check.
        token: Fence,
        /// The last that the home has heard of the session.
        beat: Beat,
        /// How long after that beat the session may believe it.
        lease: Duration,
    },
    /// Home to session: the part is refused.
    Refused {
        /// The region.
        region: RegionId,
        /// The group.
        key: GroupKey,
        /// Why.
        error: LockError,
    },
    /// Home to session: the part is given up, or never was.
    Released {
        /// The region.
        region: RegionId,
        /// The group.
        key: GroupKey,
    },
    /// Home to session: the answer to [`LockBody::Renew`].
    Renewed {
        /// Who.
        session: SessionId,
        /// Of the message that is answered.
        beat: Beat,
        /// How long after that beat the session may believe it.
        lease: Duration,
        /// Parts that the session does hold.
        confirmed: Vec<(RegionId, u64)>,
        /// Parts that it does not hold any more.
        lost: Vec<(RegionId, u64)>,
    },
    /// Home to member, in a new view: what do you know of what is now mine?
    Takeover,
    /// Member to home: the answer.
    Collected {
        /// What it knows.
        evidence: Vec<Evidence>,
        /// It knows that no record can be lost, see [`super::HomeInput::View`].
        copied: bool,
    },
    /// Home to member: changes of its copies, in order.
    Replicate {
        /// The number of the first of them; they are counted from 1 in every view.
        first: u64,
        /// The changes.
        changes: Vec<Change>,
    },
    /// Member to home: the changes up to this one are copied.
    Replicated {
        /// The number of the last of them.
        through: u64,
    },
}
