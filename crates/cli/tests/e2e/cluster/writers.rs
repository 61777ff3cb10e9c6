//! Many readers or one writer; a flushed write is seen everywhere.

use super::{SEED, image, three_nodes};
use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::{KIB, MIB, SHORT, content, eventually, scratch};

const LENGTH: usize = 200 * KIB as usize;

#[test]
fn a_flushed_write_is_seen_at_every_node() {
    for policy in ["rd", "hscc", "hdc"] {
        seen_everywhere(policy);
    }
}

fn seen_everywhere(policy: &str) {
    let dir = scratch();
    let mut disk = Disk::file(&image(dir.path(), "disk.img"));
    disk.policy = policy.into();
    let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(disk));
    // Everybody has the old content in memory first.
    cluster.disk().iter().for_each(|export| export.check_all(SEED));
    let mut writer = cluster.export(1, "disk").open();
    for (round, offset) in (100..).zip([0, 5 * MIB, 7 * MIB + 512, 31 * MIB]) {
        writer.write(offset, &content::bytes(offset, LENGTH, round)).expect("a write");
        writer.flush().expect("a flush");
        for export in cluster.disk().iter().rev() {
            content::check(&export.read(offset, LENGTH).expect("a read"), offset, round);
        }
    }
    writer.close();
}

#[test]
fn a_remote_writer_is_seen_at_the_disk() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    let mut writer = cluster.export(2, "disk").open();
    writer.write(MIB, &content::bytes(MIB, LENGTH, 50)).expect("a write");
    writer.flush().expect("a flush");
    writer.close();
    for export in cluster.disk() {
        content::check(&export.read(MIB, LENGTH).expect("a read"), MIB, 50);
    }
    for number in 1..=3 {
        assert!(cluster.node(number).terminate().success());
    }
    let image = std::fs::read(dir.path().join("disk.img")).unwrap();
    content::check(&image[MIB as usize..][..LENGTH], MIB, 50);
}

#[test]
fn a_second_writer_is_refused_with_the_holders_name() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    let mut first = cluster.export(2, "disk").open();
    first.write(0, &content::bytes(0, 4096, 60)).expect("the first writer writes");
    let mut second = cluster.export(3, "disk").open();
    let refused =
        second.write(0, &content::bytes(0, 4096, 61)).expect_err("the second writer must not write");
    assert!(refused.raw_os_error().is_some(), "an error reply, not a lost connection: {refused}");
    cluster.node(3).says(&["disk", "writer", "n2"]);
    second.read(0, 4096).expect("it stays a reader");
    first.flush().expect("a flush");
    first.close();
    eventually("the next writer's turn", SHORT, || second.write(0, &content::bytes(0, 4096, 62)).ok());
    second.flush().expect("a flush");
    content::check(&cluster.export(1, "disk").read(0, 4096).expect("a read"), 0, 62);
}

#[test]
fn two_cards_configured_to_write_are_refused() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image(dir.path(), "disk.img")));
    plan.nodes.iter_mut().for_each(|node| node.attach[0].mode = "rw");
    let mut cluster = Cluster::spawn(plan);
    // Whoever comes first writes; the other one learns who.
    let told = eventually("one of the two is refused", SHORT, || {
        let names = |log: String, holder: &str| {
            log.lines().any(|line| ["disk", "writer", holder].iter().all(|word| line.contains(word)))
        };
        let first = names(cluster.node(1).log(), "n2");
        let second = names(cluster.node(2).log(), "n1");
        (first || second).then_some((first, second))
    });
    assert_ne!(told, (true, true), "one of them must have the volume");
}
