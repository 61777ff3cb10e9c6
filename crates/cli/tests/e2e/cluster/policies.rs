//! One policy per volume: several at once, and never two for one volume.

use std::thread;

use super::{SEED, SIZE, image};
use crate::harness::cluster::Cluster;
use crate::harness::content::{self, Random};
use crate::harness::plan::{Disk, Plan};
use crate::harness::scratch;

#[test]
fn two_volumes_have_two_policies_at_once() {
    let dir = scratch();
    let mut second = Disk::file(&image(dir.path(), "second.img"));
    (second.name, second.policy) = ("second".into(), "hdc".into());
    let plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img"))).disk(second);
    let cluster = Cluster::start(plan.cache("24M"));
    for number in [2, 3, 1] {
        cluster.export(number, "disk").check_all(SEED);
        cluster.export(number, "second").check_all(SEED);
    }
}

#[test]
fn another_policy_than_the_disks_is_refused_by_name() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image(dir.path(), "disk.img")));
    plan.nodes[1].attach[0].policy = Some("hdc");
    let mut cluster = Cluster::spawn(plan);
    cluster.node(1).wait_ready();
    cluster.node(2).says(&["disk", "policy \"hscc", "\"hdc\"", "without `policy`"]);
    assert!(!cluster.node(2).opens("disk"), "the mismatching card must not serve");
    cluster.export(1, "disk").check_all(SEED);
}

/// Caches much smaller than the volume, everybody reads at random: evictions, forwards and stores at every node.
#[test]
fn every_policy_returns_the_right_bytes_under_pressure() {
    for (policy, attached) in [
        ("rd", "computer"),
        ("hscc", "computer"),
        ("hscc", "network"),
        ("hdc", "computer"),
        ("single", "computer"),
        ("single ask=home", "network"),
        ("local", "computer"),
    ] {
        let dir = scratch();
        let mut disk = Disk::file(&image(dir.path(), "disk.img"));
        (disk.policy, disk.attached) = (policy.into(), attached);
        let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(disk).cache("4M"));
        thread::scope(|scope| {
            for (seed, export) in (1..).zip(cluster.disk().into_iter().cycle().take(6)) {
                scope.spawn(move || {
                    let (mut random, mut client) = (Random(seed), export.open());
                    for _ in 0..300 {
                        let length = (1 + random.below(300)) * 512;
                        let offset = random.below((SIZE - length) / 512) * 512;
                        let data = client.read(offset, length as usize).expect("a read");
                        content::check(&data, offset, SEED);
                    }
                });
            }
        });
    }
}
