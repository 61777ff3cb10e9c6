//! What a study may vary.

use std::time::Duration;

use cards_policies::policy::{self, PolicyError};

/// The parameters of xFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Config {
    /// N of N-Chance: how often a singlet is forwarded without having been used.
    pub(super) chances: u8,
    /// The time between two rounds of a node's syncer.
    pub(super) syncer: Duration,
    /// Fault tolerance level B: no block leaves its writer's node before a disk server has it.
    pub(super) level_b: bool,
    /// A dirty block is safe when its disk has it; otherwise, when its disk server has it.
    pub(super) clean_is_written: bool,
}

impl Config {
    pub(super) fn parse(spec: &str) -> Result<Self, PolicyError> {
        let (_, arguments) = policy::parse(spec)?;
        let chances = arguments
            .parse_with("n", "a number from 0 to 8", |n| n.parse().ok().filter(|n| (0..=8).contains(n)))?;
        let syncer = arguments.parse_with("syncer", "seconds, 1 to 3600", |s| {
            s.parse().ok().filter(|s| (1..=3600).contains(s)).map(Duration::from_secs)
        })?;
        let level_b = arguments.parse_with("level", "A or B", |level| match level {
            "A" | "a" => Some(false),
            "B" | "b" => Some(true),
            _ => None,
        })?;
        let clean_is_written = arguments.parse_with("clean", "sent or written", |clean| match clean {
            "sent" => Some(false),
            "written" => Some(true),
            _ => None,
        })?;
        Ok(Self { chances, syncer, level_b, clean_is_written })
    }
}
