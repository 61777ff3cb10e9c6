//! The copies of a mirrored volume change while it serves: nodes go for good, disks are replaced, a stale copy is forced.

use serde_json::Value;

use crate::harness::cluster::Cluster;
use crate::harness::{LONG, SHORT, eventually, scratch};
use crate::mirror::{Writer, at, check_all, cluster_of, number_of, volume};

/// Four nodes, each with a managed disk, and a volume with two copies, attached at the nodes without.
struct Scene {
    cluster: Cluster,
    copies: Vec<usize>,
    others: Vec<usize>,
}

impl Scene {
    fn new(dir: &std::path::Path) -> Self {
        let mut cluster = cluster_of(dir, 4, None);
        at(&mut cluster, 1, &["volume", "create", "data", "--size", "16M", "--layout", "raid1:2"]).ok();
        for number in 1..=4 {
            eventually(&format!("n{number} knows the volume"), SHORT, || {
                (volume(&mut cluster, number)["state"] == "ready").then_some(())
            });
            at(&mut cluster, number, &["volume", "attach", "data"]).ok();
        }
        let copies: Vec<usize> = copies(&volume(&mut cluster, 1)).iter().map(|(node, _)| *node).collect();
        let others = (1..=4).filter(|number| !copies.contains(number)).collect();
        Self { cluster, copies, others }
    }

    fn primary(&mut self, asked: usize) -> usize {
        number_of(&volume(&mut self.cluster, asked)["mirror"]["map"]["primary"]).expect("a primary")
    }

    /// Waits until these nodes, and no others, have copies, all in sync.
    fn wait_copies(&mut self, asked: usize, nodes: &[usize]) {
        let mut last = Value::Null;
        eventually(&format!("copies are in sync at {nodes:?}, says n{asked}"), LONG, || {
            let told = volume(&mut self.cluster, asked);
            let mut found = copies(&told);
            found.sort_unstable();
            let mut wanted: Vec<_> = nodes.iter().map(|node| (*node, "in_sync".to_owned())).collect();
            wanted.sort_unstable();
            if told != last {
                println!("{}", told["mirror"]["copies"]);
                last = told;
            }
            (found == wanted).then_some(())
        });
    }
}

/// Nodes that have copies, and what those have.
fn copies(volume: &Value) -> Vec<(usize, String)> {
    let list = volume["mirror"]["copies"].as_array().cloned().unwrap_or_default();
    let one = |copy: &Value| Some((number_of(&copy["node"])?, copy["state"].as_str()?.to_owned()));
    list.iter().filter_map(one).collect()
}

/// A copy is moved while its node lives, the primary's own too; then the node whose copy has left is not needed any more.
#[test]
fn a_copy_is_drained_while_clients_write() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (first, third, fourth) = (scene.primary(1), scene.others[0], scene.others[1]);
    let other = *scene.copies.iter().find(|copy| **copy != first).unwrap();
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(other, "data"));
    writer.goes_on(50);
    let needed = at(&mut scene.cluster, first, &["leave"]);
    assert!(!needed.status.success(), "{needed}");
    assert!(needed.stderr.contains(&format!("cards volume replace data --from n{first}:")), "{needed}");
    let (from, to) = (format!("n{first}"), format!("n{fourth}:fast{fourth}"));
    let words = ["volume", "replace", "data", "--from", &from, "--to", &to, "--json"];
    let replaced: Value = serde_json::from_str(&at(&mut scene.cluster, third, &words).ok().stdout).unwrap();
    assert_eq!(replaced["to"], to, "{replaced}");
    let again = at(&mut scene.cluster, third, &["volume", "replace", "data", "--from", &from]);
    println!("{again}");
    scene.wait_copies(third, &[other, fourth]);
    writer.goes_on(50);
    let disk = format!("{}/fast{first}.img", dir.path().display());
    eventually("the old copy is removed from its disk", LONG, || {
        let told = at(&mut scene.cluster, first, &["disk", "show", &disk, "--json"]);
        (!told.stdout.contains("\"data\"")).then_some(())
    });
    at(&mut scene.cluster, first, &["leave"]).ok();
    writer.goes_on(50);
    let known = writer.end(reader);
    check_all(&scene.cluster.export(third, "data"), &known);
    scene.cluster.node(other).kill();
    check_all(&scene.cluster.export(third, "data"), &known);
}

/// A node is gone for good. Its copy is replaced on a fourth one, whose daemon is killed meanwhile; then the other original is killed.
#[test]
fn a_dead_node_is_replaced_and_all_is_there_when_the_other_one_dies_too() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (first, third, fourth) = (scene.primary(1), scene.others[0], scene.others[1]);
    let other = *scene.copies.iter().find(|copy| **copy != first).unwrap();
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(other, "data"));
    writer.goes_on(50);
    scene.cluster.node(first).kill();
    writer.goes_on(50);
    let dead = format!("n{first}");
    let forget = ["forget", &dead, "--with-disks"];
    eventually("the node is declared dead", LONG, || {
        let told = at(&mut scene.cluster, third, &forget).stderr;
        told.contains(&format!("cards volume replace data --from n{first}:fast{first}")).then_some(())
    });
    let to = format!("n{fourth}");
    at(&mut scene.cluster, third, &["volume", "replace", "data", "--from", &dead, "--to", &to]).ok();
    scene.cluster.node(fourth).kill();
    writer.goes_on(20);
    let status = at(&mut scene.cluster, third, &["status"]).stdout;
    println!("{status}");
    scene.cluster.node(fourth).restart();
    eventually("the copy is in sync, and the old one has left", LONG, || {
        let told = volume(&mut scene.cluster, third);
        let mut found = copies(&told);
        found.sort_unstable();
        let mut wanted = vec![
            (first, "removing".to_owned()),
            (other, "in_sync".to_owned()),
            (fourth, "in_sync".to_owned()),
        ];
        wanted.sort_unstable();
        (found == wanted).then_some(())
    });
    at(&mut scene.cluster, third, &forget).ok();
    scene.wait_copies(third, &[other, fourth]);
    writer.goes_on(50);
    let known = writer.end(reader);
    scene.cluster.node(other).kill();
    check_all(&scene.cluster.export(third, "data"), &known);
    assert_eq!(scene.primary(third), fourth);
}
