//! pjdfstest: what POSIX says of file systems, on a volume and on a plain loop device beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::volume::{EXT4, Kind, Volume, XFS};
use super::{SUITE, source};
use crate::harness::LONG;
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip_if};

const CONFIG: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Why the suite cannot become other users here, if it cannot.
fn missing_users() -> Option<String> {
    let has = |file: &str, name: &str| {
        let known = fs::read_to_string(file).unwrap_or_default();
        known.lines().any(|line| line.split(':').next() == Some(name))
    };
    let users = ["nobody", "daemon"].into_iter().find(|name| !has("/etc/passwd", name));
    let groups = || ["nogroup", "daemon"].into_iter().find(|name| !has("/etc/group", name));
    users.or_else(groups).map(|name| format!("there is no user or group {name}"))
}

/// Of the file systems, both.
const SIZE: &str = "320M";

/// `ok`, `FAILED` or `skipped` for each test.
type Results = BTreeMap<String, String>;

/// A command that tests the file system mounted at `point`; `dir` has the configuration, on another file system.
fn command(dir: &Path, point: &Path) -> String {
    let (dir, point) = (dir.display(), point.display());
    format!(
        "env NO_COLOR=1 pjdfstest --configuration-file {dir}/pjdfstest.toml --secondary-fs {dir} --path {point}"
    )
}

/// What it has said of each test; complete, as its own summary tells.
fn results(said: &str) -> Results {
    let line = |line: &str| {
        let (name, result) = line.split_once(' ')?;
        let known = ["ok", "FAILED", "skipped"].contains(&result.trim());
        (known && name.contains("::")).then(|| (name.to_owned(), result.trim().to_owned()))
    };
    let results: Results = said.lines().filter_map(line).collect();
    assert!(said.contains(&format!(", {} total", results.len())), "{} of\n{said}", results.len());
    results
}

/// Names of the tests with this result.
fn with<'a>(results: &'a Results, result: &str) -> Vec<&'a str> {
    results.iter().filter(|(_, found)| *found == result).map(|(name, _)| name.as_str()).collect()
}

/// The results on a plain loop device.
fn plain(kind: &Kind, dir: &Path) -> Results {
    let (image, point) = (dir.join("plain.img"), dir.join("plain"));
    let (at, mount) = (image.display().to_string(), point.display());
    sh(&format!("truncate -s {SIZE} {at}"), LONG).ok();
    kind.make(&at);
    sh(&format!("mkdir {mount} && mount -o loop {at} {mount}"), LONG).ok();
    let done = sh(&command(dir, &point), SUITE);
    sh(&format!("umount {mount}"), LONG).ok();
    results(&done.stdout)
}

/// Nothing fails on a volume that does not fail on the loop device, and nothing else is skipped.
#[track_caller]
fn compare(found: &Results, plain: &Results, job: &Process) {
    let [ok, failed, skipped] = ["ok", "FAILED", "skipped"].map(|result| with(found, result));
    eprintln!("{} passed, {} failed, {} skipped", ok.len(), failed.len(), skipped.len());
    assert!(ok.len() > 300, "{}", job.log());
    let known = with(plain, "FAILED");
    let new: Vec<&&str> = failed.iter().filter(|name| !known.contains(name)).collect();
    assert!(new.is_empty(), "{new:?} fail on a volume and not on a loop device:\n{}", job.log());
    assert_eq!(skipped, with(plain, "skipped"));
}

fn finds_what_it_finds_on_a_loop_device(kind: Kind) {
    need!("pjdfstest");
    skip_if!(kind.missing().or_else(missing_users));
    let mut volume = Volume::new(kind, SIZE);
    fs::write(volume.dir().join("pjdfstest.toml"), CONFIG).unwrap();
    source::write(&volume.point().join("tree"));
    let expected = plain(&kind, volume.dir());

    let script = command(volume.dir(), &volume.point());
    let mut job = volume.spawn("undisturbed", &script);
    job.wait(SUITE);
    compare(&results(&job.log()), &expected, &job);

    let mut job = volume.spawn("disturbed", &script);
    job.until("the suite to begin", || has_suite(&volume.point()).then_some(()));
    volume.lose_daemon(&mut job);
    job.wait(SUITE);
    compare(&results(&job.log()), &expected, &job);
    volume.compare_elsewhere(|point| assert!(!has_suite(point)));
}

/// Whether the suite's own directory is there.
fn has_suite(point: &Path) -> bool {
    fs::read_dir(point)
        .unwrap()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with(".tmp"))
}

#[test]
#[ignore = "long"]
fn an_ext4_is_as_good_as_on_a_loop_device() {
    finds_what_it_finds_on_a_loop_device(EXT4);
}

#[test]
#[ignore = "long"]
fn an_xfs_is_as_good_as_on_a_loop_device() {
    finds_what_it_finds_on_a_loop_device(XFS);
}
