//! Figures 2 to 9: numbers and pictures.

use super::site::{
    EXTENTS, INTERVALS, LAZY, LEVELS, Means, POLICIES, SERVER_COUNTS, SWEPT, Seeds, Site, XFS,
};
use crate::chart::{Chart, Kind, Series};
use crate::figure::{Cell, Figure, Table};
use crate::plan::Results;

/// `pm` or `now`, for the names of files.
fn short(site: &Site) -> String {
    site.of.name.to_lowercase()
}

fn bars(title: String, across: &'static str, categories: Vec<String>, means: &[Means]) -> Chart {
    Chart {
        title,
        across,
        up: "mean time, ms",
        categories,
        series: vec![
            Series::new("read", 0, means.iter().map(|m| m.read_ms).collect()),
            Series::new("write", 1, means.iter().map(|m| m.write_ms).collect()),
        ],
        kind: Kind::Bars,
    }
}

const COLUMNS: [&str; 5] = ["read, ms", "write, ms", "global hits, %", "local hits, %", "remote hits, %"];

fn row(table: &mut Table, name: impl Into<String>, means: &Means) {
    let Means { read_ms, write_ms, local, remote } = *means;
    let number = |value, decimals| Cell::Number { value, decimals };
    let cells = [
        number(read_ms, 3),
        number(write_ms, 3),
        number(means.hits(), 1),
        number(local, 1),
        number(remote, 1),
    ];
    table.rows.push(std::iter::once(Cell::Text(name.into())).chain(cells).collect());
}

fn table(name: &str) -> Table {
    let columns: Vec<&str> = std::iter::once(name).chain(COLUMNS).collect();
    Table::new(&columns)
}

/// Figures 2 and 6.
pub(super) fn policies(site: &Site, name: &'static str, results: &Results<'_>) -> Figure {
    let means = Site::means(results, &site.policies);
    let mut figure = Figure::new(name, format!("ways of repartition, {}", site.of.name));
    let names = POLICIES.map(|(name, _)| name.to_owned());
    let title = format!("Read and write times by repartition ({})", site.of.name);
    figure.plot(&format!("pafs-{}-policies.svg", short(site)), &bars(title, "system", names.into(), &means));
    let mut numbers = table("");
    for ((name, _), means) in POLICIES.iter().zip(&means) {
        row(&mut numbers, *name, means);
    }
    figure.tables.push(numbers);
    if !site.choices.is_empty() {
        figure.remark = "The second table has the mean times of reads in ms with other numbers of cache servers, and what these make of \
                         Lazy-and-limited; the third those with other extents (what belongs to one cache server, for the paper's \
                         file) and other intervals between repartitions."
            .into();
        figure.tables.push(servers(site, results));
        figure.tables.push(choices(site, results));
    }
    figure
}

/// Read times with other numbers of cache servers.
fn servers(site: &Site, results: &Results<'_>) -> Table {
    let names = POLICIES.map(|(name, _)| name);
    let more = ["lazy: write, ms", "lazy: global hits, %", "lazy: remote hits per xFS's"];
    let columns: Vec<&str> = std::iter::once("cache servers").chain(names).chain(more).collect();
    let mut table = Table::new(&columns);
    for (count, policies) in SERVER_COUNTS.iter().zip(&site.servers) {
        let means = Site::means(results, policies);
        let number = |value, decimals| Cell::Number { value, decimals };
        let mut row = vec![Cell::Text(count.to_string())];
        row.extend(means.iter().map(|means| number(means.read_ms, 3)));
        let lazy = &means[LAZY];
        row.extend([
            number(lazy.write_ms, 3),
            number(lazy.hits(), 1),
            number(lazy.remote / means[XFS].remote, 2),
        ]);
        table.rows.push(row);
    }
    table
}

/// Read times with what else the paper leaves open.
fn choices(site: &Site, results: &Results<'_>) -> Table {
    let names = POLICIES.map(|(name, _)| name);
    let columns: Vec<&str> = std::iter::once("extent, interval").chain(names).collect();
    let mut table = Table::new(&columns);
    for (extent, intervals) in EXTENTS.iter().zip(&site.choices) {
        for (interval, policies) in INTERVALS.iter().zip(intervals) {
            let times: Vec<f64> = Site::means(results, policies).iter().map(|means| means.read_ms).collect();
            table.row(format!("{extent} MiB, {interval} s"), &times, 3);
        }
    }
    table
}

/// Reads and writes of some policies over a parameter. Reads are solid, writes are broken lines.
fn lines(title: String, across: &'static str, categories: Vec<String>, points: &[Vec<Means>]) -> Chart {
    let values =
        |policy: usize, of: fn(&Means) -> f64| points.iter().map(|means| of(&means[policy])).collect();
    let mut series = Vec::new();
    for policy in SWEPT {
        series.push(Series::new(
            format!("{}, read", POLICIES[policy].0),
            policy,
            values(policy, |m| m.read_ms),
        ));
    }
    for policy in SWEPT {
        let name = format!("{}, write", POLICIES[policy].0);
        series.push(Series::dashed(name, policy, values(policy, |m| m.write_ms)));
    }
    Chart { title, across, up: "mean time, ms", categories, series, kind: Kind::Lines }
}

/// The numbers of such lines.
fn grid(
    name: &str,
    categories: &[String],
    points: &[Vec<Means>],
    of: fn(&Means) -> f64,
    decimals: usize,
) -> Table {
    let columns: Vec<&str> = std::iter::once(name).chain(SWEPT.map(|policy| POLICIES[policy].0)).collect();
    let mut table = Table::new(&columns);
    for (category, means) in categories.iter().zip(points) {
        let values = SWEPT.map(|policy| of(&means[policy]));
        table.row(category.clone(), &values, decimals);
    }
    table
}

fn sweep(
    mut figure: Figure,
    (file, title, across): (&str, String, &'static str),
    categories: &[String],
    points: &[Vec<Seeds>],
    results: &Results<'_>,
) -> Figure {
    let points: Vec<Vec<Means>> = points.iter().map(|policies| Site::means(results, policies)).collect();
    figure.plot(file, &lines(title, across, categories.to_vec(), &points));
    figure.tables.push(grid("read, ms", categories, &points, |m| m.read_ms, 3));
    figure.tables.push(grid("write, ms", categories, &points, |m| m.write_ms, 3));
    figure.tables.push(grid("global hits, %", categories, &points, Means::hits, 1));
    figure
}

/// Figures 3 and 7.
pub(super) fn bandwidth(site: &Site, name: &'static str, results: &Results<'_>) -> Figure {
    let figure = Figure::new(name, format!("bandwidth of the network, {}", site.of.name));
    let categories: Vec<String> = site.ratio_values().iter().map(ToString::to_string).collect();
    let title = format!("Times by bandwidth of the network ({})", site.of.name);
    let file = format!("pafs-{}-bandwidth.svg", short(site));
    let across = "bandwidth of memory / bandwidth of network";
    sweep(figure, (&file, title, across), &categories, &site.ratios, results)
}

/// Figures 4 and 8.
pub(super) fn caches(site: &Site, name: &'static str, results: &Results<'_>) -> Figure {
    let figure = Figure::new(name, format!("size of the caches, {}", site.of.name));
    let size = |&kib: &u64| if kib < 1024 { format!("{kib} KB") } else { format!("{} MB", kib / 1024) };
    let categories: Vec<String> = site.cache_values().iter().map(size).collect();
    let title = format!("Times by size of the caches ({})", site.of.name);
    let file = format!("pafs-{}-caches.svg", short(site));
    sweep(figure, (&file, title, "cache of each node"), &categories, &site.caches, results)
}

/// Figures 5 and 9.
pub(super) fn levels(site: &Site, name: &'static str, results: &Results<'_>) -> Figure {
    let mut figure = Figure::new(name, format!("levels of fault tolerance, {}", site.of.name));
    let mut means = Site::means(results, &site.levels);
    means.push(Means::of(results, &site.policies[XFS]));
    let mut names: Vec<String> = LEVELS.iter().map(|level| format!("PAFS, level {level}")).collect();
    names.push("xFS, level B".into());
    let mut numbers = table("");
    for (name, means) in names.iter().zip(&means) {
        row(&mut numbers, name.clone(), means);
    }
    let title = format!("Times by level of fault tolerance ({})", site.of.name);
    figure.plot(&format!("pafs-{}-levels.svg", short(site)), &bars(title, "system", names, &means));
    figure.tables.push(numbers);
    figure
}
