//! Volumes whose copies are on managed disks of several nodes.

use std::fmt;

use cards_config::{PolicySpec, size};
use serde::{Deserialize, Serialize};

/// A volume to be created over managed disks of several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVolume {
    /// Its name, in the whole cluster.
    pub name: String,
    /// Its size, in bytes: a multiple of 4096.
    pub size: u64,
    /// How its bytes are spread, if it is shared among several groups: `raid10:2`, `raid0` or `linear`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Copies of each block, each on another node. With a layout 0: that says it, and a daemon that does not know layouts refuses 0.
    pub copies: u8,
    /// The disks of the copies, as `NODE:DISK`; none: those with the most free space, one in each failure domain. With a layout, the disks that it
    /// is spread over; none: all that have room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// The unit of caching, in bytes, which has to be that of the nodes; none: that of the node that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// Its policy; none: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
}

/// What is known of a volume because it is on managed disks of several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Its UUID.
    pub uuid: String,
    /// Its number in the cluster.
    pub number: u32,
    /// Its layout: `raid1:2`.
    pub layout: String,
    /// Where it is between its creation and its end.
    pub state: MirrorState,
    /// Its copies, in the order of their numbers.
    pub copies: Vec<MirrorCopy>,
    /// Bytes that the node that says this has copied to other copies, which had missed them, since its daemon began.
    #[serde(default)]
    pub copied: u64,
    /// Which node orders its writes, and since when; none before it is made.
    pub map: Option<MirrorMap>,
    /// While it becomes larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grows: Option<Growing>,
}

/// A volume that becomes larger, or a part of one. It has its old size until all of it can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growing {
    /// The size that it is to have, in bytes.
    pub to: u64,
    /// The nodes that have not yet done what is due: given their copies the space, or, the primary, begun to take writes there.
    pub waits_for: Vec<String>,
}

impl Growing {
    fn health(&self) -> String {
        let waits = match self.waits_for.as_slice() {
            [] => String::new(),
            nodes => format!(", waits for {}", nodes.join(", ")),
        };
        format!("; grows to {}{waits}", size::human(self.to))
    }
}

impl Mirror {
    /// The copies that leave, because others take their place.
    pub fn leaving(&self) -> impl Iterator<Item = &MirrorCopy> {
        self.copies.iter().filter(|copy| copy.replaced_by.is_some())
    }

    /// The nodes that have not yet done what is due: made their copies, or removed them.
    #[must_use]
    pub fn waits_for(&self) -> Vec<&str> {
        let due = |copy: &&MirrorCopy| matches!(copy.state, CopyState::Making | CopyState::Removing);
        self.copies.iter().filter(due).map(|copy| copy.node.as_str()).collect()
    }

    /// Whether all copies that are to be there have every acknowledged write.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut staying = self.copies.iter().filter(|copy| copy.replaced_by.is_none());
        self.state == MirrorState::Ready && staying.all(|copy| copy.state == CopyState::InSync)
    }

    /// How many copies have every acknowledged write, for people.
    #[must_use]
    pub fn health(&self) -> String {
        let count = self.copies.len() - self.leaving().count();
        match self.state {
            MirrorState::Ready => {
                let in_sync = self.copies.iter().filter(|copy| copy.state == CopyState::InSync).count();
                let leaving = self.leaving().map(|copy| {
                    let (node, disk, by) =
                        (&copy.node, &copy.disk, copy.replaced_by.as_deref().unwrap_or_default());
                    format!(", {node}:{disk} is being replaced by {by}")
                });
                let grows = self.grows.as_ref().map(Growing::health).unwrap_or_default();
                format!(
                    "{} of {count} copies in sync{}{grows}",
                    in_sync.min(count),
                    leaving.collect::<String>()
                )
            }
            MirrorState::Making => format!("being made, waits for {}", self.waits_for().join(", ")),
            MirrorState::Removing => format!("being removed, waits for {}", self.waits_for().join(", ")),
        }
    }
}

/// What is known of a volume because it is shared among several groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Striped {
    /// Its UUID.
    pub uuid: String,
    /// Its layout: `raid10:2`.
    pub layout: String,
    /// Bytes that go to a part, the next to the next one; none: its parts follow one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<u64>,
    /// Where it is between its creation and its end.
    pub state: MirrorState,
    /// Its parts, in their order.
    pub parts: Vec<Part>,
    /// While it becomes larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grows: Option<Growing>,
}

/// One group of a volume that is shared among several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number in the volume.
    pub part: u16,
    /// Bytes of it.
    pub size: u64,
    /// Its copies; of a layout without copies there is one.
    #[serde(flatten)]
    pub mirror: Mirror,
}

impl Striped {
    /// The nodes that have not yet done what is due: made their pieces, or removed them.
    #[must_use]
    pub fn waits_for(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = self.parts.iter().flat_map(|part| part.mirror.waits_for()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether it survives the loss of a disk.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        self.layout.starts_with("raid1")
    }

    /// How it stands, for people.
    #[must_use]
    pub fn health(&self) -> String {
        match self.state {
            MirrorState::Making => format!("being made, waits for {}", self.waits_for().join(", ")),
            MirrorState::Removing => format!("being removed, waits for {}", self.waits_for().join(", ")),
            MirrorState::Ready => {
                let whole = self.parts.iter().filter(|part| part.mirror.is_whole()).count();
                let all = self.parts.len();
                let grows = self.grows.as_ref().map(Growing::health).unwrap_or_default();
                let health = match self.has_copies() {
                    true if all == 1 => format!("{whole} of 1 part has all copies in sync"),
                    true => format!("{whole} of {all} parts have all copies in sync"),
                    false if all == 1 => {
                        "1 part, on one disk: it does not survive the loss of that".to_owned()
                    }
                    false => format!("{all} parts, each on one disk: it does not survive the loss of any"),
                };
                health + &grows
            }
        }
    }
}

/// Where a volume is between its creation and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MirrorState {
    /// Not all nodes have made their copies; it cannot be attached.
    Making,
    /// All copies were made.
    Ready,
    /// It was removed, and some nodes have their copies still.
    Removing,
}

impl fmt::Display for MirrorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Making => "making",
            Self::Ready => "ready",
            Self::Removing => "removing",
        })
    }
}

/// One copy of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorCopy {
    /// Its number: another copy has it only when this one was removed.
    pub number: u8,
    /// The node that has it.
    pub node: String,
    /// The managed disk, as its node called it when the volume was created.
    pub disk: String,
    /// The UUID of the disk.
    pub disk_uuid: String,
    /// What it has.
    pub state: CopyState,
    /// Of a copy that is stale or being filled: the epoch of the map up to which it has everything; 0 if it has nothing for certain. Of one whose
    /// disk was put back: the epoch of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The disk of the copy that takes its place, as `NODE:DISK`: this one leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// What a copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// Its node has not made it yet.
    Making,
    /// It is made, and others are not yet.
    Made,
    /// Every acknowledged write.
    InSync,
    /// It has missed writes.
    Stale,
    /// It gets every write, and what it has missed is being copied to it.
    Filling,
    /// Its node has given it up, because its disk has failed.
    Failed,
    /// Its disk was put back to an earlier image, while it counted as in sync: it lacks writes, and is not used.
    PutBack,
    /// It has no disk.
    NoDisk,
    /// The volume was removed, and its node has it still.
    Removing,
    /// Its node has removed it.
    Removed,
}

impl fmt::Display for CopyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Making => "being made",
            Self::Made => "made",
            Self::InSync => "in sync",
            Self::Stale => "stale",
            Self::Filling => "being filled",
            Self::Failed => "given up",
            Self::PutBack => "an earlier image",
            Self::NoDisk => "without a disk",
            Self::Removing => "being removed",
            Self::Removed => "removed",
        })
    }
}

/// The map of a volume: what its nodes have agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorMap {
    /// The node that orders the volume's writes.
    pub primary: String,
    /// Since which epoch it does.
    pub since: u64,
    /// Changes of the map so far.
    pub epoch: u64,
    /// Histories of the volume that a person has given up, from 1 on.
    pub generation: u32,
    /// A person gave up another history for this one.
    pub forced: bool,
}
