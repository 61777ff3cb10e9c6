//! The replacement's name, for `#[serde(with)]`.

use cards_policies::Replacement;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes the name.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(replacement: &Replacement, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(replacement.name())
}

/// Reads a name.
///
/// # Errors
/// There is no such replacement.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Replacement, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(de::Error::custom)
}
