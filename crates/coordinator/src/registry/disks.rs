//! Disks and the volumes on them.

use crate::record::{Disk, Record, Volume, Write};
use crate::refusal::Refusal;
use crate::seat::Seat;

use super::draft::Draft;
use super::{DISKS_MAX, POLICY_BYTES_MAX, REMOVALS_MAX, VOLUMES_MAX, check_name};

/// Block sizes a volume can have, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 20;

pub(super) fn put_disk(draft: &mut Draft<'_>, seat: &Seat, id: &str, bytes: u64) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.joined(seat)?;
    check_name("disk", id)?;
    let disk = Disk { id: id.to_owned(), node: seat.name.clone(), bytes };
    let live = |name: &str| registry.members.get(name).is_some_and(|member| member.state.is_live());
    match registry.disks.get(id) {
        Some(before) if *before == disk => return Ok(()),
        Some(before) if before.node != seat.name && live(&before.node) => {
            return Err(Refusal::DiskInUse { disk: id.to_owned(), node: before.node.clone() });
        }
        Some(_) => {}
        None if registry.disks.len() >= DISKS_MAX => {
            return Err(Refusal::TooMany { kind: "disks".to_owned(), max: DISKS_MAX });
        }
        None => {}
    }
    draft.write(Write::Put(Record::Disk(disk)));
    Ok(())
}

pub(super) fn remove_disk(draft: &mut Draft<'_>, id: &str, with_volumes: bool) -> Result<(), Refusal> {
    let registry = draft.registry;
    if !registry.disks.contains_key(id) {
        return check_name("disk", id);
    }
    let volumes = || registry.volumes.values().filter(|volume| volume.disk == id);
    if let Some(volume) = volumes().next().filter(|_| !with_volumes) {
        return Err(Refusal::HasVolume { disk: id.to_owned(), volume: volume.name.clone() });
    }
    // What refers to a record goes before it, so that any part of the list leaves a registry without contradictions.
    let attached =
        registry.attachments.values().filter(|held| volumes().any(|volume| volume.name == held.volume));
    let removals = attached
        .map(|held| Write::DeleteAttachment { node: held.node.clone(), volume: held.volume.clone() })
        .chain(volumes().map(|volume| Write::DeleteVolume(volume.name.clone())))
        .chain([Write::DeleteDisk(id.to_owned())]);
    removals.take(REMOVALS_MAX).for_each(|removal| draft.write(removal));
    Ok(())
}

pub(super) fn put_volume(draft: &mut Draft<'_>, volume: &Volume) -> Result<(), Refusal> {
    let registry = draft.registry;
    let name = &volume.name;
    check_name("volume", name)?;
    check_name("disk", &volume.disk)?;
    check_policy(name, &volume.policy)?;
    check_block(name, volume.block_bytes)?;
    if registry.groups.contains_key(name) || registry.striped.contains_key(name) {
        return Err(Refusal::VolumeExists { volume: name.clone() });
    }
    if volume.modes.is_empty() {
        return Err(Refusal::NoModes { volume: name.clone() });
    }
    if !registry.disks.contains_key(&volume.disk) {
        return Err(Refusal::UnknownDisk { disk: volume.disk.clone() });
    }
    match registry.volumes.get(name) {
        Some(before) if before == volume => return Ok(()),
        Some(before) => {
            let only_policy = Volume { policy: volume.policy.clone(), ..before.clone() } == *volume;
            if !only_policy {
                check_detached(draft, name)?;
            }
        }
        None if registry.volumes.len() >= VOLUMES_MAX => {
            return Err(Refusal::TooMany { kind: "volumes".to_owned(), max: VOLUMES_MAX });
        }
        None => {}
    }
    draft.write(Write::Put(Record::Volume(volume.clone())));
    Ok(())
}

pub(super) fn remove_volume(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    if !draft.registry.volumes.contains_key(name) {
        return check_name("volume", name);
    }
    check_detached(draft, name)?;
    draft.write(Write::DeleteVolume(name.to_owned()));
    Ok(())
}

pub(super) fn set_policy(draft: &mut Draft<'_>, name: &str, policy: &str) -> Result<(), Refusal> {
    check_name("volume", name)?;
    check_policy(name, policy)?;
    let Some(volume) = draft.registry.volumes.get(name) else {
        return Err(Refusal::UnknownVolume { volume: name.to_owned() });
    };
    if volume.policy != policy {
        draft.write(Write::Put(Record::Volume(Volume { policy: policy.to_owned(), ..volume.clone() })));
    }
    Ok(())
}

/// Refuses block sizes that no volume can have.
pub(super) fn check_block(volume: &str, bytes: u64) -> Result<(), Refusal> {
    if bytes.is_power_of_two() && BLOCK_BYTES.contains(&bytes) {
        return Ok(());
    }
    Err(Refusal::BadBlockSize { volume: volume.to_owned(), bytes })
}

pub(super) fn check_policy(volume: &str, policy: &str) -> Result<(), Refusal> {
    if (1..=POLICY_BYTES_MAX).contains(&policy.len()) {
        return Ok(());
    }
    let (volume, bytes) = (volume.to_owned(), policy.len());
    Err(Refusal::BadPolicy { volume, bytes, bytes_max: POLICY_BYTES_MAX })
}

pub(super) fn check_detached(draft: &Draft<'_>, volume: &str) -> Result<(), Refusal> {
    match draft.registry.attachments.values().find(|held| held.volume == volume) {
        Some(held) => Err(Refusal::StillAttached { volume: volume.to_owned(), node: held.node.clone() }),
        None => Ok(()),
    }
}
