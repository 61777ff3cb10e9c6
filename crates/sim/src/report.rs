//! What a run has found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::Choice;

/// One row. The names are an interface: `docs/reference/sim.md` says what each means. Times are simulated unless the name begins
/// with `wall`; counts are those after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The trace, as given.
    pub trace: String,
    /// The machine's name.
    pub machine: String,
    /// The policy with its parameters, as given.
    pub policy: String,
    /// The replacement, as given.
    pub replacement: String,
    /// Members of the cluster.
    pub nodes: u16,
    /// Cache of one node in bytes (the first, if they differ).
    pub cache_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Requests of any kind.
    pub requests: u64,
    /// Requests that read.
    pub read_requests: u64,
    /// Requests that write.
    pub write_requests: u64,
    /// Blocks read and written.
    pub blocks: u64,
    /// Block reads answered from the reader's own node.
    pub local_hits: u64,
    /// Block reads answered from another node's memory.
    pub remote_hits: u64,
    /// Block reads answered from a disk.
    pub disk_reads: u64,
    /// Blocks written to disks.
    pub disk_writes: u64,
    /// `(local_hits + remote_hits) / (local_hits + remote_hits + disk_reads)`; 0 without reads.
    pub global_hit_ratio: f64,
    /// Mean time of a read request in microseconds.
    pub read_mean_us: f64,
    /// Its median.
    pub read_p50_us: f64,
    /// Its 99th percentile.
    pub read_p99_us: f64,
    /// Mean time of a write request in microseconds.
    pub write_mean_us: f64,
    /// Messages between nodes.
    pub messages: u64,
    /// Bytes of data between nodes.
    pub bytes_moved: u64,
    /// Evicted blocks sent to another node.
    pub forwarded: u64,
    /// Evicted blocks that other nodes took in.
    pub stored_for_others: u64,
    /// Of these, those of each node; empty for systems without nodes of their own. Not part of the output.
    #[serde(skip)]
    pub stored_by_node: Vec<u64>,
    /// Share of the time that disks worked, all together.
    pub disk_busy: f64,
    /// Share of the time that links worked, all together.
    pub network_busy: f64,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// Real seconds that the run took, warm-up included.
    pub wall_s: f64,
    /// Block requests simulated per real second, warm-up included.
    pub requests_per_s: f64,
    /// Bytes of all tables per cached block at the end.
    pub table_bytes_per_block: f64,
    /// Records of the trace that were left out.
    pub skipped: u64,
    /// The seed.
    pub seed: u64,
    /// Why a node did without the module that is the policy, and had `rd`; none if all had it to the end.
    pub policy_failure: Option<String>,
    /// What `auto` has had in force, in order; empty with other policies.
    pub choices: Vec<Choice>,
    /// Further counters, in blocks: see [`crate::engine::Counts`].
    pub more: BTreeMap<&'static str, u64>,
}
