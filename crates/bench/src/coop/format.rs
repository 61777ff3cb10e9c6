//! The figures as tables.

use super::{Claim, Coop, CoopRow};
use crate::report::{Style, ratio, table};

/// The measured rows, then the paper's statements.
pub fn format(coop: &Coop, style: Style) -> String {
    let mut out = format!(
        "3 nodes with {} of cache each, {} ms per disk read, read-ahead {}; shares of the blocks that node 3 reads after node 2\n\n",
        mib(coop.cache),
        coop.disk_delay_ms,
        coop.read_ahead,
    );
    out += &figures(&coop.rows, style);
    let repeated: f64 = coop.rows.iter().map(|row| row.retries).sum();
    if repeated > 0.0 {
        out += &format!(
            "\n{repeated:.0} requests were repeated for want of an answer; the times, and so figure 5, include these waits\n"
        );
    }
    out += &statements(&coop.claims, style);
    for skipped in &coop.skipped {
        out += &format!("skipped: {}: {}\n", skipped.what, skipped.reason);
    }
    if !coop.not_run.is_empty() {
        out += &format!("time over, not measured (--budget): {}\n", coop.not_run.join(", "));
    }
    out
}

fn figures(rows: &[CoopRow], style: Style) -> String {
    let head = [
        "paper's volume, here, policy",
        "hits",
        "local",
        "remote",
        "disk",
        "stored at node 3",
        "forwarded by all",
        "cold s",
        "warm s",
        "cold / rd",
        "warm / rd",
        "repeated",
    ];
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let line = |row: &CoopRow| {
        vec![
            format!("{} MB, {}, {}", row.paper_mb, mib(row.size), row.policy),
            percent(row.hits()),
            percent(row.local),
            percent(row.remote),
            percent(row.disk),
            format!("{:.0}", row.stored),
            format!("{:.0}", row.forwarded),
            format!("{:.2}", row.cold_s),
            format!("{:.2}", row.warm_s),
            ratio(row.cold_speedup),
            ratio(row.warm_speedup),
            format!("{:.0}", row.retries),
        ]
    };
    table(&head, &rows.iter().map(line).collect::<Vec<_>>(), style)
}

/// A list by policy, not a table: where a statement does not hold may be long.
fn statements(claims: &[Claim], style: Style) -> String {
    let (heading, item) = match style {
        Style::Plain => ("", "  "),
        Style::Markdown => ("### ", "- "),
    };
    let mut out = String::new();
    let mut policy = "";
    for claim in claims {
        if claim.policy != policy {
            policy = claim.policy;
            out += &format!("\n{heading}What the paper says, with {policy}\n\n");
        }
        out += &format!("{item}{:<7}  {}", claim.verdict(), claim.statement);
        if !claim.differs.is_empty() {
            out += &format!(" (not at {})", claim.differs.join(", "));
        }
        out.push('\n');
    }
    out
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_place() {
        let row = CoopRow {
            paper_mb: 741,
            size: 74 << 20,
            policy: "hscc",
            local: 0.25,
            remote: 0.5,
            disk: 0.25,
            stored: 17.0,
            forwarded: 23.0,
            cold_s: 4.0,
            warm_s: 2.0,
            cold_speedup: Some(0.99),
            warm_speedup: Some(1.98),
            retries: 3.0,
        };
        let claim =
            Claim { statement: "s", policy: "hscc", checked: 1, differs: vec!["741 MB: 1.98x".to_owned()] };
        let coop = Coop {
            cache: 24 << 20,
            disk_delay_ms: 10.0,
            read_ahead: "off".to_owned(),
            rows: vec![row],
            claims: vec![claim],
            skipped: Vec::new(),
            not_run: vec!["310 MB".to_owned()],
        };
        let text = format(&coop, Style::Markdown);
        for part in [
            "24.0 MiB",
            "read-ahead off",
            "741 MB, 74.0 MiB, hscc",
            "75.0 %",
            "50.0 %",
            " 17 ",
            " 23 ",
            "1.98x",
            "3 requests were repeated",
            "- differs  s (not at 741 MB: 1.98x)",
            "(--budget): 310 MB",
        ] {
            assert!(text.contains(part), "'{part}' is not in\n{text}");
        }
    }
}
