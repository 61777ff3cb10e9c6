//! What a node can be asked.

use serde::{Deserialize, Serialize};

/// A question of one control plane to another. In JSON: an object with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Question {
    /// How it is: an [`admin::Status`](cards_admin::Status), short as [`super::answer`] makes it.
    Status {},
    /// What it knows of a block: an [`admin::Block`](cards_admin::Block).
    Block {
        /// The volume's number.
        volume: u32,
        /// The block's.
        block: u32,
    },
    /// What a request for a block would lead to there: an [`admin::Course`](cards_admin::Course).
    Request {
        /// The volume's number.
        volume: u32,
        /// The block's.
        block: u32,
        /// The number of the node that would want the block.
        requester: u16,
        /// That of the node that would send the request there.
        via: u16,
        /// Nodes the request would have passed before.
        hops: u8,
        /// It is to be passed to nobody but the disk node.
        from_disk: bool,
    },
    /// What it has in memory of a volume: a [`Map`](crate::web::map::Map).
    Map {
        /// The volume's name.
        volume: String,
    },
    /// What it did in the last hour: a [`Told`](crate::history::Told).
    History {
        /// Only what came after this step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// What its clients asked of a volume in the last hour: a [`Told`](crate::history::Told).
    VolumeHistory {
        /// The volume's name.
        volume: String,
    },
    /// What it keeps of another node's last hour: a [`Told`](crate::history::Told), or null.
    Past {
        /// That node's name.
        node: String,
    },
    /// What has happened as it says: a list of [`Event`](crate::history::Event)s.
    Events {},
    /// What happened to requests there: a list of [`admin::Span`](cards_admin::Span).
    Spans {
        /// Only of this trace.
        trace: Option<String>,
        /// So many at most, the last ones.
        most: usize,
    },
    /// What its clients ask of a volume: an [`admin::Sampled`](cards_admin::Sampled).
    Sample {
        /// The volume's name.
        volume: String,
        /// References, and blocks before them, at most.
        most: usize,
    },
}
