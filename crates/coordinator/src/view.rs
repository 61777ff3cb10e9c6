//! A copy of the registry at one revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cards_tls::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Revision};
use crate::record::{
    Attachment, Certificate, Disk, GroupMap, GroupVolume, ManagedDisk, Member, MemberState, Store,
    StripedVolume, Volume,
};

/// Everything the registry holds, at one revision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct View {
    /// Name of the cluster.
    pub cluster: String,
    /// Version of the member set.
    pub epoch: Epoch,
    /// Version of everything.
    pub revision: Revision,
    /// Length of a lease; as JSON `lease_ms`, in milliseconds.
    #[serde(rename = "lease_ms", with = "milliseconds")]
    pub lease: Duration,
    /// All members, the dead included, by name.
    pub members: BTreeMap<String, Member>,
    /// All disks, by physical ID.
    pub disks: BTreeMap<String, Disk>,
    /// All volumes, by name.
    pub volumes: BTreeMap<String, Volume>,
    /// All attachments, by node and volume.
    pub attachments: Vec<Attachment>,
    /// All certificates that are known and have not ended, by name and key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
    /// The stores by which members can keep parts of the registry, by node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stores: BTreeMap<String, Store>,
    /// The managed disks of members, in the order of their UUIDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed: Vec<ManagedDisk>,
    /// The volumes over several groups, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub striped: BTreeMap<String, StripedVolume>,
    /// The volumes over managed disks that are one group, and the parts of others, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupVolume>,
    /// The maps of those volumes that are ready or being removed, by the number of the volume.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub maps: BTreeMap<u32, GroupMap>,
}

impl View {
    /// The volume over managed disks of a number.
    #[must_use]
    pub fn group(&self, number: u32) -> Option<&GroupVolume> {
        self.groups.values().find(|group| group.number == number)
    }

    /// The members that take part: all live ones that are not leaving, in the order of their names.
    pub fn joined(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.state == MemberState::Joined)
    }

    /// The keys whose certificates are good for nothing.
    #[must_use]
    pub fn revoked(&self) -> BTreeSet<Fingerprint> {
        self.certificates.iter().filter(|known| known.revoked).map(|known| known.key).collect()
    }
}

/// Durations as whole milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
