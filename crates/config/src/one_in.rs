//! A share of all requests: `"1/1000"`, the number 1000 for the same, or 0 for none. For `#[serde(with)]`.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserializer, Serializer};

/// Writes the share.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(one_in: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    match one_in {
        0 => serializer.serialize_u32(0),
        one_in => serializer.collect_str(&format_args!("1/{one_in}")),
    }
}

/// Reads a share.
///
/// # Errors
/// It is none.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    deserializer.deserialize_any(OneIn)
}

struct OneIn;

impl Visitor<'_> for OneIn {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one in how many, such as \"1/1000\" (at most 1/4294967295), or 0 for none")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u32, E> {
        let number = match text.split_once('/') {
            Some(("1", number)) => number.parse().ok().filter(|&number| number > 0),
            Some(_) => None,
            None => text.parse().ok(),
        };
        number.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Share {
        #[serde(with = "super")]
        share: u32,
    }

    fn parse(text: &str) -> Result<u32, String> {
        toml::from_str::<Share>(&format!("share = {text}"))
            .map(|share| share.share)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn shares_read_as_documented_and_read_back() {
        for (text, share) in
            [("0", 0), ("1", 1), ("1000", 1000), ("\"1/1000\"", 1000), ("\"0\"", 0), ("\"1/1\"", 1)]
        {
            assert_eq!(parse(text), Ok(share), "{text}");
            let written = toml::to_string(&Share { share }).unwrap();
            assert_eq!(toml::from_str::<Share>(&written).unwrap(), Share { share });
        }
        for wrong in ["-1", "\"1/0\"", "\"2/3\"", "\"\"", "\"1/\"", "\"1/x\"", "0.5", "true", "4294967296"] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("1/1000"), "{wrong}: {error}");
        }
    }
}
