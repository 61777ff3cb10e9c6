//! One node is asked about the others, and why a read takes its way.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 61;

fn three_nodes(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    let mut cluster = Cluster::start(Plan::new(dir, 3).disk(Disk::file(&image)).cache("16M"));
    for node in 1..=3 {
        eventually("it is connected with all", SHORT, || {
            let status = json(&mut cluster, node, &["status"]);
            let members = status["members"].as_array()?;
            let is_up = |member: &Value| member["state"] == "up" || member["state"] == "here";
            (members.len() == 3 && members.iter().all(is_up)).then_some(())
        });
    }
    cluster
}

fn ask(cluster: &mut Cluster, node: usize, arguments: &[&str]) -> Finished {
    let socket = cluster.node(node).admin_socket();
    run(&[&[CARDS], arguments, &["--socket", &socket]].concat(), SHORT)
}

fn json(cluster: &mut Cluster, node: usize, arguments: &[&str]) -> Value {
    let answer = ask(cluster, node, &[arguments, &["--json"]].concat()).ok();
    serde_json::from_str(&answer.stdout).expect("JSON")
}

/// The status and the body of `GET path` at a node.
pub(crate) fn get(cluster: &Cluster, node: usize, path: &str) -> (String, Value) {
    let socket = cluster.plan.runtime_dir(node - 1).join("api.sock");
    let mut stream = UnixStream::connect(socket).expect("the API listens");
    stream.set_read_timeout(Some(SHORT)).expect("a limit");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status");
    (status.to_owned(), serde_json::from_str(body).expect("JSON"))
}

fn states(cluster: &Value) -> Vec<(&str, &str, bool)> {
    let nodes = cluster["nodes"].as_array().expect("a list").iter();
    nodes
        .map(|node| {
            let text = |key: &str| node[key].as_str().unwrap_or_default();
            (text("name"), text("state"), node["status"].is_object())
        })
        .collect()
}

#[test]
fn one_node_tells_how_all_are_also_if_one_of_them_hangs() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    let all = json(&mut cluster, 2, &["status", "--cluster"]);
    assert_eq!(states(&all), [("n1", "up", true), ("n2", "here", true), ("n3", "up", true)]);
    assert_eq!(get(&cluster, 2, "/v1/cluster").1["node"], "n2");
    let lines = ask(&mut cluster, 1, &["status", "--cluster"]).ok();
    assert!(lines.stdout.contains("all is well") && lines.stdout.contains("n3"), "{lines}");

    cluster.node(3).pause();
    eventually("the silence of a node is reported", SHORT, || {
        let all = json(&mut cluster, 2, &["status", "--cluster"]);
        let silent = &all["nodes"][2];
        (silent["status"].is_null() && silent["error"].is_string() && states(&all)[0].2).then_some(())
    });
    cluster.node(3).resume();
    eventually("it answers again", SHORT, || {
        states(&json(&mut cluster, 2, &["status", "--cluster"])).iter().all(|state| state.2).then_some(())
    });
}

#[test]
fn the_way_of_a_read_is_told_before_it_is_taken() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    // Away from the beginning, which is read to see whether a node is ready.
    let offset = 4 * MIB;
    let mut client = cluster.export(2, "disk").open();
    client.read(offset, 512).expect("a read");
    let why = json(&mut cluster, 3, &["why", "disk", "4M"]);
    let cached = |why: &Value, node: usize| why["nodes"][node]["block"]["cached"] == true;
    assert!(cached(&why, 1) && !cached(&why, 2), "{why}");
    assert!(why["sentence"].as_str().is_some_and(|text| text.contains("a remote hit")), "{why}");
    let before = cluster.node(3).counter("remote_hits");
    let mut reader = cluster.export(3, "disk").open();
    reader.read(offset, 512).expect("a read");
    assert_eq!(cluster.node(3).counter("remote_hits"), before + 1);
    let told = ask(&mut cluster, 3, &["why", "disk", "4M"]).ok();
    assert!(told.stdout.starts_with("A read of this block at n3 would be a local hit."), "{told}");
    assert!(["n1", "n2", "in memory", "lease"].iter().all(|word| told.stdout.contains(word)), "{told}");
    let (status, same) = get(&cluster, 3, &format!("/v1/why?volume=disk&offset={offset}"));
    assert_eq!((status.as_str(), &same["block_offset"]), ("200", &Value::from(offset)));
}

#[test]
fn a_block_that_is_not_there_has_no_way() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    for (volume, offset, part) in [("dusk", "0", "\"dusk\""), ("disk", "8M", "beyond the end")] {
        let refused = ask(&mut cluster, 2, &["why", volume, offset]).fails();
        assert!(refused.stderr.contains(part), "{refused}");
    }
    for (query, status) in [
        ("volume=dusk&offset=0", "404"),
        ("volume=disk&offset=8388608", "400"),
        ("volume=disk", "400"),
        ("volume=disk&offset=0&offset=1", "400"),
        ("", "400"),
    ] {
        let (answer, body) = get(&cluster, 2, &format!("/v1/why?{query}"));
        assert!(answer == status && body["error"]["message"].is_string(), "{query}: {answer} {body}");
    }
    ask(&mut cluster, 2, &["volume", "detach", "disk"]).ok();
    let refused = ask(&mut cluster, 2, &["why", "disk", "0"]).fails();
    assert!(refused.stderr.contains("not attached here"), "{refused}");
}
