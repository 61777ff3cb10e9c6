//! Why a volume cannot be made or removed.

use std::path::PathBuf;

use cards_admin::CopyState;
use cards_disk::{DiskError, ManagedError};
use cards_layout::layout::Layout;

use crate::error::Failure;
use crate::signals;

#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("{}: {source}", path.display())]
    Managed { path: PathBuf, source: Box<ManagedError> },
    #[error(
        "--layout {0}: volumes of this layout cannot be made yet; `raid1`, `raid10`, `raid0` and `linear` can (`cards layout explain {0}` says \
         what that layout will be)"
    )]
    NotBuilt(Layout),
    #[error(
        "--layout {0}: it is on disks of several nodes, and --disk names one; name them with --on NODE:DISK,NODE:DISK"
    )]
    OneDisk(Layout),
    #[error(
        "volume {volume:?}: node {node} of cluster {cluster} has a volume of this name, and no two of a cluster may: choose another one"
    )]
    NameTaken { volume: String, node: String, cluster: String },
    #[error("{}: volume {volume:?} and what is on it would be lost: to remove it, add --force={volume}", path.display())]
    NotForced { path: PathBuf, volume: String },
    #[error(
        "{}: this is a copy of mirrored volume {volume:?}, and other nodes may count on it: `cards volume remove {volume} --force={volume}` at a \
         daemon that runs removes the volume with all its copies. If no registry has the volume any more, --force={uuid} removes this copy",
        path.display()
    )]
    CopyNotForced { path: PathBuf, volume: String, uuid: String },
    #[error("volume {volume:?} and what is on it would be lost: to remove it, add --force={volume}")]
    MirrorNotForced { volume: String },
    #[error(
        "volume {volume:?} is on one disk of node {node}. If that is a plain disk (`path` or `uri` in [[disk]]), take it out of node.toml there, and \
         restart the daemon: what is on it stays. If it is a managed one, stop the daemon there, and run `cards volume remove {volume} --disk PATH \
         --force={volume}`"
    )]
    OnOneDisk { volume: String, node: String },
    #[error(
        "volume {volume:?} is created, but not made yet: {} not made a copy; start {}, where `cards status` says what is wrong, and `cards volume \
         show {volume}` when all have made theirs; or take it back with `cards volume remove {volume}`",
        have(waits_for),
        if waits_for.len() == 1 { "it if it is down" } else { "those that are down" }
    )]
    NotMade { volume: String, waits_for: Vec<String> },
    #[error(
        "volume {volume:?} is growing to {size} bytes, and has its old size until {} done {}; start {}, where `cards status` says what is wrong. It \
         goes on by itself: see `cards volume show {volume}`. `cards volume resize {volume} --cancel` keeps the size that it has",
        have(waits_for),
        if waits_for.len() == 1 { "its part" } else { "their parts" },
        if waits_for.len() == 1 { "it if it is down" } else { "those that are down" }
    )]
    NotGrown { volume: String, size: u64, waits_for: Vec<String> },
    #[error(
        "{}: volume {volume:?} grows to {size} bytes, and this goes on by itself: see `cards volume show {volume}`",
        why.as_ref().map_or_else(|| "interrupted".to_owned(), |why| format!("the daemon is gone ({why})"))
    )]
    GrowthGoesOn { volume: String, size: u64, why: Option<String> },
    #[error(
        "no answer of the daemon ({why}): volume {volume:?} may grow to {size} bytes or not. `cards volume show {volume}` says so; if it does, this goes \
         on by itself, else run this again"
    )]
    GrowthUnanswered { volume: String, size: u64, why: String },
    #[error("volume {volume:?} keeps its {size} bytes: its growth to {wanted} was cancelled meanwhile")]
    GrowthCancelled { volume: String, size: u64, wanted: u64 },
    #[error("volume {volume:?} has grown to {size} bytes before that could be cancelled")]
    GrownBefore { volume: String, size: u64 },
    #[error(
        "the growth of volume {volume:?} is cancelled, and it keeps its {size} bytes; this node has not heard of it yet: see `cards volume show {volume}`"
    )]
    CancelNotHeard { volume: String, size: u64 },
    #[error("volume {volume:?} has {size} bytes and is not growing: there is nothing to cancel")]
    NotGrowing { volume: String, size: u64 },
    #[error("volume {volume:?} is on one disk of node {node}: it has no other copies")]
    NoCopies { volume: String, node: String },
    #[error(
        "volume {volume:?} is shared among several parts, each with copies of its own: name the part, as in {volume}/0; `cards volume show \
         {volume}` lists them"
    )]
    NoPart { volume: String },
    #[error("volume {volume:?} has no copy at {from}: its copies are on {}", copies.join(", "))]
    NoCopyAt { volume: String, from: String, copies: Vec<String> },
    #[error(
        "volume {volume:?}: the copy at node {node} is {state}, and is not to be forced; if the volume is not served, `cards status` at that node says \
         what to do"
    )]
    NotStale { volume: String, node: String, state: CopyState },
    #[error(
        "volume {volume:?}: the copy at node {node} {has} is lost for ever{gone}. If that is what you want, add \
         --force={volume}@{since}"
    )]
    ForceNotTyped { volume: String, node: String, has: String, gone: String, since: u64 },
    #[error(
        "volume {volume:?} has a copy in sync on {copy}, and its node is {state}: nothing has to be forced; if it is not served, `cards status` at \
         that node says why. If that node or its disk does not come back, stop its daemon, and try again when `cards status` calls it dead"
    )]
    ForceNotNeeded { volume: String, copy: String, state: &'static str },
    #[error("volume {volume:?} was removed while it was being made")]
    Gone { volume: String },
}

/// Nodes that something is due of.
fn have(nodes: &[String]) -> String {
    match nodes {
        [] => "its nodes have".to_owned(),
        [one] => format!("node {one} has"),
        nodes => format!("nodes {} have", nodes.join(", ")),
    }
}

impl Failure for VolumeError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotBuilt(_) | Self::OneDisk(_) => 2,
            Self::GrowthGoesOn { why: None, .. } => signals::interrupted(),
            _ => 1,
        }
    }
}
