//! Peers that must not talk: each side refuses the other by name and shows so in its status.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use cards_wire::peer::{Hello, VERSION, encode_hello};

use crate::Daemon;
use crate::admin::{Client, MemberState, Status};
use crate::config::{Attach, Config, Disk, Member, Origin};

/// Two configurations that fit, without disks.
fn pair(dir: &std::path::Path) -> [Config; 2] {
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let member = |(i, port): (usize, &TcpListener)| Member {
        name: format!("n{i}"),
        address: port.local_addr().unwrap().to_string(),
    };
    let members: Vec<Member> = ports.iter().enumerate().map(member).collect();
    [0, 1].map(|i| {
        let mut config = Config::new("lab", &format!("n{i}"), members.clone());
        config.runtime_dir = dir.join(format!("n{i}"));
        config.state_dir = config.runtime_dir.join("state");
        (config.cache, config.prefault) = (64 << 20, false);
        config
    })
}

fn status(daemon: &Daemon) -> Status {
    Client::connect(&daemon.admin_socket()).unwrap().status().unwrap()
}

/// Waits until the daemon shows member `peer` as refused for a reason that has all of `words`.
#[track_caller]
fn shown(daemon: &Daemon, peer: usize, words: &[&str]) {
    let start = Instant::now();
    loop {
        let status = status(daemon);
        let member = &status.members[peer];
        let reason = member.reason.clone().unwrap_or_default();
        if member.state == MemberState::Refused && words.iter().all(|word| reason.contains(word)) {
            let problem = format!("node n{peer} ({}): {reason}", member.address);
            return assert!(status.problems.contains(&problem), "{:?}", status.problems);
        }
        assert!(start.elapsed() < Duration::from_secs(10), "no {words:?} in {member:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a pair whose second daemon has one thing otherwise.
#[track_caller]
fn refuse_each_other(change: impl FnOnce(&mut Config), words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let mut configs = pair(dir.path());
    change(&mut configs[1]);
    let daemons = configs.map(|config| Daemon::start(config).unwrap());
    shown(&daemons[0], 1, &[&["n1"], words].concat());
    shown(&daemons[1], 0, &[&["n0"], words].concat());
}

#[test]
fn another_cluster() {
    refuse_each_other(|config| config.cluster = "prod".into(), &["cluster", "\"lab\"", "\"prod\"", "check"]);
}

#[test]
fn another_member_list() {
    let more = Member { name: "n2".into(), address: "127.0.0.1:1".into() };
    refuse_each_other(|config| config.members.push(more), &["member list", "same members"]);
}

#[test]
fn another_number_of_shards() {
    refuse_each_other(|config| config.shards = 8, &["8", "16", "shards", "same number"]);
}

#[test]
fn another_block_size() {
    refuse_each_other(|config| config.block = 4096, &["4096", "65536", "`block`"]);
}

#[test]
fn another_version() {
    let dir = tempfile::tempdir().unwrap();
    let [config, _] = pair(dir.path());
    let address = config.members[0].address.clone();
    let daemon = Daemon::start(config).unwrap();
    let hello = Hello {
        cluster: "lab".into(),
        node: "n1".into(),
        members: 0,
        shards: 16,
        incarnation: 1,
        ..Hello::default()
    };
    let mut bytes = encode_hello(&hello).unwrap();
    bytes[4] = VERSION + 1;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&bytes).unwrap();
    // It learns who refuses it, then the connection ends.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"CARD"), "{answer:?}");
    shown(&daemon, 1, &["n1", "version", &(VERSION + 1).to_string(), &VERSION.to_string(), "one release"]);
}

#[test]
fn two_disks_of_one_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut configs = pair(dir.path());
    for (i, config) in configs.iter_mut().enumerate() {
        let path = dir.path().join(format!("disk{i}.img"));
        std::fs::write(&path, [0; 4096]).unwrap();
        config.disks = vec![Disk::new("disk", Origin::Path(path))];
        config.attach = vec![Attach::new("disk")];
    }
    let daemons = configs.map(|config| Daemon::start(config).unwrap());
    for daemon in &daemons {
        let start = Instant::now();
        let said = "volume disk: nodes n0 and n1 both have a disk of this name";
        while !status(daemon).problems.iter().any(|problem| problem.starts_with(said)) {
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", status(daemon).problems);
            std::thread::sleep(Duration::from_millis(20));
        }
        // There is one card, and only its own volume has it.
        let cards = |status: Status| status.volumes.iter().filter(|volume| volume.is_attached()).count();
        while cards(status(daemon)) != 1 {
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", status(daemon).volumes);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_only_member_needs_no_peer_port() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let [mut config, _] = pair(dir.path());
    config.members.truncate(1);
    config.members[0].address = taken.local_addr().unwrap().to_string();
    assert!(status(&Daemon::start(config).unwrap()).healthy);
}

#[test]
fn a_missing_member_has_a_reason_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = pair(dir.path());
    // The one dials, the other waits to be dialled.
    for (config, missing) in [(second, 0), (first, 1)] {
        let daemon = Daemon::start(config).unwrap();
        let start = Instant::now();
        loop {
            let problems = status(&daemon).problems;
            let said = |words: [&str; 2]| words.iter().all(|word| problems[0].contains(word));
            if said([&format!("node n{missing} (127.0.0.1:"), "start `cards serve` there"]) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{problems:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
