//! Figures 2 to 5: throughputs and response times.

use super::{
    AGED, BATCHES, CAPS, COMPUTER, DEFAULT, DISKS, EVENT_DRIVEN, FRESH, Found, HEAVY, LIGHT, LOCAL,
    LOCAL_PAIR, NETWORK, NFS, PAIRS, SYNC, SYSTEMS, THREAD_DRIVEN, reasons,
};
use crate::chart::{Chart, Kind, Series};
use crate::figure::{Figure, Table};

/// What differs by no more is equal: two seeds do.
const EQUAL: f64 = 0.01;
/// What differs by no more does not differ visibly.
const NEAR: f64 = 0.05;
/// What differs by more differs much.
const FAR: f64 = 0.1;

/// The drivers of the paper's figures.
const DRIVERS: [usize; 2] = [THREAD_DRIVEN, EVENT_DRIVEN];
const BOTH: [usize; 2] = [FRESH, AGED];

/// By disk, then by system.
type Disks = [Vec<Found>];

/// Throughput to throughput.
fn ratio(one: Found, other: Found) -> f64 {
    one.rate / other.rate
}

fn is_better(one: Found, other: Found) -> bool {
    ratio(one, other) > 1.0 + EQUAL
}

fn is_near(one: Found, other: Found) -> bool {
    (1.0 - NEAR..=1.0 + NEAR).contains(&ratio(one, other))
}

/// Better, and visibly so.
fn is_clear(one: Found, other: Found) -> bool {
    ratio(one, other) > 1.0 + NEAR
}

fn list(ratios: impl IntoIterator<Item = f64>) -> String {
    ratios.into_iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ")
}

/// A value of all systems, by columns, as a table and a picture.
struct Panel<'a> {
    file: &'a str,
    title: &'a str,
    unit: &'static str,
    across: &'static str,
    kind: Kind,
    value: fn(&Found) -> f64,
    decimals: usize,
}

impl Panel<'_> {
    /// `rows` have names and a value for each of `columns`.
    fn show(&self, figure: &mut Figure, columns: &[&str], rows: &[(&str, Vec<Found>)]) {
        let values = |found: &[Found]| found.iter().map(self.value).collect::<Vec<f64>>();
        let mut table = Table::new(&[&[self.unit], columns].concat());
        rows.iter().for_each(|(name, found)| table.row(*name, &values(found), self.decimals));
        let series = rows.iter().enumerate();
        let chart = Chart {
            title: self.title.into(),
            across: self.across,
            up: self.unit,
            categories: columns.iter().map(|&name| name.into()).collect(),
            series: series.map(|(colour, (name, found))| Series::new(*name, colour, values(found))).collect(),
            kind: self.kind,
        };
        figure.plot(self.file, &chart);
        figure.tables.push(table);
    }
}

const RATE: Panel<'static> = Panel {
    file: "",
    title: "",
    unit: "MB/s",
    across: "documents that are not contiguous",
    kind: Kind::Bars,
    value: |found| found.rate,
    decimals: 2,
};
const RESPONSE: Panel<'static> =
    Panel { unit: "ms for a GET", value: |found| found.response, decimals: 0, ..RATE };

/// What a figure of one server shows: by system, then by disk.
fn single(name: &'static str, connections: u16, found: &Disks) -> Figure {
    let mut figure = Figure::new(name, format!("one server, {connections} connections"));
    let of_system = |(system, &(name, _)): (usize, &(&'static str, _))| {
        (name, found.iter().map(|systems| systems[system]).collect::<Vec<_>>())
    };
    let rows: Vec<_> = SYSTEMS.iter().enumerate().map(of_system).collect();
    let columns = DISKS.map(|(name, _)| name);
    let (file, title) =
        (format!("rdd-{connections}-rate.svg"), format!("Throughput, {connections} connections"));
    Panel { file: &file, title: &title, ..RATE }.show(&mut figure, &columns, &rows);
    let (file, title) =
        (format!("rdd-{connections}-response.svg"), format!("Mean response time, {connections} connections"));
    Panel { file: &file, title: &title, ..RESPONSE }.show(&mut figure, &columns, &rows);
    let busy = |disk: usize| {
        SYSTEMS
            .iter()
            .zip(&found[disk])
            .map(|((name, _), one)| format!("{name} {:.0} %", one.disk_busy * 100.0))
    };
    let busy = BOTH.map(|disk| format!("{}: {}", DISKS[disk].0, busy(disk).collect::<Vec<_>>().join(", ")));
    figure.remark = format!("Time that the disk works: {}.", busy.join("; "));
    figure
}

/// Figure 2.
pub(super) fn light(found: &Disks) -> Figure {
    let mut figure = single("Figure 2", LIGHT, found);
    let [fresh, aged] = BOTH.map(|disk| &found[disk]);
    let sensitivity = |system: usize| ratio(aged[system], fresh[system]);
    figure.judge(
        ("RDD-F2.1", "There is no significant difference between asynchronous and event-driven delivery."),
        BOTH.iter().all(|&disk| is_near(found[disk][EVENT_DRIVEN], found[disk][THREAD_DRIVEN])),
        format!(
            "event driven to asynchronous {}",
            list(BOTH.map(|disk| ratio(found[disk][EVENT_DRIVEN], found[disk][THREAD_DRIVEN])))
        ),
        "",
    );
    figure.judge(
        ("RDD-F2.2", "The local disk is worse when it is aged."),
        is_better(fresh[LOCAL], aged[LOCAL]),
        format!("aged to fresh {:.2}", sensitivity(LOCAL)),
        "",
    );
    figure.judge(
        ("RDD-F2.3", "NFS does not feel the fragmentation."),
        is_near(aged[NFS], fresh[NFS]),
        format!("aged to fresh {:.2}", sensitivity(NFS)),
        reasons::NFS_FEELS,
    );
    figure.judge(
        ("RDD-F2.4", "Nor do the remote disk drivers."),
        DRIVERS.iter().all(|&system| is_near(aged[system], fresh[system])),
        format!("aged to fresh {}", list(DRIVERS.map(sensitivity))),
        reasons::DRIVERS_FEEL,
    );
    let others = |systems: &[Found]| {
        DRIVERS.map(|driver| [LOCAL, NFS].map(|other| ratio(systems[driver], systems[other]))).concat()
    };
    figure.judge(
        ("RDD-F2.5", "On the fresh disk, that remote disk drivers do better than the local disk and NFS cannot be noticed."),
        DRIVERS.iter().all(|&driver| [LOCAL, NFS].iter().all(|&other| is_near(fresh[driver], fresh[other]))),
        format!("to local disk and NFS: asynchronous and event driven {}", list(others(fresh))),
        "",
    );
    figure.judge(
        ("RDD-F2.6", "On the aged disk it can be seen."),
        DRIVERS.iter().all(|&driver| [LOCAL, NFS].iter().all(|&other| is_clear(aged[driver], aged[other]))),
        format!("to local disk and NFS: asynchronous and event driven {}", list(others(aged))),
        reasons::NO_GAP,
    );
    figure
}

/// Figure 3.
pub(super) fn heavy(found: &Disks, light: &Disks) -> Figure {
    let mut figure = single("Figure 3", HEAVY, found);
    let [fresh, aged] = BOTH.map(|disk| &found[disk]);
    figure.judge(
        ("RDD-F3.1", "Both remote disk drivers feel the fragmentation."),
        DRIVERS.iter().all(|&system| is_clear(fresh[system], aged[system])),
        format!("aged to fresh {}", list(DRIVERS.map(|system| ratio(aged[system], fresh[system])))),
        "",
    );
    let to_thread = BOTH.map(|disk| ratio(found[disk][EVENT_DRIVEN], found[disk][THREAD_DRIVEN]));
    figure.judge(
        ("RDD-F3.2", "Event-driven delivery is clearly better than asynchronous delivery."),
        BOTH.iter().all(|&disk| is_clear(found[disk][EVENT_DRIVEN], found[disk][THREAD_DRIVEN])),
        format!("event driven to asynchronous {}", list(to_thread)),
        reasons::BATCH,
    );
    let to_local = ratio(fresh[EVENT_DRIVEN], fresh[LOCAL]);
    figure.judge(
        ("RDD-F3.3", "On the fresh disk, event-driven delivery is better than the local disk by a little."),
        is_better(fresh[EVENT_DRIVEN], fresh[LOCAL]) && is_near(fresh[EVENT_DRIVEN], fresh[LOCAL]),
        format!("{to_local:.2}"),
        reasons::NO_GAP,
    );
    let loss = |disks: &Disks| ratio(disks[AGED][LOCAL], disks[FRESH][LOCAL]);
    figure.judge(
        ("RDD-F3.4", "The local disk loses more by being aged than under the light load."),
        loss(found) < loss(light) - EQUAL,
        format!("aged to fresh {:.2}, and {:.2} with {LIGHT} connections", loss(found), loss(light)),
        reasons::SAME_LOSS,
    );
    figure.judge(
        ("RDD-F3.5", "On the aged disk both remote disk drivers are clearly better than the local disk."),
        DRIVERS.iter().all(|&driver| is_clear(aged[driver], aged[LOCAL])),
        format!(
            "asynchronous and event driven {}",
            list(DRIVERS.map(|driver| ratio(aged[driver], aged[LOCAL])))
        ),
        reasons::NO_GAP,
    );
    let rises = |systems: &[Found]| {
        is_better(systems[THREAD_DRIVEN], systems[SYNC])
            && is_better(systems[EVENT_DRIVEN], systems[THREAD_DRIVEN])
    };
    figure.judge(
        ("RDD-F3.6", "The more asynchronous, the better: synchronous, asynchronous, event driven."),
        BOTH.iter().all(|&disk| rises(&found[disk])),
        BOTH.map(|disk| {
            format!(
                "{} MB/s",
                list([SYNC, THREAD_DRIVEN, EVENT_DRIVEN].map(|system| found[disk][system].rate))
            )
        })
        .join("; "),
        "",
    );
    figure.judge(
        (
            "RDD-F3.7",
            "A synchronous model is not acceptable (section 6.1; here: clearly worse than both others).",
        ),
        BOTH.iter()
            .all(|&disk| DRIVERS.iter().all(|&driver| is_clear(found[disk][driver], found[disk][SYNC]))),
        format!(
            "to synchronous: asynchronous and event driven {}",
            list(
                BOTH.map(|disk| DRIVERS.map(|driver| ratio(found[disk][driver], found[disk][SYNC]))).concat()
            )
        ),
        "",
    );
    figure
}

fn by_count(
    name: &'static str,
    title: &str,
    file: &str,
    across: &'static str,
    columns: &[String],
    found: &Disks,
) -> Figure {
    let mut figure = Figure::new(name, format!("{title}, {HEAVY} connections"));
    let rows: Vec<_> = BOTH.map(|disk| (DISKS[disk].0, found[disk].clone())).into();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = format!("Throughput, {HEAVY} connections");
    Panel { file, title: &title, across, kind: Kind::Lines, ..RATE }.show(&mut figure, &columns, &rows);
    figure
}

/// Figure 4.
pub(super) fn caps(found: &Disks) -> Figure {
    let columns = CAPS.map(|cap| cap.to_string());
    let mut figure = by_count(
        "Figure 4",
        "event driven, by pages read ahead",
        "rdd-ahead.svg",
        "pages read ahead at most",
        &columns,
        found,
    );
    let others = || (0..CAPS.len()).filter(|&place| place != DEFAULT);
    for (disk, (id, text)) in BOTH.into_iter().zip([
        ("RDD-F4.1", "On the fresh disk 31 pages are better than any other number."),
        ("RDD-F4.2", "On the aged disk too."),
    ]) {
        let default = found[disk][DEFAULT];
        let of_default = others().map(|place| ratio(found[disk][place], default));
        figure.judge(
            (id, text),
            others().all(|place| is_better(default, found[disk][place])),
            format!("the others have {} of it", list(of_default)),
            reasons::FLAT,
        );
    }
    figure.judge(
        ("RDD-F4.3", "With any other number the aged disk is better than the fresh one."),
        others().all(|place| is_better(found[AGED][place], found[FRESH][place])),
        format!(
            "aged to fresh {}",
            list(others().map(|place| ratio(found[AGED][place], found[FRESH][place])))
        ),
        reasons::PIECES_COST,
    );
    figure
}

/// Figure 5.
pub(super) fn pairs(found: &[Found], one: &[Found]) -> Figure {
    let mut figure = Figure::new("Figure 5", format!("two servers, {HEAVY} connections"));
    let single = one[EVENT_DRIVEN];
    let names: Vec<&str> = PAIRS.iter().map(|(name, _)| *name).chain(["one server"]).collect();
    let all: Vec<Found> = found.iter().copied().chain([single]).collect();
    let panel = Panel { across: "the disk", ..RATE };
    let title = format!("Throughput of two servers, {HEAVY} connections");
    Panel { file: "rdd-two-rate.svg", title: &title, ..panel }.show(
        &mut figure,
        &names,
        &[("servers", all.clone())],
    );
    let title = format!("Mean response time of two servers, {HEAVY} connections");
    Panel { file: "rdd-two-response.svg", title: &title, across: "the disk", ..RESPONSE }.show(
        &mut figure,
        &names,
        &[("servers", all)],
    );
    let shares = found.iter().chain([&single]).map(|one| format!("{:.1} %", one.hits * 100.0));
    let reads = found.iter().chain([&single]).map(|one| one.disk_reads.to_string());
    figure.remark = format!(
        "In this order, of all blocks {} are found in a memory, and {} are read from disks.",
        shares.collect::<Vec<_>>().join(", "),
        reads.collect::<Vec<_>>().join(", ")
    );
    let [local, computer, network] = [LOCAL_PAIR, COMPUTER, NETWORK].map(|pair| found[pair]);
    let [to_computer, to_network] = [computer, network].map(|pair| ratio(pair, single));
    figure.judge(
        ("RDD-F5.1", "Two servers with a disk each are the best."),
        [computer, network].iter().all(|&pair| is_better(local, pair)),
        format!("{} MB/s", list(found.iter().map(|pair| pair.rate))),
        "",
    );
    figure.judge(
        ("RDD-F5.2", "The disk decides, not the processors: the other two do not differ much from the one server of Figure 3 (here: by a tenth)."),
        [to_computer, to_network].iter().all(|ratio| (1.0 - FAR..=1.0 + FAR).contains(ratio)),
        format!("{to_computer:.2}, {to_network:.2} of its throughput"),
        "",
    );
    figure.judge(
        ("RDD-F5.3", "Computer-attached is slightly worse than it."),
        is_better(single, computer) && to_computer >= 1.0 - FAR,
        format!("{to_computer:.3} of its throughput"),
        reasons::COMPUTER,
    );
    figure.judge(
        ("RDD-F5.4", "Network-attached is better than it."),
        is_better(network, single),
        format!("{to_network:.3} of its throughput"),
        reasons::NETWORK,
    );
    figure
}

/// Not in the paper: what the size of a batch does.
pub(super) fn batches(found: &Disks, one: &Disks) -> Figure {
    let columns = BATCHES.map(|(name, _)| name.to_owned());
    let mut figure = by_count(
        "Batches",
        "asynchronous, by blocks of a batch",
        "rdd-batches.svg",
        "blocks of a batch at most",
        &columns,
        found,
    );
    let to_event = |disk: usize| list(found[disk].iter().map(|batch| ratio(one[disk][EVENT_DRIVEN], *batch)));
    figure.remark = format!(
        "Not in the paper, which says \"a number of disk requests\". Event driven to asynchronous: {} on the fresh disk, {} on the aged one. Small batches are slower than single \
         pages: what goes on in the next batch is sorted into the middle of this one, so that the disk positions twice for a document. With a queue in \
         the order of arrival, batches of 4 have 3.01 MB/s on the fresh disk, and all that waits 3.12.",
        to_event(FRESH),
        to_event(AGED)
    );
    figure
}
