//! Mistakes in the file itself.

use super::{fault, good_plan, refused, serve};
use crate::harness::process::run;
use crate::harness::{SHORT, cluster::CARDS, scratch};

/// What of a good file a mistake replaces, by what, and what the message must say: what is wrong, and one of the remedies.
type Mistake = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const MISTAKES: &[Mistake] = &[
    ("cache = \"16M\"", "cash = \"16M\"", &["cash"], &["cache"]),
    ("cache = \"16M\"", "cache = \"12Q\"", &["cache", "12Q"], &["K", "M", "G"]),
    ("cache = \"16M\"", "cache = \"0\"", &["cache", "0"], &["at least", "block"]),
    (
        "cache = \"16M\"",
        "cache = \"99999999999999999999T\"",
        &["cache", "99999999999999999999T"],
        &["at most", "large", "K", "64"],
    ),
    ("block = \"64K\"", "block = \"48K\"", &["block", "48K"], &["power of two"]),
    ("block = \"64K\"", "block = \"2M\"", &["block", "2M"], &["1M", "1 MiB"]),
    ("policy = \"hscc\"", "policy = \"lucky\"", &["policy", "lucky"], &["hscc"]),
    ("mode = \"rw\"", "mode = \"maybe\"", &["mode", "maybe"], &["exclusive"]),
    (
        "[nbd]",
        "[[member]]\nname = \"n1\"\naddress = \"h:1\"\n[nbd]",
        &["member", "[coordinator.embedded]"],
        &["`cards join`"],
    ),
    (
        "volume = \"disk\"\nmode",
        "volume = \"disk\"\nmode = \"ro\"\n[[attach]]\nvolume = \"disk\"\nmode",
        &["disk"],
        &["once", "twice", "duplicate"],
    ),
    (
        "disk_wait = \"15s\"",
        "disk_wait = \"2 fortnights\"",
        &["disk_wait", "2 fortnights"],
        &["ms", "seconds"],
    ),
    ("attached = \"computer\"", "attached = \"carpet\"", &["attached", "carpet"], &["network"]),
    ("shards = 4", "shards = 3", &["shards", "3"], &["power of two"]),
    ("[nbd]", "[nbd]\nunit = 1", &["unit"], &["unix"]),
];

#[test]
fn each_mistake_is_refused_with_a_remedy() {
    let dir = scratch();
    let good = good_plan(dir.path()).toml(0);
    let mut faults = Vec::new();
    for (replace, by, words, remedies) in MISTAKES {
        assert!(good.contains(replace), "the good file has no {replace:?}:\n{good}");
        let done = serve(dir.path(), &good.replacen(replace, by, 1));
        faults.extend(fault(&done, words, remedies));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn a_name_given_twice_is_refused() {
    let dir = scratch();
    let mut plan = good_plan(dir.path());
    let twin = plan.nodes[0].disks[0].clone();
    plan.nodes[0].disks.push(twin);
    refused(serve(dir.path(), &plan.toml(0)), &["disk"], &["once", "twice", "duplicate", "unique"]);
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_the_line() {
    let dir = scratch();
    refused(serve(dir.path(), "cluster = \"lab\"\nnode = n1 =\n"), &["bad.toml"], &["line 2", ":2", "2 |"]);
    refused(serve(dir.path(), ""), &["bad.toml"], &["cluster", "node", "missing"]);
}

#[test]
fn a_missing_file_is_named() {
    let done = run(&[CARDS, "serve", "--config", "/nonexistent/node.toml"], SHORT);
    refused(done, &["/nonexistent/node.toml"], &["No such file", "not found", "does not exist"]);
}
