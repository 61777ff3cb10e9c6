//! The tools people have: nbdinfo, nbdcopy, qemu-img, qemu-io and fio write through node 1, and what they wrote
//! is read back through every other node.

use std::path::Path;

use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::{Disk, Plan, free_port};
use crate::harness::process::sh;
use crate::harness::reference::Reference;
use crate::harness::tools::need;
use crate::harness::{LONG, MIB, SHORT, content, scratch};

const SIZE: u64 = 48 * MIB;

/// Runs `body` on an empty volume served by three CARDs nodes.
fn on_cards(body: fn(&Path, &[Export])) {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(Disk::file(&image)).cache("16M"));
    body(dir.path(), &cluster.disk());
}

/// Runs `body` on qemu-nbd, which is then all three nodes.
fn on_qemu_nbd(body: fn(&Path, &[Export])) {
    need!("qemu-nbd");
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let server = Reference::qemu_nbd(dir.path(), &image);
    body(dir.path(), &vec![server.export.clone(); 3]);
}

/// nbdinfo names the size, the list, the map and what the server can do.
fn information(_: &Path, exports: &[Export]) {
    need!("nbdinfo");
    let uri = exports[0].uri();
    let size = sh(&format!("nbdinfo --size '{uri}'"), SHORT).ok();
    assert_eq!(size.stdout.trim(), SIZE.to_string());
    let list = sh(&format!("nbdinfo --list '{uri}'"), SHORT).ok();
    assert!(list.stdout.contains("export=\"disk\""), "{list}");
    let map = sh(&format!("nbdinfo --map --totals '{uri}'"), SHORT).ok();
    assert!(map.stdout.contains(&SIZE.to_string()) || map.stdout.lines().count() > 1, "{map}");
    for ability in ["flush", "fua", "trim", "zero", "structured-reply"] {
        sh(&format!("nbdinfo --can {ability} '{uri}'"), SHORT).ok();
    }
    sh(&format!("! nbdinfo --is read-only '{uri}'"), SHORT).ok();
}

/// nbdcopy in over four connections; nbdcopy out of every node gives the same bytes.
fn copy(dir: &Path, exports: &[Export]) {
    need!("nbdcopy");
    let dir = dir.display();
    content::image(Path::new(&format!("{dir}/new.img")), SIZE, 2);
    let to = exports[0].uri();
    sh(&format!("nbdcopy --requests=32 --connections=4 --flush {dir}/new.img '{to}'"), LONG).ok();
    for from in exports.iter().rev().map(Export::uri) {
        let out = format!("nbdcopy --requests=32 --connections=4 '{from}' {dir}/out.img");
        sh(&format!("{out} && cmp {dir}/new.img {dir}/out.img"), LONG).ok();
    }
}

/// qemu-img converts into the volume, compares it at every node, and benches it.
fn qemu_img(dir: &Path, exports: &[Export]) {
    need!("qemu-img");
    let dir = dir.display();
    content::image(Path::new(&format!("{dir}/new.img")), SIZE, 3);
    let to = exports[0].uri();
    sh(&format!("qemu-img convert -n -f raw -O raw {dir}/new.img '{to}'"), LONG).ok();
    for from in exports.iter().rev().map(Export::uri) {
        let done = sh(&format!("qemu-img compare -f raw -F raw {dir}/new.img '{from}'"), LONG).ok();
        assert!(done.stdout.contains("Images are identical."), "{done}");
    }
    sh(&format!("qemu-img bench -f raw -c 4000 -d 32 -s 4k '{}'", exports[1].uri()), LONG).ok();
    sh(&format!("qemu-img bench -f raw -c 4000 -d 32 -s 4k -w '{to}'"), LONG).ok();
}

/// qemu-io writes patterns, zeroes, discards and forces; the patterns verify here and elsewhere.
fn qemu_io(_: &Path, exports: &[Export]) {
    need!("qemu-io");
    let verified = |commands: &[&str], uri: &str| {
        let commands: String = commands.iter().map(|command| format!(" -c '{command}'")).collect();
        let done = sh(&format!("qemu-io -f raw{commands} '{uri}'"), SHORT).ok();
        assert!(!done.stdout.contains("verification failed"), "{done}");
    };
    let work = [
        "write -P 0xa5 1M 3M",
        "read -P 0xa5 1M 3M",
        "write -z 2M 1M",
        "read -P 0 2M 1M",
        "discard 0 1M",
        "flush",
        "write -f -P 0xcc 3M 64k",
        "write -P 0x3c 8389121 70001",
        "read -P 0x3c 8389121 70001",
        "flush",
    ];
    verified(&work, &exports[0].uri());
    let there = [
        "read -P 0xa5 1M 1M",
        "read -P 0 2M 1M",
        "read -P 0xcc 3M 64k",
        "read -P 0xa5 3211264 900k",
        "read -P 0x3c 8389121 70001",
    ];
    exports.iter().rev().for_each(|export| verified(&there, &export.uri()));
}

/// fio's own checksums: verified while it runs, and once more from another node.
fn fio(_: &Path, exports: &[Export]) {
    need!("fio");
    let mixed = format!(
        "fio --name=mixed --ioengine=nbd --uri='{}' --rw=randrw --bsrange=512-128k --blockalign=512 --iodepth=32 \
         --size=32m --io_size=64m --random_generator=lfsr --randseed=7 --verify=crc32c --verify_fatal=1 \
         --verify_backlog=1024 --verify_state_save=0",
        exports[0].uri()
    );
    sh(&mixed, LONG).ok();
    let later = |uri: &str, phase: &str| {
        let job = "--bs=4k --size=16m --iodepth=32 --rw=randwrite --randseed=11 --verify=crc32c \
                   --verify_fatal=1 --verify_state_save=0";
        sh(&format!("fio --name=later --ioengine=nbd --uri='{uri}' {job} {phase}"), LONG).ok();
    };
    later(&exports[0].uri(), "--do_verify=0 --end_fsync=1");
    exports.iter().rev().for_each(|export| later(&export.uri(), "--verify_only"));
}

/// What the tools write over TCP is what they read over TCP elsewhere.
#[test]
fn copy_over_tcp() {
    need!("nbdcopy", "nbdinfo");
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image)).cache("16M");
    plan.nodes.iter_mut().for_each(|node| node.tcp = Some(free_port()));
    let cluster = Cluster::start(plan);
    let exports: Vec<Export> = (1..=3).map(|number| cluster.tcp_export(number, "disk")).collect();
    copy(dir.path(), &exports);
    exports[2].check_all(2);
}

macro_rules! both {
    ($($body:ident $reference:ident;)+) => {
        mod served {
            $(#[test] fn $body() { super::on_cards(super::$body); })+
        }
        mod reference {
            $(#[test] #[ignore = "tests the test"] fn $reference() { super::on_qemu_nbd(super::$body); })+
        }
    };
}

both! {
    information reference_information;
    copy reference_copy;
    qemu_img reference_qemu_img;
    qemu_io reference_qemu_io;
    fio reference_fio;
}
