//! What is cached of a volume stays when it is detached, and is used when it is attached again.

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::{KIB, MIB, SHORT, content, scratch};

const SIZE: u64 = 8 * MIB;
const BLOCK: u64 = 64 * KIB;

fn volume(cluster: &mut Cluster, words: &[&str]) {
    let socket = cluster.node(2).admin_socket();
    run(&[&[CARDS, "volume"], words, &["--socket", &socket]].concat(), SHORT).ok();
}

/// Reads all of it at node 2; the blocks that came from elsewhere.
fn read_all(cluster: &mut Cluster, seed: impl Fn(u64) -> u64) -> u64 {
    let elsewhere = |cluster: &mut Cluster| {
        cluster.node(2).counter("disk_reads") + cluster.node(2).counter("remote_hits")
    };
    let before = elsewhere(cluster);
    let mut client = cluster.export(2, "disk").open();
    for offset in (0..SIZE).step_by(BLOCK as usize) {
        content::check(&client.read(offset, BLOCK as usize).expect("a read"), offset, seed(offset));
    }
    client.close();
    elsewhere(cluster) - before
}

fn cached(cluster: &mut Cluster) -> u64 {
    cluster.node(2).status()["volumes"][0]["cached_blocks"].as_u64().expect("a number of blocks")
}

#[test]
fn a_cache_outlives_its_card_of_a_volume_that_is_written_and_of_one_that_is_not() {
    for read_only in [true, false] {
        let dir = scratch();
        let image = dir.path().join("disk.img");
        content::image(&image, SIZE, 1);
        let mut disk = Disk::file(&image);
        disk.read_only = read_only;
        let mut plan = Plan::new(dir.path(), 3).disk(disk);
        plan.nodes[0].attach.clear();
        let mut cluster = Cluster::start(plan);
        assert!(read_all(&mut cluster, |_| 1) > 0);
        assert_eq!(cached(&mut cluster), SIZE / BLOCK);
        volume(&mut cluster, &["detach", "disk"]);
        assert_eq!(cached(&mut cluster), SIZE / BLOCK, "read-only: {read_only}");
        assert!(!cluster.node(2).opens("disk"), "it is not attached");
        // Of what was written meanwhile the copy is not used.
        let written = 3 * BLOCK;
        if !read_only {
            let mut writer = cluster.export(3, "disk").open();
            writer.write(written, &content::bytes(written, BLOCK as usize, 2)).expect("a write");
            writer.close();
        }
        let seed = |offset: u64| if !read_only && offset == written { 2 } else { 1 };
        volume(&mut cluster, &["attach", "disk"]);
        let fetched = read_all(&mut cluster, seed);
        // A write outdates its segment.
        let most = if read_only { 0 } else { SIZE / BLOCK / 4 };
        assert!(fetched <= most, "read-only: {read_only}: {fetched} blocks were fetched again");
    }
}

/// The image of a read-only disk is replaced while nobody has it.
#[test]
fn of_an_image_that_was_replaced_nothing_is_used_after_a_detach() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let mut disk = Disk::file(&image);
    disk.read_only = true;
    let mut plan = Plan::new(dir.path(), 2).disk(disk);
    plan.nodes[0].attach.clear();
    let mut cluster = Cluster::start(plan);
    read_all(&mut cluster, |_| 1);
    volume(&mut cluster, &["detach", "disk"]);
    assert!(cluster.node(1).terminate().success());
    content::image(&image, SIZE, 2);
    cluster.node(1).restart();
    crate::harness::eventually("it can be attached", SHORT, || {
        let socket = cluster.node(2).admin_socket();
        run(&[CARDS, "volume", "attach", "disk", "--socket", &socket], SHORT).status.success().then_some(())
    });
    assert!(read_all(&mut cluster, |_| 2) > 0);
}
