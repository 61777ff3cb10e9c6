//! Volumes of this node's managed disks, read and compared with their checksums.

use std::sync::Arc;

use cards_admin::{Damage, Refusal, RefusalKind, SCRUB_BYTES_MAX, Scrubbed};

use crate::groups;
use crate::node::Node;

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
        if !spec.id.is_plain() {
            return groups::damage::scrub(node, volume, spec.id, offset, length).await;
        }
        let at = node.primary_name(spec.id);
        let message = format!("the disk of volume {volume} is at node {at}: ask the daemon there");
        return Err(refused(RefusalKind::Failed, message));
    };
    let Some(managed) = node.disks[number].managed() else {
        let message =
            format!("volume {volume} is a plain disk, which has no checksums; see `cards disk format`");
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
