//! Mirrored volumes: what two copies cost, beside a plain volume in the same rounds, and how long clients wait when a node
//! fails.
//!
//! A plain cluster and a mirrored one run at the same time and are loaded in turn, so that both see the same machine. The client
//! is at node 1, which has the plain disk, or orders the writes of the mirrored volume. All daemons share one core: where
//! the processor is the limit, the second copy is seen as processor time. With a modelled disk it is not the limit.

mod bar;
mod cells;
mod failover;
mod resync;

use serde::Serialize;

use crate::compare::Effort;
use crate::peers::{ClusterOptions, Medium, Site};
use crate::report::{Style, micros, ratio, table};
use crate::size::format_rate;
use crate::{Error, interrupt};

pub use bar::Bar;
pub use cells::Row;
pub use failover::Pause;
pub use resync::Resync;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Reads and writes beside a plain volume.
    Cells,
    /// The pause when the primary is killed, and when it is stopped.
    Failover,
    /// What is copied after an absence.
    Resync,
}

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Mirrors {
    /// Reads and writes beside a plain volume.
    pub rows: Vec<Row>,
    /// The pauses.
    pub pauses: Vec<Pause>,
    /// The absences.
    pub resync: Vec<Resync>,
}

/// Measures these parts; none: all.
///
/// # Errors
/// A cluster cannot be started, a request fails, or the user asks to stop.
pub fn run(site: &Site, parts: &[Part], effort: &Effort) -> Result<Mirrors, Error> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut mirrors = Mirrors::default();
    if wanted(Part::Cells) {
        mirrors.rows = cells::run(site, effort)?;
        interrupt::check()?;
    }
    if wanted(Part::Failover) {
        mirrors.pauses = failover::run(site, effort)?;
        interrupt::check()?;
    }
    if wanted(Part::Resync) {
        mirrors.resync = resync::run(site)?;
    }
    Ok(mirrors)
}

/// Three nodes with this volume, and caches that are small beside it.
fn options(disk: Medium) -> ClusterOptions {
    ClusterOptions { read_ahead: "off".to_owned(), ..ClusterOptions::new(3, 16 << 20, 64 << 10, disk) }
}

/// What cannot be measured, and why.
const NOT_MEASURED: &str = "\
not measured: checksums on against off (a managed disk has them always), a remote hit verified against unverified (what a peer sends is
always verified; the rows of remote hits compare a mirrored volume with a plain one)";

/// The results as tables.
pub fn format(mirrors: &Mirrors, style: Style) -> String {
    let mut text = String::new();
    if !mirrors.rows.is_empty() {
        let head = ["at node 1", "plain", "mirrored", "ratio", "bar", "CPU us/req plain", "mirrored"];
        let lines: Vec<Vec<String>> = mirrors.rows.iter().map(line).collect();
        text += &table(&head, &lines, style);
        text += "\n";
    }
    if !mirrors.pauses.is_empty() {
        let head = ["pause of clients of node 3", "rounds", "median s", "longest s", "bar s"];
        let lines: Vec<Vec<String>> = mirrors.pauses.iter().map(Pause::line).collect();
        text += &table(&head, &lines, style);
        text += "\n";
    }
    mirrors.resync.iter().for_each(|resync| text += &resync.sentence());
    text + NOT_MEASURED
}

fn line(row: &Row) -> Vec<String> {
    let cpu = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
    vec![
        row.name.to_owned(),
        format_rate(row.plain.bytes_per_s),
        format_rate(row.mirrored.bytes_per_s),
        ratio(row.ratio),
        row.bar.map_or_else(|| "-".to_owned(), |bar| bar.judge(row.ratio)),
        cpu(row.plain.cpu_us),
        cpu(row.mirrored.cpu_us),
    ]
}
