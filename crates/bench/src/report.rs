//! Tables for people, and the verdict against the aims.

use std::fmt::Write;

use crate::compare::{BASE, CellResult, Comparison, Row};
use crate::peers::Peer;
use crate::size::{format_count, format_rate};
use crate::suite::Client;

/// How tables are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Aligned columns.
    Plain,
    /// Pipes, for documents.
    Markdown,
}

/// Draws a table; the first column is left-aligned, the others right-aligned.
pub fn table(head: &[&str], rows: &[Vec<String>], style: Style) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: &[&str]| {
        let aligned = cells.iter().zip(&widths).enumerate().map(|(index, (cell, width))| match index {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let aligned: Vec<String> = aligned.collect();
        match style {
            Style::Plain => out.push_str(format!("  {}", aligned.join("  ")).trim_end()),
            Style::Markdown => out.push_str(&format!("| {} |", aligned.join(" | "))),
        }
        out.push('\n');
    };
    line(head);
    if style == Style::Markdown {
        let rule: Vec<String> = (0..head.len()).map(|i| if i == 0 { "---" } else { "---:" }.into()).collect();
        line(&rule.iter().map(String::as_str).collect::<Vec<_>>());
    }
    for row in rows {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    out
}

/// A ratio as `1.25x`, or `-` when it is not known.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}x"))
}

/// Microseconds with as many digits as mean something.
pub fn micros(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// One cell as a table under its name.
pub fn cell(result: &CellResult, style: Style) -> String {
    let head = ["server", "IOPS", "bandwidth", "mean us", "p99 us", "CPU us/req", "IOPS ratio", "CPU ratio"];
    let row = |row: &Row| {
        vec![
            row.peer.name().to_owned(),
            format_count(row.iops),
            format_rate(row.bytes_per_s),
            micros(row.mean_us),
            micros(row.p99_us),
            row.cpu_us.map_or_else(|| "-".to_owned(), micros),
            ratio(row.iops_ratio),
            ratio(row.cpu_ratio),
        ]
    };
    let rows: Vec<Vec<String>> = result.rows.iter().map(row).collect();
    let (mark, gap) = if style == Style::Markdown { ("### ", "\n") } else { ("", "") };
    format!("{mark}{}\n{gap}{}", result.cell.name(), table(&head, &rows, style))
}

/// One thing the project set out to reach, and whether this run did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Aim {
    /// Where it was measured.
    pub cell: String,
    /// What is compared.
    pub what: &'static str,
    /// The limit.
    pub limit: f64,
    /// Whether the limit is a floor or a ceiling.
    pub at_least: bool,
    /// The measured ratio against nbdkit's memory plug-in.
    pub got: f64,
}

impl Aim {
    /// Whether it was reached.
    pub fn is_met(&self) -> bool {
        if self.at_least { self.got >= self.limit } else { self.got <= self.limit }
    }
}

/// What one node serving from its cache should reach, one connection.
pub fn aims(comparison: &Comparison) -> Vec<Aim> {
    use crate::peers::Transport::{Tcp, Unix};
    let mut aims = Vec::new();
    for result in comparison.cells.iter().filter(|result| result.cell.connections == 1) {
        let Some(row) = result.rows.iter().find(|row| row.peer == Peer::Cards) else { continue };
        let cell = result.cell;
        let mut add = |what, limit, at_least, got: Option<f64>| {
            if let Some(got) = got {
                aims.push(Aim { cell: cell.name(), what, limit, at_least, got });
            }
        };
        match (cell.load.name, cell.client, cell.transport) {
            ("4k-read-qd32", Client::Own, _) => add("CPU", 0.45, false, row.cpu_ratio),
            ("4k-read-qd32", Client::Fio, Unix) => {
                add("CPU", 0.8, false, row.cpu_ratio);
                add("IOPS", 1.2, true, row.iops_ratio);
            }
            ("4k-read-qd32", Client::Fio, Tcp) => add("CPU", 1.0, false, row.cpu_ratio),
            ("4k-read-qd1", ..) => {
                add("CPU", 1.0, false, row.cpu_ratio);
                add("IOPS", 1.0, true, row.iops_ratio);
            }
            ("128k-read-qd8", ..) => add("bandwidth", 1.3, true, row.iops_ratio),
            _ => {}
        }
    }
    aims
}

/// CARDs against one peer in one respect in one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Duel {
    /// Where it was measured.
    pub cell: String,
    /// The other server.
    pub peer: Peer,
    /// What is compared.
    pub what: &'static str,
    /// How many times better CARDs is; below 1 it loses.
    pub times: f64,
}

/// Differences smaller than this factor are noise.
const NOISE: f64 = 1.03;

/// CARDs against every peer, worst first. The floor is no peer: nothing has to beat it.
pub fn duels(comparison: &Comparison) -> Vec<Duel> {
    let mut duels = Vec::new();
    for result in &comparison.cells {
        let Some(ours) = result.rows.iter().find(|row| row.peer == Peer::Cards) else { continue };
        for theirs in result.rows.iter().filter(|row| !matches!(row.peer, Peer::Cards | Peer::Bare)) {
            let mut note =
                |what, times| duels.push(Duel { cell: result.cell.name(), peer: theirs.peer, what, times });
            note("IOPS", ours.iops / theirs.iops);
            note("p99", theirs.p99_us / ours.p99_us);
            if let (Some(ours), Some(theirs)) = (ours.cpu_us, theirs.cpu_us) {
                note("CPU", theirs / ours);
            }
        }
    }
    duels.sort_by(|a, b| a.times.total_cmp(&b.times));
    duels
}

/// Aims, losses, and what was left out.
pub fn verdict(comparison: &Comparison, style: Style) -> String {
    let mut out = String::new();
    let heading =
        |text: &str| if style == Style::Markdown { format!("### {text}\n\n") } else { format!("{text}\n") };
    let measured = comparison.cells.iter().any(|cell| cell.rows.iter().any(|row| row.peer == Peer::Cards));
    if measured {
        let row = |aim: &Aim| {
            let limit = format!("{} {:.2}x", if aim.at_least { ">=" } else { "<=" }, aim.limit);
            let state = if aim.is_met() { "met" } else { "MISSED" };
            vec![aim.cell.clone(), aim.what.to_owned(), limit, format!("{:.2}x", aim.got), state.to_owned()]
        };
        let rows: Vec<Vec<String>> = aims(comparison).iter().map(row).collect();
        out += &heading(&format!("CARDs against {}: aims", BASE.name()));
        out += &table(&["cell", "what", "aim", "got", ""], &rows, style);
        let duels = duels(comparison);
        let won = duels.iter().filter(|duel| duel.times > NOISE).count();
        let lost: Vec<&Duel> = duels.iter().filter(|duel| duel.times < 1.0 / NOISE).collect();
        out.push('\n');
        let _ = writeln!(
            out,
            "CARDs against each peer in each cell, by IOPS, p99 and CPU: better in {won}, even in {}, worse in {}.",
            duels.len() - won - lost.len(),
            lost.len()
        );
        let best = duels.iter().rev().take_while(|duel| duel.times > NOISE).take(lost.len().max(10));
        for (text, some) in [
            ("Where CARDs loses, worst first", lost.clone()),
            ("Where CARDs wins, best first", best.collect()),
        ] {
            if some.is_empty() {
                continue;
            }
            let row = |duel: &&Duel| {
                let peer = duel.peer.name().to_owned();
                vec![duel.cell.clone(), peer, duel.what.to_owned(), format!("{:.2}x", duel.times)]
            };
            out.push('\n');
            out += &heading(text);
            out += &table(
                &["cell", "against", "in", "times as good"],
                &some.iter().map(row).collect::<Vec<_>>(),
                style,
            );
        }
    } else if !comparison.cells.is_empty() {
        out += &heading("CARDs was not measured");
    }
    for skipped in &comparison.skipped {
        let _ = writeln!(out, "skipped: {}: {}", skipped.what, skipped.reason);
    }
    if !comparison.not_run.is_empty() {
        let _ = writeln!(out, "time over, not measured (--budget): {}", comparison.not_run.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Filter;

    fn comparison(cards_iops: f64, cards_cpu: f64) -> Comparison {
        let row = |peer, iops: f64, cpu: f64| Row {
            peer,
            iops,
            bytes_per_s: iops * 4096.0,
            mean_us: 10.0,
            p99_us: 20.0,
            cpu_us: Some(cpu),
            iops_ratio: Some(iops / 100.0),
            cpu_ratio: Some(cpu / 10.0),
        };
        let words = ["unix", "fio", "4k-read-qd32", "c1"].map(str::to_owned);
        let cell = Filter::new(&words).unwrap().cells()[0];
        let rows = vec![row(Peer::NbdkitMemory, 100.0, 10.0), row(Peer::Cards, cards_iops, cards_cpu)];
        Comparison { cells: vec![CellResult { cell, rows }], ..Comparison::default() }
    }

    #[test]
    fn tables_align_and_markdown_has_a_rule() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["bcd".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["n", "x"], &rows, Style::Plain), "  n     x\n  a    10\n  bcd   1\n");
        let markdown = table(&["n", "x"], &rows, Style::Markdown);
        assert!(markdown.lines().all(|line| line.starts_with("| ") && line.ends_with(" |")), "{markdown}");
        assert!(markdown.lines().nth(1).unwrap().contains("---:"));
    }

    #[test]
    fn a_win_meets_the_aims_and_loses_nowhere() {
        let text = verdict(&comparison(130.0, 7.0), Style::Plain);
        assert!(text.contains("met") && !text.contains("MISSED") && text.contains("better in 2"), "{text}");
    }

    #[test]
    fn a_loss_is_said_plainly() {
        let lost = comparison(50.0, 20.0);
        assert_eq!(duels(&lost).iter().filter(|duel| duel.times < 1.0).count(), 2);
        let text = verdict(&lost, Style::Plain);
        assert!(text.contains("MISSED") && text.contains("nbdkit-memory"), "{text}");
        assert!(text.contains("0.50x"), "{text}");
    }

    #[test]
    fn without_cards_the_verdict_says_so() {
        let mut without = comparison(1.0, 1.0);
        without.cells[0].rows.pop();
        assert!(verdict(&without, Style::Plain).contains("was not measured"));
    }
}
