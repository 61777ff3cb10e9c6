//! Limits: how many requests and bytes per second clients may have.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Problem, duration, size};

/// The most that clients of a card, or of a node, may have of it. What is not said is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Requests per second, of any kind. Default: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes per second that are read, written or fetched ahead on demand. Default: any number.
    #[serde(with = "bytes", default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// After a pause, as much is served at once as the rates allow in this time. Default `1s`.
    #[serde(with = "duration", default = "default_burst")]
    pub burst: Duration,
}

impl Limit {
    /// Requests per second that can be asked for. The upper end is where a request costs 100 ns: finer is not counted.
    pub const IOPS: RangeInclusive<u64> = 1..=10_000_000;
    /// Bytes per second that can be asked for. At the lower end the longest request, 32 MiB, takes nine minutes.
    pub const BYTES: RangeInclusive<u64> = 64 << 10..=64 << 30;
    /// Bursts that can be asked for. Timers are a few milliseconds late, which a shorter burst would not make good.
    pub const BURST: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(1);

    /// Checks the range of each value. `key` is what the limit is called: `limit`, `attach.limit`.
    ///
    /// # Errors
    /// The first value outside its range, or that there is none.
    pub fn validate(&self, key: &str) -> Result<(), Problem> {
        let problem = |part: &str, value: String, reason: &str| Problem::Value {
            key: format!("{key}.{part}"),
            value,
            reason: reason.into(),
        };
        if let Some(iops) = self.iops.filter(|iops| !Self::IOPS.contains(iops)) {
            let reason = "use 1 to 10000000 requests per second, or leave it out for any number";
            return Err(problem("iops", iops.to_string(), reason));
        }
        if let Some(bytes) = self.bytes.filter(|bytes| !Self::BYTES.contains(bytes)) {
            let reason = "use 64K to 64G bytes per second, or leave it out for any number";
            return Err(problem("bytes", size::exact(bytes), reason));
        }
        if !Self::BURST.contains(&self.burst) {
            return Err(problem("burst", duration::exact(self.burst), "use 10ms to 1h; 1s is a good start"));
        }
        if self.iops.is_none() && self.bytes.is_none() {
            let reason = "it limits nothing: say `iops`, `bytes` or both, or leave it out";
            return Err(Problem::Value { key: key.into(), value: String::new(), reason: reason.into() });
        }
        Ok(())
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self { iops: None, bytes: None, burst: default_burst() }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(iops) = self.iops {
            write!(f, "{iops} requests/s, ")?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, "{}/s, ", size::human(bytes))?;
        }
        write!(f, "burst {}", duration::exact(self.burst))
    }
}

const fn default_burst() -> Duration {
    Duration::from_secs(1)
}

/// A size that need not be there.
mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::size;

    pub(super) fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => size::serialize(bytes, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        #[derive(Deserialize)]
        struct Size(#[serde(with = "size")] u64);
        Option::<Size>::deserialize(deserializer).map(|bytes| bytes.map(|Size(bytes)| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_is_limited() {
        let limit = Limit { iops: Some(5000), bytes: Some(200 << 20), ..Limit::default() };
        assert_eq!(limit.to_string(), "5000 requests/s, 200 MiB/s, burst 1s");
        let limit = Limit { iops: None, burst: Duration::from_millis(250), ..limit };
        assert_eq!(limit.to_string(), "200 MiB/s, burst 250ms");
    }

    #[test]
    fn the_ends_of_the_ranges_are_inside() {
        for (iops, bytes, burst) in [
            (*Limit::IOPS.start(), *Limit::BYTES.start(), *Limit::BURST.start()),
            (*Limit::IOPS.end(), *Limit::BYTES.end(), *Limit::BURST.end()),
        ] {
            Limit { iops: Some(iops), bytes: Some(bytes), burst }.validate("limit").unwrap();
        }
    }
}
