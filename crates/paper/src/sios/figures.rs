//! Figures 6 and 7: bandwidths by clients, and by disks.

use super::{
    ALL, ARRAYS, Bandwidths, CLIENTS, DISKS, FOUR, LAST, LOADS, MIRRORS, NFS, RAID0, SYSTEMS, reasons,
};
use crate::chart::{Chart, Kind, Series};
use crate::figure::{Figure, Table};

/// `12.3, 4.56`
pub(super) fn list(values: impl IntoIterator<Item = f64>, decimals: usize) -> String {
    values.into_iter().map(|value| format!("{value:.decimals$}")).collect::<Vec<_>>().join(", ")
}

fn column(bandwidths: &Bandwidths, system: usize) -> Vec<f64> {
    bandwidths.iter().map(|systems| systems[system]).collect()
}

/// Numbers and a picture.
fn show(
    name: &'static str,
    file: &str,
    across: &'static str,
    counts: &[u16],
    bandwidths: &Bandwidths,
    load: &str,
) -> Figure {
    let mut figure = Figure::new(name, format!("{load}, by {across}"));
    let systems = 0..bandwidths.first().map_or(0, Vec::len);
    let series = systems.map(|system| Series::new(SYSTEMS[system].name, system, column(bandwidths, system)));
    let categories: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let mut table = Table::new(
        &[&["MB/s"], categories.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat(),
    );
    let series: Vec<Series> = series.collect();
    series.iter().for_each(|one| table.row(one.name.clone(), &one.values, 2));
    let title = format!("Bandwidth of {load} by {across}");
    figure.plot(file, &Chart { title, across, up: "MB/s", categories, series, kind: Kind::Lines });
    figure.tables.push(table);
    figure
}

/// Whether none is smaller than the one before. Of different seeds, 2 % less count as no less.
fn grows(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] >= pair[0] * 0.98) && values.last() > values.first()
}

/// With twice as many clients at least half as much again. There is none for 24.
fn grows_nearly_linearly(values: &[f64]) -> bool {
    let doubled = [(0, 1), (1, 2), (2, 3), (3, LAST)];
    doubled.iter().all(|&(few, many)| values[many] >= 1.5 * values[few])
}

/// What mirrors have of RAID-0's bandwidth.
fn shares(systems: &[f64]) -> [f64; 2] {
    MIRRORS.map(|system| systems[system] / systems[RAID0])
}

fn of_arrays(bandwidths: &Bandwidths, judge: impl Fn(&[f64]) -> bool) -> bool {
    ARRAYS.iter().all(|&system| judge(&column(bandwidths, system)))
}

/// The figures at both ends, of all arrays.
fn ends(bandwidths: &Bandwidths) -> String {
    let of = |&system: &usize| {
        let values = column(bandwidths, system);
        let (first, last) = (values[0], values[values.len() - 1]);
        format!("{} from {first:.2} to {last:.2} MB/s", SYSTEMS[system].name)
    };
    ARRAYS.iter().map(of).collect::<Vec<_>>().join(", ")
}

const ALONE: &str = "A client alone finds every disk where its last read has ended, and has most of what its link carries. Of 16 clients some meet at \
    a disk, which then positions for each piece, while other disks are idle; a mirrored volume for each client keeps them apart. So 16 clients have 8 to \
    9 times what one has, and the paper's, which use a twentieth of what such disks give, perhaps 16 times.";
const LATE: &str = "A primary sends a write that another column has not confirmed for 200 ms once more, with its bytes: on links of 12.5 MB/s \
    with 16 clients that costs RAID-10 an eighth of its bandwidth (if all times of the groups are ten times as long it has 29.7 MB/s).";

/// Figure 6.
pub(super) fn by_clients(loads: &[Bandwidths]) -> Vec<Figure> {
    let show = |(name, load): (&'static str, usize)| {
        let file = ["sios-clients-read.svg", "sios-clients-write.svg", "sios-clients-small.svg"][load];
        show(name, file, "clients", &CLIENTS, &loads[load], LOADS[load].name())
    };
    let [mut read, mut write, mut small] = [("Figure 6a", 0), ("Figure 6b", 1), ("Figure 6c", 2)].map(show);
    read.remark = ALONE.into();
    write.remark = LATE.into();
    reads(&mut read, &loads[0]);
    large_writes(&mut write, &loads[1]);
    small_writes(&mut small, &loads[2]);
    vec![read, write, small]
}

fn reads(figure: &mut Figure, found: &Bandwidths) {
    let speedups = ARRAYS.map(|system| found[LAST][system] / found[0][system]);
    figure.judge(
        ("SIOS-F6a.1", "The arrays' bandwidth grows nearly linearly to 16 clients (here: twice the clients, at least 1.5 times the bandwidth)."),
        of_arrays(found, grows_nearly_linearly),
        format!("{}; 16 clients have {} times what one has", ends(found), list(speedups, 1)),
        reasons::LINEAR,
    );
    let nfs = column(found, NFS);
    let highest = nfs.iter().copied().fold(0.0, f64::max);
    figure.judge(
        ("SIOS-F6a.2", "NFS is limited, whatever the number of clients, and declines as it increases."),
        nfs.iter().all(|&one| one >= highest / 1.5) && nfs[LAST] < nfs[0],
        format!("{} MB/s", list(nfs.iter().copied(), 2)),
        "",
    );
    figure.judge(
        ("SIOS-F6a.3", "With 16 clients each array reads faster than NFS."),
        ARRAYS.iter().all(|&system| found[LAST][system] > nfs[LAST]),
        format!("{} and {:.2} MB/s", list(ARRAYS.map(|system| found[LAST][system]), 2), nfs[LAST]),
        "",
    );
}

/// What is said of large and of small writes.
fn halves(figure: &mut Figure, id: &'static str, found: &Bandwidths, because: &'static str) {
    let [raid1, raid10] = shares(&found[LAST]);
    figure.judge(
        (id, "Mirrors saturate at half of the bandwidth that there is, RAID-0's with 16 clients (here: .4 to .6 of it)."),
        [raid1, raid10].iter().all(|share| (0.4..=0.6).contains(share)),
        format!("RAID-1 has {raid1:.2} of it, RAID-10 {raid10:.2}"),
        because,
    );
}

fn large_writes(figure: &mut Figure, found: &Bandwidths) {
    halves(figure, "SIOS-F6b.1", found, "");
    figure.judge(
        ("SIOS-F6b.2", "All arrays' bandwidth increases with the clients."),
        of_arrays(found, grows),
        ends(found),
        reasons::LARGE_GROWTH,
    );
    let nfs = column(found, NFS);
    figure.judge(
        ("SIOS-F6b.3", "NFS does best with up to four clients, for its server caches, and drops with more."),
        grows_to_four(&nfs) && nfs[LAST] < 0.9 * nfs[FOUR],
        format!("{} MB/s", list(nfs.iter().copied(), 2)),
        "",
    );
}

/// As good as the best of all.
fn grows_to_four(values: &[f64]) -> bool {
    values.iter().all(|&one| one <= values[FOUR] * 1.02)
}

fn small_writes(figure: &mut Figure, found: &Bandwidths) {
    halves(figure, "SIOS-F6c.1", found, reasons::SMALL_HALF);
    figure.judge(
        ("SIOS-F6c.2", "All arrays' bandwidth increases with the clients."),
        of_arrays(found, grows),
        ends(found),
        reasons::SMALL_GROWTH,
    );
    let nfs = column(found, NFS);
    figure.judge(
        ("SIOS-F6c.3", "NFS does best with up to four clients, for its server caches, and drops with more."),
        grows_to_four(&nfs) && nfs[LAST] < 0.9 * nfs[FOUR],
        format!("{} MB/s", list(nfs.iter().copied(), 2)),
        reasons::SMALL_NFS,
    );
}

/// Figure 7.
pub(super) fn by_disks(loads: &[Bandwidths]) -> Vec<Figure> {
    let show = |(name, load): (&'static str, usize)| {
        let file = ["sios-disks-read.svg", "sios-disks-write.svg", "sios-disks-small.svg"][load];
        show(name, file, "disks", &DISKS, &loads[load], LOADS[load].name())
    };
    let [mut read, mut write, mut small] = [("Figure 7a", 0), ("Figure 7b", 1), ("Figure 7c", 2)].map(show);
    read.remark = format!("{ALL} clients.");
    for (figure, (id, found)) in [&mut read, &mut write, &mut small]
        .into_iter()
        .zip(["SIOS-F7a.1", "SIOS-F7b.1", "SIOS-F7c.1"].into_iter().zip(loads))
    {
        figure.judge(
            (id, "The bandwidth of all arrays increases with their disks."),
            of_arrays(found, grows),
            ends(found),
            "",
        );
    }
    let order = |figure: &mut Figure, id, found: &Bandwidths| {
        figure.judge(
            (id, "Mirrors write more slowly than RAID-0, however many disks there are."),
            found.iter().all(|systems| MIRRORS.iter().all(|&mirror| systems[mirror] < systems[RAID0])),
            format!("with 16 disks {} of it", list(shares(&found[found.len() - 1]), 2)),
            "",
        );
    };
    order(&mut write, "SIOS-F7b.2", &loads[1]);
    order(&mut small, "SIOS-F7c.2", &loads[2]);
    vec![read, write, small]
}
