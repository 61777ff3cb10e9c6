//! What a study is made of, as people write it: on the command line, or in a scenario file.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::error::SimError;
use crate::complete;

/// Flags and keys of a scenario: the same names, the same values. Those with lists are combined, each with each.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    /// Trace files, or generators: gen:NAME:key=value,..; see `cards trace generators`
    #[arg(value_name = "TRACE")]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) trace: Vec<String>,

    /// Machines; see `cards sim machines` [default: lan25]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) machine: Vec<String>,

    /// Numbers of nodes [default: the machine's]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) nodes: Vec<String>,

    /// Policies with their parameters, or modules: rd,"hscc depth=3",./mine.wasm; see `cards policy list`
    /// [default: rd,hscc, as published; volumes of daemons have auto]
    #[arg(long, value_name = "LIST", value_delimiter = ',', add = complete::policies())]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) policy: Vec<String>,

    /// Caches of each node: sizes, shares of the trace's footprint (10%), or a size for each node
    /// (240M+225M+225M) [default: the machine's]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) cache: Vec<String>,

    /// Units of caching [default: the machine's]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) block: Vec<String>,

    /// Replacements: which block leaves a full cache; "arc ghosts=exact" and the like remember evicted blocks
    /// as published, not as nodes do; see `cards policy list` [default: lru]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) replacement: Vec<String>,

    /// Seeds of what is drawn at random in a policy [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) seed: Vec<String>,

    /// What is not measured: a time of the trace (15h), so many requests (1000000) or a share of the
    /// trace (30%) [default: 0]
    #[arg(long, value_name = "AMOUNT")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) warmup: Option<String>,

    /// When requests are issued: trace (at their times, or after the answer before), fast (after the
    /// answer before) or serial (one at a time) [default: trace]
    #[arg(long, value_name = "WHEN")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) timing: Option<String>,

    /// Which node does a request: as-is, client, round-robin, hash:BYTES, sessions:SECONDS,
    /// replicas:SECONDS or replicas:NUMBERr (requests) [default: as-is]
    #[arg(long, value_name = "RULE")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<String>,

    /// Requests of node i that the cluster does not have are node i modulo n's
    #[arg(long)]
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) fold: bool,

    /// Nodes that have disks, counted from 0: volume v is at node v modulo this [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) disk_nodes: Option<String>,

    /// Shards of each node [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) shards: Option<String>,

    /// policy: copies are dropped as the policy says; confirmed: before a write is answered
    /// [default: policy]
    #[arg(long, value_name = "HOW")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) coherence: Option<String>,

    /// computer: the disk node keeps copies of what others read; network: it does not
    /// [default: computer]
    #[arg(long, value_name = "HOW")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) attached: Option<String>,

    /// How blocks get their homes: rendezvous or modulo [default: rendezvous]
    #[arg(long, value_name = "HOW")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) placement: Option<String>,

    /// How far sequential reads run ahead: off, auto (up to a sixteenth of the cache) or a size
    /// [default: off]
    #[arg(long, value_name = "SIZE")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) read_ahead: Option<String>,

    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) reading: Reading,
}

/// How trace files are read.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reading {
    /// The format of trace files; see `cards trace formats` [default: found out from the content]
    #[arg(long, value_name = "NAME")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<String>,

    /// dxt: which level, posix or mpiio [default: posix]
    #[arg(long, value_name = "LEVEL")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<String>,

    /// blkparse: which events, q (queued) or d (dispatched) [default: q]
    #[arg(long, value_name = "EVENT")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,

    /// arc, oracle-general, lirs: bytes of what they count [default: 512, lirs 4096]
    #[arg(long, value_name = "SIZE")]
    #[serde(with = "text::one", skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
}

/// Whether a key of a scenario need not be written.
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Options {
    /// These, and where nothing is given, those of a scenario.
    pub(crate) fn over(self, scenario: Self) -> Self {
        let list = |given: Vec<String>, other| if given.is_empty() { other } else { given };
        let one = Option::or;
        Self {
            trace: list(self.trace, scenario.trace),
            machine: list(self.machine, scenario.machine),
            nodes: list(self.nodes, scenario.nodes),
            policy: list(self.policy, scenario.policy),
            cache: list(self.cache, scenario.cache),
            block: list(self.block, scenario.block),
            replacement: list(self.replacement, scenario.replacement),
            seed: list(self.seed, scenario.seed),
            warmup: one(self.warmup, scenario.warmup),
            timing: one(self.timing, scenario.timing),
            spread: one(self.spread, scenario.spread),
            fold: self.fold || scenario.fold,
            disk_nodes: one(self.disk_nodes, scenario.disk_nodes),
            shards: one(self.shards, scenario.shards),
            coherence: one(self.coherence, scenario.coherence),
            attached: one(self.attached, scenario.attached),
            placement: one(self.placement, scenario.placement),
            read_ahead: one(self.read_ahead, scenario.read_ahead),
            reading: Reading {
                format: one(self.reading.format, scenario.reading.format),
                level: one(self.reading.level, scenario.reading.level),
                action: one(self.reading.action, scenario.reading.action),
                unit: one(self.reading.unit, scenario.reading.unit),
            },
        }
    }
}

impl Reading {
    /// As the trace readers take it.
    pub(crate) fn options(&self) -> Result<cards_trace::Options, SimError> {
        fn parsed<T: std::str::FromStr<Err = cards_trace::TraceError> + Default>(
            text: Option<&String>,
        ) -> Result<T, SimError> {
            text.map_or_else(|| Ok(T::default()), |text| Ok(text.parse()?))
        }
        let block_bytes = match &self.unit {
            None => None,
            Some(text) => Some(super::parse::block("unit", text, 1)?),
        };
        Ok(cards_trace::Options {
            format: self.format.as_deref().map(str::parse).transpose()?,
            level: parsed(self.level.as_ref())?,
            action: parsed(self.action.as_ref())?,
            block_bytes,
        })
    }
}

/// Values of scenarios: text, or a number where people would write one.
mod text {
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "want text or a number")]
    enum Scalar {
        Text(String),
        Whole(i64),
        Real(f64),
    }

    impl From<Scalar> for String {
        fn from(scalar: Scalar) -> Self {
            match scalar {
                Scalar::Text(text) => text,
                Scalar::Whole(whole) => whole.to_string(),
                Scalar::Real(real) => real.to_string(),
            }
        }
    }

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "want text or a number, or a list of them")]
    enum OneOrMany {
        One(Scalar),
        Many(Vec<Scalar>),
    }

    pub(super) mod one {
        use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

        pub(in super::super) fn serialize<S: Serializer>(
            value: &Option<String>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            value.serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<String>, D::Error> {
            Ok(Some(super::Scalar::deserialize(from)?.into()))
        }
    }

    pub(super) mod list {
        use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

        pub(in super::super) fn serialize<S: Serializer>(
            values: &[String],
            to: S,
        ) -> Result<S::Ok, S::Error> {
            values.serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Vec<String>, D::Error> {
            Ok(match super::OneOrMany::deserialize(from)? {
                super::OneOrMany::One(one) => vec![one.into()],
                super::OneOrMany::Many(many) => many.into_iter().map(Into::into).collect(),
            })
        }
    }
}
