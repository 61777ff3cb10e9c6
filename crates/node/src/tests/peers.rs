//! Peers that must not talk: each side refuses the other by name and shows so in its status.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cards_admin::{Client, MemberState, Status};
use cards_config::{Allow, Attach, Config, Coordinator, Disk, EmbeddedHome, Mode, Origin};
use cards_core::{Body, CommandKind, Generation, IoError, Message, NodeId, PgId, RequestId, Stamp};
use cards_wire::peer::{
    self, Credit, HEADER_SIZE, Header, Hello, MAX_BLOCK, OLDEST, VERSION, Versions, decode_header,
    decode_hello, encode_hello, encode_message,
};

use super::client as nbd;
use super::cluster::free_address;
use crate::Daemon;

/// An address where no process listens.
const NOWHERE: &str = "127.0.0.1:1";

/// Two configurations that fit, without disks.
fn pair(dir: &std::path::Path) -> [Config; 2] {
    nodes(dir)
}

/// As many configurations that fit, without disks. The first node keeps the registry, and the nodes have to be started in
/// order. No membership ends during a test.
fn nodes<const NODES: usize>(dir: &std::path::Path) -> [Config; NODES] {
    let addresses = [(); NODES].map(|()| free_address());
    let lease = Duration::from_secs(60);
    let home = EmbeddedHome { lease, ..EmbeddedHome::new("n0", &addresses[0]) };
    std::array::from_fn(|i| {
        let mut config = Config::new("lab", &format!("n{i}"));
        (config.address, config.coordinator) =
            (Some(addresses[i].clone()), Some(Coordinator::Embedded(home.clone())));
        (config.lease, config.disk_wait) = (lease, lease * 2);
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

/// Starts a node, which refuses node n1 for what it says otherwise of itself.
#[track_caller]
fn refuses(change: impl FnOnce(&mut Hello), words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let [config, _] = pair(dir.path());
    let daemon = Daemon::start(config).unwrap();
    let mut hello = joined(&daemon, "n1");
    change(&mut hello);
    introduce(address(&daemon), &hello);
    shown(&daemon, 1, &[&["n1"], words].concat());
}

#[test]
fn another_cluster() {
    refuses(|hello| hello.cluster = "prod".into(), &["cluster", "\"lab\"", "\"prod\"", "check"]);
}

#[test]
fn a_list_of_members_in_the_configuration() {
    refuses(|hello| hello.block = None, &["lists the members", "`cards join`"]);
}

#[test]
fn another_number_of_shards() {
    refuse_each_other(
        |config| config.shards = 8,
        &["8", "16", "`shards = 8`", "`shards = 16`", "one number"],
    );
}

#[test]
fn another_block_size() {
    refuse_each_other(|config| config.block = 4096, &["4096", "65536", "`block`"]);
}

#[test]
fn another_version() {
    for version in [OLDEST - 1, VERSION + 1] {
        refuses_version(version);
    }
}

#[track_caller]
fn refuses_version(version: u8) {
    let dir = tempfile::tempdir().unwrap();
    let [config, _] = pair(dir.path());
    let daemon = Daemon::start(config).unwrap();
    let hello = Hello { versions: Versions::only(version), ..joined(&daemon, "n1") };
    let mut stream = TcpStream::connect(address(&daemon)).unwrap();
    stream.write_all(&encode_hello(&hello).unwrap()).unwrap();
    // It learns who refuses it, then the connection ends.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"CARD"), "{answer:?}");
    let [theirs, ours] = [format!("n1 of cluster lab speaks version {version}"), format!("to {VERSION}")];
    shown(&daemon, 1, &[&theirs, &ours, "follow each other"]);
}

/// Whoever dials: n1.
#[test]
fn releases_that_follow_each_other_talk() {
    for older in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let mut configs = pair(dir.path());
        configs[older].versions = Versions::only(OLDEST);
        let [first, _second] = configs.map(|config| Daemon::start(config).unwrap());
        connected(&first, true);
    }
}

/// A node of the release before knows none of the others.
#[test]
fn who_speaks_the_version_before_is_spoken_to_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let [config, _] = pair(dir.path());
    let daemon = Daemon::start(config).unwrap();
    let mut lanes = impostor(&daemon, Versions::only(OLDEST));
    connected(&daemon, true);
    let mut header = [0; HEADER_SIZE];
    lanes[0].read_exact(&mut header).unwrap();
    decode_header(&header, OLDEST).unwrap();
    lanes[0].write_all(&peer::encode_credit(&Credit::default(), VERSION)).unwrap();
    lanes.into_iter().for_each(hangs_up);
    connected(&daemon, false);
    let reason = status(&daemon).members[1].reason.clone().unwrap_or_default();
    assert!(reason.contains(&format!("speaks version {VERSION}")), "{reason}");
}

/// The next frame that a daemon sends, but for its header.
fn frame(stream: &mut TcpStream) -> std::io::Result<(Header, Vec<u8>)> {
    let (header, mut frame) = whole_frame(stream)?;
    Ok((header, frame.split_off(HEADER_SIZE)))
}

/// The next frame that a daemon sends.
pub(super) fn whole_frame(stream: &mut TcpStream) -> std::io::Result<(Header, Vec<u8>)> {
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header)?;
    let mut frame = header.to_vec();
    let header = decode_header(&header, VERSION).unwrap();
    let with_sums = |length: u32| length as usize + peer::sums_size(VERSION, length as usize);
    let length = match &header {
        Header::Message { payload, .. } | Header::Group { payload, .. } => with_sums(*payload),
        Header::Run { run, payload } => with_sums(*payload * run.count()),
        Header::Body(header) => header.length(),
        Header::Credit(_) => 0,
    };
    frame.resize(HEADER_SIZE + length, 0);
    stream.read_exact(&mut frame[HEADER_SIZE..])?;
    Ok((header, frame))
}

/// What a daemon says of itself.
pub(super) fn read_hello(stream: &mut TcpStream) -> std::io::Result<Hello> {
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header)?;
    let header = decode_hello(&header).unwrap();
    let mut body = vec![0; header.length()];
    stream.read_exact(&mut body)?;
    Ok(header.decode(&body).unwrap())
}

/// Says `hello` to a daemon; the connection, and what it says of itself.
pub(super) fn introduce(address: &str, hello: &Hello) -> (TcpStream, Hello) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&encode_hello(hello).unwrap()).unwrap();
    let theirs = read_hello(&mut stream).unwrap();
    (stream, theirs)
}

fn address(daemon: &Daemon) -> &str {
    daemon.node.config.address.as_deref().unwrap()
}

/// A member that is no daemon: what it says of itself to others. `keeper` has the registry and knows it by now.
fn joined(keeper: &Daemon, node: &str) -> Hello {
    use cards_coordinator::{Coordinator, Epoch, Incarnation, Join, Remote, RemoteConfig, Seat, WallClock};
    let join = Join {
        cluster: "lab".into(),
        seat: Seat { name: node.into(), incarnation: Incarnation(1) },
        address: NOWHERE.into(),
        clock: WallClock::now(),
        seen: Epoch(0),
        succeeds: None,
    };
    let config = RemoteConfig::new(address(keeper), "lab");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        Coordinator::Remote(Remote::open(config).await.unwrap()).join(join).await.unwrap();
    });
    knows(keeper, node);
    let (cluster, node, block) = ("lab".into(), node.into(), Some(64 << 10));
    Hello { cluster, node, block, shards: 16, incarnation: 1, membership: Some(1), ..Hello::default() }
}

/// Waits until the daemon has heard of a member.
#[track_caller]
fn knows(daemon: &Daemon, node: &str) {
    let start = Instant::now();
    while daemon.node.members().find(node).is_none() {
        assert!(start.elapsed() < Duration::from_secs(10), "{node} is unknown");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A link of a new member n1 to a daemon: all lanes.
fn impostor(daemon: &Daemon, versions: Versions) -> Vec<TcpStream> {
    lanes(daemon, &Hello { versions, ..joined(daemon, "n1") })
}

fn lanes(daemon: &Daemon, hello: &Hello) -> Vec<TcpStream> {
    knows(daemon, &hello.node);
    let lane = |lane| {
        let (stream, theirs) = introduce(address(daemon), &Hello { lane, link: 7, ..hello.clone() });
        assert_eq!((theirs.lane, theirs.link), (lane, 7));
        (stream, theirs.lanes)
    };
    let (first, more) = lane(0);
    std::iter::once(first).chain((1..=more).map(|number| lane(number).0)).collect()
}

/// Reads until the daemon hangs up.
fn hangs_up(mut stream: TcpStream) {
    let mut said = Vec::new();
    if let Err(error) = stream.read_to_end(&mut said) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

/// Waits until the daemon shows n1 as connected, or not.
#[track_caller]
fn connected(daemon: &Daemon, is_up: bool) {
    connected_to(daemon, 1, is_up);
}

#[track_caller]
fn connected_to(daemon: &Daemon, peer: usize, is_up: bool) {
    let start = Instant::now();
    while (status(daemon).members[peer].state == MemberState::Up) != is_up {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", status(daemon).members[peer]);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Node n2 may not attach the disk of n0. It asks n1, which has the block in its cache, and is refused by n0.
#[test]
fn a_member_that_may_not_attach_a_volume_reads_nothing_at_a_holder() {
    let dir = tempfile::tempdir().unwrap();
    let [mut primary, mut holder, _] = nodes(dir.path());
    let (path, socket) = (dir.path().join("disk.img"), dir.path().join("n1.sock"));
    std::fs::write(&path, [7; 1 << 20]).unwrap();
    let allow = Some(Allow([("n1".to_owned(), Mode::Rw)].into()));
    primary.disks = vec![Disk { allow, ..Disk::new("disk", Origin::Path(path)) }];
    (holder.attach, holder.nbd.unix) = (vec![Attach::new("disk")], Some(socket.clone()));
    let configs = [primary, holder].map(|config| Config { data_threads: 1, ..config });
    let daemons = configs.map(|config| Daemon::start(config).unwrap());
    let start = Instant::now();
    let mut client = loop {
        match nbd::Client::open(&socket, "disk") {
            Ok(client) => break client,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(10), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(client.read(0, 4096).unwrap(), [7; 4096]);

    let hello = joined(&daemons[0], "n2");
    let [mut refusing, mut holding] = [0, 1].map(|node: usize| {
        let mut lanes = lanes(&daemons[node], &hello);
        connected_to(&daemons[node], 2, true);
        assert_eq!(lanes.len(), 1);
        lanes.remove(0)
    });
    let volume = PgId::plain(NodeId(0), 0);
    let read = |request| {
        let body = Body::Read {
            request: RequestId(request),
            block: 0,
            requester: NodeId(2),
            hops: 0,
            leave_copy: true,
            read_ahead: false,
            from_disk: request == 2,
        };
        encode_message(&Message { volume, shard: 0, through: Stamp(0), free: 0, body }, 0, VERSION)
    };
    let refused = |stream: &mut TcpStream, number| loop {
        if let Header::Message { message: Message { body, .. }, .. } = frame(stream).unwrap().0 {
            let error = IoError::NotAttached;
            break assert_eq!(body, Body::Nack { request: RequestId(number), block: 0, error });
        }
    };
    for request in [1, 2] {
        holding.write_all(&read(request)).unwrap();
        refused(&mut refusing, request);
    }
    refusing.write_all(&read(3)).unwrap();
    refused(&mut refusing, 3);
    holding.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    while let Ok((header, body)) = frame(&mut holding) {
        assert!(!matches!(header, Header::Message { .. }), "{header:?} and {} bytes", body.len());
    }
}

/// A daemon with two data threads, whose links have three lanes, and a link of n1 to it.
fn linked(dir: &std::path::Path) -> (Daemon, Vec<TcpStream>) {
    let [mut config, _] = pair(dir);
    config.data_threads = 2;
    let daemon = Daemon::start(config).unwrap();
    let lanes = impostor(&daemon, Versions::default());
    assert_eq!(lanes.len(), 3);
    connected(&daemon, true);
    (daemon, lanes)
}

#[test]
fn with_one_lane_all_lanes_end() {
    for broken in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let (daemon, mut lanes) = linked(dir.path());
        drop(lanes.remove(broken));
        lanes.into_iter().for_each(hangs_up);
        connected(&daemon, false);
    }
}

#[test]
fn a_lane_for_reads_carries_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (daemon, mut lanes) = linked(dir.path());
    lanes[2].write_all(&peer::encode_credit(&Credit::default(), VERSION)).unwrap();
    lanes.into_iter().for_each(hangs_up);
    connected(&daemon, false);
    let reason = status(&daemon).members[1].reason.clone().unwrap_or_default();
    assert!(reason.contains("lane 2"), "{reason}");
}

#[test]
fn a_link_that_lacks_a_lane_is_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let [mut config, _] = pair(dir.path());
    config.data_threads = 2;
    let daemon = Daemon::start(config).unwrap();
    let hello = joined(&daemon, "n1");
    let lane = |link, lane| introduce(address(&daemon), &Hello { link, lane, ..hello.clone() }).0;
    let first = [lane(1, 0), lane(1, 1)];
    // One of another link, one of this that is here already, one that no link has.
    for stray in [lane(2, 2), lane(1, 1), lane(1, 9)] {
        hangs_up(stray);
    }
    assert_ne!(status(&daemon).members[1].state, MemberState::Up);
    // A newer link takes the place of what was begun.
    let second = [lane(3, 0), lane(3, 1), lane(3, 2)];
    connected(&daemon, true);
    first.into_iter().for_each(hangs_up);
    drop(second);
    connected(&daemon, false);
}

#[test]
fn who_sends_more_than_it_was_granted_is_not_listened_to_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let [config, _] = pair(dir.path());
    let daemon = Daemon::start(config).unwrap();
    let mut lanes = impostor(&daemon, Versions::default());
    let stream = &mut lanes[0];
    let granted = loop {
        if let (Header::Credit(Credit { granted, .. }), _) = frame(stream).unwrap() {
            break granted;
        }
    };
    assert_eq!(granted, 256 << 10);
    let write = |length| {
        let body = Body::Command {
            generation: Generation(1),
            request: RequestId(1),
            slot: 0,
            kind: CommandKind::Write,
            offset: 0,
            length,
            fua: false,
            again: false,
            turn: 0,
            origin: None,
        };
        let message = Message {
            volume: PgId::plain(cards_core::NodeId(0), 0),
            shard: 0,
            through: Stamp(0),
            free: 0,
            body,
        };
        let mut bytes = encode_message(&message, length, VERSION).to_vec();
        bytes.resize(HEADER_SIZE + length as usize, 0);
        peer::seal(&mut bytes, VERSION);
        bytes
    };
    // The bytes of a write that nobody knows are read past, and may be sent again.
    for _ in 0..2 {
        stream.write_all(&write(128 << 10)).unwrap();
    }
    while !matches!(frame(stream).unwrap().0, Header::Credit(Credit { granted, .. }) if granted >= 384 << 10)
    {
    }
    assert_eq!(daemon.node.writes.promised(), 256 << 10);
    let _ = stream.write_all(&write(MAX_BLOCK));
    while frame(stream).is_ok() {}
    let start = Instant::now();
    while daemon.node.writes.promised() > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "{}", daemon.node.writes.promised());
        std::thread::sleep(Duration::from_millis(10));
    }
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
    let [first, second] = configs;
    let first = Daemon::start(first).unwrap();
    let start = Instant::now();
    // The registry hears of the first one's disk a moment after it serves.
    loop {
        match Daemon::start(second.clone()) {
            Err(refused) => {
                assert!(refused.to_string().contains("node n0 at"), "{refused}");
                break;
            }
            Ok(daemon) => daemon.drain(),
        }
        assert!(start.elapsed() < Duration::from_secs(10), "both serve");
    }
    assert!(status(&first).volumes.iter().any(|volume| volume.name == "disk" && volume.is_attached()));
}

#[test]
fn a_node_without_a_coordinator_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [config, _] = pair(dir.path());
    let config = Config { address: None, coordinator: None, ..config };
    assert!(status(&Daemon::start(config).unwrap()).healthy);
}

#[test]
fn a_missing_member_has_a_reason_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let [first, last] = pair(dir.path());
    let first = Daemon::start(first).unwrap();
    joined(&first, "missing");
    let last = Daemon::start(last).unwrap();
    // The last one dials, the first one waits to be dialled.
    for daemon in [first, last] {
        let start = Instant::now();
        loop {
            let problems = status(&daemon).problems;
            let is_said = |problem: &String| {
                problem.starts_with(&format!("node missing ({NOWHERE})"))
                    && problem.contains("start `cards serve` there")
            };
            if problems.iter().any(is_said) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{problems:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
