//! What is counted, noted and shown of requests.

use std::time::{Duration, Instant};

use cards_admin::{Op, SlowRequests, WaitKind};
use cards_config::{Attach, Config, Coordinator, Disk, EmbeddedHome, Origin};
use cards_wire::nbd::{Command, Errno};

use super::cluster::{BLOCK, Cluster, free_address};
use super::http::{get, web};
use crate::Daemon;
use crate::metrics::{scrape, strict};
use crate::node::card::CardState;
use crate::node::members::{Member, Members};
use crate::report;

/// The value of a sample; zero if it is not there.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[test]
fn every_request_is_counted_once_with_its_volume_and_its_kind() {
    let cluster = Cluster::with(2, 64 * BLOCK, web);
    let mut client = cluster.client(2);
    for _ in 0..3 {
        client.read(0, 2 * BLOCK).unwrap();
    }
    client.write(0, &[7; 512]).unwrap();
    client.command(Command::Flush, 0, 0).unwrap();
    client.command(Command::Trim, 0, BLOCK as u32).unwrap();
    assert_eq!(client.read(64 * BLOCK as u64, 1), Err(Errno::Inval));
    // A reply is counted after it has left: its client may have it a moment earlier.
    cluster.wait("the last is counted", || {
        value(&scrape(cluster.node(2)), "cards_request_errors_total{volume=\"disk\",op=\"read\"}") == 1.0
    });
    let text = get(&cluster, 2, "/metrics");
    strict::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    for (sample, expected) in [
        ("cards_requests_total{volume=\"disk\",op=\"read\"}", 4.0),
        ("cards_requests_total{volume=\"disk\",op=\"write\"}", 1.0),
        ("cards_requests_total{volume=\"disk\",op=\"flush\"}", 1.0),
        ("cards_requests_total{volume=\"disk\",op=\"trim\"}", 1.0),
        ("cards_request_duration_seconds_count{volume=\"disk\",op=\"read\"}", 4.0),
        ("cards_read_bytes_total{volume=\"disk\"}", (6 * BLOCK) as f64),
        ("cards_written_bytes_total{volume=\"disk\"}", 512.0),
        ("cards_trimmed_bytes_total{volume=\"disk\"}", BLOCK as f64),
        ("cards_volume_block_reads_total{volume=\"disk\",source=\"disk\"}", 2.0),
        ("cards_volume_block_reads_total{volume=\"disk\",source=\"local\"}", 4.0),
        ("cards_block_reads_total{source=\"disk\"}", 2.0),
        ("cards_block_reads_total{source=\"local\"}", 4.0),
        ("cards_peer_up{peer=\"n1\"}", 1.0),
        ("cards_volume_attached{volume=\"disk\"}", 1.0),
        ("cards_volume_size_bytes{volume=\"disk\"}", (64 * BLOCK) as f64),
        ("cards_node_info{cluster=\"test\",node=\"n2\",version=\"0.1.0\"}", 1.0),
    ] {
        assert_eq!(value(&text, sample), expected, "{sample}\n{text}");
    }
    assert!(value(&text, "cards_request_duration_seconds_sum{volume=\"disk\",op=\"read\"}") > 0.0);
    assert!(!text.contains("op=\"cache\""), "what was never asked is not shown");
    let started = |text: &str| value(text, "process_start_time_seconds");
    let ago = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - started(&text);
    assert!((0.0..600.0).contains(&ago), "started {ago} s ago");
    assert_eq!(started(&get(&cluster, 2, "/metrics")), started(&text), "a restart is seen, and nothing else");

    let status = cluster.status(2);
    let io = &status.volumes.iter().find(|volume| volume.name == "disk").unwrap().io;
    assert_eq!((io.op(Op::Read).latency.count(), io.local_hits, io.disk_reads), (4, 4, 2));
    assert!(io.op(Op::Read).latency.quantile(0.99).unwrap() < Duration::from_secs(5));
}

#[test]
fn the_volume_s_hits_add_up_to_the_node_s() {
    let cluster = Cluster::with(3, 64 * BLOCK, |config| {
        web(config);
        config.attach[0].read_ahead = cards_config::ReadAhead::Bytes(8 * BLOCK as u64);
    });
    cluster.client(2).read(0, 64 * BLOCK).unwrap();
    let mut client = cluster.client(3);
    for block in 0..64 {
        client.read((block * BLOCK) as u64, BLOCK).unwrap();
    }
    client.read(0, 64 * BLOCK).unwrap();
    let status = cluster.status(3);
    let (io, node) = (&status.volumes[0].io, &status.counters);
    assert_eq!(
        (io.local_hits, io.remote_hits, io.disk_reads),
        (node.local_hits, node.remote_hits, node.disk_reads)
    );
    assert!(io.remote_hits > 0, "{io:?}");
}

#[test]
fn a_slow_request_is_noted_with_what_it_waited_for() {
    let cluster = Cluster::with(2, 64 * BLOCK, |config| {
        web(config);
        config.slow = Duration::from_millis(15);
        config.disks.iter_mut().for_each(|disk| disk.delay = Duration::from_millis(30));
    });
    let mut client = cluster.client(2);
    client.read(3 * BLOCK as u64, BLOCK).unwrap();
    client.read(3 * BLOCK as u64, BLOCK).unwrap();
    let slow: SlowRequests = serde_json::from_str(&get(&cluster, 2, "/v1/slow")).unwrap();
    assert_eq!((slow.threshold_ms, slow.count, slow.last.len()), (Some(15), 1, 1), "{slow:?}");
    let noted = &slow.last[0];
    assert_eq!((noted.volume.as_str(), noted.op, noted.offset), ("disk", Op::Read, 3 * BLOCK as u64));
    assert_eq!((noted.waited_for, noted.node.as_deref()), (WaitKind::Disk, Some("n1")));
    assert!(noted.took_us >= 30_000 && !noted.failed && slow.slowest == slow.last, "{slow:?}");
    assert_eq!(value(&get(&cluster, 2, "/metrics"), "cards_slow_requests_total"), 1.0);
    // The disk node serves no client: nothing was slow there.
    assert_eq!(value(&get(&cluster, 1, "/metrics"), "cards_slow_requests_total"), 0.0);
}

#[test]
fn a_write_waits_for_the_locks_of_others_and_a_read_for_none() {
    let cluster = Cluster::with(2, 64 * BLOCK, |config| {
        config.slow = Duration::from_nanos(1);
        // The block comes by the same lane as its lock, and so behind it.
        config.data_threads = 1;
    });
    let (mut reader, mut writer) = (cluster.client(2), cluster.client(1));
    reader.read(0, BLOCK).unwrap();
    writer.write(0, &[1; 512]).unwrap();
    reader.read(0, BLOCK).unwrap();
    let slow = |node: usize| report::slow(cluster.node(node), usize::MAX);
    let (read, written) = (slow(2).last[0].clone(), slow(1).last[0].clone());
    assert_eq!((read.op, read.waited_for, read.node.as_deref()), (Op::Read, WaitKind::Peer, Some("n1")));
    assert_eq!(
        (written.op, written.waited_for, written.node.as_deref()),
        (Op::Write, WaitKind::Lock, Some("n2"))
    );
    let text = scrape(cluster.node(2));
    assert_eq!(value(&text, "cards_volume_lock_waits_total{volume=\"disk\"}"), 0.0, "{text}");
    assert_eq!(value(&text, "cards_lock_waits_total"), 0.0, "{text}");
}

#[test]
fn a_scrape_of_a_large_cluster_is_quick_and_of_bounded_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new("test", "n0");
    let address = free_address();
    config.coordinator = Some(Coordinator::Embedded(EmbeddedHome::new("n0", &address)));
    config.address = Some(address);
    config.cache = 64 << 20;
    config.prefault = false;
    config.runtime_dir = dir.path().join("run");
    config.state_dir = config.runtime_dir.join("state");
    let socket = dir.path().join("nbd.sock");
    config.nbd.unix = Some(socket.clone());
    for i in 0..64 {
        let (name, path) = (format!("disk{i}"), dir.path().join(format!("disk{i}")));
        std::fs::write(&path, vec![0; BLOCK]).unwrap();
        config.disks.push(Disk::new(&name, Origin::Path(path)));
        config.attach.push(Attach::new(&name));
    }
    let daemon = Daemon::start(config).unwrap();
    let node = &daemon.node;
    let own = node.members();
    // No process listens at the others.
    let members = (1..1_000).fold(Members::clone(&own), |members, i| {
        let (name, address) = (format!("n{i}"), format!("127.0.0.1:{i}"));
        members.with(cards_core::NodeId(i), Member { name, address, ..own.get(node.me).unwrap().clone() })
    });
    node.members_are(members, own.epoch());
    let begin = Instant::now();
    while node.cards.all().iter().any(|card| card.state() != CardState::Attached) {
        assert!(begin.elapsed() < Duration::from_secs(20), "not attached");
        std::thread::sleep(Duration::from_millis(10));
    }
    for i in 0..64 {
        let mut client = super::client::Client::open(&socket, &format!("disk{i}")).unwrap();
        client.read(0, 1).unwrap();
        client.command(Command::Flush, 0, 0).unwrap();
    }
    let text = scrape(node);
    strict::parse(&text).unwrap();
    assert!(text.len() < 2 << 20, "{} bytes", text.len());
    let best = (0..5).map(|_| {
        let begin = Instant::now();
        assert!(scrape(node).len() > text.len() / 2);
        begin.elapsed()
    });
    let best = best.min().unwrap();
    println!("{} bytes in {best:?}", text.len());
    // Without optimization, on a machine that does other things, too.
    assert!(best < Duration::from_millis(500), "{best:?}");
}
