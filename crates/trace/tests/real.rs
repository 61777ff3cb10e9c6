//! Public traces, where they are at hand: `CARDS_TRACES` names a directory that holds them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cards_trace::{Info, Op, Options, Request, open};

use crate::support::drain;

/// A trace by its path in the collection; none, with the reason, if there is no collection.
fn trace(name: &str) -> Option<String> {
    let Some(directory) = std::env::var_os("CARDS_TRACES") else {
        println!("skipped: CARDS_TRACES does not name a directory with traces");
        return None;
    };
    Some(PathBuf::from(directory).join(name).to_string_lossy().into_owned())
}

fn info(path: &str, block_bytes: u32, unit_bytes: Option<u32>) -> Info {
    let options = Options { block_bytes: unit_bytes, ..Options::default() };
    Info::read(&mut *open(path, &options).unwrap(), block_bytes).unwrap()
}

fn requests(path: &str) -> Vec<Request> {
    drain(&mut *open(path, &Options::default()).unwrap()).unwrap()
}

#[test]
fn block_lists_have_their_published_sizes_and_hit_ratios() {
    for (name, unit, references, blocks, ratios) in [
        ("lirs/sprite.trace.gz", 4096, 133_996, 7_075, &[(100, 0.2158), (400, 0.7077), (1_000, 0.9064)][..]),
        ("lirs/cpp.trace.gz", 4096, 9_047, 1_223, &[]),
        ("lirs/cs.trace.gz", 4096, 6_781, 1_409, &[]),
        ("lirs/ps.trace.gz", 4096, 10_448, 3_083, &[]),
        ("lirs/multi1.trace.gz", 4096, 15_858, 2_606, &[]),
        ("lirs/multi3.trace.gz", 4096, 30_241, 7_454, &[]),
        ("lirs/2_pools.trace.gz", 4096, 100_000, 9_939, &[]),
        ("lirs/loop.trace.gz", 4096, 505_500, 1_011, &[(500, 0.0)]),
        (
            "arc/OLTP.lis.zst",
            512,
            914_145,
            186_880,
            &[(1_000, 0.3283), (2_000, 0.4247), (5_000, 0.5365), (15_000, 0.6463)],
        ),
    ] {
        let Some(path) = trace(name) else { return };
        let info = info(&path, unit, Some(unit));
        assert_eq!((info.block_reads, info.blocks), (references, blocks), "{name}");
        check(name, &info, ratios);
    }
}

#[test]
fn one_trace_in_three_formats_gives_the_same_blocks() {
    let Some(path) = trace("cloudphysics/cloudPhysicsIO.vscsi.zst") else { return };
    let vscsi = requests(&path);
    let csv = requests(&path.replace(".vscsi.", ".csv."));
    let oracle = requests(&path.replace(".vscsi.", ".oracleGeneral.bin."));
    assert_eq!((vscsi.len(), csv.len(), oracle.len()), (113_872, 113_872, 113_872));
    // Its converter gave each object the size of its first request, and dropped the operation.
    let mut first = BTreeMap::new();
    for ((a, b), c) in vscsi.iter().zip(&csv).zip(&oracle) {
        assert_eq!((a.op, a.offset, a.bytes), (b.op, b.offset, b.bytes));
        assert_eq!((a.offset, *first.entry(a.offset).or_insert(a.bytes)), (c.offset, c.bytes));
        // The others have whole seconds.
        assert!(a.time.abs_diff(b.time).as_secs() <= 1 && b.time == c.time);
    }
    assert_eq!(vscsi.iter().filter(|r| r.op == Op::Read).count(), 46_974);

    let info = info(&path, 4096, None);
    assert_eq!((info.requests, info.writes), (113_872, 66_898));
    assert_eq!((info.block_reads + info.block_writes, info.blocks), (1_141_869, 269_210));
    assert_eq!(info.span.unwrap().as_secs(), 7_200);
    check("cloudphysics", &info, &[(2_692, 0.1031), (26_921, 0.1259)]);
}

#[test]
fn a_parallel_job_shares_as_much_as_it_should() {
    let Some(path) = trace("dxt/openpmd_8_benchmark_parallel_64hosts.mpiio.csv.zst") else { return };
    let mpiio = info(&path, 4096, None);
    assert_eq!(mpiio.requests + mpiio.skipped.get("zero size"), 153_716);
    assert_eq!((mpiio.nodes, mpiio.processes, mpiio.volumes), (64, 1_024, 1));
    assert_eq!((mpiio.reads, mpiio.block_reads, mpiio.block_writes), (123_862, 330_102, 524_449));
    assert_eq!(mpiio.blocks, 327_697);
    assert_eq!((mpiio.shared_block_share() * 1_000.0).round(), 59.0);
    assert_eq!(mpiio.reads_after_write_of_other, 295_287);

    let posix = info(&path.replace("mpiio", "posix"), 4096, None);
    assert_eq!(posix.requests + posix.skipped.get("zero size"), 123_166);
    assert_eq!((posix.block_reads, posix.block_writes, posix.blocks), (771_082, 646_479, 327_697));
    let units = info(&path.replace("mpiio", "posix"), 65_536, None);
    assert_eq!((units.after_write_of_other_share() * 100.0).round(), 74.0);
}

#[test]
fn fragments_for_disk_simulators_have_their_sizes() {
    for (name, count, references, blocks) in [
        ("misc/tpcc-small.disksim.txt.zst", 6_999, 20_669, 20_470),
        ("misc/wsrch-small.disksim.txt.zst", 24_783, 93_312, 93_029),
    ] {
        let Some(path) = trace(name) else { return };
        let info = info(&path, 4096, None);
        assert_eq!(info.requests, count, "{name}");
        assert_eq!((info.block_reads + info.block_writes, info.blocks), (references, blocks), "{name}");
    }
}

#[test]
#[ignore = "millions of references: a minute without optimization"]
fn large_traces_have_their_published_sizes_and_hit_ratios() {
    for (name, unit, references, blocks, ratios) in [
        ("arc/P3.lis.zst", 512, 3_912_296, 762_543, &[(7_626, 0.0159), (76_254, 0.1681)][..]),
        ("arc/P6.lis.zst", 512, 12_672_123, 773_770, &[]),
        ("dxt/io_test5_hdf5_32hosts.posix.csv.zst", 4096, 4_084_969 + 4_315_454, 4_271_630, &[]),
    ] {
        let Some(path) = trace(name) else { return };
        let info = info(&path, unit, None);
        assert_eq!((info.block_reads + info.block_writes, info.blocks), (references, blocks), "{name}");
        check(name, &info, ratios);
    }
}

/// Hit ratios of an LRU cache, published with four digits.
fn check(name: &str, info: &Info, ratios: &[(u64, f64)]) {
    for &(size, ratio) in ratios {
        let found = info.reuse.lru_hit_ratio(size);
        assert!((found - ratio).abs() < 0.000_051, "{name}, {size} blocks: {found}");
    }
}
