//! Reports for people.

use std::collections::BTreeSet;

use cards_config::size;
use cards_sim::Report;
use cards_sim::engine::Choice;

use crate::table::{Align, Table, count};

/// A property of a run: its name, and how it is written.
type Property = (&'static str, fn(&Report) -> String);

/// What tells runs apart, besides the trace. Where all have the same it is in the heading, else a column.
const PROPERTIES: [Property; 7] = [
    ("machine", |report| report.machine.clone()),
    ("nodes", |report| report.nodes.to_string()),
    ("block", |report| size::human(report.block_bytes.into())),
    ("replacement", |report| report.replacement.clone()),
    ("seed", |report| report.seed.to_string()),
    (POLICY, |report| report.policy.clone()),
    ("cache", |report| size::human(report.cache_bytes)),
];
/// The property that always has a column.
const POLICY: &str = "policy";
/// Columns of a terminal.
const WIDTH: usize = 100;

/// A table for each trace, and footnotes.
pub(super) fn render(reports: &[Report], remarks: &[String]) -> String {
    let mut traces: Vec<&str> = Vec::new();
    for report in reports {
        if !traces.contains(&report.trace.as_str()) {
            traces.push(&report.trace);
        }
    }
    let part = |trace: &str| {
        let rows: Vec<&Report> = reports.iter().filter(|report| report.trace == trace).collect();
        table_of(trace, &rows, remarks)
    };
    traces.into_iter().map(part).collect::<Vec<_>>().join("\n")
}

fn table_of(trace: &str, rows: &[&Report], remarks: &[String]) -> String {
    let (mut facts, mut columns): (Vec<String>, Vec<Property>) = (Vec::new(), Vec::new());
    for (name, value) in PROPERTIES {
        let values: BTreeSet<String> = rows.iter().map(|report| value(report)).collect();
        match values.first() {
            Some(only) if values.len() == 1 && name != POLICY => {
                facts.push(format!("{name} {only}"));
            }
            _ => columns.push((name, value)),
        }
    }
    facts.extend(remarks.iter().cloned());
    facts.extend(measured(rows));
    let mut headings: Vec<(&'static str, Align)> = columns
        .iter()
        .map(|(name, _)| {
            (
                *name,
                if matches!(*name, "cache" | "block" | "nodes" | "seed") {
                    Align::Right
                } else {
                    Align::Left
                },
            )
        })
        .collect();
    let right = |name| (name, Align::Right);
    headings.extend(["local", "remote", "disk", "read", "p99", "write", "moved", "disks"].map(right));
    let mut table = Table::new(&headings);
    for report in rows {
        let mut cells: Vec<String> = columns.iter().map(|(_, value)| value(report)).collect();
        let reads = report.local_hits + report.remote_hits + report.disk_reads;
        cells.extend(
            [report.local_hits, report.remote_hits, report.disk_reads].map(|part| percent(part, reads)),
        );
        let none = || "-".to_owned();
        let time = |requests: u64, us: f64| if requests == 0 { none() } else { time(us) };
        cells.push(time(report.read_requests, report.read_mean_us));
        cells.push(time(report.read_requests, report.read_p99_us));
        cells.push(time(report.write_requests, report.write_mean_us));
        cells.push(size::human(report.bytes_moved));
        cells.push(format!("{:.0} %", report.disk_busy * 100.0));
        table.row(cells);
    }
    let notes = "  local, remote, disk: where block reads were answered. read, p99, write: mean and 99th percentile\n  \
                 of a request. moved: data between nodes. disks: how busy they were.\n";
    format!(
        "{trace}\n{}\n{table}\n{notes}{}{}{}",
        wrapped(&facts),
        left_out(trace, rows),
        given_up(rows),
        chosen(rows)
    )
}

/// How much was measured, if all runs agree.
fn measured(rows: &[&Report]) -> Option<String> {
    let counts: BTreeSet<(u64, u64)> =
        rows.iter().map(|report| (report.read_requests, report.write_requests)).collect();
    match (counts.len(), counts.first()) {
        (1, Some((reads, writes))) => {
            Some(format!("measured {} reads and {} writes", count(*reads), count(*writes)))
        }
        _ => None,
    }
}

/// The modules that failed, once each.
fn given_up(rows: &[&Report]) -> String {
    let failures: BTreeSet<(&str, &str)> = rows
        .iter()
        .filter_map(|report| Some((report.policy.as_str(), report.policy_failure.as_deref()?)))
        .collect();
    failures
        .iter()
        .map(|(policy, failure)| format!("  {policy} failed, and rd went on: {failure}.\n"))
        .collect()
}

/// Policies of a run that `auto` has chosen: with many, the last ones.
const CHOICES_SHOWN: usize = 4;

/// What `auto` had in force, once for each list.
fn chosen(rows: &[&Report]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for report in rows.iter().filter(|report| !report.choices.is_empty()) {
        let after = |choice: &Choice| match choice.requests {
            0 => choice.policy.clone(),
            requests => format!("{} after {} requests", choice.policy, count(requests)),
        };
        let left_out = report.choices.len().saturating_sub(CHOICES_SHOWN);
        let mut words = vec![match left_out {
            0 => format!("auto had {}", report.choices.first().map(after).unwrap_or_default()),
            several => format!("auto had {several} others"),
        }];
        words.extend(report.choices.iter().skip(left_out.max(1)).map(after));
        let line = wrapped(&words);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

fn left_out(trace: &str, rows: &[&Report]) -> String {
    match rows.iter().map(|report| report.skipped).max() {
        Some(skipped) if skipped > 0 => format!(
            "  {} records were left out or put right; `cards trace info {trace}` tells which.\n",
            count(skipped)
        ),
        _ => String::new(),
    }
}

/// Facts with commas between them, in lines that fit.
fn wrapped(facts: &[String]) -> String {
    let mut text = String::new();
    let mut line = String::new();
    for (i, fact) in facts.iter().enumerate() {
        let fact = if i + 1 < facts.len() { format!("{fact},") } else { fact.clone() };
        if !line.is_empty() && line.len() + 1 + fact.len() > WIDTH {
            text += &format!("{line}\n");
            line.clear();
        }
        line += &format!("{}{fact}", if line.is_empty() { "  " } else { " " });
    }
    text + &line + "\n"
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        whole => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

/// A time to three digits.
fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 999.5 => (us, "us"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [0.0, 9.996, 99.96, 999.6, 12_345.0, 2e6].map(time),
            ["0.00 us", "10.0 us", "100 us", "1.00 ms", "12.3 ms", "2.00 s"]
        );
    }

    #[test]
    fn facts_are_wrapped_at_a_hundred_columns() {
        let facts: Vec<String> = (0..40).map(|i| format!("fact {i}")).collect();
        let text = wrapped(&facts);
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  fact")), "{text}");
        assert!(text.ends_with("fact 39\n") && text.lines().count() > 2);
    }
}
