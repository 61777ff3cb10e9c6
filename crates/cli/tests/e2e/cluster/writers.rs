//! Many readers and writers; a flushed write is seen everywhere.

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

/// Clients of three nodes write the same blocks again and again; what is flushed at one is read at all.
#[test]
fn clients_of_all_nodes_write_one_volume() {
    for policy in ["rd", "hscc", "hdc", "nchance", "single", "local"] {
        let dir = scratch();
        let mut disk = Disk::file(&image(dir.path(), "disk.img"));
        disk.policy = policy.into();
        let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(disk));
        let mut clients: Vec<_> = (1..=3).map(|number| cluster.export(number, "disk").open()).collect();
        for round in 0..30_u64 {
            let writer = (round % 3) as usize;
            clients[writer].write(MIB, &content::bytes(MIB, LENGTH, round)).expect("a write");
            clients[(writer + 1) % 3].flush().expect("a flush elsewhere");
            for client in &mut clients {
                content::check(&client.read(MIB, LENGTH).expect("a read"), MIB, round);
            }
        }
        clients.into_iter().for_each(|client| client.close());
    }
}

#[test]
fn a_volume_that_one_node_has_for_itself_is_refused_to_others_by_its_name() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image(dir.path(), "disk.img")));
    plan.nodes.iter_mut().for_each(|node| node.attach[0].mode = "exclusive");
    let mut cluster = Cluster::spawn(plan);
    // Whoever comes first has it; the other one learns who.
    let told = eventually("one of the two is refused", SHORT, || {
        let names = |log: String, holder: &str| {
            log.lines().any(|line| ["disk", "for itself", holder].iter().all(|word| line.contains(word)))
        };
        let first = names(cluster.node(1).log(), "n2");
        let second = names(cluster.node(2).log(), "n1");
        (first || second).then_some((first, second))
    });
    assert_ne!(told, (true, true), "one of them must have the volume");
}
