//! `cards layout explain`: what is printed for people and for programs, and what is refused.

use serde_json::Value;

use crate::harness::SHORT;
use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run};

fn explain(arguments: &str) -> Finished {
    let mut argv = vec![CARDS, "layout", "explain"];
    argv.extend(arguments.split(' '));
    run(&argv, SHORT)
}

fn json(arguments: &str) -> Value {
    let done = explain(&format!("{arguments} --json"));
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

const THREE: &str = "--disks n1:sdb=2T,n2:sdb=2T,n3:sdb=2T";
const TIB: u64 = 1 << 40;

#[test]
fn a_mirror_is_explained() {
    let done = explain(&format!("raid1:2 {THREE}"));
    assert!(done.status.success(), "{done}");
    for part in [
        "layout       raid1:2: 2 copies of each block, on different hosts\n",
        "disks        3, 6 TiB in all\n",
        "usable       3 TiB (50 %)\n",
        "survives     any 1 disk; any 1 host\n",
        "groups       3, striped in bundles of 1M, in chunks of 64K\n",
        "note         `cards volume create --layout raid1` makes one group, no larger than what its disks have free; raid10 is made of many.\n",
        "  n2:sdb  n2      2 TiB        2           1  ",
    ] {
        assert!(done.stdout.contains(part), "{part:?} in {done}");
    }
}

#[test]
fn programs_get_numbers() {
    let report = json(&format!("raid1:2 {THREE}"));
    let usable = report["usable"].as_u64().unwrap();
    assert!((2 * TIB..3 * TIB).contains(&usable), "{usable}");
    assert_eq!(report["survives"], serde_json::json!({"disks": 1, "hosts": 1, "racks": null}));
    let groups = report["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 3);
    for group in groups {
        let columns = group["columns"].as_array().unwrap();
        assert!(columns.len() == 2 && columns.contains(&group["primary"]), "{group}");
    }

    let report =
        json("raid6:2+2 --domain rack --disks a:d=1T@r1/a,b:d=1T@r2/b,c:d=1T@r3/c,d:d=1T@r4/d,e:d=1T@r4/e");
    assert_eq!(report["survives"], serde_json::json!({"disks": 2, "hosts": 2, "racks": 2}));
    assert_eq!(report["groups"].as_array().unwrap().len(), 20);
    assert!(report["spare"].as_u64().unwrap() > TIB * 9 / 10);
}

#[test]
fn losses_that_are_not_survived_are_said() {
    let done = explain(&format!("raid0 {THREE}"));
    assert!(
        done.stdout.contains("survives     nothing\n")
            && done.stdout.contains("survives nothing: with any one disk"),
        "{done}"
    );
    let done = explain("raid1 --domain disk --disks n1:a=1T,n1:b=1T");
    assert!(
        done.stdout.contains("survives     any 1 disk\n")
            && done.stdout.contains("does not survive the loss of a host"),
        "{done}"
    );
    let done = explain("raid1 --disks n1:a=1T,n2:b=1T");
    assert!(done.stdout.contains("a third node"), "{done}");
    let done = explain("raid0 --disks n1:a=1T,n2:b=2T");
    assert!(done.stdout.contains("raid0 uses as much of each disk as the smallest has"), "{done}");
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    for (arguments, status, says) in [
        (
            "raid6:4+2 --disks n1:a=1T,n1:b=1T,n2:a=1T,n2:b=1T,n3:a=1T,n3:b=1T,n4:a=1T,n5:a=1T",
            1,
            "raid6:4+2 needs 6 failure domains (level host); there are 5: n1 n2 n3 n4 n5. Add 1 more, use raid6:3+2, or \
             --domain disk (survives disks, not hosts)",
        ),
        ("raid1 --domain rack --disks n1:a=1T,n2:a=1T", 1, "give it a domain such as rack1/n1"),
        ("raid1 --disks n1:a=1T,n1:a=1T", 1, "disk n1:a is there twice"),
        ("raid1 --disks n1:a=64M,n2:a=64M --groups 400", 1, "leave it out, or use fewer groups"),
        ("raid1 --disks n1:a=1T,n2:a=1T --spare 2", 1, "keep less free, or add disks"),
        ("raid1 --disks n1:a=1T,n2:a=1T --block 5000", 1, "a block is a power of two from 4 KiB to 1 MiB"),
        ("raid1 --disks n1:a=1T,n2:a=1T --block 16G", 1, "a block is a power of two from 4 KiB to 1 MiB"),
        ("raid1 --disks n1:a=100T,n2:a=100T --block 4K", 1, "with this block a group has at most 16 TiB"),
        ("raid4 --disks n1:a=1T", 2, "did you mean raid0?"),
        ("raid5:3+2 --disks n1:a=1T", 2, "write raid5:4+1"),
        ("raid1 --disks sdb=1T", 2, "write NODE:DISK=SIZE"),
        ("raid1 --disks n1:a=1M", 2, "it has 32 MiB to 128 TiB"),
    ] {
        let done = explain(arguments);
        assert_eq!(done.status.code(), Some(status), "{arguments}: {done}");
        assert!(done.stderr.contains(says), "{arguments}: {says:?} in {done}");
    }
}
