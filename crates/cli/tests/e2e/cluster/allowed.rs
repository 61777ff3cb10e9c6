//! A disk is attached by those whom its node allows it, as far as it does.

use super::image;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::{MIB, SHORT, scratch};

#[test]
fn a_node_attaches_what_it_is_allowed_to() {
    let dir = scratch();
    let file = Disk::file(&image(dir.path(), "disk.img"));
    let disk = Disk { origin: file.origin.clone() + "\nallow = { n2 = \"ro\", n3 = \"rw\" }", ..file };
    let mut plan = Plan::new(dir.path(), 4).disk(disk);
    plan.nodes.iter_mut().skip(1).for_each(|node| node.attach.clear());
    let mut cluster = Cluster::start(plan);
    let sockets: Vec<String> = (1..=4).map(|number| cluster.node(number).admin_socket()).collect();
    let attach = |number: usize, rest: &[&str]| {
        run(&[&[CARDS, "volume", "attach", "disk", "--socket", &sockets[number - 1]], rest].concat(), SHORT)
    };

    // The disk's own node needs no leave.
    let mut client = cluster.export(1, "disk").open();
    client.write(0, &[1; 512]).expect("a write");
    client.close();
    for (number, mode, words) in [
        (2, "rw", ["n1 does not let node n2", "only with \"ro\""]),
        (3, "exclusive", ["n1 does not let node n3", "only with \"rw\" or \"ro\""]),
        (4, "ro", ["n1 does not let node n4", "or any other"]),
    ] {
        let refused = attach(number, &["--mode", mode]).fails();
        let tells = |word: &&str| refused.stderr.contains(word);
        assert!(words.iter().chain(&["`allow`", "node.toml"]).all(tells), "{refused}");
    }
    attach(2, &["--mode", "ro"]).ok();
    attach(3, &["--mode", "rw"]).ok();
    assert!(!cluster.node(4).opens("disk"), "node 4 may have no card");
    let mut writer = cluster.export(3, "disk").open();
    writer.write(MIB, &[3; 512]).expect("a write");
    let mut reader = cluster.export(2, "disk").open();
    assert_eq!(reader.read(MIB, 512).expect("a read"), [3; 512]);
    assert!(reader.write(MIB, &[2; 512]).is_err(), "node 2 may only read");
}
