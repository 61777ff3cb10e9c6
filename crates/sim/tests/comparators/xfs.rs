//! xFS as a whole.

use std::time::Duration;

use cards_sim::{Report, Setup, Timing, run};
use cards_trace::{Op, Request};

use super::list::{BLOCK, Draw, Listed, request, setup};

fn trace(seed: u64) -> Vec<Request> {
    let mut draw = Draw(seed);
    let mut requests = Vec::new();
    for number in 0..1500u64 {
        let node = draw.below(6) as u16;
        let op = [Op::Read, Op::Read, Op::Write, Op::Open, Op::Close, Op::Trim, Op::Flush];
        let op = op[(draw.below(40) / 8) as usize % 3 + if draw.below(20) == 0 { 3 } else { 0 }];
        let whole = request(node, op, draw.below(300), 1 + draw.below(5));
        requests.push(Request {
            process: u32::from(node) * 8 + draw.below(3) as u32,
            offset: whole.offset + draw.below(2) * 100,
            bytes: whole.bytes - draw.below(2) as u32 * (BLOCK / 2),
            time: Duration::from_millis(number * 20),
            ..whole
        });
    }
    requests
}

fn go(setup: &Setup, requests: &[Request]) -> Report {
    let report = run(setup, "list", &mut Listed::new(requests), &mut ()).unwrap();
    // Real time is no result.
    Report { wall_s: 0.0, requests_per_s: 0.0, ..report }
}

#[test]
fn every_block_is_answered_once_and_the_same_way_in_every_run() {
    let requests = trace(7);
    let blocks = |op| {
        let of_op = requests.iter().filter(|request| request.op == op);
        of_op.map(|request| request.blocks(BLOCK)).map(|blocks| blocks.end - blocks.start).sum::<u64>()
    };
    for policy in ["xfs", "xfs level=A", "xfs n=0 syncer=1"] {
        for timing in [Timing::Trace, Timing::Fast, Timing::Serial] {
            let setup = Setup { timing, ..setup(policy, 6, 20) };
            let report = go(&setup, &requests);
            assert_eq!(report.local_hits + report.remote_hits + report.disk_reads, blocks(Op::Read));
            let more = &report.more;
            assert_eq!(more["writes"], blocks(Op::Write));
            assert!(more["ownership_requests"] > 0 && more["invalidations"] > 0 && more["write_fills"] > 0);
            assert_eq!(report.forwarded > 0, !policy.contains("n=0"));
            assert!(report.disk_writes > 0);
            assert_eq!(report, go(&setup, &requests), "{policy}");
        }
    }
}

#[test]
fn the_seed_chooses_where_blocks_are_forwarded_to() {
    let requests = trace(8);
    let of_seed = |seed| Report { seed: 0, ..go(&Setup { seed, ..setup("xfs", 6, 20) }, &requests) };
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
}

#[test]
fn tables_are_small() {
    let requests: Vec<Request> =
        (0..3000).map(|block| request(block as u16 % 4, Op::Read, block, 1)).collect();
    let report = go(&setup("xfs", 4, 600), &requests);
    assert!(report.table_bytes_per_block < 100.0, "{}", report.table_bytes_per_block);
}
