//! Equations 1 to 6: what a remote hit costs, and what makes it expensive in xFS.

use cards_sim::equations::{pafs_remote_hit, xfs_remote_hit};

use super::reasons;
use super::site::{LAZY, Means, Seeds, Site, TIME_BASES, XFS};
use crate::figure::{Figure, Table};
use crate::plan::{Results, mean};

/// The paper's probabilities that a buffer's block must be forwarded, and that it must be cleaned.
const FORWARD: f64 = 0.75;
const DIRTY: f64 = 0.51;
/// Requested bytes of a block; of Table 1's mean read, 32,475 bytes in 4.30 blocks, each has [`MEAN`].
const SIZES: [u64; 4] = [4096, 5400, 7552, 8192];
const MEAN: usize = 2;
const FORWARDING: &str = "remote_hits_forwarding";
const CLEANING: &str = "remote_hits_cleaning";

/// How pd hangs on the time base.
fn time_bases(pm: &Site, share: &impl Fn(&Seeds, &str) -> f64) -> Table {
    let mut table = Table::new(&["xFS on PM", "pf", "pd"]);
    for ((name, ..), runs) in TIME_BASES.iter().zip(&pm.times) {
        table.row(*name, &[share(runs, FORWARDING), share(runs, CLEANING)], 2);
    }
    table
}

pub(super) fn equations(pm: &Site, results: &Results<'_>) -> Figure {
    let machine = pm.of.machine();
    let mut figure = Figure::new("Equations 1 to 6", "the cost of a remote hit");
    figure.remark = "On PM, without queues, with the paper's pf and pd, by the bytes requested of a block (7,552 of each in Table 1's mean read); then what \
                     the simulations of Figure 2 have found; then pf and pd of xFS with other time bases.".into();
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

    let share = |runs: &Seeds, counter: &str| {
        mean(results, runs, |report| {
            let hits = report.remote_hits.max(1) as f64;
            report.more.get(counter).copied().unwrap_or(0) as f64 / hits
        })
    };
    let xfs_runs = &pm.policies[XFS];
    let (forward, dirty) = (share(xfs_runs, FORWARDING), share(xfs_runs, CLEANING));
    let xfs = Means::of(results, &pm.policies[XFS]);
    let lazy = Means::of(results, &pm.policies[LAZY]);
    let more = lazy.remote / xfs.remote;
    let mut table = Table::new(&["measured on PM", "here", "the paper"]);
    table.row("pf: remote hits of xFS that forward a block first", &[forward, FORWARD], 2);
    table.row("pd: remote hits of xFS that clean a block first", &[dirty, DIRTY], 2);
    table.row("remote hits of PAFS for each of xFS", &[more, 3.3], 2);
    figure.tables.push(table);
    if !pm.times.is_empty() {
        figure.tables.push(time_bases(pm, &share));
    }

    figure.judge(
        ("PAFS-E.1", "By the equations, xFS takes around 5 times longer for a remote hit."),
        (4.0..6.0).contains(&ratios[MEAN]),
        format!(
            "{:.1} times for a block of the mean read, {:.1} for 4 KiB, {:.1} for a whole block",
            ratios[MEAN],
            ratios[0],
            ratios[SIZES.len() - 1]
        ),
        reasons::EQUATIONS,
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
