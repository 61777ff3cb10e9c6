//! The cases as a table, and what should hold of them.

use super::sample::Limit;
use super::{Claim, Row, Sharing};
use crate::report::{Style, micros, ratio, table};
use crate::size::{format_count, format_size};

/// The measured rows, then the limits.
pub fn format(sharing: &Sharing, style: Style) -> String {
    let mut out = format!(
        "blocks of {}; counts, times and CPU per operation, over all nodes; ratios to the row named in the same round\n\n",
        format_size(sharing.block.into())
    );
    let head = [
        "operation",
        "ops/s",
        "mean us",
        "CPU us",
        "messages",
        "locks",
        "disk reads",
        "handed over",
        "ops ratio",
        "CPU ratio",
    ];
    let rows: Vec<Vec<String>> = sharing.rows.iter().map(line).collect();
    out += &table(&head, &rows, style);
    out += &limits(&sharing.claims, style);
    for skipped in &sharing.skipped {
        out += &format!("skipped: {}: {}\n", skipped.what, skipped.reason);
    }
    if sharing.not_run > 0 {
        out += &format!("time over, rounds not measured (--budget): {}\n", sharing.not_run);
    }
    out
}

fn line(row: &Row) -> Vec<String> {
    let dash = || "-".to_owned();
    let count = |value: Option<f64>| value.map_or_else(dash, |value| format!("{value:.3}"));
    vec![
        row.name.clone(),
        format_count(row.iops),
        micros(row.mean_us),
        row.cpu_us.map_or_else(dash, micros),
        count(row.messages),
        count(row.locks),
        count(row.disk_reads),
        count(row.handed_over),
        ratio(row.rate_ratio),
        ratio(row.cpu_ratio),
    ]
}

/// A list, one line for each limit.
fn limits(claims: &[Claim], style: Style) -> String {
    let item = match style {
        Style::Plain => "  ",
        Style::Markdown => "- ",
    };
    let mut out = "\n".to_owned();
    for claim in claims {
        let verdict = if claim.is_met { "met" } else { "missed" };
        let (what, digits) = match claim.limit {
            Limit::Locks(_) => ("locks per operation at most", 3),
            Limit::Messages(_) => ("messages per operation at most", 3),
            Limit::Rate(_) => ("of the base's throughput at least", 2),
            Limit::Cpu(_) => ("of the base's CPU time at most", 2),
            Limit::DiskReads(_) => ("disk reads per operation at most", 3),
        };
        let (got, limit) = (claim.got, claim.limit.number());
        out += &format!("{item}{verdict}: {}: {what} {limit}, here {got:.digits$}\n", claim.name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_say_whether_they_are_met() {
        let claim = |got, is_met| Claim { name: "writes".to_owned(), limit: Limit::Locks(0.0), got, is_met };
        let text = limits(&[claim(0.0, true), claim(0.5, false)], Style::Plain);
        assert!(text.contains("met: writes: locks per operation at most 0, here 0.000"), "{text}");
        assert!(text.contains("missed: writes"), "{text}");
    }
}
