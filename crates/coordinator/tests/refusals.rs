//! Each refusal, with the message an operator sees.

use cards_coordinator::{
    AttachMode, Change, Epoch, Incarnation, Join, MEMBERS_MAX, MemberState, Refusal, Registry, Terms,
    WallClock,
};

use crate::common::{NOON, at, join, registry, seat, terms, volume};

fn refused(registry: &Registry, ms: u64, change: &Change) -> Refusal {
    registry.decide(at(ms), change).expect_err("this is refused")
}

fn with_node_a() -> Registry {
    let mut registry = registry();
    registry.apply(at(0), &Change::Join(join("a", 1, NOON))).unwrap();
    registry
}

fn with_volume() -> Registry {
    let mut registry = with_node_a();
    let put = Change::PutDisk { seat: seat("a", 1), disk: "wwn-1".into(), bytes: 1 << 30 };
    registry.apply(at(0), &put).unwrap();
    registry.apply(at(0), &Change::PutVolume(volume("v", "wwn-1"))).unwrap();
    registry
}

fn attach(name: &str, mode: AttachMode) -> Change {
    Change::Attach { seat: seat(name, 1), volume: "v".into(), mode, takes_over: false }
}

#[test]
fn a_node_of_another_cluster_is_told_which_one_this_is() {
    let wrong = Join { cluster: "prod".into(), ..join("a", 1, NOON) };
    let refusal = refused(&registry(), 0, &Change::Join(wrong));
    assert!(matches!(refusal, Refusal::WrongCluster { .. }));
    assert_eq!(
        refusal.to_string(),
        "node `a` wants to join cluster `prod`, but this is the registry of cluster `lab`; correct `cluster` or the \
         coordinator's address in its configuration"
    );
}

#[test]
fn a_second_node_of_one_name_is_told_where_the_first_is() {
    let registry = with_node_a();
    let other = Join { address: "10.0.0.9:7700".into(), ..join("a", 2, NOON) };
    let refusal = refused(&registry, 1000, &Change::Join(other)).to_string();
    assert!(refusal.contains("in use by the live member at a.lan:7700 (incarnation 1)"), "{refusal}");
    assert!(refusal.contains("at most 2000 ms"), "{refusal}");
}

#[test]
fn a_restarted_node_waits_for_its_own_lease_to_end() {
    let mut registry = with_node_a();
    let again = Change::Join(join("a", 2, NOON));
    assert!(matches!(refused(&registry, 2999, &again), Refusal::NameInUse { wait_ms: 1, .. }));
    assert_eq!(registry.apply(at(3000), &Change::Expire).unwrap().dead, ["a"]);
    assert_eq!(registry.apply(at(3000), &again).unwrap().id, Some(0), "it keeps its number");
}

#[test]
fn a_node_with_proof_that_its_earlier_life_is_over_does_not_wait() {
    let mut registry = with_volume();
    registry.apply(at(0), &Change::Join(join("b", 1, NOON))).unwrap();
    registry.apply(at(0), &attach("a", AttachMode::Exclusive)).unwrap();
    let before = registry.view();
    let next = |succeeds| Join { succeeds: Some(Incarnation(succeeds)), ..join("a", 5, NOON) };
    for other in [0, 2, 5] {
        assert!(matches!(
            refused(&registry, 1000, &Change::Join(next(other))),
            Refusal::NameInUse { wait_ms: 2000, incarnation: Incarnation(1), .. }
        ));
    }
    let applied = registry.apply(at(1000), &Change::Join(next(1))).unwrap();
    assert_eq!((applied.id, applied.epoch.0), (Some(0), before.epoch.0 + 1), "one epoch, the same number");
    assert!(applied.dead.is_empty());
    let view = registry.view();
    assert_eq!(view.members["a"].seat(), seat("a", 5));
    assert_eq!((view.attachments.len(), &view.disks), (0, &before.disks), "disks stay");
    registry.apply(at(1000), &attach("b", AttachMode::Exclusive)).unwrap();
    assert!(
        registry.decide(at(3999), &Change::Renew { seat: seat("a", 5), clock: NOON }).is_ok(),
        "a full lease"
    );
    let late = Change::Renew { seat: seat("a", 1), clock: NOON };
    assert!(matches!(refused(&registry, 1000, &late), Refusal::NameTaken { .. }));
    let again = registry.apply(at(1000), &Change::Join(next(1))).unwrap();
    assert_eq!((again.changed, again.id), (false, Some(0)), "a lost answer is given again");
    // Who joined in between is no life that this one knows of.
    let overtaken = Join { seat: seat("a", 6), ..next(1) };
    assert!(matches!(refused(&registry, 1000, &Change::Join(overtaken)), Refusal::NameInUse { .. }));
}

#[test]
fn succeeding_a_life_excuses_from_nothing_else() {
    let registry = with_node_a();
    let next = Join { succeeds: Some(Incarnation(1)), ..join("a", 2, NOON) };
    let lower = Join { seat: seat("a", 0), ..next.clone() };
    assert!(matches!(refused(&registry, 0, &Change::Join(lower)), Refusal::OldIncarnation { .. }));
    let late = Join { clock: WallClock(0), ..next.clone() };
    assert!(matches!(refused(&registry, 0, &Change::Join(late)), Refusal::ClockOff { .. }));
    let behind = Join { seen: Epoch(9), ..next.clone() };
    assert!(matches!(refused(&registry, 0, &Change::Join(behind)), Refusal::RegistryBehind { .. }));
    let mut registry = registry;
    registry.apply(at(0), &Change::Join(join("b", 1, NOON))).unwrap();
    let taken = Join { address: "b.lan:7700".into(), ..next.clone() };
    assert!(matches!(refused(&registry, 0, &Change::Join(taken)), Refusal::AddressInUse { .. }));
    registry.apply(at(0), &Change::Left { seat: seat("a", 1) }).unwrap();
    assert!(registry.decide(at(0), &Change::Join(next)).is_ok(), "a life that is over anyway");
}

#[test]
fn two_nodes_with_one_address_are_refused() {
    let other = Join { address: "a.lan:7700".into(), ..join("b", 1, NOON) };
    assert!(matches!(refused(&with_node_a(), 0, &Change::Join(other)), Refusal::AddressInUse { .. }));
}

#[test]
fn a_dead_life_does_not_come_back() {
    let mut registry = with_node_a();
    registry.apply(at(3000), &Change::Expire).unwrap();
    let renew = Change::Renew { seat: seat("a", 1), clock: NOON };
    assert!(matches!(refused(&registry, 3000, &renew), Refusal::LeaseEnded { .. }));
    let same = Change::Join(join("a", 1, NOON));
    assert!(matches!(refused(&registry, 3000, &same), Refusal::OldIncarnation { .. }));
    registry.apply(at(3000), &Change::Join(join("a", 2, NOON))).unwrap();
    let refusal = refused(&registry, 3000, &renew);
    assert!(matches!(refusal, Refusal::NameTaken { .. }));
    assert!(refusal.to_string().contains("lost its name to incarnation 2 at a.lan:7700"), "{refusal}");
}

#[test]
fn a_lease_that_has_ended_is_not_renewed_even_before_the_death_is_declared() {
    let registry = with_node_a();
    let renew = Change::Renew { seat: seat("a", 1), clock: NOON };
    assert!(registry.decide(at(2999), &renew).is_ok());
    assert!(matches!(refused(&registry, 3000, &renew), Refusal::LeaseEnded { .. }));
}

#[test]
fn a_clock_hours_off_is_refused_with_both_clocks() {
    let late = WallClock(NOON.0 + 2 * 3600 * 1000);
    let refusal = refused(&registry(), 0, &Change::Join(join("a", 1, late))).to_string();
    assert!(refusal.contains("says Wed, 15 Nov 2023 00:13:20 GMT"), "{refusal}");
    assert!(refusal.contains("the coordinator's says Tue, 14 Nov 2023 22:13:20 GMT"), "{refusal}");
    let near = Join { clock: WallClock(NOON.0 - 300_000), ..join("a", 1, NOON) };
    assert!(registry().decide(at(0), &Change::Join(near)).is_ok(), "the bound itself is allowed");
}

/// A clock that somebody sets, the coordinator's own too, ends no membership.
#[test]
fn a_member_whose_clock_is_off_renews_and_is_told() {
    for (clock, told) in [(0, Some(NOON)), (NOON.0 - 300_000, None), (u64::MAX, Some(NOON))] {
        let mut registry = with_node_a();
        let renew = Change::Renew { seat: seat("a", 1), clock: WallClock(clock) };
        let applied = registry.apply(at(2000), &renew).unwrap();
        assert_eq!((applied.changed, applied.coordinator_clock), (false, told), "{clock}");
        let later = Change::Renew { seat: seat("a", 1), clock: NOON };
        assert_eq!(registry.apply(at(4999), &later).unwrap().coordinator_clock, None, "it has a full lease");
    }
}

#[test]
fn a_registry_restored_from_an_old_copy_is_found_by_the_nodes() {
    let remembers = Join { seen: Epoch(1), ..join("a", 1, NOON) };
    let refusal = refused(&registry(), 0, &Change::Join(remembers)).to_string();
    assert!(refusal.contains("has seen epoch 1, but this registry is at epoch 0"), "{refusal}");
}

#[test]
fn names_that_cannot_be_keys_are_refused() {
    for name in ["", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
        let refusal = refused(&registry(), 0, &Change::Join(join(name, 1, NOON)));
        assert!(matches!(refusal, Refusal::BadName { .. }), "{name}: {refusal}");
        assert!(refusal.to_string().chars().all(|c| !c.is_control()));
        let refusal = refused(&registry(), 0, &Change::SetPolicy { volume: name.into(), policy: "p".into() });
        assert!(matches!(refusal, Refusal::BadName { .. }), "{name}: {refusal}");
    }
    for address in ["", "host", "host:", ":1", "host:70000", "a b:1", &format!("{}:1", "x".repeat(300))] {
        let join = Join { address: address.to_owned(), ..join("a", 1, NOON) };
        assert!(
            matches!(refused(&registry(), 0, &Change::Join(join)), Refusal::BadAddress { .. }),
            "{address}"
        );
    }
}

#[test]
fn what_is_not_there_is_named() {
    let registry = with_volume();
    let set = Change::SetPolicy { volume: "w".into(), policy: "none".into() };
    assert_eq!(
        refused(&registry, 0, &set).to_string(),
        "there is no volume `w`; create it first, or see `cards status` for the names"
    );
    let attach =
        Change::Attach { seat: seat("a", 1), volume: "w".into(), mode: AttachMode::Rw, takes_over: false };
    assert!(matches!(refused(&registry, 0, &attach), Refusal::UnknownVolume { .. }));
    let renew = Change::Renew { seat: seat("b", 1), clock: NOON };
    assert!(matches!(refused(&registry, 0, &renew), Refusal::UnknownMember { .. }));
    let renew = Change::Renew { seat: seat("a", 2), clock: NOON };
    assert!(matches!(refused(&registry, 0, &renew), Refusal::NotJoined { .. }));
    let put = Change::PutVolume(volume("w", "wwn-2"));
    assert!(matches!(refused(&registry, 0, &put), Refusal::UnknownDisk { .. }));
}

#[test]
fn definitions_that_cannot_work_are_refused() {
    let registry = with_volume();
    let put = |change: &dyn Fn(&mut cards_coordinator::Volume)| {
        let mut volume = volume("w", "wwn-1");
        change(&mut volume);
        refused(&registry, 0, &Change::PutVolume(volume))
    };
    for bytes in [0, 512, 2048, 65537, 2 << 20] {
        assert!(matches!(put(&|v| v.block_bytes = bytes), Refusal::BadBlockSize { .. }), "{bytes}");
    }
    assert!(matches!(put(&|v| v.policy = String::new()), Refusal::BadPolicy { .. }));
    assert!(matches!(put(&|v| v.policy = "x".repeat(1025)), Refusal::BadPolicy { .. }));
    assert!(matches!(put(&|v| v.modes.clear()), Refusal::NoModes { .. }));
}

#[test]
fn an_exclusive_attachment_passes_on_when_its_node_is_dead_and_not_before() {
    let mut registry = with_volume();
    registry.apply(at(2000), &Change::Join(join("b", 1, NOON))).unwrap();
    registry.apply(at(2000), &attach("a", AttachMode::Exclusive)).unwrap();
    for mode in [AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive] {
        assert!(matches!(refused(&registry, 2999, &attach("b", mode)), Refusal::AttachConflict { .. }));
    }
    registry.apply(at(3000), &Change::Expire).unwrap();
    registry.apply(at(3000), &attach("b", AttachMode::Exclusive)).unwrap();
    let view = registry.view();
    assert_eq!(view.attachments.len(), 1);
    assert_eq!(view.attachments[0].node, "b");
}

#[test]
fn a_volume_in_use_changes_only_its_policy() {
    let mut registry = with_volume();
    registry.apply(at(0), &attach("a", AttachMode::Rw)).unwrap();
    let mut put = volume("v", "wwn-1");
    put.policy = "none".into();
    assert!(registry.decide(at(0), &Change::PutVolume(put.clone())).is_ok());
    put.block_bytes = 4096;
    assert!(matches!(refused(&registry, 0, &Change::PutVolume(put)), Refusal::StillAttached { .. }));
    let remove = Change::RemoveVolume { volume: "v".into() };
    assert!(matches!(refused(&registry, 0, &remove), Refusal::StillAttached { .. }));
    let remove = Change::RemoveDisk { disk: "wwn-1".into(), with_volumes: false };
    assert!(matches!(refused(&registry, 0, &remove), Refusal::HasVolume { .. }));
    let left = Change::Left { seat: seat("a", 1) };
    assert!(matches!(refused(&registry, 0, &left), Refusal::NotDrained { .. }));
}

#[test]
fn a_disk_moves_only_from_a_node_that_is_not_live() {
    let mut registry = with_volume();
    registry.apply(at(2000), &Change::Join(join("b", 1, NOON))).unwrap();
    let put = Change::PutDisk { seat: seat("b", 1), disk: "wwn-1".into(), bytes: 1 << 30 };
    assert!(matches!(refused(&registry, 2000, &put), Refusal::DiskInUse { .. }));
    registry.apply(at(3000), &Change::Expire).unwrap();
    let forget = Change::Forget { name: "a".into() };
    assert!(matches!(refused(&registry, 3000, &forget), Refusal::HasDisk { .. }));
    registry.apply(at(3000), &put).unwrap();
    registry.apply(at(3000), &forget).unwrap();
    assert!(!registry.view().members.contains_key("a"));
    let forget = Change::Forget { name: "b".into() };
    assert!(matches!(refused(&registry, 3000, &forget), Refusal::StillLive { .. }));
}

#[test]
fn a_disk_goes_with_its_volumes_and_their_attachments_if_that_is_said() {
    let mut registry = with_volume();
    registry.apply(at(0), &Change::Join(join("b", 1, NOON))).unwrap();
    registry.apply(at(0), &attach("b", AttachMode::Rw)).unwrap();
    let remove = |with_volumes| Change::RemoveDisk { disk: "wwn-1".into(), with_volumes };
    assert!(matches!(refused(&registry, 0, &remove(false)), Refusal::HasVolume { .. }));
    assert!(registry.apply(at(0), &remove(true)).unwrap().changed);
    registry.verify().unwrap();
    let view = registry.view();
    assert!(view.disks.is_empty() && view.volumes.is_empty() && view.attachments.is_empty());
    assert!(!registry.apply(at(0), &remove(true)).unwrap().changed);
}

#[test]
fn an_attachment_that_was_taken_over_gives_way() {
    let mut registry = with_volume();
    registry.apply(at(0), &Change::Join(join("b", 1, NOON))).unwrap();
    registry.apply(at(0), &attach("a", AttachMode::Rw)).unwrap();
    let alone = attach("b", AttachMode::Exclusive);
    assert!(matches!(refused(&registry, 0, &alone), Refusal::AttachConflict { .. }));
    let Change::Attach { seat, volume, mode, .. } = alone else { unreachable!("made above") };
    registry.apply(at(0), &Change::Attach { seat, volume, mode, takes_over: true }).unwrap();
    registry.verify().unwrap();
    let nodes: Vec<String> = registry.view().attachments.into_iter().map(|held| held.node).collect();
    assert_eq!(nodes, ["b"]);
}

#[test]
fn a_leaving_node_keeps_its_lease_and_gets_nothing_new() {
    let mut registry = with_volume();
    let joined = registry.view().epoch;
    registry.apply(at(0), &Change::Leave { seat: seat("a", 1) }).unwrap();
    assert_eq!(registry.view().epoch, Epoch(joined.0 + 1));
    assert!(registry.decide(at(0), &Change::Renew { seat: seat("a", 1), clock: NOON }).is_ok());
    assert!(matches!(refused(&registry, 0, &attach("a", AttachMode::Rw)), Refusal::Leaving { .. }));
    registry.apply(at(0), &Change::Left { seat: seat("a", 1) }).unwrap();
    assert_eq!(registry.view().members["a"].state, MemberState::Left);
    let renew = Change::Renew { seat: seat("a", 1), clock: NOON };
    assert!(matches!(refused(&registry, 0, &renew), Refusal::HasLeft { .. }));
}

#[test]
fn the_number_of_members_has_a_limit_and_numbers_are_used_again() {
    let mut registry = registry();
    for n in 0..MEMBERS_MAX {
        registry.apply(at(0), &Change::Join(join(&format!("n{n}"), 1, NOON))).unwrap();
    }
    let more = Change::Join(join("more", 1, NOON));
    assert!(matches!(refused(&registry, 0, &more), Refusal::TooMany { .. }));
    registry.apply(at(0), &Change::Left { seat: seat("n7", 1) }).unwrap();
    registry.apply(at(0), &Change::Forget { name: "n7".into() }).unwrap();
    assert_eq!(registry.apply(at(0), &more).unwrap().id, Some(7));
    registry.verify().unwrap();
}

#[test]
fn terms_out_of_range_are_refused() {
    for ms in [0, 99, 3_600_001, u64::MAX] {
        assert!(matches!(terms(ms).head(), Err(Refusal::BadTerm { .. })), "{ms}");
    }
    assert!(matches!(Terms::new("a/b").head(), Err(Refusal::BadName { .. })));
}

#[test]
fn a_refusal_travels_as_json() {
    let refusal = refused(&registry(), 0, &Change::SetPolicy { volume: "w".into(), policy: "none".into() });
    let json = serde_json::to_string(&refusal).unwrap();
    assert_eq!(json, r#"{"refusal":"unknown-volume","volume":"w"}"#);
    assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
    let change = Change::Join(join("a", 1, NOON));
    let json = serde_json::to_string(&change).unwrap();
    assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change);
    let older = json.replace(r#","succeeds":null"#, "");
    assert_ne!(older, json);
    assert_eq!(serde_json::from_str::<Change>(&older).unwrap(), change, "what is missing is none");
}
