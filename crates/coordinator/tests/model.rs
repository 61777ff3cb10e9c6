//! Random changes at random times against what must always hold.

use std::collections::{BTreeMap, BTreeSet};

use cards_array::group::{KeptExclusivity, Map, Member};
use cards_coordinator::{
    AttachMode, Certificate, Change, ColumnState, GROUP_NUMBER_MIN, GroupColumn, GroupState, Incarnation,
    Join, Member as Node, MemberState, NewExclusivity, NewMap, NewStriped, Record, Registry, Seat,
    ToldColumn, View, WallClock,
};
use cards_core::NodeId;
use cards_layout::layout::Layout;
use cards_tls::Fingerprint;
use proptest::prelude::*;

use crate::common::{NOON, at, join, new_group, registry, seat, told_disk, uuid, volume};

#[derive(Clone, Debug)]
enum Step {
    Change(Change),
    /// Time passes.
    Wait(u64),
    /// The coordinator restarts from its records.
    Restart,
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

fn a_seat() -> impl Strategy<Value = Seat> {
    (name(), 1..5_u64).prop_map(|(name, incarnation)| seat(&name, incarnation))
}

fn disk() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["d0", "d1"]).prop_map(str::to_owned)
}

fn volume_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["v0", "v1"]).prop_map(str::to_owned)
}

fn mode() -> impl Strategy<Value = AttachMode> {
    prop::sample::select(vec![AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive])
}

fn certificate(node: &str, key: u8) -> Certificate {
    let ends = NOON.0 / 1000 + 86_400;
    Certificate { name: format!("{node}.lab.cards"), key: Fingerprint([key; 32]), ends, revoked: false }
}

fn change() -> impl Strategy<Value = Change> {
    let address = prop_oneof![4 => Just(None), 1 => Just(Some("same.lan:1".to_owned()))];
    prop_oneof![
        4 => (a_seat(), address, prop::option::of(1..4_u64)).prop_map(|(seat, address, back)| {
            let join = join(&seat.name, seat.incarnation.0, NOON);
            let succeeds = back.map(|back| Incarnation(seat.incarnation.0.saturating_sub(back)));
            Change::Join(Join { address: address.unwrap_or(join.address.clone()), succeeds, ..join })
        }),
        4 => a_seat().prop_map(|seat| Change::Renew { seat, clock: NOON }),
        1 => a_seat().prop_map(|seat| Change::Renew { seat, clock: WallClock(0) }),
        1 => a_seat().prop_map(|seat| Change::Leave { seat }),
        1 => a_seat().prop_map(|seat| Change::Left { seat }),
        3 => Just(Change::Expire),
        1 => name().prop_map(|name| Change::Forget { name }),
        2 => (name(), 0..4_u8, any::<bool>()).prop_map(|(name, key, alone)| Change::Certify { certificate: certificate(&name, key), alone }),
        2 => (a_seat(), disk()).prop_map(|(seat, disk)| Change::PutDisk { seat, disk, bytes: 1 << 30 }),
        1 => (disk(), any::<bool>()).prop_map(|(disk, with_volumes)| Change::RemoveDisk { disk, with_volumes }),
        2 => (volume_name(), disk()).prop_map(|(name, disk)| Change::PutVolume(volume(&name, &disk))),
        1 => volume_name().prop_map(|volume| Change::RemoveVolume { volume }),
        1 => volume_name().prop_map(|volume| Change::SetPolicy { volume, policy: "none".into() }),
        4 => (a_seat(), volume_name(), mode(), any::<bool>()).prop_map(|(seat, volume, mode, takes_over)| Change::Attach { seat, volume, mode, takes_over }),
        1 => (a_seat(), volume_name()).prop_map(|(seat, volume)| Change::Detach { seat, volume }),
        12 => group_change(),
    ]
}

/// Of volumes over managed disks: v0 is the name of plain ones too.
fn group_change() -> impl Strategy<Value = Change> {
    let name = || prop::sample::select(vec!["v0", "m0", "m1"]).prop_map(str::to_owned);
    let volume = || 11..14_u8;
    let told = || {
        (a_seat(), volume(), 0..3_u16, 1..4_u8).prop_map(|(seat, volume, group, disk)| ToldColumn {
            seat,
            volume: uuid(volume),
            group: group / 2,
            disk: uuid(disk),
            free: 8 << 20,
        })
    };
    let number = || GROUP_NUMBER_MIN..GROUP_NUMBER_MIN + 3;
    // Few sizes, so that what nodes say is of one that is wanted; a part of a striped volume has half of it.
    let larger = || prop::sample::select(vec![2 << 20, 4 << 20, 6 << 20]);
    prop_oneof![
        3 => (a_seat(), 1..4_u8, 6..9_u64).prop_map(|(seat, disk, free)| Change::PutManagedDisk { seat, disk: told_disk(disk, free << 20) }),
        1 => (1..4_u8).prop_map(|disk| Change::RemoveManagedDisk { disk: uuid(disk) }),
        3 => (name(), volume()).prop_map(|(name, volume)| Change::CreateGroup(new_group(&name, volume))),
        2 => (name(), volume(), any::<bool>()).prop_map(|(name, volume, copies)| Change::CreateStriped(striped(&name, volume, copies))),
        1 => (name(), 1..4_u8).prop_map(|(volume, disk)| Change::ReplaceColumn { volume, from: uuid(disk), to: vec![] }),
        2 => (name(), larger()).prop_map(|(volume, bytes)| Change::GrowVolume { volume, bytes }),
        1 => name().prop_map(|volume| Change::CancelGrowth { volume }),
        4 => (told(), larger()).prop_map(|(column, bytes)| Change::ColumnGrown { column, bytes }),
        1 => (told(), prop::option::of(0..4_u64)).prop_map(|(column, epoch)| Change::ColumnPutBack { column, epoch }),
        1 => (told(), any::<bool>()).prop_map(|(column, failed)| Change::ColumnFailed { column, failed }),
        3 => (a_seat(), number(), 1..4_u64, larger()).prop_map(|(seat, number, since, bytes)| {
            Change::SizeServed { seat, number, since, bytes }
        }),
        4 => told().prop_map(Change::ColumnMade),
        1 => name().prop_map(|volume| Change::RemoveGroup { volume }),
        2 => told().prop_map(Change::ColumnRemoved),
        1 => (number(), 0..3_u64).prop_map(|(number, fence)| Change::FenceMap { number, fence }),
        1 => (number(), 0..4_u64, 0..3_u64).prop_map(|(number, since, order)| {
            let exclusivity = KeptExclusivity { generation: 1, since, number: order, ..KeptExclusivity::default() };
            Change::PutExclusivity(NewExclusivity { number, exclusivity })
        }),
        2 => (number(), volume(), 1..4_u64, 0..3_u64, 0..4_u16).prop_map(|(number, volume, epoch, fence, by)| {
            Change::PutMap(next_map(number, volume, epoch, fence, by))
        }),
    ]
}

/// A volume of two MiB over several groups: with copies in four parts, over two disks, or without in two or three.
fn striped(name: &str, volume: u8, copies: bool) -> NewStriped {
    NewStriped {
        name: name.into(),
        uuid: uuid(volume),
        layout: if copies { Layout::Raid10 { copies: 2 } } else { Layout::Raid0 },
        bytes: 2 << 20,
        block_bytes: 65536,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro]),
        on: Vec::new(),
    }
}

/// A map that may be the next of a volume on the disks of two of the first nodes: that another node takes it over.
fn next_map(number: u32, volume: u8, epoch: u64, fence: u64, by: u16) -> NewMap {
    let process = |node: u16| Member { node: NodeId(node), incarnation: 1 };
    let disks = [(uuid(1), NodeId(by)), (uuid(2), NodeId(by + 1))];
    let first = Map::first(uuid(volume), 0, process(by), &disks).expect("two disks at two nodes");
    let map = (0..epoch).fold(first, |map, _| map.taken_over(process(by)).expect("its column is in sync"));
    NewMap { number, generation: 1, epoch, fence, map: map.encode() }
}

/// Two nodes with managed disks, and a volume over them.
fn mirrored() -> Vec<Change> {
    let told = |node: &str, disk| ToldColumn {
        seat: seat(node, 1),
        volume: uuid(11),
        group: 0,
        disk: uuid(disk),
        free: 8 << 20,
    };
    let put =
        |node: &str, disk| Change::PutManagedDisk { seat: seat(node, 1), disk: told_disk(disk, 8 << 20) };
    vec![
        Change::Join(join("a", 1, NOON)),
        Change::Join(join("b", 1, NOON)),
        put("a", 1),
        put("b", 2),
        Change::CreateGroup(new_group("m0", 11)),
        Change::ColumnMade(told("a", 1)),
        Change::ColumnMade(told("b", 2)),
        Change::Attach { seat: seat("a", 1), volume: "m0".into(), mode: AttachMode::Rw, takes_over: false },
    ]
}

/// The same, and the volume is to grow: one of its columns has.
fn growing() -> Vec<Change> {
    let (bytes, seat) = (6 << 20, seat("a", 1));
    let column = ToldColumn { seat, volume: uuid(11), group: 0, disk: uuid(1), free: 2 << 20 };
    let grow = [Change::GrowVolume { volume: "m0".into(), bytes }, Change::ColumnGrown { column, bytes }];
    mirrored().into_iter().chain(grow).collect()
}

/// A node with a disk and a volume on it, attached: random changes alone seldom get there.
fn attached() -> [Change; 4] {
    [
        Change::Join(join("a", 1, NOON)),
        Change::PutDisk { seat: seat("a", 1), disk: "d0".into(), bytes: 1 << 30 },
        Change::PutVolume(volume("v0", "d0")),
        Change::Attach { seat: seat("a", 1), volume: "v0".into(), mode: AttachMode::Rw, takes_over: false },
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => change().prop_map(Step::Change),
        3 => (0..2000_u64).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ];
    (0..4_u8, prop::collection::vec(step, 1..120)).prop_map(|(begun, steps)| {
        let first = match begun {
            0 => Vec::new(),
            1 => attached().to_vec(),
            2 => mirrored(),
            _ => growing(),
        };
        first.into_iter().map(Step::Change).chain(steps).collect()
    })
}

fn restarted(registry: &Registry, now_ms: u64) -> Registry {
    // Through the bytes, as a home does.
    let records = registry.records().map(|record| {
        let (key, value) = (record.key(), record.value());
        Record::parse(&key, value.as_bytes()).expect("what was written reads back")
    });
    Registry::load(records, |_, head| at(now_ms).mono + head.lease()).expect("what was written is whole")
}

/// How many times members changed their state between two views.
fn transitions(before: &View, after: &View) -> u64 {
    let state = |view: &View, name: &String| view.members.get(name).map(|m: &Node| (m.state, m.incarnation));
    let names: BTreeSet<&String> = before.members.keys().chain(after.members.keys()).collect();
    let changed = names.into_iter().filter(|name| {
        let (was, is) = (state(before, name), state(after, name));
        was != is && is.is_some()
    });
    changed.count() as u64
}

/// Terms and fences of maps, and numbers of volumes, only grow.
fn observe_groups(before: &View, after: &View, given: &mut BTreeSet<u32>) {
    for (number, map) in &after.maps {
        if let Some(was) = before.maps.get(number) {
            assert!(was.fence <= map.fence && was.term() <= map.term());
            let steps = (map.epoch - was.epoch) + (map.fence - was.fence);
            assert!(steps <= 1, "one change of a map at a time");
            assert!(was.map == map.map || was.fence == map.fence, "only what knows the fence is taken");
        }
    }
    for group in after.groups.values() {
        let is_new = before.group(group.number).is_none();
        assert!(!is_new || given.insert(group.number), "number {} is given twice", group.number);
        let nodes: BTreeSet<&String> = group.columns.iter().map(|column| &column.node).collect();
        assert_eq!(nodes.len(), group.columns.len(), "one column at a node");
    }
    for (was, is) in after.groups.values().filter_map(|is| Some((before.group(is.number)?, is))) {
        let growth = was.grows.filter(|growth| growth.bytes == is.bytes);
        assert!(is.bytes == was.bytes || growth.is_some_and(|growth| growth.made), "{was:?}, then {is:?}");
        let has_room = |(_, column): (u8, &GroupColumn)| column.grown || column.state == ColumnState::Leaving;
        assert!(is.bytes == was.bytes || was.there().all(has_room), "{was:?} has copies that are small");
        let is_there = is.state == GroupState::Ready;
        assert!(!is_there || is.served_bytes() >= was.served_bytes(), "what was served once is");
    }
    for (name, is) in &after.striped {
        let Some(was) = before.striped.get(name).filter(|was| was.uuid == is.uuid) else { continue };
        assert!(is.bytes >= was.bytes, "{was:?}, then {is:?}");
    }
    for gone in before.groups.values().filter(|group| after.group(group.number).is_none()) {
        assert_eq!(gone.state, GroupState::Removing, "a volume goes in two steps");
    }
}

/// Lives that are over: no change may ever make one live again, except through forgetting the member.
type Graves = BTreeMap<String, Incarnation>;

/// The life that a change may end because another follows it.
fn succeeded(change: &Change) -> Option<Seat> {
    match change {
        Change::Join(join) => {
            join.succeeds.map(|life| Seat { name: join.seat.name.clone(), incarnation: life })
        }
        _ => None,
    }
}

fn observe(before: &View, after: &View, succeeded: Option<&Seat>, graves: &mut Graves) {
    assert_eq!(
        after.epoch.0 - before.epoch.0,
        transitions(before, after),
        "one epoch per change of the member set"
    );
    let same = View { revision: before.revision, ..after.clone() } == *before;
    assert_eq!(after.revision.0 - before.revision.0, u64::from(!same), "one revision per change of anything");
    graves.retain(|name, _| after.members.contains_key(name));
    for member in after.members.values() {
        if member.state.is_live() {
            assert!(
                graves.get(&member.name).is_none_or(|grave| *grave < member.incarnation),
                "revived: {member:?}"
            );
        } else {
            graves.insert(member.name.clone(), member.incarnation);
        }
        if let Some(was) = before.members.get(&member.name) {
            assert_eq!(was.id, member.id, "a member keeps its number");
            assert!(was.incarnation <= member.incarnation, "a name goes to later lives only");
            if was.incarnation != member.incarnation {
                assert!(!was.state.is_live() || succeeded == Some(&was.seat()), "one live member per name");
                assert!(
                    after.attachments.iter().all(|held| held.node != member.name),
                    "they end with the life"
                );
                assert!(graves.insert(member.name.clone(), was.incarnation) < Some(member.incarnation));
            }
        }
    }
    for held in &after.attachments {
        let holder = &after.members[&held.node];
        assert!(holder.state.is_live());
        let others = after.attachments.iter().filter(|other| other.volume == held.volume).count();
        assert!(held.mode != AttachMode::Exclusive || others == 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_changes_keeps_the_promises(steps in steps()) {
        let mut registry = registry();
        let mut graves = Graves::new();
        let mut given = BTreeSet::new();
        let mut now = 0;
        for step in steps {
            let before = registry.view();
            let succeeded = match &step {
                Step::Change(change) => succeeded(change),
                Step::Wait(_) | Step::Restart => None,
            };
            match step {
                Step::Wait(ms) => now += ms,
                Step::Restart => {
                    registry = restarted(&registry, now);
                    prop_assert_eq!(registry.view(), before.clone());
                    for name in registry.view().members.values().filter(|m| m.state.is_live()).map(|m| &m.name) {
                        let seat = registry.view().members[name].seat();
                        let renew = Change::Renew { seat, clock: NOON };
                        prop_assert!(registry.decide(at(now + 2999), &renew).is_ok(), "a full lease after a restart");
                    }
                }
                Step::Change(change) => {
                    let leases = registry.next_lease_end();
                    match registry.apply(at(now), &change) {
                        Ok(applied) => {
                            let view = registry.view();
                            prop_assert_eq!(applied.epoch, view.epoch);
                            prop_assert_eq!(applied.revision, view.revision);
                            prop_assert_eq!(applied.changed, view != before);
                            // A repetition of what has been answered does nothing and is answered alike.
                            if let Ok(again) = registry.apply(at(now), &change) {
                                prop_assert!(!again.changed, "{:?} twice", change);
                                prop_assert_eq!(again.id, applied.id);
                            } else {
                                prop_assert!(false, "{:?} is refused the second time", change);
                            }
                            prop_assert_eq!(registry.view(), view);
                        }
                        Err(_) => {
                            prop_assert_eq!(registry.view(), before.clone(), "refused and yet changed");
                            prop_assert_eq!(registry.next_lease_end(), leases);
                        }
                    }
                }
            }
            prop_assert!(registry.verify().is_ok());
            observe(&before, &registry.view(), succeeded.as_ref(), &mut graves);
            observe_groups(&before, &registry.view(), &mut given);
        }
    }

    #[test]
    fn a_value_of_any_bytes_is_read_or_refused(key in "(head|member|disk|volume|attachment|managed|group|map|group-numbers|x)?/?[a-z/]{0,6}", value in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(Record::parse(&key, &value));
    }

    #[test]
    fn a_value_with_some_bytes_changed_is_refused_or_another_whole_registry(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), which in any::<prop::sample::Index>(),
    ) {
        let mut registry = registry();
        for change in mirrored().into_iter().chain(attached().into_iter().skip(1)) {
            registry.apply(crate::common::at(0), &change).unwrap();
        }
        let mut records: Vec<(String, Vec<u8>)> =
            registry.records().map(|record| (record.key(), record.value().into_bytes())).collect();
        let value = &mut which.get_mut(&mut records).1;
        let at = at.index(value.len());
        value[at] = byte;
        let parsed: Result<Vec<Record>, _> =
            records.iter().map(|(key, value)| Record::parse(key, value)).collect();
        if let Ok(loaded) = parsed.and_then(|records| Registry::load(records, |_, head| head.lease())) {
            prop_assert!(loaded.verify().is_ok());
        }
    }
}

#[test]
fn members_die_in_batches_and_every_death_is_an_epoch() {
    let mut registry = registry();
    for n in 0..70 {
        registry.apply(at(0), &Change::Join(join(&format!("n{n}"), 1, NOON))).unwrap();
    }
    let mut batches = Vec::new();
    loop {
        let applied = registry.apply(at(3000), &Change::Expire).unwrap();
        if !applied.changed {
            break;
        }
        batches.push(applied.dead.len());
    }
    assert_eq!(batches, [32, 32, 6]);
    let view = registry.view();
    assert_eq!(view.epoch.0, 140);
    assert!(view.members.values().all(|member| member.state == MemberState::Dead));
}
