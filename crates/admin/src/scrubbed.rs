//! What came of a request to scrub.

use serde::{Deserialize, Serialize};

/// Bytes of a volume that were read from its disk and compared with their checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// Bytes that were read, or could not be.
    pub bytes: u64,
    /// Of these, bytes whose checksums are not known: they were being written when the disk was not closed.
    pub unverified: u64,
    /// Bytes that do not fit their checksums, or cannot be read.
    pub damaged: u64,
    /// Bytes of copies of a mirrored volume that did not fit their checksums, and were written anew from another copy.
    #[serde(default)]
    pub repaired: u64,
    /// Where what is damaged and what was repaired are; the first thousand places.
    pub places: Vec<Damage>,
}

/// A place of a volume where data are damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Offset in the volume, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What is wrong, for people.
    pub reason: String,
    /// It was written anew from another copy.
    #[serde(default)]
    pub repaired: bool,
}

/// When a volume is compared with its checksums by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubState {
    /// Seconds between two of them; none: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u64>,
    /// When all of it had been read last, in seconds since 1970 (UTC); of several parts, the one that was read first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_s: Option<u64>,
    /// When the next one begins; of several parts, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_s: Option<u64>,
    /// How much of it has been read, of that which is being read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u64>,
}
