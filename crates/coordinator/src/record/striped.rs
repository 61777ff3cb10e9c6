//! The record of a volume that is shared among several groups.

use std::collections::BTreeSet;

use cards_layout::format::Uuid;
use cards_layout::layout::Layout;
use cards_layout::stripes::Stripes;
use serde::{Deserialize, Serialize};

use super::{AttachMode, GroupState, GroupVolume, uuid_digits};

/// Groups that a volume can have.
pub const PARTS_MAX: usize = 64;
/// Bytes of a bundle that a new volume has, unless its blocks are larger.
pub const BUNDLE_BYTES: u64 = 1 << 20;

/// A volume whose bytes are shared among several groups, its *parts*. Each has a record of its own, with the name that [`part_name`] makes of the
/// volume's. All are created and removed in one change; what people attach is the volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripedVolume {
    /// Its name.
    pub name: String,
    /// Its UUID, as 32 hexadecimal digits, which its parts have as well: disks know a column by it and the number of the part.
    #[serde(with = "uuid_digits")]
    pub uuid: Uuid,
    /// How its bytes are spread: `raid10:2`, `raid0` or `linear`.
    #[serde(with = "text")]
    pub layout: Layout,
    /// Its size in bytes.
    pub bytes: u64,
    /// The size in bytes that it is to have, while it becomes larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grows_to: Option<u64>,
    /// The unit of caching, in bytes, which its parts have as well.
    pub block_bytes: u64,
    /// Bytes that go to a part, the next to the next one: whole blocks. None if its parts follow one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_bytes: Option<u64>,
    /// The policy and its settings, which its parts have as well.
    pub policy: String,
    /// The modes nodes may attach it in.
    pub modes: BTreeSet<AttachMode>,
    /// Ready when all parts are.
    pub state: GroupState,
    /// The numbers of its parts, in their order.
    pub groups: Vec<u32>,
}

impl StripedVolume {
    /// How its blocks are shared among its parts, whose sizes in bytes are these; none if the record makes no sense.
    #[must_use]
    pub fn stripes(&self, parts: &[u64]) -> Option<Stripes> {
        if parts.len() != self.groups.len() || parts.is_empty() || self.block_bytes == 0 {
            return None;
        }
        let blocks = |bytes: u64| u32::try_from(bytes.div_ceil(self.block_bytes)).ok();
        Some(match self.bundle_bytes {
            Some(bundle) => {
                let groups = u32::try_from(parts.len()).ok()?;
                let bundle = bundle.is_multiple_of(self.block_bytes).then(|| blocks(bundle)).flatten()?;
                (bundle > 0).then_some(Stripes::Striped { groups, bundle })?
            }
            None => {
                let mut ends = Vec::with_capacity(parts.len());
                let mut end: u32 = 0;
                for bytes in parts {
                    end = end.checked_add(blocks(*bytes)?)?;
                    ends.push(end);
                }
                // The last part is what grows, also under those that have the volume attached.
                *ends.last_mut()? = u32::MAX;
                Stripes::Concatenated { ends }
            }
        })
    }
}

/// The name of a part of a volume. No volume that people name has a slash.
#[must_use]
pub fn part_name(volume: &str, part: u16) -> String {
    format!("{volume}/{part}")
}

impl GroupVolume {
    /// The volume that it is, or is a part of.
    #[must_use]
    pub fn volume(&self) -> &str {
        match self.part {
            Some(_) => self.name.rsplit_once('/').map_or(self.name.as_str(), |(volume, _)| volume),
            None => &self.name,
        }
    }

    /// Its number in the column tables of its disks, and in its map.
    #[must_use]
    pub const fn group(&self) -> u16 {
        match self.part {
            Some(part) => part,
            None => 0,
        }
    }

    /// What people call it: the volume, and which part of it.
    #[must_use]
    pub fn described(&self) -> String {
        match self.part {
            Some(part) => format!("{} (part {part})", self.volume()),
            None => self.name.clone(),
        }
    }
}

/// Values as they are written.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(of: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(of)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
