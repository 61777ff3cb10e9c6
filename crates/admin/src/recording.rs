//! What clients ask for, as it is recorded.

use serde::{Deserialize, Serialize};

/// A recording has begun; it lasts as long as its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Number of this node in the list of members, from 0.
    pub node: u16,
    /// Members of the cluster.
    pub members: u16,
    /// When it began, in microseconds since 1970 (UTC): times count from here.
    pub started_us: u64,
    /// The volumes of the cluster, as far as they are known.
    #[serde(default)]
    pub volumes: Vec<RecordedVolume>,
}

/// How a volume is called in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedVolume {
    /// Its number, as in [`Demand::volume`].
    pub number: u16,
    /// Its name.
    pub name: String,
}

/// What has been recorded since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// In the order of their times but for threads: those of one data thread come before those of the next.
    pub demands: Vec<Demand>,
    /// There are more already.
    pub more: bool,
    /// Demands since the beginning that found no room, because they came faster than they were fetched.
    pub lost: u64,
    /// The time of this look, in nanoseconds since the beginning.
    pub now_ns: u64,
}

/// What a client wants. Written as `[time_ns, client, volume, kind, offset, bytes]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
pub struct Demand {
    /// When it arrived, in nanoseconds since the beginning.
    pub time_ns: u64,
    /// Its connection, counted from 0 by each node.
    pub client: u32,
    /// The volume: number of its disk at the disk node x members of the cluster + number of the disk node.
    pub volume: u16,
    /// What it does.
    pub kind: DemandKind,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub bytes: u32,
}

/// What a [`Demand`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DemandKind {
    /// Reads.
    Read,
    /// Writes, or makes the range read as zeroes.
    Write,
    /// Gives the range up.
    Trim,
    /// Makes durable what was written.
    Flush,
}

type Fields = (u64, u32, u16, DemandKind, u64, u32);

impl From<Fields> for Demand {
    fn from((time_ns, client, volume, kind, offset, bytes): Fields) -> Self {
        Self { time_ns, client, volume, kind, offset, bytes }
    }
}

impl From<Demand> for Fields {
    fn from(demand: Demand) -> Self {
        let Demand { time_ns, client, volume, kind, offset, bytes } = demand;
        (time_ns, client, volume, kind, offset, bytes)
    }
}
