//! Mistakes in the file itself.

use super::{fault, good_plan, refused, serve};
use crate::harness::process::run;
use crate::harness::{SHORT, cluster::CARDS, scratch};

/// What a mistake is called, how it gets into a good file, and what the message must say.
struct Mistake {
    replace: &'static str,
    by: &'static str,
    words: &'static [&'static str],
    remedies: &'static [&'static str],
}

const MISTAKES: &[Mistake] = &[
    Mistake { replace: "cache = \"16M\"", by: "cash = \"16M\"", words: &["cash"], remedies: &["cache"] },
    Mistake {
        replace: "cache = \"16M\"",
        by: "cache = \"12Q\"",
        words: &["cache", "12Q"],
        remedies: &["K", "M", "G"],
    },
    Mistake {
        replace: "cache = \"16M\"",
        by: "cache = \"0\"",
        words: &["cache", "0"],
        remedies: &["at least", "block"],
    },
    Mistake {
        replace: "cache = \"16M\"",
        by: "cache = \"99999999999999999999T\"",
        words: &["cache", "99999999999999999999T"],
        remedies: &["at most", "large", "K", "64"],
    },
    Mistake {
        replace: "block = \"64K\"",
        by: "block = \"48K\"",
        words: &["block", "48K"],
        remedies: &["power of two"],
    },
    Mistake {
        replace: "block = \"64K\"",
        by: "block = \"2M\"",
        words: &["block", "2M"],
        remedies: &["1M", "1 MiB"],
    },
    Mistake {
        replace: "policy = \"hscc\"",
        by: "policy = \"lucky\"",
        words: &["policy", "lucky"],
        remedies: &["hscc"],
    },
    Mistake {
        replace: "mode = \"rw\"",
        by: "mode = \"maybe\"",
        words: &["mode", "maybe"],
        remedies: &["exclusive"],
    },
    Mistake {
        replace: "[nbd]",
        by: "[[member]]\nname = \"n1\"\naddress = \"h:1\"\n[nbd]",
        words: &["member", "[coordinator.embedded]"],
        remedies: &["`cards join`"],
    },
    Mistake {
        replace: "volume = \"disk\"\nmode",
        by: "volume = \"disk\"\nmode = \"ro\"\n[[attach]]\nvolume = \"disk\"\nmode",
        words: &["disk"],
        remedies: &["once", "twice", "duplicate"],
    },
    Mistake {
        replace: "disk_wait = \"15s\"",
        by: "disk_wait = \"2 fortnights\"",
        words: &["disk_wait", "2 fortnights"],
        remedies: &["ms", "seconds"],
    },
    Mistake {
        replace: "attached = \"computer\"",
        by: "attached = \"carpet\"",
        words: &["attached", "carpet"],
        remedies: &["network"],
    },
    Mistake { replace: "shards = 4", by: "shards = 3", words: &["shards", "3"], remedies: &["power of two"] },
    Mistake { replace: "[nbd]", by: "[nbd]\nunit = 1", words: &["unit"], remedies: &["unix"] },
];

#[test]
fn each_mistake_is_refused_with_a_remedy() {
    let dir = scratch();
    let good = good_plan(dir.path()).toml(0);
    let mut faults = Vec::new();
    for Mistake { replace, by, words, remedies } in MISTAKES {
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
