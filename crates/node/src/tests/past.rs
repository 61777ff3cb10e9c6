//! What nodes know of the past, their own and that of others.

use serde_json::Value;

use super::cluster::{BLOCK, Cluster};
use super::http::{address, ask, get, web};

fn json(cluster: &Cluster, node: usize, path: &str) -> Value {
    serde_json::from_str(&get(cluster, node, path)).unwrap()
}

/// The sum of a field over all samples of a history.
fn sum(history: &Value, field: &str) -> u64 {
    let at = 1 + history["fields"].as_array().unwrap().iter().position(|name| name == field).unwrap();
    history["samples"].as_array().unwrap().iter().map(|sample| sample[at].as_u64().unwrap()).sum()
}

#[test]
fn what_a_node_did_and_that_it_died_is_told_by_the_others() {
    let mut cluster = Cluster::with(3, 16 * BLOCK, web);
    let begun = |cluster: &Cluster| json(cluster, 3, "/v1/history?node=n3")["samples"][0].is_array();
    cluster.wait("node 3 samples itself", || begun(&cluster));
    let mut client = cluster.client(3);
    (0..16).for_each(|block| drop(client.read(block * BLOCK as u64, 512).unwrap()));
    let kept = |node: usize, cluster: &Cluster| {
        let past = cluster.node(node).history.past("n3");
        past.is_some_and(|past| sum(&serde_json::to_value(past).unwrap(), "reads") >= 16)
    };
    cluster.wait("both others know of it", || kept(1, &cluster) && kept(2, &cluster));

    drop(client);
    cluster.kill(3);
    let died = |cluster: &Cluster| {
        let events = json(cluster, 1, "/v1/events");
        let events = events.as_array().unwrap().clone();
        events.into_iter().find(|event| event["kind"] == "died" && event["node"] == "n3")
    };
    cluster.wait("both others say that it is dead", || {
        died(&cluster).is_some_and(|event| event["by"].as_array().unwrap().len() == 2)
    });
    for path in ["/v1/history", "/v1/history?node=n3"] {
        let told = json(&cluster, 2, path);
        assert!(told["nodes"].as_array().unwrap().contains(&"n3".into()), "{path}: {}", told["nodes"]);
        assert!(sum(&told, "reads") >= 16, "{path}");
        assert!(told["events"].to_string().contains("started"), "{path}: {}", told["events"]);
    }
    let events = json(&cluster, 1, "/v1/events").to_string();
    assert!(events.contains(r#""kind":"started","node":"n3""#), "its own word is kept: {events}");
}

#[test]
fn what_is_no_node_has_no_past() {
    let cluster = Cluster::with(1, BLOCK, web);
    let address = address(&cluster, 1);
    for (query, word) in [
        ("node=n9", "no member"),
        ("node=%00", "no member"),
        ("node=n1&x=1", "node=N"),
        ("volume=disk", "node=N"),
    ] {
        let (head, body) = ask(address, "GET", &format!("/v1/history?{query}"), "localhost");
        assert!(head.starts_with("HTTP/1.1 400") && body.contains(word), "{query}: {head}\n{body}");
    }
    assert!(get(&cluster, 1, "/v1/history?node=n1").contains("\"nodes\":[\"n1\"]"));
}
