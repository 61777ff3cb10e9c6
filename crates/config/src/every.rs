//! A period of what is done again and again, or never: `14d`, `never`.

use std::fmt;
use std::time::Duration;

use serde::{Deserializer, Serializer, de};

use crate::duration;

/// The word for what is not done at all.
const NEVER: &str = "never";

/// For `#[serde(with)]`: a duration as [`duration::exact`] writes it, or `never`.
///
/// # Errors
/// Those of the serializer.
pub(crate) fn serialize<S: Serializer>(every: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match every {
        Some(every) => duration::serialize(every, serializer),
        None => serializer.serialize_str(NEVER),
    }
}

/// For `#[serde(with)]`: a string as [`duration::parse`] takes it, or `never`.
///
/// # Errors
/// The value is neither.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserializer.deserialize_str(EveryVisitor)
}

struct EveryVisitor;

impl de::Visitor<'_> for EveryVisitor {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a period such as \"14d\", or \"never\"")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Option<Duration>, E> {
        match value.trim() {
            NEVER => Ok(None),
            every => duration::parse(every).map(Some).map_err(E::custom),
        }
    }
}
