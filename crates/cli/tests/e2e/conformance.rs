//! `tests/conformance.py`: the protocol, 23 checks through libnbd.

use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::{Disk, Plan, free_port};
use crate::harness::process::run;
use crate::harness::reference::Reference;
use crate::harness::tools::{PYTHON, missing_libnbd_python, need, skip_if};
use crate::harness::{LONG, MIB, content, data, scratch};

const SIZE: u64 = 96 * MIB;

fn conforms(export: &Export) {
    let script = data("conformance.py").display().to_string();
    let done = run(&[PYTHON, &script, &export.uri()], LONG).ok();
    assert!(done.stdout.trim_end().ends_with("23/23"), "{done}");
}

fn on_node(number: usize) {
    skip_if!(missing_libnbd_python());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(Disk::file(&image)).cache("32M"));
    conforms(&cluster.export(number, "disk"));
}

#[test]
fn the_node_of_the_disk_conforms() {
    on_node(1);
}

#[test]
fn a_remote_node_conforms() {
    on_node(2);
}

#[test]
fn nbd_over_tcp_conforms() {
    skip_if!(missing_libnbd_python());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image)).cache("32M");
    plan.nodes[1].tcp = Some(free_port());
    let cluster = Cluster::start(plan);
    conforms(&cluster.tcp_export(2, "disk"));
}

#[test]
#[ignore = "tests the test"]
fn reference_conforms() {
    skip_if!(missing_libnbd_python());
    need!("qemu-nbd");
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    conforms(&Reference::qemu_nbd(dir.path(), &image).export);
}
