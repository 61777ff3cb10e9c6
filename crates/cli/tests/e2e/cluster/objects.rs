//! An object of a real web server as the disk.

use std::fs::{self, File, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{SEED, SIZE, image};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::nginx::Nginx;
use crate::harness::plan::{Disk, Plan, free_port};
use crate::harness::process::{Process, run};
use crate::harness::tools::need;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

/// A server of an image with the content of the tests.
fn server(dir: &std::path::Path) -> Nginx {
    let nginx = Nginx::start(dir);
    fs::rename(image(dir, "made.img"), nginx.file("disk.img")).unwrap();
    nginx
}

/// The problems that node 1's status has.
fn problems(cluster: &mut Cluster) -> Vec<String> {
    let status = cluster.node(1).status();
    let text = |problem: &Value| problem.as_str().expect("a text").to_owned();
    status["problems"].as_array().expect("a list").iter().map(text).collect()
}

#[test]
fn a_fleet_reads_each_byte_of_an_object_from_its_server_about_once() {
    need!("nginx");
    let dir = scratch();
    let nginx = server(dir.path());
    let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(Disk::object(&nginx.url("disk.img"))));
    // One after the other; the disk node last.
    for number in [2, 3, 1] {
        cluster.export(number, "disk").check_all(SEED);
    }
    let asked = nginx.asked();
    let bytes: u64 = asked.iter().map(|asked| asked.last + 1 - asked.first).sum();
    assert!(bytes >= SIZE, "{bytes}: {asked:?}");
    assert!(bytes * 100 <= SIZE * 105, "{bytes} bytes were asked for, of {SIZE}: {asked:?}");
    let error = cluster.export(2, "disk").open().write(0, &[1; 4096]).expect_err("nobody writes it");
    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
}

#[test]
fn an_object_that_was_replaced_is_eio_and_never_a_mixture() {
    need!("nginx");
    let dir = scratch();
    let nginx = server(dir.path());
    // What follows the path may be a secret.
    let url = nginx.url("disk.img");
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::object(&format!("{url}?sig=hush")));
    plan.read_ahead = "off";
    let mut cluster = Cluster::start(plan);
    let mut client = cluster.export(2, "disk").open();
    content::check(&client.read(0, 64 << 10).expect("a read"), 0, SEED);
    let (file, old) = (nginx.file("disk.img"), nginx.file("old.img"));
    fs::rename(&file, &old).unwrap();
    content::image(&nginx.file("new.img"), SIZE, SEED + 1);
    // nginx makes the ETag of time and size, and counts seconds.
    let new = File::options().write(true).open(nginx.file("new.img")).unwrap();
    new.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
    fs::rename(nginx.file("new.img"), &file).unwrap();
    let error = client.read(16 * MIB, 64 << 10).expect_err("another object");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    content::check(&client.read(0, 64 << 10).expect("what is cached"), 0, SEED);
    let told = eventually("the status names it", SHORT, || {
        problems(&mut cluster).into_iter().find(|problem| problem.contains("restart this daemon"))
    });
    assert!(
        told.starts_with(&format!("disk disk: {url}?…: the object has changed since it was opened")),
        "{told}"
    );
    let all = problems(&mut cluster);
    assert!(
        all.iter().any(|problem| problem.contains("of 64 KiB at byte 16777216: the object has changed")),
        "{all:?}"
    );
    // The old one comes back, and is what it was.
    fs::rename(&file, nginx.file("new.img")).unwrap();
    fs::rename(&old, &file).unwrap();
    content::check(&client.read(20 * MIB, 64 << 10).expect("the old object"), 20 * MIB, SEED);
    eventually("the status forgets it", SHORT, || {
        (!problems(&mut cluster).iter().any(|problem| problem.contains("restart this daemon"))).then_some(())
    });
    // A restart of the disk node serves the new one, and what was cached of the old one anywhere is not used.
    cluster.node(1).terminate();
    fs::rename(nginx.file("new.img"), &file).unwrap();
    cluster.node(1).restart();
    client.close();
    // Copies are dropped when the nodes have connected again.
    let new = content::bytes(0, 64 << 10, SEED + 1);
    eventually("node 2 hears of it", SHORT, || {
        (cluster.export(2, "disk").read(0, 64 << 10).expect("a read") == new).then_some(())
    });
    cluster.export(2, "disk").check_all(SEED + 1);
    let config = dir.path().join("n1.toml").display().to_string();
    let socket = cluster.node(1).admin_socket();
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT);
    assert!(doctor.stdout.contains(&format!("{url}?…: 32 MiB, can be read, ETag ")), "{doctor}");
    let status = run(&[CARDS, "status", "-v", "--socket", &socket], SHORT);
    assert!(status.stdout.contains(&format!("  disk disk ({url}?…): ")), "{status}");
    for said in [doctor.stdout, doctor.stderr, status.stdout, cluster.node(1).log(), cluster.node(2).log()] {
        assert!(!said.contains("hush"), "{said}");
    }
}

/// nginx takes a bucket for a directory and looks at no signature: what is seen is TLS, paths and headers.
#[test]
fn an_object_of_a_store_is_read_over_https() {
    need!("nginx", "openssl");
    let dir = scratch();
    let nginx = Nginx::start_tls(dir.path());
    fs::create_dir(nginx.file("models")).unwrap();
    fs::rename(image(dir.path(), "made.img"), nginx.file("models/a b.img")).unwrap();
    let key = dir.path().join("key");
    fs::write(&key, "[default]\naws_access_key_id = AK\naws_secret_access_key = hush\n").unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let mut disk = Disk::object("s3://models/a b.img");
    let (server, ca, key) = (nginx.url(""), nginx.authority(), key.display());
    disk.origin += &format!("\nendpoint = \"{server}\"\nca = \"{}\"\ncredentials = \"{key}\"", ca.display());
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(disk));
    cluster.export(2, "disk").check_all(SEED);
    let requests = nginx.requests();
    let is_signed = |line: &str| line.contains(" AWS4-HMAC-SHA256 Credential=AK/");
    assert!(requests.lines().count() > 2 && requests.lines().all(is_signed), "{requests}");
    assert_eq!(cluster.node(1).status()["disks"][0]["origin"], "s3://models/a b.img");
    assert!(!cluster.node(1).log().contains("hush"));
}

/// An implementation of S3 that is not ours looks at signatures, and hides what it holds from who has none.
#[test]
fn a_store_that_checks_signatures_is_read_with_the_right_key_only() {
    need!("s3s-fs");
    let dir = scratch();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("models")).unwrap();
    // The store reads all of it for each request, for the sake of its ETag.
    content::image(&root.join("models/a+b (1).img"), MIB, SEED);
    let address = free_port();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let secret = "secret/with+signs=";
    let words = ["s3s-fs", "--host", &host, "--port", &port, "--access-key", "AK", "--secret-key", secret]
        .map(Into::into);
    let words = [&words[..], &[root.display().to_string()]].concat();
    let mut store = Process::spawn(&words, &dir.path().join("store.log"));
    eventually("the store listens", SHORT, || TcpStream::connect(address).ok());
    assert!(store.is_alive(), "{}", store.log());
    let key = dir.path().join("key");
    let has = |secret: &str| {
        fs::write(&key, format!("[default]\naws_access_key_id = AK\naws_secret_access_key = {secret}\n"))
            .unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    };
    has(secret);
    let mut disk = Disk::object("s3://models/a+b (1).img");
    disk.origin += &format!("\nendpoint = \"http://{address}\"\ncredentials = \"{}\"", key.display());
    let cluster = Cluster::start(Plan::new(dir.path(), 2).disk(disk));
    cluster.export(2, "disk").check_all(SEED);
    has("another");
    let config = dir.path().join("n1.toml").display().to_string();
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT).fails();
    assert!(doctor.stdout.contains("answered with status 403"), "{doctor}");
}

/// Nothing that was cached is asked for again: the object is the one that it was.
#[test]
fn a_restart_of_the_disk_node_leaves_caches_of_an_object_warm() {
    need!("nginx");
    let dir = scratch();
    let nginx = server(dir.path());
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::object(&nginx.url("disk.img")));
    plan.read_ahead = "off";
    let mut cluster = Cluster::start(plan);
    cluster.export(2, "disk").check_all(SEED);
    cluster.node(1).terminate();
    cluster.node(1).restart();
    let before = nginx.asked().len();
    let mut client = cluster.export(2, "disk").open();
    content::check(&client.read(8 * MIB, 1 << 20).expect("what is cached"), 8 * MIB, SEED);
    client.close();
    assert_eq!(nginx.asked().len(), before, "{:?}", &nginx.asked()[before..]);
}

#[test]
fn a_server_that_is_away_for_a_while_is_waited_for() {
    need!("nginx");
    let dir = scratch();
    let mut nginx = server(dir.path());
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::object(&nginx.url("disk.img")));
    plan.read_ahead = "off";
    let mut cluster = Cluster::start(plan);
    let mut client = cluster.export(2, "disk").open();
    content::check(&client.read(0, 64 << 10).expect("a read"), 0, SEED);
    nginx.stop();
    let reader = thread::spawn(move || client.read(16 * MIB, 64 << 10));
    cluster.node(1).says(&["the object cannot be read; it is tried again", "no connection to the server"]);
    let silent = format!("disk disk: {} has not answered for ", nginx.url("disk.img"));
    eventually("the status names it", SHORT, || {
        let is_named = |problem: &String| problem.starts_with(&silent) && problem.contains("see its server");
        problems(&mut cluster).iter().any(is_named).then_some(())
    });
    nginx.restart();
    content::check(&reader.join().expect("no panic").expect("a read"), 16 * MIB, SEED);
    cluster.node(1).says(&["the object can be read again"]);
    cluster.node(1).says(&["disk disk: ", " answers again, after "]);
}

/// Then the machine that starts first comes up by itself.
#[test]
fn a_daemon_waits_for_the_server_of_its_object() {
    need!("nginx");
    let dir = scratch();
    let mut nginx = server(dir.path());
    nginx.stop();
    let mut cluster = Cluster::spawn(Plan::new(dir.path(), 1).disk(Disk::object(&nginx.url("disk.img"))));
    cluster.node(1).says(&["no connection to the server of the object", "it is tried again"]);
    nginx.restart();
    cluster.node(1).wait_ready();
    content::check(&cluster.export(1, "disk").read(0, 4096).expect("a read"), 0, SEED);
}
