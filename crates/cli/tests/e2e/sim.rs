//! `cards sim` and `cards trace`: the tables, the interfaces for programs, and what happens to wrong input.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, Process, run};
use crate::harness::tools::need;
use crate::harness::{LONG, SHORT, scratch};

/// A trace that takes no time.
const TRACE: &str = "gen:oltp:nodes=3,bytes=4MiB,requests=3000";

#[track_caller]
fn cards(arguments: &[&str]) -> Finished {
    let mut argv = vec![CARDS];
    argv.extend(arguments);
    run(&argv, LONG)
}

/// `cards sim` on the small trace, with further arguments.
#[track_caller]
fn sim(arguments: &str) -> Finished {
    let mut argv = vec!["sim", TRACE, "--nodes", "3", "--block", "4K"];
    argv.extend(arguments.split_whitespace());
    cards(&argv)
}

/// The rows of `--json`.
#[track_caller]
fn runs(done: &Finished) -> Vec<Value> {
    let value: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"));
    let object = value.as_object().unwrap();
    assert_eq!(object.keys().collect::<Vec<_>>(), ["runs"]);
    object["runs"].as_array().unwrap().clone()
}

fn without_wall(mut row: Value) -> Value {
    for name in ["wall_s", "requests_per_s"] {
        row[name] = Value::Null;
    }
    row
}

const NAMES: [&str; 35] = [
    "trace",
    "machine",
    "policy",
    "replacement",
    "nodes",
    "cache_bytes",
    "block_bytes",
    "requests",
    "read_requests",
    "write_requests",
    "blocks",
    "local_hits",
    "remote_hits",
    "disk_reads",
    "disk_writes",
    "global_hit_ratio",
    "read_mean_us",
    "read_p50_us",
    "read_p99_us",
    "write_mean_us",
    "messages",
    "bytes_moved",
    "forwarded",
    "stored_for_others",
    "disk_busy",
    "network_busy",
    "simulated_s",
    "wall_s",
    "requests_per_s",
    "table_bytes_per_block",
    "skipped",
    "seed",
    "policy_failure",
    "choices",
    "more",
];

#[test]
fn the_table_has_a_row_for_each_combination_and_fits_a_terminal() {
    let done = sim("--policy rd,hscc --cache 256K,1M").ok();
    let rows: Vec<&str> =
        done.stdout.lines().filter(|line| line.starts_with("  rd ") || line.starts_with("  hscc ")).collect();
    assert_eq!(rows.len(), 4, "{done}");
    for words in
        ["machine lan25", "nodes 3", "block 4 KiB", "replacement lru", "256 KiB", "1 MiB", " %", " us"]
    {
        assert!(done.stdout.contains(words), "{words}: {done}");
    }
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 100), "{done}");
}

#[test]
fn json_has_exactly_the_names_of_the_reference() {
    let done = sim("--policy hscc --cache 256K,1M --seed 7 --json").ok();
    let rows = runs(&done);
    assert_eq!(rows.len(), 2);
    let mut expected = NAMES.to_vec();
    expected.sort_unstable();
    for row in &rows {
        let mut names: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, expected);
    }
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sim.md")).unwrap();
    for name in expected.into_iter().chain(rows[0]["more"].as_object().unwrap().keys().map(String::as_str)) {
        assert!(page.contains(&format!("`{name}`")), "docs/reference/sim.md does not say what `{name}` is");
    }
    let row = &rows[0];
    assert_eq!((&row["trace"], &row["policy"], &row["seed"]), (&TRACE.into(), &"hscc".into(), &7.into()));
    assert_eq!((&row["cache_bytes"], &row["requests"]), (&(256 << 10).into(), &3000.into()));
}

#[test]
fn csv_has_the_same_columns_and_rows() {
    let csv = sim("--policy rd --cache 256K,1M --csv").ok().stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    let names: Vec<&str> = lines[0].split(',').filter(|name| !name.starts_with("more.")).collect();
    assert_eq!(names, NAMES[..NAMES.len() - 1]);
    assert!(lines[1].starts_with(&format!("\"{TRACE}\",lan25,rd,lru,3,262144,4096,3000,")), "{csv}");
}

#[test]
fn a_replacement_can_remember_evicted_blocks_as_published() {
    let rows = runs(&sim("--policy rd --cache 64K --replacement arc --json").ok());
    assert_eq!(rows[0]["replacement"], "arc");
    let done = cards(&[
        "sim",
        TRACE,
        "--nodes",
        "3",
        "--block",
        "4K",
        "--policy",
        "rd",
        "--cache",
        "1M",
        "--json",
        "--replacement",
        "s3-fifo,arc ghosts=exact",
    ]);
    let names: Vec<Value> = runs(&done.ok()).into_iter().map(|mut row| row["replacement"].take()).collect();
    assert_eq!(names, ["s3-fifo", "arc ghosts=exact"]);
}

/// As published; nodes search 64 blocks unless told otherwise.
#[test]
fn n_chance_searches_the_whole_cache_unless_told_otherwise() {
    let argv = ["sim", TRACE, "--nodes", "3", "--block", "4K", "--cache", "1M", "--json", "--policy"];
    let done = cards(&[&argv[..], &["nchance,nchance search=64,nchance n=1"]].concat());
    let names: Vec<Value> = runs(&done.ok()).into_iter().map(|mut row| row["policy"].take()).collect();
    assert_eq!(names, ["nchance search=all", "nchance search=64", "nchance n=1 search=all"]);
}

#[test]
fn the_rows_do_not_depend_on_the_number_of_jobs() {
    let rows = |jobs: &str| -> Vec<Value> {
        let done = sim(&format!("--policy rd,hscc,pafs,opt --cache 64K,256K --json --jobs {jobs}")).ok();
        runs(&done).into_iter().map(without_wall).collect()
    };
    assert_eq!(rows("1"), rows("4"));
}

#[test]
fn a_warm_up_is_not_measured() {
    for (amount, measured) in [("1000", 2000..=2000), ("30%", 2099..=2101)] {
        let rows =
            runs(&sim(&format!("--policy rd --cache 1M --timing serial --warmup {amount} --json")).ok());
        assert!(
            measured.contains(&rows[0]["requests"].as_u64().unwrap()),
            "{amount}: {}",
            rows[0]["requests"]
        );
    }
}

#[test]
fn a_cache_can_be_a_share_of_the_footprint_or_one_for_each_node() {
    let rows = runs(&sim("--policy rd --cache 10%,64K+128K+64K --json").ok());
    let share = rows[0]["cache_bytes"].as_u64().unwrap();
    assert!((100 << 10..900 << 10).contains(&share) && share.is_multiple_of(4096), "{share}");
    assert_eq!(rows[1]["cache_bytes"], 64 << 10);
}

#[test]
fn a_plot_is_a_picture() {
    let dir = scratch();
    for (name, caches) in [("lines.svg", "64K,256K,1M"), ("bars.svg", "256K")] {
        let path = dir.path().join(name);
        sim(&format!("--policy rd,hscc --cache {caches} --plot {}", path.display())).ok();
        let svg = fs::read_to_string(&path).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>") && svg.contains("hscc"));
    }
    need!("rsvg-convert");
    for name in ["lines.svg", "bars.svg"] {
        let (svg, png) = (dir.path().join(name), dir.path().join("plot.png"));
        run(&["rsvg-convert", svg.to_str().unwrap(), "-o", png.to_str().unwrap()], SHORT).ok();
        assert!(fs::metadata(png).unwrap().len() > 1000);
    }
}

#[test]
fn a_scenario_says_the_same_as_flags() {
    let dir = scratch();
    let (written, saved) = (dir.path().join("study.toml"), dir.path().join("saved.toml"));
    let text = format!(
        "trace = '{TRACE}'\nmachine = 'rack'\nnodes = 3\nblock = '4K'\npolicy = ['rd', 'hscc depth=3']\n\
         cache = ['64K', '256K']\n[machines.rack]\nbase = 'lan25'\nservice_us = 5\n"
    );
    fs::write(&written, text).unwrap();
    let rows = |file: &Path, more: &[&str]| {
        let mut argv = vec!["sim", "--json", "--scenario", file.to_str().unwrap()];
        argv.extend(more);
        runs(&cards(&argv).ok()).into_iter().map(without_wall).collect::<Vec<_>>()
    };
    let first = rows(&written, &["--save-scenario", saved.to_str().unwrap()]);
    assert_eq!(first.len(), 4);
    assert_eq!((&first[3]["policy"], &first[3]["machine"]), (&"hscc depth=3".into(), &"rack".into()));
    assert_eq!(rows(&saved, &["--machine-file", &machines_of(&written, dir.path())]), first);
    assert_eq!(rows(&written, &["--policy", "rd", "--cache", "64K"]), first[..1]);
}

/// A file with nothing but the machines of a scenario.
fn machines_of(scenario: &Path, directory: &Path) -> String {
    let text = fs::read_to_string(scenario).unwrap();
    let path = directory.join("machines.toml");
    fs::write(&path, &text[text.find("[machines").unwrap()..]).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_interrupt_prints_what_is_finished() {
    let dir = scratch();
    let log = dir.path().join("log");
    // The second trace has no end that anybody would see.
    let argv =
        [CARDS, "sim", TRACE, "gen:oltp:nodes=3,requests=all", "--fold", "--nodes", "3", "--jobs", "1"];
    let mut argv: Vec<String> = argv.map(String::from).into();
    argv.extend(["--policy", "rd", "--cache", "1M", "--json", "--spread", "client"].map(String::from));
    let mut process = Process::spawn(&argv, &log);
    std::thread::sleep(Duration::from_secs(3));
    assert!(process.is_alive(), "{}", process.log());
    process.signal(libc::SIGINT);
    let status = process.wait(SHORT);
    assert_eq!(status.code(), Some(130));
    let rows: Value = serde_json::from_str(&process.log()).unwrap();
    assert_eq!(rows["runs"].as_array().unwrap().len(), 1, "{rows}");
    assert_eq!(rows["runs"][0]["trace"], TRACE);
}

/// Missing, damaged at once, and damaged far behind: with and without a look at the traces before.
#[test]
fn a_trace_that_cannot_be_read_costs_its_own_rows_only() {
    let dir = scratch();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let good = (0..20_001).map(|i| format!("{i}\n")).collect::<String>();
    fs::write(path("late.lirs"), format!("{good}x\n")).unwrap();
    fs::write(path("bad.lirs"), "x\n").unwrap();
    for (trace, words) in
        [(path("missing"), "No such file"), (path("bad.lirs"), "line 1:"), (path("late.lirs"), "line 20002:")]
    {
        for arguments in ["", "--cache 10%", "--spread client --cache 64K"] {
            let mut argv =
                vec!["sim", &trace, TRACE, "--format", "lirs", "--nodes", "3", "--policy", "rd", "--json"];
            argv.extend(arguments.split_whitespace());
            let done = cards(&argv).fails();
            assert!(done.status.code() == Some(1) && done.stderr.contains(words), "{arguments}: {done}");
            let rows = runs(&done);
            assert!(rows.len() == 1 && rows[0]["trace"] == TRACE, "{arguments}: {done}");
        }
    }
    let done = cards(&["sim", "/no/such/trace", "--json"]).fails();
    assert_eq!((done.status.code(), runs(&done).len()), (Some(1), 0), "{done}");
}

#[test]
fn wrong_values_exit_with_2_and_name_the_remedy() {
    for (arguments, words) in [
        ("--policy hsc", &["unknown policy `hsc`", "hscc"][..]),
        ("--policy hscc,dept=3", &["unknown policy `dept=3`"]),
        ("--policy rd,,hscc", &["--policy", "empty"]),
        ("--cache 1K", &["--cache", "1K", "block of 4 KiB", "--block"]),
        ("--cache 4Q", &["--cache", "4Q"]),
        ("--cache 1M+1M+1M+1M", &["cache", "4 sizes for 3 nodes"]),
        ("--cache 1M+1M", &["cache", "2 sizes for 3 nodes", "one for each"]),
        ("--machine lan-25", &["unknown machine `lan-25`", "did you mean lan25?"]),
        ("--replacement lur", &["--replacement", "lur", "lru"]),
        ("--timing serail", &["--timing", "did you mean serial?"]),
        ("--spread robin", &["--spread", "round-robin"]),
        ("--format mrs", &["--format", "msr"]),
        ("--warmup 100%", &["--warmup", "100%"]),
        ("--disk-nodes 4", &["disk nodes", "4"]),
        ("--shards 3", &["shards", "3", "power of two"]),
        ("--seed x", &["--seed", "x"]),
    ] {
        let done = sim(arguments).fails();
        assert_eq!(done.status.code(), Some(2), "{arguments}: {done}");
        assert!(words.iter().all(|word| done.stderr.contains(word)), "{arguments}: {done}");
        assert!(done.stdout.is_empty(), "{arguments}: {done}");
    }
    for (arguments, words) in [
        (&["sim"][..], &["no trace", "gen:"][..]),
        (&["sim", TRACE, "--nodes", "2"], &["--nodes 2", "3 nodes", "--nodes 3", "--fold"]),
        (&["sim", "gen:olpt"], &["gen:olpt", "oltp"]),
        (&["sim", TRACE, "--nodes", "0"], &["--nodes", "1 to 1023"]),
        (&["sim", TRACE, "--block", "3000"], &["--block", "power of two"]),
        (&["sim", "machines", "lan-25"], &["did you mean lan25?"]),
        (&["trace", "generators", "olpt"], &["did you mean oltp?"]),
        (&["trace", "info", TRACE, "--block", "1"], &["--block", "power of two"]),
    ] {
        let done = cards(arguments).fails();
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {done}");
        assert!(words.iter().all(|word| done.stderr.contains(word)), "{arguments:?}: {done}");
    }
    let done = cards(&["sim", "/no/such/trace"]).fails();
    assert!(done.status.code() == Some(1) && done.stderr.contains("/no/such/trace"), "{done}");
}

#[test]
fn the_examples_of_the_help_work() {
    let help = cards(&["sim", "--help"]).ok().stdout;
    let examples = help.split("Examples:").nth(1).expect("examples").replace("\\\n", " ");
    let dir = scratch();
    let mut count = 0;
    for line in examples.lines().map(str::trim).filter(|line| line.starts_with("cards sim ")) {
        let command = format!("cd {} && {CARDS} {}", dir.path().display(), &line["cards ".len()..]);
        run(&["sh", "-c", &command], LONG).ok();
        count += 1;
    }
    assert_eq!(count, 3, "{help}");
    assert!(dir.path().join("oltp.svg").exists());
}

#[test]
fn machines_are_shown_with_their_sources() {
    let list = cards(&["sim", "machines"]).ok();
    for name in ["pm", "now", "cards2003", "sios1999", "lan10", "lan25-cloud", "lan100-object"] {
        assert!(list.stdout.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {list}");
    }
    let now = cards(&["sim", "machines", "now"]).ok();
    assert!(now.stdout.contains("19.4  MB/s") && now.stdout.contains("Table 2"), "{now}");
    let json: Value =
        serde_json::from_str(&cards(&["sim", "machines", "now", "--json"]).ok().stdout).unwrap();
    assert_eq!(json["machines"][0]["remote_port_us"], 100.0);
    assert!(json["machines"][0]["sources"]["disks"].as_str().unwrap().contains("Table 2"));
}

#[test]
fn a_converted_trace_is_the_same_trace() {
    let dir = scratch();
    let recording = dir.path().join("oltp.cards");
    let path = recording.to_str().unwrap();
    let done = cards(&["trace", "convert", TRACE, path]).ok();
    assert!(done.stdout.contains("3 000 requests"), "{done}");
    let again = cards(&["trace", "convert", TRACE, path]).fails();
    assert!(again.status.code() == Some(2) && again.stderr.contains("--force"), "{again}");
    cards(&["trace", "convert", TRACE, path, "--force"]).ok();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something is left over");

    let info = |trace: &str| {
        let done = cards(&["trace", "info", trace, "--json"]).ok();
        let mut value: Value = serde_json::from_str(&done.stdout).unwrap();
        value["trace"] = Value::Null;
        value
    };
    assert_eq!(info(path), info(TRACE));
    assert_eq!(info(path)["requests"], 3000);

    let row = |trace: &str| {
        let done = cards(&[
            "sim", trace, "--nodes", "3", "--policy", "hscc", "--cache", "256K", "--block", "4K", "--json",
        ])
        .ok();
        let mut row = without_wall(runs(&done).remove(0));
        row["trace"] = Value::Null;
        row
    };
    assert_eq!(row(path), row(TRACE));
}

#[test]
fn formats_and_generators_are_listed() {
    let formats = cards(&["trace", "formats"]).ok();
    assert!(formats.stdout.contains("msr") && formats.stdout.contains("oracle-general"), "{formats}");
    let generators = cards(&["trace", "generators"]).ok();
    assert!(
        generators.stdout.contains("gen:oltp") && generators.stdout.contains("gen:sprite"),
        "{generators}"
    );
    let one = cards(&["trace", "generators", "oltp"]).ok();
    assert!(one.stdout.contains("skew") && one.stdout.contains("seed"), "{one}");
}

#[test]
fn a_damaged_trace_is_an_error_with_its_line() {
    let dir = scratch();
    let path = dir.path().join("bad.csv");
    fs::write(&path, "time_us,node,op,offset,size\n1,0,r,0,4096\n2,0,r,x,4096\n").unwrap();
    let path = path.to_str().unwrap();
    for arguments in [&["sim", path, "--cache", "1M"][..], &["trace", "info", path]] {
        let done = cards(arguments).fails();
        assert_eq!(done.status.code(), Some(1), "{done}");
        assert!(done.stderr.contains("bad.csv: line 3"), "{done}");
    }
}

#[test]
fn progress_is_for_terminals_only() {
    let done = sim("--policy rd --cache 1M --json").ok();
    assert!(done.stderr.is_empty(), "{done}");
}
