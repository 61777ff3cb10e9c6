//! Records and the header, as bytes with checksums.

use cards_client::Token;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: u64 = 512;
/// Bytes of a name.
const NAME_BYTES: usize = 64;
const HEADER_MAGIC: [u8; 8] = *b"APPENDER";
const RECORD_MAGIC: [u8; 8] = *b"APPENDED";

/// The first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Records that count.
    pub(crate) records: u64,
    /// The token under which the last of them were appended.
    pub(crate) token: Token,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Who appended it.
    pub(crate) name: String,
    /// Its number among those of this name, from 1.
    pub(crate) sequence: u64,
    /// Under which token.
    pub(crate) token: Token,
}

impl Header {
    /// A header that was never written is empty; one whose checksum is wrong is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(Self { records: 0, token: Token { epoch: 0, count: 0 } });
        }
        let fields = checked(bytes, HEADER_MAGIC)?;
        Some(Self {
            records: number(fields, 0)?,
            token: Token { epoch: number(fields, 8)?, count: number(fields, 16)? },
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [self.records, self.token.epoch, self.token.count];
        let fields: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        with_checksum(HEADER_MAGIC, &fields)
    }
}

impl Record {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = checked(bytes, RECORD_MAGIC)?;
        let name = fields.get(24..24 + NAME_BYTES)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(Self {
            name: String::from_utf8(name.to_vec()).ok()?,
            sequence: number(fields, 0)?,
            token: Token { epoch: number(fields, 8)?, count: number(fields, 16)? },
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [self.sequence, self.token.epoch, self.token.count];
        let mut fields: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        fields.extend(self.name.bytes().take(NAME_BYTES - 1));
        with_checksum(RECORD_MAGIC, &fields)
    }
}

/// Magic, checksum of what follows, fields, and zeros up to the length of a record.
fn with_checksum(magic: [u8; 8], fields: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend([0; 4]);
    bytes.extend(fields);
    bytes.resize(RECORD_BYTES as usize, 0);
    let crc = crc32fast::hash(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The fields, if magic and checksum are right.
fn checked(bytes: &[u8], magic: [u8; 8]) -> Option<&[u8]> {
    let record = bytes.get(..RECORD_BYTES as usize)?;
    let (head, fields) = record.split_at_checked(12)?;
    let crc = u32::from_le_bytes(head.get(8..)?.try_into().ok()?);
    (head.starts_with(&magic) && crc == crc32fast::hash(fields)).then_some(fields)
}

fn number(fields: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(fields.get(at..at + 8)?.try_into().ok()?))
}
