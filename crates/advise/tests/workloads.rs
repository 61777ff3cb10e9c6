//! References to blocks of one volume, by one node.

use cards_core::mix;
use cards_trace::{Op, Options, open};

pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// Blocks, and whether they are written.
    pub(crate) references: Vec<(u32, bool)>,
}

/// A number from 0 to 1 for each `i`.
fn uniform(seed: u64, i: u64) -> f64 {
    (mix(mix(seed) ^ i) >> 11) as f64 / (1u64 << 53) as f64
}

pub(crate) fn all() -> [Workload; 4] {
    [zipf(), loop_and_scan(), oltp(), shift()]
}

/// Independent references, the k-th block as often as 1/k^0.8.
pub(crate) fn zipf() -> Workload {
    const BLOCKS: usize = 200_000;
    let mut sums = Vec::with_capacity(BLOCKS);
    let mut sum = 0.0;
    for k in 1..=BLOCKS {
        sum += (k as f64).powf(-0.8);
        sums.push(sum);
    }
    let draw = |i| {
        let rank = sums.partition_point(|&upto| upto < uniform(1, i) * sum);
        // Popular blocks lie anywhere.
        ((mix(rank as u64) & 0xff_ffff) as u32, uniform(2, i) < 0.1)
    };
    Workload { name: "zipf", references: (0..400_000).map(draw).collect() }
}

/// A loop over more than the cache, random reads of a hot part beside it, and a long scan. No cache that is judged is within
/// a tenth of the size at which the loop fits: there a small error in the scale is a large one in the hits.
pub(crate) fn loop_and_scan() -> Workload {
    let mut references = Vec::new();
    for i in 0..300_000u64 {
        let block = match i % 10 {
            0..6 => 1_000_000 + (i / 10 * 6 + i % 10) % 20_000,
            6..9 => (uniform(3, i) * 6_000.0) as u64,
            _ => 2_000_000 + i,
        };
        references.push((block as u32, false));
    }
    Workload { name: "loop and scan", references }
}

/// Transactions on a database of 1.5 GiB.
pub(crate) fn oltp() -> Workload {
    let spec = "gen:oltp:nodes=1,bytes=1536MiB,requests=250000,skew=0.7";
    let mut source = open(spec, &Options::default()).unwrap();
    let mut references = Vec::new();
    while let Some(request) = source.next().unwrap() {
        if request.op.is_data() && request.volume == 0 {
            let blocks = request.blocks(8192);
            references.extend(blocks.map(|block| (block as u32, request.op == Op::Write)));
        }
    }
    Workload { name: "oltp", references }
}

/// A working set that moves.
fn shift() -> Workload {
    let draw = |i: u64| {
        let base = i / 50_000 * 15_000;
        let near = uniform(5, i) * uniform(6, i);
        ((base + (near * 80_000.0) as u64) as u32, false)
    };
    Workload { name: "shift", references: (0..300_000).map(draw).collect() }
}
