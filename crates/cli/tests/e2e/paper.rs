//! `cards paper`: what must hold even with small loads, what is written, and how it stops.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, Process, run};
use crate::harness::{LONG, SHORT, eventually, scratch};

#[track_caller]
fn paper(arguments: &[&str]) -> Finished {
    let mut argv = vec![CARDS, "paper"];
    argv.extend(arguments);
    run(&argv, LONG)
}

/// The statements of a fast study: whether each holds.
#[track_caller]
fn verdicts(done: &Finished) -> BTreeMap<String, bool> {
    let value: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"));
    let figures = value["figures"].as_array().unwrap().iter();
    let statements = figures.flat_map(|figure| figure["statements"].as_array().unwrap());
    let verdict = |s: &Value| (s["id"].as_str().unwrap().to_owned(), s["holds"].as_bool().unwrap());
    statements.map(verdict).collect()
}

#[track_caller]
fn assert_hold(verdicts: &BTreeMap<String, bool>, ids: &[&str]) {
    let broken: Vec<&&str> = ids.iter().filter(|id| verdicts.get(**id) != Some(&true)).collect();
    assert!(broken.is_empty(), "{broken:?} do not hold: {verdicts:?}");
}

#[test]
fn scans_hit_as_the_cards_paper_says_even_when_they_are_small() {
    let done = paper(&["cards", "--fast", "--json"]);
    assert!(done.status.success(), "{done}");
    let must = [
        "CARD-T1.1",
        "CARD-T1.2",
        "CARD-T1.3",
        "CARD-F2.1",
        "CARD-F2.2",
        "CARD-F2.6",
        "CARD-F3.2",
        "CARD-F3.3",
        "CARD-F3.4",
        "CARD-F4.1",
        "CARD-F5.2",
        "CARD-F5.3",
    ];
    assert_hold(&verdicts(&done), &must);
}

/// What the short traces can show: they hardly fill the caches of PM, and those of NOW not at all.
#[test]
fn the_pafs_study_runs_to_its_end_when_it_is_small() {
    let done = paper(&["pafs", "--fast", "--json"]);
    assert!(done.status.success(), "{done}");
    assert_hold(
        &verdicts(&done),
        &["PAFS-T1", "PAFS-T2", "PAFS-E.2", "PAFS-F2.3", "PAFS-F4.2", "PAFS-F5.3", "PAFS-F6.1", "PAFS-F7.2"],
    );
}

/// What a whole study finds. The page and the so many pictures in `docs/papers` are those of this version.
#[track_caller]
fn verdicts_as_committed(name: &str, pictures: usize) -> BTreeMap<String, bool> {
    let directory = scratch();
    let out = directory.path();
    let done = paper(&[name, "--json", "--out", out.to_str().unwrap()]);
    assert!(done.status.success(), "{done}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers");
    let plots = fs::read_dir(out.join("plots"))
        .unwrap()
        .map(|entry| Path::new("plots").join(entry.unwrap().file_name()));
    let files: Vec<_> = plots.chain([format!("{name}.md").into()]).collect();
    assert_eq!(files.len(), pictures + 1);
    for file in files {
        let read = |directory: &Path| fs::read_to_string(directory.join(&file)).unwrap();
        assert!(read(out) == read(&golden), "{}: run `cards paper {name} --out docs/papers`", file.display());
    }
    verdicts(&done)
}

/// The orders of bandwidths, whatever they are.
#[test]
fn arrays_scale_as_the_single_io_space_paper_says() {
    let must = [
        "SIOS-F6a.1",
        "SIOS-F6a.2",
        "SIOS-F6a.3",
        "SIOS-F6b.1",
        "SIOS-F6b.3",
        "SIOS-F7a.1",
        "SIOS-F7b.1",
        "SIOS-F7b.2",
        "SIOS-F7c.1",
        "SIOS-F7c.2",
    ];
    assert_hold(&verdicts_as_committed("sios", 6), &must);
}

/// The orders of deliveries and disks.
#[test]
fn web_servers_read_remote_disks_as_far_as_the_driver_paper_says() {
    let must =
        ["RDD-F2.1", "RDD-F2.2", "RDD-F2.5", "RDD-F3.1", "RDD-F3.6", "RDD-F3.7", "RDD-F5.1", "RDD-F5.2"];
    assert_hold(&verdicts_as_committed("rdd", 8), &must);
}

#[test]
fn the_page_and_its_pictures_are_written_and_the_same_with_any_number_of_jobs() {
    let written = |jobs: &str| -> BTreeMap<String, String> {
        let directory = scratch();
        let out = directory.path().join("new/papers");
        let done = paper(&["cards", "--fast", "--jobs", jobs, "--out", out.to_str().unwrap()]);
        assert!(done.status.success() && done.stdout.contains("statements hold"), "{done}");
        let names = ["cards.md", "plots/cards-hits.svg", "plots/cards-times-hscc.svg"];
        names.map(|name| (name.to_owned(), fs::read_to_string(out.join(name)).unwrap())).into()
    };
    let one = written("1");
    assert!(
        one["cards.md"].contains("](plots/cards-hits.svg)")
            && one["plots/cards-hits.svg"].ends_with("</svg>\n")
    );
    assert_eq!(one, written("3"));
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_before_the_work() {
    let done = paper(&["pafs", "--out", "/proc/papers"]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.contains("/proc/papers") && done.stderr.contains("--out"), "{done}");
}

#[test]
fn an_interrupt_stops_the_study_and_writes_nothing() {
    let directory = scratch();
    let (log, out) = (directory.path().join("log"), directory.path().join("papers"));
    let argv = [CARDS, "paper", "pafs", "--out", out.to_str().unwrap()].map(String::from);
    let mut study = Process::spawn(&argv, &log);
    eventually("a study that has begun", SHORT, || out.join("plots").is_dir().then_some(()));
    study.signal(libc::SIGINT);
    assert_eq!(study.wait(SHORT).code(), Some(130), "{}", study.log());
    assert!(!out.join("pafs.md").exists());
}
