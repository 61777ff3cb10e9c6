//! What seeds have come to, and the exit status that says it.

use clap::Parser as _;

use super::*;
use crate::checkers::Observer;
use crate::faults::Fault;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    command: Command,
}

/// All seeds have passed, and everything has happened in them.
fn full(passed: u64) -> Summary {
    let faults = Fault::ALL.map(|fault| (fault, 1)).into();
    let judged = Observer::ALL.map(|observer| (observer, 1)).into();
    Summary { passed, faults, judged, ..Summary::default() }
}

fn report_when(stop: bool, flags: &str, summary: Summary) -> Report {
    let words = std::iter::once("check").chain(flags.split_whitespace());
    let Line { command } = Line::parse_from(words);
    let stop = AtomicBool::new(stop);
    let caller = Caller { program: "check", verbose: false, stop: &stop };
    command.report(command.seeds.clone(), summary, None, Instant::now(), &caller)
}

fn report(flags: &str, summary: Summary) -> Report {
    report_when(false, flags, summary)
}

fn status(report: &Report) -> u8 {
    report.verdict().exit_code()
}

#[test]
fn each_kind_of_failure_has_a_status_of_its_own() {
    assert_eq!(status(&report("", full(200))), 0);
    for (failure, code) in [
        (Failure::Wrong("old data".into()), 1),
        (Failure::Stuck("no answer".into()), 3),
        (Failure::Crashed("out of bounds".into()), 4),
    ] {
        // Also when nothing else has happened before.
        for before in [full(7), Summary::default()] {
            let failed = report("--no-shrink", Summary { failed: Some((8, failure.clone())), ..before });
            assert_eq!(status(&failed), code, "{failure:?}");
            assert_eq!(failed.failed.unwrap().replay, "check --seed 8");
        }
    }
    assert_eq!(status(&report_when(true, "", full(7))), 130);
    assert_eq!(status(&report_when(true, "", full(200))), 0, "it was stopped after the last seed");
}

#[test]
fn a_fault_that_never_happened_is_told_by_name_and_fails_the_whole() {
    for fault in Fault::ALL {
        let mut summary = full(200);
        summary.faults.remove(&fault);
        let untested = report("", summary);
        assert_eq!((status(&untested), &untested.missing[..]), (5, &[fault][..]));
        assert_eq!(untested.idle, []);
    }
}

#[test]
fn an_observer_that_had_nothing_to_judge_is_told_by_name_and_fails_the_whole() {
    for observer in Observer::ALL {
        let mut summary = full(200);
        summary.judged.remove(&observer);
        let untested = report("", summary);
        assert_eq!((status(&untested), &untested.idle[..]), (5, &[observer][..]));
        assert_eq!(untested.missing, []);
    }
}

/// They need not have all; and a failure says more than what has not happened.
#[test]
fn of_few_seeds_or_overridden_ones_nothing_is_demanded() {
    let empty = |passed| Summary { passed, ..Summary::default() };
    assert_eq!(status(&report("", empty(200))), 5);
    assert_eq!(status(&report("--seeds 1..199", empty(199))), 0);
    assert_eq!(status(&report("--no-loss", empty(200))), 0);
    let failed = Summary { failed: Some((200, Failure::Stuck("no answer".into()))), ..empty(199) };
    assert_eq!(status(&report("--no-shrink", failed)), 3);
}

#[test]
fn a_run_in_which_nobody_lives_is_stuck() {
    let mut options = Options::draw(1);
    options.world.nodes.clear();
    let failure = run_caught(options, Trace::hashed()).unwrap_err();
    assert_eq!(Verdict::from(&failure), Verdict::Stuck, "{failure}");
}
