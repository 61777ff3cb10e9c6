//! Many requests at once.

use cards_trace::Op;
use proptest::prelude::*;

use super::{BLOCK, Bench};
use crate::engine::Engine;

#[derive(Clone, Copy, Debug)]
enum Act {
    Issue {
        node: u16,
        op: Op,
        offset: u64,
        bytes: u32,
    },
    /// Events happen.
    Steps(u8),
    /// Everything comes to its end.
    Settle,
    /// Syncers wake up.
    Wait,
}

fn act(nodes: u16) -> impl Strategy<Value = Act> {
    let op = prop_oneof![
        6 => Just(Op::Read),
        4 => Just(Op::Write),
        1 => Just(Op::Trim),
        1 => Just(Op::Flush),
        1 => Just(Op::Open),
    ];
    let offset = prop_oneof![
        (0u64..24).prop_map(|block| block * u64::from(BLOCK)),
        0u64..24 * u64::from(BLOCK),
        (0u64..24).prop_map(|run| run << 20),
    ];
    let bytes = prop_oneof![Just(BLOCK), 1..BLOCK, BLOCK..6 * BLOCK];
    prop_oneof![
        8 => (0..nodes, op, offset, bytes)
            .prop_map(|(node, op, offset, bytes)| Act::Issue { node, op, offset, bytes }),
        4 => (1u8..20).prop_map(Act::Steps),
        1 => Just(Act::Settle),
        1 => Just(Act::Wait),
    ]
}

fn go(policy: &str, caches: &[u32], acts: &[Act]) -> (Vec<(u32, u64)>, String) {
    let mut bench = Bench::new(policy, caches);
    let mut done = Vec::new();
    let (mut reads, mut writes) = (0, 0);
    for &act in acts {
        match act {
            Act::Issue { node, op, offset, bytes } => {
                bench.issue(node, op, offset, bytes);
                let blocks = (offset + u64::from(bytes)).div_ceil(BLOCK.into()) - offset / u64::from(BLOCK);
                reads += if op == Op::Read { blocks } else { 0 };
                writes += if op == Op::Write { blocks } else { 0 };
            }
            Act::Steps(steps) => (0..steps).for_each(|_| _ = bench.step()),
            Act::Settle => done.extend(bench.settle()),
            Act::Wait => bench.wait(10),
        }
    }
    done.extend(bench.settle());
    assert_eq!(done.len() as u32, bench.token, "each request is answered once");
    let counts = bench.xfs.counts();
    assert_eq!(counts.local_hits + counts.remote_hits + counts.disk_reads, reads);
    assert_eq!(counts.writes, writes);
    assert!(counts.remote_hits_cleaning <= counts.remote_hits && counts.write_hits <= writes);
    assert!(counts.stored_in_vain <= counts.forwarded && counts.forwarded <= counts.evictions);
    bench.wait(120);
    bench.settle();
    assert!((0..caches.len() as u16).all(|node| bench.xfs.caches.dirty_at(node) == 0));
    let traffic = format!("{counts:?} {:?}", bench.kernel.model.traffic());
    (done.into_iter().map(|(token, at)| (token, at.0)).collect(), traffic)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// XFS-1 to XFS-4: the invariants are checked after every event.
    #[test]
    fn nothing_is_lost_and_tokens_exclude_each_other(
        acts in prop::collection::vec(act(4), 1..120),
        caches in prop::collection::vec(1u32..6, 4),
        policy in prop::sample::select(vec!["xfs", "xfs level=A", "xfs n=1 syncer=1", "xfs n=0", "xfs n=8 level=A clean=written"]),
    ) {
        let once = go(policy, &caches, &acts);
        prop_assert_eq!(once, go(policy, &caches, &acts), "the same in every run");
    }
}
