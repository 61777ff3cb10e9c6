//! Figure 5: how long the scans took.

use super::{HDC, HSCC, Load, PAPERS, POLICIES};
use crate::chart::{Chart, Kind, Series};
use crate::figure::{Figure, Table};
use crate::plan::{Results, Run};

/// Speed-ups over the remote disk, by load.
struct Speedups {
    cold: Vec<f64>,
    warm: Vec<f64>,
}

impl Speedups {
    fn of(loads: &[Load], results: &Results<'_>, policy: usize) -> Self {
        let speedup =
            |load: &Load, run: Run| results[load.remote_disk].simulated_s / results[run].simulated_s;
        Self {
            cold: loads.iter().map(|load| speedup(load, load.cold[policy])).collect(),
            warm: loads.iter().map(|load| speedup(load, load.warm[policy])).collect(),
        }
    }
}

/// `1.54, 1.40, ...`
fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(", ")
}

pub(super) fn run_times(loads: &[Load], results: &Results<'_>) -> Figure {
    let mut figure = Figure::new("Figure 5", "run times on a remote disk, a cold CARD and a warm CARD");
    for policy in PAPERS {
        let name = POLICIES[policy].0;
        let series = |(i, load): (usize, &Load)| {
            let seconds = [load.remote_disk, load.cold[policy], load.warm[policy]];
            Series::new(format!("{} MB", load.mb), i, seconds.map(|run| results[run].simulated_s).into())
        };
        let chart = Chart {
            title: format!("Run time with {name}"),
            across: "device",
            up: "seconds",
            categories: ["remote disk", "cold CARD", "warm CARD"].map(String::from).into(),
            series: loads.iter().enumerate().map(series).collect(),
            kind: Kind::Lines,
        };
        figure.plot(&format!("cards-times-{}.svg", name.to_lowercase()), &chart);
    }
    let mut table = Table::new(&["run time, s", "310 MB", "420 MB", "490 MB", "571 MB", "681 MB", "741 MB"]);
    let seconds = |run: fn(&Load, usize) -> Run, policy| -> Vec<f64> {
        loads.iter().map(|load| results[run(load, policy)].simulated_s).collect()
    };
    table.row("remote disk", &seconds(|load, _| load.remote_disk, 0), 1);
    for (policy, (name, _)) in POLICIES.iter().enumerate() {
        table.row(format!("{name}, cold"), &seconds(|load, policy| load.cold[policy], policy), 1);
        table.row(format!("{name}, warm"), &seconds(|load, policy| load.warm[policy], policy), 1);
    }
    figure.tables.push(table);
    let [hdc, hscc] = [HDC, HSCC].map(|policy| Speedups::of(loads, results, policy));
    let mut table = Table::new(&["speed-up", "310 MB", "420 MB", "490 MB", "571 MB", "681 MB", "741 MB"]);
    for (policy, (name, _)) in POLICIES.iter().enumerate() {
        let speedups = Speedups::of(loads, results, policy);
        table.row(format!("{name}, cold"), &speedups.cold, 2);
        table.row(format!("{name}, warm"), &speedups.warm, 2);
    }
    figure.tables.push(table);

    figure.judge(
        ("CARD-F5.1", "HSCC's best speed-up, warm, is that of 310 MB: 1.54."),
        hscc.warm[1..].iter().all(|&other| other < 0.98 * hscc.warm[0]) && (1.4..1.7).contains(&hscc.warm[0]),
        list(&hscc.warm),
        BEST,
    );
    figure.judge(
        (
            "CARD-F5.2",
            "Warm, HSCC is faster than the remote disk for every load, even beyond the global cache.",
        ),
        hscc.warm.iter().all(|&speedup| speedup > 1.0),
        list(&hscc.warm),
        SAVED,
    );
    figure.judge(
        ("CARD-F5.3", "Cold, HSCC is hardly slower than the remote disk."),
        hscc.cold.iter().all(|&speedup| speedup > 0.95),
        list(&hscc.cold),
        COLD,
    );
    figure.judge(
        ("CARD-F5.4", "Warm, HDC is faster than the remote disk at 310 MB only; 420 MB are about even, the others slower."),
        hdc.warm[0] > 1.0
            && (0.9..1.1).contains(&hdc.warm[1])
            && hdc.warm[2..].iter().all(|&speedup| speedup < 1.0),
        list(&hdc.warm),
        HDC_WARM,
    );
    figure.judge(
        ("CARD-F5.5", "From 490 MB on, HDC is slower on warm caches than on cold ones."),
        (2..6).all(|i| hdc.warm[i] < hdc.cold[i]),
        format!("warm {}, cold {}", list(&hdc.warm[2..]), list(&hdc.cold[2..])),
        HDC_WARM,
    );
    figure.judge(
        ("CARD-F5.6", "For the three heavy loads, HDC is faster than HSCC on cold caches."),
        (3..6).all(|i| hdc.cold[i] > hscc.cold[i]),
        format!("{} and {}", list(&hdc.cold[3..]), list(&hscc.cold[3..])),
        COLD,
    );
    figure
}

const SAVED: &str =
    "in the model every hit saves its .87 ms of disk time, so that the speed-up follows the hit ratio.";
const BEST: &str = "the two lightest loads are within 1 % of each other. In the model every hit saves its .87 ms of disk time, so that \
                    the speed-up follows the hit ratio, and a hit at the own node, of which 420 MB have more, saves more than one at another.";
const COLD: &str =
    "what is saved on the way costs messages and copies on CPUs and links that are idle otherwise.";
const HDC_WARM: &str = "in the model every hit saves disk time, and to store a block costs the CPUs and links, which are idle \
                        otherwise, a fifth of a millisecond. A slow-down must come from what is not modelled: pages that \
                        stored blocks take from the process itself, and a disk that no longer reads in sequence when a \
                        third of the blocks come from elsewhere.";
