//! What a replay prints.

use std::fmt;

use cards_config::size;
use cards_sim::Report;
use serde::Serialize;

use super::compare::Comparison;
use super::replayed::Replayed;
use crate::table::{Align, Table, count};

/// What is printed.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    live: Replayed,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<Report>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) comparison: Option<Comparison>,
    #[serde(skip)]
    serial: bool,
}

impl Outcome {
    /// `serial`: the counts ought to be equal.
    pub(super) fn new(live: Replayed, simulated: Option<Report>, serial: bool) -> Self {
        let comparison = simulated.as_ref().map(|simulated| Comparison::of(&live, simulated));
        Self { live, simulated, comparison, serial }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = &self.live;
        writeln!(
            f,
            "{}: {}, {}, {} nodes of {} in {} shards, blocks of {}\n",
            live.trace,
            live.policy,
            live.replacement,
            live.nodes,
            size::exact(live.cache_bytes),
            live.shards,
            size::exact(live.block_bytes)
        )?;
        match (&self.simulated, &self.comparison) {
            (Some(simulated), Some(comparison)) => {
                write!(f, "{comparison}")?;
                write!(f, "\n{}", times(live, Some(simulated)))?;
                match (self.serial, comparison.differs()) {
                    (true, true) => writeln!(f, "\nThe counts differ."),
                    (true, false) => writeln!(f, "\nAll counts are equal."),
                    (false, _) => {
                        let points = (live.global_hit_ratio - simulated.global_hit_ratio) * 100.0;
                        writeln!(f, "\nThe hit ratios differ by {:.2} points.", points.abs())
                    }
                }
            }
            _ => write!(f, "{}\n{}", counts(live), times(live, None)),
        }
    }
}

fn counts(live: &Replayed) -> Table {
    let mut table = Table::new(&[("", Align::Left), ("daemons", Align::Right)]);
    for (name, value) in live.counts() {
        table.row([name.into(), count(value)]);
    }
    table
}

fn times(live: &Replayed, simulated: Option<&Report>) -> Table {
    let right = |name| (name, Align::Right);
    let mut columns = vec![("", Align::Left), right("daemons")];
    if simulated.is_some() {
        columns.push(right("simulator"));
    }
    let mut table = Table::new(&columns);
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let us = |us: f64| format!("{us:.1}");
    let rows = [
        ("global_hit_ratio", percent(live.global_hit_ratio), simulated.map(|s| percent(s.global_hit_ratio))),
        ("read_mean_us", us(live.read_mean_us), simulated.map(|s| us(s.read_mean_us))),
        ("read_p50_us", us(live.read_p50_us), simulated.map(|s| us(s.read_p50_us))),
        ("read_p99_us", us(live.read_p99_us), simulated.map(|s| us(s.read_p99_us))),
        ("write_mean_us", us(live.write_mean_us), simulated.map(|s| us(s.write_mean_us))),
    ];
    for (name, live, simulated) in rows {
        table.row([name.to_owned(), live].into_iter().chain(simulated));
    }
    table
}
