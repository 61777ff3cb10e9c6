//! Olaru and Tichy, *CARDs: Cluster-Aware Remote Disks*, CCGrid 2003, section 5.

mod hits;
mod table1;
mod times;

use std::time::Duration;

use cards_core::PlacementKind;
use cards_sim::{Library, Machine, Setup, WarmUp};

use crate::figure::Figure;
use crate::plan::{Plan, Results, Run};
use crate::study::Scale;
use table1::Table1;

pub(crate) const TITLE: &str = "CARDs: Cluster-Aware Remote Disks (CCGrid 2003), simulated";

/// Sizes of the directories that were searched, in MB (CARD-W).
const LOADS: [u32; 6] = [310, 420, 490, 571, 681, 741];

/// What is compared: name and policy. The first two are the paper's.
const POLICIES: [(&str, &str); 3] = [
    ("HDC", "hdc"),
    ("HSCC", "hscc load=home room=dup"),
    ("HSCC, our defaults", "hscc depth=2 load=free room=free"),
];
const HDC: usize = 0;
const HSCC: usize = 1;
const OURS: usize = 2;
/// The node whose scan is measured.
const SCANNER: u16 = 2;
/// Those of the paper.
const PAPERS: [usize; 2] = [HDC, HSCC];

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    table1: Table1,
    loads: Vec<Load>,
}

/// One size of directories.
#[derive(Debug)]
struct Load {
    mb: u32,
    remote_disk: Run,
    /// By each policy.
    cold: Vec<Run>,
    warm: Vec<Run>,
}

/// Everything is this many times smaller.
const fn divisor(scale: Scale) -> u32 {
    match scale {
        Scale::Full => 1,
        Scale::Fast => 10,
    }
}

fn machine(scale: Scale) -> Machine {
    let mut machine =
        Library::default().find("cards2003").cloned().unwrap_or_else(|_| unreachable!("a preset"));
    machine.cache_bytes.iter_mut().for_each(|bytes| *bytes /= u64::from(divisor(scale)));
    machine
}

/// A disk that reads ahead: what a scan asks for next has passed under the heads, also if other caches have answered for the
/// blocks before it, or homes have passed requests on in another order.
fn read_ahead(mut machine: Machine) -> Machine {
    machine.disk.read_seek = machine.disk.sequential_seek;
    // Where blocks lie makes no difference then, so there is nothing to sort by.
    machine.disk.passovers = 0;
    machine
}

/// As in the paper: homes by block number modulo nodes, LRU.
fn setup(machine: Machine, policy: &str) -> Setup {
    Setup { placement: PlacementKind::Modulo, disk_nodes: 1, ..Setup::new(machine, policy) }
}

/// A scan by the nodes in this order, and the time at which the last one begins.
fn scan(mb: u32, nodes: &[u16], more: &str) -> (String, WarmUp) {
    const BLOCKS_PER_MB: u32 = 256;
    /// The generator's times between two scans, for each block.
    const SPACING: Duration = Duration::from_micros(960 + 3000);
    let (first, then) = nodes.split_first().unwrap_or((&0, &[]));
    let then: Vec<String> = then.iter().map(ToString::to_string).collect();
    let then = if then.is_empty() { "none".to_owned() } else { then.join("+") };
    let trace = format!("gen:scan:mb={mb},node={first},then={then}{more}");
    let earlier = u32::try_from(nodes.len().saturating_sub(1)).unwrap_or(u32::MAX);
    (trace, WarmUp::Time(SPACING * BLOCKS_PER_MB * mb * earlier))
}

impl Runs {
    pub(crate) fn new(plan: &mut Plan, scale: Scale) -> Self {
        let mut add = |mb: u32, policy: &str, nodes: &[u16]| {
            let (trace, warm_up) = scan(mb / divisor(scale), nodes, "");
            plan.add(Setup { warm_up, ..setup(read_ahead(machine(scale)), policy) }, &trace)
        };
        let load = |mb| Load {
            mb,
            remote_disk: add(mb, "rd", &[SCANNER]),
            cold: POLICIES.iter().map(|(_, policy)| add(mb, policy, &[SCANNER])).collect(),
            warm: POLICIES.iter().map(|(_, policy)| add(mb, policy, &[1, SCANNER])).collect(),
        };
        let loads = LOADS.into_iter().map(load).collect();
        Self { loads, table1: Table1::new(plan, scale) }
    }

    pub(crate) fn figures(&self, results: &Results<'_>) -> Vec<Figure> {
        vec![
            self.table1.figure(results),
            hits::ratios(&self.loads, results),
            hits::breakdown(&self.loads, results),
            hits::stored(&self.loads, results),
            times::run_times(&self.loads, results),
        ]
    }
}

pub(crate) fn introduction(scale: Scale) -> Vec<String> {
    let mut all = vec![
        "What `cards paper cards` finds: the figures of V. Olaru and W. F. Tichy, *CARDs: Cluster-Aware Remote Disks*, CCGrid \
         2003, section 5, from simulations of the same policies that the daemon runs. This page is written by that command."
            .to_owned(),
        "Three nodes with caches of 240, 225 and 225 MB, LRU, blocks of 4 KiB, on the machine `cards2003` (`cards sim machines \
         cards2003` has all figures and where they come from). Node 0 has the disk. `find | grep` walks a tree of small files \
         (`gen:scan`) on node 1, which warms the caches; then the same on node 2, which is measured. A block costs the process \
         .96 ms of computing, and the disk .87 ms if it follows the last one, 12 ms otherwise. Homes are given by block number \
         modulo nodes."
            .to_owned(),
        "**HSCC** is `hscc load=home room=dup`: the least loaded node is the home for which the fewest blocks are cached \
         here, and a stored block may take the place of one that has a newer copy elsewhere. Of the readings of what \
         the paper leaves open, this one comes closest to it. *Our defaults* are `load=free room=free`: the node with the most \
         free places, and free places only."
            .to_owned(),
    ];
    if scale == Scale::Fast {
        all.push(
            "**Fast**: loads and caches are a tenth of the paper's; names of loads are the paper's."
                .to_owned(),
        );
    }
    all
}
