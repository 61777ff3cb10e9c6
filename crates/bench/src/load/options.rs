use std::time::Duration;

use serde::Serialize;

use crate::Error;
use crate::content::SECTOR;
use crate::size::format_size;

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// NBD_CMD_READ
    Read,
    /// NBD_CMD_WRITE
    Write,
}

/// The order of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Uniform, with repetitions.
    Random,
    /// Ascending, each connection in its own part, starting over at the end.
    Sequential,
    /// Every offset exactly once, in random order; the run ends after the last. For cold caches.
    Once,
    /// Every offset exactly once, ascending; the run ends after the last. For filling and warming.
    Scan,
}

/// One load.
#[derive(Debug, Clone)]
pub struct Options {
    /// Reads or writes.
    pub mode: Mode,
    /// The order of offsets.
    pub access: Access,
    /// Bytes per request, a multiple of [`SECTOR`].
    pub block: u32,
    /// Requests in flight per connection.
    pub depth: usize,
    /// Connections, all driven by one thread.
    pub connections: usize,
    /// How long to issue requests.
    pub duration: Duration,
    /// Where on the disk, in bytes; the end is cut to the disk's size.
    pub range: std::ops::Range<u64>,
    /// Ask for structured replies.
    pub structured: bool,
    /// Compare what is read with [`crate::content`].
    pub verify: bool,
    /// Poll without sleeping: less latency, all of one core.
    pub spin: bool,
    /// Determines the offsets.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Read,
            access: Access::Random,
            block: 4096,
            depth: 32,
            connections: 1,
            duration: Duration::from_secs(1),
            range: 0..u64::MAX,
            structured: false,
            verify: false,
            spin: false,
            seed: 1,
        }
    }
}

/// Bytes in flight over all connections; more measures the generator's memory, not the server.
const IN_FLIGHT_BYTES_MAX: u64 = 256 << 20;

impl Options {
    /// Fails on a combination that cannot be run, naming the flag.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let wrong = |option, value: String, remedy: &str| {
            Err(Error::Option { option, value, remedy: remedy.to_owned() })
        };
        if self.block == 0 || !(self.block as usize).is_multiple_of(SECTOR) || self.block > 32 << 20 {
            return wrong("block", format_size(self.block.into()), "must be a multiple of 4K up to 32M");
        }
        if !(1..=4096).contains(&self.depth) {
            return wrong("depth", self.depth.to_string(), "must be 1 to 4096");
        }
        if !(1..=256).contains(&self.connections) {
            return wrong("connections", self.connections.to_string(), "must be 1 to 256");
        }
        let in_flight = u64::from(self.block) * (self.depth * self.connections) as u64;
        if in_flight > IN_FLIGHT_BYTES_MAX {
            let remedy = "block x depth x connections must not exceed 256M";
            return wrong("depth", self.depth.to_string(), remedy);
        }
        Ok(())
    }
}
