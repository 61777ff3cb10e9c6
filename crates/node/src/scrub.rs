//! Volumes of this node's managed disks, read and compared with their checksums: when a person asks for it, or by the `schedule`.

pub(crate) mod schedule;

use std::sync::Arc;

use cards_admin::{Damage, Refusal, RefusalKind, SCRUB_BYTES_MAX, Scrubbed};

use cards_core::{PgId, VolumeSpec};

use crate::groups;
use crate::inquiry::{self, Question};
use crate::node::Node;
use crate::node::parts::Parts;

/// Looks at a part of a volume.
pub(crate) async fn part(
    node: &Arc<Node>,
    volume: &str,
    offset: u64,
    length: u64,
) -> Result<Scrubbed, Refusal> {
    let refused = |kind, message: String| Refusal { kind, message };
    if length > SCRUB_BYTES_MAX {
        let message = format!("{length} bytes are more than one request may look at, {SCRUB_BYTES_MAX}");
        return Err(refused(RefusalKind::BadRequest, message));
    }
    let Some(number) = node.own.iter().position(|spec| spec.name == volume) else {
        let spec = node.volume(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
        if node.groups.striped(volume).is_some() {
            let parts = node.parts(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
            return several(node, &spec, &parts, offset, length).await;
        }
        if !spec.id.is_plain() {
            return groups::damage::scrub(node, volume, spec.id, offset, length).await;
        }
        let at = node.primary_name(spec.id);
        let message = format!("the disk of volume {volume} is at node {at}: run this command there");
        return Err(refused(RefusalKind::Failed, message));
    };
    let Some(managed) = node.disks[number].managed() else {
        let message = format!(
            "volume {volume} is a plain disk, which has no checksums: only volumes on managed disks have. `cards disk format` makes another disk \
                 a managed one, and erases what is on it"
        );
        return Err(refused(RefusalKind::Failed, message));
    };
    let found = managed.scrub_async(volume, offset, length).await;
    let found = found.map_err(|error| refused(RefusalKind::Failed, format!("volume {volume}: {error}")))?;
    node.damage[number].was_scrubbed(
        offset,
        found.bytes,
        found.places.iter().map(|place| (place.offset, place.length)),
    );
    if found.damaged > 0 {
        tracing::error!(
            volume,
            damaged = found.damaged,
            first = found.places.first().map(|place| place.offset),
            "a scrub has found damaged data: write them anew from a backup, and see to the device"
        );
    }
    Ok(scrubbed(found))
}

/// Looks at a part of a volume over several groups: each at the node that leads it.
async fn several(
    node: &Arc<Node>,
    spec: &VolumeSpec,
    parts: &Parts,
    offset: u64,
    length: u64,
) -> Result<Scrubbed, Refusal> {
    let refused = |message: String| Refusal { kind: RefusalKind::Failed, message };
    let Some(end) = offset.checked_add(length).filter(|end| *end <= spec.size_bytes) else {
        return Err(refused(format!("volume {} has {} bytes", spec.name, spec.size_bytes)));
    };
    let (mut at, mut sum) = (offset, Scrubbed::default());
    while at < end {
        let left = u32::try_from(end - at).unwrap_or(u32::MAX);
        let (group, begin, length) = parts.bytes(spec.block_bytes.into(), at, left);
        let Some(primary) = node.groups.primary(group) else {
            return Err(refused(format!("volume {} has a part without a primary; try again", spec.name)));
        };
        let found: Scrubbed = match primary == node.me {
            true => self::group(node, group, begin, length.into()).await?,
            false => {
                let question = Question::Scrub { group: group.0, offset: begin, length: length.into() };
                inquiry::ask(node, primary, &question).await?
            }
        };
        sum.bytes += found.bytes;
        sum.unverified += found.unverified;
        sum.damaged += found.damaged;
        sum.repaired += found.repaired;
        let places = found.places.into_iter();
        sum.places
            .extend(places.map(|place| Damage { offset: at + place.offset.saturating_sub(begin), ..place }));
        at += u64::from(length);
    }
    Ok(sum)
}

/// Looks at a part of a group that this node leads.
///
/// # Errors
/// It does not lead it, or there is no such group.
pub(crate) async fn group(
    node: &Arc<Node>,
    group: PgId,
    offset: u64,
    length: u64,
) -> Result<Scrubbed, Refusal> {
    let name = node.groups.get(group).map_or_else(String::new, |known| known.record.described());
    if length > SCRUB_BYTES_MAX {
        let message = format!("{length} bytes are more than one request may look at, {SCRUB_BYTES_MAX}");
        return Err(Refusal { kind: RefusalKind::BadRequest, message });
    }
    groups::damage::scrub(node, &name, group, offset, length).await
}

/// What a managed disk has found, as it is told.
#[must_use]
pub fn scrubbed(found: cards_disk::Scrub) -> Scrubbed {
    let damage = |place: cards_disk::DamagedPlace| Damage {
        offset: place.offset,
        length: place.length,
        reason: place.reason(),
        repaired: false,
    };
    Scrubbed {
        bytes: found.bytes,
        unverified: found.unverified,
        damaged: found.damaged,
        repaired: 0,
        places: found.places.into_iter().map(damage).collect(),
    }
}
