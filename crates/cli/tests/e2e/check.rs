//! `cards check`: what it prints and how it ends.

use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, Process, run};
use crate::harness::{LONG, SHORT, scratch};

#[track_caller]
fn check(arguments: &str) -> Finished {
    let mut argv = vec![CARDS, "check"];
    argv.extend(arguments.split_whitespace());
    run(&argv, LONG)
}

#[test]
fn seeds_pass() {
    let done = check("--seeds 1..5").ok();
    assert!(done.stdout.starts_with("seeds 1..5\n5 of 5 seeds passed in "), "{done}");
    assert!(done.stdout.contains(" operations judged"), "{done}");
    assert!(done.stderr.is_empty(), "progress is for terminals only: {done}");
}

#[test]
fn json_is_one_object() {
    let object = |arguments: &str| -> Value {
        let done = check(arguments).ok();
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
    };
    let many = object("--seeds 1..5 --no-crashes --json");
    assert_eq!((&many["first"], &many["last"], &many["passed"]), (&1.into(), &5.into(), &5.into()));
    assert_eq!((&many["failed"], &many["stopped"]), (&Value::Null, &false.into()));
    assert!(many["faults"].get("Crash").is_none(), "{many}");
    let one = || object("--seed 3 --storm-ms 100 --json");
    assert_eq!(one()["run"], one()["run"], "the same seed gives the same run");
    assert_eq!(one()["run"]["hash"].as_str().unwrap().len(), 16);
}

#[test]
fn the_examples_of_the_help_work() {
    let help = check("--help").ok().stdout;
    let examples = help.split("Examples:").nth(1).expect("examples");
    let lines = || examples.lines().map(str::trim).filter(|line| line.starts_with("cards check "));
    for line in lines() {
        run(&["sh", "-c", &format!("{CARDS} {}", &line["cards ".len()..])], LONG).ok();
    }
    assert_eq!(lines().count(), 3, "{help}");
}

#[test]
fn a_trace_is_of_one_seed() {
    let done = check("--seed 3 --storm-ms 50 --verbose").ok();
    assert!(done.stdout.lines().count() > 100, "{} lines", done.stdout.lines().count());
    assert!(done.stdout.contains("seed 3: passed, "), "the end is missing");
    let done = check("--seeds 1..2 --verbose").fails();
    assert!(done.status.code() == Some(2) && done.stderr.contains("--seed N"), "{done}");
}

#[test]
fn wrong_usage_exits_with_2_and_names_the_value() {
    for (arguments, words) in [
        ("--seeds 5..1", &["--seeds", "5 is greater than 1"][..]),
        ("--seeds 5", &["--seeds", "FIRST..LAST"]),
        ("--seed x", &["--seed", "x"]),
        ("--seed 1 --seeds 1..2", &["--seed", "--seeds"]),
        ("--first", &["--seed"]),
        ("--jobs 0", &["--jobs", "0"]),
        ("--loss 900", &["--loss", "900"]),
        ("--nodes 0", &["--nodes", "0"]),
        ("--policy hsc", &["--policy", "did you mean hscc?"]),
        ("--no-thing", &["--no-thing"]),
    ] {
        let done = check(arguments).fails();
        assert_eq!(done.status.code(), Some(2), "{arguments}: {done}");
        assert!(words.iter().all(|word| done.stderr.contains(word)), "{arguments}: {done}");
        assert!(done.stdout.is_empty(), "{arguments}: {done}");
    }
}

#[test]
fn an_interrupt_prints_what_is_finished() {
    let dir = scratch();
    let argv = [CARDS, "check", "--seeds", "1..1000000", "--jobs", "1", "--json"].map(String::from);
    let mut process = Process::spawn(&argv, &dir.path().join("log"));
    std::thread::sleep(Duration::from_secs(2));
    assert!(process.is_alive(), "{}", process.log());
    process.signal(libc::SIGINT);
    assert_eq!(process.wait(SHORT).code(), Some(130));
    let summary: Value = serde_json::from_str(&process.log()).unwrap();
    assert_eq!(summary["stopped"], true);
    assert!(summary["passed"].as_u64().unwrap() > 0, "{summary}");
}
