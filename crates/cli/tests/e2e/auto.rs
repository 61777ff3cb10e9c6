//! `auto`: a volume's policy, chosen while it is used.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{KIB, LONG, MIB, content, eventually, scratch};

const SEED: u64 = 43;
const SIZE: u64 = 8 * MIB;
const BLOCK: u64 = 4 * KIB;
/// What volumes begin with.
const START: &str = "single ask=home";

fn cards(arguments: &[&str], socket: &str) -> Finished {
    run(&[&[CARDS], arguments, &["--socket", socket]].concat(), LONG)
}

/// What a node says of the volume's policy.
fn known(socket: &str) -> Value {
    let done = cards(&["policy", "list", "--json"], socket).ok();
    let all: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"));
    all["volumes"][0].clone()
}

/// A slow disk at node 1, and caches for an eighth of it.
fn cluster(dir: &Path, policy: &str) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, SIZE, SEED);
    let disk = Disk { policy: policy.into(), delay: "20ms", ..Disk::file(&image) };
    let mut plan = Plan::new(dir, 3).disk(disk).cache("1M");
    (plan.read_ahead, plan.block) = ("off", "4K");
    Cluster::start_connected(plan)
}

/// Nodes 2 and 3 read sets of their own again and again, each nearly as large as a cache: with one copy at a home, most reads go to
/// another node, for which nobody else has a use. Node 2 writes what node 3 reads, too.
fn under_load(cluster: &Cluster, change: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut writer = cluster.export(2, "disk").open();
            let mut reader = cluster.export(3, "disk").open();
            for round in 0_u64.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                for block in 0..200 {
                    let (own, others) = (block * BLOCK, (1_000 + block) * BLOCK);
                    content::check(&writer.read(own, BLOCK as usize).expect("a read"), own, SEED);
                    content::check(&reader.read(others, BLOCK as usize).expect("a read"), others, SEED);
                }
                let offset = (1_900 + round % 8) * BLOCK;
                let stamp = vec![round as u8; BLOCK as usize];
                writer.write(offset, &stamp).expect("a write");
                assert!(
                    reader.read(offset, BLOCK as usize).expect("a read") == stamp,
                    "old data, round {round}"
                );
            }
        });
        change();
        done.store(true, Ordering::Relaxed);
        load.join().expect("no client saw an error or old data");
    });
}

/// Waits until another policy than the first one is in force, because reads take less with it, and says which.
fn chosen(socket: &str) -> String {
    eventually("the policy is replaced", LONG * 2, || {
        let known = known(socket);
        let policy = known["policy"].as_str()?;
        let candidates = known["auto"]["chooser"]["candidates"].as_array()?;
        let ns = |name: &str| candidates.iter().find(|candidate| candidate[0] == name)?[1].as_u64();
        (policy != START && ns(policy)? < ns(START)?).then(|| policy.to_owned())
    })
}

#[test]
fn a_policy_that_does_not_suit_the_load_is_replaced_while_it_is_used_and_the_reason_is_told() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), "auto");
    let sockets = [1, 2, 3].map(|number| cluster.node(number).admin_socket());
    let at_start = known(&sockets[1]);
    assert_eq!((&at_start["policy"], &at_start["auto"]["since_us"]), (&START.into(), &Value::Null));
    under_load(&cluster, || {
        let policy = chosen(&sockets[1]);
        for socket in &sockets {
            eventually("all nodes have it", LONG, || (known(socket)["policy"] == *policy).then_some(()));
        }
        for (words, arguments) in [
            (["in force for", "chosen by node n1: "], ["policy", "list"].as_slice()),
            (["auto: ", "disk: auto has"], &["status"]),
            (["auto, which has", policy.as_str()], &["why", "disk", "0"]),
        ] {
            let said = cards(arguments, &sockets[2]).ok();
            assert!(words.iter().all(|word| said.stdout.contains(word)), "{words:?}: {said}");
        }
    });
    let candidates = known(&sockets[2])["auto"]["chooser"]["candidates"].clone();
    assert!(candidates.as_array().is_some_and(|all| all.len() > 3), "{candidates}");
}

#[test]
fn the_choice_outlasts_the_node_that_has_made_it() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), "auto");
    let socket = cluster.node(2).admin_socket();
    let mut policy = String::new();
    under_load(&cluster, || policy = chosen(&socket));
    cluster.node(1).kill();
    eventually("the others go on without it", LONG, || {
        let known = known(&socket);
        (known["policy"] == *policy && known["auto"]["chooser"] == Value::Null).then_some(())
    });
    cluster.node(1).spawn();
    cluster.node(1).wait_ready();
    let first = cluster.node(1).admin_socket();
    assert_eq!(known(&first)["policy"], *policy);
    under_load(&cluster, || {
        eventually("it looks on", LONG, || {
            known(&socket)["auto"]["chooser"]["reads"].as_u64().is_some_and(|reads| reads > 0).then_some(())
        });
        assert_eq!(known(&socket)["auto"]["in_force"], known(&socket)["policy"]);
    });
}

#[test]
fn a_person_turns_it_on_and_off_and_without_reads_it_stays_with_the_first_policy() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), "hscc");
    let socket = cluster.node(3).admin_socket();
    let set = |policy: &str| cards(&["policy", "set", "disk", policy], &socket).ok();
    let on = set("auto");
    assert!(on.stdout.contains("volume disk: auto, single ask=home in force, as at the start"), "{on}");
    eventually("the chooser says that it learns", LONG, || {
        let known = known(&socket);
        let state = known["auto"]["chooser"]["state"].as_str().unwrap_or_default().to_owned();
        state.starts_with("learns: ").then_some(())
    });
    for number in 1..=3 {
        let status = cluster.node(number).status();
        assert_eq!(status["volumes"][0]["policy"], START, "node {number}");
        assert_eq!(status["volumes"][0]["auto"]["in_force"], START, "node {number}");
    }
    set("rd");
    assert_eq!((&known(&socket)["policy"], &known(&socket)["auto"]), (&"rd".into(), &Value::Null));
    set("auto");
    cards(&["policy", "set", "disk", "--reset"], &socket).ok();
    assert_eq!(known(&socket), Value::Null);
    let refused = cards(&["policy", "set", "disk", "auto start=rd"], &socket).fails();
    assert!(refused.stderr.contains("policy auto has no parameter `start`"), "{refused}");
}
