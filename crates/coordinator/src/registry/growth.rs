//! Volumes that become larger: the space first, then who takes commands for it, then the size that clients are told.
//!
//! | step | what is so then | what ends it |
//! |---|---|---|
//! | [`crate::Change::GrowVolume`] | nothing but a wish: each node gives its columns the space, all zero | the last column of a group has it |
//! | [`Growth::made`] | no disk refuses what is written there; the primary takes commands for it | the primary has said so |
//! | [`Growth::served`] | each later primary takes them, too, since it reads this record after its map | the last group of the volume |
//! | the new size, in one change of all records | clients are told | – |
//!
//! So a client that hears of the new size finds it served, whichever node leads by then, and of a volume over several groups all of it.

use std::collections::BTreeMap;

use cards_array::group::{Map, MapColumn, State};
use cards_core::NodeId;
use cards_layout::format::{UNIT, Uuid};

use crate::change::ToldColumn;
use crate::record::{
    ColumnState, GroupColumn, GroupMap, GroupState, GroupVolume, Growth, Record, StripedVolume, Write,
};
use crate::refusal::{GrowthSpace, Refusal};
use crate::seat::Seat;

use super::draft::Draft;
use super::groups::{check_size, has_free};
use super::placement::is_joined;
use super::{Registry, printable};

/// A volume becomes larger.
pub(super) fn grow(draft: &mut Draft<'_>, name: &str, bytes: u64) -> Result<(), Refusal> {
    let registry = draft.registry;
    let whole = Whole::of(registry, name)?;
    let volume = || name.to_owned();
    if let Some(to) = whole.grows_to() {
        // The answer to the first was lost.
        return if to == bytes { Ok(()) } else { Err(Refusal::Growing { volume: volume(), bytes: to }) };
    }
    check_size(name, bytes, whole.block_bytes())?;
    if bytes < whole.bytes() {
        return Err(Refusal::Shrinks { volume: volume(), bytes: whole.bytes(), wanted: bytes });
    }
    if bytes == whole.bytes() {
        return Ok(());
    }
    for part in &whole.parts {
        check_columns(registry, part)?;
    }
    if !whole.lacks(registry, bytes).is_empty() {
        let (unit, mut fits) = (UNIT as u64, whole.bytes() / UNIT as u64);
        let mut not = bytes.div_ceil(unit);
        while fits + 1 < not {
            let half = fits.midpoint(not);
            match whole.lacks(registry, half * unit).is_empty() {
                true => fits = half,
                false => not = half,
            }
        }
        let (bytes, wanted, most) = (whole.bytes(), bytes, fits * unit);
        let disks = whole.lacks(registry, wanted);
        return Err(Refusal::NoGrowth { volume: volume(), bytes, wanted, most, disks });
    }
    let mut grows = false;
    for (part, bytes) in whole.shares(bytes).filter(|(part, bytes)| *bytes > part.bytes) {
        grows = true;
        let growth = Growth { bytes, made: false, served: false };
        draft.write(Write::Put(Record::Group(GroupVolume { grows: Some(growth), ..part.clone() })));
    }
    if let Some(striped) = whole.striped {
        // Its parts may have been larger than it all the time.
        let next = match grows {
            true => StripedVolume { grows_to: Some(bytes), ..striped.clone() },
            false => StripedVolume { bytes, ..striped.clone() },
        };
        draft.write(Write::Put(Record::Striped(next)));
    }
    Ok(())
}

/// A volume keeps the size that it has. Columns that have grown stay as large: nothing was written there, and a later growth finds it.
pub(super) fn cancel(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let registry = draft.registry;
    let whole = Whole::of(registry, name)?;
    // The answer to the first was lost.
    let Some(bytes) = whole.grows_to() else { return Ok(()) };
    // A group of several takes commands for it, perhaps, and no client sends one that does not know that all of them do.
    if whole.parts.iter().all(|part| part.grows.is_none_or(|growth| growth.made)) {
        return Err(Refusal::GrowthMade { volume: name.to_owned(), bytes });
    }
    for part in whole.parts.iter().filter(|part| part.grows.is_some()) {
        draft.write(Write::Put(Record::Group(without_growth(part))));
    }
    if let Some(striped) = whole.striped {
        draft.write(Write::Put(Record::Striped(StripedVolume { grows_to: None, ..striped.clone() })));
    }
    Ok(())
}

/// A column has the size that its group is to have.
pub(super) fn column_grown(draft: &mut Draft<'_>, told: &ToldColumn, bytes: u64) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.live(&told.seat)?;
    let (group, position) = registry.column_of(told)?;
    if group.grows.is_none_or(|growth| growth.bytes != bytes) || group.columns[position].grown {
        return Ok(());
    }
    let mut next = group.clone();
    next.columns[position].grown = true;
    let map = registry.maps.get(&group.number).and_then(|map| map.decode().ok());
    is_made(&mut next, map.as_ref());
    draft.write(Write::Put(Record::Group(next)));
    has_free(draft, told);
    Ok(())
}

/// The map of a group changes: a column without the space, of a node that is gone, may have left.
pub(super) fn map_changed(draft: &mut Draft<'_>, group: &GroupVolume, map: &Map) {
    let mut next = group.clone();
    is_made(&mut next, Some(map));
    // A disk that was put back leads nothing, and is filled as soon as others count on it no more.
    for (number, column) in (0..).zip(&mut next.columns) {
        let is_sound = |held: &MapColumn| held.node == map.primary.node || held.state != State::Sync;
        if map.column(number).is_none_or(is_sound) {
            column.put_back = None;
        }
        if map.column(number).is_none_or(|held| held.state != State::Sync) {
            column.failed = false;
        }
    }
    if next != *group {
        draft.write(Write::Put(Record::Group(next)));
    }
}

/// A primary takes commands up to the new size of its group.
pub(super) fn served(
    draft: &mut Draft<'_>,
    seat: &Seat,
    number: u32,
    since: u64,
    bytes: u64,
) -> Result<(), Refusal> {
    let registry = draft.registry;
    let member = draft.live(seat)?;
    let (group, held) = registry.map_of(number)?;
    let Some(growth) = group.grows.filter(|growth| growth.made && growth.bytes == bytes) else {
        return Ok(());
    };
    let bad = |error: String| Refusal::BadMap { volume: group.volume().to_owned(), problem: error };
    let map = held.decode().map_err(|error| bad(error.to_string()))?;
    if map.since != since || map.primary.node != NodeId(member.id) {
        return Err(Refusal::NotPrimary { volume: group.volume().to_owned(), since, epoch: map.since });
    }
    let whole = Whole::of(registry, group.volume())?;
    let is_served =
        |part: &&GroupVolume| part.number == number || part.grows.is_none_or(|growth| growth.served);
    if !whole.parts.iter().all(is_served) {
        let grows = Some(Growth { served: true, ..growth });
        draft.write(Write::Put(Record::Group(GroupVolume { grows, ..group.clone() })));
        return Ok(());
    }
    for part in &whole.parts {
        if let Some(growth) = part.grows {
            let next = GroupVolume { bytes: growth.bytes, ..without_growth(part) };
            draft.write(Write::Put(Record::Group(next)));
        }
    }
    if let Some(striped) = whole.striped {
        let bytes = striped.grows_to.unwrap_or(striped.bytes);
        draft.write(Write::Put(Record::Striped(StripedVolume { bytes, grows_to: None, ..striped.clone() })));
    }
    Ok(())
}

/// A group as if it had never been to grow, but for what its columns have taken of their disks.
pub(super) fn without_growth(group: &GroupVolume) -> GroupVolume {
    let bytes = group.grows.map_or(0, |growth| growth.bytes);
    let kept = |column: &GroupColumn| if column.grown { column.kept.max(bytes) } else { column.kept };
    let columns = group.columns.iter();
    let columns = columns.map(|column| GroupColumn { grown: false, kept: kept(column), ..column.clone() });
    GroupVolume { grows: None, columns: columns.collect(), ..group.clone() }
}

/// Notes whether all columns that are written have the new size. One that is to leave counts until the map is without it.
fn is_made(group: &mut GroupVolume, map: Option<&Map>) {
    let in_map = |number: u8| {
        map.is_none_or(|map| map.column(number).is_some_and(|column| column.state != State::None))
    };
    let has_left = |number: u8, column: &GroupColumn| column.state == ColumnState::Leaving && !in_map(number);
    let is_made = group.there().all(|(number, column)| column.grown || has_left(number, column));
    if let Some(growth) = &mut group.grows {
        growth.made |= is_made;
    }
}

/// A copy that is not well now might be filled from one that is larger, and its node might not come back: it is waited for before, not after.
fn check_columns(registry: &Registry, group: &GroupVolume) -> Result<(), Refusal> {
    let volume = || group.described();
    let map = registry.maps.get(&group.number).map(GroupMap::decode);
    let map = map.and_then(Result::ok).ok_or(Refusal::UnknownMap { number: group.number })?;
    for (number, column) in group.there() {
        if column.state != ColumnState::Made || column.replaces.is_some() {
            let (from, by) = match column.replaces.and_then(|from| group.columns.get(usize::from(from))) {
                Some(from) => (from.place(), column.place()),
                None => {
                    let by = group.successor(number).map(|(_, by)| by.place()).unwrap_or_default();
                    (column.place(), by)
                }
            };
            return Err(Refusal::GrowthAfterReplacement { volume: volume(), from, by });
        }
        if map.column(number).is_none_or(|column| column.state != State::Sync) {
            return Err(Refusal::NotInSync { volume: volume(), copy: column.place() });
        }
        let disk = registry.managed.get(&column.disk);
        if disk.is_none_or(|disk| !is_joined(registry, disk)) {
            return Err(Refusal::GrowthAway {
                volume: volume(),
                node: column.node.clone(),
                copy: column.place(),
            });
        }
    }
    Ok(())
}

/// A volume with all its groups.
struct Whole<'a> {
    striped: Option<&'a StripedVolume>,
    /// In their order.
    parts: Vec<&'a GroupVolume>,
}

impl<'a> Whole<'a> {
    /// A volume that is ready.
    fn of(registry: &'a Registry, name: &'a str) -> Result<Self, Refusal> {
        let striped = registry.striped.get(name);
        let mut parts: Vec<&GroupVolume> = match striped {
            Some(_) => registry.parts_of(name).collect(),
            None => registry.groups.get(name).filter(|group| group.part.is_none()).into_iter().collect(),
        };
        parts.sort_unstable_by_key(|part| part.part);
        let state = striped.map(|striped| striped.state).or(parts.first().map(|part| part.state));
        match state {
            Some(GroupState::Ready) => Ok(Self { striped, parts }),
            Some(state) => Err(Refusal::NotMade { volume: name.to_owned(), state }),
            None => Err(Refusal::UnknownVolume { volume: printable(name) }),
        }
    }

    fn bytes(&self) -> u64 {
        let first = || self.parts.first().map_or(0, |part| part.bytes);
        self.striped.map_or_else(first, |striped| striped.bytes)
    }

    fn block_bytes(&self) -> u64 {
        self.parts.first().map_or(1, |part| part.block_bytes.max(1))
    }

    fn grows_to(&self) -> Option<u64> {
        match self.striped {
            Some(striped) => striped.grows_to,
            None => self.parts.first()?.grows.map(|growth| growth.bytes),
        }
    }

    /// The bytes of each part in a volume of so many, which are no less than it has. Of parts that follow one another only the last one grows.
    fn shares(&self, bytes: u64) -> impl Iterator<Item = (&'a GroupVolume, u64)> {
        let bundle = self.striped.map(|striped| striped.bundle_bytes);
        let (count, block) = (self.parts.len() as u64, self.block_bytes());
        let last = self.parts.len().saturating_sub(1);
        let before: u64 = self.parts.iter().take(last).map(|part| part.bytes).sum();
        self.parts.clone().into_iter().enumerate().map(move |(number, part)| {
            let share = match bundle {
                None => bytes,
                Some(Some(bundle)) => bytes.div_ceil(bundle).div_ceil(count).saturating_mul(bundle),
                Some(None) if number == last => {
                    bytes.saturating_sub(before).div_ceil(block).saturating_mul(block)
                }
                Some(None) => part.bytes,
            };
            (part, share.max(part.bytes))
        })
    }

    /// The disks that have too little room for that, with what all its columns on each need.
    fn lacks(&self, registry: &Registry, bytes: u64) -> Vec<GrowthSpace> {
        let mut needed: BTreeMap<Uuid, u64> = BTreeMap::new();
        for (part, share) in self.shares(bytes) {
            for (_, column) in part.there() {
                let Some(disk) = registry.managed.get(&column.disk) else { continue };
                let more = disk.taken_by(share).saturating_sub(disk.taken_by(part.bytes.max(column.kept)));
                let of_disk = needed.entry(column.disk).or_default();
                *of_disk = of_disk.saturating_add(more);
            }
        }
        let lacking = needed.into_iter().filter_map(|(uuid, needed)| {
            let disk = registry.managed.get(&uuid)?;
            let room = registry.room_on(disk);
            (needed > room).then(|| GrowthSpace { disk: disk.place(), needed, room })
        });
        lacking.collect()
    }
}
