//! The captive cluster: `cards dev --run CMD` gives CMD a cluster and ends with it.

use std::fs;

use crate::harness::dev::{Counters, dev};
use crate::harness::tools::need;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

#[test]
fn the_exit_status_is_the_commands() {
    assert_eq!(dev("--nodes 1 --size 16M", "exit 7").status.code(), Some(7));
    assert_eq!(dev("--nodes 1 --size 16M", "exit 0").status.code(), Some(0));
}

#[test]
fn the_command_gets_uris_and_a_directory() {
    let script = "test \"$uri\" = \"$uri1\" && test -n \"$uri3\" && test -z \"${uri4-}\" && \
                  for n in 1 2 3; do test -S $CARDS_DIR/node$n/admin.sock && test -f $CARDS_DIR/node$n.toml && \
                  test -f $CARDS_DIR/node$n.log && kill -0 $(cat $CARDS_DIR/node$n.pid) || exit 5; done";
    dev("--nodes 3 --size 16M --cache 16M", script).ok();
}

#[test]
fn the_daemons_end_with_the_command() {
    let dir = scratch();
    let pids = dir.path().join("pids");
    let script = format!("cat $CARDS_DIR/node*.pid > {0}; echo $CARDS_DIR >> {0}", pids.display());
    dev("--nodes 3 --size 16M --cache 16M", &script).ok();
    let text = fs::read_to_string(pids).unwrap();
    let (directory, pids): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('/'));
    assert_eq!(pids.len(), 3, "{text}");
    for pid in pids {
        let gone = || (!fs::exists(format!("/proc/{pid}")).unwrap()).then_some(());
        eventually(&format!("the end of daemon {pid}"), SHORT, gone);
    }
    assert!(!fs::exists(directory[0]).unwrap(), "{} was left behind", directory[0]);
}

#[test]
fn a_given_disk_is_served_and_stays() {
    need!("nbdcopy");
    let dir = scratch();
    let (image, out) = (dir.path().join("disk.img"), dir.path().join("out.img"));
    content::image(&image, 16 * MIB, 4);
    let script = format!("nbdcopy $uri2 {}", out.display());
    dev(&format!("--nodes 2 --cache 16M --read-only --disk {}", image.display()), &script).ok();
    let (kept, copied) = (fs::read(&image).unwrap(), fs::read(&out).unwrap());
    content::check(&kept, 0, 4);
    content::check(&copied, 0, 4);
    assert_eq!(copied.len() as u64, 16 * MIB);
}

#[test]
fn a_read_only_volume_refuses_writes() {
    need!("nbdinfo", "qemu-io");
    let script = "nbdinfo --is read-only $uri && ! qemu-io -f raw -c 'write 0 4k' $uri2";
    dev("--nodes 2 --size 16M --cache 16M --read-only", script).ok();
}

#[test]
fn the_counters_add_up() {
    need!("nbdcopy");
    let flags = "--nodes 3 --size 32M --cache 64M --block 64K --read-only --policy hscc";
    let counters = Counters::of(flags, "nbdcopy --no-extents $uri2 null:");
    for number in 1..=3 {
        let of = |name| counters.node(number, name);
        let found = of("local_hits") + of("remote_hits") + of("disk_reads");
        assert_eq!(of("reads"), found, "n{number}: {}", counters.text());
        for name in ["writes", "evictions", "forwarded", "stored_for_others", "served", "messages_sent"] {
            of(name);
        }
    }
    assert!(counters.node(2, "reads") >= 512, "{}", counters.text());
    assert_eq!(counters.disk("reads"), 512, "{}", counters.text());
    assert_eq!(counters.disk("bytes_read"), 32 * MIB, "{}", counters.text());
    assert_eq!(counters.disk("writes"), 0, "{}", counters.text());
}

#[test]
fn tcp_gives_uris_for_other_machines() {
    need!("nbdinfo");
    let script = "case $tcp2 in nbd://*) test $(nbdinfo --size $tcp2) = 16777216;; *) exit 5;; esac";
    dev("--nodes 2 --size 16M --cache 16M --tcp", script).ok();
}

#[test]
fn a_failing_cluster_is_no_success() {
    let done = dev("--nodes 2 --cache 16M --disk /nonexistent/disk.img", "exit 0").fails();
    assert!(done.stderr.contains("/nonexistent/disk.img"), "{done}");
    let done = dev("--nodes 2 --size 16M --policy lucky", "exit 0").fails();
    assert!(done.stderr.contains("lucky") && done.stderr.contains("hscc"), "{done}");
}
