//! Volumes over managed disks: placement, what nodes say of columns, maps, and what is refused.

use cards_array::group::{KeptExclusivity, Map, Marks, Member, State, Term};
use cards_coordinator::{
    AttachMode, Change, ColumnState, GROUP_NUMBER_MIN, GroupState, NewExclusivity, NewGroup, NewMap, Record,
    Refusal, Registry, ToldColumn, ToldDisk,
};
use cards_core::{Exclusivity, Generation, NodeId, PgId};

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

fn put(node: &str, disk: ToldDisk) -> Change {
    Change::PutManagedDisk { seat: seat(node, 1), disk }
}

fn told(node: &str, volume: u8, disk: u8, free: u64) -> ToldColumn {
    ToldColumn { seat: seat(node, 1), volume: uuid(volume), group: 0, disk: uuid(disk), free }
}

/// Nodes a, b and c with disks 1, 2 and 3, of which b's has most space and c's least.
fn with_disks() -> Registry {
    let mut registry = registry();
    do_all(&mut registry, ["a", "b", "c"].map(|node| Change::Join(join(node, 1, NOON))));
    do_all(
        &mut registry,
        [
            put("a", told_disk(1, 20 * MIB)),
            put("b", told_disk(2, 30 * MIB)),
            put("c", told_disk(3, 10 * MIB)),
        ],
    );
    registry
}

/// The same with volume `v` (9) over the disks of b and a, ready.
fn with_volume() -> Registry {
    let mut registry = with_disks();
    do_all(
        &mut registry,
        [
            Change::CreateGroup(new_group("v", 9)),
            Change::ColumnMade(told("a", 9, 1, 16 * MIB)),
            Change::ColumnMade(told("b", 9, 2, 26 * MIB)),
        ],
    );
    registry
}

fn map_of(registry: &Registry) -> Map {
    registry.view().maps.values().next().expect("there is a volume").decode().unwrap()
}

fn new_map(registry: &Registry, map: &Map) -> NewMap {
    let held = registry.view().maps.values().next().expect("there is a volume").clone();
    NewMap {
        number: held.number,
        generation: held.generation,
        epoch: held.epoch,
        fence: held.fence,
        map: map.encode(),
    }
}

#[test]
fn columns_go_where_most_space_is_and_are_made_by_their_nodes() {
    let mut registry = with_disks();
    do_all(&mut registry, [Change::CreateGroup(new_group("v", 9))]);
    let making = registry.view().groups["v"].clone();
    let nodes: Vec<&str> = making.columns.iter().map(|column| column.node.as_str()).collect();
    assert_eq!(nodes, ["b", "a"]);
    assert_eq!((making.state, making.number), (GroupState::Making, GROUP_NUMBER_MIN));
    assert!(!making.pg().is_plain() && PgId(making.number - (1 << 6) - 1).is_plain());
    assert!(registry.view().maps.is_empty());
    let attach =
        Change::Attach { seat: seat("c", 1), volume: "v".into(), mode: AttachMode::Rw, takes_over: false };
    let not_ready = refused(&registry, &attach).to_string();
    assert!(not_ready.contains("volume `v` cannot be attached while it is making"), "{not_ready}");

    do_all(&mut registry, [Change::ColumnMade(told("a", 9, 1, 16 * MIB))]);
    assert_eq!(registry.view().groups["v"].columns[1].state, ColumnState::Made);
    do_all(&mut registry, [Change::ColumnMade(told("b", 9, 2, 26 * MIB))]);
    assert_eq!(registry.view().groups["v"].state, GroupState::Ready);
    let map = map_of(&registry);
    assert_eq!(
        (map.term, map.primary),
        (Term { generation: 1, epoch: 1 }, Member { node: NodeId(1), incarnation: 1 })
    );
    assert!(map.is_whole());
    assert_eq!(map.columns.iter().map(|column| column.node).collect::<Vec<_>>(), [NodeId(1), NodeId(0)]);
    do_all(&mut registry, [attach]);
    // Through the bytes, as a home does.
    let content = registry.content();
    let records = cards_coordinator::records_in(&content).unwrap();
    let again = Registry::load(records, |_, head| head.lease()).unwrap();
    assert_eq!(again.view(), registry.view());
}

#[test]
fn what_is_to_be_made_is_reckoned_with() {
    let mut registry = with_disks();
    let big = |name: &str, number: u8, mib: u64| {
        Change::CreateGroup(NewGroup { bytes: mib * MIB, ..new_group(name, number) })
    };
    do_all(&mut registry, [big("v", 8, 15)]);
    // 15 are left at b, 10 at c and 5 at a.
    do_all(&mut registry, [big("w", 9, 10)]);
    let nodes: Vec<_> =
        registry.view().groups["w"].columns.iter().map(|column| column.node.clone()).collect();
    assert_eq!(nodes, ["b", "c"]);
    let refusal = refused(&registry, &big("x", 10, 6));
    assert_eq!(
        refusal.to_string(),
        "volume `x` needs 6291456 bytes in each of 2 failure domains, and none has that: disk a:d has room for 5242880; disk b:d has \
         room for 5242880; disk c:d has room for 0; make it smaller or with fewer copies, remove a volume, or add a managed disk (`cards \
         disk format`)"
    );
}

#[test]
fn one_domain_has_one_column() {
    let mut registry = with_disks();
    let in_rack = |number, free| ToldDisk { domain: Some("hall/rack1".into()), ..told_disk(number, free) };
    do_all(&mut registry, [put("a", in_rack(1, 20 * MIB)), put("b", in_rack(2, 30 * MIB))]);
    do_all(&mut registry, [Change::CreateGroup(new_group("v", 9))]);
    let nodes: Vec<_> =
        registry.view().groups["v"].columns.iter().map(|column| column.node.clone()).collect();
    assert_eq!(nodes, ["b", "c"]);
    let three =
        refused(&registry, &Change::CreateGroup(NewGroup { copies: 3, ..new_group("w", 8) })).to_string();
    assert!(
        three.contains(
            "in each of 3 failure domains, and only 2 have that: domain hall/rack1, disk b:d has room for"
        ),
        "{three}"
    );
    let near = NewGroup { on: vec![uuid(1), uuid(2)], ..new_group("w", 8) };
    let near = refused(&registry, &Change::CreateGroup(near)).to_string();
    assert!(
        near.contains("copies on both b:d and a:d: they are in one failure domain (`hall/rack1`)"),
        "{near}"
    );
}

/// Disks of one node that were formatted as of two domains are lost together all the same.
#[test]
fn one_node_has_one_column() {
    let mut registry = with_disks();
    let other = ToldDisk { name: "e".into(), domain: Some("hall/rack9".into()), ..told_disk(4, 40 * MIB) };
    do_all(&mut registry, [put("b", other)]);
    do_all(&mut registry, [Change::CreateGroup(NewGroup { copies: 3, ..new_group("v", 9) })]);
    let mut nodes: Vec<_> =
        registry.view().groups["v"].columns.iter().map(|column| column.node.clone()).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "b", "c"]);
}

#[test]
fn disks_that_are_named_are_taken_in_their_order() {
    let mut registry = with_disks();
    let on = |disks: &[u8]| {
        let on = disks.iter().map(|disk| uuid(*disk)).collect();
        Change::CreateGroup(NewGroup { on, ..new_group("v", 9) })
    };
    assert!(matches!(refused(&registry, &on(&[1])), Refusal::OtherCopies { copies: 2, disks: 1, .. }));
    assert!(matches!(refused(&registry, &on(&[1, 7])), Refusal::UnknownManagedDisk { .. }));
    assert!(matches!(refused(&registry, &on(&[1, 1])), Refusal::SameDisk { .. }));
    do_all(&mut registry, [Change::Leave { seat: seat("b", 1) }]);
    assert!(matches!(refused(&registry, &on(&[1, 2])), Refusal::DiskAway { .. }));
    let large = NewGroup { bytes: 11 * MIB, on: vec![uuid(3), uuid(1)], ..new_group("v", 9) };
    assert!(matches!(refused(&registry, &Change::CreateGroup(large)), Refusal::NoPlace { fitting: 0, .. }));
    do_all(&mut registry, [on(&[3, 1])]);
    let nodes: Vec<_> =
        registry.view().groups["v"].columns.iter().map(|column| column.node.clone()).collect();
    assert_eq!(nodes, ["c", "a"]);
}

#[test]
fn a_name_is_that_of_one_volume() {
    let mut registry = with_volume();
    do_all(
        &mut registry,
        [
            Change::PutDisk { seat: seat("a", 1), disk: "a:0".into(), bytes: 1 << 30 },
            Change::PutVolume(volume("plain", "a:0")),
        ],
    );
    let taken = refused(&registry, &Change::CreateGroup(new_group("plain", 8))).to_string();
    assert_eq!(taken, "volume `plain` exists, on a disk of node `a`; choose another name");
    let taken = refused(&registry, &Change::PutVolume(volume("v", "a:0"))).to_string();
    assert!(
        taken.starts_with("volume `v` exists, on managed disks of several nodes (`cards volume show v`)"),
        "{taken}"
    );
    assert!(matches!(
        refused(&registry, &Change::CreateGroup(new_group("v", 8))),
        Refusal::VolumeExists { .. }
    ));
    assert!(matches!(refused(&registry, &Change::CreateGroup(new_group("w", 9))), Refusal::UuidTaken { .. }));
    let again = registry.apply(at(0), &Change::CreateGroup(new_group("v", 9))).unwrap();
    assert!(!again.changed, "asked again because the answer was lost");
}

#[test]
fn definitions_that_cannot_work_are_refused() {
    let registry = with_disks();
    let with = |change: &dyn Fn(&mut NewGroup)| {
        let mut new = new_group("v", 9);
        change(&mut new);
        refused(&registry, &Change::CreateGroup(new))
    };
    for bytes in [0, 4095, 5000, u64::MAX - 4095, 1 << 49] {
        assert!(matches!(with(&|new| new.bytes = bytes), Refusal::BadSize { .. }), "{bytes}");
    }
    for copies in [0, 1, 9] {
        assert!(matches!(with(&|new| new.copies = copies), Refusal::BadCopies { .. }), "{copies}");
    }
    assert!(matches!(with(&|new| new.block_bytes = 1000), Refusal::BadBlockSize { .. }));
    assert!(matches!(with(&|new| new.policy.clear()), Refusal::BadPolicy { .. }));
    assert!(matches!(with(&|new| new.modes.clear()), Refusal::NoModes { .. }));
    assert!(matches!(with(&|new| new.uuid = uuid(0)), Refusal::UuidTaken { .. }));
    assert!(matches!(with(&|new| new.name = "a/b".into()), Refusal::BadName { .. }));
    assert!(matches!(with(&|new| new.name = "a:b".into()), Refusal::BadDiskName { .. }));
}

#[test]
fn a_volume_goes_when_all_nodes_have_removed_their_columns() {
    let mut registry = with_volume();
    let attach =
        Change::Attach { seat: seat("c", 1), volume: "v".into(), mode: AttachMode::Rw, takes_over: false };
    let remove = Change::RemoveGroup { volume: "v".into() };
    do_all(&mut registry, [attach.clone()]);
    assert!(matches!(refused(&registry, &remove), Refusal::StillAttached { .. }));
    let early = Change::ColumnRemoved(told("a", 9, 1, 20 * MIB));
    assert!(matches!(refused(&registry, &early), Refusal::NotBeingRemoved { .. }));
    do_all(
        &mut registry,
        [Change::Detach { seat: seat("c", 1), volume: "v".into() }, remove.clone(), remove],
    );
    assert!(matches!(refused(&registry, &attach), Refusal::NotReady { state: GroupState::Removing, .. }));
    do_all(&mut registry, [Change::ColumnRemoved(told("a", 9, 1, 20 * MIB))]);
    let again = refused(&registry, &Change::CreateGroup(new_group("v", 7))).to_string();
    assert!(again.starts_with("volume `v` is being removed, and b has still to remove its copy"), "{again}");
    let last = Change::ColumnRemoved(told("b", 9, 2, 30 * MIB));
    do_all(&mut registry, [last.clone(), last]);
    let view = registry.view();
    assert!(view.groups.is_empty() && view.maps.is_empty());
    assert_eq!(view.managed.iter().map(|disk| disk.free / MIB).collect::<Vec<_>>(), [20, 30, 10]);
    do_all(&mut registry, [Change::CreateGroup(new_group("v", 7))]);
    assert_eq!(registry.view().groups["v"].number, GROUP_NUMBER_MIN + 1, "a number is given once");
}

#[test]
fn a_volume_that_is_not_made_yet_can_be_removed() {
    let mut registry = with_disks();
    do_all(
        &mut registry,
        [
            Change::CreateGroup(new_group("v", 9)),
            Change::ColumnMade(told("a", 9, 1, 16 * MIB)),
            Change::RemoveGroup { volume: "v".into() },
        ],
    );
    let late = Change::ColumnMade(told("b", 9, 2, 26 * MIB));
    assert!(matches!(refused(&registry, &late), Refusal::BeingRemoved { .. }));
    let other = Change::ColumnMade(told("c", 9, 3, MIB));
    assert!(matches!(refused(&registry, &other), Refusal::UnknownColumn { .. }));
    do_all(
        &mut registry,
        [Change::ColumnRemoved(told("b", 9, 2, 30 * MIB)), Change::ColumnRemoved(told("a", 9, 1, 20 * MIB))],
    );
    assert!(registry.view().groups.is_empty());
}

#[test]
fn a_disk_of_another_node_is_refused_by_name() {
    let mut registry = with_disks();
    let copy = refused(&registry, &put("b", told_disk(1, MIB))).to_string();
    assert!(
        copy.contains("managed disk b:d has UUID 01010101-0101-0101-0101-010101010101, which the registry has at the live member `a`"),
        "{copy}"
    );
    assert!(copy.contains("may be the only original") && !copy.contains("format"), "{copy}");
    do_all(&mut registry, [Change::CreateGroup(new_group("v", 9)), Change::Left { seat: seat("a", 1) }]);
    let moved = refused(&registry, &put("b", told_disk(1, MIB))).to_string();
    assert!(
        moved.contains(
            "managed disk b:d was at node `a`, and has a copy of volume `v` for that node; put it back"
        ),
        "{moved}"
    );
    let replaced = refused(&registry, &put("b", told_disk(7, MIB))).to_string();
    assert!(replaced.contains("managed disk b:d is not the disk that had this name before"), "{replaced}");
    do_all(
        &mut registry,
        [Change::Left { seat: seat("c", 1) }, put("b", ToldDisk { name: "e".into(), ..told_disk(3, MIB) })],
    );
    assert_eq!(registry.view().managed[2].node, "b", "without columns a disk moves");
}

#[test]
fn a_node_that_does_not_come_back_gives_up_the_columns_of_what_is_removed() {
    let mut registry = with_volume();
    let remove_disk = Change::RemoveManagedDisk { disk: uuid(1) };
    let forget = Change::Forget { name: "a".into() };
    assert!(matches!(refused(&registry, &remove_disk), Refusal::HasColumn { .. }));
    do_all(&mut registry, [Change::Left { seat: seat("a", 1) }]);
    assert!(matches!(refused(&registry, &forget), Refusal::HasDisk { .. }));
    let has = refused(&registry, &remove_disk).to_string();
    assert!(
        has.contains("has a copy of volume `v`") && has.contains("`cards volume replace v --from a:d`"),
        "{has}"
    );
    do_all(
        &mut registry,
        [Change::RemoveGroup { volume: "v".into() }, remove_disk.clone(), remove_disk, forget],
    );
    assert_eq!(registry.view().groups["v"].columns[1].state, ColumnState::Removed);
    do_all(&mut registry, [Change::ColumnRemoved(told("b", 9, 2, 30 * MIB))]);
    assert!(registry.view().groups.is_empty());
}

#[test]
fn a_map_is_replaced_by_the_next_one_only() {
    let mut registry = with_volume();
    let first = map_of(&registry);
    let (a, b) = (Member { node: NodeId(0), incarnation: 1 }, first.primary);
    let (by_a, by_b) = (first.taken_over(a).unwrap(), first.without(b, 1, 1, Marks(0)).unwrap());
    let (late, put_b) =
        (Change::PutMap(new_map(&registry, &by_a)), Change::PutMap(new_map(&registry, &by_b)));
    do_all(&mut registry, [put_b.clone()]);
    assert!(!registry.apply(at(0), &put_b).unwrap().changed, "asked again because the answer was lost");
    assert_eq!(map_of(&registry), by_b);
    let not_taken = refused(&registry, &late).to_string();
    assert!(not_taken.contains("the map of volume `v` is of epoch 2 (generation 1, fence 0)"), "{not_taken}");
    let skipped = by_b.taken_over(b).unwrap().taken_over(b).unwrap();
    assert!(matches!(
        refused(&registry, &Change::PutMap(new_map(&registry, &skipped))),
        Refusal::BadMap { .. }
    ));
    let mut cut = new_map(&registry, &by_b.taken_over(b).unwrap());
    cut.map.pop();
    assert!(matches!(refused(&registry, &Change::PutMap(cut)), Refusal::BadMap { .. }));
    let mut other = by_b.taken_over(b).unwrap();
    other.volume = uuid(77);
    assert!(matches!(
        refused(&registry, &Change::PutMap(new_map(&registry, &other))),
        Refusal::BadMap { .. }
    ));
    let nowhere = NewMap { number: 1, ..new_map(&registry, &by_b) };
    assert!(matches!(refused(&registry, &Change::PutMap(nowhere)), Refusal::UnknownMap { number: 1 }));
    let forced = by_b.forced(a).unwrap();
    let forced = new_map(&registry, &forced);
    do_all(&mut registry, [Change::PutMap(forced)]);
    assert_eq!(map_of(&registry).term, Term { generation: 2, epoch: 3 });
}

#[test]
fn a_proposal_is_taken_no_more_when_the_fence_was_raised() {
    let mut registry = with_volume();
    let first = map_of(&registry);
    let next = first.without(first.primary, 1, 1, Marks(0)).unwrap();
    let late = new_map(&registry, &next);
    let raise = Change::FenceMap { number: late.number, fence: late.fence };
    do_all(&mut registry, [raise.clone(), raise]);
    assert!(matches!(
        refused(&registry, &Change::PutMap(late)),
        Refusal::MapNotTaken { epoch: 1, fence: 1, .. }
    ));
    let now = new_map(&registry, &next);
    do_all(&mut registry, [Change::PutMap(now)]);
    assert_eq!(map_of(&registry), next);
}

#[test]
fn which_card_is_exclusive_is_noted_by_the_primary_of_the_map_only_and_goes_with_it() {
    let mut registry = with_volume();
    let first = map_of(&registry);
    let number = new_map(&registry, &first).number;
    let exclusivity = |card| Exclusivity {
        card: Some((NodeId(2), Generation(card))),
        writer: None,
        rank: Generation(card),
    };
    let noted = |map: &Map, number_of: u64, card| KeptExclusivity {
        generation: map.term.generation,
        since: map.since,
        number: number_of,
        exclusivity: exclusivity(card),
    };
    let put = |kept| Change::PutExclusivity(NewExclusivity { number, exclusivity: kept });
    let held = |registry: &Registry| registry.view().maps[&number].exclusivity;

    do_all(&mut registry, [put(noted(&first, 2, 8))]);
    assert!(!registry.apply(at(0), &put(noted(&first, 2, 8))).unwrap().changed, "its answer was lost");
    assert!(!registry.apply(at(0), &put(noted(&first, 1, 7))).unwrap().changed, "it was under way for long");
    assert_eq!(held(&registry), noted(&first, 2, 8));

    let dropped = first.without(first.primary, 1, 1, Marks(0)).unwrap();
    let dropped = Change::PutMap(new_map(&registry, &dropped));
    do_all(&mut registry, [dropped, put(noted(&first, 3, 9))]);
    let again = Member { incarnation: 2, ..first.primary };
    let next = map_of(&registry).taken_over(again).unwrap();
    let taken_over = Change::PutMap(new_map(&registry, &next));
    do_all(&mut registry, [taken_over]);
    assert_eq!(held(&registry), noted(&first, 3, 9), "the next primary finds it");
    let late = refused(&registry, &put(noted(&first, 4, 10)));
    assert!(matches!(late, Refusal::NotPrimary { since: 1, epoch: 3, .. }), "{late}");
    do_all(&mut registry, [put(noted(&next, 1, 11))]);
    assert_eq!(held(&registry), noted(&next, 1, 11));
}

#[test]
fn damage_is_found() {
    let registry = with_volume();
    let broken = |change: &dyn Fn(&mut Record)| {
        let mut records: Vec<Record> = registry.records().collect();
        records.iter_mut().for_each(change);
        Registry::load(records, |_, head| head.lease()).unwrap_err().to_string()
    };
    let number = broken(&|record| {
        if let Record::GroupNumbers(numbers) = record {
            numbers.next = GROUP_NUMBER_MIN;
        }
    });
    assert_eq!(number, "key `group/v` has a number that was not given");
    let map = broken(&|record| {
        if let Record::Map(map) = record {
            map.epoch = 2;
        }
    });
    assert_eq!(map, format!("key `map/{GROUP_NUMBER_MIN}` has another term than its record"));
    let disk = broken(&|record| {
        if let Record::ManagedDisk(disk) = record {
            disk.node = "z".into();
        }
    });
    assert!(disk.contains("is at a node that is no member"), "{disk}");
    let unmade = broken(&|record| {
        if let Record::Group(group) = record {
            group.state = GroupState::Making;
        }
    });
    assert!(unmade.contains("is ready without a map, or has one before"), "{unmade}");
}

/// What a release says that does not know a kind of record: as those before managed disks do of these.
#[test]
fn a_record_of_a_later_release_is_refused_by_its_key() {
    let refusal = Record::parse("parity/7", b"{}").unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "key `parity/7` is no key of a registry that this release knows; use the release that wrote it, or a later one"
    );
}

#[test]
fn records_are_stored_as_the_reference_says() {
    let registry = with_volume();
    let texts: Vec<String> =
        registry.records().map(|record| format!("{} {}", record.key(), record.value())).collect();
    let of = |key: &str| texts.iter().find(|text| text.starts_with(key)).cloned().unwrap_or_default();
    assert_eq!(
        of("managed/01"),
        "managed/01010101010101010101010101010101 {\"uuid\":\"01010101010101010101010101010101\",\"name\":\"d\",\"node\":\"a\",\
         \"bytes\":1073741824,\"free\":16777216,\"piece_bytes\":1048576,\"domain\":\"a\"}"
    );
    assert_eq!(of("group-numbers"), "group-numbers {\"next\":65537}");
    assert_eq!(
        of("group/v"),
        "group/v {\"name\":\"v\",\"number\":65536,\"uuid\":\"09090909090909090909090909090909\",\"bytes\":4194304,\"block_bytes\":65536,\
         \"policy\":\"hscc\",\"modes\":[\"rw\",\"ro\",\"exclusive\"],\"state\":\"ready\",\"columns\":[{\"node\":\"b\",\
         \"disk\":\"02020202020202020202020202020202\",\"disk_name\":\"d\",\"state\":\"made\"},{\"node\":\"a\",\
         \"disk\":\"01010101010101010101010101010101\",\"disk_name\":\"d\",\"state\":\"made\"}]}"
    );
    let map = of("map/65536");
    assert!(
        map.starts_with(
            "map/65536 {\"number\":65536,\"generation\":1,\"epoch\":1,\"fence\":0,\"map\":\"434d4150"
        ),
        "{map}"
    );
}

fn replace(from: u8, to: Option<u8>) -> Change {
    Change::ReplaceColumn { volume: "v".into(), from: uuid(from), to: to.into_iter().map(uuid).collect() }
}

/// Volume `v` over the disks of b (column 0, the primary's) and a, and what the primary proposes.
fn change_map(registry: &mut Registry, change: impl FnOnce(&Map) -> Map) {
    let map = change(&map_of(registry));
    let new = new_map(registry, &map);
    do_all(registry, [Change::PutMap(new)]);
}

const HOME: Member = Member { node: NodeId(1), incarnation: 1 };

/// The copy of a is replaced by one of c, which is made, filled and in sync.
fn with_successor() -> Registry {
    let mut registry = with_volume();
    do_all(&mut registry, [replace(1, None), Change::ColumnMade(told("c", 9, 3, 6 * MIB))]);
    change_map(&mut registry, |map| map.added(HOME, 2, uuid(3), NodeId(2)).unwrap());
    change_map(&mut registry, |map| map.let_in(HOME, 2, uuid(3), None).unwrap());
    change_map(&mut registry, |map| map.admitted(HOME, 2).unwrap());
    registry
}

#[test]
fn a_copy_is_replaced_step_by_step() {
    let mut registry = with_volume();
    do_all(&mut registry, [replace(1, None)]);
    let columns = registry.view().groups["v"].columns.clone();
    assert_eq!((columns[1].state, columns[2].state), (ColumnState::Leaving, ColumnState::Missing));
    assert_eq!((columns[2].node.as_str(), columns[2].replaces), ("c", Some(1)));
    do_all(&mut registry, [replace(1, None), replace(1, Some(3))]);
    assert_eq!(registry.view().groups["v"].columns, columns, "the answer was lost");

    // Neither joins the map before it is made, nor leaves it that stays.
    let map = map_of(&registry);
    let early = new_map(&registry, &map.added(HOME, 2, uuid(3), NodeId(2)).unwrap());
    assert!(matches!(refused(&registry, &Change::PutMap(early)), Refusal::BadMap { .. }));
    let gone = Change::ColumnRemoved(told("a", 9, 1, 20 * MIB));
    assert!(matches!(refused(&registry, &gone), Refusal::NotBeingRemoved { .. }), "the map has it");

    let mut registry = with_successor();
    let stays = map_of(&registry).without(HOME, 2, 4, Marks(0)).unwrap().term;
    let without = map_of(&registry).retired(HOME, 2, Some(1)).unwrap();
    assert_eq!(without.term, stays);
    let lacks = refused(&registry, &Change::PutMap(new_map(&registry, &without)));
    assert!(lacks.to_string().contains("lacks a column that is to stay"), "{lacks}");
    change_map(&mut registry, |map| map.retired(HOME, 1, Some(2)).unwrap());
    do_all(&mut registry, [gone.clone(), gone]);
    let columns = registry.view().groups["v"].columns.clone();
    assert_eq!((columns[1].state, columns[2].replaces), (ColumnState::Removed, None));
    assert_eq!(registry.view().groups["v"].copies(), 2);
    // The place is free for the next one.
    do_all(&mut registry, [replace(3, Some(1))]);
    let next = registry.view().groups["v"].columns[1].clone();
    assert_eq!((next.disk, next.state, next.replaces), (uuid(1), ColumnState::Missing, Some(2)));
    assert_eq!(registry.view().groups["v"].columns.len(), 3);
}

#[test]
fn nothing_is_replaced_that_the_new_copy_could_not_be_filled_from() {
    let mut registry = with_volume();
    do_all(&mut registry, [Change::Left { seat: seat("b", 1) }]);
    let mut one = registry.clone();
    do_all(&mut one, [replace(2, None)]);
    do_all(&mut registry, [Change::Left { seat: seat("a", 1) }]);
    let refused = refused(&registry, &replace(1, None));
    assert!(matches!(refused, Refusal::SourcesAway { alone: false, .. }), "{refused}");
    let said = refused.to_string();
    assert!(
        said.contains("all its copies in sync are on b:d, a:d") && said.contains("Start one of"),
        "{said}"
    );
}

#[test]
fn a_node_is_forgotten_when_its_copy_has_left() {
    let mut registry = with_successor();
    do_all(&mut registry, [Change::Left { seat: seat("a", 1) }]);
    let remove_disk = Change::RemoveManagedDisk { disk: uuid(1) };
    assert!(matches!(refused(&registry, &remove_disk), Refusal::HasColumn { .. }));
    change_map(&mut registry, |map| map.retired(HOME, 1, Some(2)).unwrap());
    do_all(&mut registry, [remove_disk.clone(), remove_disk, Change::Forget { name: "a".into() }]);
    assert_eq!(registry.view().groups["v"].columns[1].state, ColumnState::Removed);
    assert!(!registry.view().members.contains_key("a"));
}

#[test]
fn a_successor_is_given_up_for_another_one() {
    let mut registry = with_volume();
    do_all(&mut registry, [Change::Join(join("d", 1, NOON)), put("d", told_disk(4, 9 * MIB))]);
    do_all(&mut registry, [replace(1, Some(3)), replace(3, Some(4))]);
    let columns = registry.view().groups["v"].columns.clone();
    let states: Vec<_> = columns.iter().map(|column| (column.state, column.replaces)).collect();
    use ColumnState::{Leaving, Made, Missing};
    assert_eq!(states, [(Made, None), (Leaving, None), (Leaving, Some(1)), (Missing, Some(1))]);
    do_all(&mut registry, [Change::ColumnRemoved(told("c", 9, 3, 10 * MIB))]);
    assert_eq!(registry.view().groups["v"].columns[2].state, ColumnState::Removed);
}

/// The number of a column that has left is another one's later: nothing is the successor of that one but what replaces it.
#[test]
fn a_successor_is_none_any_more_when_the_place_of_what_it_replaced_is_free() {
    let mut registry = with_volume();
    do_all(&mut registry, [Change::Join(join("d", 1, NOON)), put("d", told_disk(4, 9 * MIB))]);
    // The node of the first successor is away, and does not remove it.
    do_all(&mut registry, [replace(1, Some(3)), replace(3, Some(4))]);
    do_all(&mut registry, [Change::ColumnMade(told("d", 9, 4, 5 * MIB))]);
    change_map(&mut registry, |map| map.added(HOME, 3, uuid(4), NodeId(3)).unwrap());
    change_map(&mut registry, |map| map.let_in(HOME, 3, uuid(4), None).unwrap());
    change_map(&mut registry, |map| map.admitted(HOME, 3).unwrap());
    change_map(&mut registry, |map| map.retired(HOME, 1, Some(3)).unwrap());
    do_all(&mut registry, [Change::ColumnRemoved(told("a", 9, 1, 20 * MIB))]);
    let group = registry.view().groups["v"].clone();
    assert_eq!(group.successor(1), None);
    assert_eq!(group.successor(2).map(|(number, _)| number), Some(3), "of the one that was given up");
    do_all(&mut registry, [Change::ColumnRemoved(told("c", 9, 3, 10 * MIB))]);
    assert_eq!(registry.view().groups["v"].successor(2), None);
    // The next column in that place is replaced by its own successor only.
    do_all(&mut registry, [replace(4, Some(1))]);
    assert_eq!(registry.view().groups["v"].columns[1].disk, uuid(1));
    let group = registry.view().groups["v"].clone();
    assert_eq!((group.successor(3).map(|(number, _)| number), group.successor(1)), (Some(1), None));
}

#[test]
fn what_cannot_be_replaced_is_refused_with_the_reason() {
    let mut registry = with_volume();
    let said = |registry: &Registry, change: &Change| refused(registry, change).to_string();
    let none = said(&registry, &replace(3, None));
    assert!(none.contains("has no copy on disk") && none.contains("b:d, a:d"), "{none}");
    assert!(matches!(refused(&registry, &replace(1, Some(8))), Refusal::UnknownManagedDisk { .. }));
    assert!(matches!(refused(&registry, &replace(1, Some(2))), Refusal::HasCopy { .. }));
    do_all(
        &mut registry,
        [
            put("b", ToldDisk { name: "e".into(), ..told_disk(5, 30 * MIB) }),
            put("a", ToldDisk { name: "e".into(), ..told_disk(6, 30 * MIB) }),
        ],
    );
    let near = said(&registry, &replace(1, Some(5)));
    assert!(near.contains("both b:e and b:d: they are in one failure domain (`b`)"), "{near}");
    let same = said(&registry, &replace(1, Some(6)));
    assert!(same.contains("cannot have a copy on a:e while it has one on a:d"), "{same}");
    do_all(&mut registry, [put("c", told_disk(3, MIB))]);
    let full = said(&registry, &replace(1, Some(3)));
    assert!(full.contains("takes 4194304 bytes, and managed disk c:d has 1048576 for it"), "{full}");
    let spare = said(&registry, &replace(1, None));
    assert!(spare.contains("no managed disk can have the copy of volume `v` that is on a:d"), "{spare}");
    do_all(&mut registry, [put("c", told_disk(3, 10 * MIB)), replace(1, None)]);
    let again = said(&registry, &replace(1, Some(6)));
    assert!(again.contains("on a:d is being replaced by the one on c:d already"), "{again}");
    do_all(&mut registry, [Change::RemoveGroup { volume: "v".into() }]);
    assert!(matches!(refused(&registry, &replace(2, None)), Refusal::NotMade { .. }));

    // A stale copy gives way to one at the same node.
    let mut registry = with_volume();
    do_all(&mut registry, [put("a", ToldDisk { name: "e".into(), ..told_disk(6, 30 * MIB) })]);
    change_map(&mut registry, |map| map.without(HOME, 1, 1, Marks(0)).unwrap());
    do_all(&mut registry, [replace(1, Some(6))]);
    assert_eq!(registry.view().groups["v"].columns[2].node, "a");
}

#[test]
fn a_stale_copy_is_forced_only_when_none_in_sync_is_there() {
    let force = |epoch| Change::ForceMap { volume: "v".into(), node: "a".into(), epoch };
    let mut registry = with_volume();
    let needless = refused(&registry, &force(1));
    assert!(matches!(&needless, Refusal::ForceNotNeeded { copy, .. } if copy == "b:d"), "{needless}");
    change_map(&mut registry, |map| map.without(HOME, 1, 1, Marks(0)).unwrap());
    assert!(matches!(refused(&registry, &force(2)), Refusal::ForceNotNeeded { .. }));
    do_all(&mut registry, [Change::Left { seat: seat("b", 1) }]);
    assert!(matches!(refused(&registry, &force(1)), Refusal::MapNotTaken { .. }), "seen before it changed");
    do_all(&mut registry, [force(2), force(2)]);
    let map = map_of(&registry);
    assert_eq!((map.term, map.forced), (Term { generation: 2, epoch: 3 }, true));
    assert_eq!(map.primary, Member { node: NodeId(0), incarnation: 1 });
    assert_eq!(map.columns[0].state, State::Stale { since: 0 });
    assert_eq!(map.columns[1].state, State::Sync);
}

/// Its machine may have lost what the other one has, which is gone for good: the group waits for that one.
#[test]
fn a_copy_in_sync_is_forced_when_another_one_is_gone() {
    let force = |epoch| Change::ForceMap { volume: "v".into(), node: "a".into(), epoch };
    let mut registry = with_volume();
    assert!(matches!(refused(&registry, &force(1)), Refusal::ForceNotNeeded { .. }));
    do_all(&mut registry, [Change::Left { seat: seat("b", 1) }]);
    let away = Change::ForceMap { volume: "v".into(), node: "b".into(), epoch: 1 };
    assert!(matches!(refused(&registry, &away), Refusal::ForceNotNeeded { copy, .. } if copy == "a:d"));
    assert!(matches!(refused(&registry, &force(2)), Refusal::MapNotTaken { .. }));
    do_all(&mut registry, [force(1), force(1)]);
    let map = map_of(&registry);
    assert_eq!((map.term, map.forced), (Term { generation: 2, epoch: 2 }, true));
    assert_eq!(map.columns[0].state, State::Stale { since: 0 });
    assert_eq!(map.columns[1].state, State::Sync);
}

#[test]
fn a_copy_that_was_put_back_is_forced_and_replaces_nothing() {
    let force = |epoch| Change::ForceMap { volume: "v".into(), node: "a".into(), epoch };
    let old = |node: &str, disk, epoch| Change::ColumnPutBack { column: told(node, 9, disk, MIB), epoch };
    let mut registry = with_volume();
    do_all(&mut registry, [old("b", 2, Some(1))]);
    // The other one has everything.
    assert!(matches!(refused(&registry, &force(1)), Refusal::ForceNotNeeded { copy, .. } if copy == "a:d"));
    do_all(&mut registry, [old("a", 1, Some(1))]);
    let none = refused(&registry, &replace(1, None)).to_string();
    assert!(none.contains("(b:d, a:d) were put back to earlier images"), "{none}");
    do_all(&mut registry, [old("a", 1, None)]);
    assert!(matches!(refused(&registry, &force(1)), Refusal::ForceNotNeeded { .. }), "it is back");
    do_all(&mut registry, [old("a", 1, Some(1))]);
    assert!(matches!(refused(&registry, &force(2)), Refusal::MapNotTaken { .. }));
    do_all(&mut registry, [force(1), force(1)]);
    let map = map_of(&registry);
    assert_eq!((map.term, map.forced), (Term { generation: 2, epoch: 2 }, true));
    assert_eq!(map.columns[0].state, State::Stale { since: 0 });
    assert!(registry.view().groups["v"].columns.iter().all(|column| column.put_back.is_none()));
}

/// As long as the map counts on it, all nodes hear that a copy is given up.
#[test]
fn a_copy_that_is_given_up_is_known_until_the_map_counts_on_it_no_more() {
    let mut registry = with_volume();
    let failed = |node: &str, disk, failed| Change::ColumnFailed { column: told(node, 9, disk, MIB), failed };
    let given_up = |registry: &Registry| {
        registry.view().groups["v"].columns.iter().map(|column| column.failed).collect::<Vec<_>>()
    };
    do_all(&mut registry, [failed("b", 2, true), failed("a", 1, true)]);
    assert_eq!(given_up(&registry), [true, true]);
    do_all(&mut registry, [failed("b", 2, false)]);
    assert_eq!(given_up(&registry), [false, true], "its daemon was started anew");
    do_all(&mut registry, [failed("b", 2, true)]);
    change_map(&mut registry, |map| map.without(HOME, 1, 1, Marks(0)).unwrap());
    assert_eq!(given_up(&registry), [true, false]);
}

/// Nothing is said any more of a copy that leads, or that others do not count on.
#[test]
fn what_was_put_back_is_over_with_the_next_map() {
    let mut registry = with_volume();
    let old = |node: &str, disk| Change::ColumnPutBack { column: told(node, 9, disk, MIB), epoch: Some(1) };
    do_all(&mut registry, [old("b", 2), old("a", 1)]);
    change_map(&mut registry, |map| map.without(HOME, 1, 1, Marks(0)).unwrap());
    assert!(registry.view().groups["v"].columns.iter().all(|column| column.put_back.is_none()));
}
