//! What a local device and its daemon tell each other, after [`super::Request::Watch`].
//!
//! A device serves a volume to a kernel that keeps pages of it. The daemon does not know these copies, so it asks for
//! them before anybody writes what they are copies of. From the reply on, the connection is no longer one of requests
//! and replies: each side sends lines when it has something to say, a [`Notice`] from the daemon, a [`Word`] from the
//! device. It lasts as long as the device; when it ends, the daemon takes it that the pages are gone.
//!
//! A device lives longer than its daemon, over upgrades too. What one side says and the other does not know is passed over:
//! nothing may be said that must be understood, unless the other side has said before that it does.
//!
//! ```text
//! {"request":"watch","volume":"data"}
//! {"watching":{"size":1073741824,"block":4096,"read_only":false,"coherent":true,"nbd":"/run/cards/nbd.sock",
//!              "claim":{"volume":0,"card":1785332039909376}}}
//! {"keeps":{"pages":true}}
//! {"keeping":{"pages":true}}
//! {"valid":{"for_ms":2950}}
//! {"withdraw":{"id":1,"ranges":[[8192,4096]]}}
//! {"withdrawn":{"id":1}}
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use cards_config::Claim;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

/// The daemon serves the device from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watching {
    /// Size of the volume, in bytes.
    pub size: u64,
    /// The unit of caching, in bytes.
    pub block: u32,
    /// Nothing can be written through this card.
    pub read_only: bool,
    /// Whether pages of a kernel can be kept coherent. If not, the device must let it keep none.
    pub coherent: bool,
    /// The NBD socket that serves it; none if the daemon has none.
    pub nbd: Option<PathBuf>,
    /// Present if the card has the volume for itself. A device that finds its daemon gone and looks for the next one has a
    /// kernel that remembers the volume as it was, and says this again: it is served only if no other node has had a card
    /// that may write meanwhile, and by a card that has the volume for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

/// What one side says, in a line that begins with its name.
pub trait Said: DeserializeOwned {
    /// The names that this release knows.
    const NAMES: &[&str];

    /// What a line says; none if it is something of another release.
    ///
    /// # Errors
    /// It says nothing, or something that this release knows in a way that it does not know.
    fn heard(line: &[u8]) -> serde_json::Result<Option<Self>> {
        let is_known = |said: &BTreeMap<String, IgnoredAny>| {
            said.len() != 1 || said.keys().any(|name| Self::NAMES.contains(&name.as_str()))
        };
        match serde_json::from_slice(line) {
            Err(error) if serde_json::from_slice(line).as_ref().map_or(true, is_known) => Err(error),
            said => Ok(said.ok()),
        }
    }
}

impl Said for Notice {
    const NAMES: &[&str] = &["withdraw", "keeping", "valid"];
}

impl Said for Word {
    const NAMES: &[&str] = &["keeps", "withdrawn", "here"];
}

/// What the daemon tells a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// No page of these ranges may be used any more. A [`Word::Withdrawn`] must follow as soon as none can; until
    /// then somebody waits. What the device has read before it says so, and not passed on, it must read again.
    Withdraw {
        /// Names the withdrawal.
        id: u64,
        /// Offsets and lengths in bytes, in order.
        ranges: Vec<(u64, u64)>,
    },
    /// The answer to [`Word::Keeps`]: from here on withdrawals are asked for, or no more.
    Keeping {
        /// Whether the device may let the kernel keep pages.
        pages: bool,
    },
    /// Pages may be used for so long from now on, unless withdrawn; then none, until the next such notice. Sent
    /// several times in that time.
    Valid {
        /// Milliseconds; none if nobody can ever write the volume.
        for_ms: Option<u64>,
    },
}

/// What a device tells its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Whether the kernel keeps pages, or is about to. At first it keeps none.
    Keeps {
        /// Whether it does.
        pages: bool,
    },
    /// No page of the ranges of this withdrawal can be used any more.
    Withdrawn {
        /// Its name.
        id: u64,
    },
    /// Where the volume is on this machine, for `cards status`. The last one counts.
    Here(Device),
}

/// A volume as a path of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What serves it: `fuse`, `loop`, `ublk`.
    pub kind: String,
    /// The path.
    pub path: PathBuf,
    /// Of the block device, or of the file system that the file is in.
    pub major: u32,
    /// Of the same.
    pub minor: u32,
    /// The process that serves it.
    pub pid: u32,
}
