//! Disks that are full or answer with errors: both nodes say so in the first line.

use std::fs::{self, File};

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::reference::Reference;
use crate::harness::small::SmallFs;
use crate::harness::tools::{need, skip};
use crate::harness::{KIB, MIB, SHORT, content, eventually, scratch};

const PIECE: u64 = 64 * KIB;

/// The first line of `cards status` at a node.
fn headline(cluster: &mut Cluster, node: usize) -> String {
    let socket = cluster.node(node).admin_socket();
    let done = run(&[CARDS, "status", "--socket", &socket], SHORT).ok();
    done.stdout.lines().next().unwrap_or_default().to_owned()
}

#[track_caller]
fn says(line: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} are not in: {line}");
}

#[test]
fn a_sparse_disk_warns_before_its_file_system_is_full_and_says_that_it_is() {
    let dir = scratch();
    let fs = match SmallFs::mount(&dir.path().join("small"), "8m") {
        Ok(fs) => fs,
        Err(reason) => return skip(&reason),
    };
    let image = dir.path().join("small/disk.img");
    File::create(&image).unwrap().set_len(16 * MIB).unwrap();
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::file(&image)));
    let status = eventually("the room is known", SHORT, || {
        let status = cluster.node(1).status();
        status["disks"][0]["room"].is_object().then_some(status)
    });
    let room = |status: &Value, of: &str| status["disks"][0]["room"][of].as_u64().expect("a number of bytes");
    assert_eq!((room(&status, "unwritten"), room(&status, "free")), (16 * MIB, 8 * MIB), "{status}");
    let warning = ["disk disk: the file system of ", "has 8 MiB left, and 16 MiB of the disk", "make room"];
    eventually("the first line warns", SHORT, || {
        let line = headline(&mut cluster, 1);
        warning.iter().all(|part| line.contains(part)).then_some(())
    });
    cluster.node(1).says(&["disk disk: the file system of"]);
    let config = dir.path().join("n1.toml").display().to_string();
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT);
    let line = doctor.stdout.lines().find(|line| line.contains("disk disk")).unwrap_or_default();
    assert!(line.starts_with("warning") && line.contains("8 MiB left"), "{doctor}");

    let mut client = cluster.export(2, "disk").open();
    let (mut written, mut failed) = (0, 0);
    for offset in (0..16 * MIB).step_by(PIECE as usize) {
        match client.write(offset, &content::bytes(offset, PIECE as usize, 1)) {
            Ok(()) => written += 1,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                failed += 1;
            }
        }
    }
    assert!(written > 100 && failed > 100, "{written} written, {failed} failed");
    let (writes, full) = (format!("{failed} writes failed"), "No space left on device");
    says(&headline(&mut cluster, 1), &["disk disk: ", &writes, full]);
    says(&headline(&mut cluster, 2), &["volume disk: ", &writes, "the disk is full", "n1"]);
    drop(client);
    drop(cluster);
    drop(fs);
}

#[test]
fn an_origin_that_answers_with_errors_is_told_by_both_nodes_and_every_cause() {
    need!("nbdkit");
    let dir = scratch();
    let trigger = dir.path().join("trigger");
    let arguments = [
        "--filter=error".to_string(),
        "memory".into(),
        "16M".into(),
        "error=EIO".into(),
        "error-rate=100%".into(),
        format!("error-file={}", trigger.display()),
    ];
    let origin = Reference::nbdkit(dir.path(), &arguments);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::remote(&origin.export.uri())));
    for node in [1, 2] {
        eventually("all is well", SHORT, || (cluster.node(node).status()["healthy"] == true).then_some(()));
    }
    fs::write(&trigger, "").unwrap();
    let mut client = cluster.export(2, "disk").open();
    for number in 0..3 {
        let error = client.read(8 * MIB + number * MIB, 4096).expect_err("a read");
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    }
    let error = client.write(MIB, &[1; 4096]).expect_err("a write");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    for (node, subject, cause) in
        [(1, "disk disk: ", "Input/output error"), (2, "volume disk: ", "an error of the disk")]
    {
        let line = headline(&mut cluster, node);
        says(&line, &[subject, "1 write failed", "reads failed", cause]);
        // What was not written comes before what can be read again.
        assert!(line.find("write failed") < line.find("reads failed"), "{line}");
        let status = cluster.node(node).status();
        assert!(status["failing"][0].as_str().is_some_and(|said| said.starts_with(subject)), "{status}");
    }
}

#[test]
fn a_full_state_dir_is_named_and_io_goes_on() {
    let dir = scratch();
    let fs = match SmallFs::mount(&dir.path().join("n1/state"), "16m") {
        Ok(fs) => fs,
        Err(reason) => return skip(&reason),
    };
    let image = dir.path().join("disk.img");
    content::image(&image, 8 * MIB, 3);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::file(&image)));
    eventually("all is well", SHORT, || (cluster.node(1).status()["healthy"] == true).then_some(()));
    let ballast = fs.fill();
    let line = eventually("it says so", SHORT, || {
        Some(headline(&mut cluster, 1)).filter(|line| line.contains("make room"))
    });
    says(&line, &["state_dir", "n1/state", "make room"]);
    cluster.node(1).says(&["state_dir", "make room"]);
    let mut client = cluster.export(2, "disk").open();
    for offset in (0..8 * MIB).step_by(PIECE as usize) {
        client.write(offset, &content::bytes(offset, PIECE as usize, 4)).expect("a write");
    }
    client.flush().expect("a flush");
    content::check(&client.read(MIB, MIB as usize).expect("a read"), MIB, 4);
    client.close();
    fs::remove_file(ballast).unwrap();
    eventually("all is well again", SHORT, || (cluster.node(1).status()["healthy"] == true).then_some(()));
    drop(cluster);
}
