//! Where the columns of a new volume go: one in each failure domain, and there on the disk with the most free space.

use std::collections::BTreeMap;

use crate::change::NewGroup;
use crate::record::{ColumnState, GroupColumn, ManagedDisk, MemberState};
use crate::refusal::{DiskSpace, Refusal};

use super::Registry;

/// The disks for the columns of a new volume, in their order: those that it names, or those with the most free space.
pub(super) fn place<'a>(registry: &'a Registry, new: &NewGroup) -> Result<Vec<&'a ManagedDisk>, Refusal> {
    if new.on.is_empty() { choose(registry, new) } else { named(registry, new) }
}

fn choose<'a>(registry: &'a Registry, new: &NewGroup) -> Result<Vec<&'a ManagedDisk>, Refusal> {
    // The best disk of each domain.
    let mut best: BTreeMap<&str, (u64, &ManagedDisk)> = BTreeMap::new();
    for disk in registry.managed.values().filter(|disk| is_joined(registry, disk)) {
        let room = registry.room_on(disk);
        let is_better = best.get(disk.domain.as_str()).is_none_or(|(most, _)| room > *most);
        if is_better {
            best.insert(&disk.domain, (room, disk));
        }
    }
    let mut order: Vec<(u64, &ManagedDisk)> = best.into_values().collect();
    // Domains of equal space stay in the order of their names.
    order.sort_by(|(one, _), (other, _)| other.cmp(one));
    let copies = usize::from(new.copies);
    let fitting = order.iter().filter(|(room, disk)| disk.taken_by(new.bytes) <= *room).count();
    if fitting < copies {
        let domains = order.iter().map(|(room, disk)| DiskSpace::new(disk, *room)).collect();
        let (volume, copies, bytes) = (new.name.clone(), new.copies, new.bytes);
        return Err(Refusal::NoPlace { volume, copies, bytes, fitting, domains });
    }
    let fits = |(room, disk): &(u64, &ManagedDisk)| disk.taken_by(new.bytes) <= *room;
    Ok(order.into_iter().filter(fits).take(copies).map(|(_, disk)| disk).collect())
}

fn named<'a>(registry: &'a Registry, new: &NewGroup) -> Result<Vec<&'a ManagedDisk>, Refusal> {
    let volume = || new.name.clone();
    if new.on.len() != usize::from(new.copies) {
        return Err(Refusal::OtherCopies { volume: volume(), copies: new.copies, disks: new.on.len() });
    }
    let mut disks: Vec<&ManagedDisk> = Vec::new();
    for uuid in &new.on {
        let Some(disk) = registry.managed.get(uuid) else {
            return Err(Refusal::UnknownManagedDisk { disk: uuid.to_string() });
        };
        let (name, node) = (disk.name.clone(), disk.node.clone());
        if !is_joined(registry, disk) {
            return Err(Refusal::DiskAway { disk: name, node });
        }
        let is_near = |other: &&&ManagedDisk| other.domain == disk.domain || other.node == disk.node;
        if let Some(other) = disks.iter().find(is_near) {
            let (disks, domain) = (format!("{} and {}", disk.place(), other.place()), disk.domain.clone());
            return Err(Refusal::SameDomain { volume: volume(), disks, domain });
        }
        let room = registry.room_on(disk);
        if disk.taken_by(new.bytes) > room {
            let domains = vec![DiskSpace::new(disk, room)];
            let (copies, bytes) = (new.copies, new.bytes);
            return Err(Refusal::NoPlace { volume: volume(), copies, bytes, fitting: disks.len(), domains });
        }
        disks.push(disk);
    }
    Ok(disks)
}

fn is_joined(registry: &Registry, disk: &ManagedDisk) -> bool {
    registry.members.get(&disk.node).is_some_and(|member| member.state == MemberState::Joined)
}

impl Registry {
    /// Bytes of a disk that a new column can have: what is free, less the columns that are still to be made there.
    pub(super) fn room_on(&self, disk: &ManagedDisk) -> u64 {
        let is_due = |column: &GroupColumn| column.disk == disk.uuid && column.state == ColumnState::Missing;
        let due = self.groups.values().filter(|group| group.columns.iter().any(is_due));
        let reserved = due.fold(0, |sum: u64, group| sum.saturating_add(disk.taken_by(group.bytes)));
        disk.free.saturating_sub(reserved)
    }
}
