//! The configuration that the package installs becomes that of a member: it is edited, and what cannot work is refused before.

use std::fs;

use super::{cluster, join};
use crate::harness::process::{Finished, run};
use crate::harness::{SHORT, scratch};

const PACKAGED: &str = include_str!("../../../../../packaging/debian/node.toml");

fn call(command: &[String], more: &[&str]) -> Finished {
    let command: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run(&command, SHORT)
}

#[test]
fn joining_edits_it() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let config = dir.path().join("n3-node.toml");
    fs::write(&config, PACKAGED).unwrap();
    let command = join(dir.path(), &cluster, "lab", "n3");
    let done = call(&command, &["--write-only"]).ok();
    for word in ["set cluster, node", "the rest of the file stays"] {
        assert!(done.stderr.contains(word), "no {word:?} in {done}");
    }
    let written = fs::read_to_string(&config).unwrap();
    let values = [
        "cluster = \"lab\"",
        "node = \"n3\"",
        "cache = \"64M\"",
        "[coordinator.embedded]",
        "volume = \"disk\"",
    ];
    for value in values {
        assert!(written.contains(value), "no {value:?} in {written}");
    }
    for line in PACKAGED.lines().filter(|line| line.contains('#') && !line.contains("256M")) {
        assert!(written.contains(line), "{line:?} is gone from {written}");
    }
    for kept in ["# memory for cached blocks", "prefault = false", "[web]\nlisten = \"127.0.0.1:7480\""] {
        assert!(written.contains(kept), "no {kept:?} in {written}");
    }

    // To say the same again is no change: a token may come later, and the file may have more by then.
    let written = written + "# mine\n";
    fs::write(&config, &written).unwrap();
    let again = call(&command, &["--write-only", "--json"]).ok();
    assert!(again.stderr.contains("is there already, and says the same"), "{again}");
    let said: serde_json::Value = serde_json::from_str(&again.stdout).expect("one object");
    assert_eq!((&said["node"], &said["changed"]), (&"n3".into(), &serde_json::json!([])));
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
}

#[test]
fn that_of_another_node_stays() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let config = dir.path().join("n3-node.toml");
    call(&join(dir.path(), &cluster, "lab", "n3"), &["--write-only"]).ok();
    let written = fs::read_to_string(&config).unwrap();
    let command = join(dir.path(), &cluster, "other", "n4");
    let at = command.iter().position(|word| word == "--config").expect("an option") + 1;
    let command = [&command[..at], &[config.display().to_string()], &command[at + 1..]].concat();
    let refused = call(&command, &["--write-only"]).fails();
    for word in [
        "is there already",
        "node \"n3\" of cluster \"lab\"",
        "cluster = \"lab\", not \"other\"",
        "cards serve --config",
    ] {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
    }
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
}

/// What no node of the cluster would accept is refused before the file changes.
#[test]
fn a_block_size_and_a_volume_that_the_cluster_does_not_have_are_refused() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let config = dir.path().join("n3-node.toml");
    fs::write(&config, PACKAGED).unwrap();
    let command = join(dir.path(), &cluster, "lab", "n3");
    for (more, words) in [
        (["--block", "32K"], "volume \"disk\" of node n1 has blocks of 64K; use --block 64K"),
        (["--attach", "dsik"], "cluster \"lab\" has no volume of this name; did you mean \"disk\"?"),
        (["--coordinator", "n1@0.0.0.0:7400"], "--coordinator 0.0.0.0:7400: other nodes cannot call that"),
    ] {
        let command: Vec<String> = match more[0] {
            "--coordinator" => {
                let at = command.iter().position(|word| word == more[0]).expect("an option");
                [&command[..at], &command[at + 2..]].concat()
            }
            _ => command.clone(),
        };
        let refused = call(&command, &more).fails();
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains(words), "no {words:?} in {refused}");
        assert_eq!(fs::read_to_string(&config).unwrap(), PACKAGED);
        assert!(!dir.path().join("n3-state").exists());
    }
}

#[test]
fn it_is_back_when_the_node_cannot_join() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let config = dir.path().join("n3-node.toml");
    fs::write(&config, PACKAGED).unwrap();
    let refused = call(&join(dir.path(), &cluster, "other", "n3"), &[]).fails();
    assert!(refused.stderr.contains("coordinator of cluster `lab`"), "{refused}");
    assert_eq!(fs::read_to_string(&config).unwrap(), PACKAGED);
}
