//! Requests that took long.

use serde::{Deserialize, Serialize};

use super::Op;

/// What a node has noted of its clients' slow requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequests {
    /// Requests are noted that took at least so many milliseconds; none if none are.
    pub threshold_ms: Option<u64>,
    /// How many there were since the node started.
    pub count: u64,
    /// The last ones, the latest first.
    pub last: Vec<SlowRequest>,
    /// The slowest ones, the slowest first.
    pub slowest: Vec<SlowRequest>,
}

/// A request that took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// When it ended, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// The volume.
    pub volume: String,
    /// What was asked for.
    pub op: Op,
    /// From here, in bytes.
    pub offset: u64,
    /// So many bytes.
    pub length: u32,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// It failed in the end.
    pub failed: bool,
    /// What it waited for, as far as this node knows: what it began to wait for, or where its last block came from.
    pub waited_for: WaitKind,
    /// The node that it waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A lock: for this node to have it back, or for others to give it up.
    Lock,
    /// Another node.
    Peer,
    /// A disk.
    Disk,
    /// Its turn under a limit of the card or of the node.
    Limit,
    /// The client, which did not take the reply.
    Client,
    /// Something else: a request under way for the same block, a write to it, room in the cache, the card.
    Other,
}

impl WaitKind {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Peer => "peer",
            Self::Disk => "disk",
            Self::Limit => "limit",
            Self::Client => "client",
            Self::Other => "other",
        }
    }
}
