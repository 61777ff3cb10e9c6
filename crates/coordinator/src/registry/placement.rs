//! Where the columns of a new volume go: one in each failure domain and at each node, on the disks with the most free space.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cards_layout::format::Uuid;

use crate::change::NewGroup;
use crate::record::{ColumnState, GroupColumn, GroupVolume, ManagedDisk, MemberState};
use crate::refusal::{DiskSpace, Refusal};

use super::Registry;

/// Bytes of disks that other columns of the same change are to have.
pub(super) type Promised = BTreeMap<Uuid, u64>;

/// The disks for the columns of a new volume, in their order: those that it names, or those with the most free space.
pub(super) fn place<'a>(registry: &'a Registry, new: &NewGroup) -> Result<Vec<&'a ManagedDisk>, Refusal> {
    if new.on.is_empty() { choose(registry, new) } else { named(registry, new) }
}

fn choose<'a>(registry: &'a Registry, new: &NewGroup) -> Result<Vec<&'a ManagedDisk>, Refusal> {
    let mut disks: Vec<(u64, &ManagedDisk)> = registry
        .managed
        .values()
        .filter(|disk| is_joined(registry, disk))
        .map(|disk| (registry.room_on(disk), disk))
        .collect();
    // Of equal space, in the order of domains and disks.
    disks.sort_by_key(|(room, disk)| (Reverse(*room), &disk.domain, disk.uuid));
    // The best one of each domain and node: a node has several domains if its disks were formatted so.
    let mut order: Vec<(u64, &ManagedDisk)> = Vec::new();
    for (room, disk) in disks {
        if order.iter().all(|(_, other)| !is_near(disk, other)) {
            order.push((room, disk));
        }
    }
    let copies = usize::from(new.copies);
    let fits = |(room, disk): &(u64, &ManagedDisk)| disk.taken_by(new.bytes) <= *room;
    let fitting = order.iter().filter(|best| fits(best)).count();
    if fitting < copies {
        let joined = order.iter().map(|(room, disk)| DiskSpace::new(disk, *room));
        let domains = joined.chain(away(registry)).collect();
        let (volume, copies, bytes) = (new.name.clone(), new.copies, new.bytes);
        return Err(Refusal::NoPlace { volume, copies, bytes, fitting, domains });
    }
    Ok(order.into_iter().filter(fits).take(copies).map(|(_, disk)| disk).collect())
}

/// The disk for a column that takes the place of another one, which is in sync or not: apart from all others that stay.
pub(super) fn successor<'a>(
    registry: &'a Registry,
    group: &GroupVolume,
    (leaving, is_in_sync): (&GroupColumn, bool),
    to: Option<Uuid>,
    promised: &Promised,
) -> Result<&'a ManagedDisk, Refusal> {
    let room_on = |disk: &ManagedDisk| {
        registry.room_on(disk).saturating_sub(promised.get(&disk.uuid).copied().unwrap_or(0))
    };
    let disk_of = |column: &GroupColumn| registry.managed.get(&column.disk);
    let others: Vec<&ManagedDisk> = group
        .there()
        .filter(|(_, column)| column.disk != leaving.disk && column.state != ColumnState::Leaving)
        .filter_map(|(_, column)| disk_of(column))
        .collect();
    // A group has one process at a node: a copy that is read from has to be elsewhere.
    let has_column = |disk: &ManagedDisk| {
        let columns = group.there().filter(|(_, column)| column.node == disk.node);
        columns.into_iter().find(|(_, column)| is_in_sync || column.disk != leaving.disk)
    };
    if let Some(uuid) = to {
        let Some(disk) = registry.managed.get(&uuid) else {
            return Err(Refusal::UnknownManagedDisk { disk: uuid.to_string() });
        };
        if !is_joined(registry, disk) {
            return Err(Refusal::DiskAway { disk: disk.name.clone(), node: disk.node.clone() });
        }
        if group.there().any(|(_, column)| column.disk == uuid) {
            return Err(Refusal::HasCopy { volume: group.described(), disk: disk.place() });
        }
        if let Some(other) = others.iter().find(|other| is_near(disk, other)) {
            let (disks, domain) = (format!("{} and {}", disk.place(), other.place()), other.domain.clone());
            return Err(Refusal::SameDomain { volume: group.described(), disks, domain });
        }
        if let Some((_, column)) = has_column(disk) {
            let (disk, copy) = (disk.place(), column.place());
            return Err(Refusal::SameNode { volume: group.described(), disk, copy });
        }
        let room = room_on(disk);
        if disk.taken_by(group.column_bytes()) > room {
            let (volume, bytes, free) = (group.described(), disk.taken_by(group.column_bytes()), disk.free);
            return Err(Refusal::NoRoom { volume, disk: disk.place(), bytes, free, room });
        }
        return Ok(disk);
    }
    let mut disks: Vec<(u64, &ManagedDisk)> = registry
        .managed
        .values()
        .filter(|disk| is_joined(registry, disk) && disk.uuid != leaving.disk)
        .filter(|disk| others.iter().all(|other| !is_near(disk, other)) && has_column(disk).is_none())
        .map(|disk| (room_on(disk), disk))
        .collect();
    disks.sort_by_key(|(room, disk)| (Reverse(*room), &disk.domain, disk.uuid));
    match disks.first() {
        Some((room, disk)) if disk.taken_by(group.column_bytes()) <= *room => Ok(disk),
        _ => {
            let domains = disks.iter().map(|(room, disk)| DiskSpace::new(disk, *room)).collect();
            let (volume, from, bytes) = (group.described(), leaving.place(), group.column_bytes());
            Err(Refusal::NoSpare { volume, from, bytes, domains })
        }
    }
}

/// One failure may take both.
pub(super) fn is_near(one: &ManagedDisk, other: &ManagedDisk) -> bool {
    one.domain == other.domain || one.node == other.node
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
        if disks.iter().any(|other| other.uuid == disk.uuid) {
            return Err(Refusal::SameDisk { volume: volume(), disk: disk.place() });
        }
        if let Some(other) = disks.iter().find(|other| is_near(disk, other)) {
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

/// The managed disks that cannot be used because their nodes are not joined.
pub(super) fn away(registry: &Registry) -> impl Iterator<Item = DiskSpace> + '_ {
    let away = registry.managed.values().filter(|disk| !is_joined(registry, disk));
    away.map(|disk| DiskSpace { is_away: true, ..DiskSpace::new(disk, 0) })
}

pub(super) fn is_joined(registry: &Registry, disk: &ManagedDisk) -> bool {
    registry.members.get(&disk.node).is_some_and(|member| member.state == MemberState::Joined)
}

impl Registry {
    /// A disk as people call it; its UUID if no node has told of it.
    pub(super) fn place_of(&self, disk: Uuid) -> String {
        self.managed.get(&disk).map_or_else(|| disk.to_string(), ManagedDisk::place)
    }

    /// Bytes of a disk that a new column can have.
    pub(super) fn room_on(&self, disk: &ManagedDisk) -> u64 {
        disk.room(self.groups.values())
    }
}
