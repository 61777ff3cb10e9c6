//! The superblock: what a disk is.

use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;

use super::{Areas, Sequenced, SizeError, Sizes, Slot, UNIT, Uuid, field};
use crate::domain::{Domain, NAME_MAX, Name};

/// How a superblock begins.
pub const MAGIC: [u8; 8] = *b"CARDSDSK";
/// The format that is written and read.
pub const VERSION: u32 = 2;

const VERSION_AT: usize = 8;
const CRC_AT: usize = 12;
const SEQUENCE_AT: usize = 16;
const DISK_AT: usize = 24;
const CLUSTER_AT: usize = 40;
const DEVICE_AT: usize = 56;
const PIECE_SHIFT_AT: usize = 64;
const REGION_SHIFT_AT: usize = 65;
const FLAGS_AT: usize = 66;
const PIECES_AT: usize = 68;
const AREAS_AT: usize = 72;
const JOURNAL_DISK_AT: usize = 120;
const BOOT_AT: usize = 136;
const OPENED_AT: usize = 152;
const NODE_AT: usize = 160;
const DOMAIN_AT: usize = 224;
const NAME_AT: usize = 288;
const CLUSTER_NAME_AT: usize = 352;
const ZERO_FROM: usize = 416;

const CLOSED: u16 = 1;
const NO_SUMS: u16 = 2;
const JOURNAL_ELSEWHERE: u16 = 4;

/// The superblock of a managed disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Counts changes, from 1.
    pub sequence: u64,
    /// The disk; not nil.
    pub disk: Uuid,
    /// UUID of the cluster that has it; nil: none yet, or one without.
    pub cluster: Uuid,
    /// The name of the cluster that has it; none yet.
    pub cluster_name: Option<Name>,
    /// Sizes and areas.
    pub sizes: Sizes,
    /// The last daemon that opened it has closed it.
    pub closed: bool,
    /// The disk that has its journal, if that is another one.
    pub journal_disk: Option<Uuid>,
    /// Boot of the machine whose daemon opened it last; nil: it was never opened.
    pub boot: Uuid,
    /// When it was opened last, in microseconds since 1970 by that machine's clock.
    pub opened_us: u64,
    /// The node that opened it last.
    pub node: Option<Name>,
    /// Where it is; none: where its node is.
    pub domain: Option<Domain>,
    /// What people call it.
    pub name: Name,
}

/// Why a page is no superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SuperblockError {
    /// It begins in another way.
    Magic([u8; 8]),
    /// The format is another one.
    Version(u32),
    /// The page has changed since it was written.
    Checksum {
        /// The checksum in the page.
        stored: u32,
        /// That of the page.
        computed: u32,
    },
    /// The page belongs in the other slot.
    Slot {
        /// Where it was found.
        found: Slot,
        /// Its sequence number.
        sequence: u64,
    },
    /// Flags that this version does not know.
    Flags(u16),
    /// There is no such disk: its UUID is nil.
    NoDisk,
    /// The flag for a journal elsewhere, the UUID of the journal's disk and the size of the journal here do not agree.
    Journal,
    /// The sizes are impossible.
    Sizes(SizeError),
    /// Not a text that can be there.
    Text {
        /// Which.
        what: &'static str,
        /// What it says, as far as it can be printed.
        text: String,
    },
    /// A byte that has to be zero is not.
    Reserved {
        /// Its offset in the page.
        at: usize,
    },
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic([0, 0, 0, 0, 0, 0, 0, 0]) => f.write_str("there is none"),
            Self::Magic(magic) => {
                write!(f, "there is none: it begins with \"{}\"", magic.escape_ascii())
            }
            Self::Version(version) if *version < VERSION => {
                write!(
                    f,
                    "it is of format version {version}, in which no volume could be made, and this program knows version {VERSION}; format it again"
                )
            }
            Self::Version(version) => {
                write!(
                    f,
                    "it is of format version {version}, and this program knows version {VERSION}; use a newer program"
                )
            }
            Self::Checksum { stored, computed } => {
                write!(
                    f,
                    "its checksum says {stored:08x} and its bytes have {computed:08x}: it has changed since it was written"
                )
            }
            Self::Slot { found, sequence } => {
                write!(f, "number {sequence} is in slot {found} and belongs in slot {}", found.other())
            }
            Self::Flags(flags) => write!(f, "flags {flags:#06x} are not known; use a newer program"),
            Self::NoDisk => f.write_str("the UUID of the disk is nil"),
            Self::Journal => f.write_str("it does not say consistently where the journal is"),
            Self::Sizes(error) => error.fmt(f),
            Self::Text { what, text } => write!(f, "{what} is {text:?}, which it cannot be"),
            Self::Reserved { at } => write!(f, "byte {at} is not zero"),
        }
    }
}

impl core::error::Error for SuperblockError {}

impl Sequenced for Superblock {
    fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// A text with zeroes behind it.
fn padded(text: &str) -> [u8; NAME_MAX] {
    let mut bytes = [0; NAME_MAX];
    field::put(&mut bytes, 0, text.as_bytes());
    bytes
}

/// A text that was [`padded`], none if it is empty.
fn text<T: FromStr>(page: &[u8; UNIT], at: usize, what: &'static str) -> Result<Option<T>, SuperblockError> {
    let field: [u8; NAME_MAX] = field::bytes(page, at);
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    let wrong = || SuperblockError::Text { what, text: field.escape_ascii().to_string() };
    if field::not_zero(&field, length).is_some() {
        return Err(wrong());
    }
    if length == 0 {
        return Ok(None);
    }
    let text = core::str::from_utf8(&field[..length]).map_err(|_| wrong())?;
    text.parse().map(Some).map_err(|_| wrong())
}

impl Superblock {
    /// As it is on disk, in slot [`Slot::of`] its sequence number.
    #[must_use]
    pub fn encode(&self) -> [u8; UNIT] {
        let mut page = [0; UNIT];
        let mut put = |at, value: &[u8]| field::put(&mut page, at, value);
        let Sizes { device, piece_shift, region_shift, pieces, has_sums, areas } = self.sizes;
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let flags = flag(self.closed, CLOSED)
            | flag(!has_sums, NO_SUMS)
            | flag(self.journal_disk.is_some(), JOURNAL_ELSEWHERE);
        put(0, &MAGIC);
        put(VERSION_AT, &VERSION.to_le_bytes());
        put(SEQUENCE_AT, &self.sequence.to_le_bytes());
        put(DISK_AT, &self.disk.0);
        put(CLUSTER_AT, &self.cluster.0);
        put(DEVICE_AT, &device.to_le_bytes());
        put(PIECE_SHIFT_AT, &[piece_shift, region_shift]);
        put(FLAGS_AT, &flags.to_le_bytes());
        put(PIECES_AT, &pieces.to_le_bytes());
        let Areas { piece_table, column_table, regions, journal, journal_bytes, first_piece } = areas;
        let offsets = [piece_table, column_table, regions, journal, journal_bytes, first_piece];
        for (i, offset) in offsets.into_iter().enumerate() {
            put(AREAS_AT + 8 * i, &offset.to_le_bytes());
        }
        put(JOURNAL_DISK_AT, &self.journal_disk.unwrap_or_default().0);
        put(BOOT_AT, &self.boot.0);
        put(OPENED_AT, &self.opened_us.to_le_bytes());
        put(NODE_AT, &padded(self.node.as_ref().map_or("", Name::as_str)));
        put(DOMAIN_AT, &padded(self.domain.as_ref().map_or("", Domain::as_str)));
        put(NAME_AT, &padded(self.name.as_str()));
        put(CLUSTER_NAME_AT, &padded(self.cluster_name.as_ref().map_or("", Name::as_str)));
        let crc = field::crc(&page, CRC_AT);
        field::put(&mut page, CRC_AT, &crc.to_le_bytes());
        page
    }

    /// What a page says that was read from `slot`.
    ///
    /// # Errors
    /// It is no superblock, or not as it was written, or says what cannot be.
    pub fn decode(page: &[u8; UNIT], slot: Slot) -> Result<Self, SuperblockError> {
        let magic = field::bytes(page, 0);
        if magic != MAGIC {
            return Err(SuperblockError::Magic(magic));
        }
        let version = field::u32(page, VERSION_AT);
        if version != VERSION {
            return Err(SuperblockError::Version(version));
        }
        let (stored, computed) = (field::u32(page, CRC_AT), field::crc(page, CRC_AT));
        if stored != computed {
            return Err(SuperblockError::Checksum { stored, computed });
        }
        let sequence = field::u64(page, SEQUENCE_AT);
        if sequence == 0 || Slot::of(sequence) != slot {
            return Err(SuperblockError::Slot { found: slot, sequence });
        }
        let flags = field::u16(page, FLAGS_AT);
        if flags & !(CLOSED | NO_SUMS | JOURNAL_ELSEWHERE) != 0 {
            return Err(SuperblockError::Flags(flags));
        }
        let disk = Uuid(field::bytes(page, DISK_AT));
        if disk.is_nil() {
            return Err(SuperblockError::NoDisk);
        }
        let area = |i: usize| field::u64(page, AREAS_AT + 8 * i);
        let sizes = Sizes {
            device: field::u64(page, DEVICE_AT),
            piece_shift: page[PIECE_SHIFT_AT],
            region_shift: page[REGION_SHIFT_AT],
            pieces: field::u32(page, PIECES_AT),
            has_sums: flags & NO_SUMS == 0,
            areas: Areas {
                piece_table: area(0),
                column_table: area(1),
                regions: area(2),
                journal: area(3),
                journal_bytes: area(4),
                first_piece: area(5),
            },
        };
        sizes.check().map_err(SuperblockError::Sizes)?;
        let journal_disk = Uuid(field::bytes(page, JOURNAL_DISK_AT));
        let elsewhere = flags & JOURNAL_ELSEWHERE != 0;
        if elsewhere == journal_disk.is_nil() || elsewhere != (sizes.areas.journal_bytes == 0) {
            return Err(SuperblockError::Journal);
        }
        if let Some(at) = field::not_zero(page, ZERO_FROM) {
            return Err(SuperblockError::Reserved { at });
        }
        let no_name = || SuperblockError::Text { what: "the name of the disk", text: String::new() };
        Ok(Self {
            sequence,
            disk,
            cluster: Uuid(field::bytes(page, CLUSTER_AT)),
            cluster_name: text(page, CLUSTER_NAME_AT, "the name of the cluster")?,
            sizes,
            closed: flags & CLOSED != 0,
            journal_disk: elsewhere.then_some(journal_disk),
            boot: Uuid(field::bytes(page, BOOT_AT)),
            opened_us: field::u64(page, OPENED_AT),
            node: text(page, NODE_AT, "the name of the node")?,
            domain: text(page, DOMAIN_AT, "the failure domain")?,
            name: text(page, NAME_AT, "the name of the disk")?.ok_or_else(no_name)?,
        })
    }
}
