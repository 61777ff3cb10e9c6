//! Table 1: a CARD that does nothing but pass requests on, and the local disk.

use cards_sim::{Machine, Setup};

use super::{divisor, machine, scan, setup};
use crate::figure::{Figure, Table};
use crate::plan::{Plan, Results, Run};
use crate::study::Scale;

/// The partition that was scanned, in MB.
const PARTITION: u32 = 1740;
/// Fits in the cache of each node.
const SMALL: u32 = 100;

#[derive(Debug)]
pub(super) struct Table1 {
    remote: Column,
    local: Column,
    mb: u32,
}

#[derive(Debug)]
struct Column {
    all: Run,
    cached: Run,
    random: Run,
}

/// A disk that positions for each block.
fn without_sequences(mut machine: Machine) -> Machine {
    machine.disk.sequential_seek = machine.disk.read_seek;
    machine
}

impl Table1 {
    pub(super) fn new(plan: &mut Plan, scale: Scale) -> Self {
        let mb = PARTITION / divisor(scale);
        let mut column = |node| {
            let mut add = |machine, mb, nodes: &[u16], more| {
                let (trace, warm_up) = scan(mb, nodes, more);
                plan.add(Setup { warm_up, ..setup(machine, "rd") }, &trace)
            };
            let single = ",request=4K";
            let small = SMALL / divisor(scale);
            Column {
                all: add(machine(scale), mb, &[node], ""),
                cached: add(machine(scale), small, &[0, node], single),
                random: add(without_sequences(machine(scale)), small, &[node], single),
            }
        };
        Self { remote: column(1), local: column(0), mb }
    }

    pub(super) fn figure(&self, results: &Results<'_>) -> Figure {
        let throughput = |column: &Column| f64::from(self.mb) / results[column.all].simulated_s;
        let cached = |column: &Column| results[column.cached].read_mean_us;
        let random = |column: &Column| results[column.random].read_mean_us;
        let (remote, local) = (&self.remote, &self.local);

        let mut figure = Figure::new("Table 1", "CARD and local disk");
        figure.remark = format!(
            "Throughput: a scan of {} MB from cold caches. Times: blocks one by one, all of them in the cache of node 0, \
             or none and a disk that positions for each.",
            self.mb
        );
        let mut table = Table::new(&["", "CARD", "the paper's", "local disk", "the paper's"]);
        table.row("throughput, MB/s", &[throughput(remote), 2.14, throughput(local), 2.93], 2);
        table.row("cached block, us", &[cached(remote), 300.0, cached(local), 30.0], 0);
        table.row("block from disk, us", &[random(remote), 12_300.0, random(local), 12_000.0], 0);
        figure.tables.push(table);

        let near = |found: f64, want: f64, share: f64| (found / want - 1.0).abs() <= share;
        figure.judge(
            ("CARD-T1.1", "A block cached by the disk node takes 300 us, a block cached here 30 us."),
            near(cached(remote), 300.0, 0.05) && near(cached(local), 30.0, 0.05),
            format!("{:.0} and {:.0} us", cached(remote), cached(local)),
            "",
        );
        figure.judge(
            ("CARD-T1.2", "A block from the disk takes 12,300 us, from the local disk 12,000 us."),
            near(random(remote), 12_300.0, 0.02) && near(random(local), 12_000.0, 0.02),
            format!("{:.0} and {:.0} us", random(remote), random(local)),
            "",
        );
        let times = random(local) / cached(remote);
        figure.judge(
            ("CARD-T1.3", "A remotely cached block is there 40 times sooner than one from the local disk."),
            near(times, 40.0, 0.05),
            format!("{times:.1} times"),
            "",
        );
        let share = throughput(remote) / throughput(local);
        figure.judge(
            ("CARD-T1.4", "A CARD has 73 % of the local disk's throughput."),
            near(share, 0.73, 0.1),
            format!("{:.0} %, {:.2} of {:.2} MB/s", 100.0 * share, throughput(remote), throughput(local)),
            SHARE,
        );
        figure
    }
}

const SHARE: &str = "the .87 ms of the disk come from the CARD's run times in the paper, so that they contain what the network \
                     added to reads in sequence. Table 1 itself gives the local disk about .4 ms for a block in sequence.";
