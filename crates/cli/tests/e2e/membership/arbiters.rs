//! Three nodes keep the registry together: any one of them may die, and what comes back without its part, or with an old one, is
//! no danger to the others.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{SEED, member_at};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Disk, Plan, free_port};
use crate::harness::process::{run, sh};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

/// So long that nobody is declared dead because the machine has much else to do.
const LEASE: &str = "3s";

/// Four nodes of which the first founds the registry, and a disk at the second. Nobody is up.
fn plan(dir: &Path) -> Plan {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    let mut plan = Plan::new(dir, 4);
    plan.coordinator = Coordinator::Embedded { keeper: 1, apart: None, lease: LEASE };
    plan.lease = LEASE;
    plan.nodes[1].disks.push(Disk::file(&image));
    plan
}

/// The first three nodes keep the registry.
fn three(dir: &Path) -> Cluster {
    let mut cluster = Cluster::down(plan(dir));
    for number in 1..=3 {
        cluster.node(number).restart();
    }
    are_kept_by(&mut cluster, &[1, 2, 3], &["n1", "n2", "n3"]);
    cluster
}

/// Waits until all nodes that are up say that these keep the registry.
fn are_kept_by(cluster: &mut Cluster, up: &[usize], keepers: &[&str]) {
    for &number in up {
        eventually(&format!("n{number} knows that {keepers:?} keep the registry"), SHORT, || {
            let registry = cluster.node(number).status()["registry"].clone();
            (registry["arbiters"] == json!(keepers) && registry["changes"].is_null()).then_some(())
        });
    }
}

/// Waits until a node's store is one of those that keep the registry. If it is a new one, its last one is counted on before.
fn has_voted(cluster: &mut Cluster, number: usize) {
    let register = cluster.plan.runtime_dir(number - 1).join("state/register");
    eventually(&format!("n{number} has voted"), SHORT, || {
        let bytes = fs::read(&register).ok()?;
        bytes.windows(9).any(|window| window == b"member/n1").then_some(())
    });
}

fn leader(cluster: &mut Cluster, asked: usize) -> usize {
    eventually("somebody leads", SHORT, || {
        let name = cluster.node(asked).status()["registry"]["leader"].as_str()?.to_owned();
        name.strip_prefix('n')?.parse().ok()
    })
}

fn is(cluster: &mut Cluster, asked: usize, name: &str, state: &str) {
    eventually(&format!("n{asked} knows that {name} is {state}"), SHORT, || {
        (member_at(cluster, asked, name).as_deref() == Some(state)).then_some(())
    });
}

fn is_well(cluster: &mut Cluster, up: &[usize]) {
    for &number in up {
        eventually(&format!("all is well at n{number}: {}", cluster.node(number).status()), SHORT, || {
            (cluster.node(number).status()["healthy"] == true).then_some(())
        });
    }
}

fn volume(cluster: &mut Cluster, number: usize, verb: &str) {
    let socket = cluster.node(number).admin_socket();
    run(&[CARDS, "volume", verb, "disk", "--socket", &socket], SHORT).ok();
}

/// Somebody gets a lock at this node, which it grants while its membership is renewed.
fn locks(cluster: &mut Cluster, number: usize) {
    let api = cluster.node(number).admin_socket().replace("admin.sock", "api.sock");
    let words = [CARDS, "lock", "acquire", "--socket", &api, "disk", "0..1M", "--wait", "10s", "--", "true"];
    eventually(&format!("n{number} grants a lock"), SHORT, || {
        run(&words, SHORT).status.success().then_some(())
    });
}

/// Attaches and detaches, reads, and locks: all that needs the registry.
fn works(cluster: &mut Cluster, number: usize) {
    volume(cluster, number, "attach");
    cluster.export(number, "disk").check_all(SEED);
    locks(cluster, number);
    volume(cluster, number, "detach");
}

#[test]
fn the_death_of_any_node_stops_no_attachment_no_restart_no_lock_and_no_join() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    let text = run(&[CARDS, "status", "--socket", &cluster.node(3).admin_socket()], SHORT).ok().stdout;
    assert!(
        text.contains("the registry is at n1, n2, n3") && text.contains("one of the three may fail"),
        "{text}"
    );

    // The node that all files name dies. Nobody waits until it is declared dead.
    cluster.node(1).kill();
    works(&mut cluster, 3);
    cluster.node(3).kill();
    cluster.node(3).restart();
    works(&mut cluster, 3);
    is(&mut cluster, 2, "n1", "dead");
    let problems = cluster.node(2).status()["problems"].to_string();
    assert!(problems.contains("n1"), "{problems}");

    // Whoever has never been a member is told of one that is up.
    let file = dir.path().join("n4.toml");
    let named = fs::read_to_string(&file).expect("the file of n4");
    let (first, second) = (cluster.plan.nodes[0].address, cluster.plan.nodes[1].address);
    let named = named.replace(&format!("address = \"{first}\""), &format!("address = \"{second}\""));
    fs::write(&file, named.replace("keeper = \"n1\"", "keeper = \"n2\"")).expect("a file");
    cluster.node(4).restart();
    is(&mut cluster, 3, "n4", "up");
    works(&mut cluster, 4);

    // It comes back with the part that it had.
    cluster.node(1).restart();
    is_well(&mut cluster, &[1, 2, 3, 4]);
    are_kept_by(&mut cluster, &[1, 2, 3, 4], &["n1", "n2", "n3"]);

    // The next one is the one that leads now. The disk is at n2, which is needed to read.
    let next = match leader(&mut cluster, 4) {
        2 => 3,
        other => other,
    };
    cluster.node(next).kill();
    works(&mut cluster, 4);
    is(&mut cluster, 2, &format!("n{next}"), "dead");
    cluster.node(next).restart();
    is_well(&mut cluster, &[1, 2, 3, 4]);
}

/// Two of three are gone: nothing can change, I/O goes on, and it is said what is missing. One is enough for all to go on.
#[test]
fn without_most_of_them_io_goes_on_and_it_is_said_who_is_missing() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    volume(&mut cluster, 2, "attach");
    cluster.node(1).kill();
    cluster.node(3).kill();
    let problem = eventually("n2 says so", SHORT, || {
        let problems = cluster.node(2).status()["problems"].to_string();
        problems.contains("has not answered").then_some(problems)
    });
    assert!(
        problem.contains("n1") && problem.contains("n3") && problem.contains("more than half"),
        "{problem}"
    );
    cluster.export(2, "disk").check_all(SEED);
    let config = dir.path().join("n2.toml").display().to_string();
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT).stdout;
    assert!(doctor.contains("more than half") && doctor.contains("warning  daemon"), "{doctor}");
    // A start waits for them, is not what it waits for itself, and can be what the others wait for.
    let (own, others) = (cluster.plan.nodes[1].address, [0, 2].map(|at| cluster.plan.nodes[at].address));
    cluster.node(2).kill();
    cluster.node(2).spawn();
    let socket = cluster.node(2).admin_socket();
    eventually("n2 says whom it waits for", SHORT, || {
        let said = run(&[CARDS, "status", "--socket", &socket], SHORT).stdout;
        let names_all = others.iter().all(|other| said.contains(&other.to_string()));
        (said.contains("waits for the coordinator at n1") && names_all && !said.contains(&own.to_string()))
            .then_some(())
    });
    cluster.node(3).spawn();
    cluster.node(2).wait_ready();
    cluster.node(3).wait_ready();
    is(&mut cluster, 2, "n1", "dead");
    works(&mut cluster, 3);
    cluster.node(1).restart();
    is_well(&mut cluster, &[1, 2, 3]);
}

/// The state_dir of the founder is gone. It makes a registry as it did when there was none; nobody follows it.
#[test]
fn a_founder_that_was_wiped_is_followed_by_nobody_and_says_so() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    cluster.node(1).kill();
    fs::remove_dir_all(cluster.plan.runtime_dir(0).join("state")).expect("a directory");
    cluster.plan.equip(0);
    cluster.node(1).restart();
    eventually("n1 says so", SHORT, || {
        let problems = cluster.node(1).status()["problems"].to_string();
        problems.contains("follow another registry").then_some(())
    });
    assert_eq!(cluster.node(1).status()["members"].as_array().map(Vec::len), Some(1), "it is alone");
    works(&mut cluster, 3);
    is(&mut cluster, 2, "n1", "dead");
    are_kept_by(&mut cluster, &[2, 3], &["n1", "n2", "n3"]);

    // What it says is to be done about it.
    cluster.node(1).terminate();
    for file in ["register", "membership.json"] {
        fs::remove_file(cluster.plan.runtime_dir(0).join("state").join(file)).expect("a file");
    }
    let file = dir.path().join("n1.toml");
    let named = fs::read_to_string(&file).expect("the file of n1");
    let (head, table) = named.split_once("[coordinator.embedded]").expect("a coordinator");
    let (first, second) = (cluster.plan.nodes[0].address, cluster.plan.nodes[1].address);
    let table = table.replace(&first.to_string(), &second.to_string()).replace("\"n1\"", "\"n2\"");
    fs::write(&file, format!("{head}[coordinator.embedded]{table}")).expect("a file");
    cluster.node(1).restart();
    are_kept_by(&mut cluster, &[1, 2, 3], &["n1", "n2", "n3"]);
    is_well(&mut cluster, &[1, 2, 3]);
    works(&mut cluster, 1);
}

/// Puts a copy of a node's state_dir in its place, as a backup does.
fn restore(cluster: &Cluster, number: usize, copy: &Path) {
    let state = cluster.plan.runtime_dir(number - 1).join("state");
    fs::remove_dir_all(&state).expect("a directory");
    sh(&format!("cp -a {} {}", copy.display(), state.display()), SHORT).ok();
}

fn save(cluster: &Cluster, number: usize, copy: &Path) {
    let state = cluster.plan.runtime_dir(number - 1).join("state");
    sh(&format!("cp -a {} {}", state.display(), copy.display()), SHORT).ok();
}

/// An arbiter's state_dir is replaced by a copy of an hour ago. It has voted since, and the copy does not know for what.
#[test]
fn an_old_copy_of_an_arbiters_state_dir_is_survived() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    let copy = dir.path().join("copy");
    save(&cluster, 3, &copy);
    cluster.node(1).kill();
    volume(&mut cluster, 2, "attach");
    is(&mut cluster, 2, "n1", "dead");
    cluster.node(3).kill();
    restore(&cluster, 3, &copy);
    // Two of three have lost what was voted for: one is off, one forgets. So nothing is decided until the first is back.
    cluster.node(3).spawn();
    cluster.node(3).says(&["is a copy of another file"]);
    cluster.node(1).restart();
    cluster.node(3).wait_ready();
    has_voted(&mut cluster, 3);
    are_kept_by(&mut cluster, &[1, 2, 3], &["n1", "n2", "n3"]);
    is(&mut cluster, 2, "n3", "up");
    works(&mut cluster, 3);
    cluster.node(1).kill();
    works(&mut cluster, 3);
    cluster.node(1).restart();
    // It keeps a part again: what was put aside is no problem of anybody's.
    let problems = cluster.node(3).status()["problems"].to_string();
    assert!(!problems.contains("is a copy of another file"), "{problems}");
    cluster.node(3).kill();
    cluster.node(3).restart();
    is_well(&mut cluster, &[1, 2, 3]);
}

/// The same of the founder, of the time when it was the only one: what it has says that it decides alone.
#[test]
fn an_old_copy_of_a_founder_that_was_alone_decides_nothing() {
    let dir = scratch();
    let mut cluster = Cluster::down(plan(dir.path()));
    let copy = dir.path().join("copy");
    cluster.node(1).restart();
    is_well(&mut cluster, &[1]);
    cluster.node(1).terminate();
    save(&cluster, 1, &copy);
    for number in 1..=3 {
        cluster.node(number).restart();
    }
    are_kept_by(&mut cluster, &[1, 2, 3], &["n1", "n2", "n3"]);
    cluster.node(1).kill();
    restore(&cluster, 1, &copy);
    cluster.node(1).spawn();
    cluster.node(1).says(&["is a copy of another file", "register.copy", "register.moved"]);
    works(&mut cluster, 3);
    // It knows of nobody, and hears of the others, who call the arbiter that it was.
    cluster.node(1).wait_ready();
    is(&mut cluster, 2, "n1", "up");
    has_voted(&mut cluster, 1);
    are_kept_by(&mut cluster, &[1, 2, 3], &["n1", "n2", "n3"]);
    cluster.node(3).kill();
    works(&mut cluster, 1);
    cluster.node(3).restart();
    cluster.node(1).terminate();
    cluster.node(1).restart();
    is_well(&mut cluster, &[1, 2, 3]);
}

/// Whatever asks a daemon that starts is told the same sentence.
fn says_while_it_starts(cluster: &mut Cluster, number: usize, words: &[&str]) {
    let socket = cluster.node(number).admin_socket();
    let says = |verb: &[&str]| {
        let done = run(&[&[CARDS], verb].concat(), SHORT);
        done.stdout + &done.stderr
    };
    let config = cluster.plan.dir.join(format!("n{number}.toml")).display().to_string();
    for verb in [
        &["status", "--socket", &socket][..],
        &["status", "--json", "--socket", &socket],
        &["volume", "list", "--socket", &socket],
        &["doctor", "--config", &config],
    ] {
        eventually(&format!("{verb:?} says {words:?}: {}", says(verb)), SHORT, || {
            let said = says(verb);
            words.iter().all(|word| said.contains(word)).then_some(())
        });
    }
}

/// Has the copy that was put aside at a node taken for what it is: the latest state, on another disk.
fn is_moved(cluster: &mut Cluster, number: usize) {
    cluster.node(number).terminate();
    let state = cluster.plan.runtime_dir(number - 1).join("state");
    fs::rename(state.join("register.copy"), state.join("register.moved")).expect("a copy that was put aside");
}

/// The only part of a registry, on another disk: the node waits, and says what to do, until that is done.
#[test]
fn the_only_part_of_a_registry_that_was_moved_goes_on_when_an_operator_says_that_it_is_the_latest() {
    let dir = scratch();
    let mut cluster = Cluster::down(plan(dir.path()));
    cluster.node(1).restart();
    is_well(&mut cluster, &[1]);
    cluster.node(1).terminate();
    let copy = dir.path().join("copy");
    save(&cluster, 1, &copy);
    restore(&cluster, 1, &copy);
    let words = ["waits for a node that keeps the registry", "register.copy", "register.moved"];
    // A service manager starts it again and again.
    for _ in 0..2 {
        cluster.node(1).spawn();
        says_while_it_starts(&mut cluster, 1, &words);
        cluster.node(1).kill();
    }
    cluster.node(1).spawn();
    is_moved(&mut cluster, 1);
    cluster.node(1).restart();
    cluster.node(2).restart();
    is_well(&mut cluster, &[1, 2]);
}

/// All of those that keep the registry have moved to other disks.
#[test]
fn all_parts_of_a_registry_that_were_moved_go_on_when_an_operator_says_that_they_are_the_latest() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    for number in 1..=3 {
        cluster.node(number).kill();
        let copy = dir.path().join(format!("copy{number}"));
        save(&cluster, number, &copy);
        restore(&cluster, number, &copy);
    }
    for number in 1..=3 {
        cluster.node(number).spawn();
    }
    for number in 1..=3 {
        says_while_it_starts(&mut cluster, number, &["register.copy", "register.moved", "do this on each"]);
    }
    for number in 1..=3 {
        is_moved(&mut cluster, number);
    }
    for number in 1..=3 {
        cluster.node(number).spawn();
    }
    for number in 1..=3 {
        cluster.node(number).wait_ready();
    }
    are_kept_by(&mut cluster, &[1, 2, 3], &["n1", "n2", "n3"]);
    is_well(&mut cluster, &[1, 2, 3]);
    works(&mut cluster, 3);
}

/// Two of three are lost for good: the third goes on alone, when somebody says so, and the nodes that are left with it. Those that were lost come back
/// after all, with most parts of the earlier registry.
#[test]
fn a_registry_is_recovered_from_one_part_and_is_never_merged_with_the_lost_ones() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    cluster.node(4).restart();
    is(&mut cluster, 2, "n4", "up");
    let config = dir.path().join("n2.toml").display().to_string();
    let recover =
        |words: &[&str]| run(&[&[CARDS, "cluster", "recover", "--config", &config], words].concat(), SHORT);
    let refused = |words: &[&str], expected: &[&str]| {
        let done = recover(words);
        assert!(!done.status.success(), "{words:?}");
        assert!(expected.iter().all(|word| done.stderr.contains(word)), "{words:?}: {}", done.stderr);
    };
    cluster.node(2).terminate();
    refused(&["--confirm", "lab"], &["n1, n3 can be connected to", "--although-others-answer"]);
    cluster.node(2).restart();
    cluster.node(1).kill();
    cluster.node(3).kill();
    refused(&["--confirm", "lab"], &["in use by a daemon", "stop it first"]);
    let epoch = cluster.node(2).status()["epoch"].as_u64();
    cluster.node(2).terminate();
    let name = cluster.plan.nodes[1].cluster.clone();
    refused(&[], &["n1, n3", &format!("--confirm {name}")]);
    refused(&["--confirm", "other"], &["--confirm other", &format!("--confirm {name}")]);
    let done = recover(&["--confirm", &name, "--json"]).ok().stdout;
    let done: serde_json::Value = serde_json::from_str(&done).expect("one object");
    assert_eq!(done["given_up"], json!(["n1", "n3"]));
    refused(&["--confirm", &name], &["this node alone keeps the registry already"]);
    cluster.node(2).restart();
    are_kept_by(&mut cluster, &[2, 4], &["n2"]);
    assert!(cluster.node(2).status()["epoch"].as_u64() > epoch);
    for at in [2, 4] {
        is(&mut cluster, at, "n1", "dead");
        is(&mut cluster, at, "n3", "dead");
        works(&mut cluster, at);
    }
    // They begin with the parts that they had, which are most of the earlier registry.
    for number in [1, 3] {
        cluster.node(number).spawn();
    }
    for number in [1, 3] {
        cluster.node(number).wait_ready();
        is(&mut cluster, 2, &format!("n{number}"), "up");
        let problems = cluster.node(number).status()["problems"].to_string();
        assert!(problems.contains("register.old"), "{problems}");
        works(&mut cluster, number);
    }
    for number in [1, 3] {
        cluster.node(number).terminate();
        cluster.node(number).restart();
    }
    eventually("three keep it", SHORT, || {
        let registry = cluster.node(2).status()["registry"].clone();
        (registry["arbiters"].as_array().map(Vec::len) == Some(3) && registry["changes"].is_null())
            .then_some(())
    });
    is_well(&mut cluster, &[1, 2, 3, 4]);
    cluster.node(1).kill();
    works(&mut cluster, 4);
}

/// The server of an arbiter's disk is away when it starts. It waits, and what it votes is needed meanwhile.
#[test]
fn an_arbiter_whose_disk_is_away_at_its_start_keeps_its_part() {
    let dir = scratch();
    let mut cluster = three(dir.path());
    cluster.node(3).terminate();
    let file = dir.path().join("n3.toml");
    let text = fs::read_to_string(&file).expect("the file of n3");
    let uri = format!("nbd://{}/export", free_port());
    fs::write(&file, format!("{text}\n[[disk]]\nname = \"far\"\nuri = \"{uri}\"\n")).expect("a file");
    cluster.node(1).kill();
    cluster.node(3).spawn();
    let socket = cluster.node(3).admin_socket();
    eventually("n3 waits for its disk", SHORT, || {
        let done = run(&[CARDS, "status", "--socket", &socket], SHORT);
        done.stdout.contains("waits for disk far").then_some(())
    });
    is(&mut cluster, 2, "n1", "dead");
    works(&mut cluster, 2);
    let status = cluster.node(3).status();
    assert!(status["starting"]["waits_for"] == "disk far", "{status}");
    assert!(cluster.node(3).terminate().success());
}
