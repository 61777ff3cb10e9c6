//! A daemon that waits for its coordinator, or for its disk's server, says so to whoever asks.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan, free_port};
use crate::harness::process::run;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

#[test]
fn while_a_daemon_waits_for_its_coordinator_every_verb_says_so() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, 1);
    let notify = dir.path().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(SHORT)).unwrap();
    let hear = || {
        let mut buffer = [0; 1024];
        let length = manager.recv(&mut buffer).expect("the daemon says something");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image));
    let page = free_port();
    plan.nodes[1].nbd += &format!("[web]\nlisten = \"{page}\"\n");
    let mut cluster = Cluster::down(plan);
    let sentence = format!("starting: waits for the coordinator at {} for ", cluster.plan.nodes[0].address);
    cluster.node(2).with(&format!("NOTIFY_SOCKET={}", notify.display()));
    cluster.node(2).spawn();
    let socket = cluster.node(2).admin_socket();
    let cards = |words: &[&str]| run(&[&[CARDS], words, &["--socket", &socket]].concat(), SHORT);
    let headline = format!("n2 of cluster lab: {sentence}");
    let status = eventually("it says what it waits for", SHORT, || {
        let done = cards(&["status"]);
        done.stdout.contains("Connection refused").then_some(done)
    });
    assert!(status.status.success() && status.stdout.starts_with(&headline), "{status}");
    assert_eq!(status.stdout.lines().count(), 1, "{status}");
    let status = cluster.node(2).status();
    assert_eq!((&status["healthy"], &status["node"]), (&false.into(), &"n2".into()), "{status}");
    assert!(status["starting"]["waits_for"].as_str().unwrap().starts_with("the coordinator"), "{status}");
    assert!(status["starting"]["reason"].as_str().unwrap().contains("refused"), "{status}");
    for verb in [&["volume", "list"][..], &["volume", "attach", "disk"], &["status", "--cluster"]] {
        let refused = cards(verb).fails();
        assert!(refused.stderr.contains(&headline) && !refused.stderr.contains("running?"), "{refused}");
    }
    let refused = cards(&["volume", "list", "--json"]).fails();
    let error: serde_json::Value = serde_json::from_str(&refused.stdout).expect("an error in JSON");
    assert_eq!(error["error"]["kind"], "starting", "{refused}");

    // Its NBD socket does not take clients, who would wait for a word.
    let nbd = socket.replace("admin.sock", "nbd.sock");
    let error = UnixStream::connect(&nbd).expect_err("a client is let in");
    assert!(matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound), "{error}");
    // Its other ports say it, at once.
    let answer = get(page, "n2");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains(&headline), "{answer}");
    assert!(answer.contains("\"kind\":\"starting\""), "{answer}");
    let stranger = get(page, "elsewhere.example");
    assert!(stranger.starts_with("HTTP/1.1 421 ") && !stranger.contains(&headline), "{stranger}");
    let api = socket.replace("admin.sock", "api.sock");
    let refused = run(&[CARDS, "lock", "list", "--json", "--socket", &api], SHORT).fails();
    let error: serde_json::Value = serde_json::from_str(&refused.stdout).expect("an error in JSON");
    assert_eq!(error["error"]["kind"], "starting", "{refused}");

    let config = dir.path().join("n2.toml").display().to_string();
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT);
    let line = |check: &str| doctor.stdout.lines().find(|line| line.contains(check)).unwrap_or_default();
    assert!(line(" daemon ").starts_with("warning") && line(" daemon ").contains(&sentence), "{doctor}");
    assert!(line(" address ").contains("in use by this node's daemon"), "{doctor}");
    assert!(!doctor.stdout.contains("end the program"), "{doctor}");

    // The manager hears of the wait, and that the daemon serves only when it does.
    loop {
        let heard = hear();
        assert!(!heard.contains("READY"), "{heard}");
        if heard.starts_with(&format!("STATUS={sentence}")) {
            break;
        }
    }
    cluster.node(1).restart();
    cluster.node(2).wait_ready();
    assert!(get(page, "n2").starts_with("HTTP/1.1 200 "), "the page is there");
    while hear() != "READY=1\nSTATUS=serving" {}
    let status = cluster.node(2).status();
    assert!(status["starting"].is_null() && status["members"].as_array().unwrap().len() == 2, "{status}");
}

/// What the page at an address answers who calls its node so.
fn get(page: SocketAddr, host: &str) -> String {
    let mut stream = TcpStream::connect(page).expect("it listens");
    stream.set_read_timeout(Some(SHORT)).expect("a socket");
    write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_start_that_waits_ends_at_a_signal_and_leaves_no_socket() {
    let dir = scratch();
    let uri = format!("nbd://{}/export", free_port());
    let mut cluster = Cluster::down(Plan::new(dir.path(), 1).disk(Disk::remote(&uri)));
    cluster.node(1).spawn();
    let socket = cluster.node(1).admin_socket();
    let said = eventually("it says what it waits for", SHORT, || {
        let done = run(&[CARDS, "status", "--socket", &socket], Duration::from_secs(5));
        done.stdout.contains("waits for").then_some(done.stdout)
    });
    assert!(said.contains("starting: waits for disk disk for ") && said.contains("refused"), "{said}");
    let status = cluster.node(1).terminate();
    assert!(status.success(), "{status}");
    assert!(!std::path::Path::new(&socket).exists());
}
