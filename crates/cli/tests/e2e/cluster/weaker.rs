//! A volume whose coherence is left to its policy: the weaker promise, and everybody is told so.

use super::{SEED, image};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::{KIB, MIB, SHORT, content, eventually, scratch};

const LENGTH: usize = 200 * KIB as usize;

#[test]
fn a_write_is_seen_elsewhere_once_the_policy_has_told_of_it() {
    // The list of copies of HSCC loses that of a writer.
    for (policy, writers) in [("hscc", &[2][..]), ("greedy", &[2, 3, 1])] {
        let dir = scratch();
        let mut disk = Disk::file(&image(dir.path(), "disk.img"));
        disk.origin += "\ncoherence = \"policy\"";
        disk.policy = policy.into();
        let mut cluster = Cluster::start(Plan::new(dir.path(), 3).disk(disk));
        cluster.disk().iter().for_each(|export| export.check_all(SEED));
        for (&writer, seed) in writers.iter().zip(100..) {
            let new = content::bytes(MIB, LENGTH, seed);
            let mut client = cluster.export(writer, "disk").open();
            client.write(MIB, &new).expect("a write");
            assert!(client.read(MIB, LENGTH).expect("a read") == new);
            client.close();
            for (node, export) in (1..).zip(cluster.disk()) {
                eventually(&format!("n{node} sees what n{writer} wrote"), SHORT, || {
                    (export.read(MIB, LENGTH).expect("a read") == new).then_some(())
                });
            }
        }
        assert_eq!(cluster.node(3).status()["volumes"][0]["coherence"], "policy");
        let socket = cluster.node(3).admin_socket();
        for command in [&["status"][..], &["volume", "list"], &["volume", "show", "disk"]] {
            let shown = run(&[&[CARDS], command, &["--socket", &socket]].concat(), SHORT).ok();
            assert!(shown.stdout.contains("the weaker promise"), "{shown}");
        }
    }
}
