//! fsx on the bytes of a volume, without a file system: on the file, and on the block device.

use std::fs;
use std::path::Path;

use super::SUITE;
use super::volume::{ELSEWHERE, HERE, site};
use crate::harness::process::{Process, run, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, scratch};
use crate::mount::site::missing_devices;

/// No page of a file that is open for writing is shared, so there is no shared mapping; and the size stays.
const OF_THE_FILE: &str = "blockmode = true\n[opsize]\nmax = 300_000\n[weights]\nmapread = 0\nmapwrite = 0\n\
    truncate = 0\nfsync = 1\nfdatasync = 1\npunch_hole = 3\nsendfile = 3\n";

/// A block device has pages of its own; holes are whole sectors.
const OF_THE_DEVICE: &str = "blockmode = true\n[opsize]\nmax = 300_032\nalign = 512\n[weights]\ntruncate = 0\n\
    fsync = 2\nfdatasync = 2\npunch_hole = 3\nsendfile = 3\nposix_fadvise = 4\n";

fn sum(path: &str) -> String {
    let done = run(&["sha256sum", path], LONG).ok();
    done.stdout.split_whitespace().next().unwrap().to_owned()
}

fn finds_nothing(config: &str, attach: &str) {
    need!("fsx");
    skip_if!(missing_devices());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let mut site = site(dir.path());
    let path = site.prints(HERE, attach);
    fs::write(dir.path().join("fsx.toml"), config).unwrap();
    let mut fsx = start(dir.path(), &path);
    for _ in 0..3 {
        let before = site.cluster.node(HERE).counter("bytes_written");
        fsx.until("fsx to write", || {
            (site.cluster.node(HERE).counter("bytes_written") > before).then_some(())
        });
        site.cluster.node(HERE).kill();
        assert!(fsx.is_alive(), "it was to run meanwhile\n{}", fsx.log());
        site.cluster.node(HERE).spawn();
        site.wait_known(HERE);
    }
    assert!(fsx.wait(SUITE).success(), "{}", fsx.log());
    sh(&format!("sync {path}"), LONG).ok();
    let expected = sum(&path);
    site.cards(HERE, "detach disk").ok();
    site.is_bare(HERE);

    let path = site.prints(ELSEWHERE, attach);
    assert_eq!(sum(&path), expected, "at another node");
    site.cards(ELSEWHERE, "detach disk").ok();
    assert_eq!(sum(&image.display().to_string()), expected, "on the disk");
}

fn start(dir: &Path, path: &str) -> Process {
    let script = format!("cd {} && exec fsx -q -f fsx.toml -N 8000 -S 5 -P . {path}", dir.display());
    Process::spawn(&["sh".into(), "-c".into(), script], &dir.join("fsx.log"))
}

#[test]
#[ignore = "long"]
fn many_operations_on_the_file() {
    finds_nothing(OF_THE_FILE, "attach disk");
}

#[test]
#[ignore = "long"]
fn many_operations_on_the_block_device() {
    finds_nothing(OF_THE_DEVICE, "attach disk --block");
}
