//! Why a request for locks is refused.

use cards_locks::{GroupKey, LockError, SessionId};

use super::limits;

/// Why a request is refused. Each message names the thing, the value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// There is no list of members that is kept up to date.
    #[error(
        "lock groups need a coordinator, and this node has heard of none: add [coordinator] to node.toml of all \
         nodes, or, if it is there, wait until this node has joined (`cards status`)"
    )]
    NoCoordinator,
    /// No such session, or not any more.
    #[error(
        "session {} is not open at this node: it was closed, or not kept alive for its ttl; open a new one",
        session_name(*.0)
    )]
    NoSession(SessionId),
    /// No such group, or not any more.
    #[error("group {} is not known at this node: it was released, refused or lost; acquire it again", group_name(*.0))]
    NoGroup(GroupKey),
    /// This node has as many sessions as it can.
    #[error("this node has {} sessions, its limit: close some or try later", limits::SESSIONS)]
    TooManySessions,
    /// The group touches more than it can.
    #[error(
        "the group touches {given} ranges of regions of {} MiB, at most {} fit one group: lock less, or in several groups",
        limits::REGION_BYTES >> 20,
        limits::GROUP_PARTS
    )]
    TooManyParts {
        /// So many.
        given: u64,
    },
    /// The core says so.
    #[error("{0}")]
    Locks(LockError),
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        Self::Locks(error)
    }
}

/// A session's name in the API.
pub(crate) fn session_name(session: SessionId) -> String {
    format!("{}.{:x}", session.node.0, session.number)
}

/// A group's name in the API.
pub(crate) fn group_name(key: GroupKey) -> String {
    format!("{}.{}", session_name(key.session), key.group)
}
