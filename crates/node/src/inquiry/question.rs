//! What a node can be asked.

use std::time::Duration;

use cards_admin::PinOrder;
use cards_advise::Rate;
use serde::{Deserialize, Serialize};

use crate::node::policies::Table;
use crate::node::scrubs::Table as ScrubTable;

/// How long a question may take, the wait for a place among the open ones included.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the news of policies may take: the node that hears of them fetches modules.
const PATIENCE_POLICIES: Duration = Duration::from_secs(15);
/// How long blocks may take that are to be fetched: a disk may be slow, and others may use it.
const PATIENCE_WARM: Duration = Duration::from_secs(100);

/// A question of one control plane to another. In JSON: an object with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Question {
    /// How it is: an [`admin::Status`](cards_admin::Status), short as `answers` makes it.
    Status {},
    /// The UUIDs of the managed disks that it has: a list of texts.
    ManagedDisks {},
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
    /// What it has in memory of a volume: a [`Map`](crate::node::inquiries::maps::Map).
    Map {
        /// The volume's name.
        volume: String,
    },
    /// What it did in the last hour: a [`Told`](crate::node::history::Told).
    History {
        /// Only what came after this step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// What its clients asked of a volume in the last hour: a [`Told`](crate::node::history::Told).
    VolumeHistory {
        /// The volume's name.
        volume: String,
    },
    /// What it keeps of another node's last hour: a [`Told`](crate::node::history::Told), or null.
    Past {
        /// That node's name.
        node: String,
    },
    /// What has happened as it says: a list of [`Event`](crate::node::history::event::Event)s.
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
    /// What its clients have asked of a volume lately: a [`Told`](crate::auto::Told).
    References {
        /// The volume's name.
        volume: String,
        /// Only what came after this time of its clock, in microseconds since 1970 (UTC).
        since_us: u64,
        /// Only blocks of this rate.
        rate: Rate,
        /// So many references at most, the last ones.
        most: usize,
    },
    /// What its chooser of a volume knows: an [`admin::Chooser`](cards_admin::Chooser), or null.
    Chooser {
        /// The volume's name.
        volume: String,
    },
    /// Ranges of a volume are to be fetched into its cache: an [`admin::Warmed`](cards_admin::Warmed).
    Warm {
        /// The volume's name.
        volume: String,
        /// Offsets and lengths in bytes, as in [`admin::Request::Warm`](cards_admin::Request::Warm).
        ranges: Vec<(u64, u64)>,
    },
    /// A part of a group of copies that it leads is to be scrubbed: an [`admin::Scrubbed`](cards_admin::Scrubbed).
    Scrub {
        /// The group's number.
        group: u32,
        /// The first byte, in the group.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// When volumes were scrubbed, as the asking node knows, to be taken over: what the asked one knows of the same volumes then, in the same form.
    Scrubs {
        /// Of these volumes.
        table: ScrubTable,
    },
    /// What stays in its cache, or shall: an [`admin::Pins`](cards_admin::Pins).
    Pins {
        /// What to do.
        order: PinOrder,
    },
    /// What the asking node knows of policies of users and of volumes, to be taken over: a [`Heard`](crate::policies::Heard).
    Policies {
        /// All that it knows.
        table: Box<Table>,
    },
    /// A module: a [`Content`](crate::policies::Content).
    Module {
        /// Its digest.
        digest: String,
    },
}

impl Question {
    /// How long the answer may take.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Warm { .. } | Self::Scrub { .. } => PATIENCE_WARM,
            Self::Policies { .. } => PATIENCE_POLICIES,
            _ => PATIENCE,
        }
    }
}
