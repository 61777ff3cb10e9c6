//! Pictures of a study: hit ratio and read time against the size of the caches, or as bars if all are of one size.

mod axis;
mod bars;
mod lines;
mod svg;

use std::collections::BTreeSet;

use crate::report::Report;

pub use axis::{Axis, number};
pub use svg::{Anchor, Canvas, GRID, INK, Marker, Style, style, width_of};

/// A study to be drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    title: String,
    series: Vec<Series>,
}

/// Runs that differ in nothing but the size of the caches.
#[derive(Clone, PartialEq, Debug)]
struct Series {
    name: String,
    /// By the size of the caches.
    points: Vec<Point>,
}

/// What is drawn of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    cache_bytes: u64,
    /// Shares of the block reads, 0 to 1.
    local: f64,
    remote: f64,
    disk: f64,
    read_us: f64,
}

impl Point {
    fn hits(&self) -> f64 {
        self.local + self.remote
    }
}

/// A property of a run that tells series apart.
type Property = fn(&Report) -> String;

const PROPERTIES: [Property; 7] = [
    |report| report.policy.clone(),
    |report| report.replacement.clone(),
    |report| report.trace.clone(),
    |report| report.machine.clone(),
    |report| format!("{} nodes", report.nodes),
    |report| format!("{} blocks", axis::size(report.block_bytes.into())),
    |report| format!("seed {}", report.seed),
];

impl Plot {
    /// Of the runs of a study. What all have in common is in the title, what differs names the series.
    #[must_use]
    pub fn new(reports: &[Report]) -> Self {
        let (mut common, mut differing): (Vec<String>, Vec<Property>) = (Vec::new(), Vec::new());
        for property in PROPERTIES {
            let values: BTreeSet<String> = reports.iter().map(property).collect();
            match values.first() {
                Some(only) if values.len() == 1 => common.push(only.clone()),
                Some(_) => differing.push(property),
                None => {}
            }
        }
        let mut series: Vec<Series> = Vec::new();
        for report in reports {
            let name: Vec<String> = differing.iter().map(|property| property(report)).collect();
            let name = if name.is_empty() { report.policy.clone() } else { name.join(", ") };
            let place = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
                series.push(Series { name, points: Vec::new() });
                series.len() - 1
            });
            series[place].points.push(point(report));
        }
        series.iter_mut().for_each(|series| series.points.sort_by_key(|point| point.cache_bytes));
        Self { title: common.join(", "), series }
    }

    /// As an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let sizes: BTreeSet<u64> = self
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| point.cache_bytes))
            .collect();
        if sizes.len() > 1 { lines::draw(self, &sizes) } else { bars::draw(self) }
    }
}

fn point(report: &Report) -> Point {
    let reads = (report.local_hits + report.remote_hits + report.disk_reads).max(1) as f64;
    Point {
        cache_bytes: report.cache_bytes,
        local: report.local_hits as f64 / reads,
        remote: report.remote_hits as f64 / reads,
        disk: report.disk_reads as f64 / reads,
        read_us: report.read_mean_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(policy: &str, cache_bytes: u64, local_hits: u64) -> Report {
        Report {
            trace: "a<b>.csv".into(),
            machine: "now".into(),
            policy: policy.into(),
            replacement: "lru".into(),
            nodes: 3,
            cache_bytes,
            block_bytes: 8192,
            requests: 100,
            read_requests: 100,
            write_requests: 0,
            blocks: 100,
            local_hits,
            remote_hits: 10,
            disk_reads: 90 - local_hits,
            disk_writes: 0,
            global_hit_ratio: 0.0,
            read_mean_us: 12_000.0 - 100.0 * local_hits as f64,
            read_p50_us: 0.0,
            read_p99_us: 0.0,
            write_mean_us: 0.0,
            messages: 0,
            bytes_moved: 0,
            forwarded: 0,
            stored_for_others: 0,
            stored_by_node: Vec::new(),
            disk_busy: 0.0,
            network_busy: 0.0,
            simulated_s: 1.0,
            wall_s: 0.0,
            requests_per_s: 0.0,
            table_bytes_per_block: 0.0,
            skipped: 0,
            seed: 1,
            policy_failure: None,
            choices: Vec::new(),
            more: Default::default(),
        }
    }

    #[test]
    fn what_differs_names_the_series() {
        let plot =
            Plot::new(&[report("hscc", 2 << 20, 40), report("hscc", 1 << 20, 20), report("rd", 1 << 20, 10)]);
        assert_eq!(plot.title, "lru, a<b>.csv, now, 3 nodes, 8 KiB blocks, seed 1");
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["hscc", "rd"]);
        assert_eq!(plot.series[0].points[0].cache_bytes, 1 << 20);
        assert!((plot.series[0].points[1].hits() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn several_sizes_are_lines_and_one_is_bars() {
        let lines = Plot::new(&[report("rd", 1 << 20, 20), report("rd", 2 << 20, 40)]).to_svg();
        assert!(lines.contains("<polyline") && lines.contains("1 MiB") && lines.contains("2 MiB"));
        let bars = Plot::new(&[report("rd", 1 << 20, 20), report("hscc", 1 << 20, 40)]).to_svg();
        assert!(!bars.contains("<polyline") && bars.contains(">hscc<"));
        assert!(lines.contains("logarithmic scale"), "{lines}");
        for svg in [lines, bars, Plot::new(&[]).to_svg()] {
            assert!(!svg.contains("=\"\""), "SVG has no empty values: {svg}");
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("a<b>") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
