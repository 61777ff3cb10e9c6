//! Cards: the attachments of volumes at this node.

use std::fmt;

use cards_core::Access;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Attached, Limit, PolicySpec, size};

/// One card: an attachment of a volume at this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Name of the volume, here or at another node.
    pub volume: String,
    /// What its clients may do. Default `rw`.
    #[serde(default)]
    pub mode: Mode,
    /// How far sequential reads run ahead. Default `auto`.
    #[serde(default)]
    pub read_ahead: ReadAhead,
    /// The policy the volume is expected to have; another one is refused by name. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Whether the disk node shall keep copies of what is read through this card: `computer` or `network`, as
    /// for a disk. Default: as the disk has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Attached>,
    /// The most that clients of the card may have of it. Default: any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// With mode `exclusive`: cards of other nodes are given up for it. Asked for by hand, never configured.
    #[serde(skip)]
    pub takeover: bool,
    /// With mode `exclusive`: the earlier card that it goes on for, whose clients have lived on. Refused if another node
    /// has had a card that may write since.
    #[serde(skip)]
    pub claim: Option<Claim>,
}

impl Attach {
    /// A card of `volume` with the default of every other key.
    #[must_use]
    pub fn new(volume: &str) -> Self {
        Self {
            volume: volume.into(),
            mode: Mode::Rw,
            read_ahead: ReadAhead::Auto,
            policy: None,
            attached: None,
            limit: None,
            takeover: false,
            claim: None,
        }
    }
}

/// A card that has a volume for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Number of the volume.
    pub volume: u32,
    /// Number of the card.
    pub card: u64,
}

/// What the clients of a card may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Read.
    Ro,
    /// Read and write, as others may at other nodes; a read-only disk is read.
    #[default]
    Rw,
    /// Read and write while no other node has a card.
    Exclusive,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Ro, Self::Rw, Self::Exclusive];

    /// What a card of this mode asks of a disk that may be read-only.
    #[must_use]
    pub const fn access(self, read_only: bool) -> Access {
        match self {
            Self::Rw if !read_only => Access::Write,
            Self::Ro | Self::Rw => Access::Read,
            Self::Exclusive => Access::Exclusive,
        }
    }

    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ro => "ro",
            Self::Rw => "rw",
            Self::Exclusive => "exclusive",
        }
    }
}

/// How far a card's sequential reads run ahead (remote disk drivers, section 4: the requester's
/// read-ahead window is exported to the disk node as asynchronous requests).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// Adaptive: starts at [`ReadAhead::WINDOW_BYTES`], grows while it is used, shrinks when not.
    #[default]
    Auto,
    /// None.
    Off,
    /// A fixed window of this many bytes.
    Bytes(u64),
}

impl ReadAhead {
    /// The window of the papers' Linux: 31 pages of 4 KiB.
    pub const WINDOW_BYTES: u64 = 31 * 4096;
    /// Largest window that can be asked for, in bytes.
    pub const BYTES_MAX: u64 = 64 << 20;
}

impl std::str::FromStr for ReadAhead {
    type Err = size::SizeError;

    fn from_str(text: &str) -> Result<Self, size::SizeError> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            other => size::parse(other).map(Self::from_bytes),
        }
    }
}

impl ReadAhead {
    const fn from_bytes(bytes: u64) -> Self {
        if bytes == 0 { Self::Off } else { Self::Bytes(bytes) }
    }
}

impl fmt::Display for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Bytes(bytes) => f.write_str(&size::exact(*bytes)),
        }
    }
}

impl Serialize for ReadAhead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReadAhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReadAheadVisitor;
        impl de::Visitor<'_> for ReadAheadVisitor {
            type Value = ReadAhead;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", \"off\" or a size such as \"124K\"")
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<ReadAhead, E> {
                value.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(value), &self))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ReadAhead, E> {
                value
                    .try_into()
                    .map(ReadAhead::from_bytes)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ReadAhead, E> {
                Ok(ReadAhead::from_bytes(value))
            }
        }
        deserializer.deserialize_any(ReadAheadVisitor)
    }
}
