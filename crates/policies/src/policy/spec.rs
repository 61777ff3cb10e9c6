//! Names and parameters of policies as people write them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{Entry, registry};
use cards_nearest::nearest;

/// Why a policy cannot be built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyError {
    /// There is no such policy.
    UnknownPolicy {
        /// The name given.
        name: String,
    },
    /// The policy has no such parameter.
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The parameter given.
        name: String,
    },
    /// The policy is for the simulator.
    SimulatorOnly {
        /// The policy.
        policy: &'static str,
        /// What a node lacks to run it.
        lacks: &'static str,
    },
    /// The parameter cannot have this value.
    BadValue {
        /// The policy.
        policy: &'static str,
        /// Parameter and value as given.
        given: String,
        /// What it could be.
        want: &'static str,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { name } => {
                write!(f, "unknown policy `{name}`")?;
                list(f, name, registry().iter().map(|entry| entry.name))
            }
            Self::UnknownParameter { policy, name } => {
                write!(f, "policy {policy} has no parameter `{name}`")?;
                let entry = registry().iter().find(|entry| entry.name == *policy);
                list(f, name, entry.into_iter().flat_map(|e| e.parameters).map(|p| p.name))
            }
            Self::SimulatorOnly { policy, lacks } => {
                write!(
                    f,
                    "policy {policy} runs in the simulator only (`cards sim`): nodes have no {lacks} yet"
                )
            }
            Self::BadValue { policy, given, want } => {
                write!(f, "policy {policy}: `{given}`: want {want}")
            }
        }
    }
}

impl core::error::Error for PolicyError {}

/// What there is instead of `given`; the nearest name first, if one is near.
fn list(
    f: &mut fmt::Formatter<'_>,
    given: &str,
    names: impl Iterator<Item = &'static str> + Clone,
) -> fmt::Result {
    if let Some(near) = nearest(given, names.clone()) {
        write!(f, " (did you mean {near}?)")?;
    }
    f.write_str(": there are ")?;
    let mut first = true;
    for name in names {
        f.write_str(if first { "" } else { ", " })?;
        f.write_str(name)?;
        first = false;
    }
    f.write_str(if first { "none" } else { "" })
}

/// The parameters given to a policy, over its defaults.
pub struct Arguments<'a> {
    entry: &'static Entry,
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Arguments<'a> {
    pub(super) fn parse(
        entry: &'static Entry,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, PolicyError> {
        let mut given = Vec::new();
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                return Err(PolicyError::BadValue {
                    policy: entry.name,
                    given: String::from(word),
                    want: "NAME=VALUE",
                });
            };
            if entry.parameters.iter().all(|p| p.name != name) {
                return Err(PolicyError::UnknownParameter { policy: entry.name, name: String::from(name) });
            }
            given.push((name, value));
        }
        Ok(Self { entry, given })
    }

    /// Whether the parameter is written out.
    #[must_use]
    pub fn gives(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The value of a parameter: the last one given, or its default.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        if let Some(&(_, value)) = self.given.iter().rev().find(|(n, _)| *n == name) {
            return value;
        }
        self.entry.parameters.iter().find(|p| p.name == name).map_or("", |p| p.default)
    }

    /// The value of a parameter, read by `read`.
    ///
    /// # Errors
    /// If `read` gives nothing; the error says what is wanted instead.
    pub fn parse_with<T>(
        &self,
        name: &str,
        want: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, PolicyError> {
        let value = self.get(name);
        read(value).ok_or_else(|| PolicyError::BadValue {
            policy: self.entry.name,
            given: alloc::format!("{name}={value}"),
            want,
        })
    }
}
