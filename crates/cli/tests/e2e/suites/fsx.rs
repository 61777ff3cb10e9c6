//! fsx: random operations on a file of a mounted volume, compared with what the file should contain.

use std::fs;

use super::SUITE;
use super::volume::{EXT4, EXT4_1_KIB, Kind, Volume, XFS};
use crate::harness::MIB;
use crate::harness::process::Process;
use crate::harness::tools::{need, skip_if};

/// Files, each with a process and a seed.
const FILES: u64 = 2;

/// Everything a file system can do with a file; pages that were written are dropped often, so as to be read again.
const OPERATIONS: &str = "flen = 6_000_000\n[weights]\nclose_open = 2\ninvalidate = 1\ntruncate = 1\nfsync = 2\n\
    fdatasync = 2\nposix_fallocate = 1\npunch_hole = 3\nsendfile = 4\nposix_fadvise = 4\ncopy_file_range = 4\n";

fn finds_nothing(kind: Kind, operations: u32, deaths: u32) {
    need!("fsx");
    skip_if!(kind.missing());
    let mut volume = Volume::new(kind, "320M");
    let config = volume.dir().join("fsx.toml");
    fs::write(&config, OPERATIONS).unwrap();
    let start = |seed| {
        let (file, artifacts) = (volume.point().join(format!("file{seed}")), volume.dir());
        let script = format!(
            "fsx -q -f {} -N {operations} -S {seed} -P {} {}",
            config.display(),
            artifacts.display(),
            file.display()
        );
        volume.spawn(&format!("fsx{seed}"), &script)
    };
    let mut suites: Vec<Process> = (1..=FILES).map(start).collect();
    for _ in 0..deaths {
        volume.wait_written(8 * MIB, &mut suites[0]);
        volume.lose_daemon(&mut suites[0]);
    }
    for suite in &mut suites {
        assert!(suite.wait(SUITE).success(), "{}", suite.log());
    }
    volume.compare_elsewhere(|point| assert!(point.join("file1").exists()));
}

#[test]
fn a_few_thousand_operations_on_an_ext4() {
    finds_nothing(EXT4, 3_000, 1);
}

#[test]
#[ignore = "long"]
fn many_operations_on_an_ext4() {
    finds_nothing(EXT4, 20_000, 3);
}

#[test]
#[ignore = "long"]
fn many_operations_on_an_ext4_with_blocks_of_1_kib() {
    finds_nothing(EXT4_1_KIB, 20_000, 3);
}

#[test]
#[ignore = "long"]
fn many_operations_on_an_xfs() {
    finds_nothing(XFS, 20_000, 3);
}
