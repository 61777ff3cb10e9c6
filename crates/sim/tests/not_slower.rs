//! Cooperation where it pays beside none: on no load and no machine may it cost more than it brings.

use cards_core::Coherence;
use cards_sim::{Library, Setup, run};
use cards_trace::{Options, open};

/// Cooperates where that pays.
const MEASURED: &str = "hscc homes=run ask=measured";
/// Of the mean read time of `rd`. These loads are short, so what finding out costs is a larger part of them than of those in
/// `docs/internals/benchmarks.md`. (Asking homes always: up to 4 times.)
const AT_MOST: f64 = 1.06;

/// What is read, by how many nodes, with blocks and caches of so many KiB.
const LOADS: [(&str, u16, u32, u32); 6] = [
    ("gen:scan:mb=8", 3, 4, 2_048),
    ("gen:scan:mb=8", 3, 64, 2_048),
    ("gen:oltp:requests=10k,bytes=16MiB", 4, 8, 512),
    ("gen:webstone:bytes=16MiB,connections=8", 4, 64, 2_048),
    ("gen:boot:nodes=6,hot=4MiB,private=256KiB", 6, 16, 1_024),
    ("gen:training:samples=80,mode=replicated,nodes=4", 4, 64, 4_096),
];

#[test]
fn cooperation_where_it_pays_reads_no_more_slowly_than_none() {
    let mut slower = Vec::new();
    for (trace, nodes, block_kib, cache_kib) in LOADS {
        for machine in Library::default().iter() {
            let mean = |policy: &str| {
                let setup = Setup {
                    nodes,
                    block_bytes: block_kib << 10,
                    cache_blocks: vec![cache_kib / block_kib],
                    coherence: Coherence::Confirmed,
                    ..Setup::new(machine.clone(), policy)
                };
                let mut source = open(trace, &Options::default()).unwrap();
                run(&setup, trace, source.as_mut(), &mut ()).unwrap().read_mean_us
            };
            let ratio = mean(MEASURED) / mean("rd");
            if ratio > AT_MOST {
                slower.push(format!("{trace}, {}: {ratio:.3} of rd", machine.name));
            }
        }
    }
    assert!(slower.is_empty(), "{}", slower.join("\n"));
}
