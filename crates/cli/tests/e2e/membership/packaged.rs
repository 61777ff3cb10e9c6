//! The configuration that the package installs gives way to that of a member, as long as nobody has changed it.

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
fn joining_replaces_it() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let config = dir.path().join("n3-node.toml");
    fs::write(&config, PACKAGED).unwrap();
    let command = join(dir.path(), &cluster, "lab", "n3");
    let done = call(&command, &["--write-only"]).ok();
    assert!(done.stderr.contains("in place of the package's"), "{done}");
    let written = fs::read_to_string(&config).unwrap();
    assert!(written.contains("cluster = \"lab\"") && written.contains("node = \"n3\""), "{written}");

    // That one is somebody's. To say the same again is no change: a token may come later.
    let again = call(&command, &["--write-only"]).ok();
    assert!(again.stderr.contains("is there already, and says the same"), "{again}");
    let written = written + "# mine\n";
    fs::write(&config, &written).unwrap();
    let refused = call(&command, &["--write-only"]).fails();
    for word in
        ["is there already", "node \"n3\" of cluster \"lab\"", "cards serve --config", "remove the file"]
    {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
    }
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
}

#[test]
fn a_changed_one_stays() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let config = dir.path().join("n3-node.toml");
    let mine = PACKAGED.replace("256M", "300M");
    fs::write(&config, &mine).unwrap();
    let refused = call(&join(dir.path(), &cluster, "lab", "n3"), &["--write-only"]).fails();
    assert!(refused.stderr.contains("cluster \"alone\""), "{refused}");
    assert_eq!(fs::read_to_string(&config).unwrap(), mine);
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
