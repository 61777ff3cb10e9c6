//! How fast the parts of a machine are.

mod error;
mod figures;
mod library;
mod modern;
mod overlay;
mod papers;
mod units;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::MachineError;
pub use figures::Figure;
pub use library::Library;

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
    /// Cache of each node, unless a study says otherwise: one figure for all nodes, or one for each.
    #[serde(with = "units::one_or_many")]
    pub cache_bytes: Vec<u64>,
    /// The unit of caching, unless a study says otherwise.
    pub block_bytes: u32,
    /// Bandwidth of a copy within a node's memory.
    #[serde(rename = "memory_bandwidth_bytes_per_s")]
    pub memory_bandwidth: f64,
    /// Bandwidth of a link, in each direction.
    #[serde(rename = "network_bandwidth_bytes_per_s")]
    pub network_bandwidth: f64,
    /// Time on the wire and in switches, besides startup and bandwidth.
    #[serde(rename = "network_latency_us", with = "units::microseconds")]
    pub network_latency: Duration,
    /// Startup of a message to a process on the same node.
    #[serde(rename = "local_port_us", with = "units::microseconds")]
    pub local_port: Duration,
    /// Startup of a message to another node.
    #[serde(rename = "remote_port_us", with = "units::microseconds")]
    pub remote_port: Duration,
    /// Startup of a copy within a node's memory.
    #[serde(rename = "local_copy_us", with = "units::microseconds")]
    pub local_copy: Duration,
    /// Startup of a copy between the memories of two nodes (or of a message that carries a block).
    #[serde(rename = "remote_copy_us", with = "units::microseconds")]
    pub remote_copy: Duration,
    /// Blocks that follow each other are asked for, and sent, in one message of so many bytes at most, if that is at the same time. Zero: each
    /// has a message of its own.
    #[serde(default)]
    pub message_bytes: u32,
    /// Work of a node for each request it serves to another, besides startups.
    #[serde(rename = "service_us", with = "units::microseconds")]
    pub service: Duration,
    /// Copies between network buffers and cache that each block sent to another node needs, both ends together.
    pub staging_copies: u8,
    /// Bandwidth of these copies.
    #[serde(rename = "staging_bandwidth_bytes_per_s")]
    pub staging_bandwidth: f64,
    /// How many disks there are. Blocks are striped over them, round robin.
    pub disks: u16,
    /// The disks, all equal.
    pub disk: Disk,
    /// Where the figures come from: parameter, as in [`Machine::figures`], and source.
    #[serde(default, with = "units::map")]
    pub sources: Vec<(String, String)>,
}

/// More are no machine any more, and their queues would take gigabytes.
const DISKS_MAX: u16 = 4096;
const CHANNELS_MAX: u16 = 4096;

/// How fast a disk is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Positioning before a read.
    #[serde(rename = "read_seek_us", with = "units::microseconds")]
    pub read_seek: Duration,
    /// Positioning before a read of what follows the last access to this disk.
    #[serde(rename = "sequential_seek_us", with = "units::microseconds")]
    pub sequential_seek: Duration,
    /// Positioning before a write.
    #[serde(rename = "write_seek_us", with = "units::microseconds")]
    pub write_seek: Duration,
    /// Bandwidth, which its channels share.
    #[serde(rename = "bandwidth_bytes_per_s")]
    pub bandwidth: f64,
    /// Requests it works on at the same time.
    pub channels: u16,
    /// How many later requests may pass a request that waits, in a queue that sorts by place; zero: the order is that of arrival. Policies of the
    /// production core use it; the other engines have queues of their own.
    #[serde(default)]
    pub passovers: u32,
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

    /// The caches of the nodes in blocks of a size: one figure for all nodes, or one for each.
    #[must_use]
    pub fn cache_blocks(&self, block_bytes: u32) -> Vec<u32> {
        let blocks = |&bytes: &u64| u32::try_from(bytes / u64::from(block_bytes)).unwrap_or(u32::MAX);
        self.cache_bytes.iter().map(blocks).collect()
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
            ("memory_bandwidth_bytes_per_s", self.memory_bandwidth),
            ("network_bandwidth_bytes_per_s", self.network_bandwidth),
            ("staging_bandwidth_bytes_per_s", self.staging_bandwidth),
            ("disk.bandwidth_bytes_per_s", self.disk.bandwidth),
        ] {
            if !(value.is_finite() && value >= 1.0) {
                return bad(parameter, value.to_string(), "bytes per second, at least 1");
            }
        }
        if self.disks == 0 {
            return bad("disks", "0".into(), "at least 1");
        }
        if self.disk.channels == 0 || self.disk.channels > CHANNELS_MAX {
            return bad("disk.channels", self.disk.channels.to_string(), "1 to 4096");
        }
        if self.disks > DISKS_MAX {
            return bad("disks", self.disks.to_string(), "1 to 4096");
        }
        for (parameter, value) in [
            ("network_latency_us", self.network_latency),
            ("local_port_us", self.local_port),
            ("remote_port_us", self.remote_port),
            ("local_copy_us", self.local_copy),
            ("remote_copy_us", self.remote_copy),
            ("service_us", self.service),
            ("disk.read_seek_us", self.disk.read_seek),
            ("disk.sequential_seek_us", self.disk.sequential_seek),
            ("disk.write_seek_us", self.disk.write_seek),
        ] {
            if value > units::LONGEST {
                return bad(parameter, format!("{value:?}"), "microseconds, 0 to 3.6e9");
            }
        }
        if self.nodes == 0 || usize::from(self.nodes) > cards_core::NodeId::MAX_NODES {
            return bad("nodes", self.nodes.to_string(), "1 to 1023");
        }
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(512..=1 << 20).contains(&block) {
            return bad("block_bytes", block.to_string(), "a power of two from 512 to 1048576");
        }
        let too_small = self.cache_bytes.iter().find(|&&bytes| bytes < u64::from(block));
        if let Some(bytes) = too_small {
            return bad("cache_bytes", bytes.to_string(), "at least one block");
        }
        if self.cache_bytes.is_empty() || self.cache_bytes.len() > usize::from(self.nodes) {
            let value = format!("{} figures for {} nodes", self.cache_bytes.len(), self.nodes);
            return bad("cache_bytes", value, "one figure for all nodes, or one for each");
        }
        Ok(())
    }
}
