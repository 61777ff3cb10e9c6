//! The policy of a volume: a name and parameters.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use cards_policies::policy::AUTO;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Coherence;

/// Longest policy with its parameters, in bytes: it travels in every volume announcement.
const TEXT_BYTES_MAX: usize = 255;

/// A policy with its parameters: `hscc`, or `hscc depth=2 load=free`.
///
/// In `node.toml` either that string or a table, `{ name = "hscc", depth = 2 }`. Two are equal when
/// they are written the same way once parameters are sorted; [`PolicySpec::same_as`] knows the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Its name in the registry.
    pub name: String,
    /// The parameters that are given; the others have the policy's defaults.
    pub parameters: BTreeMap<String, String>,
}

/// Not a policy with parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicySpecError {
    /// There is no name.
    #[error("the policy has no name; write \"hscc\" or {{ name = \"hscc\", depth = 2 }}")]
    NoName,
    /// A parameter is no `key=value`.
    #[error("policy parameter {0:?} is not key=value; write \"hscc depth=2\"")]
    Parameter(String),
    /// A parameter is given twice.
    #[error("policy parameter {0:?} is given twice; keep one")]
    Twice(String),
    /// Too long to be announced.
    #[error("the policy with its parameters is longer than {TEXT_BYTES_MAX} bytes; shorten it")]
    TooLong,
}

impl PolicySpec {
    /// The policy `name` with default parameters.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), parameters: BTreeMap::new() }
    }

    /// What a disk has whose file does not say. Where coherence is left to the policy and somebody writes, that is `hscc`: it
    /// knows its copies, and has them dropped.
    #[must_use]
    pub fn default_of(coherence: Coherence, read_only: bool) -> Self {
        match coherence {
            Coherence::Policy if !read_only => Self::named("hscc"),
            Coherence::Policy | Coherence::Confirmed => Self::default(),
        }
    }

    /// Whether both mean the same policy: defaults may be written out or not.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        let normal = |spec: &Self| cards_policies::policy::normalize(&spec.to_string()).ok();
        self == other || normal(self).is_some_and(|spec| Some(spec) == normal(other))
    }
}

/// That of a volume of which nobody has said another: chosen by measurement while it is used.
impl Default for PolicySpec {
    fn default() -> Self {
        Self::named(AUTO)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.parameters.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

impl FromStr for PolicySpec {
    type Err = PolicySpecError;

    fn from_str(text: &str) -> Result<Self, PolicySpecError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(PolicySpecError::TooLong);
        }
        let mut words = text.split_ascii_whitespace();
        let name = words.next().filter(|word| !word.contains('=')).ok_or(PolicySpecError::NoName)?;
        let mut spec = Self::named(name);
        for word in words {
            let (key, value) = word
                .split_once('=')
                .filter(|(key, value)| !key.is_empty() && !value.is_empty())
                .ok_or_else(|| PolicySpecError::Parameter(word.into()))?;
            if spec.parameters.insert(key.into(), value.into()).is_some() {
                return Err(PolicySpecError::Twice(key.into()));
            }
        }
        Ok(spec)
    }
}

impl Serialize for PolicySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PolicySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> de::Visitor<'de> for PolicyVisitor {
    type Value = PolicySpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy such as \"hscc\" or { name = \"hscc\", depth = 2 }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PolicySpec, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<PolicySpec, A::Error> {
        let mut name = String::new();
        let mut parameters = String::new();
        while let Some((key, value)) = map.next_entry::<String, Scalar>()? {
            if key == "name" {
                name = value.0;
            } else {
                parameters += &format!(" {key}={}", value.0);
            }
        }
        // Through the string form, so that both forms obey the same rules.
        format!("{name}{parameters}").parse().map_err(de::Error::custom)
    }
}

/// A parameter's value: a string, number or boolean, kept as written.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl de::Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, number or boolean")
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar(value.into()))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted_so_that_equal_policies_compare_equal() {
        let spec: PolicySpec = "hscc load=free  depth=2".parse().unwrap();
        assert_eq!(spec.to_string(), "hscc depth=2 load=free");
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }

    #[test]
    fn a_malformed_policy_is_refused() {
        assert_eq!("".parse::<PolicySpec>(), Err(PolicySpecError::NoName));
        assert_eq!("depth=2".parse::<PolicySpec>(), Err(PolicySpecError::NoName));
        assert_eq!("hscc depth".parse::<PolicySpec>(), Err(PolicySpecError::Parameter("depth".into())));
        assert_eq!("hscc a=1 a=2".parse::<PolicySpec>(), Err(PolicySpecError::Twice("a".into())));
        assert_eq!("x".repeat(256).parse::<PolicySpec>(), Err(PolicySpecError::TooLong));
    }
}
