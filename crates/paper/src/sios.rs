//! Ho, Hwang and Jin, *Design and Analysis of Clusters with Single I/O Space*, section 5: figures 6 and 7.

mod figures;
mod ratios;
mod reasons;

use cards_layout::layout::Layout;
use cards_sim::{Array, Library, Machine, Report, Setup};

use crate::figure::Figure;
use crate::plan::{Plan, Results, Run, mean};
use crate::study::Scale;

pub(crate) const TITLE: &str = "Clusters with a single I/O space (Ho, Hwang and Jin), simulated";

/// Clients of Figure 6.
const CLIENTS: [u16; 6] = [1, 2, 4, 8, 12, 16];
/// Disks of Figure 7.
const DISKS: [u16; 4] = [2, 4, 8, 16];
/// Clients of Figure 7, and disks of Figure 6.
const ALL: u16 = 16;
/// Where that is in [`CLIENTS`], and four clients.
const LAST: usize = 5;
const FOUR: usize = 2;

/// Bytes of a piece of a request.
const PIECE: u32 = 256 << 10;
/// Pieces that a client reads ahead, or writes behind, where caches are used.
const AHEAD: u16 = 2;
/// Of the server's 64 MiB, what Linux 2.2 has written late: 40 %.
const SERVER_MEMORY: u64 = (64 << 20) / 100 * 40;
/// A slot of `gen:files` for each client.
const VOLUME: u64 = 1 << 30;

/// Where the clients' files are.
#[derive(Clone, Copy, Debug)]
struct System {
    name: &'static str,
    layout: Layout,
    /// It is one node that is no client, with one disk.
    is_server: bool,
    /// Of such a node: what it writes late, in bytes.
    memory: u64,
}

const ARRAY: System = System { name: "", layout: Layout::Raid0, is_server: false, memory: 0 };
const SERVER: System = System { name: "", layout: Layout::Linear, is_server: true, memory: 0 };
const SYSTEMS: [System; 5] = [
    System { name: "RAID-0", ..ARRAY },
    System { name: "RAID-1", layout: Layout::Raid1 { copies: 2 }, ..ARRAY },
    System { name: "RAID-10", layout: Layout::Raid10 { copies: 2 }, ..ARRAY },
    System { name: "NFS", memory: SERVER_MEMORY, ..SERVER },
    System { name: "NFS, stable writes", ..SERVER },
];
const RAID0: usize = 0;
const RAID1: usize = 1;
const RAID10: usize = 2;
const NFS: usize = 3;
/// Those with many disks.
const ARRAYS: [usize; 3] = [RAID0, RAID1, RAID10];
/// Those with two copies.
const MIRRORS: [usize; 2] = [RAID1, RAID10];

/// What the clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    LargeRead,
    LargeWrite,
    SmallWrite,
}

const LOADS: [Load; 3] = [Load::LargeRead, Load::LargeWrite, Load::SmallWrite];

impl Load {
    const fn name(self) -> &'static str {
        match self {
            Self::LargeRead => "large reads",
            Self::LargeWrite => "large writes",
            Self::SmallWrite => "small writes",
        }
    }

    /// The trace, but for nodes and seed. Where caches are used, a large write ends with a flush; all other writes are durable one by one.
    const fn trace(self, has_caches: bool) -> &'static str {
        match self {
            Self::LargeRead => "request=10MiB",
            Self::LargeWrite if has_caches => "request=10MiB,mode=write",
            Self::LargeWrite => "request=10MiB,mode=write,flush=no",
            Self::SmallWrite => "file=4KiB,request=4KiB,files=64,mode=write,flush=no",
        }
    }
}

/// Runs that differ in the seed only.
type Seeds = Vec<Run>;

/// All runs: by load, then by clients or disks, then by system.
#[derive(Debug)]
pub(crate) struct Runs {
    clients: Vec<Vec<Vec<Seeds>>>,
    disks: Vec<Vec<Vec<Seeds>>>,
}

/// Bandwidths in MB/s: by clients or disks, then by system.
type Bandwidths = Vec<Vec<f64>>;

fn machine(disks: u16) -> Machine {
    let machine = Library::default().find("sios1999").cloned();
    Machine { disks, ..machine.unwrap_or_else(|_| unreachable!("a preset")) }
}

/// A run of one seed.
fn run(
    plan: &mut Plan,
    system: &System,
    (clients, disks): (u16, u16),
    (load, has_caches): (Load, bool),
    seed: u64,
) -> Run {
    let is_durable = system.memory == 0
        && match load {
            Load::LargeRead => false,
            Load::LargeWrite => !has_caches,
            Load::SmallWrite => true,
        };
    let array = Array {
        piece_bytes: PIECE,
        depth: if has_caches { AHEAD } else { 1 },
        is_durable,
        write_memory: system.memory,
        ..Array::new(system.layout, VOLUME)
    };
    let (disks, nodes) = if system.is_server { (1, ALL + 1) } else { (disks, ALL) };
    // A mirror that has lost a column would write half as much.
    let check = true;
    let setup = Setup { nodes, seed, check, array: Some(array), ..Setup::new(machine(disks), "rd") };
    plan.add(setup, &format!("gen:files:nodes={clients},seed={seed},{}", load.trace(has_caches)))
}

impl Runs {
    pub(crate) fn new(plan: &mut Plan, scale: Scale) -> Self {
        let seeds = match scale {
            Scale::Full => 8,
            Scale::Fast => 2,
        };
        let mut points = |counts: &[(u16, u16)], systems: &[System], load, has_caches| {
            let point = |&counts: &(u16, u16)| {
                let all = |system| {
                    (1..=seeds).map(|seed| run(plan, system, counts, (load, has_caches), seed)).collect()
                };
                systems.iter().map(all).collect()
            };
            counts.iter().map(point).collect()
        };
        let clients = CLIENTS.map(|clients| (clients, ALL));
        let disks = DISKS.map(|disks| (ALL, disks));
        Self {
            clients: LOADS.iter().map(|&load| points(&clients, &SYSTEMS, load, true)).collect(),
            disks: LOADS.iter().map(|&load| points(&disks, &SYSTEMS[..ARRAYS.len()], load, false)).collect(),
        }
    }

    pub(crate) fn figures(&self, results: &Results<'_>) -> Vec<Figure> {
        let found = |points: &Vec<Vec<Seeds>>| -> Bandwidths {
            let of = |seeds: &Seeds| mean(results, seeds, bandwidth);
            points.iter().map(|systems| systems.iter().map(of).collect()).collect()
        };
        let clients: Vec<Bandwidths> = self.clients.iter().map(found).collect();
        let disks: Vec<Bandwidths> = self.disks.iter().map(found).collect();
        let mut all = figures::by_clients(&clients);
        all.extend(figures::by_disks(&disks));
        all.push(ratios::figure(&clients, &disks));
        all
    }
}

/// MB/s of all clients together, until the last one is done.
fn bandwidth(report: &Report) -> f64 {
    report.blocks as f64 * f64::from(report.block_bytes) / report.simulated_s / 1e6
}

pub(crate) fn introduction(scale: Scale) -> Vec<String> {
    let mut all = vec![
        "What `cards paper sios` finds: figures 6 and 7 of R. S. C. Ho, K. Hwang and H. Jin, *Design and Analysis of Clusters with Single \
         I/O Space*, section 5, from simulations of this project's arrays on the paper's cluster. This page is written by that \
         command. RAID-5 is not here: there are no parity layouts yet, so what the paper says of it is not judged."
            .to_owned(),
        "**What runs.** The volumes of the daemon, on modelled disks, links and processors: where a byte is says `cards-layout` (bundles of 1 \
         MiB, the placement of columns on disks), and what is written where, and when a client is answered, say the machines of \
         `cards-array`, one for each column, with their messages, beacons, leases and repetitions (`crates/sim/src/engine/array.rs`). \
         **RAID-0** is `raid0`. **RAID-10** is `raid10`, striped over all disks, which is what the paper calls RAID-1. **RAID-1** is a \
         `raid1` volume for each disk; a client's file is in one of them. **NFS** is a node more, which is no client, with one \
         disk: it answers writes and flushes when it has them in memory, up to 40 % of its 64 MiB; with *stable writes*, when they are \
         on the disk."
            .to_owned(),
        "**The machine** is `sios1999` (`cards sim machines sios1999` has all figures and where they come from): 16 nodes with a disk of 12 MB/s \
         each, 13 ms to position before each write and before each read that does not go on where the last one ended, links of 12.5 MB/s. \
         The paper gives nodes, disks and links; disks and processors are typical ones of 1999. A disk does one request at a time, in \
         the order in which they come: it does not sort them."
            .to_owned(),
        "**The load** is `gen:files`: clients on different nodes begin at the same time, each with 10 MB or with 64 files of 4 KB, at \
         random places of its own part of the volume; bandwidth is all their bytes over the time until the last one is done, the mean of \
         several seeds. A client asks for 256 KiB at a time. In Figure 6 it has two such pieces under way, read ahead or written behind, \
         and a large write ends with a flush; in Figure 7, \"caches bypassed\", one, and each piece of a write is durable before the \
         next. Small writes are durable one by one in both. Nothing is read twice, so no cache has anything to give."
            .to_owned(),
        "**Left out**: what the disk's own tables cost (marks of dirty regions, checksums: `Store` of `cards-array`), metadata of a file \
         system, the cache's bookkeeping, and sorting or merging in the disk's queue. A write is durable when it is done, so a flush costs messages \
         only. Times of groups are the daemon's defaults."
            .to_owned(),
    ];
    if scale == Scale::Fast {
        all.push(
            "**Fast**: two seeds instead of eight, which differ by more than some statements allow."
                .to_owned(),
        );
    }
    all
}
