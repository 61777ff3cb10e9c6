//! The copies of a mirrored volume change while it serves: nodes go for good, disks are replaced, a stale copy is forced.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;
use crate::harness::plan::Plan;
use crate::harness::{LONG, SHORT, content, eventually, scratch};
use crate::mirror::{Writer, at, check_all, cluster_by, cluster_of, number_of, volume};

/// Four nodes, each with a managed disk, and a volume with two copies, attached at the nodes without.
struct Scene {
    cluster: Cluster,
    copies: Vec<usize>,
    others: Vec<usize>,
}

impl Scene {
    fn new(dir: &Path) -> Self {
        Self::of(cluster_of(dir, 4, None))
    }

    fn of(mut cluster: Cluster) -> Self {
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
        eventually(&format!("copies are in sync at {nodes:?}, says n{asked}"), LONG, || {
            let told = volume(&mut self.cluster, asked);
            let mut found = copies(&told);
            found.sort_unstable();
            let mut wanted: Vec<_> = nodes.iter().map(|node| (*node, "in_sync".to_owned())).collect();
            wanted.sort_unstable();
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
    assert!(needed.stderr.contains(&format!("cards disk drain n{first} --wait")), "{needed}");
    let (from, to) = (format!("n{first}"), format!("n{fourth}:fast{fourth}"));
    let words = ["volume", "replace", "data", "--from", &from, "--to", &to, "--json"];
    let replaced: Value = serde_json::from_str(&at(&mut scene.cluster, third, &words).ok().stdout).unwrap();
    assert_eq!(replaced["to"], to, "{replaced}");
    let again = at(&mut scene.cluster, third, &["volume", "replace", "data", "--from", &from]);
    assert!(
        again.stderr.contains("is being replaced by the one on") || again.stderr.contains("has no copy"),
        "{again}"
    );
    scene.wait_copies(third, &[other, fourth]);
    let moved = format!("n{fourth} is the primary in the place of {from}, which has handed");
    let left = format!("copy {from}:fast{first} has left the volume; {to} has its place");
    scene.cluster.node(first).says(&[&format!("copy {to} has joined")]);
    scene.cluster.node(first).says(&[&moved]);
    scene.cluster.node(fourth).says(&[&left]);
    writer.goes_on(50);
    let disk = format!("{}/fast{first}.img", dir.path().display());
    eventually("the old copy is removed from its disk", LONG, || {
        let told = at(&mut scene.cluster, first, &["disk", "show", &disk, "--json"]);
        (!told.stdout.contains("\"data\"")).then_some(())
    });
    // One node has another reason: it keeps the registry.
    let leaves = at(&mut scene.cluster, first, &["leave"]);
    assert!(!leaves.stderr.contains("has a copy"), "{leaves}");
    writer.goes_on(50);
    // The other one leaves with its disk.
    let disk = format!("n{other}:fast{other}");
    let drained =
        at(&mut scene.cluster, third, &["disk", "drain", &format!("n{other}"), "--wait", "--json"]).ok();
    let drained: Value = serde_json::from_str(&drained.stdout).unwrap();
    assert_eq!((&drained["leaving"], &drained["refused"]), (&json!(["data"]), &json!([])));
    let disks: Value =
        serde_json::from_str(&at(&mut scene.cluster, third, &["disk", "list", "--json"]).ok().stdout)
            .unwrap();
    let with_copies = disks.as_array().unwrap().iter().filter(|disk| disk["copies"] == json!(["data"]));
    let with_copies: Vec<&str> = with_copies.filter_map(|disk| disk["node"].as_str()).collect();
    assert!(with_copies.len() == 2 && !with_copies.contains(&format!("n{other}").as_str()), "{disks}");
    let nothing = at(&mut scene.cluster, third, &["disk", "drain", &disk]).ok();
    assert!(nothing.stdout.contains("there are no copies"), "{nothing}");
    let known = writer.end(reader);
    check_all(&scene.cluster.export(third, "data"), &known);
    scene.cluster.node(fourth).kill();
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
    let replacing =
        format!("that on n{first}:fast{first} is being replaced by n{fourth}:fast{fourth}, which is ");
    assert!(status.contains(&replacing), "{status}");
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
    // The dead node has kept the registry, too, and counts after it is forgotten until a third one has taken its place: before that
    // the next death would be one too many.
    let living = [third, other, fourth].map(|number| json!(format!("n{number}")));
    eventually("three nodes that live keep the registry", LONG, || {
        let registry = scene.cluster.node(third).status()["registry"].clone();
        let keepers = registry["arbiters"].as_array()?;
        (living.iter().all(|node| keepers.contains(node)) && registry["changes"].is_null()).then_some(())
    });
    scene.cluster.node(other).kill();
    check_all(&scene.cluster.export(third, "data"), &known);
    eventually("the new copy's node orders the writes", LONG, || {
        (scene.primary(third) == fourth).then_some(())
    });
}

/// A node is gone, and nobody does anything about it. When it is back after all, its copy is removed from its disk.
#[test]
fn a_copy_that_is_stale_for_long_is_replaced_without_being_asked() {
    let dir = scratch();
    let plan = Plan { disk_wait: "60s", rebuild_after: "2s", ..Plan::new(dir.path(), 4) };
    let mut scene = Scene::of(cluster_by(plan, None));
    let (first, third, fourth) = (scene.primary(1), scene.others[0], scene.others[1]);
    let other = *scene.copies.iter().find(|copy| **copy != first).unwrap();
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(fourth, "data"));
    writer.goes_on(50);
    scene.cluster.node(first).kill();
    let mut spare = None;
    eventually("another node has a copy in sync", LONG, || {
        let found = copies(&volume(&mut scene.cluster, third)).into_iter();
        let mut in_sync = found.filter(|(_, state)| state == "in_sync").map(|(node, _)| node);
        spare = in_sync.find(|node| *node != first && *node != other);
        spare.map(drop)
    });
    writer.goes_on(50);
    let said = scene.cluster.node(other).log();
    let why = format!("the copy on n{first}:fast{first} has been stale for 2s, and is replaced");
    assert!(said.contains(&why), "{said}");
    scene.cluster.node(first).restart();
    scene.wait_copies(third, &[other, spare.unwrap()]);
    let known = writer.end(reader);
    scene.cluster.node(other).kill();
    check_all(&scene.cluster.export(third, "data"), &known);
}

/// The last copy in sync is gone for good. A person forces the stale one; the other one comes back and is filled from it.
#[test]
fn a_stale_copy_is_forced_and_what_comes_back_is_filled_from_it() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (first, third) = (scene.primary(1), scene.others[0]);
    let other = *scene.copies.iter().find(|copy| **copy != first).unwrap();
    let mut client = scene.cluster.export(third, "data").open();
    client.socket.limit(LONG).unwrap();
    let (old, new) = (content::bytes(0, 4096, 1), content::bytes(0, 4096, 2));
    client.write(0, &old).unwrap();
    client.flush().unwrap();
    let stale = format!("n{other}");
    let force = |scene: &mut Scene, more: &[&str]| {
        at(&mut scene.cluster, third, &[&["volume", "force", "data", "--from", &stale], more].concat())
    };
    let needless = force(&mut scene, &[]);
    assert!(needless.stderr.contains("is in sync, and is not to be forced"), "{needless}");

    scene.cluster.node(other).kill();
    client.write(0, &new).unwrap();
    client.flush().unwrap();
    client.close();
    // What loses data is not offered where it is not needed.
    for more in [&[][..], &["--force=data@1"]] {
        let there = force(&mut scene, more);
        assert!(there.stderr.contains("nothing has to be forced"), "{there}");
        assert!(!there.stderr.contains("--force"), "{there}");
    }

    scene.cluster.node(first).kill();
    scene.cluster.node(other).restart();
    let typed = eventually("it says what to type", LONG, || {
        let untyped = force(&mut scene, &[]);
        let since = untyped.stderr.split("--force=data@").nth(1)?.trim().to_owned();
        assert!(untyped.stderr.contains("What was written since is lost for ever"), "{untyped}");
        Some(format!("--force=data@{since}"))
    });
    eventually("the copy is forced", LONG, || {
        let done = force(&mut scene, &[&typed, "--json"]);
        done.stdout.contains("\"generation\":2").then_some(())
    });
    let export = scene.cluster.export(third, "data");
    let mut client = export.open();
    client.socket.limit(LONG).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), old, "what the other one had is given up");
    client.write(4096, &content::bytes(4096, 4096, 3)).unwrap();
    client.flush().unwrap();
    scene.cluster.node(first).restart();
    scene.wait_copies(third, &[first, other]);
    scene.cluster.node(other).kill();
    assert_eq!(client.read(0, 4096).unwrap(), old, "two histories are never merged");
    let mut again = export.open();
    again.socket.limit(LONG).unwrap();
    assert_eq!(again.read(4096, 4096).unwrap(), content::bytes(4096, 4096, 3));
    client.close();
    again.close();
}

#[test]
fn what_cannot_be_replaced_or_forced_is_refused() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let (from, to) = (format!("n{}", scene.copies[0]), format!("n{}", scene.copies[1]));
    let mut refused = |words: &[&str], why: &str| {
        let done = at(&mut scene.cluster, 1, words);
        assert!(!done.status.success() && done.stderr.contains(why), "{why}: {done}");
    };
    let replace = ["volume", "replace", "data", "--from"];
    let no_volume = ["volume", "replace", "none", "--from", "n1"];
    refused(&no_volume, "none");
    refused(&[&replace[..], &["n9"]].concat(), "has no copy at n9: its copies are on ");
    refused(&[&replace[..], &[&from, "--to", "n9:fast"]].concat(), "no node has a managed disk \"n9:fast\"");
    refused(
        &[&replace[..], &[&from, "--to", &to]].concat(),
        "has a copy of volume `data`; choose another one",
    );
    refused(&["volume", "force", "data", "--from", "n9"], "has no copy at n9:");
    refused(&["volume", "force", "data", "--from", &from], "is in sync, and is not to be forced");
    // A larger volume is at the other two nodes, and the first two have no room for a copy of it.
    refused(
        &["volume", "create", "none", "--size", "1T", "--layout", "raid1:2"],
        "needs 1099511627776 bytes",
    );
    let large = ["volume", "create", "large", "--size", "64M", "--layout", "raid1:2"];
    at(&mut scene.cluster, 1, &large).ok();
    // While its copies are made they are not replaced, and that would be the reason.
    eventually("the larger volume is ready", LONG, || {
        let told = at(&mut scene.cluster, 1, &["volume", "show", "large", "--json"]).stdout;
        let told: Value = serde_json::from_str(&told).ok()?;
        (told["mirror"]["state"] == "ready").then_some(())
    });
    let from = format!("n{}", scene.others[0]);
    let mut refused = |words: &[&str], why: &str| {
        let done = at(&mut scene.cluster, 1, words);
        let said = done.stdout.clone() + &done.stderr;
        assert!(!done.status.success() && said.contains(why), "{why}: {done}");
    };
    let replace = ["volume", "replace", "large", "--from", &from];
    refused(&replace, "it needs 67108864 bytes in a failure domain");
    refused(&replace, "free there: disk ");
    refused(&["disk", "drain", &from], "no other copy");
    refused(&["disk", "drain", "n9"], "no node has a managed disk \"n9\": there are n1:fast1, ");
    refused(&[&replace[..], &["--to", &to]].concat(), "takes 67108864 bytes, and managed disk ");
}
