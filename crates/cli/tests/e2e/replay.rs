//! Traces on real daemons against the simulator, and traces recorded from real daemons.

use std::path::{Path, PathBuf};

use cards_trace::{Merge, Op, Options, Source, Together, open};
use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, Process, run};
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};

fn cards(arguments: &[&str]) -> Finished {
    run(&[&[CARDS], arguments].concat(), LONG)
}

/// `cards replay TRACE flags --compare --json`.
#[track_caller]
fn replay(trace: &str, policy: &str, flags: &str) -> (Finished, Value) {
    let mut arguments = vec!["replay", trace, "--policy", policy, "--compare", "--json"];
    arguments.extend(flags.split_whitespace());
    let done = cards(&arguments);
    let json = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"));
    (done, json)
}

#[track_caller]
fn same_counts(trace: &str, policy: &str, flags: &str) -> Value {
    let (done, json) = replay(trace, policy, flags);
    assert_eq!(json["differences"], Value::Array(Vec::new()), "{done}");
    done.ok();
    let live = &json["live"];
    for name in ["local_hits", "disk_reads", "messages"] {
        assert!(live[name].as_u64().is_some_and(|count| count > 0), "no {name}: {json:#}");
    }
    assert!(live["more"]["evictions"].as_u64().is_some_and(|count| count > 0), "no evictions: {json:#}");
    json
}

const MIXED: &str = "gen:oltp:nodes=3,bytes=3MiB,requests=250,writes=0.4";
const READS: &str = "gen:oltp:nodes=3,bytes=3MiB,requests=250,writes=0";

#[test]
fn a_serial_replay_of_hscc_counts_what_the_simulator_counts() {
    let json = same_counts(MIXED, "hscc", "--block 8K --cache 256K --shards 1");
    for name in ["write_requests", "forwarded", "stored_for_others", "remote_hits"] {
        assert!(json["live"][name].as_u64().is_some_and(|count| count > 0), "no {name}: {json:#}");
    }
    same_counts(READS, "hscc depth=3", "--block 4K --cache 256K --shards 4");
}

#[test]
fn a_serial_replay_of_hdc_and_rd_counts_what_the_simulator_counts() {
    let json = same_counts(MIXED, "hdc", "--block 16K --cache 512K --shards 2");
    assert!(json["live"]["forwarded"].as_u64().is_some_and(|count| count > 0), "{json:#}");
    same_counts(MIXED, "rd", "--block 8K --cache 128K --shards 1 --replacement s3-fifo");
}

/// It goes by the ages of blocks: both sides give it the number of the request for the time.
#[test]
fn a_serial_replay_of_hints_counts_what_the_simulator_counts_although_it_looks_at_the_clock() {
    let trace = "gen:oltp:nodes=3,bytes=3MiB,requests=350,writes=0.2";
    let json = same_counts(trace, "hints", "--block 8K --cache 256K --shards 1");
    for name in ["forwarded", "stored_for_others"] {
        assert!(json["live"][name].as_u64().is_some_and(|count| count > 0), "no {name}: {json:#}");
    }
}

#[test]
fn a_timed_replay_hits_nearly_as_often_as_the_simulator() {
    let trace = "gen:oltp:nodes=3,bytes=3MiB,clients=2,requests=1200,writes=0.1";
    let (done, json) = replay(trace, "hscc", "--block 8K --cache 512K --timing trace");
    let ratio = |of: &str| json[of]["global_hit_ratio"].as_f64().unwrap_or(f64::NAN);
    let (live, simulated) = (ratio("live"), ratio("simulated"));
    assert!(live > 0.1 && (live - simulated).abs() < 0.02, "{live} and {simulated}: {done}");
    done.ok();
}

#[test]
fn what_cannot_be_replayed_is_refused_before_anything_starts() {
    for (arguments, word) in [
        (&["replay", "gen:oltp:nodes=4,requests=10"][..], "node 3"),
        (&["replay", "/no/such/trace"], "/no/such/trace"),
        (&["replay", "gen:oltp:requests=10", "--policy", "hssc"], "hscc"),
        (&["replay", "gen:oltp:requests=10", "--policy", "auto", "--compare"], "single ask=home"),
        (&["replay", "gen:oltp:requests=10", "--block", "0"], "power of two"),
        (&["replay", "gen:oltp:requests=10", "--machine", "lan2"], "lan25"),
    ] {
        let refused = cards(arguments).fails();
        assert!(refused.stderr.contains(word), "{refused}");
    }
}

fn two_nodes(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, 7);
    Cluster::start(Plan::new(dir, 2).disk(Disk::file(&image)).cache("16M"))
}

/// A command that records nodes `n1`, `n2`, …: started, and recording.
fn recorder(dir: &Path, nodes: &[usize], name: &str) -> (Process, PathBuf) {
    let file = dir.join(name);
    let mut argv = [CARDS, "trace", "record", "-o"].map(String::from).to_vec();
    argv.push(file.display().to_string());
    for node in nodes {
        argv.extend(["--node".into(), dir.join(format!("n{node}")).display().to_string()]);
    }
    let mut process = Process::spawn(&argv, &file.with_extension("log"));
    process.until("the recording has begun", || (length(&file) >= 32).then_some(()));
    (process, file)
}

fn length(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

/// Node, operation, offset and bytes of every request.
fn requests(source: &mut dyn Source) -> Vec<(u32, Op, u64, u32)> {
    let mut requests = Vec::new();
    let mut processes = std::collections::BTreeMap::new();
    while let Some(r) = source.next().expect("a readable recording") {
        assert_eq!(r.volume, 0);
        assert_eq!(*processes.entry(r.process).or_insert(r.node), r.node, "a process on two nodes");
        requests.push((r.node, r.op, r.offset, r.bytes));
    }
    assert_eq!(source.skipped().total(), 0);
    requests
}

fn recorded(file: &Path) -> Vec<(u32, Op, u64, u32)> {
    requests(&mut *open(&file.display().to_string(), &Options::default()).expect("a recording"))
}

/// Known requests at both nodes, one after the other.
fn known_requests(cluster: &Cluster) -> Vec<(u32, Op, u64, u32)> {
    let (mut first, mut second) = (cluster.export(1, "disk").open(), cluster.export(2, "disk").open());
    let mut want = Vec::new();
    for i in 0..20 {
        first.read(i * 4096, 4096).expect("a read");
        want.push((0, Op::Read, i * 4096, 4096));
        second.read(i * 512, 100).expect("a read");
        want.push((1, Op::Read, i * 512, 100));
    }
    first.write(MIB, &[1; 70_000]).expect("a write");
    want.push((0, Op::Write, MIB, 70_000));
    first.flush().expect("a flush");
    want.push((0, Op::Flush, 0, 0));
    first.close();
    second.close();
    want
}

#[test]
fn a_recording_has_exactly_the_requests_of_the_clients() {
    let dir = scratch();
    let cluster = two_nodes(dir.path());
    let (mut recording, file) = recorder(dir.path(), &[1, 2], "both.cards");
    let busy = dir.path().join("n2").display().to_string();
    let other = dir.path().join("other.cards").display().to_string();
    let refused = cards(&["trace", "record", "--node", &busy, "-o", &other]).fails();
    assert!(refused.stderr.contains("somebody records"), "{refused}");
    let want = known_requests(&cluster);
    recording.signal(libc::SIGINT);
    assert!(recording.wait(SHORT).success(), "{}", recording.log());
    assert!(recording.log().contains(&format!("{} requests", want.len())), "{}", recording.log());
    assert_eq!(recorded(&file), want);

    let path = file.display().to_string();
    let info = cards(&["trace", "info", &path, "--json"]).ok();
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    for (name, count) in
        [("requests", 42), ("reads", 40), ("writes", 1), ("flushes", 1), ("nodes", 2), ("processes", 2)]
    {
        assert_eq!(info[name], count, "{info:#}");
    }
    let json = same_counts(&path, "hscc", "--nodes 2 --block 4K --cache 64K --shards 1");
    // The write touches 18 blocks of 4 KiB; the flush is left out.
    assert_eq!(json["live"]["read_requests"], 40);
    assert_eq!(json["live"]["write_requests"], 18);
}

#[test]
fn recordings_of_single_nodes_merge_into_one() {
    let dir = scratch();
    let cluster = two_nodes(dir.path());
    let commands = [1, 2].map(|node| recorder(dir.path(), &[node], &format!("n{node}.cards")));
    let want = known_requests(&cluster);
    let mut sources = Vec::new();
    for (mut recording, file) in commands {
        recording.signal(libc::SIGTERM);
        assert!(recording.wait(SHORT).success(), "{}", recording.log());
        sources.push(open(&file.display().to_string(), &Options::default()).expect("a recording"));
    }
    let mut merged = Merge::new(sources, Together::OneCluster).expect("two recordings");
    assert_eq!(requests(&mut merged), want);
}

#[test]
fn a_killed_recorder_leaves_a_readable_file_and_the_node_free() {
    let dir = scratch();
    let cluster = two_nodes(dir.path());
    let (mut recording, file) = recorder(dir.path(), &[1, 2], "killed.cards");
    let want = known_requests(&cluster);
    let whole = 32 + 32 * want.len() as u64;
    recording.until("all is written", || (length(&file) == whole).then_some(()));
    recording.kill();
    assert_eq!(recorded(&file), want);

    let again = dir.path().join("again.cards").display().to_string();
    let node = dir.path().join("n1").display().to_string();
    let record = || {
        let arguments = ["trace", "record", "--node", &node, "-o", &again, "--force", "--duration", "100ms"];
        cards(&arguments)
    };
    let done = eventually("the node can be recorded again", SHORT, || {
        let done = record();
        done.status.success().then_some(done)
    });
    assert!(done.stdout.contains("0 requests"), "{done}");
}

#[test]
fn a_recording_ends_at_its_size() {
    let dir = scratch();
    let cluster = two_nodes(dir.path());
    let file = dir.path().join("short.cards");
    let argv = [CARDS, "trace", "record", "-o", &file.display().to_string(), "--max-size", "352", "--node"];
    let mut argv = argv.map(String::from).to_vec();
    argv.push(dir.path().join("n1").display().to_string());
    let mut recording = Process::spawn(&argv, &dir.path().join("short.log"));
    recording.until("the recording has begun", || (length(&file) >= 32).then_some(()));
    let mut want = known_requests(&cluster);
    assert!(recording.wait(SHORT).success(), "{}", recording.log());
    want.retain(|request| request.0 == 0);
    want.truncate(10);
    assert_eq!((length(&file), recorded(&file)), (352, want));
}
