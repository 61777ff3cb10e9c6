//! Hit ratios on public traces, against those of libCacheSim 0.3.5 (blocks of one size, every request a read).
//!
//! The traces are not part of this project. With `CARDS_TRACES` naming a directory that has them
//! (`lirs/sprite.trace.gz` and so on) the test runs, else it says that it did not. It needs gzip and zstd.

use std::boxed::Box;
use std::path::PathBuf;
use std::process::Command;
use std::string::String;
use std::vec::Vec;
use std::{eprintln, format};

use cards_core::{BlockId, Cache, PgId};

use super::GhostKind;
use super::Replacement::{self, Arc, Lirs, Lru, S3Fifo, Sieve, TwoQ, WTinyLfu, WTinyLfu10};

const COLUMNS: [Replacement; 8] = [Lru, Sieve, S3Fifo, Arc, TwoQ, Lirs, WTinyLfu, WTinyLfu10];

/// Trace, blocks of cache, and a hit ratio in 1/10,000 for each of [`COLUMNS`].
type Row = (&'static str, u32, [u16; 8]);

const TABLE: [Row; 11] = [
    ("lirs/sprite.trace.gz", 100, [2158, 2486, 2916, 2566, 2833, 2767, 2948, 2538]),
    ("lirs/sprite.trace.gz", 400, [7077, 6443, 7128, 7002, 7088, 6956, 6895, 6681]),
    ("lirs/sprite.trace.gz", 1000, [9064, 8697, 8931, 8970, 8963, 8771, 8014, 8411]),
    ("lirs/loop.trace.gz", 500, [0, 0, 4442, 0, 0, 4886, 4866, 4432]),
    ("arc/OLTP.lis.zst", 1000, [3283, 3256, 4086, 3895, 4053, 3458, 3186, 3699]),
    ("arc/OLTP.lis.zst", 2000, [4247, 4119, 4703, 4608, 4651, 4245, 3761, 4307]),
    ("arc/OLTP.lis.zst", 5000, [5365, 5189, 5575, 5525, 5573, 5262, 4748, 5196]),
    ("arc/OLTP.lis.zst", 15000, [6463, 6510, 6598, 6540, 6572, 6398, 5977, 6301]),
    ("arc/P3.lis.zst", 7626, [159, 286, 421, 383, 299, 404, 439, 440]),
    ("arc/P3.lis.zst", 76254, [1681, 2483, 3392, 3226, 2995, 3586, 3015, 2900]),
    ("cloudphysics/cloudPhysicsIO.vscsi.zst", 26921, [1259, 1671, 1808, 1755, 1557, 1855, 1608, 1576]),
];

/// Where the reference is of no use, because it has another W-TinyLFU (it does not count uses in the window and halves its
/// wider counters a third as often): hit ratios of W-TinyLFU with windows of 1 and 10 % that counts uses exactly.
const EXACT_COUNTS: [(&str, u32, [u16; 2]); 7] = [
    ("lirs/sprite.trace.gz", 400, [6924, 6988]),
    ("lirs/sprite.trace.gz", 1000, [8489, 8671]),
    ("arc/OLTP.lis.zst", 1000, [3594, 4059]),
    ("arc/OLTP.lis.zst", 2000, [4242, 4661]),
    ("arc/OLTP.lis.zst", 5000, [5248, 5495]),
    ("arc/OLTP.lis.zst", 15000, [6291, 6463]),
    ("arc/P3.lis.zst", 76254, [3484, 3347]),
];

/// Exact ARC, by the paper's figure 4: where hashed ghosts hit other blocks.
const EXACT_ARC: [(&str, u32, u16); 5] = [
    ("lirs/ps.trace.gz", 100, 934),
    ("lirs/ps.trace.gz", 300, 1680),
    ("lirs/multi3.trace.gz", 100, 1784),
    ("lirs/multi3.trace.gz", 300, 3131),
    ("lirs/multi3.trace.gz", 1000, 4441),
];

/// How far the hit ratio may be from the table's, in 1/10,000. W-TinyLFU with its few counters may lose this against exact
/// counts.
const fn tolerance(replacement: Replacement) -> i32 {
    match replacement {
        WTinyLfu | WTinyLfu10 => 80,
        _ => 15,
    }
}

/// What is expected of a column in a row; none where there is nothing to compare with.
fn expected(row: &Row, column: usize) -> Option<i32> {
    let (name, capacity, ratios) = *row;
    let window = match COLUMNS[column] {
        WTinyLfu => 0,
        WTinyLfu10 => 1,
        _ => return Some(ratios[column].into()),
    };
    let (_, _, ratios) = EXACT_COUNTS.iter().find(|(n, c, _)| (*n, *c) == (name, capacity))?;
    Some(ratios[window].into())
}

#[test]
fn hit_ratios_are_those_of_the_reference() {
    let Some(directory) = std::env::var_os("CARDS_TRACES").map(PathBuf::from) else {
        eprintln!("skipped: CARDS_TRACES does not name a directory of traces");
        return;
    };
    let mut wrong = Vec::new();
    let mut trace = (String::new(), Vec::new());
    for row in TABLE {
        let (name, capacity, _) = row;
        if trace.0 != name {
            trace = (String::from(name), read(&directory, name));
        }
        let ratios = COLUMNS.map(|replacement| i32::from(hit_ratio(replacement, capacity, &trace.1)));
        eprintln!("{name} {capacity}: {ratios:?}, expected {:?}", row.2);
        for (column, ratio) in ratios.into_iter().enumerate() {
            let Some(expected) = expected(&row, column) else { continue };
            let replacement = COLUMNS[column];
            if (ratio - expected).abs() > tolerance(replacement) {
                wrong.push(format!("{replacement} on {name}, {capacity} blocks: {ratio}, not {expected}"));
            }
        }
    }
    for (name, capacity, expected) in EXACT_ARC {
        let ratio = hit_ratio(Arc, capacity, &read(&directory, name));
        eprintln!("{name} {capacity}: {ratio}, exact ARC {expected}");
        if ratio.abs_diff(expected) > 1 {
            wrong.push(format!("exact arc on {name}, {capacity} blocks: {ratio}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// With exact ghosts, in 1/10,000.
fn hit_ratio(replacement: Replacement, capacity: u32, blocks: &[u32]) -> u16 {
    let mut cache = Cache::new(capacity, 1, replacement.build_with(capacity, GhostKind::Exact));
    let mut hits = 0;
    for &index in blocks {
        let block = BlockId::new(PgId(0), index);
        if let Some(slot) = cache.lookup(block) {
            hits += 1;
            cache.touch(slot);
            continue;
        }
        let slot = cache.take().expect("one slot more than the capacity");
        cache.insert(slot, block, None);
        if cache.resident() > capacity {
            let victim = cache.victim().expect("only the new block is pinned");
            cache.remove(victim);
        }
        cache.unpin(slot);
    }
    (hits * 10_000 / blocks.len()) as u16
}

/// The blocks that a trace references, in order.
fn read(directory: &std::path::Path, name: &str) -> Vec<u32> {
    let program = if name.ends_with(".gz") { "gzip" } else { "zstd" };
    let path = directory.join(name);
    let output = Command::new(program).arg("-dc").arg(&path).output().expect("gzip and zstd are installed");
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    let bytes = output.stdout;
    match name {
        _ if name.contains(".vscsi") => vscsi(&bytes),
        _ => text(&String::from_utf8(bytes).expect("a trace of numbers"), name.contains(".lis")),
    }
}

/// Lines of block numbers; in the format of the ARC traces, of a first block and a number of blocks.
fn text(lines: &str, extents: bool) -> Vec<u32> {
    let blocks = lines.lines().flat_map(|line| -> Box<dyn Iterator<Item = u32>> {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(first), Some(count)) if extents => Box::new(first..first + count),
            (first, _) => Box::new(first.into_iter()),
        }
    });
    blocks.collect()
}

/// Records of 32 bytes: length in bytes at 4, first sector at 16; blocks of 4 KiB.
fn vscsi(records: &[u8]) -> Vec<u32> {
    let blocks = records.chunks_exact(32).flat_map(|record| {
        let number = |at: usize, bytes: usize| {
            record[at..at + bytes].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
        };
        let (start, length) = (number(16, 8) * 512, number(4, 4).max(1));
        (start / 4096..=(start + length - 1) / 4096).map(|block| block as u32)
    });
    blocks.collect()
}
