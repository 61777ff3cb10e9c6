//! What the registry holds, one record per thing, and the same keys and JSON values in both homes.

mod group;
mod striped;

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use cards_layout::format::Uuid;
use cards_register::StoreId;
use cards_tls::{Fingerprint, Name, Shown};
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, History, Incarnation, Revision, WallClock};
use crate::seat::Seat;

pub use group::{
    ColumnState, GROUP_NUMBER_MIN, GroupColumn, GroupMap, GroupNumbers, GroupState, GroupVolume, Growth,
    ManagedDisk,
};
pub(crate) use group::{exclusivity, hex, uuid_digits, uuid_list};
pub(crate) use striped::text;
pub use striped::{BUNDLE_BYTES, PARTS_MAX, StripedVolume, part_name};

/// Version of the keys and values. A registry of another version is refused, never converted by guess.
pub const SCHEMA: u32 = 1;

/// The registry as a whole: its name, its versions and the terms every member has accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the cluster.
    pub cluster: String,
    /// Version of the member set.
    pub epoch: Epoch,
    /// Version of everything.
    pub revision: Revision,
    /// Length of a lease, in milliseconds.
    pub lease_ms: u64,
    /// How far a node's time of day may be from the coordinator's, in milliseconds.
    pub clock_bound_ms: u64,
    /// Which registry it is; none in etcd, where the keys are the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Those that it goes on from, of which most parts were lost; the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub succeeds: Vec<History>,
}

impl Head {
    /// Length of a lease.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// How far a node's time of day may be from the coordinator's.
    #[must_use]
    pub const fn clock_bound(&self) -> Duration {
        Duration::from_millis(self.clock_bound_ms)
    }
}

/// Where a member is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It takes part and renews its lease.
    Joined,
    /// It drains: it renews its lease, but new work and homes go elsewhere.
    Leaving,
    /// It has left after draining.
    Left,
    /// Its lease ended.
    Dead,
}

impl MemberState {
    /// Whether the member has a lease.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Joined | Self::Leaving)
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Joined => "joined",
            Self::Leaving => "leaving",
            Self::Left => "left",
            Self::Dead => "dead",
        })
    }
}

/// A node, from its first join until it is forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its number, below [`crate::MEMBERS_MAX`]: kept over restarts, free again when the node is forgotten.
    pub id: u16,
    /// Where its peer port listens.
    pub address: String,
    /// Its latest life.
    pub incarnation: Incarnation,
    /// Where it is in that life.
    pub state: MemberState,
    /// The epoch that began when it came into this state.
    pub since: Epoch,
}

impl Member {
    /// The name and life, as later changes of this member carry them.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat { name: self.name.clone(), incarnation: self.incarnation }
    }
}

/// A disk, by its physical ID.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its physical ID, which no other disk in the registry has. Daemons say `NODE:NUMBER`: the place, not the device.
    pub id: String,
    /// The member it is plugged into.
    pub node: String,
    /// Its size, in bytes.
    pub bytes: u64,
}

/// How a node uses a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    /// Reads and writes, together with other nodes.
    Rw,
    /// Reads.
    Ro,
    /// Reads and writes while no other node has the volume at all.
    Exclusive,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rw => "rw",
            Self::Ro => "ro",
            Self::Exclusive => "exclusive",
        })
    }
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The physical ID of its disk.
    pub disk: String,
    /// The unit of caching, in bytes: a power of two from 4 KiB to 1 MiB.
    pub block_bytes: u64,
    /// The policy and its settings, in the words of the configuration file. The registry does not read them.
    pub policy: String,
    /// The modes nodes may attach it in.
    pub modes: BTreeSet<AttachMode>,
}

/// That a node has a volume attached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The node.
    pub node: String,
    /// The volume.
    pub volume: String,
    /// How.
    pub mode: AttachMode,
}

/// The certificate of a key, as the cluster knows it. Those that are renewed are still that of their key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The DNS name of its owner in the certificate: a node's or a client's.
    pub name: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo).
    #[serde(with = "digits")]
    pub key: Fingerprint,
    /// When the last one ends that is known, in seconds since 1970.
    pub ends: u64,
    /// It is good for nothing: its owner was forgotten, or the name has gone to another key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

impl Certificate {
    /// The certificate that a caller has shown, under a name that it proves; none if it is of another name or cannot be read.
    #[must_use]
    pub fn of(shown: &Shown, name: &Name) -> Option<Self> {
        let (key, ends) = (shown.key()?, seconds(shown.ends()?));
        shown.is(name).then(|| name.dns().ok()).flatten().map(|name| Self { name, key, ends, revoked: false })
    }

    /// A certificate under its first name.
    #[must_use]
    pub fn named(shown: &Shown) -> Option<Self> {
        let name = shown.name()?;
        Some(Self { name, key: shown.key()?, ends: seconds(shown.ends()?), revoked: false })
    }

    /// Whether it has neither ended nor been revoked at this time.
    #[must_use]
    pub const fn is_good(&self, now: WallClock) -> bool {
        !self.revoked && now.0 / 1000 < self.ends
    }
}

/// A time, in seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Fingerprints as hexadecimal digits.
mod digits {
    use cards_tls::Fingerprint;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(of: &Fingerprint, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(of)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Where a node can keep a part of the registry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The node.
    pub node: String,
    /// Its store, as 32 hexadecimal digits; one that was lost is another's.
    #[serde(with = "store_id")]
    pub store: StoreId,
}

/// Stores as hexadecimal digits.
pub(crate) mod store_id {
    use cards_register::StoreId;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(of: &StoreId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", of.0))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StoreId, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(StoreId).map_err(de::Error::custom)
    }
}

/// Any record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// The registry as a whole.
    Head(Head),
    /// A node.
    Member(Member),
    /// A disk.
    Disk(Disk),
    /// A volume.
    Volume(Volume),
    /// A volume at a node.
    Attachment(Attachment),
    /// A certificate of a node or a client.
    Certificate(Certificate),
    /// Where a node can keep a part of the registry.
    Store(Store),
    /// A managed disk of a node.
    ManagedDisk(ManagedDisk),
    /// A volume over managed disks of several nodes, or a part of one.
    Group(GroupVolume),
    /// A volume that is shared among several groups.
    Striped(StripedVolume),
    /// The map of such a volume.
    Map(GroupMap),
    /// The number of the next such volume.
    GroupNumbers(GroupNumbers),
}

/// A change of the records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Store this record in place of the one with its key, if any.
    Put(Record),
    /// Delete the member of this name.
    DeleteMember(String),
    /// Delete the disk of this physical ID.
    DeleteDisk(String),
    /// Delete the volume of this name.
    DeleteVolume(String),
    /// Delete one attachment.
    DeleteAttachment {
        /// The node.
        node: String,
        /// The volume.
        volume: String,
    },
    /// Delete the store of this node.
    DeleteStore(String),
    /// Delete all attachments of this node.
    DeleteAttachmentsOf(String),
    /// Delete this managed disk.
    DeleteManagedDisk(Uuid),
    /// Delete the volume over managed disks of this name.
    DeleteGroup(String),
    /// Delete the volume over several groups of this name.
    DeleteStriped(String),
    /// Delete the map of the volume of this number.
    DeleteMap(u32),
    /// Delete one certificate.
    DeleteCertificate {
        /// The name.
        name: String,
        /// The key.
        key: Fingerprint,
    },
}

/// Key of the head.
pub const HEAD: &str = "head";

/// Key of a member.
pub(crate) fn member_key(name: &str) -> String {
    format!("member/{name}")
}

/// Key of a disk.
pub(crate) fn disk_key(id: &str) -> String {
    format!("disk/{id}")
}

/// Key of a volume.
pub(crate) fn volume_key(name: &str) -> String {
    format!("volume/{name}")
}

/// Key of an attachment.
pub(crate) fn attachment_key(node: &str, volume: &str) -> String {
    format!("attachment/{node}/{volume}")
}

/// Key of a certificate. A DNS name has no slash.
pub(crate) fn certificate_key(name: &str, key: &Fingerprint) -> String {
    format!("certificate/{name}/{key}")
}

/// Key of a node's store.
pub(crate) fn store_key(node: &str) -> String {
    format!("store/{node}")
}

/// Key of a managed disk.
pub(crate) fn managed_key(uuid: &Uuid) -> String {
    format!("managed/{}", uuid_digits::text(uuid))
}

/// Key of a volume over managed disks.
pub(crate) fn group_key(name: &str) -> String {
    format!("group/{name}")
}

/// Key of a volume over several groups.
pub(crate) fn striped_key(name: &str) -> String {
    format!("striped/{name}")
}

/// Key of the map of a volume.
pub(crate) fn map_key(number: u32) -> String {
    format!("map/{number}")
}

/// Key of the number of the next volume over managed disks.
pub(crate) const GROUP_NUMBERS: &str = "group-numbers";

/// What the keys of all attachments of a node begin with. A name has no slash, so no other node's do.
pub(crate) fn attachments_prefix(node: &str) -> String {
    format!("attachment/{node}/")
}

impl Record {
    /// The key the record is stored under.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Head(_) => HEAD.to_owned(),
            Self::Member(member) => member_key(&member.name),
            Self::Disk(disk) => disk_key(&disk.id),
            Self::Volume(volume) => volume_key(&volume.name),
            Self::Attachment(attachment) => attachment_key(&attachment.node, &attachment.volume),
            Self::Certificate(certificate) => certificate_key(&certificate.name, &certificate.key),
            Self::Store(store) => store_key(&store.node),
            Self::ManagedDisk(disk) => managed_key(&disk.uuid),
            Self::Group(group) => group_key(&group.name),
            Self::Striped(volume) => striped_key(&volume.name),
            Self::Map(map) => map_key(map.number),
            Self::GroupNumbers(_) => GROUP_NUMBERS.to_owned(),
        }
    }

    /// The value, as JSON.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Self::Head(head) => serde_json::to_string(head),
            Self::Member(member) => serde_json::to_string(member),
            Self::Disk(disk) => serde_json::to_string(disk),
            Self::Volume(volume) => serde_json::to_string(volume),
            Self::Attachment(attachment) => serde_json::to_string(attachment),
            Self::Certificate(certificate) => serde_json::to_string(certificate),
            Self::Store(store) => serde_json::to_string(store),
            Self::ManagedDisk(disk) => serde_json::to_string(disk),
            Self::Group(group) => serde_json::to_string(group),
            Self::Striped(volume) => serde_json::to_string(volume),
            Self::Map(map) => serde_json::to_string(map),
            Self::GroupNumbers(numbers) => serde_json::to_string(numbers),
        }
        .expect("records have only strings, numbers and sets of strings")
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// The key is none of ours, the value does not parse, or it names another key than its own.
    pub fn parse(key: &str, value: &[u8]) -> Result<Self, Damage> {
        let damage = |problem: String| Damage { key: key.to_owned(), problem };
        let parsed = match key.split('/').next() {
            Some(HEAD) => serde_json::from_slice(value).map(Self::Head),
            Some("member") => serde_json::from_slice(value).map(Self::Member),
            Some("disk") => serde_json::from_slice(value).map(Self::Disk),
            Some("volume") => serde_json::from_slice(value).map(Self::Volume),
            Some("attachment") => serde_json::from_slice(value).map(Self::Attachment),
            Some("certificate") => serde_json::from_slice(value).map(Self::Certificate),
            Some("store") => serde_json::from_slice(value).map(Self::Store),
            Some("managed") => serde_json::from_slice(value).map(Self::ManagedDisk),
            Some("group") => serde_json::from_slice(value).map(Self::Group),
            Some("striped") => serde_json::from_slice(value).map(Self::Striped),
            Some("map") => serde_json::from_slice(value).map(Self::Map),
            Some(GROUP_NUMBERS) => serde_json::from_slice(value).map(Self::GroupNumbers),
            _ => {
                let problem = "is no key of a registry that this release knows; use the release that wrote it, or a later one";
                return Err(damage(problem.into()));
            }
        };
        let record = parsed.map_err(|e| damage(format!("has a value that does not parse: {e}")))?;
        if record.key() != key {
            return Err(damage(format!("holds the record of `{}`", record.key())));
        }
        Ok(record)
    }
}

/// A record that cannot be trusted. The registry is refused as a whole: what is missing cannot be guessed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("key `{key}` {problem}")]
pub struct Damage {
    /// The key, without the home's prefix.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> Record {
        Record::Volume(Volume {
            name: "v".into(),
            disk: "wwn-1".into(),
            block_bytes: 65536,
            policy: "hscc".into(),
            modes: BTreeSet::from([AttachMode::Rw, AttachMode::Exclusive]),
        })
    }

    #[test]
    fn a_record_is_stored_as_the_reference_says() {
        assert_eq!(volume().key(), "volume/v");
        assert_eq!(
            volume().value(),
            r#"{"name":"v","disk":"wwn-1","block_bytes":65536,"policy":"hscc","modes":["rw","exclusive"]}"#
        );
        let member = Record::Member(Member {
            name: "a".into(),
            id: 3,
            address: "10.0.0.1:7700".into(),
            incarnation: Incarnation(9),
            state: MemberState::Leaving,
            since: Epoch(4),
        });
        assert_eq!(member.key(), "member/a");
        assert_eq!(
            member.value(),
            r#"{"name":"a","id":3,"address":"10.0.0.1:7700","incarnation":9,"state":"leaving","since":4}"#
        );
    }

    #[test]
    fn a_record_reads_back_only_under_its_own_key() {
        let value = volume().value();
        assert_eq!(Record::parse("volume/v", value.as_bytes()), Ok(volume()));
        for key in ["volume/w", "disk/v", "volume/v/", "volume", "", "seal", "head"] {
            assert!(Record::parse(key, value.as_bytes()).is_err(), "{key}");
        }
    }

    #[test]
    fn a_record_with_a_field_of_a_later_version_is_refused() {
        let damage = Record::parse("disk/d", br#"{"id":"d","node":"a","bytes":1,"new":2}"#).unwrap_err();
        assert!(damage.to_string().contains("unknown field `new`"), "{damage}");
    }
}
