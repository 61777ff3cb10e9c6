//! The paper's numbers, as ratios to each other, and ours.

use super::{Bandwidths, LAST, MIRRORS, NFS, SYSTEMS, reasons};
use crate::figure::{Figure, Table};

/// Of so much more or less a ratio is reproduced.
const NEAR: f64 = 1.25;

/// Two of the paper's numbers in MB/s, of its RAID-1 and of something else.
struct Ratio {
    id: &'static str,
    text: &'static str,
    paper: (f64, f64),
    because: &'static str,
}

const RATIOS: [Ratio; 6] = [
    Ratio {
        id: "SIOS-R.1",
        text: "Large reads of 16 clients: RAID-1 (6.33 MB/s) has 2.43 times the bandwidth of NFS (2.6).",
        paper: (6.33, 2.6),
        because: reasons::SLOW_PROTOTYPE,
    },
    Ratio {
        id: "SIOS-R.2",
        text: "Large writes of 16 clients: RAID-1 (5.95 MB/s) has 2.15 times the bandwidth of NFS (2.77).",
        paper: (5.95, 2.77),
        because: reasons::WRITES_TO_NFS,
    },
    Ratio {
        id: "SIOS-R.3",
        text: "RAID-1 with 16 clients: large writes (5.95 MB/s) have .94 of the bandwidth of large reads (6.33).",
        paper: (5.95, 6.33),
        because: reasons::WRITES_TO_READS,
    },
    Ratio {
        id: "SIOS-R.4",
        text: "RAID-1 with 16 clients: small writes (5.95 MB/s) have the bandwidth of large ones (5.95).",
        paper: (5.95, 5.95),
        because: reasons::SMALL_TO_LARGE,
    },
    Ratio {
        id: "SIOS-R.5",
        text: "RAID-1, 16 clients, 16 disks: large reads past the caches (5.95 MB/s) have .94 of the bandwidth of those of Figure 6 (6.33).",
        paper: (5.95, 6.33),
        because: reasons::READS_PAST_CACHES,
    },
    Ratio {
        id: "SIOS-R.6",
        text: "RAID-1, 16 clients, 16 disks: large writes past the caches (5.72 MB/s) have .96 of the bandwidth of those of Figure 6 (5.95).",
        paper: (5.72, 5.95),
        because: reasons::WRITES_PAST_CACHES,
    },
];

/// The same of ours, for a kind of mirror.
fn ours(clients: &[Bandwidths], disks: &[Bandwidths], mirror: usize) -> [f64; RATIOS.len()] {
    let with_all = |load: usize, system: usize| clients[load][LAST][system];
    let past_caches = |load: usize| disks[load].last().map_or(0.0, |systems| systems[mirror]);
    let [read, write, small] = [0, 1, 2].map(|load| with_all(load, mirror));
    [
        read / with_all(0, NFS),
        write / with_all(1, NFS),
        write / read,
        small / write,
        past_caches(0) / read,
        past_caches(1) / write,
    ]
}

pub(super) fn figure(clients: &[Bandwidths], disks: &[Bandwidths]) -> Figure {
    let mut figure = Figure::new("Ratios", "the paper's numbers to each other, and ours");
    figure.remark = format!(
        "The paper's RAID-1 is striped over all disks, as `raid10` is; a ratio is reproduced if that of RAID-10 or of RAID-1 is within a \
         factor of {NEAR}. Absolute bandwidths are not compared: with 16 clients the paper's arrays move about .5 MB/s for each disk, and its \
         disks, of which it says nothing, could do several."
    );
    let found = MIRRORS.map(|mirror| ours(clients, disks, mirror));
    let mut table = Table::new(&["", "the paper", SYSTEMS[MIRRORS[0]].name, SYSTEMS[MIRRORS[1]].name]);
    for (number, Ratio { id, text, paper: (a, b), because }) in RATIOS.into_iter().enumerate() {
        let (paper, ours) = (a / b, found.map(|ratios| ratios[number]));
        table.row(id, &[paper, ours[0], ours[1]], 2);
        let near = |ratio: f64| ratio <= paper * NEAR && ratio >= paper / NEAR;
        let text_of = format!("RAID-1 {:.2}, RAID-10 {:.2}", ours[0], ours[1]);
        figure.judge((id, text), ours.into_iter().any(near), text_of, because);
    }
    figure.tables.push(table);
    figure
}
