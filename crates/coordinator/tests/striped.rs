//! Volumes over several groups: created, made and removed as one, placed evenly, and what is refused.

use std::collections::{BTreeMap, BTreeSet};

use cards_coordinator::{
    AttachMode, BUNDLE_BYTES, Change, GROUP_NUMBER_MIN, GroupState, GroupVolume, NewStriped, Record, Refusal,
    Registry, ToldColumn, ToldDisk, records_in,
};
use cards_layout::layout::Layout;

use crate::common::{NOON, at, join, new_group, registry, seat, told_disk, uuid, volume};

const MIB: u64 = 1 << 20;

fn do_all(registry: &mut Registry, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        registry.apply(at(0), &change).unwrap_or_else(|refusal| panic!("{change:?}: {refusal}"));
        registry.verify().unwrap();
    }
}

fn refused(registry: &Registry, change: &Change) -> Refusal {
    registry.decide(at(0), change).expect_err("this is refused")
}

/// Nodes with a disk each, of so many MiB.
fn with_disks(sizes: &[u64]) -> Registry {
    let mut registry = registry();
    for (number, size) in (1..).zip(sizes) {
        let node = format!("n{number}");
        do_all(
            &mut registry,
            [
                Change::Join(join(&node, 1, NOON)),
                Change::PutManagedDisk { seat: seat(&node, 1), disk: told_disk(number, size * MIB) },
            ],
        );
    }
    registry
}

fn new(layout: &str, mib: u64) -> NewStriped {
    NewStriped {
        name: "v".into(),
        uuid: uuid(99),
        layout: layout.parse().unwrap(),
        bytes: mib * MIB,
        block_bytes: 65536,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro]),
        on: Vec::new(),
    }
}

fn parts(registry: &Registry) -> Vec<GroupVolume> {
    let view = registry.view();
    view.striped["v"].groups.iter().map(|number| view.group(*number).unwrap().clone()).collect()
}

fn told(part: &GroupVolume, column: usize) -> ToldColumn {
    let column = &part.columns[column];
    let (volume, group, disk) = (part.uuid, part.group(), column.disk);
    ToldColumn { seat: seat(&column.node, 1), volume, group, disk, free: 4 * MIB }
}

/// What nodes say when they have made, or removed, all columns of a part.
fn all(part: &GroupVolume, change: fn(ToldColumn) -> Change) -> Vec<Change> {
    (0..part.columns.len()).map(|column| change(told(part, column))).collect()
}

fn attach() -> Change {
    Change::Attach { seat: seat("n1", 1), volume: "v".into(), mode: AttachMode::Rw, takes_over: false }
}

#[test]
fn all_parts_are_created_at_once_and_the_volume_is_ready_with_the_last() {
    let mut registry = with_disks(&[200, 200, 200, 200]);
    let create = Change::CreateStriped(new("raid10", 100));
    let before = registry.view().revision.0;
    do_all(&mut registry, [create.clone()]);
    assert_eq!(registry.view().revision.0, before + 1, "one change");
    let made = parts(&registry);
    let striped = registry.view().striped["v"].clone();
    assert_eq!((striped.layout, striped.bundle_bytes), (Layout::Raid10 { copies: 2 }, Some(BUNDLE_BYTES)));
    assert_eq!((made.len(), made[0].number, made[0].bytes), (8, GROUP_NUMBER_MIN, 13 * MIB));
    assert_eq!((made[3].name.as_str(), made[3].volume(), made[3].group()), ("v/3", "v", 3));
    // The answer was lost: again, nothing changes.
    let again = registry.apply(at(0), &create).unwrap();
    assert!(!again.changed);
    assert!(matches!(refused(&registry, &attach()), Refusal::NotReady { state: GroupState::Making, .. }));
    let last = made.len() - 1;
    for part in &made[..last] {
        do_all(&mut registry, all(part, Change::ColumnMade));
        assert_eq!(registry.view().striped["v"].state, GroupState::Making);
    }
    do_all(&mut registry, all(&made[last], Change::ColumnMade));
    assert_eq!(registry.view().striped["v"].state, GroupState::Ready);
    for (part, map) in made.iter().zip(registry.view().maps.values()) {
        let decoded = map.decode().unwrap();
        assert_eq!((decoded.group, decoded.volume), (part.group(), part.uuid));
    }
    do_all(&mut registry, [attach()]);
    // Through the bytes, as a home does; without the volume no part of it is taken.
    let records = records_in(&registry.content()).unwrap();
    let loaded = Registry::load(records.clone(), |_, head| head.lease()).unwrap();
    assert_eq!(loaded.view(), registry.view());
    let orphans = records.into_iter().filter(|record| !matches!(record, Record::Striped(_)));
    let damage = Registry::load(orphans, |_, head| head.lease()).unwrap_err();
    assert!(damage.to_string().contains("is a part of a volume that does not have it"), "{damage}");
}

#[test]
fn a_daemon_of_an_earlier_release_refuses_the_registry_by_name() {
    let mut registry = with_disks(&[200, 200]);
    do_all(&mut registry, [Change::CreateStriped(new("raid0", 100))]);
    let text = String::from_utf8(registry.content()).unwrap();
    // It knows no such key, and no such field of a group.
    assert!(text.lines().any(|line| line.starts_with("striped/v ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("group/v/1 ") && line.contains("\"part\":1")), "{text}");
}

#[test]
fn all_parts_are_removed_at_once_and_the_volume_is_gone_with_the_last() {
    let mut registry = with_disks(&[200, 200, 200]);
    do_all(&mut registry, [Change::CreateStriped(new("raid0", 100))]);
    let made = parts(&registry);
    for part in &made {
        do_all(&mut registry, all(part, Change::ColumnMade));
    }
    do_all(&mut registry, [attach()]);
    let remove = Change::RemoveGroup { volume: "v".into() };
    assert!(matches!(refused(&registry, &remove), Refusal::StillAttached { .. }));
    do_all(&mut registry, [Change::Detach { seat: seat("n1", 1), volume: "v".into() }]);
    // A part alone is not removed.
    assert!(registry.decide(at(0), &Change::RemoveGroup { volume: "v/1".into() }).is_err());
    do_all(&mut registry, [remove.clone(), remove]);
    assert!(parts(&registry).iter().all(|part| part.state == GroupState::Removing));
    assert!(matches!(refused(&registry, &attach()), Refusal::NotReady { .. }));
    let taken = refused(&registry, &Change::CreateStriped(NewStriped { uuid: uuid(98), ..new("raid0", 50) }));
    assert!(taken.to_string().contains("n1, n2, n3"), "{taken}");
    for (number, part) in made.iter().enumerate() {
        assert_eq!(registry.view().striped.len(), 1, "{number} parts are gone");
        do_all(&mut registry, all(part, Change::ColumnRemoved));
    }
    let view = registry.view();
    assert!(view.striped.is_empty() && view.groups.is_empty() && view.maps.is_empty());
    // Another one has the name, and other numbers.
    do_all(&mut registry, [Change::CreateStriped(NewStriped { uuid: uuid(98), ..new("raid0", 10) })]);
    assert_eq!(parts(&registry)[0].number, GROUP_NUMBER_MIN + 3);
}

#[test]
fn the_record_of_a_volume_goes_with_a_dead_node_that_has_all_that_is_left() {
    let mut registry = with_disks(&[200]);
    do_all(&mut registry, [Change::CreateStriped(new("raid0", 100))]);
    let disk = parts(&registry)[0].columns[0].disk;
    do_all(&mut registry, [Change::RemoveGroup { volume: "v".into() }]);
    registry.apply(at(3_600), &Change::Expire).unwrap();
    do_all(&mut registry, [Change::RemoveManagedDisk { disk }]);
    assert!(registry.view().striped.is_empty() && registry.view().groups.is_empty());
}

#[test]
fn each_disk_has_about_the_same_share_and_each_node_leads_as_many_parts() {
    for (disks, layout) in
        [(4, "raid10"), (3, "raid10"), (5, "raid10:3"), (7, "raid10"), (12, "raid10"), (20, "raid10")]
    {
        let mut registry = with_disks(&vec![1000; disks]);
        do_all(&mut registry, [Change::CreateStriped(new(layout, 300))]);
        let parts = parts(&registry);
        let (mut columns, mut led): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
        for part in &parts {
            let nodes: BTreeSet<&str> = part.columns.iter().map(|column| column.node.as_str()).collect();
            assert_eq!(nodes.len(), part.columns.len(), "no two columns at one node");
            part.columns.iter().for_each(|column| *columns.entry(column.node.clone()).or_default() += 1);
            *led.entry(part.columns[0].node.clone()).or_default() += 1;
        }
        assert_eq!(columns.len(), disks, "{disks} disks, {layout}: {columns:?}");
        let spread = |of: &BTreeMap<String, usize>| of.values().max().unwrap() - of.values().min().unwrap();
        assert!(spread(&columns) <= 1, "{disks} disks, {layout}: {columns:?}");
        assert!(led.len() == disks.min(parts.len()) && spread(&led) <= 1, "{disks} disks, {layout}: {led:?}");
    }
}

#[test]
fn columns_of_a_part_are_never_in_one_failure_domain() {
    let mut registry = with_disks(&[400, 400, 400, 400]);
    let in_rack = |number: u8, rack: &str| Change::PutManagedDisk {
        seat: seat(&format!("n{number}"), 1),
        disk: ToldDisk { domain: Some(rack.into()), ..told_disk(number, 400 * MIB) },
    };
    do_all(&mut registry, [in_rack(1, "r1"), in_rack(2, "r1"), in_rack(3, "r2"), in_rack(4, "r2")]);
    do_all(&mut registry, [Change::CreateStriped(new("raid10", 200))]);
    for part in parts(&registry) {
        let racks: BTreeSet<bool> =
            part.columns.iter().map(|column| ["n1", "n2"].contains(&column.node.as_str())).collect();
        assert_eq!(racks.len(), 2, "{part:?}");
    }
    let refusal = refused(
        &registry,
        &Change::CreateStriped(NewStriped { uuid: uuid(98), name: "w".into(), ..new("raid10:3", 10) }),
    );
    assert!(
        refusal.to_string().contains(
            "3 copies of each part, which need as many failure domains, and only 2 have a managed disk"
        ),
        "{refusal}"
    );
}

#[test]
fn a_linear_volume_takes_of_each_disk_what_is_free() {
    let mut registry = with_disks(&[50, 10, 30]);
    do_all(&mut registry, [Change::CreateStriped(new("linear", 75))]);
    let sizes: Vec<(String, u64)> =
        parts(&registry).iter().map(|part| (part.columns[0].node.clone(), part.bytes / MIB)).collect();
    assert_eq!(sizes, [("n1".into(), 50), ("n3".into(), 25)]);
    assert_eq!(registry.view().striped["v"].bundle_bytes, None);
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let registry = with_disks(&[100, 100, 40]);
    for (layout, mib) in [("raid0", 301), ("linear", 241), ("raid10", 150)] {
        let refusal = refused(&registry, &Change::CreateStriped(new(layout, mib)));
        let Refusal::NoStripes { most, .. } = &refusal else { panic!("{refusal}") };
        let text = refusal.to_string();
        assert!(text.contains(&format!("Make it {most} bytes at most")), "{text}");
        assert!(text.contains("disk n3:d has room for 41943040"), "{text}");
        let fits = NewStriped { bytes: *most, ..new(layout, 1) };
        assert!(registry.decide(at(0), &Change::CreateStriped(fits)).is_ok(), "{layout}: {most}");
    }
    // Without the small disk there is more room for stripes of one size.
    let mut chosen = registry.clone();
    do_all(&mut chosen, [Change::CreateStriped(new("raid0", 180))]);
    assert_eq!(parts(&chosen).len(), 2);
    // But those that are named are meant.
    let named = NewStriped { on: vec![uuid(1), uuid(2), uuid(3)], ..new("raid0", 180) };
    let refusal = refused(&registry, &Change::CreateStriped(named)).to_string();
    assert!(refusal.contains("as raid0 it would be 3 parts of 62914560 bytes;"), "{refusal}");
    for (change, says) in [
        (NewStriped { on: vec![uuid(1), uuid(1)], ..new("raid0", 10) }, "cannot have disk n1:d twice"),
        (NewStriped { on: vec![uuid(77)], ..new("raid0", 10) }, "no node has told of a managed disk"),
        (new("raid1", 10), "make it raid10, raid0 or linear, or raid1, which is one group"),
        (new("raid5", 10), "cannot be raid5"),
        (new("raid10:9", 10), "9 copies"),
        (NewStriped { name: "a/b".into(), ..new("raid0", 10) }, "is no name"),
    ] {
        let refusal = refused(&registry, &Change::CreateStriped(change)).to_string();
        assert!(refusal.contains(says), "{refusal}");
    }
}

#[test]
fn a_name_is_that_of_one_volume() {
    let mut registry = with_disks(&[100, 100]);
    do_all(&mut registry, [Change::CreateStriped(new("raid0", 20))]);
    let group = Change::CreateGroup(new_group("v", 7));
    assert!(matches!(refused(&registry, &group), Refusal::VolumeExists { .. }));
    do_all(&mut registry, [Change::PutDisk { seat: seat("n1", 1), disk: "d".into(), bytes: MIB }]);
    assert!(registry.decide(at(0), &Change::PutVolume(volume("v", "d"))).is_err());
    do_all(&mut registry, [Change::CreateGroup(new_group("w", 8))]);
    let striped = Change::CreateStriped(NewStriped { name: "w".into(), uuid: uuid(98), ..new("raid0", 20) });
    assert!(matches!(refused(&registry, &striped), Refusal::VolumeExists { .. }));
}

#[test]
fn the_only_copy_of_a_part_is_not_replaced_while_its_node_is_away() {
    let mut registry = with_disks(&[100, 100, 100]);
    do_all(&mut registry, [Change::CreateStriped(new("raid0", 60))]);
    for part in parts(&registry) {
        do_all(&mut registry, all(&part, Change::ColumnMade));
    }
    let replace = Change::ReplaceColumn { volume: "v".into(), from: uuid(1), to: vec![] };
    let room = Change::PutManagedDisk { seat: seat("n2", 1), disk: told_disk(2, 100 * MIB) };
    do_all(&mut registry, [room]);
    let mut there = registry.clone();
    do_all(&mut registry, [Change::Left { seat: seat("n1", 1) }]);
    let refused = refused(&registry, &replace);
    assert!(matches!(refused, Refusal::SourcesAway { alone: true, .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("its only copy is on n1:") && said.contains("Start that node"), "{said}");
    do_all(&mut there, [replace]);
}

#[test]
fn copies_of_all_parts_on_a_disk_are_replaced_together_and_fit_together() {
    let mut registry = with_disks(&[100, 100, 100, 0]);
    do_all(&mut registry, [Change::CreateStriped(new("raid10", 60))]);
    for part in parts(&registry) {
        do_all(&mut registry, all(&part, Change::ColumnMade));
    }
    // Each is told to be nearly full now; another disk comes, which has room for some of them only, and then for all.
    let from = uuid(1);
    let on = |registry: &Registry, disk| {
        let has = |part: &&GroupVolume| part.there().any(|(_, column)| column.disk == disk);
        parts(registry).iter().filter(has).count()
    };
    let count = on(&registry, from) as u64;
    assert_eq!(count, 4);
    let replace = Change::ReplaceColumn { volume: "v".into(), from, to: vec![uuid(4)] };
    let room = |mib| Change::PutManagedDisk { seat: seat("n4", 1), disk: told_disk(4, mib * MIB) };
    do_all(&mut registry, [room(count * 10 - 1)]);
    assert!(matches!(refused(&registry, &replace), Refusal::NoRoom { .. }));
    do_all(&mut registry, [room(count * 10), replace.clone(), replace]);
    assert_eq!(on(&registry, uuid(4)), 4);
    let none = Change::ReplaceColumn { volume: "v".into(), from: uuid(77), to: vec![] };
    assert!(matches!(refused(&registry, &none), Refusal::NoCopyThere { .. }));
}
