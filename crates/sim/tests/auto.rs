//! `auto`: a policy that is chosen while the trace runs.

use cards_core::Coherence;
use cards_policies::Replacement;
use cards_policies::policy::START;
use cards_sim::{Library, Report, Setup, Timing, run};
use cards_trace::{Options, open};

/// What `auto` may take more than the best of two policies, learning included.
const MORE: f64 = 1.10;

fn go(trace: &str, machine: &str, policy: &str, (nodes, cache, block): (u16, u32, u32)) -> Report {
    let setup = Setup {
        nodes,
        block_bytes: block,
        cache_blocks: vec![cache],
        replacement: Replacement::S3Fifo,
        coherence: Coherence::Confirmed,
        timing: Timing::Fast,
        check: true,
        ..Setup::new(Library::default().find(machine).unwrap().clone(), policy)
    };
    let mut source = open(trace, &Options { block_bytes: Some(block), ..Options::default() }).unwrap();
    run(&setup, trace, source.as_mut(), &mut ()).unwrap()
}

#[test]
fn it_is_near_the_best_of_policies_that_suit_different_disks_and_loads() {
    let loads = [
        ("gen:training:samples=300,mode=replicated", "lan10-cloud", (8, 128, 65_536), "single", "rd"),
        ("gen:oltp:requests=40k,bytes=32MiB", "lan25", (4, 212, 8192), "rd", "nchance"),
    ];
    for (trace, machine, shape, good, bad) in loads {
        let us = |policy: &str| go(trace, machine, policy, shape).read_mean_us;
        let (auto, best) = (us("auto"), us(good));
        assert!(auto <= MORE * best, "{trace}, {machine}: {auto} us, {good} {best} us");
        assert!(auto < us(bad), "{trace}, {machine}: {auto} us, {bad}");
    }
}

/// Eight nodes read a volume four times as large as a cache, one 90 ms after the other. With caches that hold it all, the disk of one without
/// cooperation reads each block once.
#[test]
fn a_fleet_reads_a_slow_origin_about_once() {
    let busy_s = |policy: &str, cache: u32| {
        let setup = Setup {
            nodes: 8,
            block_bytes: 65_536,
            cache_blocks: vec![cache],
            replacement: Replacement::S3Fifo,
            coherence: Coherence::Confirmed,
            timing: Timing::Trace,
            ..Setup::new(Library::default().find("lan10-cloud").unwrap().clone(), policy)
        };
        let trace = "gen:fleet:apart=90ms,compute=2ms,slower=0.3";
        let options = Options { block_bytes: Some(65_536), ..Options::default() };
        let report = run(&setup, trace, open(trace, &options).unwrap().as_mut(), &mut ()).unwrap();
        report.disk_busy * report.simulated_s
    };
    let once = busy_s("rd", 4096);
    let auto = busy_s("auto", 1024);
    assert!(auto <= 1.05 * once, "{auto} s, {once} s if each block is read once");
    assert!(busy_s("rd", 1024) > 1.5 * once, "a plain remote disk reads it more than once");
}

/// Fifty nodes read a volume at the same time: those that receive it pass it on, and nobody waits in a circle, however little the homes do themselves.
#[test]
fn a_crowd_is_not_as_slow_as_the_links_of_homes() {
    let go = |policy: &str, machine: &str| {
        let setup = Setup {
            nodes: 50,
            block_bytes: 65_536,
            cache_blocks: vec![256],
            replacement: Replacement::S3Fifo,
            coherence: Coherence::Confirmed,
            timing: Timing::Trace,
            ..Setup::new(Library::default().find(machine).unwrap().clone(), policy)
        };
        let trace = "gen:fleet:nodes=50,bytes=64MiB";
        let options = Options { block_bytes: Some(65_536), ..Options::default() };
        run(&setup, trace, open(trace, &options).unwrap().as_mut(), &mut ()).unwrap()
    };
    for machine in ["lan25", "lan10-cloud"] {
        let homes = go("single ask=home answers=255", machine).simulated_s;
        for answers in [1, 4] {
            let crowd = go(&format!("single ask=home answers={answers}"), machine).simulated_s;
            assert!(crowd < homes / 2.0, "{machine}, answers={answers}: {crowd} s, {homes} s");
        }
    }
}

#[test]
fn a_report_says_what_was_in_force_and_two_runs_agree() {
    let run = || go("gen:oltp:requests=40k,bytes=32MiB", "lan25", "auto", (4, 212, 8192));
    let (one, other) = (run(), run());
    assert_eq!((one.choices[0].requests, one.choices[0].policy.as_str()), (0, START));
    assert!(one.choices.len() > 1 && one.choices.windows(2).all(|pair| pair[0].policy != pair[1].policy));
    assert_eq!((one.choices, one.read_mean_us), (other.choices, other.read_mean_us));
    let fixed = go("gen:oltp:requests=1k", "lan25", "rd", (4, 212, 8192));
    assert!(fixed.choices.is_empty());
}
