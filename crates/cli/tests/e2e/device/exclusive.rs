//! A block in one of two caches: the kernel's, or the daemon's.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::{Device, missing_fuse};
use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 5;
/// Of the volume.
const SIZE: u64 = 24 * MIB;
/// There is room for what NBD clients use, or for what the kernel reads, not for both.
const CACHE: &str = "16M";
/// What NBD clients of the node use, at the end of the volume.
const OTHERS: u64 = 8 * MIB;
/// What is read through the kernel, from the start. It reads some more ahead, which must not be the others'.
const THROUGH: u64 = SIZE - OTHERS - MIB;
/// Small ones spread evenly over the shards, so that none is full before the others.
const BLOCK: u64 = 4 << 10;
/// What may be in both caches or in neither: the kernel reads ahead whenever it likes, throws pages out when the machine is short
/// of memory, and two may ask for a block at once.
const SLACK: u64 = MIB;

/// Reads through the kernel's cache.
fn read_through(file: &File) {
    let mut bytes = vec![0; MIB as usize];
    for offset in (0..THROUGH).step_by(MIB as usize) {
        file.read_exact_at(&mut bytes, offset).expect("a read");
        content::check(&bytes, offset, SEED);
    }
}

/// Reads what the others use, past the kernel.
fn read_others(cluster: &Cluster) {
    let mut client = cluster.export(2, "disk").open();
    for offset in (SIZE - OTHERS..SIZE).step_by(MIB as usize) {
        content::check(&client.read(offset, MIB as usize).expect("a read"), offset, SEED);
    }
    client.close();
}

/// Blocks of the volume that node 2 has once no more are on their way.
fn cached(cluster: &mut Cluster) -> u64 {
    let blocks = |cluster: &mut Cluster| cluster.node(2).status()["volumes"][0]["cached_blocks"].as_u64();
    let mut before = blocks(cluster);
    eventually("the cache is at rest", SHORT, || {
        let now = blocks(cluster);
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    before.expect("a number of blocks")
}

#[test]
fn what_the_kernel_has_leaves_the_daemons_cache_to_others() {
    need!("fincore");
    skip_if!(missing_fuse());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, SEED);
    for exclusive in [false, true] {
        let plan = Plan {
            block: "4K",
            read_ahead: "off",
            ..Plan::new(dir.path(), 2).disk(Disk::file(&image)).cache(CACHE)
        };
        let mut cluster = Cluster::start(plan);
        let options: &[&str] = if exclusive { &["--exclusive"] } else { &[] };
        let mut device = Device::start(&mut cluster, 2, options);
        read_others(&cluster);
        let others = cached(&mut cluster) * BLOCK;
        assert!(others >= OTHERS, "{others} bytes");

        // With the last file that is closed, the pages go.
        let file = File::open(&device.path).expect("the file");
        read_through(&file);
        let daemon = cached(&mut cluster) * BLOCK;
        let pages = sh(&format!("fincore -bnro RES {}", device.path.display()), LONG).ok().stdout;
        assert!(pages.trim().parse::<u64>().expect("a number") + SLACK >= THROUGH, "{pages}");
        // Once in the kernel, the daemon is not asked, whether it has the block or not.
        let asked = cluster.node(2).counter("reads");
        read_through(&file);
        let again = (cluster.node(2).counter("reads") - asked) * BLOCK;
        assert!(again <= SLACK, "{again} bytes of {THROUGH} were asked for again");
        drop(file);

        let hits = cluster.node(2).counter("local_hits");
        read_others(&cluster);
        let missed = OTHERS / BLOCK - (cluster.node(2).counter("local_hits") - hits);
        if exclusive {
            assert!(daemon <= others + SLACK, "{} bytes are in both caches", daemon - others);
            assert_eq!(missed, 0, "blocks that the others had");
        } else {
            // The test shows something.
            assert!(missed > 0 && daemon > others + SLACK, "{missed} blocks missed, {daemon} bytes");
        }
        device.stop();
    }
}
