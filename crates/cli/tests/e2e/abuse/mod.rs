//! Clients that mean harm: after each of them a good client is served, and the server has not grown.

mod battery;
mod limits;
mod log;
pub(crate) mod memory;
mod peer_port;
mod unread;

use std::path::Path;

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::reference::Reference;
use crate::harness::tools::need;
use crate::harness::{MIB, content, scratch};

const SIZE: u64 = 64 * MIB;

/// One node with a small cache, full from the start, so that growth is the client's doing; short deadlines.
fn one_node(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, SIZE, 1);
    let mut plan = Plan::new(dir, 1).disk(Disk::file(&image)).cache("16M");
    plan.nodes[0].nbd = "handshake = \"2s\"\nconnections = 100\nin_flight = \"64M\"".into();
    let cluster = Cluster::start(plan);
    cluster.export(1, "disk").check_all(1);
    cluster
}

#[test]
fn the_battery_harms_nobody() {
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    battery::run(&cluster.export(1, "disk"));
    assert!(cluster.node(1).is_alive());
    cluster.export(1, "disk").check_all(1);
}

#[test]
#[ignore = "tests the test"]
fn reference_survives_the_battery() {
    need!("qemu-nbd");
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let mut server = Reference::qemu_nbd(dir.path(), &image);
    battery::run(&server.export);
    assert!(server.process.is_alive());
}
