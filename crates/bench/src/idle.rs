//! What daemons take while nothing is asked of them: one alone, and three as a cluster, with a volume attached that no client uses.
//!
//! Processor time is that of `schedstat` of each thread, which counts nanoseconds: a process that takes 0.2 % of a core has six of the
//! 10 ms ticks of `/proc/PID/stat` in half a minute.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::mirror::Bar;
use crate::peers::{Cluster, ClusterOptions, Medium, Site};
use crate::report::{Style, table};
use crate::{Error, interrupt};

/// Sizes of the clusters.
const CLUSTERS: [usize; 2] = [1, 3];
/// Of one core, in percent.
const CPU: Bar = Bar::AtMost(0.2);
/// Beside the cache, in MiB.
const RESIDENT: Bar = Bar::AtMost(60.0);
const CACHE: u64 = 16 << 20;

/// What one daemon took.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Which of them, from 1 on. The first has the disk and, in a cluster of several, is the first that can lead the registry.
    pub node: usize,
    /// Processor time, in percent of one core.
    pub cpu_percent: f64,
    /// What that is held against.
    pub cpu_bar: Bar,
    /// Times a second that one of its threads was woken.
    pub wakeups: f64,
    /// The same of each thread, by name.
    pub threads: BTreeMap<String, f64>,
    /// Resident memory in MiB: nothing of the cache is used.
    pub resident_mib: f64,
    /// What that is held against.
    pub resident_bar: Bar,
}

/// What the kernel has counted of the threads of a daemon.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    cpu_ns: u64,
    /// By name; threads of one name together.
    wakeups: BTreeMap<String, u64>,
}

/// Measures for so long, so long after a cluster has begun.
///
/// # Errors
/// A cluster cannot be started, a daemon ends, or the user asks to stop.
pub fn run(site: &Site, settles: Duration, measured: Duration) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for nodes in CLUSTERS {
        let options = ClusterOptions::new(nodes, CACHE, 64 << 10, Medium::Plain(64 << 20));
        let cluster = Cluster::start(site, &options)?;
        interrupt::sleep(settles)?;
        let before = cluster.pids().iter().map(|pid| counts(*pid)).collect::<Result<Vec<_>, _>>()?;
        interrupt::sleep(measured)?;
        for ((node, pid), before) in (1..).zip(cluster.pids()).zip(before) {
            rows.push(row((nodes, node), *pid, &before, measured)?);
        }
    }
    Ok(rows)
}

fn row((nodes, node): (usize, usize), pid: i32, before: &Counts, measured: Duration) -> Result<Row, Error> {
    let (after, seconds) = (counts(pid)?, measured.as_secs_f64());
    let since = |(name, count): (&String, &u64)| {
        let before = before.wakeups.get(name).copied().unwrap_or_default();
        (name.clone(), count.saturating_sub(before) as f64 / seconds)
    };
    let threads: BTreeMap<String, f64> = after.wakeups.iter().map(since).collect();
    let cpu_percent = after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / seconds / 1e7;
    let resident_mib = resident_kib(pid)? as f64 / 1024.0;
    Ok(Row {
        nodes,
        node,
        cpu_percent,
        cpu_bar: CPU,
        wakeups: threads.values().sum(),
        threads,
        resident_mib,
        resident_bar: RESIDENT,
    })
}

fn counts(pid: i32) -> Result<Counts, Error> {
    let directory = format!("/proc/{pid}/task");
    let mut counts = Counts::default();
    for task in fs::read_dir(&directory).map_err(Error::io(format!("reading {directory}")))? {
        let task = task.map_err(Error::io(format!("reading {directory}")))?.path();
        let read = |file: &str| fs::read_to_string(task.join(file)).ok();
        // One that has just ended.
        let (Some(name), Some(schedule), Some(status)) = (read("comm"), read("schedstat"), read("status"))
        else {
            continue;
        };
        let first = schedule.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        counts.cpu_ns += first.unwrap_or_default();
        let woken = field(&status, "voluntary_ctxt_switches:").unwrap_or_default();
        *counts.wakeups.entry(name.trim_end().to_owned()).or_default() += woken;
    }
    Ok(counts)
}

fn resident_kib(pid: i32) -> Result<u64, Error> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).map_err(Error::io(format!("reading {path}")))?;
    field(&status, "VmRSS:")
        .ok_or_else(|| Error::Output { tool: "the kernel", reason: format!("{path} has no VmRSS") })
}

/// The number of a line that begins with `name`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The rows as a table, and what the threads of each daemon do.
pub fn render(rows: &[Row], style: Style) -> String {
    let head = ["daemon", "of a core", "bar", "wakeups/s", "MiB", "bar"];
    let name = |row: &Row| format!("{} of {}", row.node, row.nodes);
    let cells = rows.iter().map(|row| {
        vec![
            name(row),
            format!("{:.2} %", row.cpu_percent),
            row.cpu_bar.judge(Some(row.cpu_percent)),
            format!("{:.1}", row.wakeups),
            format!("{:.1}", row.resident_mib),
            row.resident_bar.judge(Some(row.resident_mib)),
        ]
    });
    let mut text = table(&head, &cells.collect::<Vec<_>>(), style);
    for row in rows {
        let mut threads: Vec<(&String, &f64)> =
            row.threads.iter().filter(|(_, rate)| **rate >= 0.05).collect();
        threads.sort_by(|a, b| b.1.total_cmp(a.1));
        let told: Vec<String> = threads.iter().map(|(name, rate)| format!("{name} {rate:.1}")).collect();
        text += &format!("\n{}: wakeups a second: {}\n", name(row), told.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts_of_this_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let counts = counts(own).unwrap();
        assert!(counts.cpu_ns > 0 && !counts.wakeups.is_empty(), "{counts:?}");
        assert!(resident_kib(own).unwrap() > 1000);
        assert_eq!(field("a: 1\nVmRSS:\t  2345 kB\n", "VmRSS:"), Some(2345));
    }
}
