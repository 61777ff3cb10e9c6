//! Managed disks, the volumes over them, and the maps of those.

use std::collections::BTreeSet;

use cards_array::group::{COLUMNS_MAX, Map, MapBytesError, Member as Process, State, Term};
use cards_core::NodeId;
use cards_layout::domain::Name;
use cards_layout::format::{UNIT, Uuid};

use crate::change::{NewExclusivity, NewGroup, NewMap, ToldColumn, ToldDisk};
use crate::record::{
    AttachMode, ColumnState, GroupColumn, GroupMap, GroupNumbers, GroupState, GroupVolume, ManagedDisk,
    Record, Write,
};
use crate::refusal::Refusal;
use crate::seat::Seat;

use super::disks::{check_block, check_detached, check_policy};
use super::draft::Draft;
use super::growth::{self, without_growth};
use super::placement::{self, Promised};
use super::striped;
use super::{DOMAIN_BYTES_MAX, GROUPS_MAX, MANAGED_DISKS_MAX, REMOVALS_MAX, Registry, check_name, printable};

/// Blocks are numbered in 32 bits.
const BLOCKS_MAX: u64 = u32::MAX as u64;

pub(super) fn put_disk(draft: &mut Draft<'_>, seat: &Seat, told: &ToldDisk) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.joined(seat)?;
    check_name("managed disk", &told.name)?;
    let domain = told.domain.clone().unwrap_or_else(|| seat.name.clone());
    let is_domain = (1..=DOMAIN_BYTES_MAX).contains(&domain.len())
        && domain.split('/').all(|part| check_name("failure domain", part).is_ok());
    if !is_domain {
        let length_max = DOMAIN_BYTES_MAX;
        return Err(Refusal::BadName {
            kind: "failure domain".to_owned(),
            name: printable(&domain),
            length_max,
        });
    }
    let disk = ManagedDisk {
        uuid: told.uuid,
        name: told.name.clone(),
        node: seat.name.clone(),
        bytes: told.bytes,
        free: told.free,
        piece_bytes: told.piece_bytes,
        domain,
    };
    match registry.managed.get(&told.uuid) {
        Some(before) if *before == disk => return Ok(()),
        Some(before) if before.node != seat.name => {
            let (disk, node) = (disk.place(), before.node.clone());
            if registry.members.get(&before.node).is_some_and(|member| member.state.is_live()) {
                return Err(Refusal::DiskCloned { disk, uuid: told.uuid.to_string(), node });
            }
            if let Some(volume) = registry.columns_on(told.uuid).next() {
                return Err(Refusal::DiskMoved { disk, node, volume: volume.volume().to_owned() });
            }
        }
        Some(_) => {}
        None if registry.managed.len() >= MANAGED_DISKS_MAX => {
            return Err(Refusal::TooMany { kind: "managed disks".to_owned(), max: MANAGED_DISKS_MAX });
        }
        None => {}
    }
    if let Some(other) = registry
        .managed
        .values()
        .find(|other| other.node == disk.node && other.name == disk.name && other.uuid != disk.uuid)
        && let Some(volume) = registry.columns_on(other.uuid).next()
    {
        return Err(Refusal::DiskReplaced {
            disk: disk.place(),
            uuid: other.uuid.to_string(),
            volume: volume.volume().to_owned(),
        });
    }
    draft.write(Write::Put(Record::ManagedDisk(disk)));
    Ok(())
}

/// Of the columns on it at most [`REMOVALS_MAX`] at once: repeated until it changes nothing.
pub(super) fn remove_disk(draft: &mut Draft<'_>, uuid: Uuid) -> Result<(), Refusal> {
    let registry = draft.registry;
    let Some(disk) = registry.managed.get(&uuid) else { return Ok(()) };
    let is_live = registry.members.get(&disk.node).is_some_and(|member| member.state.is_live());
    for (count, group) in registry.columns_on(uuid).enumerate() {
        if count == REMOVALS_MAX / 2 {
            return Ok(());
        }
        let has_left = group.there().filter(|(_, column)| column.disk == uuid).all(|(number, column)| {
            column.state == ColumnState::Leaving && !registry.is_in_map(group, number)
        });
        if !has_left && (is_live || group.state != GroupState::Removing) {
            let (disk, node, volume) = (disk.name.clone(), disk.node.clone(), group.volume().to_owned());
            return Err(Refusal::HasColumn { disk, node, volume });
        }
        removed(draft, group, |column| column.disk == uuid);
    }
    draft.write(Write::DeleteManagedDisk(uuid));
    Ok(())
}

/// Whether a volume over managed disks can have the name and the UUID: false if it has them already, because the answer was lost.
pub(super) fn is_new(registry: &Registry, name: &str, uuid: Uuid) -> Result<bool, Refusal> {
    check_name("volume", name)?;
    // The disks have it in their tables.
    if name.parse::<Name>().is_err() {
        return Err(Refusal::BadDiskName { volume: name.to_owned() });
    }
    if let Some(volume) = registry.volumes.get(name) {
        let node = registry.disks.get(&volume.disk).map(|disk| disk.node.clone()).unwrap_or_default();
        return Err(Refusal::VolumeNameTaken { volume: name.to_owned(), node });
    }
    let group = registry.groups.get(name).map(|group| (group.uuid, group.state));
    let before = group.or(registry.striped.get(name).map(|striped| (striped.uuid, striped.state)));
    if let Some((of, state)) = before {
        // The answer to the first was lost.
        if of == uuid && state != GroupState::Removing {
            return Ok(false);
        }
        let volume = name.to_owned();
        return Err(match state {
            GroupState::Removing => Refusal::BeingRemoved { nodes: registry.with_columns(name), volume },
            GroupState::Making | GroupState::Ready => Refusal::VolumeExists { volume },
        });
    }
    if uuid.is_nil() || registry.groups.values().any(|group| group.uuid.key() == uuid.key()) {
        return Err(Refusal::UuidTaken { volume: name.to_owned(), uuid: uuid.to_string() });
    }
    Ok(true)
}

/// Sizes, policy and modes are those that a volume can have.
pub(super) fn check_shape(
    name: &str,
    bytes: u64,
    block_bytes: u64,
    policy: &str,
    modes: &BTreeSet<AttachMode>,
) -> Result<(), Refusal> {
    check_policy(name, policy)?;
    check_block(name, block_bytes)?;
    if modes.is_empty() {
        return Err(Refusal::NoModes { volume: name.to_owned() });
    }
    check_size(name, bytes, block_bytes)
}

/// Refuses sizes that no volume with such blocks can have.
pub(super) fn check_size(name: &str, bytes: u64, block_bytes: u64) -> Result<(), Refusal> {
    let is_size = bytes > 0 && bytes.is_multiple_of(UNIT as u64) && bytes.div_ceil(block_bytes) <= BLOCKS_MAX;
    if !is_size {
        let bytes_max = BLOCKS_MAX * block_bytes;
        return Err(Refusal::BadSize { volume: name.to_owned(), bytes, bytes_max });
    }
    Ok(())
}

/// So many numbers of groups are given: the first of them.
pub(super) fn give_numbers(draft: &mut Draft<'_>, groups: usize) -> Result<u32, Refusal> {
    let registry = draft.registry;
    if registry.groups.len().saturating_add(groups) > GROUPS_MAX {
        let kind = "volumes over managed disks, and parts of them,".to_owned();
        return Err(Refusal::TooMany { kind, max: GROUPS_MAX });
    }
    let number = registry.numbers.next;
    let Some(next) = u32::try_from(groups).ok().and_then(|groups| number.checked_add(groups)) else {
        return Err(Refusal::TooMany { kind: "volume numbers in use".to_owned(), max: u32::MAX as usize });
    };
    draft.write(Write::Put(Record::GroupNumbers(GroupNumbers { next })));
    Ok(number)
}

/// A column that is to be made.
pub(super) fn new_column(disk: &ManagedDisk) -> GroupColumn {
    GroupColumn {
        node: disk.node.clone(),
        disk: disk.uuid,
        disk_name: disk.name.clone(),
        state: ColumnState::Missing,
        replaces: None,
        grown: false,
        kept: 0,
        put_back: None,
        failed: false,
    }
}

pub(super) fn create(draft: &mut Draft<'_>, new: &NewGroup) -> Result<(), Refusal> {
    let registry = draft.registry;
    let name = &new.name;
    if !is_new(registry, name, new.uuid)? {
        return Ok(());
    }
    check_shape(name, new.bytes, new.block_bytes, &new.policy, &new.modes)?;
    if !(2..=COLUMNS_MAX).contains(&usize::from(new.copies)) {
        return Err(Refusal::BadCopies { volume: name.clone(), copies: new.copies, copies_max: COLUMNS_MAX });
    }
    let disks = placement::place(registry, new)?;
    let number = give_numbers(draft, 1)?;
    draft.write(Write::Put(Record::Group(GroupVolume {
        name: name.clone(),
        number,
        uuid: new.uuid,
        bytes: new.bytes,
        block_bytes: new.block_bytes,
        policy: new.policy.clone(),
        modes: new.modes.clone(),
        state: GroupState::Making,
        part: None,
        columns: disks.into_iter().map(new_column).collect(),
        grows: None,
    })));
    Ok(())
}

pub(super) fn column_made(draft: &mut Draft<'_>, told: &ToldColumn) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.live(&told.seat)?;
    let (group, position) = registry.column_of(told)?;
    if group.state == GroupState::Removing {
        let (volume, nodes) = (group.volume().to_owned(), registry.with_columns(group.volume()));
        return Err(Refusal::BeingRemoved { volume, nodes });
    }
    // Also one that is to leave.
    if group.columns[position].state != ColumnState::Missing {
        return Ok(());
    }
    let mut next = group.clone();
    next.columns[position].state = ColumnState::Made;
    if next.state == GroupState::Making && next.columns.iter().all(|column| column.state == ColumnState::Made)
    {
        next.state = GroupState::Ready;
        let map = registry.first_map(&next)?;
        draft.write(Write::Put(Record::Map(GroupMap::new(next.number, 0, &map))));
        striped::part_ready(draft, &next);
    }
    draft.write(Write::Put(Record::Group(next)));
    has_free(draft, told);
    Ok(())
}

/// The disk of a column was put back to an earlier image, as its node says.
fn is_image(group: &GroupVolume, number: u8) -> bool {
    group.columns.get(usize::from(number)).is_some_and(|column| column.put_back.is_some())
}

/// A column is an earlier image, or is none any more.
pub(super) fn put_back(draft: &mut Draft<'_>, told: &ToldColumn, epoch: Option<u64>) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.live(&told.seat)?;
    let (group, position) = registry.column_of(told)?;
    if group.columns[position].put_back != epoch {
        let mut next = group.clone();
        next.columns[position].put_back = epoch;
        draft.write(Write::Put(Record::Group(next)));
    }
    Ok(())
}

/// The node of a column has given it up, or uses it again.
pub(super) fn failed(draft: &mut Draft<'_>, told: &ToldColumn, failed: bool) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.live(&told.seat)?;
    let (group, position) = registry.column_of(told)?;
    if group.columns[position].failed != failed {
        let mut next = group.clone();
        next.columns[position].failed = failed;
        draft.write(Write::Put(Record::Group(next)));
    }
    Ok(())
}

pub(super) fn remove(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let group = draft.registry.groups.get(name).filter(|group| group.part.is_none());
    let Some(group) = group else { return check_name("volume", name) };
    check_detached(draft, name)?;
    if group.state != GroupState::Removing {
        let state = GroupState::Removing;
        draft.write(Write::Put(Record::Group(GroupVolume { state, ..without_growth(group) })));
    }
    Ok(())
}

pub(super) fn column_removed(draft: &mut Draft<'_>, told: &ToldColumn) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.live(&told.seat)?;
    // It was the last one, and the answer was lost.
    if !registry.groups.values().any(|group| told.is_of(group)) {
        return Ok(());
    }
    let Ok((group, position)) = registry.column_of(told) else {
        // The answer was lost, and the place may be another column's.
        return Ok(());
    };
    let has_left =
        group.columns[position].state == ColumnState::Leaving && !registry.is_in_map(group, position as u8);
    if group.state != GroupState::Removing && !has_left {
        return Err(Refusal::NotBeingRemoved {
            volume: group.volume().to_owned(),
            node: told.seat.name.clone(),
        });
    }
    removed(draft, group, |column| column.disk == told.disk);
    has_free(draft, told);
    Ok(())
}

pub(super) fn put_map(draft: &mut Draft<'_>, new: &NewMap) -> Result<(), Refusal> {
    let (group, held) = draft.registry.map_of(new.number)?;
    if held.map == new.map {
        return Ok(());
    }
    let (volume, before) = (group.volume().to_owned(), new.before());
    if held.term() != before || held.fence != new.fence {
        let (generation, epoch, fence) = (held.generation, held.epoch, held.fence);
        return Err(Refusal::MapNotTaken { volume, generation, epoch, fence });
    }
    let bad = |problem: String| Refusal::BadMap { volume: group.volume().to_owned(), problem };
    let map = Map::decode(&new.map).map_err(|error| bad(error.to_string()))?;
    check_map(group, &map).map_err(|problem| bad(problem.to_owned()))?;
    let held_map = held.decode().map_err(|error| bad(error.to_string()))?;
    check_columns(group, &held_map, &map).map_err(|problem| bad(problem.to_owned()))?;
    let Term { generation, epoch } = map.term;
    let follows = before.epoch.checked_add(1) == Some(epoch)
        && (generation == before.generation || before.generation.checked_add(1) == Some(generation));
    if !follows {
        return Err(bad(format!(
            "epoch {epoch} of generation {generation} does not follow epoch {}",
            before.epoch
        )));
    }
    let exclusivity = held.exclusivity;
    draft.write(Write::Put(Record::Map(GroupMap {
        exclusivity,
        ..GroupMap::new(new.number, held.fence, &map)
    })));
    growth::map_changed(draft, group, &map);
    Ok(())
}

pub(super) fn put_exclusivity(draft: &mut Draft<'_>, new: &NewExclusivity) -> Result<(), Refusal> {
    let (group, held) = draft.registry.map_of(new.number)?;
    let bad = |problem: String| Refusal::BadMap { volume: group.volume().to_owned(), problem };
    let map = held.decode().map_err(|error| bad(error.to_string()))?;
    if !new.exclusivity.is_of(&map) {
        return Err(Refusal::NotPrimary {
            volume: group.volume().to_owned(),
            since: new.exclusivity.since,
            epoch: map.since,
        });
    }
    if new.exclusivity.is_later_than(&held.exclusivity) {
        let exclusivity = new.exclusivity;
        draft.write(Write::Put(Record::Map(GroupMap { exclusivity, ..held.clone() })));
    }
    Ok(())
}

pub(super) fn fence_map(draft: &mut Draft<'_>, number: u32, fence: u64) -> Result<(), Refusal> {
    let (_, held) = draft.registry.map_of(number)?;
    if held.fence == fence {
        draft.write(Write::Put(Record::Map(GroupMap { fence: fence.saturating_add(1), ..held.clone() })));
    }
    Ok(())
}

/// What a map says of a volume that is not so.
pub(super) fn check_map(group: &GroupVolume, map: &Map) -> Result<(), &'static str> {
    if map.volume != group.uuid || map.group != group.group() {
        return Err("is of another volume");
    }
    if map.columns.len() > group.columns.len() {
        return Err("has more columns than the volume");
    }
    let mut pairs = map.columns.iter().zip(&group.columns);
    if pairs.any(|(column, known)| column.state != State::None && column.disk != known.disk) {
        return Err("has a column on another disk than the volume");
    }
    Ok(())
}

/// What of the columns of a map does not follow from the one before: only those that are made join, and only those leave that are to.
fn check_columns(group: &GroupVolume, before: &Map, map: &Map) -> Result<(), &'static str> {
    if map.columns.len() < before.columns.len() {
        return Err("has fewer columns than the one before");
    }
    for (number, (column, known)) in (0..).zip(map.columns.iter().zip(&group.columns)) {
        let was_there = before.column(number).is_some_and(|column| column.state != State::None);
        let is_there = column.state != State::None;
        if is_there && !was_there && known.state != ColumnState::Made {
            return Err("has a column that is not made, or is to leave");
        }
        if was_there && !is_there && known.state != ColumnState::Leaving {
            return Err("lacks a column that is to stay");
        }
    }
    Ok(())
}

/// A copy on another disk takes the place of one: its node makes it, the primary fills it, and then the other one leaves.
pub(super) fn replace(
    draft: &mut Draft<'_>,
    volume: &str,
    from: Uuid,
    to: Option<Uuid>,
    promised: &mut Promised,
) -> Result<(), Refusal> {
    let registry = draft.registry;
    let (group, map) = registry.ready(volume)?;
    let name = || group.described();
    let Some((number, leaving)) = group.there().find(|(_, column)| column.disk == from) else {
        let copies = group.there().map(|(_, column)| column.place()).collect();
        return Err(Refusal::NoCopyThere { volume: name(), disk: registry.place_of(from), copies });
    };
    if leaving.state == ColumnState::Leaving {
        let successor = group.successor(number).map(|(_, column)| column);
        // The answer to the first was lost.
        if successor.is_some_and(|successor| to.is_none_or(|to| to == successor.disk)) {
            return Ok(());
        }
        let by = successor.map(GroupColumn::place).unwrap_or_default();
        return Err(Refusal::BeingReplaced { volume: name(), from: leaving.place(), by });
    }
    let state = map.column(number).map_or(State::None, |column| column.state);
    let is_old = |number: u8| is_image(group, number);
    if map.in_sync().all(is_old) {
        let copies = map.in_sync().filter_map(|number| group.columns.get(usize::from(number)));
        let copies = copies.map(GroupColumn::place).collect();
        return Err(Refusal::NoSource { volume: name(), copies });
    }
    let is_there = |number: u8| {
        let column = group.columns.get(usize::from(number));
        let member = column.and_then(|column| registry.members.get(&column.node));
        member.is_some_and(|member| member.state.is_live())
    };
    // The new one would be filled from none, and the old one never leave.
    if !map.in_sync().any(|number| is_there(number) && !is_old(number)) {
        let copies = map.in_sync().filter_map(|number| group.columns.get(usize::from(number)));
        let (copies, alone) = (copies.map(GroupColumn::place).collect(), group.copies() == 1);
        return Err(Refusal::SourcesAway { volume: name(), copies, alone });
    }
    let mut next = group.clone();
    next.columns[usize::from(number)].state = ColumnState::Leaving;
    // One that is not filled yet is given up for the next one.
    let replaces = if state == State::Sync { number } else { leaving.replaces.unwrap_or(number) };
    let is_in_sync = state == State::Sync;
    let disk = placement::successor(registry, group, (leaving, is_in_sync), to, promised)?;
    *promised.entry(disk.uuid).or_default() += disk.taken_by(group.column_bytes());
    let new = GroupColumn { replaces: Some(replaces), grown: group.grows.is_some(), ..new_column(disk) };
    let is_free = |(number, column): (usize, &GroupColumn)| {
        column.state == ColumnState::Removed && !registry.is_in_map(group, number as u8)
    };
    let free = (0..group.columns.len()).find(|number| is_free((*number, &group.columns[*number])));
    match free {
        Some(free) => next.columns[free] = new,
        None if group.columns.len() < COLUMNS_MAX => next.columns.push(new),
        None => {
            let copies = group.there().map(|(_, column)| column.place()).collect();
            return Err(Refusal::NoNumber { volume: name(), copies_max: COLUMNS_MAX, copies });
        }
    }
    draft.write(Write::Put(Record::Group(next)));
    Ok(())
}

/// A person gives up all other histories for the copy of a node: those in sync are gone for good, or were put back. If its own is one of those in
/// sync, its machine may have lost what one that is gone has, so that the group waits for that one.
pub(super) fn force(draft: &mut Draft<'_>, volume: &str, node: &str, epoch: u64) -> Result<(), Refusal> {
    let registry = draft.registry;
    let (group, map) = registry.ready(volume)?;
    let name = || volume.to_owned();
    let member =
        registry.members.get(node).ok_or_else(|| Refusal::UnknownMember { name: node.to_owned() })?;
    let process = Process { node: NodeId(member.id), incarnation: member.incarnation.0 };
    if map.column_at(process.node).is_none() {
        let copies = group.there().map(|(_, column)| column.place()).collect();
        return Err(Refusal::NoCopyThere { volume: name(), disk: format!("of node {node}"), copies });
    }
    let chosen = map.column_at(process.node);
    // The answer to the first was lost.
    let is_given_up =
        |state| matches!(state, State::None | State::Stale { since: 0 } | State::Fill { since: 0 });
    let others = (0..).zip(&map.columns).filter(|(number, _)| Some(*number) != chosen);
    let is_alone = others.into_iter().all(|(_, column)| is_given_up(column.state));
    if map.forced && is_alone && map.primary.node == process.node && map.term.epoch > epoch {
        return Ok(());
    }
    let is_there = |number: &u8| {
        let column = group.columns.get(usize::from(*number));
        let member = column.and_then(|column| registry.members.get(&column.node));
        member.is_some_and(|member| member.state.is_live())
    };
    let is_in_sync = map.in_sync().any(|number| Some(number) == chosen && !is_image(group, number));
    let is_one_gone = map.in_sync().any(|number| Some(number) != chosen && !is_there(&number));
    let mut sound = map.in_sync().filter(|number| is_there(number) && !is_image(group, *number));
    if let Some(number) = sound.next().filter(|_| !(is_in_sync && is_one_gone)) {
        let copy = group.columns[usize::from(number)].place();
        return Err(Refusal::ForceNotNeeded { volume: name(), copy });
    }
    if !member.state.is_live() {
        return Err(Refusal::ForceAway { volume: name(), node: node.to_owned() });
    }
    if map.term.epoch != epoch {
        let (generation, fence) = (map.term.generation, 0);
        return Err(Refusal::MapNotTaken { volume: name(), generation, epoch: map.term.epoch, fence });
    }
    let forced = map
        .forced(process)
        .map_err(|error| Refusal::BadMap { volume: name(), problem: error.to_string() })?;
    let (_, held) = registry.map_of(group.number)?;
    let exclusivity = held.exclusivity;
    draft.write(Write::Put(Record::Map(GroupMap {
        exclusivity,
        ..GroupMap::new(group.number, held.fence, &forced)
    })));
    if group.columns.iter().any(|column| column.put_back.is_some()) {
        let columns = group.columns.iter().map(|column| GroupColumn { put_back: None, ..column.clone() });
        draft.write(Write::Put(Record::Group(GroupVolume { columns: columns.collect(), ..group.clone() })));
    }
    Ok(())
}

/// Columns are gone; with the last one, the volume is, which was removed then.
fn removed(draft: &mut Draft<'_>, group: &GroupVolume, is_it: impl Fn(&GroupColumn) -> bool) {
    let mut next = group.clone();
    for number in 0..next.columns.len() {
        if is_it(&next.columns[number]) {
            next.columns[number].state = ColumnState::Removed;
            next.columns[number].replaces = None;
            next.columns[number].grown = false;
            (next.columns[number].kept, next.columns[number].put_back) = (0, None);
            next.columns[number].failed = false;
            inherit(&mut next.columns, number as u8);
        }
    }
    if next.columns.iter().any(|column| column.state != ColumnState::Removed) {
        return draft.write(Write::Put(Record::Group(next)));
    }
    if draft.registry.maps.contains_key(&next.number) {
        draft.write(Write::DeleteMap(next.number));
    }
    striped::part_removed(draft, &next);
    draft.write(Write::DeleteGroup(next.name));
}

/// The number of a column is free for another one: nothing replaces it any more. What did, and one that was given up for that meanwhile, have
/// the same place: the one replaces the other now.
fn inherit(columns: &mut [GroupColumn], number: u8) {
    let replaced = |column: &GroupColumn| column.replaces == Some(number);
    let is_given_up = |column: &GroupColumn| replaced(column) && column.state == ColumnState::Leaving;
    let given_up = columns.iter().position(is_given_up);
    for (other, column) in columns.iter_mut().enumerate().filter(|(_, column)| replaced(column)) {
        column.replaces = given_up.filter(|given_up| *given_up != other).map(|given_up| given_up as u8);
    }
}

/// Free space of a disk changes with its columns: what is placed next must not reckon with it twice.
pub(super) fn has_free(draft: &mut Draft<'_>, told: &ToldColumn) {
    if let Some(disk) = draft.registry.managed.get(&told.disk).filter(|disk| disk.free != told.free) {
        draft.write(Write::Put(Record::ManagedDisk(ManagedDisk { free: told.free, ..disk.clone() })));
    }
}

impl Registry {
    /// The volumes that have a column on a managed disk, or may have.
    pub(super) fn columns_on(&self, disk: Uuid) -> impl Iterator<Item = &GroupVolume> {
        let has = move |column: &GroupColumn| column.disk == disk && column.state != ColumnState::Removed;
        self.groups.values().filter(move |group| group.columns.iter().any(has))
    }

    /// The nodes that have not said that their columns of a volume are gone.
    fn with_columns(&self, volume: &str) -> Vec<String> {
        let mut nodes = Vec::new();
        for group in self.groups.values().filter(|group| group.volume() == volume) {
            for (_, column) in group.there() {
                if !nodes.contains(&column.node) {
                    nodes.push(column.node.clone());
                }
            }
        }
        nodes
    }

    /// The column that its node tells of: the volume, and its position there.
    pub(super) fn column_of(&self, told: &ToldColumn) -> Result<(&GroupVolume, usize), Refusal> {
        let (volume, node) = (told.volume.to_string(), told.seat.name.clone());
        let group = self.groups.values().find(|group| told.is_of(group));
        let is_it = |column: &GroupColumn| {
            column.disk == told.disk && column.node == node && column.state != ColumnState::Removed
        };
        let found = group.and_then(|group| Some((group, group.columns.iter().position(is_it)?)));
        found.ok_or_else(|| Refusal::UnknownColumn { volume, node, disk: told.disk.to_string() })
    }

    /// The volume of a number.
    pub(super) fn group(&self, number: u32) -> Option<&GroupVolume> {
        self.groups.values().find(|group| group.number == number)
    }

    /// A volume that is ready, and its map.
    fn ready(&self, volume: &str) -> Result<(&GroupVolume, Map), Refusal> {
        let unknown = || Refusal::UnknownVolume { volume: printable(volume) };
        let group = self.groups.get(volume).ok_or_else(unknown)?;
        if group.state != GroupState::Ready {
            return Err(Refusal::NotMade { volume: group.volume().to_owned(), state: group.state });
        }
        let (_, held) = self.map_of(group.number)?;
        let bad =
            |error: MapBytesError| Refusal::BadMap { volume: volume.to_owned(), problem: error.to_string() };
        Ok((group, held.decode().map_err(bad)?))
    }

    /// Whether the map of a volume has the column. One that cannot be read may.
    fn is_in_map(&self, group: &GroupVolume, number: u8) -> bool {
        let map = self.maps.get(&group.number).map(GroupMap::decode);
        map.is_some_and(|map| {
            map.map_or(true, |map| map.column(number).is_some_and(|column| column.state != State::None))
        })
    }

    pub(super) fn map_of(&self, number: u32) -> Result<(&GroupVolume, &GroupMap), Refusal> {
        let found = self.group(number).and_then(|group| Some((group, self.maps.get(&number)?)));
        found.ok_or(Refusal::UnknownMap { number })
    }

    /// All columns are in sync: nothing was written to any. The first column's node that is live orders the first commands.
    fn first_map(&self, group: &GroupVolume) -> Result<Map, Refusal> {
        let bad = |problem: String| Refusal::BadMap { volume: group.volume().to_owned(), problem };
        let mut members = Vec::new();
        for column in &group.columns {
            let member = self.members.get(&column.node);
            members.push(member.ok_or_else(|| Refusal::UnknownMember { name: column.node.clone() })?);
        }
        let disks: Vec<(Uuid, NodeId)> = group
            .columns
            .iter()
            .zip(&members)
            .map(|(column, member)| (column.disk, NodeId(member.id)))
            .collect();
        let first = members.iter().find(|member| member.state.is_live()).or(members.first());
        let Some(first) = first else { return Err(bad("has no columns".to_owned())) };
        let primary = Process { node: NodeId(first.id), incarnation: first.incarnation.0 };
        Map::first(group.uuid, group.group(), primary, &disks).map_err(|error| bad(error.to_string()))
    }
}
