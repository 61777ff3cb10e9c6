//! Policies that volumes get while they are used: modules at all nodes, no error, no old data, no cold cache.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster, Node};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{KIB, LONG, MIB, content, eventually, scratch};
use crate::policy::module;

const SEED: u64 = 41;
const SIZE: u64 = 8 * MIB;
const BLOCK: u64 = 64 * KIB;

fn cards(arguments: &[&str], socket: &str) -> Finished {
    run(&[&[CARDS, "policy"], arguments, &["--socket", socket]].concat(), LONG)
}

fn list(socket: &str) -> Value {
    let done = cards(&["list", "--json"], socket).ok();
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

fn cluster(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, SIZE, SEED);
    let mut plan = Plan::new(dir, 3).disk(Disk::file(&image)).cache("4M");
    plan.read_ahead = "off";
    Cluster::start_connected(plan)
}

/// Ends the load with the value, also when what goes on beside it has failed: the scope waits for it.
struct UntilDropped<'a>(&'a AtomicBool);

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Node 2 writes, node 3 reads what node 2 has just written, and both read the rest, while `change` runs.
fn under_load(cluster: &Cluster, change: impl FnOnce(&AtomicU64)) {
    let (done, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut writer = cluster.export(2, "disk").open();
            let mut reader = cluster.export(3, "disk").open();
            let blocks = SIZE / BLOCK;
            // The first quarter is written, the rest only read.
            for round in 0_u64.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let offset = round % (blocks / 4) * BLOCK;
                let stamp = vec![round as u8; BLOCK as usize];
                writer.write(offset, &stamp).expect("a write");
                assert!(
                    reader.read(offset, BLOCK as usize).expect("a read") == stamp,
                    "old data, round {round}"
                );
                for client in [&mut writer, &mut reader] {
                    let offset = (blocks / 4 + round * 7 % (blocks * 3 / 4)) * BLOCK;
                    content::check(&client.read(offset, BLOCK as usize).expect("a read"), offset, SEED);
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let running = UntilDropped(&done);
        change(&rounds);
        drop(running);
        load.join().expect("no client saw an error or old data");
    });
}

/// Waits until clients have done some more.
fn more(rounds: &AtomicU64) {
    let before = rounds.load(Ordering::Relaxed);
    eventually("clients go on", LONG, || (rounds.load(Ordering::Relaxed) > before + 20).then_some(()));
}

/// Insists that the nodes have heard of it, but for those that were declared dead: on a busy machine any may be, for a while.
#[track_caller]
fn heard_by_the_living(done: &Finished) {
    let mut late = done.stdout.lines().filter(|line| line.contains("not at"));
    assert!(late.all(|line| line.contains(" yet: it was declared dead;")), "{done}");
}

/// Insists on the policy of a node; if the answer says that the node has not heard of it yet, it soon has.
fn has_policy(node: &Node, number: usize, done: &Finished, is_it: impl Fn(&str) -> bool) {
    let now = || node.status()["volumes"][0]["policy"].as_str().unwrap_or_default().to_owned();
    if done.stdout.contains(&format!("not at node n{number} yet")) {
        eventually(&format!("node {number} hears of it: {done}"), LONG, || is_it(&now()).then_some(()));
    } else {
        let now = now();
        assert!(is_it(&now), "node {number} has {now}: {done}");
    }
}

#[test]
fn a_policy_is_switched_under_load() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(1).admin_socket();
    let (random, endless) = (module(dir.path(), "random"), module(dir.path(), "endless"));
    let loaded = cards(&["load", &random], &socket).ok();
    heard_by_the_living(&loaded);
    let mut last = loaded;
    under_load(&cluster, |rounds| {
        more(rounds);
        for policy in ["random", "hdc", "gms", endless.as_str(), "rd", "hscc depth=3", "greedy"] {
            let set = cards(&["set", "disk", policy], &socket).ok();
            assert!(set.stdout.starts_with("volume disk: "), "{set}");
            heard_by_the_living(&set);
            last = set;
            more(rounds);
            let failed = list(&socket)["volumes"][0]["failure"].is_string();
            assert_eq!(failed, policy == endless, "{policy}");
        }
    });
    for number in 1..=3 {
        has_policy(cluster.node(number), number, &last, |policy| policy == "greedy");
    }
    let reset = cards(&["set", "disk", "--reset"], &socket).ok();
    heard_by_the_living(&reset);
    for number in 1..=3 {
        has_policy(cluster.node(number), number, &reset, |policy| policy != "greedy");
    }
}

/// What a policy drops of its own accord is its own affair: none of these drops a copy that nobody writes.
#[test]
fn a_switch_leaves_the_cache_warm() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(3).admin_socket();
    let quiet = module(dir.path(), "quiet");
    let mut client = cluster.export(2, "disk").open();
    let mut read = |blocks: u64| {
        for offset in (0..blocks).map(|block| block * BLOCK) {
            content::check(&client.read(offset, BLOCK as usize).expect("a read"), offset, SEED);
        }
    };
    read(16);
    for (policy, shown) in [
        (quiet.as_str(), "quiet@"),
        ("rd", "rd"),
        ("hdc", "hdc"),
        ("gms", "gms"),
        ("hscc depth=3", "hscc"),
        ("greedy", "greedy"),
    ] {
        let before = cluster.node(2).counter("local_hits");
        let set = cards(&["set", "disk", policy], &socket).ok();
        has_policy(cluster.node(2), 2, &set, |policy| policy.starts_with(shown));
        read(16);
        assert_eq!(cluster.node(2).counter("local_hits") - before, 16, "{policy}");
    }
}

#[test]
fn a_module_that_fails_is_a_problem_that_is_named() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(1).admin_socket();
    let endless = module(dir.path(), "endless");
    cards(&["set", "disk", &endless], &socket).ok();
    let mut client = cluster.export(2, "disk").open();
    // The first block is cached already: it was read to see whether the node is ready.
    content::check(&client.read(9 * BLOCK, BLOCK as usize).expect("a read"), 9 * BLOCK, SEED);
    let reason = "`asked` used more than 100000 units of fuel";
    let at_node_2 = list(&cluster.node(2).admin_socket());
    assert_eq!(at_node_2["volumes"][0]["failure"], reason);
    let problem = "has the policy rd instead of endless@";
    let problems = cluster.node(2).status()["problems"].to_string();
    assert!(problems.contains(problem) && problems.contains(reason), "{problems}");
    // It is in use; and another policy ends the problem.
    let refused = cards(&["unload", "endless"], &socket).fails();
    assert!(refused.stderr.contains("volume \"disk\" has this policy"), "{refused}");
    cards(&["set", "disk", "rd"], &socket).ok();
    assert!(!cluster.node(2).status()["problems"].to_string().contains(problem));
    cards(&["unload", "endless"], &socket).ok();
    for node in 1..=3 {
        assert_eq!(list(&cluster.node(node).admin_socket())["modules"], serde_json::json!([]), "node {node}");
    }
}

#[test]
fn a_node_that_was_away_hears_of_it_and_nothing_is_forgotten() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(1).admin_socket();
    let random = module(dir.path(), "random");
    cluster.node(3).kill();
    let set = cards(&["set", "disk", &random], &socket).ok();
    assert!(set.stdout.contains("node n3 does not have it yet: "), "{set}");
    cluster.node(3).restart();
    let third = cluster.node(3).admin_socket();
    eventually("node 3 has the module and the policy", LONG, || {
        let known = list(&third);
        let has = known["modules"][0]["here"] == true && known["volumes"][0]["volume"] == "disk";
        has.then_some(())
    });
    // The file is not needed any more, and all of it outlasts the daemons.
    std::fs::remove_file(&random).unwrap();
    for node in 1..=3 {
        cluster.node(node).kill();
    }
    // The registry wants most of them.
    (1..=3).for_each(|node| cluster.node(node).spawn());
    (1..=3).for_each(|node| cluster.node(node).wait_ready());
    for node in 1..=3 {
        let known = list(&cluster.node(node).admin_socket());
        assert_eq!(known["modules"][0]["here"], true, "node {node}: {known}");
        let policy = known["volumes"][0]["policy"].as_str().unwrap();
        assert!(policy.starts_with("random@"), "node {node}: {known}");
    }
    under_load(&cluster, more);
}

#[test]
fn orders_that_make_no_sense_are_refused_with_the_remedy() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(1).admin_socket();
    let random = module(dir.path(), "random");
    let copy = |name: &str| {
        let path = dir.path().join(name);
        std::fs::copy(&random, &path).expect("a copy of a module");
        path.to_str().expect("a path of letters").to_owned()
    };
    let (built_in, renamed) = (copy("hscc.wasm"), copy("other.wasm"));
    let loaded = cards(&["load", &random, "--json"], &socket).ok();
    let loaded: Value = serde_json::from_str(&loaded.stdout).expect("one JSON object");
    assert!(
        loaded["module"] == "random" && loaded["loaded"] == true && loaded["digest"].is_string(),
        "{loaded}"
    );
    for (arguments, problem) in [
        (["set", "disc", "rd"].as_slice(), "no node of the cluster has a volume \"disc\""),
        (&["set", "disk", "hscc dept=2"], "policy hscc has no parameter `dept` (did you mean depth?)"),
        (&["set", "disk", "opt"], "runs in the simulator only"),
        (
            &["set", "disk", "mine"],
            "there is no policy and no module \"mine\": a volume can have rd, greedy,",
        ),
        (&["set", "disk", "hsc"], "(did you mean hscc?)"),
        (&["load", &built_in], "hscc is a built-in policy"),
        (&["load", &renamed], "this module is loaded already, and called random"),
        (&["set", "disk", "/none/mine.wasm"], "No such file or directory"),
        (&["unload", "mine"], "no module \"mine\" is loaded"),
    ] {
        let refused = cards(arguments, &socket).fails();
        assert!(refused.stderr.contains(problem), "{arguments:?}: {refused}");
    }
    // The file says which module is meant, whatever it is called.
    let set = cards(&["set", "disk", &renamed], &socket).ok();
    assert!(set.stdout.starts_with("volume disk: random@"), "{set}");
    cluster.node(3).kill();
    eventually("node 3 is declared dead", LONG, || {
        let members = cluster.node(1).status()["members"].clone();
        members
            .as_array()?
            .iter()
            .any(|member| member["name"] == "n3" && member["state"] == "dead")
            .then_some(())
    });
    let set = cards(&["set", "disk", "rd"], &socket).ok();
    assert!(set.stdout.contains("node n3 does not have it yet: it was declared dead"), "{set}");
    let unloaded = cards(&["unload", "random"], &socket).ok();
    assert!(unloaded.stdout.contains("node n3 has it still: it was declared dead"), "{unloaded}");
}
