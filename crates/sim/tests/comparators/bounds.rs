//! No policy has more hits than a cache of the same size that knows the future.

use cards_policies::policy;
use cards_sim::{Report, RunError, Setup, SetupError, Timing, run_from};
use cards_trace::{Op, Request, Source};

use super::list::{Draw, Listed, request, setup};

const NODES: u16 = 4;
const BLOCKS: u64 = 80;

/// A trace in which some blocks are hot, some are scanned by one node after the other, and some are written.
fn trace(seed: u64, writes: u64) -> Vec<Request> {
    let mut draw = Draw(seed);
    let mut requests = Vec::new();
    let mut scan = [0; NODES as usize];
    for _ in 0..300 {
        let node = draw.below(NODES.into()) as u16;
        let op = if draw.below(100) < writes { Op::Write } else { Op::Read };
        let (block, blocks) = match draw.below(3) {
            0 => (draw.below(20), 1),
            1 => {
                let at = &mut scan[usize::from(node)];
                *at = (*at + 3) % (BLOCKS - 3);
                (*at, 3)
            }
            _ => (draw.below(BLOCKS - 4), 1 + draw.below(4)),
        };
        requests.push(request(node, op, block, blocks));
    }
    requests
}

fn go(setup: &Setup, requests: &[Request]) -> Option<Report> {
    let mut open = || -> Result<Box<dyn Source>, _> { Ok(Box::new(Listed::new(requests))) };
    match run_from(setup, "list", &mut open, &mut ()) {
        Ok(report) => Some(report),
        // What the simulator alone can run, and cannot run yet.
        Err(RunError::Setup(SetupError::Policy(policy::PolicyError::SimulatorOnly { .. }))) => None,
        Err(error) => panic!("{}: {error}", setup.policy),
    }
}

fn hits(report: &Report) -> u64 {
    report.local_hits + report.remote_hits
}

fn write_hits(report: &Report) -> u64 {
    report.more["write_hits"]
}

#[test]
fn no_policy_has_more_read_hits_than_opt() {
    let policies: Vec<&str> = policy::registry().iter().map(|entry| entry.name).collect();
    for (seed, writes, blocks) in [(1, 0, 5), (2, 20, 12), (3, 50, 20), (4, 10, 1)] {
        let requests = trace(seed, writes);
        let setup = |policy: &str| Setup { timing: Timing::Serial, ..setup(policy, NODES, blocks) };
        let opt = go(&setup("opt"), &requests).unwrap();
        let all = go(&setup("opt count=references"), &requests).unwrap();
        assert!(hits(&opt) > 0 || blocks == 1);
        for policy in
            policies.iter().copied().chain(["xfs level=A", "xfs n=0", "nchance n=0", "hscc load=free"])
        {
            let Some(report) = go(&setup(policy), &requests) else { continue };
            let reads = hits(&report) + report.disk_reads;
            assert_eq!(reads, hits(&opt) + opt.disk_reads, "{policy}: every block read is counted");
            assert!(
                hits(&report) <= hits(&opt),
                "{policy}, {blocks} blocks at each of {NODES} nodes, seed {seed}: {} hits, opt has {}",
                hits(&report),
                hits(&opt)
            );
            let total = hits(&report) + write_hits(&report);
            assert!(total <= hits(&all) + write_hits(&all), "{policy}: reads and writes together");
        }
    }
}
