//! Managed disks at other nodes than their own: what is said of them costs nobody the only original.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};
use crate::mirror::{at, cards, three_keep_the_registry, volume};

fn image(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("disk{number}.img"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Makes a managed disk that is called as those of all other nodes are.
fn format(path: &Path) {
    fs::File::create(path).unwrap().set_len(96 * MIB).unwrap();
    cards(&["disk", "format", text(path), "--name", "fast"]).ok();
}

/// Three nodes, each with a managed disk `fast`, which the registry has; n2's has this volume.
fn three(dir: &Path, own: Option<&str>) -> Cluster {
    let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir, 3) };
    for (number, node) in (1..).zip(&mut plan.nodes) {
        let path = image(dir, number);
        format(&path);
        node.disks.push(Disk::managed("fast", &path));
    }
    if let Some(own) = own {
        cards(&["volume", "create", own, "--size", "2M", "--disk", text(&image(dir, 2))]).ok();
    }
    let mut cluster = Cluster::down(plan);
    (1..=3).for_each(|number| cluster.node(number).restart());
    three_keep_the_registry(&mut cluster, 3);
    eventually("the registry has the disks", SHORT, || {
        let list = at(&mut cluster, 3, &["disk", "list"]).stdout;
        ["n1:fast", "n2:fast", "n3:fast"].iter().all(|disk| list.contains(disk)).then_some(())
    });
    cluster
}

/// A volume with copies at n1 and n2.
fn mirrored(cluster: &mut Cluster) {
    let words =
        ["volume", "create", "data", "--size", "8M", "--layout", "raid1:2", "--on", "n1:fast,n2:fast"];
    at(cluster, 1, &words).ok();
    eventually("n3 knows the volume", SHORT, || (volume(cluster, 3)["state"] == "ready").then_some(()));
}

fn swap(dir: &Path) {
    let between = dir.join("between.img");
    fs::rename(image(dir, 1), &between).unwrap();
    fs::rename(image(dir, 2), image(dir, 1)).unwrap();
    fs::rename(between, image(dir, 2)).unwrap();
}

/// Both at once: one of three nodes alone has no registry.
fn restart_both(cluster: &mut Cluster) {
    (1..=2).for_each(|number| cluster.node(number).spawn());
    (1..=2).for_each(|number| cluster.node(number).wait_ready());
}

#[test]
fn disks_that_were_swapped_are_to_be_swapped_back() {
    let dir = scratch();
    let mut cluster = three(dir.path(), None);
    mirrored(&mut cluster);
    (1..=2).for_each(|number| cluster.node(number).kill());
    swap(dir.path());
    restart_both(&mut cluster);
    for (number, other) in [(1, 2), (2, 1)] {
        let said = eventually(&format!("n{number} says whose its disk is"), LONG, || {
            let said = at(&mut cluster, number, &["status"]).stdout;
            let instead = format!("n{other} has the disk of this node (");
            (said.contains(&instead) && said.contains("is not here: put it back")).then_some(said)
        });
        assert!(said.contains("stop both daemons and swap the disks back"), "{said}");
        assert!(!said.contains("one is a copy of the other") && !said.contains("disk format"), "{said}");
    }
    (1..=2).for_each(|number| cluster.node(number).kill());
    swap(dir.path());
    restart_both(&mut cluster);
    eventually("both copies are in sync", LONG, || {
        let told = volume(&mut cluster, 3);
        let copies = told["mirror"]["copies"].as_array()?;
        copies.iter().all(|copy| copy["state"] == "in_sync").then_some(())
    });
}

#[test]
fn a_volume_of_another_node_is_not_offered_for_removal() {
    let dir = scratch();
    let mut cluster = three(dir.path(), Some("own"));
    eventually("n3 knows the volume of n2", SHORT, || {
        at(&mut cluster, 3, &["volume", "list"]).stdout.contains("own").then_some(())
    });
    cluster.node(1).kill();
    fs::copy(image(dir.path(), 2), image(dir.path(), 1)).unwrap();
    // The first start has written the name of n1 to the disk.
    for start in 1..=2 {
        cluster.node(1).spawn();
        eventually("the daemon ends", LONG, || (!cluster.node(1).is_alive()).then_some(()));
        let log = cluster.node(1).log();
        let refused = log.matches("the registry has this disk (UUID").count();
        assert_eq!(refused, start, "{log}");
        assert!(log.contains("may be the only original") && log.contains("Put it back at n2"), "{log}");
        assert!(!log.contains("volume remove") && !log.contains("disk format"), "{log}");
    }
}

#[test]
fn a_copy_is_not_forced_at_a_node_with_another_disk() {
    let dir = scratch();
    let mut cluster = three(dir.path(), None);
    mirrored(&mut cluster);
    at(&mut cluster, 3, &["volume", "attach", "data"]).ok();
    let mut client = cluster.export(3, "data").open();
    client.socket.limit(LONG).unwrap();
    cluster.node(1).kill();
    client.write(0, &content::bytes(0, 4096, 1)).unwrap();
    client.flush().unwrap();
    client.close();
    let (place, right) = (image(dir.path(), 1), dir.path().join("right.img"));
    fs::rename(&place, &right).unwrap();
    format(&place);
    cluster.node(1).restart();
    cluster.node(2).kill();
    let force = |cluster: &mut Cluster, more: &[&str]| {
        at(cluster, 3, &[&["volume", "force", "data", "--from", "n1"], more].concat())
    };
    let typed = eventually("it says what to type", LONG, || {
        let untyped = force(&mut cluster, &[]);
        let since = untyped.stderr.split("--force=data@").nth(1)?.trim().to_owned();
        Some(format!("--force=data@{since}"))
    });
    // What n1 has is not known until n3 is connected to it again.
    eventually("it is refused at a node with another disk", LONG, || {
        let refused = force(&mut cluster, &[&typed]);
        assert!(!refused.status.success(), "{refused}");
        refused.stderr.contains("which n1 does not have: it has ").then_some(())
    });
    cluster.node(1).kill();
    fs::rename(&right, &place).unwrap();
    cluster.node(1).restart();
    eventually("the copy is forced", LONG, || {
        let done = force(&mut cluster, &[&typed, "--json"]);
        done.stdout.contains("\"generation\":2").then_some(())
    });
}
