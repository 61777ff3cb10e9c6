//! Records of volumes whose bytes are on managed disks of several nodes, of those disks, and of their maps.
//!
//! A group volume is made and removed in two steps, because nodes make and remove its columns:
//!
//! | state | what nodes do | what ends it |
//! |---|---|---|
//! | [`GroupState::Making`] | each with a [`ColumnState::Missing`] column makes it, and says so | the last one has said so: the volume is ready, and has its first map |
//! | [`GroupState::Ready`] | host the group; make and remove columns as while it is made and removed, of which one takes the place of another ([`ColumnState::Leaving`]) | [`crate::Change::RemoveGroup`] |
//! | [`GroupState::Removing`] | each with a column removes it if it is there, and says so | the last one has said so: the record and the map are gone |

use std::collections::BTreeSet;
use std::fmt;

use cards_array::group::{KeptExclusivity, Map, MapBytesError, Term};
use cards_core::PgId;
use cards_layout::format::Uuid;
use serde::{Deserialize, Serialize};

use super::AttachMode;

/// The least number of a group volume: above all that plain disks can have.
pub const GROUP_NUMBER_MIN: u32 = 1 << 16;

/// A managed disk, as the node that has it says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagedDisk {
    /// Its UUID, as 32 hexadecimal digits.
    #[serde(with = "uuid_digits")]
    pub uuid: Uuid,
    /// What the node's configuration calls it.
    pub name: String,
    /// The node.
    pub node: String,
    /// Bytes that it has for data.
    pub bytes: u64,
    /// Bytes of them that are free, a multiple of `piece_bytes`.
    pub free: u64,
    /// What a column takes of the disk is a multiple of it.
    pub piece_bytes: u64,
    /// Its failure domain: columns of one volume are in different ones. By default the name of the node.
    pub domain: String,
}

impl ManagedDisk {
    /// Its name and its node's, as `NODE:DISK`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.node, self.name)
    }

    /// What a column with so many bytes takes of the disk, in bytes.
    #[must_use]
    pub const fn taken_by(&self, bytes: u64) -> u64 {
        if self.piece_bytes == 0 {
            bytes
        } else {
            bytes.div_ceil(self.piece_bytes).saturating_mul(self.piece_bytes)
        }
    }

    /// Bytes that a new column can have: what is free, less what columns of these volumes are still to have that are to be made, or to grow.
    pub fn room<'a>(&self, volumes: impl Iterator<Item = &'a GroupVolume>) -> u64 {
        let reserved = volumes.map(|group| {
            let here = group.columns.iter().filter(|column| column.disk == self.uuid);
            let due = here.map(|column| match column.state {
                ColumnState::Missing => self.taken_by(group.column_bytes()),
                ColumnState::Made | ColumnState::Leaving if !column.grown => self
                    .taken_by(group.column_bytes())
                    .saturating_sub(self.taken_by(group.bytes.max(column.kept))),
                ColumnState::Made | ColumnState::Leaving | ColumnState::Removed => 0,
            });
            due.fold(0, u64::saturating_add)
        });
        self.free.saturating_sub(reserved.fold(0, u64::saturating_add))
    }
}

/// Where a group volume is between its creation and its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupState {
    /// Some of its columns are not made yet. It cannot be attached.
    Making,
    /// All columns have been made. It has a map.
    Ready,
    /// It was removed, and some of its columns are on their disks still.
    Removing,
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Making => "making",
            Self::Ready => "ready",
            Self::Removing => "removing",
        })
    }
}

/// What the node of a column has said of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnState {
    /// Nothing: it may be on the disk or not.
    Missing,
    /// It is on the disk.
    Made,
    /// It is to leave: another column takes its place. Its node removes it when the map is without it.
    Leaving,
    /// It is not on the disk any more.
    Removed,
}

/// A column of a group volume. Its number is its position in [`GroupVolume::columns`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupColumn {
    /// The node that makes and removes it.
    pub node: String,
    /// The managed disk.
    #[serde(with = "uuid_digits")]
    pub disk: Uuid,
    /// What that node called the disk when the volume was created.
    pub disk_name: String,
    /// What the node has said.
    pub state: ColumnState,
    /// The number of the column whose place it takes, as long as that one is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u8>,
    /// While the group grows: it has the new size on its disk, or is made with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grown: bool,
    /// What it has on its disk, in bytes, if that is more than the group has: for a growth that was cancelled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: u64,
    /// Its node has found that the disk was put back to an image of this epoch: it has not every write, whatever the map says. Nothing is said of one
    /// that is not in sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<u64>,
    /// Its node has given it up, because its disk has failed, until the daemon there is started anew. Nothing is said of one that is not in sync.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// For records that say nothing of it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl GroupColumn {
    /// Its disk, as `NODE:DISK`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.node, self.disk_name)
    }
}

/// A group on its way to another size. What clients are told is [`GroupVolume::bytes`] until it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// The size in bytes that it is to have.
    pub bytes: u64,
    /// All columns have it: no disk refuses what is written there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made: bool,
    /// So its primary takes commands for it, and so will each that comes later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
}

/// A volume whose bytes are on managed disks of several nodes, and which is one placement group (of number 0 in the column tables of its
/// disks); its name is that of no other volume, plain ones included. Or one of the parts of a [`super::StripedVolume`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupVolume {
    /// Its name.
    pub name: String,
    /// Its number, [`GROUP_NUMBER_MIN`] or above, which no volume before it had.
    pub number: u32,
    /// Its UUID, as 32 hexadecimal digits: by it disks know the columns.
    #[serde(with = "uuid_digits")]
    pub uuid: Uuid,
    /// Its size in bytes, which is also that of each column.
    pub bytes: u64,
    /// The unit of caching, in bytes: a power of two from 4 KiB to 1 MiB.
    pub block_bytes: u64,
    /// The policy and its settings, in the words of the configuration file. The registry does not read them.
    pub policy: String,
    /// The modes nodes may attach it in.
    pub modes: BTreeSet<AttachMode>,
    /// Where it is between its creation and its end.
    pub state: GroupState,
    /// Which part of a volume it is, whose name and UUID it has; none: a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u16>,
    /// Its columns: each is a whole copy. The place of one that was removed is free for the next one.
    pub columns: Vec<GroupColumn>,
    /// While it becomes larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grows: Option<Growth>,
}

impl GroupVolume {
    /// Its number, as the core and the wire have it.
    #[must_use]
    pub const fn pg(&self) -> PgId {
        PgId(self.number)
    }

    /// Bytes that its columns are to have: more than it has while it grows.
    #[must_use]
    pub fn column_bytes(&self) -> u64 {
        self.grows.map_or(self.bytes, |growth| growth.bytes)
    }

    /// Bytes up to which its primary takes commands.
    #[must_use]
    pub fn served_bytes(&self) -> u64 {
        self.grows.filter(|growth| growth.made).map_or(self.bytes, |growth| growth.bytes)
    }

    /// The columns that there are, or may be, with their numbers.
    pub fn there(&self) -> impl Iterator<Item = (u8, &GroupColumn)> {
        (0..).zip(&self.columns).filter(|(_, column)| column.state != ColumnState::Removed)
    }

    /// Those of a node: one, or two while one disk of it takes the place of another one.
    pub fn columns_at(&self, node: &str) -> impl Iterator<Item = (u8, &GroupColumn)> {
        self.there().filter(move |(_, column)| column.node == node)
    }

    /// The copies that it is to have.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.there().filter(|(_, column)| column.state != ColumnState::Leaving).count()
    }

    /// The column that takes the place of another one.
    #[must_use]
    pub fn successor(&self, column: u8) -> Option<(u8, &GroupColumn)> {
        let mut staying = self.there().filter(|(_, column)| column.state != ColumnState::Leaving);
        staying.find(|(_, other)| other.replaces == Some(column))
    }
}

/// The map of a group volume: which process orders its writes, and which columns have all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupMap {
    /// The number of the volume.
    pub number: u32,
    /// Histories of the volume that a person has given up.
    pub generation: u32,
    /// Changes of the map so far.
    pub epoch: u64,
    /// A proposal is taken only with this number: who does not know what became of its proposal raises it, and then that is not taken
    /// any more. See [`crate::GroupRegister`].
    pub fence: u64,
    /// The map, as [`Map::encode`] has it, in hexadecimal digits.
    #[serde(with = "hex")]
    pub map: Vec<u8>,
    /// Which card has the volume for itself, as its primaries have noted it.
    #[serde(default, with = "exclusivity", skip_serializing_if = "is_of_no_primary")]
    pub exclusivity: KeptExclusivity,
}

impl GroupMap {
    /// The record of a map.
    #[must_use]
    pub fn new(number: u32, fence: u64, map: &Map) -> Self {
        let Term { generation, epoch } = map.term;
        Self { number, generation, epoch, fence, map: map.encode(), exclusivity: KeptExclusivity::default() }
    }

    /// What orders the maps of a volume.
    #[must_use]
    pub const fn term(&self) -> Term {
        Term { generation: self.generation, epoch: self.epoch }
    }

    /// The map.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(&self) -> Result<Map, MapBytesError> {
        Map::decode(&self.map)
    }
}

/// The number of the next group volume. None is given twice: nodes may remember a volume that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupNumbers {
    /// The number.
    pub next: u32,
}

impl Default for GroupNumbers {
    fn default() -> Self {
        Self { next: GROUP_NUMBER_MIN }
    }
}

/// No primary has noted anything.
fn is_of_no_primary(kept: &KeptExclusivity) -> bool {
    *kept == KeptExclusivity::default()
}

/// Which card has a volume for itself: cards as the number of the node and the generation.
pub(crate) mod exclusivity {
    use cards_array::group::KeptExclusivity;
    use cards_core::{Exclusivity, Generation, NodeId};
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    type Card = Option<(u16, u64)>;

    #[derive(serde::Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields {
        generation: u32,
        since: u64,
        number: u64,
        card: Card,
        writer: Card,
        #[serde(default, skip_serializing_if = "is_none")]
        rank: u64,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_none(rank: &u64) -> bool {
        *rank == 0
    }

    pub(crate) fn serialize<S: Serializer>(of: &KeptExclusivity, serializer: S) -> Result<S::Ok, S::Error> {
        let KeptExclusivity { generation, since, number, exclusivity: Exclusivity { card, writer, rank } } =
            *of;
        let plain = |card: Option<(NodeId, Generation)>| card.map(|(node, card)| (node.0, card.0));
        let (card, writer, rank) = (plain(card), plain(writer), rank.0);
        Fields { generation, since, number, card, writer, rank }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<KeptExclusivity, D::Error> {
        let Fields { generation, since, number, card, writer, rank } = Fields::deserialize(deserializer)?;
        let typed = |card: Card| card.map(|(node, card)| (NodeId(node), Generation(card)));
        let exclusivity = Exclusivity { card: typed(card), writer: typed(writer), rank: Generation(rank) };
        Ok(KeptExclusivity { generation, since, number, exclusivity })
    }
}

/// UUIDs as 32 hexadecimal digits.
pub(crate) mod uuid_digits {
    use cards_layout::format::Uuid;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn text(of: &Uuid) -> String {
        format!("{:032x}", u128::from_be_bytes(of.0))
    }

    pub(crate) fn parse(text: &str) -> Result<Uuid, String> {
        let is_digits =
            text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number
            .map(|number| Uuid(number.to_be_bytes()))
            .ok_or_else(|| format!("{text:?} is not 32 hexadecimal digits"))
    }

    pub(crate) fn serialize<S: Serializer>(of: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(of))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Lists of UUIDs, each as 32 hexadecimal digits.
pub(crate) mod uuid_list {
    use cards_layout::format::Uuid;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use super::uuid_digits;

    pub(crate) fn serialize<S: Serializer>(of: &[Uuid], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(of.iter().map(uuid_digits::text))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Uuid>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| uuid_digits::parse(text).map_err(de::Error::custom)).collect()
    }
}

/// Bytes as hexadecimal digits.
pub(crate) mod hex {
    use std::fmt::Write as _;

    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            write!(text, "{byte:02x}").expect("a string takes all that is written");
        }
        serializer.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        bytes
            .filter(|_| rest.is_empty())
            .ok_or_else(|| de::Error::custom("bytes are pairs of hexadecimal digits"))
    }
}
