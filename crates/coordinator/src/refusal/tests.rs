//! Refusals travel to other nodes as JSON.

use std::collections::BTreeSet;

use super::*;

/// Every refusal once, with values that JSON could spoil.
fn each() -> Vec<Refusal> {
    let text = || "a \"b\" \\ \u{1} ä".to_owned();
    vec![
        Refusal::WrongCluster { node: text(), wanted: text(), cluster: text() },
        Refusal::BadName { kind: text(), name: text(), length_max: usize::MAX },
        Refusal::BadAddress { node: text(), address: text() },
        Refusal::NameInUse {
            name: text(),
            address: text(),
            incarnation: Incarnation(u64::MAX),
            wait_ms: u64::MAX,
        },
        Refusal::AddressInUse { node: text(), address: text(), name: text() },
        Refusal::OldIncarnation {
            name: text(),
            incarnation: Incarnation(u64::MAX),
            latest: Incarnation(u64::MAX),
        },
        Refusal::NameTaken {
            name: text(),
            incarnation: Incarnation(u64::MAX),
            latest: Incarnation(u64::MAX),
            address: text(),
        },
        Refusal::LeaseEnded { name: text(), incarnation: Incarnation(u64::MAX) },
        Refusal::NotJoined {
            name: text(),
            incarnation: Incarnation(u64::MAX),
            latest: Incarnation(u64::MAX),
        },
        Refusal::HasLeft { name: text(), epoch: Epoch(u64::MAX) },
        Refusal::Leaving { name: text() },
        Refusal::ClockOff {
            name: text(),
            node: WallClock(u64::MAX),
            coordinator: WallClock(u64::MAX),
            bound_ms: u64::MAX,
        },
        Refusal::RegistryBehind { name: text(), seen: Epoch(u64::MAX), epoch: Epoch(u64::MAX) },
        Refusal::UnknownMember { name: text() },
        Refusal::UnknownDisk { disk: text() },
        Refusal::UnknownVolume { volume: text() },
        Refusal::StillLive { name: text() },
        Refusal::HasDisk { name: text(), disk: text() },
        Refusal::DiskInUse { disk: text(), node: text() },
        Refusal::StoreInUse { node: text(), other: text() },
        Refusal::HasVolume { disk: text(), volume: text() },
        Refusal::BadBlockSize { volume: text(), bytes: u64::MAX },
        Refusal::BadPolicy { volume: text(), bytes: usize::MAX, bytes_max: usize::MAX },
        Refusal::NoModes { volume: text() },
        Refusal::StillAttached { volume: text(), node: text() },
        Refusal::ModeNotAllowed { volume: text(), mode: AttachMode::Exclusive },
        Refusal::AttachConflict {
            volume: text(),
            mode: AttachMode::Exclusive,
            node: text(),
            held: AttachMode::Exclusive,
        },
        Refusal::NotDrained { name: text(), volume: text() },
        Refusal::Revoked { name: text() },
        Refusal::TooMany { kind: text(), max: usize::MAX },
        Refusal::BadTerm { term: text(), value_ms: u64::MAX, min_ms: u64::MAX, max_ms: u64::MAX },
        Refusal::DiskCloned { disk: text(), uuid: text(), node: text() },
        Refusal::DiskMoved { disk: text(), node: text(), volume: text() },
        Refusal::DiskReplaced { disk: text(), uuid: text(), volume: text() },
        Refusal::UnknownManagedDisk { disk: text() },
        Refusal::DiskAway { disk: text(), node: text() },
        Refusal::HasColumn { disk: text(), node: text(), volume: text() },
        Refusal::VolumeNameTaken { volume: text(), node: text() },
        Refusal::VolumeExists { volume: text() },
        Refusal::BadDiskName { volume: text() },
        Refusal::UuidTaken { volume: text(), uuid: text() },
        Refusal::BadSize { volume: text(), bytes: u64::MAX, bytes_max: u64::MAX },
        Refusal::Shrinks { volume: text(), bytes: u64::MAX, wanted: u64::MAX },
        Refusal::Growing { volume: text(), bytes: u64::MAX },
        Refusal::GrowthMade { volume: text(), bytes: u64::MAX },
        Refusal::NotInSync { volume: text(), copy: text() },
        Refusal::NoGrowth {
            volume: text(),
            bytes: u64::MAX,
            wanted: u64::MAX,
            most: u64::MAX,
            disks: vec![GrowthSpace { disk: text(), needed: u64::MAX, room: u64::MAX }],
        },
        Refusal::BadCopies { volume: text(), copies: u8::MAX, copies_max: usize::MAX },
        Refusal::OtherCopies { volume: text(), copies: u8::MAX, disks: usize::MAX },
        Refusal::SameDomain { volume: text(), disks: text(), domain: text() },
        Refusal::NoPlace {
            volume: text(),
            copies: u8::MAX,
            bytes: u64::MAX,
            fitting: usize::MAX,
            domains: vec![DiskSpace {
                domain: text(),
                node: text(),
                disk: text(),
                room: u64::MAX,
                is_away: true,
            }],
        },
        Refusal::NoStripes {
            volume: text(),
            shape: text(),
            most: u64::MAX,
            domains: vec![DiskSpace {
                domain: text(),
                node: text(),
                disk: text(),
                room: u64::MAX,
                is_away: true,
            }],
        },
        Refusal::BadLayout { volume: text(), layout: text() },
        Refusal::SameDisk { volume: text(), disk: text() },
        Refusal::NoCopyThere { volume: text(), disk: text(), copies: vec![text(), text()] },
        Refusal::BeingReplaced { volume: text(), from: text(), by: text() },
        Refusal::GrowthAfterReplacement { volume: text(), from: text(), by: text() },
        Refusal::GrowthAway { volume: text(), node: text(), copy: text() },
        Refusal::FewDomains { volume: text(), copies: u8::MAX, fitting: usize::MAX, domains: Vec::new() },
        Refusal::HasCopy { volume: text(), disk: text() },
        Refusal::SameNode { volume: text(), disk: text(), copy: text() },
        Refusal::NoRoom { volume: text(), disk: text(), bytes: u64::MAX, free: u64::MAX, room: u64::MAX },
        Refusal::NoSpare { volume: text(), from: text(), bytes: u64::MAX, domains: Vec::new() },
        Refusal::NoNumber { volume: text(), copies_max: usize::MAX, copies: vec![text()] },
        Refusal::NotMade { volume: text(), state: GroupState::Making },
        Refusal::ForceNotNeeded { volume: text(), copy: text() },
        Refusal::NoSource { volume: text(), copies: vec![text()] },
        Refusal::SourcesAway { volume: text(), copies: vec![text()], alone: true },
        Refusal::ForceAway { volume: text(), node: text() },
        Refusal::UnknownColumn { volume: text(), node: text(), disk: text() },
        Refusal::BeingRemoved { volume: text(), nodes: vec![text(), text()] },
        Refusal::NotBeingRemoved { volume: text(), node: text() },
        Refusal::NotReady { volume: text(), state: GroupState::Removing },
        Refusal::UnknownMap { number: u32::MAX },
        Refusal::MapNotTaken { volume: text(), generation: u32::MAX, epoch: u64::MAX, fence: u64::MAX },
        Refusal::NotPrimary { volume: text(), since: u64::MAX, epoch: u64::MAX },
        Refusal::BadMap { volume: text(), problem: text() },
    ]
}

/// Its tag. A refusal that is new needs one here, and a value above.
const fn tag(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::WrongCluster { .. } => "wrong-cluster",
        Refusal::BadName { .. } => "bad-name",
        Refusal::BadAddress { .. } => "bad-address",
        Refusal::Revoked { .. } => "revoked",
        Refusal::NameInUse { .. } => "name-in-use",
        Refusal::AddressInUse { .. } => "address-in-use",
        Refusal::OldIncarnation { .. } => "old-incarnation",
        Refusal::NameTaken { .. } => "name-taken",
        Refusal::LeaseEnded { .. } => "lease-ended",
        Refusal::NotJoined { .. } => "not-joined",
        Refusal::HasLeft { .. } => "has-left",
        Refusal::Leaving { .. } => "leaving",
        Refusal::ClockOff { .. } => "clock-off",
        Refusal::RegistryBehind { .. } => "registry-behind",
        Refusal::UnknownMember { .. } => "unknown-member",
        Refusal::UnknownDisk { .. } => "unknown-disk",
        Refusal::UnknownVolume { .. } => "unknown-volume",
        Refusal::StillLive { .. } => "still-live",
        Refusal::HasDisk { .. } => "has-disk",
        Refusal::DiskInUse { .. } => "disk-in-use",
        Refusal::StoreInUse { .. } => "store-in-use",
        Refusal::HasVolume { .. } => "has-volume",
        Refusal::BadBlockSize { .. } => "bad-block-size",
        Refusal::BadPolicy { .. } => "bad-policy",
        Refusal::NoModes { .. } => "no-modes",
        Refusal::StillAttached { .. } => "still-attached",
        Refusal::ModeNotAllowed { .. } => "mode-not-allowed",
        Refusal::AttachConflict { .. } => "attach-conflict",
        Refusal::NotDrained { .. } => "not-drained",
        Refusal::TooMany { .. } => "too-many",
        Refusal::BadTerm { .. } => "bad-term",
        Refusal::DiskCloned { .. } => "disk-cloned",
        Refusal::DiskMoved { .. } => "disk-moved",
        Refusal::DiskReplaced { .. } => "disk-replaced",
        Refusal::UnknownManagedDisk { .. } => "unknown-managed-disk",
        Refusal::DiskAway { .. } => "disk-away",
        Refusal::HasColumn { .. } => "has-column",
        Refusal::VolumeNameTaken { .. } => "volume-name-taken",
        Refusal::VolumeExists { .. } => "volume-exists",
        Refusal::BadDiskName { .. } => "bad-disk-name",
        Refusal::UuidTaken { .. } => "uuid-taken",
        Refusal::BadSize { .. } => "bad-size",
        Refusal::Shrinks { .. } => "shrinks",
        Refusal::Growing { .. } => "growing",
        Refusal::GrowthMade { .. } => "growth-made",
        Refusal::NotInSync { .. } => "not-in-sync",
        Refusal::NoGrowth { .. } => "no-growth",
        Refusal::BadCopies { .. } => "bad-copies",
        Refusal::OtherCopies { .. } => "other-copies",
        Refusal::SameDomain { .. } => "same-domain",
        Refusal::NoPlace { .. } => "no-place",
        Refusal::NoStripes { .. } => "no-stripes",
        Refusal::BadLayout { .. } => "bad-layout",
        Refusal::SameDisk { .. } => "same-disk",
        Refusal::NoCopyThere { .. } => "no-copy-there",
        Refusal::BeingReplaced { .. } => "being-replaced",
        Refusal::GrowthAfterReplacement { .. } => "growth-after-replacement",
        Refusal::GrowthAway { .. } => "growth-away",
        Refusal::FewDomains { .. } => "few-domains",
        Refusal::HasCopy { .. } => "has-copy",
        Refusal::SameNode { .. } => "same-node",
        Refusal::NoRoom { .. } => "no-room",
        Refusal::NoSpare { .. } => "no-spare",
        Refusal::NoNumber { .. } => "no-number",
        Refusal::NotMade { .. } => "not-made",
        Refusal::ForceNotNeeded { .. } => "force-not-needed",
        Refusal::NoSource { .. } => "no-source",
        Refusal::SourcesAway { .. } => "sources-away",
        Refusal::ForceAway { .. } => "force-away",
        Refusal::UnknownColumn { .. } => "unknown-column",
        Refusal::BeingRemoved { .. } => "being-removed",
        Refusal::NotBeingRemoved { .. } => "not-being-removed",
        Refusal::NotReady { .. } => "not-ready",
        Refusal::UnknownMap { .. } => "unknown-map",
        Refusal::MapNotTaken { .. } => "map-not-taken",
        Refusal::NotPrimary { .. } => "not-primary",
        Refusal::BadMap { .. } => "bad-map",
    }
}

#[test]
fn every_refusal_comes_back_from_json_as_it_was_under_its_tag() {
    let mut tags = BTreeSet::new();
    for refusal in each() {
        let json = serde_json::to_string(&refusal).unwrap();
        assert!(json.starts_with(&format!(r#"{{"refusal":"{}","#, tag(&refusal))), "{json}");
        assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
        tags.insert(tag(&refusal));
    }
    assert_eq!(tags.len(), 77, "each once");
}

#[test]
fn commands_name_the_volume_and_not_a_part() {
    let part = || "data (part 3)".to_owned();
    let (node, disk) = (|| "n1".to_owned(), || "fast".to_owned());
    let said = [
        Refusal::BeingReplaced { volume: part(), from: "n1:fast".into(), by: "n2:fast".into() },
        Refusal::HasColumn { disk: disk(), node: node(), volume: "data/3".into() },
        Refusal::NotBeingRemoved { volume: part(), node: node() },
        Refusal::NotMade { volume: part(), state: GroupState::Making },
        Refusal::NotInSync { volume: part(), copy: "n1:fast".into() },
        Refusal::GrowthAfterReplacement { volume: part(), from: "n1:fast".into(), by: String::new() },
        Refusal::GrowthAway { volume: part(), node: node(), copy: "n1:fast".into() },
    ];
    for refusal in said {
        let text = refusal.to_string();
        let mut commands = text.split('`').filter(|quoted| quoted.starts_with("cards volume "));
        assert!(commands.clone().count() > 0, "{text}");
        assert!(commands.all(|command| command.split(' ').nth(3) == Some("data")), "{text}");
    }
    let forced = Refusal::NoSource { volume: part(), copies: vec!["n1:fast".into()] }.to_string();
    assert!(forced.contains("`cards volume force data/3 --from NODE`"), "{forced}");
}

#[test]
fn room_is_made_only_where_that_helps() {
    let with = |domains| {
        Refusal::NoSpare { volume: "data".into(), from: "n1:fast".into(), bytes: 9, domains }.to_string()
    };
    assert!(
        with(Vec::new()).ends_with(
            "there is no other such disk; add a managed disk at another node (`cards disk format`)"
        )
    );
    let domains = vec![DiskSpace {
        domain: "n2".into(),
        node: "n2".into(),
        disk: "fast".into(),
        room: 7,
        is_away: false,
    }];
    assert!(
        with(domains)
            .ends_with("disk n2:fast has room for 7; add a managed disk (`cards disk format`), or make room")
    );
}

#[test]
fn what_does_not_fit_names_the_nodes_to_start() {
    let disk = |node: &str, is_away| DiskSpace {
        domain: node.into(),
        node: node.into(),
        disk: "fast".into(),
        room: 9,
        is_away,
    };
    let domains = vec![disk("n1", false), disk("n2", true)];
    let text =
        Refusal::NoPlace { volume: "data".into(), copies: 2, bytes: 9, fitting: 1, domains }.to_string();
    let wanted = "only 1 has that: disk n1:fast has room for 9; node n2, which has disk n2:fast, is not joined: start it; make it smaller";
    assert!(text.contains(wanted), "{text}");
    let one = Refusal::OtherCopies { volume: "data".into(), copies: 2, disks: 1 }.to_string();
    assert!(one.contains("and 1 disk is named"), "{one}");
}
