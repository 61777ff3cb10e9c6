//! The policies of cooperative caching, by name: what a policy is, [`cards_core::policy`] says.
//!
//! To add a policy: one file here, one line in [`registry`].

mod auto;
mod central;
mod chaos;
mod comparators;
mod demote;
mod directory;
mod early;
mod gms;
mod greedy;
mod hdc;
mod hints;
mod hosted;
mod hscc;
mod local;
mod nchance;
mod rd;
mod single;
mod single_copy;
mod spec;
mod typical;
mod words;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use cards_core::policy::Policy;

pub use auto::{NAME as AUTO, START, is_auto};
pub use spec::{Arguments, PolicyError};

/// What the registry knows of a policy.
pub struct Entry {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its full name.
    pub title: &'static str,
    /// Where it was published, with the section.
    pub paper: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// When not to use it.
    pub when_not: &'static str,
    build: Build,
}

type Builder = fn(&mut Arguments<'_>) -> Result<Box<dyn Policy>, PolicyError>;

/// Who can run a policy.
#[derive(Clone, Copy)]
enum Build {
    /// Every driver of a [`cards_core::Shard`]: the daemon, the simulator, the checker.
    Shard(Builder),
    /// The simulator alone: a node lacks this.
    Simulator { lacks: &'static str },
}

impl Entry {
    /// What a node lacks to run the policy; none if it can.
    #[must_use]
    pub const fn lacks(&self) -> Option<&'static str> {
        match self.build {
            Build::Shard(_) => None,
            Build::Simulator { lacks } => Some(lacks),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// What it means, and its range.
    pub meaning: &'static str,
}

/// All policies.
#[must_use]
pub const fn registry() -> &'static [Entry] {
    &[
        rd::ENTRY,
        greedy::ENTRY,
        central::ENTRY,
        hdc::ENTRY,
        hscc::ENTRY,
        nchance::ENTRY,
        hints::ENTRY,
        gms::ENTRY,
        demote::ENTRY,
        single::ENTRY,
        local::ENTRY,
        auto::ENTRY,
        chaos::ENTRY,
        single_copy::PAFS,
        single_copy::PACA,
        comparators::XFS,
        comparators::GLRU,
        comparators::WLRU,
        comparators::OPT,
    ]
}

/// The policy that a spec names, and the parameters it gives: `hscc depth=2 load=free`.
///
/// # Errors
/// An unknown policy or parameter; the error names it, the nearest and what there is. (Values are checked by
/// whoever uses them.)
pub fn parse(spec: &str) -> Result<(&'static Entry, Arguments<'_>), PolicyError> {
    let mut words = spec.split_whitespace();
    let name = words.next().unwrap_or_default();
    let entry = registry()
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| PolicyError::UnknownPolicy { name: String::from(name) })?;
    Ok((entry, Arguments::parse(entry, words)?))
}

/// Builds a policy from its name and parameters.
///
/// # Errors
/// As [`parse`]; an unknown value; a policy that nodes cannot run yet.
pub fn build(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    let (entry, mut arguments) = parse(spec)?;
    match entry.build {
        Build::Shard(build) => build(&mut arguments),
        Build::Simulator { lacks } => Err(PolicyError::SimulatorOnly { policy: entry.name, lacks }),
    }
}

/// Parameters that the release before this one does not know. With their defaults they are not written out, so that its nodes can
/// attach volumes of nodes that do.
const LATER: [(&str, &str); 3] = [("hscc", "homes"), ("hscc", "ask"), ("single", "answers")];

/// The spec with its parameters written out, except those that the release before does not know and that have their defaults: two specs mean the same policy if and only if this is equal.
///
/// # Errors
/// As [`build`].
pub fn normalize(spec: &str) -> Result<String, PolicyError> {
    let (entry, mut arguments) = parse(spec)?;
    if let Build::Shard(build) = entry.build {
        build(&mut arguments)?;
    }
    let mut full = String::from(entry.name);
    for parameter in entry.parameters {
        let value = arguments.get(parameter.name);
        if value == parameter.default && LATER.contains(&(entry.name, parameter.name)) {
            continue;
        }
        full.push(' ');
        full.push_str(parameter.name);
        full.push('=');
        full.push_str(value);
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_policy_builds_with_its_defaults() {
        for entry in registry() {
            assert_eq!(build(entry.name).is_ok(), entry.lacks().is_none(), "{}", entry.name);
            assert!(normalize(entry.name).is_ok(), "{}", entry.name);
        }
    }

    #[test]
    fn a_spec_is_written_out() {
        assert_eq!(normalize("rd").unwrap(), "rd");
        assert_eq!(normalize("hscc depth=3").unwrap(), "hscc depth=3 load=free room=free");
    }

    #[test]
    fn what_the_release_before_does_not_know_is_not_written_out_with_its_default() {
        assert_eq!(normalize("single").unwrap(), "single admit=2 ask=measured weigh=age");
        assert_eq!(normalize("single answers=2").unwrap(), "single admit=2 answers=2 ask=measured weigh=age");
    }

    #[test]
    fn errors_name_the_thing_and_what_there_is() {
        let error = |spec| build(spec).err().unwrap().to_string();
        assert!(error("sieve").starts_with("unknown policy `sieve`: there are rd, "));
        assert!(error("hsc").starts_with("unknown policy `hsc` (did you mean hscc?): there are rd, "));
        assert_eq!(
            error("hscc dept=2"),
            "policy hscc has no parameter `dept` (did you mean depth?): there are depth, load, room, homes, ask"
        );
        assert_eq!(error("rd depth=2"), "policy rd has no parameter `depth`: there are none");
        assert_eq!(error("hscc depth=9"), "policy hscc: `depth=9`: want a number from 0 to 8");
        assert_eq!(error("hscc depth"), "policy hscc: `depth`: want NAME=VALUE");
    }
}
