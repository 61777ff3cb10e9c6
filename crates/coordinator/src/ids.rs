//! Numbers and clocks: newtypes, so that an epoch is never taken for a revision.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The version of the member set: grows by one with every change of it and never goes back. Disk managers refuse
/// writes of an older one; that, and not the lease, is what fences a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The version of the whole registry: grows by one with every change of anything in it. Renewals change nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// One life of a node, as the node counts them: every start of the daemon, and every join after the node was
/// declared dead, takes a larger one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// One registry, from its making on: another one of the same cluster's name has another. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct History(pub u128);

impl History {
    /// One that no other registry has.
    ///
    /// # Panics
    /// The system has no random numbers.
    #[must_use]
    pub fn new_id() -> Self {
        Self(random())
    }
}

/// A number that nobody has drawn before.
pub(crate) fn random() -> u128 {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    u128::from_le_bytes(bytes)
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for History {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time of day, in milliseconds since 1970 UTC. Only ever compared to find a clock that is far off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallClock(pub u64);

/// The first moment of the year 10000, in milliseconds since 1970: past it a date has no four-digit year.
const YEAR_10000_MS: u64 = 253_402_300_800_000;

impl WallClock {
    /// This machine's clock. One set to before 1970 reads 1970.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// How far apart two clocks are.
    #[must_use]
    pub const fn distance(self, other: Self) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }

    /// The time an HTTP `Date` header tells, to the second.
    #[must_use]
    pub fn from_http_date(text: &str) -> Option<Self> {
        let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok().map(Self)
    }
}

impl fmt::Display for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < YEAR_10000_MS {
            httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_millis(self.0)).fmt(f)
        } else {
            f.write_str("after the year 9999")
        }
    }
}

/// What the coordinator's clocks say when it handles a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Since the coordinator started, by a clock that nobody sets. Leases are measured with it.
    pub mono: Duration,
    /// The time of day at the coordinator.
    pub wall: WallClock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_prints_as_a_date_and_reads_back() {
        let clock = WallClock(1_700_000_000_000);
        assert_eq!(clock.to_string(), "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(WallClock::from_http_date(&clock.to_string()), Some(clock));
        assert_eq!(WallClock::from_http_date("yesterday"), None);
    }

    #[test]
    fn a_clock_of_any_value_prints() {
        assert_eq!(WallClock(u64::MAX).to_string(), "after the year 9999");
        assert_eq!(WallClock(YEAR_10000_MS - 1).to_string(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
