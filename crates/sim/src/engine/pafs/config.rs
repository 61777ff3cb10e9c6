//! The parameters of PAFS and PACA.

use std::time::Duration;

use cards_pafs::{Level, Repartition};
use cards_policies::policy;

use crate::setup::{Setup, SetupError};

/// Cache servers where nothing is said: as many as the paper's parallel machine has disks. The paper has no figure.
const SERVERS: u16 = 16;

/// See the registry's entries for what they mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Config {
    /// One for PACA.
    pub(super) servers: u16,
    /// Bytes of a volume that belong to one server.
    pub(super) extent: u64,
    pub(super) repartition: Repartition,
    pub(super) interval: Duration,
    pub(super) lose_percent: u8,
    pub(super) tip_percent: u8,
    pub(super) syncer: Duration,
    pub(super) level: Level,
    /// Nodes of a parity line.
    pub(super) line: u16,
    /// A block counts as written when its disk has it, not when its disk server has.
    pub(super) clean_is_written: bool,
}

impl Config {
    pub(super) fn parse(setup: &Setup) -> Result<Self, SetupError> {
        let (entry, arguments) = policy::parse(&setup.policy)?;
        let number = |name, want, low: u32, high: u32| {
            arguments.parse_with(name, want, |v| v.parse().ok().filter(|n| (low..=high).contains(n)))
        };
        let seconds = |name| {
            let seconds = number(name, "whole seconds from 1 to 3600", 1, 3600)?;
            Ok::<_, policy::PolicyError>(Duration::from_secs(seconds.into()))
        };
        let or_all = |name, want, low: u16| {
            arguments.parse_with(name, want, |v| match v {
                "all" => Some(setup.nodes),
                n => n.parse().ok().filter(|n| (low..=1023).contains(n)),
            })
        };
        let is_paca = entry.name == "paca";
        let servers = match (is_paca, arguments.gives("servers")) {
            (true, _) => 1,
            (false, true) => or_all("servers", "a number from 1 to 1023, or all", 1)?,
            (false, false) => SERVERS.min(setup.nodes),
        };
        let repartition = if is_paca {
            Repartition::Fixed
        } else {
            let want = "fixed, not-limited, limited or lazy-limited";
            arguments.parse_with("repartition", want, Repartition::parse)?
        };
        let config = Self {
            servers,
            extent: if is_paca {
                1 << 36
            } else {
                u64::from(number("extent", "MiB from 1 to 65536", 1, 65536)?) << 20
            },
            repartition,
            interval: if is_paca { Duration::from_secs(60) } else { seconds("interval")? },
            lose_percent: if is_paca { 0 } else { number("lose", "percent from 1 to 100", 1, 100)? as u8 },
            tip_percent: number("tip", "percent from 0 to 100", 0, 100)? as u8,
            syncer: seconds("syncer")?,
            level: arguments.parse_with("level", "A, B or C", Level::parse)?,
            line: or_all("line", "a number from 2 to 1023, or all", 2)?,
            clean_is_written: arguments.parse_with("clean", "sent or written", |v| match v {
                "sent" => Some(false),
                "written" => Some(true),
                _ => None,
            })?,
        };
        config.check(setup)?;
        Ok(config)
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupError> {
        let bad = |parameter, value, want| Err(SetupError::Bad { parameter, value, want });
        if self.servers > setup.nodes {
            let value = format!("{} on {} nodes", self.servers, setup.nodes);
            return bad("servers", value, "at most one cache server for each node");
        }
        if self.level != Level::A && setup.nodes < 2 {
            return bad("level", "parity on a single node".into(), "level=A, or at least 2 nodes");
        }
        Ok(())
    }
}
