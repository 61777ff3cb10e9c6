//! A map as bytes: what the group's register holds.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `CMAP` |
//! | 4 | 1 | version, 2 |
//! | 5 | 1 | 1 if it was forced |
//! | 6 | 1 | columns |
//! | 7 | 1 | zero |
//! | 8 | 4 | CRC-32C of all other bytes |
//! | 12 | 2 | group |
//! | 14 | 2 | the primary's node |
//! | 16 | 16 | volume |
//! | 32 | 4 | generation |
//! | 36 | 8 | epoch |
//! | 44 | 8 | the primary's incarnation |
//! | 52 | 8 | the epoch in which it became the primary |
//! | 60 | 8 | the epoch that columns in sync were sealed for |
//! | 68 | 36 each | columns: disk 16, node 2, state 1 (0 none, 1 in sync, 2 stale, 3 being filled), zero 1, since 8, marks 8 |
//!
//! In version 1 that epoch is not there, and columns have no marks.

use alloc::vec::Vec;
use core::fmt;

use cards_core::NodeId;
use cards_layout::format::{Uuid, crc32c};

use super::io::Marks;
use super::map::{COLUMNS_MAX, Map, MapColumn, MapError, Member, State, Term};

const MAGIC: [u8; 4] = *b"CMAP";
const VERSION: u8 = 2;
const HEAD: usize = 68;
/// The same in version 1.
const HEAD_1: usize = 60;
const COLUMN: usize = 36;
/// The same in version 1.
const COLUMN_1: usize = 28;
/// The longest map, in bytes.
pub const MAP_BYTES_MAX: usize = HEAD + COLUMN * COLUMNS_MAX;

/// Why bytes are no map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapBytesError {
    /// They do not begin as a map does.
    Magic,
    /// A version that this program does not know.
    Version {
        /// The version.
        version: u8,
    },
    /// Too few or too many.
    Length {
        /// So many.
        length: usize,
    },
    /// They have changed since they were written.
    Checksum,
    /// A field has a value that means nothing.
    Value {
        /// Its offset in bytes.
        at: usize,
    },
    /// They say what no map can be.
    Map(MapError),
}

impl fmt::Display for MapBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("the bytes are no map of a group"),
            Self::Version { version } => {
                write!(f, "the map has version {version}, and this program knows {VERSION}; upgrade it")
            }
            Self::Length { length } => write!(f, "{length} bytes are not as many as the map says"),
            Self::Checksum => f.write_str("the map is damaged: its checksum does not fit"),
            Self::Value { at } => write!(f, "byte {at} of the map has a value without a meaning"),
            Self::Map(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MapBytesError {}

impl Map {
    /// As the register holds it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + COLUMN * self.columns.len());
        bytes.extend(MAGIC);
        bytes.extend([VERSION, self.forced.into(), self.columns.len() as u8, 0]);
        bytes.extend([0; 4]);
        bytes.extend(self.group.to_le_bytes());
        bytes.extend(self.primary.node.0.to_le_bytes());
        bytes.extend(self.volume.0);
        bytes.extend(self.term.generation.to_le_bytes());
        bytes.extend(self.term.epoch.to_le_bytes());
        bytes.extend(self.primary.incarnation.to_le_bytes());
        bytes.extend(self.since.to_le_bytes());
        bytes.extend(self.opened.to_le_bytes());
        for column in &self.columns {
            let (state, since) = match column.state {
                State::None => (0, 0),
                State::Sync => (1, 0),
                State::Stale { since } => (2, since),
                State::Fill { since } => (3, since),
            };
            bytes.extend(column.disk.0);
            bytes.extend(column.node.0.to_le_bytes());
            bytes.extend([state, 0]);
            bytes.extend(since.to_le_bytes());
            bytes.extend(column.marks.0.to_le_bytes());
        }
        let crc = crc32c(&[&bytes[..8], &bytes[12..]]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The map that the bytes are.
    ///
    /// # Errors
    /// They are none, of another version, damaged, or say what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, MapBytesError> {
        let length = bytes.len();
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_1>() else {
            return Err(MapBytesError::Length { length });
        };
        if head[..4] != MAGIC {
            return Err(MapBytesError::Magic);
        }
        let (each, opened, columns) = match (head[4], rest.split_first_chunk()) {
            (VERSION, Some((opened, columns))) => (COLUMN, u64::from_le_bytes(*opened), columns),
            (VERSION, None) => return Err(MapBytesError::Length { length }),
            (1, _) => (COLUMN_1, 0, rest),
            (version, _) => return Err(MapBytesError::Version { version }),
        };
        if crc32c(&[&bytes[..8], &bytes[12..]]).to_le_bytes() != head[8..12] {
            return Err(MapBytesError::Checksum);
        }
        if columns.len() != usize::from(head[6]) * each {
            return Err(MapBytesError::Length { length });
        }
        let columns = columns.chunks_exact(each);
        let count = columns.len();
        if count == 0 || count > COLUMNS_MAX {
            return Err(MapBytesError::Map(MapError::Columns { count }));
        }
        if head[5] > 1 {
            return Err(MapBytesError::Value { at: 5 });
        }
        if head[7] != 0 {
            return Err(MapBytesError::Value { at: 7 });
        }
        let primary = node(array(head, 14)).ok_or(MapBytesError::Value { at: 14 })?;
        let map = Self {
            volume: Uuid(array(head, 16)),
            group: u16::from_le_bytes(array(head, 12)),
            term: Term {
                generation: u32::from_le_bytes(array(head, 32)),
                epoch: u64::from_le_bytes(array(head, 36)),
            },
            primary: Member { node: primary, incarnation: u64::from_le_bytes(array(head, 44)) },
            since: u64::from_le_bytes(array(head, 52)),
            forced: head[5] == 1,
            opened,
            columns: columns.enumerate().map(column).collect::<Result<_, _>>()?,
        };
        if map.opened > map.term.epoch {
            return Err(MapBytesError::Value { at: 60 });
        }
        if map.since > map.term.epoch {
            return Err(MapBytesError::Value { at: 52 });
        }
        map.check_apart().map_err(MapBytesError::Map)?;
        if map.in_sync().next().is_none() {
            return Err(MapBytesError::Map(MapError::NotInSync { node: map.primary.node }));
        }
        Ok(map)
    }
}

fn column((number, bytes): (usize, &[u8])) -> Result<MapColumn, MapBytesError> {
    let head = if bytes.len() == COLUMN { HEAD } else { HEAD_1 };
    let place = head + number * bytes.len();
    let since = u64::from_le_bytes(array(bytes, 20));
    let marks = if bytes.len() == COLUMN { u64::from_le_bytes(array(bytes, 28)) } else { 0 };
    let state = match (bytes[18], bytes[19], since, marks) {
        (0, 0, 0, 0) => State::None,
        (1, 0, 0, 0) => State::Sync,
        (2, 0, since, _) => State::Stale { since },
        (3, 0, since, _) => State::Fill { since },
        _ => return Err(MapBytesError::Value { at: place + 18 }),
    };
    let node = node(array(bytes, 16)).ok_or(MapBytesError::Value { at: place + 16 })?;
    Ok(MapColumn { disk: Uuid(array(bytes, 0)), node, state, marks: Marks(marks) })
}

/// A node that a cluster can have.
const fn node(bytes: [u8; 2]) -> Option<NodeId> {
    let node = u16::from_le_bytes(bytes);
    if (node as usize) < NodeId::MAX_NODES { Some(NodeId(node)) } else { None }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[at + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Map {
        let home = Member { node: NodeId(1), incarnation: 0x0102_0304_0506_0708 };
        let disks = [1, 2, 3, 4].map(|n| (Uuid([n; 16]), NodeId(n.into())));
        let first = Map::first(Uuid([9; 16]), 0x1234, home, &disks).unwrap();
        let mut map = first.without(home, 1, 1, Marks(7)).unwrap();
        map = map.let_in(home, 1, Uuid([2; 16]), Some((1, Marks(7)))).unwrap();
        map = map.without(home, 2, 3, Marks(8)).unwrap();
        map.columns[3].state = State::None;
        map.opened = 2;
        map
    }

    #[test]
    fn a_map_is_what_its_bytes_say() {
        let bytes = map().encode();
        assert_eq!(bytes.len(), HEAD + 4 * COLUMN);
        assert_eq!(Map::decode(&bytes), Ok(map()));
        const { assert!(MAP_BYTES_MAX < 1024) };
    }

    #[test]
    fn a_map_of_the_version_before_has_no_marks() {
        let mut map = map();
        map.opened = 0;
        map.columns.iter_mut().for_each(|column| column.marks = Marks(0));
        let bytes = map.encode();
        let columns = bytes[HEAD..].chunks_exact(COLUMN).flat_map(|column| &column[..COLUMN_1]);
        let mut before: Vec<u8> = bytes[..HEAD_1].iter().chain(columns).copied().collect();
        before[4] = 1;
        let crc = crc32c(&[&before[..8], &before[12..]]);
        before[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Map::decode(&before), Ok(map));
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_refused() {
        let bytes = map().encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Map::decode(&flipped).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Map::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Map::decode(&longer).is_err());
    }

    #[test]
    fn what_no_map_can_be_is_refused_although_its_checksum_fits() {
        let sealed = |change: fn(&mut Map)| {
            let mut map = map();
            change(&mut map);
            Map::decode(&map.encode())
        };
        let twice = sealed(|map| map.columns[1].node = map.columns[0].node);
        assert_eq!(twice, Err(MapBytesError::Map(MapError::Taken { column: 0 })));
        let none = sealed(|map| map.columns[0].state = State::Stale { since: 1 });
        assert_eq!(none, Err(MapBytesError::Map(MapError::NotInSync { node: NodeId(1) })));
        let later = sealed(|map| map.since = map.term.epoch + 1);
        assert_eq!(later, Err(MapBytesError::Value { at: 52 }));
        let home = sealed(|map| map.primary.node = NodeId(1023));
        assert_eq!(home, Err(MapBytesError::Value { at: 14 }));
        let far = sealed(|map| map.columns[1].node = NodeId(1023));
        assert_eq!(far, Err(MapBytesError::Value { at: HEAD + COLUMN + 16 }));
        let empty = sealed(|map| map.columns.clear());
        assert_eq!(empty, Err(MapBytesError::Map(MapError::Columns { count: 0 })));
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let mut bytes = map().encode();
        bytes[4] = 3;
        assert_eq!(Map::decode(&bytes), Err(MapBytesError::Version { version: 3 }));
        bytes[0] = b'X';
        assert_eq!(Map::decode(&bytes), Err(MapBytesError::Magic));
    }
}
