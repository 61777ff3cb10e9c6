//! Policies of users, and the policies that were chosen for volumes.

use serde::{Deserialize, Serialize};

use crate::Silent;

/// Bytes of a module that one [`PolicyOrder::Part`] has at most, before they are written in base 64.
pub const MODULE_PART_BYTES: usize = 32 << 10;

/// What is to be done about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyOrder {
    /// Nothing: say what there is.
    List {},
    /// The next bytes of a module, which are kept until the end of this connection or a [`PolicyOrder::Load`].
    Part {
        /// At most [`MODULE_PART_BYTES`], in base 64.
        data: String,
    },
    /// The parts of this connection are a module, which all nodes are to have.
    Load {
        /// What people call it: the name of its file, without `.wasm`.
        name: String,
    },
    /// No node keeps the module any more. No volume may have it.
    Unload {
        /// Its digest, the beginning of that, or its name.
        module: String,
    },
    /// A volume has another policy from now on, at all nodes.
    Choose {
        /// The volume's name.
        volume: String,
        /// A policy with its parameters, or a module's digest or name; none: the one that it was made with.
        policy: Option<String>,
    },
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    /// Name of the node that says so.
    pub node: String,
    /// The modules.
    pub modules: Vec<LoadedModule>,
    /// The volumes that have another policy than the one they were made with.
    pub volumes: Vec<ChosenPolicy>,
    /// The nodes that did not hear of a change: they hear of it when they answer again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<Silent>,
}

/// A module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedModule {
    /// Its name: the SHA-256 of its bytes.
    pub digest: String,
    /// What people call it.
    pub name: String,
    /// Whether this node has it.
    pub here: bool,
}

/// A policy that was chosen for a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenPolicy {
    /// The volume's name.
    pub volume: String,
    /// The policy, or `NAME@` and the beginning of its digest for a module.
    pub policy: String,
    /// Why it has `rd` at this node instead, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What `auto` does for it, if that is its policy; `policy` is then what it has in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<Auto>,
}

/// What `auto` does for a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auto {
    /// The policy in force.
    pub in_force: String,
    /// Since when, in microseconds since 1970 (UTC). None if it is what volumes begin with.
    pub since_us: Option<u64>,
    /// Mean nanoseconds of a read, by the sample at that time, with the policy before and with this one. None if only the costs of disk and
    /// peers spoke for it, or none was chosen yet.
    pub expected_ns: Option<(u64, u64)>,
    /// The node that has chosen it.
    pub by: Option<String>,
    /// What the node that chooses knows, if it has answered.
    pub chooser: Option<Chooser>,
}

/// What the node that chooses a volume's policy knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chooser {
    /// How far it is, for people.
    pub state: String,
    /// Mean nanoseconds of a read with each candidate by the sample, the best first; empty while it learns.
    pub candidates: Vec<(String, u64)>,
    /// Reads of the sample that it has seen.
    pub reads: u64,
    /// One block in so many is in its sample.
    pub one_in: u64,
    /// Bytes of its tables.
    pub bytes: u64,
    /// What it takes of a processor, in millionths.
    pub load_ppm: u64,
}
