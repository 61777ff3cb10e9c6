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
    let faults = Fault::all().map(|fault| (fault, 1)).collect();
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
    for fault in Fault::all() {
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

fn failed(flags: &str, failure: Failure) -> report::Failed {
    let summary = Summary { failed: Some((8, failure)), ..Summary::default() };
    report(flags, summary).failed.expect("it has failed")
}

#[test]
fn a_failure_is_told_on_a_page() {
    // It has not failed at all, so nothing simpler fails.
    let volume = Options::draw(8).world.volumes[0].id;
    let what = format!("n1 gets a card of {volume:?}");
    let first = format!("seed 8: wrong: {what} (judge: takeovers)");
    let what = Observer::Takeovers.finds()(what);
    let page = failed("--no-shrink", Failure::Wrong(what)).page();
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(lines[0], first);
    let options = Options::draw(8).told();
    assert!(lines[1].starts_with("drawn     nodes        "), "{page}");
    for (line, (name, words)) in lines[1..].iter().zip(&options) {
        assert!(line[10..].starts_with(name) && line.ends_with(words.as_str()), "{line}");
    }
    let rest = &lines[1 + options.len()..];
    assert_eq!(rest[0], "replay    check --seed 8");
    assert!(rest[1].starts_with(&format!("story of {volume:?}, the last 24 of ")), "{page}");
    assert_eq!(rest.len(), 2 + story::LAST + 1, "{page}");
    assert!(
        rest.last().unwrap().starts_with(&format!("more: check --seed 8 --about {volume:?} (")),
        "{page}"
    );
    assert!(lines.len() < 60, "no page is that long: {page}");
}

#[test]
fn the_simplest_run_follows_its_replay() {
    let failure = Failure::Wrong("as it was".to_owned());
    let mut failed = failed("--no-shrink", failure.clone());
    (failed.tried, failed.story) = (52, None);
    failed.simplest = Some(("check --seed 8 --no-loss".to_owned(), failure));
    let page = failed.page();
    let end = "replay    check --seed 8\nsimplest  check --seed 8 --no-loss\n          of 52 that were tried, which fails in the same way\n";
    assert!(page.ends_with(end), "{page}");
    failed.simplest = None;
    assert!(failed.page().ends_with("of 52 simpler runs none fails in the same way\n"));
}

#[test]
fn a_story_is_told_of_one_seed_only() {
    let refused =
        |flags: &str| Line::try_parse_from(std::iter::once("check").chain(flags.split(' '))).is_err();
    assert!(refused("--about v0.0") && refused("--from 1") && refused("--seed 1 --about 7"));
    assert!(refused("--seed 1 --about v0.0 --json"));
    assert!(!refused("--seed 1 --about n1 --from 2.8"));
}
