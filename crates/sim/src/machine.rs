//! How fast the parts of a machine are.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A cluster's hardware: all nodes are equal. Bandwidths are bytes per second, sizes bytes.
///
/// The costs are those of the papers' simulators: a message costs a startup, which occupies the CPUs of both
/// ends, and its bytes over the bandwidth, which occupy both links (PAFS, section 5; SIM-2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name, as given to `--machine`.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Nodes, unless a study says otherwise.
    pub nodes: u16,
    /// Cache of each node, unless a study says otherwise.
    pub cache_bytes: u64,
    /// The unit of caching, unless a study says otherwise.
    pub block_bytes: u32,
    /// Bandwidth of a copy within a node's memory.
    pub memory_bandwidth: f64,
    /// Bandwidth of a link, in each direction.
    pub network_bandwidth: f64,
    /// Time on the wire and in switches, besides startup and bandwidth.
    #[serde(with = "microseconds")]
    pub network_latency: Duration,
    /// Startup of a message to a process on the same node.
    #[serde(with = "microseconds")]
    pub local_port: Duration,
    /// Startup of a message to another node.
    #[serde(with = "microseconds")]
    pub remote_port: Duration,
    /// Startup of a copy within a node's memory.
    #[serde(with = "microseconds")]
    pub local_copy: Duration,
    /// Startup of a copy between the memories of two nodes (or of a message that carries a block).
    #[serde(with = "microseconds")]
    pub remote_copy: Duration,
    /// Work of a node for each request it serves to another, besides startups.
    #[serde(with = "microseconds")]
    pub service: Duration,
    /// Copies between network buffers and cache that each block sent to another node needs, both ends together.
    pub staging_copies: u8,
    /// Bandwidth of these copies.
    pub staging_bandwidth: f64,
    /// The disks, all equal.
    pub disk: Disk,
    /// How many there are. Blocks are striped over them, round robin.
    pub disks: u16,
    /// Where the figures come from: parameter and source.
    pub sources: Vec<(String, String)>,
}

/// How fast a disk is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Positioning before a read.
    #[serde(with = "microseconds")]
    pub read_seek: Duration,
    /// Positioning before a read of what follows the last access to this disk.
    #[serde(with = "microseconds")]
    pub sequential_seek: Duration,
    /// Positioning before a write.
    #[serde(with = "microseconds")]
    pub write_seek: Duration,
    /// Bandwidth.
    pub bandwidth: f64,
    /// Requests it works on at the same time.
    pub channels: u16,
}

/// Why a machine makes no sense.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MachineError {
    /// There is no such machine.
    #[error("unknown machine `{name}`{}: there are {known}", near.as_ref().map_or(String::new(), |n| format!(" (did you mean {n}?)")))]
    Unknown {
        /// The name given.
        name: String,
        /// The nearest name.
        near: Option<String>,
        /// All names.
        known: String,
    },
    /// A figure is out of its range.
    #[error("machine {machine}: {parameter} is {value}: want {want}")]
    Bad {
        /// The machine.
        machine: String,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        want: &'static str,
    },
    /// The file cannot be read.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Machine {
    /// Time to move so many bytes at a bandwidth.
    #[must_use]
    pub fn transfer(bytes: u64, bandwidth: f64) -> Duration {
        Duration::from_nanos((bytes as f64 / bandwidth * 1e9).round() as u64)
    }

    /// `L_copy` of PAFS, equations 1 to 6: a copy of so many bytes within a node.
    #[must_use]
    pub fn local_copy_of(&self, bytes: u64) -> Duration {
        self.local_copy + Self::transfer(bytes, self.memory_bandwidth)
    }

    /// `R_copy` of PAFS, equations 1 to 6: a copy of so many bytes from node to node.
    #[must_use]
    pub fn remote_copy_of(&self, bytes: u64) -> Duration {
        self.remote_copy + Self::transfer(bytes, self.network_bandwidth)
    }

    /// Checks that it can be built.
    ///
    /// # Errors
    /// [`MachineError::Bad`] names the parameter.
    pub fn check(&self) -> Result<(), MachineError> {
        let bad = |parameter, value: String, want| {
            Err(MachineError::Bad { machine: self.name.clone(), parameter, value, want })
        };
        for (parameter, value) in [
            ("memory_bandwidth", self.memory_bandwidth),
            ("network_bandwidth", self.network_bandwidth),
            ("staging_bandwidth", self.staging_bandwidth),
            ("disk.bandwidth", self.disk.bandwidth),
        ] {
            if !(value.is_finite() && value >= 1.0) {
                return bad(parameter, value.to_string(), "bytes per second, at least 1");
            }
        }
        if self.disks == 0 || self.disk.channels == 0 {
            return bad(
                "disks",
                format!("{} with {} channels", self.disks, self.disk.channels),
                "at least 1 each",
            );
        }
        if self.nodes == 0 || usize::from(self.nodes) > cards_core::NodeId::MAX_NODES {
            return bad("nodes", self.nodes.to_string(), "1 to 1023");
        }
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(512..=1 << 20).contains(&block) {
            return bad("block_bytes", block.to_string(), "a power of two from 512 to 1048576");
        }
        Ok(())
    }
}

/// Durations as microseconds, with fractions.
mod microseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.as_nanos() as f64 / 1e3)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let value = f64::deserialize(from)?;
        Duration::try_from_secs_f64(value / 1e6)
            .ok()
            .filter(|d| *d <= Duration::from_secs(3600))
            .ok_or_else(|| D::Error::custom(format!("{value}: want microseconds, 0 to 3.6e9")))
    }
}
