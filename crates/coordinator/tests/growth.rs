//! Volumes that become larger: step by step, with nodes that come and go meanwhile, and what is refused.

use std::collections::BTreeSet;

use cards_array::group::{Map, Marks, Member};
use cards_coordinator::{
    AttachMode, Change, ColumnState, GroupVolume, Growth, NewMap, NewStriped, Refusal, Registry, ToldColumn,
    View, records_in,
};
use cards_core::NodeId;

use crate::common::{NOON, at, join, new_group, registry, seat, told_disk, uuid};

const MIB: u64 = 1 << 20;

fn do_all(registry: &mut Registry, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        registry.apply(at(0), &change).unwrap_or_else(|refusal| panic!("{change:?}: {refusal}"));
        registry.verify().unwrap();
        let records = records_in(&registry.content()).unwrap();
        let loaded = Registry::load(records, |_, head| head.lease()).unwrap();
        assert_eq!(loaded.view(), registry.view());
    }
}

fn refused(registry: &Registry, change: &Change) -> Refusal {
    registry.decide(at(0), change).expect_err("this is refused")
}

/// Nodes n1, n2 ... with a disk each, of so many MiB that are free.
fn with_disks(free: &[u64]) -> Registry {
    let mut registry = registry();
    for (number, free) in (1..).zip(free) {
        let (node, disk) = (format!("n{number}"), told_disk(number, free * MIB));
        let put = Change::PutManagedDisk { seat: seat(&node, 1), disk };
        do_all(&mut registry, [Change::Join(join(&node, 1, NOON)), put]);
    }
    registry
}

/// Volume `v` of 4 MiB over the disks of n1 and n2, ready.
fn mirrored() -> Registry {
    let mut registry = with_disks(&[24, 24, 20]);
    do_all(&mut registry, [Change::CreateGroup(new_group("v", 9))]);
    let made = made_of(&registry, "v", 20);
    do_all(&mut registry, made);
    registry
}

/// Volume `v` over all disks, ready.
fn striped(layout: &str, mib: u64, free: &[u64], left: u64) -> Registry {
    let mut registry = with_disks(free);
    let new = NewStriped {
        name: "v".into(),
        uuid: uuid(9),
        layout: layout.parse().unwrap(),
        bytes: mib * MIB,
        block_bytes: 65536,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw]),
        on: Vec::new(),
    };
    do_all(&mut registry, [Change::CreateStriped(new)]);
    for part in parts(&registry.view()) {
        let made = made_of(&registry, &part.name, left);
        do_all(&mut registry, made);
    }
    registry
}

fn parts(view: &View) -> Vec<GroupVolume> {
    view.striped["v"].groups.iter().map(|number| view.group(*number).unwrap().clone()).collect()
}

fn told(group: &GroupVolume, column: usize, free: u64) -> ToldColumn {
    let of = &group.columns[column];
    let (volume, disk) = (group.uuid, of.disk);
    ToldColumn { seat: seat(&of.node, 1), volume, group: group.group(), disk, free: free * MIB }
}

fn made_of(registry: &Registry, name: &str, free: u64) -> Vec<Change> {
    let group = registry.view().groups[name].clone();
    (0..group.columns.len()).map(|column| Change::ColumnMade(told(&group, column, free))).collect()
}

fn grow(mib: u64) -> Change {
    Change::GrowVolume { volume: "v".into(), bytes: mib * MIB }
}

fn group(registry: &Registry) -> GroupVolume {
    registry.view().groups["v"].clone()
}

fn grown(registry: &Registry, column: usize, mib: u64) -> Change {
    Change::ColumnGrown { column: told(&group(registry), column, 8), bytes: mib * MIB }
}

fn map(registry: &Registry, number: u32) -> Map {
    registry.view().maps[&number].decode().unwrap()
}

/// The primary of a group says that it takes commands up to that size.
fn served(registry: &Registry, group: &GroupVolume, mib: u64) -> Change {
    let map = map(registry, group.number);
    let node = registry.view().members.values().find(|member| member.id == map.primary.node.0).cloned();
    let seat = node.unwrap().seat();
    Change::SizeServed { seat, number: group.number, since: map.since, bytes: mib * MIB }
}

fn change_map(registry: &mut Registry, change: impl FnOnce(&Map) -> Map) {
    let held = registry.view().maps.values().next().unwrap().clone();
    let map = change(&held.decode().unwrap()).encode();
    let (number, generation, epoch, fence) = (held.number, held.generation, held.epoch, held.fence);
    do_all(registry, [Change::PutMap(NewMap { number, generation, epoch, fence, map })]);
}

#[test]
fn a_volume_has_its_new_size_when_all_copies_have_it_and_the_primary_serves_it() {
    let mut registry = mirrored();
    do_all(&mut registry, [grow(10), grow(10)]);
    let growth = Growth { bytes: 10 * MIB, made: false, served: false };
    let sizes = |registry: &Registry| {
        let group = group(registry);
        (group.bytes, group.served_bytes(), group.column_bytes())
    };
    assert_eq!(group(&registry).grows, Some(growth));
    assert_eq!(sizes(&registry), (4 * MIB, 4 * MIB, 10 * MIB));
    // Too early: nobody says so, or what is said of another size.
    let early = served(&registry, &group(&registry), 10);
    let other = grown(&registry, 0, 9);
    do_all(&mut registry, [early, other]);
    assert_eq!(group(&registry).grows, Some(growth));

    let first = grown(&registry, 0, 10);
    do_all(&mut registry, [first.clone(), first]);
    assert_eq!(sizes(&registry), (4 * MIB, 4 * MIB, 10 * MIB));
    let second = grown(&registry, 1, 10);
    do_all(&mut registry, [second.clone()]);
    assert_eq!(sizes(&registry), (4 * MIB, 10 * MIB, 10 * MIB));
    // Another process leads it by now: what the one before it serves is of no use.
    let early = served(&registry, &group(&registry), 10);
    let by =
        Member { node: NodeId(map(&registry, group(&registry).number).primary.node.0 ^ 1), incarnation: 1 };
    change_map(&mut registry, |map| map.taken_over(by).unwrap());
    assert!(matches!(refused(&registry, &early), Refusal::NotPrimary { .. }));
    let now = served(&registry, &group(&registry), 10);
    do_all(&mut registry, [now.clone(), now, second]);
    let group = group(&registry);
    assert_eq!((group.bytes, group.grows), (10 * MIB, None));
    assert!(group.columns.iter().all(|column| !column.grown));
    do_all(&mut registry, [grow(10)]);
}

#[test]
fn a_copy_that_is_replaced_meanwhile_is_made_with_the_new_size() {
    let mut registry = mirrored();
    do_all(&mut registry, [grow(10)]);
    let first = grown(&registry, 0, 10);
    do_all(&mut registry, [first]);
    let home = map(&registry, group(&registry).number).primary;
    change_map(&mut registry, |map| map.without(home, 1, 1, Marks(0)).unwrap());
    let from = group(&registry).columns[1].disk;
    do_all(&mut registry, [Change::ReplaceColumn { volume: "v".into(), from, to: vec![] }]);
    let columns = group(&registry).columns;
    assert_eq!(
        (columns[2].node.as_str(), columns[2].state, columns[2].grown),
        ("n3", ColumnState::Missing, true)
    );
    assert!(!group(&registry).grows.unwrap().made, "the map has the other one yet");
    let made = Change::ColumnMade(told(&group(&registry), 2, 10));
    do_all(&mut registry, [made]);
    let node = NodeId(registry.view().members["n3"].id);
    change_map(&mut registry, |map| map.added(home, 2, uuid(3), node).unwrap());
    change_map(&mut registry, |map| map.let_in(home, 2, uuid(3), None).unwrap());
    change_map(&mut registry, |map| map.admitted(home, 2).unwrap());
    assert!(!group(&registry).grows.unwrap().made);
    change_map(&mut registry, |map| map.retired(home, 1, Some(2)).unwrap());
    assert!(group(&registry).grows.unwrap().made, "what has left needs no room");
    let served = served(&registry, &group(&registry), 10);
    do_all(&mut registry, [served]);
    assert_eq!(group(&registry).bytes, 10 * MIB);
}

#[test]
fn all_parts_have_their_new_size_in_one_change() {
    for (layout, mib, wanted, sizes) in [
        ("raid0", 12, 21, vec![7, 7, 7]),
        ("raid10", 24, 30, vec![5; 6]),
        // Only the last part grows.
        ("linear", 50, 60, vec![24, 24, 12]),
    ] {
        let mut registry = striped(layout, mib, &[24, 24, 24], 20);
        let before: Vec<u64> = parts(&registry.view()).iter().map(|part| part.bytes).collect();
        do_all(&mut registry, [grow(wanted)]);
        assert_eq!(registry.view().striped["v"].grows_to, Some(wanted * MIB));
        let grows: Vec<GroupVolume> =
            parts(&registry.view()).into_iter().filter(|part| part.grows.is_some()).collect();
        for part in &grows {
            let bytes = part.column_bytes();
            for column in 0..part.columns.len() {
                let change = Change::ColumnGrown { column: told(part, column, 9), bytes };
                do_all(&mut registry, [change]);
            }
        }
        for (number, part) in grows.iter().enumerate() {
            let now = |registry: &Registry| -> Vec<u64> {
                parts(&registry.view()).iter().map(|part| part.bytes).collect()
            };
            assert_eq!((now(&registry), number), (before.clone(), number), "{layout}: none before the last");
            assert_eq!(registry.view().striped["v"].bytes, mib * MIB);
            let served = served(&registry, part, part.column_bytes() / MIB);
            do_all(&mut registry, [served]);
        }
        let view = registry.view();
        assert_eq!((view.striped["v"].bytes, view.striped["v"].grows_to), (wanted * MIB, None));
        let now: Vec<u64> = parts(&view).iter().map(|part| part.bytes / MIB).collect();
        assert_eq!(now, sizes, "{layout}");
        assert!(parts(&view).iter().all(|part| part.grows.is_none()));
    }
}

#[test]
fn a_volume_whose_parts_have_room_is_larger_at_once() {
    let mut registry = striped("raid0", 10, &[24, 24, 24], 20);
    assert!(parts(&registry.view()).iter().all(|part| part.bytes == 4 * MIB));
    do_all(&mut registry, [grow(12)]);
    let striped = registry.view().striped["v"].clone();
    assert_eq!((striped.bytes, striped.grows_to), (12 * MIB, None));
}

#[test]
fn what_does_not_fit_says_what_is_lacking_where_and_what_would() {
    let registry = mirrored();
    let Refusal::NoGrowth { most, disks, .. } = refused(&registry, &grow(40)) else { panic!("it fits") };
    assert_eq!((most, disks.len()), (24 * MIB, 2));
    let text = refused(&registry, &grow(40)).to_string();
    let wanted = "has 4194304 bytes and cannot grow to 41943040 on its disks: disk n1:d needs 37748736 bytes more for it, and has room for \
                  20971520; disk n2:d";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("Make it 25165824 bytes at most"), "{text}");
    assert!(registry.decide(at(0), &grow(24)).is_ok());
    // What another one is to have is spoken for.
    let mut registry = mirrored();
    do_all(&mut registry, [grow(20), Change::CreateGroup(new_group("w", 8))]);
    let view = registry.view();
    let nodes: Vec<&str> = view.groups["w"].columns.iter().map(|column| column.node.as_str()).collect();
    assert!(nodes.contains(&"n3"), "the others have 4 MiB left: {nodes:?}");
    for (layout, free, most) in [("raid0", 20, 72), ("linear", 20, 70), ("raid10", 20, 42)] {
        let registry = striped(layout, if layout == "linear" { 50 } else { 12 }, &[24, 24, 24], free);
        let Refusal::NoGrowth { most: fits, .. } = refused(&registry, &grow(900)) else { panic!("{layout}") };
        let most = most * MIB;
        assert!(fits >= most - 6 * MIB && fits <= most, "{layout}: {fits} and {most}");
        assert!(registry.decide(at(0), &grow(fits / MIB)).is_ok(), "{layout}");
    }
}

#[test]
fn refusals_name_the_size_the_copy_or_the_node() {
    let mut registry = mirrored();
    let text = refused(&registry, &grow(3)).to_string();
    assert!(text.contains("has 4194304 bytes and cannot have 3145728"), "{text}");
    let odd = Change::GrowVolume { volume: "v".into(), bytes: 5 * MIB + 7 };
    assert!(matches!(refused(&registry, &odd), Refusal::BadSize { .. }));
    let none = Change::GrowVolume { volume: "w".into(), bytes: 5 * MIB };
    assert!(matches!(refused(&registry, &none), Refusal::UnknownVolume { .. }));
    assert!(!registry.apply(at(0), &grow(4)).unwrap().changed, "it has that size");

    let mut stale = mirrored();
    let home = map(&stale, group(&stale).number).primary;
    change_map(&mut stale, |map| map.without(home, 1, 1, Marks(0)).unwrap());
    let text = refused(&stale, &grow(5)).to_string();
    let copy = group(&stale).columns[1].place();
    assert!(text.contains(&format!("while its copy on {copy} is not in sync")), "{text}");

    let mut replaced = mirrored();
    let from = group(&replaced).columns[1].disk;
    do_all(&mut replaced, [Change::ReplaceColumn { volume: "v".into(), from, to: vec![] }]);
    let text = refused(&replaced, &grow(5)).to_string();
    assert!(
        text.contains("cannot grow while its copy on") && text.contains("is being replaced by the one on"),
        "{text}"
    );

    let mut away = mirrored();
    do_all(&mut away, [Change::Leave { seat: seat("n2", 1) }]);
    let text = refused(&away, &grow(5)).to_string();
    assert!(text.contains("cannot grow while node `n2`") && !text.contains("another disk"), "{text}");

    do_all(&mut registry, [grow(5)]);
    let text = refused(&registry, &grow(6)).to_string();
    assert!(text.contains("is growing to 5242880 bytes already"), "{text}");
    do_all(&mut registry, [Change::RemoveGroup { volume: "v".into() }]);
    assert_eq!(group(&registry).grows, None);
    assert!(matches!(refused(&registry, &grow(5)), Refusal::NotMade { .. }));
    let mut made = with_disks(&[24, 24]);
    do_all(&mut made, [Change::CreateGroup(new_group("v", 9))]);
    assert!(matches!(refused(&made, &grow(5)), Refusal::NotMade { .. }));
}

#[test]
fn a_growth_is_given_up_until_all_have_the_space() {
    let mut registry = mirrored();
    let cancel = || Change::CancelGrowth { volume: "v".into() };
    do_all(&mut registry, [cancel(), grow(10)]);
    let first = grown(&registry, 0, 10);
    do_all(&mut registry, [first, cancel(), cancel()]);
    let kept = group(&registry);
    assert_eq!((kept.bytes, kept.served_bytes(), kept.grows), (4 * MIB, 4 * MIB, None));
    assert!(kept.columns.iter().all(|column| !column.grown));
    assert_eq!(kept.columns.iter().map(|column| column.kept).collect::<Vec<_>>(), [10 * MIB, 0]);
    // What comes late changes nothing.
    let late = [grown(&registry, 1, 10), served(&registry, &kept, 10)];
    do_all(&mut registry, late);
    assert_eq!(group(&registry), kept);
    do_all(&mut registry, [grow(6)]);
    let columns = [grown(&registry, 0, 6), grown(&registry, 1, 6)];
    do_all(&mut registry, columns);
    assert!(matches!(refused(&registry, &cancel()), Refusal::GrowthMade { bytes, .. } if bytes == 6 * MIB));
    let now = served(&registry, &group(&registry), 6);
    do_all(&mut registry, [now, cancel()]);
    assert_eq!(group(&registry).bytes, 6 * MIB);
}
