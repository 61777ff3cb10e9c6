//! Tables 1 and 2: the workloads and the machines.

use cards_sim::Machine;
use cards_trace::{Op, Options, open};

use super::site::{NOW, PM, Site};
use crate::figure::{Cell, Figure, Table};

/// What is in a trace.
#[derive(Clone, Copy, Default)]
struct Marginals {
    requests: f64,
    reads: f64,
    writes: f64,
    opens: f64,
    closes: f64,
    unlinks: f64,
    read_blocks: f64,
    write_blocks: f64,
    read_bytes: f64,
    write_bytes: f64,
}

/// SIM-7: thousands of reads, writes, opens, closes and unlinks; thousands of 8 KB blocks read and written; mean bytes
/// of a read and of a write.
struct Paper {
    operations: [f64; 5],
    blocks: [f64; 2],
    bytes: [f64; 2],
}

const CHARISMA: Paper = Paper {
    operations: [812.0, 1987.0, 5.0, 5.0, 0.5],
    blocks: [3493.0, 4653.0],
    bytes: [32_475.0, 14_734.0],
};
const SPRITE: Paper =
    Paper { operations: [519.0, 192.0, 407.0, 400.0, 47.0], blocks: [650.0, 305.0], bytes: [4657.0, 8000.0] };

/// Of the trace with the first seed.
fn measure(site: &Site) -> Marginals {
    let mut found = Marginals::default();
    let Ok(mut source) = open(&site.of.trace(site.requests, 1), &Options::default()) else { return found };
    // A generator's trace has no errors but in its name.
    while let Ok(Some(request)) = source.next() {
        found.requests += 1.0;
        let blocks = request.blocks(site.of.machine().block_bytes);
        let blocks = (blocks.end - blocks.start) as f64;
        match request.op {
            Op::Read => {
                found.reads += 1.0;
                found.read_blocks += blocks;
                found.read_bytes += f64::from(request.bytes);
            }
            Op::Write => {
                found.writes += 1.0;
                found.write_blocks += blocks;
                found.write_bytes += f64::from(request.bytes);
            }
            Op::Open => found.opens += 1.0,
            Op::Close => found.closes += 1.0,
            Op::Trim => found.unlinks += 1.0,
            Op::Flush | Op::Send { .. } => {}
        }
    }
    found
}

pub(super) fn workloads(pm: &Site, now: &Site) -> Figure {
    let mut figure = Figure::new("Table 1", "the traces");
    figure.remark = "The original traces are not used: `gen:charisma` and `gen:sprite` draw others with these properties. Shares \
                     are those of all requests, of seed 1."
        .into();
    let mut worst: f64 = 0.0;
    for (name, site, paper) in [("CHARISMA", pm, CHARISMA), ("Sprite", now, SPRITE)] {
        let found = measure(site);
        let mut table = Table::new(&[name, "here", "the paper"]);
        let all: f64 = paper.operations.iter().sum();
        let counts = [found.reads, found.writes, found.opens, found.closes, found.unlinks];
        let names = ["reads", "writes", "opens", "closes", "unlinks"];
        for ((name, count), thousands) in names.iter().zip(counts).zip(paper.operations) {
            table.row(format!("{name}, %"), &[100.0 * count / found.requests, 100.0 * thousands / all], 1);
        }
        let [read_blocks, write_blocks] = paper.blocks;
        let rows = [
            ("blocks per read", found.read_blocks / found.reads, read_blocks / paper.operations[0], 2),
            ("blocks per write", found.write_blocks / found.writes, write_blocks / paper.operations[1], 2),
            ("bytes per read", found.read_bytes / found.reads, paper.bytes[0], 0),
            ("bytes per write", found.write_bytes / found.writes, paper.bytes[1], 0),
        ];
        for (name, here, there, decimals) in rows {
            worst = worst.max((here / there - 1.0).abs());
            table.row(name, &[here, there], decimals);
        }
        figure.tables.push(table);
    }
    figure.judge(
        ("PAFS-T1", "The traces have the sizes of requests that Table 1 has."),
        worst <= 0.1,
        format!("the largest difference is {:.1} %", 100.0 * worst),
        "a short trace has few jobs, and they differ.",
    );
    figure
}

pub(super) fn machines() -> Figure {
    const PAPER: [(&str, f64, f64); 13] = [
        ("nodes", 128.0, 50.0),
        ("cache of a node, MB", 1.0, 16.0),
        ("buffer, KB", 8.0, 8.0),
        ("memory bandwidth, MB/s", 500.0, 40.0),
        ("network bandwidth, MB/s", 200.0, 19.4),
        ("local port startup, us", 2.0, 50.0),
        ("remote port startup, us", 10.0, 100.0),
        ("local memory copy startup, us", 1.0, 25.0),
        ("remote memory copy startup, us", 5.0, 50.0),
        ("disks", 16.0, 8.0),
        ("disk bandwidth, MB/s", 10.0, 10.0),
        ("disk read seek, ms", 10.5, 10.5),
        ("disk write seek, ms", 12.5, 12.5),
    ];
    let values = |machine: &Machine| -> [f64; 13] {
        let us = |duration: std::time::Duration| duration.as_secs_f64() * 1e6;
        [
            f64::from(machine.nodes),
            machine.cache_bytes.first().map_or(0.0, |&bytes| bytes as f64 / f64::from(1 << 20)),
            f64::from(machine.block_bytes) / 1024.0,
            machine.memory_bandwidth / 1e6,
            machine.network_bandwidth / 1e6,
            us(machine.local_port),
            us(machine.remote_port),
            us(machine.local_copy),
            us(machine.remote_copy),
            f64::from(machine.disks),
            machine.disk.bandwidth / 1e6,
            us(machine.disk.read_seek) / 1e3,
            us(machine.disk.write_seek) / 1e3,
        ]
    };
    let mut figure = Figure::new("Table 2", "the machines");
    figure.remark = "`cards sim machines pm` and `now` have these figures with their sources.".into();
    let mut table = Table::new(&["", "PM", "NOW"]);
    let (pm, now) = (values(&PM.machine()), values(&NOW.machine()));
    let mut same = true;
    for ((pm, now), (name, paper_pm, paper_now)) in pm.into_iter().zip(now).zip(PAPER) {
        same &= (pm - paper_pm).abs() < 1e-6 && (now - paper_now).abs() < 1e-6;
        let text = |value: f64| Cell::Text(cards_sim::plot::number(value));
        table.rows.push(vec![Cell::Text(name.into()), text(pm), text(now)]);
    }
    figure.tables.push(table);
    figure.judge(
        ("PAFS-T2", "The machines are those of Table 2."),
        same,
        "all 13 figures of both are compared".to_owned(),
        "",
    );
    figure
}
