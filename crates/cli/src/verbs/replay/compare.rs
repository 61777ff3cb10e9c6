//! The daemons' counts beside the simulator's.

use std::fmt;

use cards_sim::Report;
use serde::Serialize;

use super::replayed::Replayed;
use crate::table::{Align, Table, count};

/// Every count that both have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Comparison {
    #[serde(skip)]
    rows: Vec<Row>,
    /// Those that are not equal.
    differences: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: &'static str,
    live: u64,
    simulated: u64,
}

/// Counts under `more` that both have.
const MORE: [&str; 4] = ["evictions", "invalidations", "stale_hints", "stored_in_vain"];

impl Replayed {
    /// The counts that are compared, with their names.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let more = MORE.map(|name| (name, self.more.get(name).copied().unwrap_or(0)));
        [
            ("requests", self.requests),
            ("read_requests", self.read_requests),
            ("write_requests", self.write_requests),
            ("blocks", self.blocks),
            ("local_hits", self.local_hits),
            ("remote_hits", self.remote_hits),
            ("disk_reads", self.disk_reads),
            ("disk_writes", self.disk_writes),
            ("messages", self.messages),
            ("forwarded", self.forwarded),
            ("stored_for_others", self.stored_for_others),
        ]
        .into_iter()
        .chain(more)
    }
}

/// The same of the simulator, in the same order.
fn simulated(report: &Report) -> impl Iterator<Item = u64> {
    let more = MORE.map(|name| report.more.get(name).copied().unwrap_or(0));
    [
        report.requests,
        report.read_requests,
        report.write_requests,
        report.blocks,
        report.local_hits,
        report.remote_hits,
        report.disk_reads,
        report.disk_writes,
        report.messages,
        report.forwarded,
        report.stored_for_others,
    ]
    .into_iter()
    .chain(more)
}

impl Comparison {
    pub(super) fn of(live: &Replayed, report: &Report) -> Self {
        let row = |((name, live), simulated)| Row { name, live, simulated };
        let rows: Vec<Row> = live.counts().zip(simulated(report)).map(row).collect();
        let differences = rows.iter().filter(|row| row.live != row.simulated).cloned().collect();
        Self { rows, differences }
    }

    pub(super) fn differs(&self) -> bool {
        !self.differences.is_empty()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = |name| (name, Align::Right);
        let mut table =
            Table::new(&[("", Align::Left), right("daemons"), right("simulator"), right("difference")]);
        for &Row { name, live, simulated } in &self.rows {
            let difference = match live.cmp(&simulated) {
                std::cmp::Ordering::Equal => String::new(),
                std::cmp::Ordering::Greater => format!("+{}", count(live - simulated)),
                std::cmp::Ordering::Less => format!("-{}", count(simulated - live)),
            };
            table.row([name.into(), count(live), count(simulated), difference]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cards_sim::{Library, Setup};
    use cards_trace::{Options, open};

    use super::*;

    fn report() -> Report {
        let machine = Library::default().find("lan25").unwrap().clone();
        let setup = Setup { nodes: 3, cache_blocks: vec![16], ..Setup::new(machine, "hscc") };
        let spec = "gen:oltp:nodes=3,bytes=4MiB,requests=300";
        cards_sim::run(&setup, spec, &mut *open(spec, &Options::default()).unwrap(), &mut ()).unwrap()
    }

    /// What daemons would say if they did what is simulated.
    fn alike(report: &Report) -> Replayed {
        let more: BTreeMap<&'static str, u64> =
            report.more.iter().map(|(&name, &count)| (name, count)).collect();
        Replayed {
            trace: report.trace.clone(),
            policy: report.policy.clone(),
            replacement: report.replacement.clone(),
            nodes: report.nodes,
            cache_bytes: report.cache_bytes,
            block_bytes: report.block_bytes.into(),
            shards: 1,
            requests: report.requests,
            read_requests: report.read_requests,
            write_requests: report.write_requests,
            blocks: report.blocks,
            local_hits: report.local_hits,
            remote_hits: report.remote_hits,
            disk_reads: report.disk_reads,
            disk_writes: report.disk_writes,
            global_hit_ratio: report.global_hit_ratio,
            read_mean_us: 1.0,
            read_p50_us: 1.0,
            read_p99_us: 1.0,
            write_mean_us: 1.0,
            messages: report.messages,
            forwarded: report.forwarded,
            stored_for_others: report.stored_for_others,
            wall_s: 1.0,
            requests_per_s: 1.0,
            skipped: 0,
            more,
        }
    }

    #[test]
    fn equal_counts_do_not_differ() {
        let report = report();
        let comparison = Comparison::of(&alike(&report), &report);
        assert!(!comparison.differs() && report.messages > 0 && report.more["evictions"] > 0);
        assert_eq!(serde_json::to_string(&comparison).unwrap(), "{\"differences\":[]}");
    }

    #[test]
    fn every_count_is_compared_with_its_own() {
        let report = report();
        let mut live = alike(&report);
        live.messages += 2000;
        live.more.insert("evictions", 0);
        let comparison = Comparison::of(&live, &report);
        let names: Vec<&str> = comparison.differences.iter().map(|row| row.name).collect();
        assert!(comparison.differs());
        assert_eq!(names, ["messages", "evictions"]);
        let text = comparison.to_string();
        assert!(text.contains("+2 000\n"), "{text}");
        assert!(text.contains(&format!("-{}\n", count(report.more["evictions"]))), "{text}");
    }
}
