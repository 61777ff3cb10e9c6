//! Volumes over several groups: their parts are made and removed together, and placed so that each disk has about the same share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cards_array::group::COLUMNS_MAX;
use cards_layout::domain::{Domain, Level};
use cards_layout::format::Uuid;
use cards_layout::layout::Layout;
use cards_layout::placement::{Disk, Group, Request};

use crate::change::NewStriped;
use crate::record::{
    BUNDLE_BYTES, GroupState, GroupVolume, ManagedDisk, PARTS_MAX, Record, StripedVolume, Write, part_name,
};
use crate::refusal::{DiskSpace, Refusal};

use super::disks::check_detached;
use super::draft::Draft;
use super::groups::{check_shape, give_numbers, is_new, new_column};
use super::growth::without_growth;
use super::placement::{Promised, away, is_joined, is_near};
use super::{Registry, groups};

/// Groups of copies that a volume has for each of its disks: enough that each disk's node leads one, and few enough that the end of a node, which
/// changes the map of each of its groups, is a matter of a moment.
const GROUPS_PER_DISK: usize = 2;
/// Groups of copies that a volume over few disks has at most.
const GROUPS_FEW: usize = 16;

/// A part that is to be made.
struct Part<'a> {
    bytes: u64,
    /// The disks of its columns; the first one's node leads it.
    disks: Vec<&'a ManagedDisk>,
}

pub(super) fn create(draft: &mut Draft<'_>, new: &NewStriped) -> Result<(), Refusal> {
    let registry = draft.registry;
    let name = &new.name;
    if !is_new(registry, name, new.uuid)? {
        return Ok(());
    }
    check_shape(name, new.bytes, new.block_bytes, &new.policy, &new.modes)?;
    let bundle_bytes = match new.layout {
        Layout::Raid10 { .. } | Layout::Raid0 => Some(BUNDLE_BYTES.max(new.block_bytes)),
        Layout::Linear => None,
        Layout::Raid1 { .. } | Layout::Raid5 { .. } | Layout::Raid6 { .. } => {
            return Err(Refusal::BadLayout { volume: name.clone(), layout: new.layout.to_string() });
        }
    };
    let parts = place(registry, new, bundle_bytes)?;
    let first = give_numbers(draft, parts.len())?;
    let numbers: Vec<u32> = (first..).take(parts.len()).collect();
    for ((number, part), Part { bytes, disks }) in numbers.iter().zip(0_u16..).zip(parts) {
        draft.write(Write::Put(Record::Group(GroupVolume {
            name: part_name(name, part),
            number: *number,
            uuid: new.uuid,
            bytes,
            block_bytes: new.block_bytes,
            policy: new.policy.clone(),
            modes: new.modes.clone(),
            state: GroupState::Making,
            part: Some(part),
            columns: disks.into_iter().map(new_column).collect(),
            grows: None,
        })));
    }
    draft.write(Write::Put(Record::Striped(StripedVolume {
        name: name.clone(),
        uuid: new.uuid,
        layout: new.layout,
        bytes: new.bytes,
        grows_to: None,
        block_bytes: new.block_bytes,
        bundle_bytes,
        policy: new.policy.clone(),
        modes: new.modes.clone(),
        state: GroupState::Making,
        groups: numbers,
    })));
    Ok(())
}

/// A part has all its columns: with the last one, the volume is ready.
pub(super) fn part_ready(draft: &mut Draft<'_>, group: &GroupVolume) {
    let Some(striped) = draft.registry.striped.get(group.volume()).filter(|_| group.part.is_some()) else {
        return;
    };
    let others = draft.registry.parts_of(&striped.name).filter(|other| other.number != group.number);
    let is_ready = others.into_iter().all(|other| other.state == GroupState::Ready);
    if striped.state == GroupState::Making && is_ready {
        let ready = StripedVolume { state: GroupState::Ready, ..striped.clone() };
        draft.write(Write::Put(Record::Striped(ready)));
    }
}

/// A part is gone, which was removed: with the last one, the volume is.
pub(super) fn part_removed(draft: &mut Draft<'_>, group: &GroupVolume) {
    if group.part.is_none() {
        return;
    }
    let mut others = draft.registry.parts_of(group.volume()).filter(|other| other.number != group.number);
    if others.all(|other| draft.deletes_group(&other.name)) {
        draft.write(Write::DeleteStriped(group.volume().to_owned()));
    }
}

/// All parts are removed together. Their columns go when their nodes are there.
pub(super) fn remove(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let registry = draft.registry;
    let Some(striped) = registry.striped.get(name) else { return Ok(()) };
    check_detached(draft, name)?;
    if striped.state == GroupState::Removing {
        return Ok(());
    }
    let state = GroupState::Removing;
    for part in registry.parts_of(name) {
        draft.write(Write::Put(Record::Group(GroupVolume { state, ..without_growth(part) })));
    }
    let removing = StripedVolume { state, grows_to: None, ..striped.clone() };
    draft.write(Write::Put(Record::Striped(removing)));
    Ok(())
}

/// The copies of a volume on a disk are replaced by others, of all parts that have one there.
pub(super) fn replace(
    draft: &mut Draft<'_>,
    volume: &str,
    from: Uuid,
    to: Option<Uuid>,
) -> Result<(), Refusal> {
    let registry = draft.registry;
    let mut promised = Promised::new();
    let Some(striped) = registry.striped.get(volume) else {
        return groups::replace(draft, volume, from, to, &mut promised);
    };
    if striped.state != GroupState::Ready {
        return Err(Refusal::NotMade { volume: volume.to_owned(), state: striped.state });
    }
    let has = |part: &&GroupVolume| part.there().any(|(_, column)| column.disk == from);
    let parts: Vec<&GroupVolume> = registry.parts_of(volume).filter(has).collect();
    if parts.is_empty() {
        let mut copies: Vec<String> = registry
            .parts_of(volume)
            .flat_map(|part| part.there().map(|(_, column)| column.place()).collect::<Vec<_>>())
            .collect();
        copies.sort_unstable();
        copies.dedup();
        return Err(Refusal::NoCopyThere {
            volume: volume.to_owned(),
            disk: registry.place_of(from),
            copies,
        });
    }
    for part in parts {
        groups::replace(draft, &part.name, from, to, &mut promised)?;
    }
    Ok(())
}

impl Registry {
    /// The parts of a volume that there are, in no order that matters.
    pub(super) fn parts_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = &'a GroupVolume> {
        self.groups.values().filter(move |group| group.part.is_some() && group.volume() == volume)
    }
}

/// The parts of a new volume, and the disks of their columns.
fn place<'a>(
    registry: &'a Registry,
    new: &NewStriped,
    bundle: Option<u64>,
) -> Result<Vec<Part<'a>>, Refusal> {
    let disks = candidates(registry, new)?;
    // Those that it names are there.
    let others = || away(registry).filter(|_| new.on.is_empty());
    let spaces = || disks.iter().map(|(room, disk)| DiskSpace::new(disk, *room)).chain(others()).collect();
    let plan =
        |bytes: u64| Plan { layout: new.layout, bytes, block: new.block_bytes, bundle, key: new.uuid.key() };
    let is_named = !new.on.is_empty();
    if let Layout::Raid10 { copies } = new.layout {
        if !(2..=COLUMNS_MAX).contains(&usize::from(copies)) {
            return Err(Refusal::BadCopies { volume: new.name.clone(), copies, copies_max: COLUMNS_MAX });
        }
        let apart = domains(&disks).into_values().max().map_or(0, |last| last + 1);
        if apart < usize::from(copies) {
            let (volume, domains) = (new.name.clone(), spaces());
            return Err(Refusal::FewDomains { volume, copies, fitting: apart, domains });
        }
    }
    if let Some(parts) = plan(new.bytes).place(&disks, is_named) {
        return Ok(parts);
    }
    // The largest that fits.
    let step = bundle.unwrap_or(new.block_bytes);
    let (mut fits, mut not) = (0, new.bytes.div_ceil(step));
    while fits + 1 < not {
        let half = fits.midpoint(not);
        match plan(half * step).place(&disks, is_named) {
            Some(_) => fits = half,
            None => not = half,
        }
    }
    let (parts, copies) = match new.layout {
        Layout::Raid10 { copies } => (groups_over(disks.len()), usize::from(copies)),
        _ => (disks.len(), 1),
    };
    let bytes = match bundle {
        Some(_) => format!("of {} bytes", plan(new.bytes).part_bytes(parts.max(1))),
        None => format!("of {} bytes in all", new.bytes),
    };
    let copies = if copies > 1 { format!(", each {copies} times") } else { String::new() };
    let parts = if parts == 1 { "1 part".to_owned() } else { format!("{parts} parts") };
    let shape = format!("as {} it would be {parts} {bytes}{copies}", new.layout);
    Err(Refusal::NoStripes { volume: new.name.clone(), shape, most: fits * step, domains: spaces() })
}

/// The disks that a volume may be spread over, with what is free there: those that are named, or all, those with most room first.
fn candidates<'a>(registry: &'a Registry, new: &NewStriped) -> Result<Vec<(u64, &'a ManagedDisk)>, Refusal> {
    if new.on.is_empty() {
        let joined = registry.managed.values().filter(|disk| is_joined(registry, disk));
        let mut disks: Vec<(u64, &ManagedDisk)> = joined
            .map(|disk| (registry.room_on(disk), disk))
            .filter(|(room, disk)| *room >= disk.piece_bytes.max(1))
            .collect();
        disks.sort_by_key(|(room, disk)| (Reverse(*room), &disk.domain, disk.uuid));
        disks.truncate(PARTS_MAX);
        return Ok(disks);
    }
    if new.on.len() > PARTS_MAX {
        return Err(Refusal::TooMany { kind: "disks of one volume".to_owned(), max: PARTS_MAX });
    }
    let mut disks: Vec<(u64, &ManagedDisk)> = Vec::new();
    for uuid in &new.on {
        let Some(disk) = registry.managed.get(uuid) else {
            return Err(Refusal::UnknownManagedDisk { disk: uuid.to_string() });
        };
        if !is_joined(registry, disk) {
            return Err(Refusal::DiskAway { disk: disk.name.clone(), node: disk.node.clone() });
        }
        if disks.iter().any(|(_, other)| other.uuid == disk.uuid) {
            return Err(Refusal::SameDisk { volume: new.name.clone(), disk: disk.place() });
        }
        disks.push((registry.room_on(disk), disk));
    }
    Ok(disks)
}

/// Groups of copies over so many disks.
fn groups_over(disks: usize) -> usize {
    (disks * GROUPS_PER_DISK).min(GROUPS_FEW.max(disks)).clamp(1, PARTS_MAX)
}

/// Which of the disks can be lost together: those of one number.
fn domains(disks: &[(u64, &ManagedDisk)]) -> BTreeMap<usize, usize> {
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next = 0;
    for first in 0..disks.len() {
        if numbers.contains_key(&first) {
            continue;
        }
        numbers.insert(first, next);
        // Whatever is near to one of them.
        let mut found = vec![first];
        while let Some(one) = found.pop() {
            for other in 0..disks.len() {
                if !numbers.contains_key(&other) && is_near(disks[one].1, disks[other].1) {
                    numbers.insert(other, next);
                    found.push(other);
                }
            }
        }
        next += 1;
    }
    numbers
}

/// What is to be placed.
struct Plan {
    layout: Layout,
    bytes: u64,
    block: u64,
    bundle: Option<u64>,
    key: u64,
}

impl Plan {
    /// Bytes of each of so many parts: all have the same number of whole bundles.
    fn part_bytes(&self, parts: usize) -> u64 {
        let bundle = self.bundle.unwrap_or(self.block);
        self.bytes.div_ceil(bundle).div_ceil(parts as u64).saturating_mul(bundle)
    }

    /// The parts on these disks; none if there is no room. Without `all`, disks with little room may be left out.
    fn place<'a>(&self, disks: &[(u64, &'a ManagedDisk)], all: bool) -> Option<Vec<Part<'a>>> {
        match self.layout {
            Layout::Raid10 { copies } => self.copies(disks, copies, all),
            Layout::Raid0 => self.striped(disks, all),
            _ => self.one_after_another(disks),
        }
    }

    fn striped<'a>(&self, disks: &[(u64, &'a ManagedDisk)], all: bool) -> Option<Vec<Part<'a>>> {
        let least = if all { disks.len() } else { 1 };
        (least.max(1)..=disks.len()).rev().find_map(|count| {
            let bytes = self.part_bytes(count);
            let mut chosen = disks.iter().take(count);
            chosen
                .clone()
                .all(|(room, disk)| disk.taken_by(bytes) <= *room)
                .then(|| chosen.by_ref().map(|(_, disk)| Part { bytes, disks: vec![*disk] }).collect())
        })
    }

    fn one_after_another<'a>(&self, disks: &[(u64, &'a ManagedDisk)]) -> Option<Vec<Part<'a>>> {
        let mut left = self.bytes.div_ceil(self.block).saturating_mul(self.block);
        let mut parts = Vec::new();
        for (room, disk) in disks {
            let bytes = (room / disk.piece_bytes.max(1) * disk.piece_bytes.max(1)).min(left) / self.block
                * self.block;
            if bytes > 0 {
                left -= bytes;
                parts.push(Part { bytes, disks: vec![*disk] });
            }
        }
        (left == 0).then_some(parts)
    }

    fn copies<'a>(&self, disks: &[(u64, &'a ManagedDisk)], copies: u8, all: bool) -> Option<Vec<Part<'a>>> {
        let least = if all { disks.len() } else { usize::from(copies) };
        (least..=disks.len()).rev().find_map(|count| self.copies_over(&disks[..count]))
    }

    fn copies_over<'a>(&self, disks: &[(u64, &'a ManagedDisk)]) -> Option<Vec<Part<'a>>> {
        let domains = domains(disks);
        let described: Option<Vec<Disk>> = disks
            .iter()
            .enumerate()
            .map(|(number, (room, disk))| {
                Some(Disk {
                    name: disk.uuid.to_string(),
                    node: disk.node.clone(),
                    domain: format!("d{}", domains.get(&number)?).parse::<Domain>().ok()?,
                    space: *room,
                    piece: disk.piece_bytes.max(1),
                })
            })
            .collect();
        let described = described?;
        let request = Request {
            layout: self.layout,
            disks: &described,
            level: Level::Host,
            groups: Some(groups_over(disks.len())),
            key: self.key,
        };
        let placement = request.place().ok()?;
        let bytes = self.part_bytes(placement.groups.len());
        let counts = placement.columns(disks.len());
        let fits = disks.iter().zip(counts).all(|((room, disk), columns)| {
            disk.taken_by(bytes).checked_mul(columns).is_some_and(|taken| taken <= *room)
        });
        fits.then(|| {
            let part = |group: Group| {
                let mut columns = group.columns;
                columns.rotate_left(group.primary);
                Part { bytes, disks: columns.into_iter().map(|disk| disks[disk].1).collect() }
            };
            let mut parts: Vec<Part<'a>> = placement.groups.into_iter().map(part).collect();
            balance(&mut parts);
            parts
        })
    }
}

/// Has each node lead about the same number of parts: while one leads two more than another, a part of it is led by the node of another of its
/// columns, a part of that by another one's, and so on to one that leads fewer.
fn balance(parts: &mut [Part<'_>]) {
    let nodes: BTreeSet<String> =
        parts.iter().flat_map(|part| &part.disks).map(|disk| disk.node.clone()).collect();
    while let Some(steps) = nodes.iter().find_map(|node| relief(parts, node)) {
        for (part, column) in steps {
            parts[part].disks.swap(0, column);
        }
    }
}

/// The parts that are to be led by the node of another column, so that a node leads one part less and another one, which leads at least two fewer, one
/// more.
fn relief(parts: &[Part<'_>], node: &str) -> Option<Vec<(usize, usize)>> {
    let led = |node: &str| parts.iter().filter(|part| part.disks[0].node == node).count();
    let most = led(node);
    // How each node was come by: the part, and the column there.
    let mut ways: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut next = VecDeque::from([node]);
    while let Some(from) = next.pop_front() {
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| part.disks[0].node == from) {
            for (column, disk) in part.disks.iter().enumerate().skip(1) {
                let to = disk.node.as_str();
                if to == node || ways.contains_key(to) {
                    continue;
                }
                ways.insert(to, (number, column));
                if led(to) + 2 > most {
                    next.push_back(to);
                    continue;
                }
                let (mut steps, mut at) = (Vec::new(), to);
                while at != node {
                    let (part, column) = ways[at];
                    steps.push((part, column));
                    at = &parts[part].disks[0].node;
                }
                return Some(steps);
            }
        }
    }
    None
}
