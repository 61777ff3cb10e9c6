//! Volumes over managed disks of several nodes, as the registry has them: for people, and what people want created.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_admin::{
    Growing, Mirror, MirrorState, NewVolume, Part, Refusal, RefusalKind, ScrubState, Striped, Volume,
    VolumeState,
};
use cards_config::{PolicySpec, size};
use cards_coordinator::{AttachMode, Change, GroupState, GroupVolume, NewGroup, NewStriped, StripedVolume};
use cards_core::{PgId, VolumeSpec};
use cards_layout::layout::Layout;
use cards_policies::policy::normalize;

use crate::groups::mirror;
use crate::membership::coordinate;
use crate::node::Node;
use crate::node::groups::Known;
use crate::node::membership::Order;
use crate::report;
use crate::scrub::schedule;

/// The volumes of the cluster, those that are being made and removed included.
pub(crate) fn volumes(node: &Node) -> Vec<Volume> {
    let mut volumes = report::volumes(node);
    for known in node.groups.all().iter().filter(|known| known.record.part.is_none()) {
        let mirror = Some(Box::new(mirror(node, &known.record, known.map.as_ref())));
        match volumes.iter_mut().find(|volume| volume.name == known.record.name) {
            // A card waits for it here, which knows the name only.
            Some(volume) if volume.size == 0 => {
                let attached = volume.attached.take();
                *volume = Volume { attached, mirror, ..unattached(node, &known.record) };
            }
            Some(volume) => volume.mirror = mirror,
            None => volumes.push(Volume { mirror, ..unattached(node, &known.record) }),
        }
    }
    for known in node.groups.all_striped() {
        let striped = Some(Box::new(striped(node, &known)));
        match volumes.iter_mut().find(|volume| volume.name == known.name) {
            Some(volume) if volume.size == 0 => {
                let attached = volume.attached.take();
                *volume = Volume { attached, striped, ..unready_striped(node, &known) };
            }
            Some(volume) => volume.striped = striped,
            None => volumes.push(Volume { striped, ..unready_striped(node, &known) }),
        }
    }
    for volume in &mut volumes {
        volume.scrub = scrub_state(node, &volume.name);
    }
    volumes.sort_by(|one, other| one.name.cmp(&other.name));
    volumes
}

/// When a volume that has checksums is scrubbed.
fn scrub_state(node: &Node, volume: &str) -> Option<ScrubState> {
    let groups = node.groups.all();
    let of = groups.iter().map(|known| &**known).filter(|known| known.record.volume() == volume);
    schedule::shown(node, of).or_else(|| schedule::shown_own(node, volume))
}

/// How a volume over several groups stands, as far as this node knows.
fn striped(node: &Node, record: &StripedVolume) -> Striped {
    let parts = record.groups.iter().filter_map(|number| node.groups.get(PgId(*number)));
    let part = |known: Arc<Known>| Part {
        part: known.record.group(),
        size: known.record.bytes,
        mirror: Mirror {
            layout: record.layout.to_string(),
            ..mirror(node, &known.record, known.map.as_ref())
        },
    };
    let parts: Vec<Part> = parts.map(part).collect();
    let grows = record.grows_to.map(|to| {
        let waiting = parts.iter().filter_map(|part| part.mirror.grows.as_ref());
        let waits_for: BTreeSet<String> = waiting.flat_map(|grows| grows.waits_for.clone()).collect();
        Growing { to, waits_for: waits_for.into_iter().collect() }
    });
    Striped {
        uuid: record.uuid.to_string(),
        layout: record.layout.to_string(),
        bundle: record.bundle_bytes,
        state: match record.state {
            GroupState::Making => MirrorState::Making,
            GroupState::Ready => MirrorState::Ready,
            GroupState::Removing => MirrorState::Removing,
        },
        parts,
        grows,
    }
}

/// A volume over several groups, not all of which the core of this node knows.
fn unready_striped(node: &Node, record: &StripedVolume) -> Volume {
    let reason = match record.state {
        GroupState::Making => "its parts are being made",
        GroupState::Ready => "the primaries of its parts have not all been heard yet",
        GroupState::Removing => "it was removed; its parts go when their nodes are there",
    };
    waiting(node, &record.name, record.bytes, record.block_bytes, &record.policy, &record.modes, reason)
}

/// A volume as the registry has it, and why it cannot be used yet, or any more.
fn waiting(
    node: &Node,
    name: &str,
    bytes: u64,
    block_bytes: u64,
    policy: &str,
    modes: &BTreeSet<AttachMode>,
    reason: &str,
) -> Volume {
    let (state, reason) = match node.first_still(name) {
        Some(old) => (VolumeState::Offline, old.reason()),
        None => (VolumeState::Waiting, reason.to_owned()),
    };
    Volume {
        name: name.to_owned(),
        disk_node: None,
        size: bytes,
        block: u32::try_from(block_bytes).unwrap_or(u32::MAX),
        policy: policy.parse().ok(),
        coherence: None,
        read_only: Some(modes.iter().all(|mode| *mode == AttachMode::Ro)),
        state,
        reason: Some(reason),
        attached: None,
        cached_blocks: 0,
        io: cards_admin::Io::default(),
        mirror: None,
        striped: None,
        scrub: None,
        auto: None,
    }
}

/// A volume that the core of this node does not know.
fn unattached(node: &Node, record: &GroupVolume) -> Volume {
    let reason = match record.state {
        GroupState::Making => "its copies are being made",
        GroupState::Ready => "its primary has not been heard yet",
        GroupState::Removing => "it was removed; its copies go when their nodes are there",
    };
    waiting(node, &record.name, record.bytes, record.block_bytes, &record.policy, &record.modes, reason)
}

/// How long a request waits for a volume that this node is about to know.
const KNOWN: Duration = Duration::from_secs(10);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A volume as the core knows it. One that was created a moment ago is waited for, while its copies are made and until its primary is
/// heard of.
///
/// # Errors
/// There is none of that name, or it is not ready by then: what is waited for.
pub(crate) async fn known(node: &Arc<Node>, volume: &str) -> Result<VolumeSpec, Refusal> {
    let deadline = Instant::now() + KNOWN;
    let mut is_registered = None;
    loop {
        if let Some(spec) = node.volume(volume) {
            return Ok(spec);
        }
        let is_coming = node.groups.has(volume)
            || match is_registered {
                Some(is_registered) => is_registered,
                // This node may not have heard of it yet.
                None => *is_registered.insert(registry_has(node, volume).await),
            };
        if !is_coming {
            return Err(Refusal::no_such_volume(volume));
        }
        if Instant::now() >= deadline {
            return Err(unready(node, volume).unwrap_or_else(|| {
                let message = format!(
                    "volume {volume} has a primary that has not been heard of for {} s; see `cards volume show {volume}`",
                    KNOWN.as_secs()
                );
                Refusal { kind: RefusalKind::Unreachable, message }
            }));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the registry has copies of a volume on disks.
async fn registry_has(node: &Node, volume: &str) -> bool {
    let disks = coordinate(node, |done| Order::ManagedDisks { done }).await.unwrap_or_default();
    disks.iter().any(|disk| disk.copies.iter().any(|copy| copy == volume))
}

/// Why a volume that is being made or removed, or a group of which stands still, cannot be attached.
pub(crate) fn unready(node: &Node, volume: &str) -> Option<Refusal> {
    if let Some(old) = node.first_still(volume) {
        let message = format!("volume {volume}: {}; {}", old.described(), old.remedy());
        return Some(Refusal { kind: RefusalKind::Failed, message });
    }
    if let Some(known) = node.groups.striped(volume).filter(|known| known.state != GroupState::Ready) {
        let health = striped(node, &known).health();
        let message = format!("volume {volume} is {health}; see `cards volume show {volume}`");
        return Some(Refusal { kind: RefusalKind::Failed, message });
    }
    let known = node.groups.all().into_iter().find(|known| known.record.name == volume);
    let known = known.filter(|known| known.record.state != GroupState::Ready)?;
    let health = mirror(node, &known.record, known.map.as_ref()).health();
    let message = format!("volume {volume} is {health}; see `cards volume show {volume}`");
    Some(Refusal { kind: RefusalKind::Failed, message })
}

/// The registry knows of attachments a moment later.
///
/// # Errors
/// The volume is attached at this node.
pub(crate) fn check_detached(node: &Node, volume: &str) -> Result<(), Refusal> {
    if node.cards.find(volume).is_none_or(|card| card.attach.volume != volume) {
        return Ok(());
    }
    let message =
        format!("volume {volume} is attached at this node; run `cards volume detach {volume}` first");
    Err(Refusal { kind: RefusalKind::Busy, message })
}

/// What the registry is asked for, and the disks that it names.
///
/// # Errors
/// Its policy is none, or this node cannot cache its blocks.
pub(crate) fn new(node: &Node, new: NewVolume) -> Result<(Change, Vec<String>), Refusal> {
    let NewVolume { name, size, layout, copies, on, block, policy } = new;
    let bad = |message: String| Refusal { kind: RefusalKind::BadRequest, message };
    let own = node.config.block;
    if let Some(block) = block.filter(|block| *block != own) {
        return Err(bad(format!(
            "volume {name}: blocks of {} cannot be cached here: `block` of this node is {}, and a volume has the same; leave it out",
            size::human(block),
            size::human(own)
        )));
    }
    let policy = policy.unwrap_or_else(PolicySpec::default).to_string();
    let policy =
        normalize(&policy).map_err(|error| bad(format!("volume {name}: policy {policy}: {error}")))?;
    if let Some(layout) = layout {
        let layout: Layout = layout.parse().map_err(|error| bad(format!("volume {name}: {error}")))?;
        let new = NewStriped {
            name,
            uuid: NewGroup::new_uuid(),
            layout,
            bytes: size,
            block_bytes: own,
            policy,
            modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive]),
            on: Vec::new(),
        };
        return Ok((Change::CreateStriped(new), on));
    }
    let new = NewGroup {
        name,
        uuid: NewGroup::new_uuid(),
        bytes: size,
        block_bytes: own,
        policy,
        modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive]),
        copies,
        on: Vec::new(),
    };
    Ok((Change::CreateGroup(new), on))
}
