//! What is kept of a measurement, and what it says.

use serde::Serialize;

use crate::Error;
use crate::compare::Skipped;
use crate::load::Outcome;
use crate::peers::Counters;
use crate::stats::{median, median_ratio};

/// Something that is measured once in each round.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// Its name in the table.
    pub(super) name: String,
    /// The name of the case it stands beside.
    pub(super) base: Option<String>,
    /// What should hold of it.
    pub(super) limits: Vec<Limit>,
}

/// What should hold of a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Lock messages per operation at most.
    Locks(f64),
    /// Messages per operation at most.
    Messages(f64),
    /// Operations per second as a share of the base's at least.
    Rate(f64),
    /// Server's CPU time per operation as a multiple of the base's at most.
    Cpu(f64),
    /// Blocks read from the disk per operation at most.
    DiskReads(f64),
}

/// One case in one round. Counts and times are per operation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    pub(super) iops: f64,
    pub(super) mean_us: f64,
    pub(super) cpu_us: Option<f64>,
    counts: Option<Counts>,
}

/// What all nodes together counted, per operation.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    messages: f64,
    locks: f64,
    disk_reads: f64,
    handed_over: f64,
}

impl Sample {
    /// Operations one after the other or side by side in `seconds`, `mean_us` each.
    pub(super) fn new(operations: u64, seconds: f64, mean_us: f64, cpu_ns: Option<u64>) -> Sample {
        let count = operations.max(1) as f64;
        let cpu_us = cpu_ns.map(|ns| ns as f64 / 1e3 / count);
        Sample { iops: operations as f64 / seconds.max(1e-9), mean_us, cpu_us, counts: None }
    }

    /// What a load has come to.
    pub(super) fn of(outcome: &Outcome) -> Sample {
        let cpu_ns = outcome.server_cpu_us.map(|us| (us * 1e3 * outcome.requests as f64) as u64);
        Sample::new(outcome.requests, outcome.seconds, outcome.latency.mean_us, cpu_ns)
    }

    /// With what the nodes counted before and after so many operations.
    pub(super) fn counted(mut self, operations: u64, before: &[Counters], after: &[Counters]) -> Sample {
        let per = |count: fn(Counters) -> u64| {
            let sum: u64 = after.iter().zip(before).map(|(after, before)| count(after.since(*before))).sum();
            sum as f64 / operations.max(1) as f64
        };
        self.counts = Some(Counts {
            messages: per(|c| c.messages_sent),
            locks: per(|c| c.locks_given_up + c.locks_asked),
            disk_reads: per(|c| c.disk_reads),
            handed_over: per(|c| c.handed_over),
        });
        self
    }
}

/// One case: medians over the rounds. Counts and times are per operation.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// What it stands beside.
    pub base: Option<String>,
    /// Operations per second.
    pub iops: f64,
    /// Mean time of an operation in microseconds.
    pub mean_us: f64,
    /// CPU time of all nodes in microseconds.
    pub cpu_us: Option<f64>,
    /// Messages between nodes about blocks.
    pub messages: Option<f64>,
    /// Locks given up and asked for.
    pub locks: Option<f64>,
    /// Blocks that clients got from the disk.
    pub disk_reads: Option<f64>,
    /// Blocks that readers got out of the memory of whoever wrote them.
    pub handed_over: Option<f64>,
    /// Operations per second / those of the base, in the same round.
    pub rate_ratio: Option<f64>,
    /// CPU time / that of the base, in the same round.
    pub cpu_ratio: Option<f64>,
    /// What should hold.
    pub limits: Vec<Limit>,
}

/// Something that should hold, and what was found.
#[derive(Debug, Clone, Serialize)]
pub struct Claim {
    /// Of which row.
    pub name: String,
    /// What should hold.
    pub limit: Limit,
    /// The number it is about.
    pub got: f64,
    /// Whether it does.
    pub is_met: bool,
}

/// What was measured so far.
pub(super) struct Results {
    cases: Vec<Case>,
    /// For each round, one place for each case.
    rounds: Vec<Vec<Option<Sample>>>,
    failures: Vec<Skipped>,
}

impl Results {
    pub(super) fn new(cases: &[Case]) -> Results {
        Results { cases: cases.to_vec(), rounds: Vec::new(), failures: Vec::new() }
    }

    pub(super) fn begin_round(&mut self) {
        self.rounds.push(vec![None; self.cases.len()]);
    }

    /// Keeps what a case of this round came to. If it failed, the others go on without it.
    ///
    /// # Errors
    /// What ends the whole run.
    pub(super) fn add(&mut self, name: &str, sample: Result<Sample, Error>) -> Result<(), Error> {
        match sample {
            Ok(sample) => {
                let case = self.cases.iter().position(|case| case.name == name);
                if let (Some(case), Some(round)) = (case, self.rounds.last_mut()) {
                    round[case] = Some(sample);
                }
            }
            Err(error @ (Error::Interrupted | Error::MissingTool { .. })) => return Err(error),
            Err(error) => self.failures.push(Skipped::new(name.to_owned(), &error)),
        }
        Ok(())
    }

    pub(super) fn take_failures(&mut self) -> Vec<Skipped> {
        std::mem::take(&mut self.failures)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        self.cases.iter().filter_map(|case| self.row(case)).collect()
    }

    fn of(&self, name: &str) -> Vec<Option<Sample>> {
        let index = self.cases.iter().position(|case| case.name == name);
        let samples = self.rounds.iter().map(|round| index.and_then(|index| round[index]));
        samples.collect()
    }

    /// The medians, or nothing if no round succeeded.
    fn row(&self, case: &Case) -> Option<Row> {
        let samples = self.of(&case.name);
        let middle = |value: &dyn Fn(&Sample) -> Option<f64>| {
            median(&samples.iter().flatten().filter_map(value).collect::<Vec<_>>())
        };
        let count = |value: fn(&Counts) -> f64| middle(&|sample| sample.counts.as_ref().map(value));
        let base = case.base.as_deref().map(|base| self.of(base)).unwrap_or_default();
        let ratio = |value: fn(&Sample) -> Option<f64>| {
            let values = |samples: &[Option<Sample>]| -> Vec<Option<f64>> {
                samples.iter().map(|sample| sample.as_ref().and_then(value)).collect()
            };
            median_ratio(&values(&samples), &values(&base))
        };
        Some(Row {
            name: case.name.clone(),
            base: case.base.clone(),
            iops: middle(&|sample| Some(sample.iops))?,
            mean_us: middle(&|sample| Some(sample.mean_us))?,
            cpu_us: middle(&|sample| sample.cpu_us),
            messages: count(|counts| counts.messages),
            locks: count(|counts| counts.locks),
            disk_reads: count(|counts| counts.disk_reads),
            handed_over: count(|counts| counts.handed_over),
            rate_ratio: ratio(|sample| Some(sample.iops)),
            cpu_ratio: ratio(|sample| sample.cpu_us),
            limits: case.limits.clone(),
        })
    }
}

/// What should hold of the rows, as far as it was measured.
pub(super) fn claims(rows: &[Row]) -> Vec<Claim> {
    let of_row = |row: &Row| row.limits.iter().filter_map(|&limit| claim(row, limit)).collect::<Vec<_>>();
    rows.iter().flat_map(of_row).collect()
}

fn claim(row: &Row, limit: Limit) -> Option<Claim> {
    let got = match limit {
        Limit::Locks(_) => row.locks,
        Limit::Messages(_) => row.messages,
        Limit::Rate(_) => row.rate_ratio,
        Limit::Cpu(_) => row.cpu_ratio,
        Limit::DiskReads(_) => row.disk_reads,
    }?;
    let is_met = if matches!(limit, Limit::Rate(_)) { got >= limit.number() } else { got <= limit.number() };
    Some(Claim { name: row.name.clone(), limit, got, is_met })
}

impl Limit {
    /// The number that is not to be exceeded, or to be reached.
    #[must_use]
    pub const fn number(self) -> f64 {
        match self {
            Self::Locks(number)
            | Self::Messages(number)
            | Self::Rate(number)
            | Self::Cpu(number)
            | Self::DiskReads(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, base: Option<&str>, limits: &[Limit]) -> Case {
        Case { name: name.to_owned(), base: base.map(str::to_owned), limits: limits.to_vec() }
    }

    #[test]
    fn ratios_and_limits_are_of_the_same_round() {
        let mut results = Results::new(&[
            case("reads", None, &[]),
            case("mixed", Some("reads"), &[Limit::Rate(0.8)]),
            case("never", None, &[Limit::Locks(0.0)]),
        ]);
        for (reads, mixed) in [(1000, 900), (100, 50), (2000, 1800)] {
            results.begin_round();
            results.add("reads", Ok(Sample::new(reads, 1.0, 1.0, Some(1_000_000)))).unwrap();
            results.add("mixed", Ok(Sample::new(mixed, 1.0, 1.0, Some(1_000_000)))).unwrap();
        }
        let rows = results.rows();
        assert_eq!(rows.len(), 2, "what was not measured has no row");
        assert_eq!(rows[1].rate_ratio, Some(0.9));
        let claims = claims(&rows);
        assert!(claims.len() == 1 && claims[0].is_met, "{claims:?}");
    }

    #[test]
    fn counts_are_sums_over_the_nodes_per_operation() {
        let counters =
            |messages_sent, locks_asked| Counters { messages_sent, locks_asked, ..Counters::default() };
        let (before, after) = ([counters(5, 1), counters(0, 0)], [counters(25, 1), counters(20, 10)]);
        let sample = Sample::new(10, 1.0, 1.0, None).counted(10, &before, &after);
        let counts = sample.counts.unwrap();
        assert_eq!((counts.messages, counts.locks, counts.handed_over), (4.0, 1.0, 0.0));
    }

    #[test]
    fn a_failure_leaves_the_others() {
        let mut results = Results::new(&[case("reads", None, &[])]);
        results.begin_round();
        let failed = Error::Output { tool: "cards dev", reason: "none".to_owned() };
        results.add("reads", Err(failed)).unwrap();
        assert_eq!((results.rows().len(), results.take_failures().len()), (0, 1));
        assert!(matches!(results.add("reads", Err(Error::Interrupted)), Err(Error::Interrupted)));
    }
}
