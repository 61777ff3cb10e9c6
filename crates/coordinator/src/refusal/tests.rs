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
        Refusal::BadCopies { volume: text(), copies: u8::MAX, copies_max: usize::MAX },
        Refusal::OtherCopies { volume: text(), copies: u8::MAX, disks: usize::MAX },
        Refusal::SameDomain { volume: text(), disks: text(), domain: text() },
        Refusal::NoPlace {
            volume: text(),
            copies: u8::MAX,
            bytes: u64::MAX,
            fitting: usize::MAX,
            domains: vec![DiskSpace { domain: text(), node: text(), disk: text(), room: u64::MAX }],
        },
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
        Refusal::BadCopies { .. } => "bad-copies",
        Refusal::OtherCopies { .. } => "other-copies",
        Refusal::SameDomain { .. } => "same-domain",
        Refusal::NoPlace { .. } => "no-place",
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
    assert_eq!(tags.len(), 54, "each once");
}
