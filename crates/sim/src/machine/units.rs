//! How figures are written in files.

use std::time::Duration;

/// The longest time that is believed.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// Durations as microseconds, with fractions.
pub(super) mod microseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in super::super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.as_nanos() as f64 / 1e3)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let value = f64::deserialize(from)?;
        Duration::try_from_secs_f64(value / 1e6)
            .ok()
            .filter(|d| *d <= super::LONGEST)
            .ok_or_else(|| D::Error::custom(format!("{value}: want microseconds, 0 to 3.6e9")))
    }
}

/// A list, or its only item.
pub(super) mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "want a number of bytes, or a list with one for each node")]
    enum OneOrMany {
        One(u64),
        Many(Vec<u64>),
    }

    pub(in super::super) fn serialize<S: Serializer>(values: &[u64], to: S) -> Result<S::Ok, S::Error> {
        match values {
            [one] => to.serialize_u64(*one),
            many => many.serialize(to),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        Ok(match OneOrMany::deserialize(from)? {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        })
    }
}

/// Pairs as a table.
pub(super) mod map {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        pairs: &[(String, String)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(pairs.iter().map(|(key, value)| (key, value)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(String, String)>, D::Error> {
        Ok(BTreeMap::deserialize(from)?.into_iter().collect())
    }
}
