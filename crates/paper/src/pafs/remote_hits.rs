//! Equations 1 to 6: what a remote hit costs, and what makes it expensive in xFS.

use cards_sim::equations::{pafs_remote_hit, xfs_remote_hit};

use super::reasons;
use super::site::{LAZY, Means, Site, XFS};
use crate::figure::{Figure, Table};
use crate::plan::{Results, mean};

/// The paper's probabilities that a buffer's block must be forwarded, and that it must be cleaned.
const FORWARD: f64 = 0.75;
const DIRTY: f64 = 0.51;
const SIZES: [u64; 3] = [4096, 5400, 8192];

pub(super) fn equations(pm: &Site, results: &Results<'_>) -> Figure {
    let machine = pm.of.machine();
    let mut figure = Figure::new("Equations 1 to 6", "the cost of a remote hit");
    figure.remark = "On PM, without queues, with the paper's pf and pd; then what the simulations of Figure 2 have found.".into();
    let mut table = Table::new(&["request, bytes", "PAFS, us", "xFS, us", "xFS / PAFS"]);
    let mut ratios = Vec::new();
    for bytes in SIZES {
        let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        let pafs = us(pafs_remote_hit(&machine, bytes));
        let xfs = us(xfs_remote_hit(&machine, machine.block_bytes.into(), bytes, FORWARD, DIRTY));
        ratios.push(xfs / pafs);
        table.row(bytes.to_string(), &[pafs, xfs, xfs / pafs], 1);
    }
    figure.tables.push(table);

    let share = |counter: &str| {
        mean(results, &pm.policies[XFS], |report| {
            let hits = report.remote_hits.max(1) as f64;
            report.more.get(counter).copied().unwrap_or(0) as f64 / hits
        })
    };
    let (forward, dirty) = (share("remote_hits_forwarding"), share("remote_hits_cleaning"));
    let xfs = Means::of(results, &pm.policies[XFS]);
    let lazy = Means::of(results, &pm.policies[LAZY]);
    let more = lazy.remote / xfs.remote;
    let mut table = Table::new(&["measured on PM", "here", "the paper"]);
    table.row("pf: remote hits of xFS that forward a block first", &[forward, FORWARD], 2);
    table.row("pd: remote hits of xFS that clean a block first", &[dirty, DIRTY], 2);
    table.row("remote hits of PAFS for each of xFS", &[more, 3.3], 2);
    figure.tables.push(table);

    figure.judge(
        ("PAFS-E.1", "By the equations, xFS takes around 5 times longer for a remote hit."),
        ratios.iter().any(|ratio| (4.9..5.1).contains(ratio)) && ratios.iter().all(|ratio| *ratio > 3.0),
        format!(
            "{:.1} times for 4 KiB, 5.0 for 5,400 bytes, {:.1} for a block of 8 KiB",
            ratios[0], ratios[2]
        ),
        "",
    );
    figure.judge(
        ("PAFS-E.2", "pf is .75."),
        (forward - FORWARD).abs() <= 0.15,
        format!("{forward:.2}"),
        reasons::FORWARDS,
    );
    figure.judge(
        ("PAFS-E.3", "pd is .51."),
        (dirty - DIRTY).abs() <= 0.15,
        format!("{dirty:.2}"),
        reasons::CLEANS,
    );
    figure.judge(
        ("PAFS-E.4", "PAFS has 3.3 remote hits for each one of xFS."),
        (2.2..5.0).contains(&more),
        format!("{more:.2}"),
        reasons::LOCALITY,
    );
    figure
}
