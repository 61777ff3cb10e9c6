//! Limits: who has had as much as he may waits for his turn, in his order, and nobody waits with him.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use cards_admin::{Op, RefusalKind, SlowRequest, WaitKind};
use cards_config::{Attach, Disk, Limit, Origin, ReadAhead};
use cards_wire::nbd::{Command, Request};

use super::client::Client;
use super::cluster::{BLOCK, Cluster};

fn iops(iops: u64) -> Limit {
    Limit { iops: Some(iops), bytes: None, burst: Duration::from_millis(10) }
}

/// A request of 1 MiB is 16 s of this, and a first one passes.
const A_TRICKLE: Limit = Limit { iops: None, bytes: Some(64 << 10), burst: Duration::from_millis(10) };

/// One node with a disk under a limit and another without.
fn limited(limit: Limit) -> Cluster {
    Cluster::with(1, 4 << 20, move |config| {
        let Origin::Path(path) = &config.disks[0].origin else { panic!("a file") };
        let other = path.with_file_name("other.img");
        std::fs::write(&other, vec![7; 1 << 20]).unwrap();
        config.disks.push(Disk::new("other", Origin::Path(other)));
        config.attach.push(Attach { read_ahead: ReadAhead::Off, ..Attach::new("other") });
        config.attach[0].limit = Some(limit);
    })
}

/// Sends reads without waiting for answers.
fn ask(client: &mut Client, count: usize, length: u32) {
    for _ in 0..count {
        client.send(Command::Read, 0, 0, length, &[]);
    }
}

/// Waits for so many answers; they come in the order of the requests.
#[track_caller]
fn answers(client: &mut Client, first: u64, count: u64, length: usize) {
    let mut data = vec![0; length];
    for cookie in first..first + count {
        assert_eq!(client.wait(0, &mut data), (cookie, Ok(())));
    }
}

/// How many requests of a volume have waited under a limit, and how many were answered.
fn counted(cluster: &Cluster, volume: &str) -> (u64, u64) {
    let volume = cluster.status(1).volumes.into_iter().find(|known| known.name == volume).unwrap();
    (volume.io.throttled, volume.io.op(Op::Read).latency.count())
}

/// A client waits, also under a limit.
fn is_busy(cluster: &Cluster) -> bool {
    let mut admin = cluster.admin(1);
    admin.ask_activity().unwrap();
    admin.activity().unwrap().busy
}

fn clients(cluster: &Cluster) -> u32 {
    cluster.node(1).cards.find("disk").unwrap().clients()
}

#[test]
fn clients_of_a_card_share_its_rate_over_threads_and_others_do_not_wait() {
    const RATE: u64 = 400;
    let cluster = limited(iops(RATE));
    let began = Instant::now();
    let run = |mut client: Client| {
        ask(&mut client, 100, 512);
        let mut data = vec![0; 512];
        for answered in 1..=100 {
            assert_eq!(client.wait(0, &mut data), (answered, Ok(())));
        }
    };
    std::thread::scope(|scope| {
        // Connections go to both threads in turn.
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| run(cluster.client(1)))).collect();
        let mut other = Client::open(&cluster.socket(1), "other").unwrap();
        for client in clients {
            while !client.is_finished() {
                other.read(0, 512).unwrap();
            }
            client.join().unwrap();
        }
    });
    // 400 requests at 400 in a second, but for the burst of 4, each in a time that cannot have been shorter.
    let least = Duration::from_secs_f64((400.0 - 4.0 - 1.0) / RATE as f64);
    assert!(began.elapsed() >= least, "400 requests in {:?}", began.elapsed());
    cluster.wait("all are counted", || counted(&cluster, "disk").1 == 400);
    let (throttled, _) = counted(&cluster, "disk");
    assert!(throttled > 0, "nobody has waited");
    let (throttled, answered) = counted(&cluster, "other");
    assert!(throttled == 0 && answered > 0, "{throttled} of {answered}");
}

#[test]
fn the_node_has_a_limit_for_all_its_cards() {
    let cluster = limited(iops(Limit::IOPS.end() - 1));
    cluster.admin(1).limit(None, Some(A_TRICKLE)).unwrap();
    assert_eq!(cluster.status(1).limit, Some(A_TRICKLE));
    let mut first = cluster.client(1);
    first.read(0, 1 << 20).unwrap();
    let mut other = Client::open(&cluster.socket(1), "other").unwrap();
    ask(&mut other, 1, 512);
    cluster.wait("it waits for what another card has had", || is_busy(&cluster));
    cluster.admin(1).limit(None, None).unwrap();
    answers(&mut other, 1, 1, 512);
    cluster.wait("it is counted", || counted(&cluster, "other") == (1, 1));
    assert_eq!(cluster.status(1).limit, None);
}

#[test]
fn a_limit_changes_under_requests_that_wait() {
    let cluster = limited(A_TRICKLE);
    let mut client = cluster.client(1);
    ask(&mut client, 100, 1 << 20);
    answers(&mut client, 1, 1, 1 << 20);
    let shown = |cluster: &Cluster| cluster.status(1).volumes[0].attached.clone().unwrap().limit;
    assert_eq!(shown(&cluster), Some(A_TRICKLE));
    cluster.admin(1).limit(Some("disk"), Some(iops(1_000))).unwrap();
    answers(&mut client, 2, 49, 1 << 20);
    cluster.admin(1).limit(Some("disk"), None).unwrap();
    answers(&mut client, 51, 50, 1 << 20);
    assert_eq!(shown(&cluster), None);
}

#[test]
fn a_limit_that_cannot_work_is_refused_by_name() {
    let cluster = limited(iops(1_000));
    let refused = |volume, limit| match cluster.admin(1).limit(volume, limit).unwrap_err() {
        cards_admin::ClientError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    };
    let refusal = refused(Some("disk"), Some(iops(0)));
    assert_eq!(refusal.kind, RefusalKind::BadRequest);
    assert!(refusal.message.contains("limit.iops = \"0\""), "{}", refusal.message);
    let refusal = refused(None, Some(Limit::default()));
    assert!(refusal.message.contains("limits nothing"), "{}", refusal.message);
    let refusal = refused(Some("dis"), Some(iops(1)));
    assert_eq!(refusal.kind, RefusalKind::NotAttached);
    assert!(refusal.message.contains("\"dis\""), "{}", refusal.message);
}

#[test]
fn a_drain_answers_requests_that_wait() {
    let mut cluster = limited(A_TRICKLE);
    let mut client = cluster.client(1);
    ask(&mut client, 20, 1 << 20);
    answers(&mut client, 1, 1, 1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| answers(&mut client, 2, 19, 1 << 20));
        cluster.drain(1);
    });
}

#[test]
fn a_client_that_disconnects_leaves_nothing() {
    let cluster = limited(A_TRICKLE);
    for count in [1, 20, 400] {
        cluster.admin(1).limit(Some("disk"), Some(A_TRICKLE)).unwrap();
        let mut client = cluster.client(1);
        ask(&mut client, 1 + count, 1 << 20);
        answers(&mut client, 1, 1, 1 << 20);
        cluster.wait("a request waits", || is_busy(&cluster));
        drop(client);
        cluster.wait("its place is free", || clients(&cluster) == 0);
        let node = cluster.node(1);
        let card = node.cards.find("disk").unwrap();
        let turn = card.limiter().take_turn(node.now(), 1 << 20).unwrap();
        let wait = turn.due.since(node.now());
        assert!(wait <= Duration::from_secs(16), "{wait:?}: behind a request that nobody waits for");
        assert!(!is_busy(&cluster));
    }
}

#[test]
fn who_says_goodbye_behind_requests_that_wait_gets_their_answers() {
    let cluster = limited(iops(50));
    let mut client = cluster.client(1);
    ask(&mut client, 10, 512);
    let goodbye = Request { flags: 0, command: Command::Disc, cookie: 0, offset: 0, length: 0 };
    client.stream.write_all(&goodbye.encode()).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    answers(&mut client, 1, 10, 512);
    cluster.wait("it has gone", || clients(&cluster) == 0);
}

#[test]
fn a_write_waits_with_its_bytes_where_they_are() {
    let cluster = limited(iops(20));
    let mut client = cluster.client(1);
    let data: Vec<u8> = (0..2 * BLOCK).map(|i| i as u8).collect();
    for i in 0..6 {
        client.send(Command::Write, 0, i * data.len() as u64, data.len() as u32, &data);
    }
    for cookie in 1..=6 {
        assert_eq!(client.wait(0, &mut []), (cookie, Ok(())));
    }
    assert_eq!(client.read(0, data.len()).unwrap(), data);
    assert!(cluster.disk_bytes()[..6 * data.len()].chunks(data.len()).all(|chunk| chunk == data));
}

#[test]
fn a_slow_request_says_that_it_waited_for_a_limit() {
    let mut cluster = limited(A_TRICKLE);
    let slow = Duration::from_millis(5);
    cluster.kill(1);
    cluster.change(1, |config| config.slow = slow);
    cluster.restart(1);
    cluster.wait_ready(1);
    let mut client = cluster.client(1);
    ask(&mut client, 2, 1 << 20);
    answers(&mut client, 1, 1, 1 << 20);
    cluster.wait("a request waits", || is_busy(&cluster));
    std::thread::sleep(slow * 3);
    cluster.admin(1).limit(Some("disk"), None).unwrap();
    answers(&mut client, 2, 1, 1 << 20);
    let is_of_limit = |request: &SlowRequest| request.waited_for == WaitKind::Limit;
    cluster.wait("it is noted", || cluster.status(1).slow.last.iter().any(is_of_limit));
    let text = crate::metrics::scrape(cluster.node(1));
    assert!(text.contains("cards_throttled_requests_total{volume=\"disk\"} 1\n"), "{text}");
    let sample = "cards_throttled_seconds_total{volume=\"disk\"} ";
    let seconds = text.lines().find_map(|line| line.strip_prefix(sample)?.parse::<f64>().ok());
    assert!(seconds.unwrap() >= slow.as_secs_f64(), "{text}");
}
