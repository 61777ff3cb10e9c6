//! A study as a page of Markdown.

use std::fmt::Write as _;

use crate::figure::{Figure, Plot, Statement, Table};
use crate::study::Findings;

/// The page; pictures are in the folder `plots` beside it.
pub(crate) fn render(findings: &Findings) -> String {
    let mut page = format!("# {}\n\n", findings.title);
    for paragraph in &findings.introduction {
        put(&mut page, format_args!("{paragraph}\n\n"));
    }
    put(&mut page, format_args!("## What holds\n\n"));
    let (holding, all) = findings.score();
    put(&mut page, format_args!("{holding} of {all} statements of the paper hold.\n\n"));
    verdicts(&mut page, findings.figures.iter().flat_map(|figure| &figure.statements));
    findings.figures.iter().for_each(|figure| section(&mut page, figure));
    page
}

fn section(page: &mut String, figure: &Figure) {
    put(page, format_args!("\n## {}: {}\n", figure.name, figure.title));
    if !figure.remark.is_empty() {
        put(page, format_args!("\n{}\n", figure.remark));
    }
    for Plot { file, title, .. } in &figure.plots {
        put(page, format_args!("\n![{title}](plots/{file})\n"));
    }
    figure.tables.iter().for_each(|one| table(page, one));
    if !figure.statements.is_empty() {
        page.push('\n');
    }
    for Statement { id, text, found, holds, because } in &figure.statements {
        let verdict = if *holds { "Holds" } else { "Differs" };
        put(page, format_args!("- **{id}** {text} **{verdict}**: {found}."));
        if let Some(because) = because {
            put(page, format_args!(" *Because* {because}"));
        }
        page.push('\n');
    }
}

fn table(page: &mut String, table: &Table) {
    put(page, format_args!("\n| {} |\n|---|", table.columns.join(" | ")));
    page.push_str(&"---:|".repeat(table.columns.len().saturating_sub(1)));
    page.push('\n');
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
        put(page, format_args!("| {} |\n", cells.join(" | ")));
    }
}

fn verdicts<'a>(page: &mut String, statements: impl Iterator<Item = &'a Statement>) {
    put(page, format_args!("| | the paper | here |\n|---|---|---|\n"));
    for Statement { id, text, holds, .. } in statements {
        let verdict = if *holds { "holds" } else { "**differs**" };
        put(page, format_args!("| {id} | {text} | {verdict} |\n"));
    }
}

fn put(page: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(what);
}
