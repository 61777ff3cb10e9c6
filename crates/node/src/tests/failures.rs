//! Nodes that die, clients that vanish or do not read.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use cards_wire::nbd::{Command, Errno};

use super::client::Client;
use super::cluster::{BLOCK, Cluster};
use crate::{Daemon, ServeError};

#[test]
fn the_death_of_a_caching_node_costs_no_error() {
    let mut cluster = Cluster::with(3, 32 * BLOCK, |config| config.disk_wait = Duration::from_secs(60));
    cluster.client(2).read(0, 32 * BLOCK).unwrap();
    cluster.kill(2);
    let start = Instant::now();
    assert!(cluster.client(3).read(0, 32 * BLOCK).unwrap() == cluster.content);
    // Far from `disk_wait`, and far from what a busy machine needs.
    assert!(start.elapsed() < Duration::from_secs(15));
    cluster.restart(2);
    cluster.wait_ready(2);
    cluster.wait_ready(3);
    assert!(cluster.client(2).read(0, 32 * BLOCK).unwrap() == cluster.content);
}

#[test]
fn without_the_disk_node_reads_fail_in_time_and_resume_with_it() {
    let mut cluster = Cluster::start(2, 32 * BLOCK);
    let mut client = cluster.client(2);
    client.read(0, BLOCK).unwrap();
    cluster.kill(1);
    let start = Instant::now();
    assert_eq!(client.read(20 * BLOCK as u64, BLOCK), Err(Errno::Io));
    let took = start.elapsed();
    assert!((1..15).contains(&took.as_secs()), "{took:?}");
    cluster.restart(1);
    cluster.wait_ready(2);
    cluster.wait("reads are served again", || {
        client
            .read(20 * BLOCK as u64, BLOCK)
            .is_ok_and(|data| data == cluster.content[20 * BLOCK..21 * BLOCK])
    });
}

#[test]
fn clients_that_vanish_harm_nobody() {
    let cluster = Cluster::with(2, 64 * BLOCK, |config| {
        config.disks.iter_mut().for_each(|disk| disk.delay = Duration::from_millis(20));
    });
    for round in 0..5 {
        let mut client = cluster.client(2);
        for block in 0..64 {
            client.send(Command::Read, 0, (block * BLOCK) as u64, BLOCK as u32, &[]);
        }
        let payload = vec![0; BLOCK / 2];
        if round % 2 == 0 {
            let _ = client.stream.write_all(&payload);
        }
        drop(client);
    }
    assert!(cluster.client(2).read(0, 64 * BLOCK).unwrap() == cluster.content);
    cluster.wait("the clients are gone", || {
        cluster.status(2).volumes[0].attached.as_ref().is_some_and(|card| card.clients == 0)
    });
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let cluster = Cluster::with(1, 64 * BLOCK, |config| {
        config.data_threads = 1;
        config.nbd.in_flight = 32 << 20;
        config.shards = 1;
        config.cache = 32 * BLOCK as u64;
    });
    let mut slow = cluster.client(1);
    slow.stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    for i in 0..200u64 {
        slow.send(Command::Read, 0, i % 4 * 16 * BLOCK as u64, 16 * BLOCK as u32, &[]);
    }
    let mut good = cluster.client(1);
    let start = Instant::now();
    for _ in 0..3 {
        assert!(good.read(0, 64 * BLOCK).unwrap() == cluster.content);
    }
    // Without that they would wait until the other reads, which is below.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // And its answers are all there once it reads.
    for _ in 0..200 {
        assert_eq!(slow.wait(0, &mut vec![0; 64 * BLOCK]).1, Ok(()));
    }
}

#[test]
fn garbage_on_the_peer_port_ends_only_its_connection() {
    let cluster = Cluster::start(2, 16 * BLOCK);
    let address = cluster.status(1).members[0].address.clone();
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 200], b"CARD\x01\x00\x00\x00\xff\xff\xff\xff", b"CARD"]
    {
        let mut stream = TcpStream::connect(&address).unwrap();
        let _ = stream.write_all(garbage);
    }
    assert!(cluster.client(2).read(0, 16 * BLOCK).unwrap() == cluster.content);
}

#[test]
fn a_taken_socket_is_named_and_a_dead_one_replaced() {
    let mut cluster = Cluster::start(1, 16 * BLOCK);
    let socket = cluster.socket(1);
    let mut config = cards_config::Config::new("test", "x");
    let dir = tempfile::tempdir().unwrap();
    config.runtime_dir = dir.path().into();
    config.state_dir = config.runtime_dir.join("state");
    config.nbd.unix = Some(socket.clone());
    let error = Daemon::start(config).err().unwrap();
    assert!(matches!(&error, ServeError::Bind { key: "nbd.unix", .. }), "{error}");
    assert!(error.to_string().contains("another process listens there"), "{error}");
    assert!(!dir.path().join("admin.sock").exists(), "nothing is left behind");
    cluster.drain(1);
    assert!(!socket.exists());
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    cluster.restart(1);
    assert_eq!(cluster.client(1).read(0, 10).unwrap(), cluster.content[..10]);
}

#[test]
fn detach_and_attach_over_the_admin_socket() {
    let cluster = Cluster::start(2, 16 * BLOCK);
    let client = cluster.client(2);
    assert!(cluster.admin(2).detach("disk").unwrap_err().to_string().contains("client"));
    drop(client);
    cluster.wait("the client is gone", || cluster.admin(2).detach("disk").is_ok());
    let refused = super::client::Client::open(&cluster.socket(2), "disk").err().unwrap();
    assert!(refused.contains("no volume"), "{refused}");
    cluster.admin(2).attach(cards_config::Attach::new("disk")).unwrap();
    assert!(cluster.client(2).read(0, BLOCK).unwrap() == cluster.content[..BLOCK]);
}

#[test]
fn a_hit_does_not_wait_behind_a_miss() {
    let cluster = Cluster::with(1, 64 * BLOCK, |config| {
        config.data_threads = 1;
        // Far longer than the requests need to arrive, however busy the machine is.
        config.disks[0].delay = Duration::from_secs(3);
        config.disk_wait = Duration::from_secs(60);
    });
    let mut client = cluster.client(1);
    client.read(0, BLOCK).unwrap();
    for block in 1..17 {
        client.send(Command::Read, 0, (block * BLOCK) as u64, BLOCK as u32, &[]);
    }
    let hit = client.send(Command::Read, 0, 0, 4096, &[]);
    let mut data = vec![0; 64 * BLOCK];
    assert_eq!(client.wait(0, &mut data), (hit, Ok(())), "the first answer");
    for _ in 1..17 {
        assert_eq!(client.wait(0, &mut data).1, Ok(()));
    }
    assert!(data[BLOCK..17 * BLOCK] == cluster.content[BLOCK..17 * BLOCK]);
}

#[test]
fn a_drain_finishes_what_is_under_way() {
    let mut cluster = Cluster::with(1, 64 * BLOCK, |config| {
        config.disks[0].delay = Duration::from_millis(200);
        config.busy_poll = Duration::from_micros(50);
    });
    let silent = UnixStream::connect(cluster.socket(1)).unwrap();
    let mut client = cluster.client(1);
    client.send(Command::Read, 0, 0, BLOCK as u32, &[]);
    let start = Instant::now();
    cluster.drain(1);
    assert!(start.elapsed() < crate::thread::DRAIN, "{:?}", start.elapsed());
    let mut data = vec![0; BLOCK];
    assert_eq!(client.wait(0, &mut data).1, Ok(()));
    assert!(data == cluster.content[..BLOCK]);
    drop(silent);
}

#[test]
fn what_was_sent_before_a_drain_is_answered() {
    const WRITE: usize = 4096;
    let mut cluster = Cluster::with(1, 64 * BLOCK, |config| config.data_threads = 1);
    let mut client = cluster.client(1);
    // The requests are in the socket when the drain begins, and another client has not been greeted.
    cluster.on_data_thread(1, || std::thread::sleep(Duration::from_millis(300)));
    let silent = UnixStream::connect(cluster.socket(1)).unwrap();
    for number in 0..8u8 {
        let offset = u64::from(number) * BLOCK as u64;
        client.send(Command::Write, 0, offset, WRITE as u32, &[number; WRITE]);
    }
    client.send(Command::Flush, 0, 0, 0, &[]);
    let start = Instant::now();
    cluster.drain(1);
    assert!(start.elapsed() < crate::thread::DRAIN, "{:?}", start.elapsed());
    for _ in 0..9 {
        assert_eq!(client.wait(0, &mut []).1, Ok(()));
    }
    let disk = cluster.disk_bytes();
    assert!((0..8).all(|number| disk[number * BLOCK..][..WRITE] == [number as u8; WRITE]));
    drop(silent);
}

#[test]
fn a_request_that_comes_too_late_for_a_drain_resets_nothing() {
    let mut cluster = Cluster::with(1, 64 * BLOCK, |config| {
        config.disks[0].delay = Duration::from_millis(300);
    });
    let mut client = cluster.client(1);
    client.send(Command::Read, 0, 0, BLOCK as u32, &[]);
    let sends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        client.send(Command::Read, 0, BLOCK as u64, BLOCK as u32, &[]);
        let mut data = vec![0; 2 * BLOCK];
        assert_eq!(client.wait(0, &mut data), (1, Ok(())));
        let mut rest = Vec::new();
        // Nothing, or the second answer too if the drain began later than that.
        client.stream.read_to_end(&mut rest).expect("an end that is none by a reset");
    });
    cluster.drain(1);
    sends.join().unwrap();
}

/// The names of exports that a node lists.
fn listed(socket: &Path) -> Vec<String> {
    let mut stream = UnixStream::connect(socket).unwrap();
    let take = |stream: &mut UnixStream, bytes: usize| {
        let mut taken = vec![0; bytes];
        stream.read_exact(&mut taken).unwrap();
        taken
    };
    take(&mut stream, 18);
    stream.write_all(&[[0, 0, 0, 3], *b"IHAV", *b"EOPT", [0, 0, 0, 3], [0; 4]].concat()).unwrap();
    let mut names = Vec::new();
    loop {
        let header = take(&mut stream, 20);
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        let payload = take(&mut stream, word(16) as usize);
        match word(12) {
            1 => return names,
            2 => names.push(String::from_utf8(payload[4..].to_vec()).unwrap()),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_volume_that_no_node_has_is_not_listed_and_refused_in_time() {
    let cluster = Cluster::start(1, 4 * BLOCK);
    // What [[attach]] of a name with a typing error leads to.
    let wrong = cluster.node(1).cards.add(cards_config::Attach::new("dta"));
    assert!(wrong.is_some());
    assert_eq!(listed(&cluster.socket(1)), ["disk"]);
    let volume = serde_json::to_value(cluster.admin(1).volume("dta").unwrap()).unwrap();
    for unknown in ["disk_node", "size", "block", "policy", "coherence", "read_only"] {
        assert!(volume[unknown].is_null(), "{volume}");
    }
    let start = Instant::now();
    let error = Client::open(&cluster.socket(1), "dta").err().unwrap();
    assert!(error.contains("no node has a disk of this name"), "{error}");
    // Not as late as the handshake's own deadline.
    assert!(start.elapsed() < cluster.config(1).nbd.handshake, "{:?}", start.elapsed());
}

#[test]
fn a_peer_that_stands_still_is_named_although_it_is_connected() {
    let cluster = Cluster::with(2, 4 * BLOCK, |config| config.data_threads = 1);
    for (still, awake) in [(2, 1), (1, 2)] {
        cluster.on_data_thread(still, || std::thread::sleep(Duration::from_secs(4)));
        let said = |what: &str| cluster.status(awake).problems.iter().any(|problem| problem.contains(what));
        cluster.wait("it is named", || said("although it is connected"));
        assert!(
            awake == 1 || said("volume disk: its disk node n1 has not answered"),
            "{:?}",
            cluster.status(awake)
        );
        cluster.wait("all is well again", || cluster.status(awake).healthy && cluster.status(still).healthy);
    }
}
