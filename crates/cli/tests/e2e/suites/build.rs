//! Source trees built on a mounted volume, under which the daemon is killed.

use std::path::Path;

use super::volume::{EXT4, Kind, Volume, XFS};
use super::{SUITE, source};
use crate::harness::process::{run, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, SHORT};

/// The same tree is built here and on a directory of this machine: no byte differs.
#[test]
fn a_program_built_on_a_volume_is_the_one_built_here() {
    need!("gcc", "make", "ar");
    skip_if!(EXT4.missing());
    let mut volume = Volume::new(EXT4, "160M");
    let (tree, plain) = (volume.point().join("tree"), volume.dir().join("plain"));
    source::write(&tree);
    source::write(&plain);
    let mut make = volume.spawn("make", &format!("make -j2 -C {}", tree.display()));
    make.until("the first object", || tree.join("out/m1.o").exists().then_some(()));
    volume.lose_daemon(&mut make);
    assert!(make.wait(SUITE).success(), "{}", make.log());
    sh(&format!("make -j2 -C {}", plain.display()), LONG).ok();
    sh(&format!("diff -r {} {}", plain.display(), tree.display()), LONG).ok();
    volume.compare_elsewhere(|point| {
        let program = point.join("tree/program").display().to_string();
        assert_eq!(run(&[&program], SHORT).ok().stdout, source::answer());
    });
}

/// The core of this workspace is built by cargo on the volume; its unit tests pass from there, and from elsewhere.
fn a_workspace(kind: Kind) {
    need!("cargo");
    skip_if!(kind.missing());
    let mut volume = Volume::new(kind, "1G");
    let tree = volume.point().join("tree");
    let (from, to) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), tree.display());
    let copy = format!("mkdir {to} && cd {} && cp -a Cargo.toml Cargo.lock crates {to}", from.display());
    sh(&copy, LONG).ok();
    let command = "cargo test --offline --locked --package cards-core --lib --no-run --target-dir out";
    let mut cargo = volume.spawn("cargo", &format!("env --chdir={to} {command}"));
    for _ in 0..2 {
        volume.lose_daemon(&mut cargo);
    }
    assert!(cargo.wait(SUITE).success(), "{}", cargo.log());
    volume.compare_elsewhere(|point| {
        let out = point.join("tree/out/debug/deps");
        let tests =
            format!("find {} -name 'cards_core-*' -type f -perm -u+x -exec {{}} --quiet ';'", out.display());
        let done = sh(&tests, SUITE).ok();
        assert!(done.stdout.contains("test result: ok."), "{done}");
    });
}

#[test]
#[ignore = "long"]
fn a_workspace_is_built_on_an_ext4() {
    a_workspace(EXT4);
}

#[test]
#[ignore = "long"]
fn a_workspace_is_built_on_an_xfs() {
    a_workspace(XFS);
}
