//! Daemons in this process, their members told by hand, and the client library against their API.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cards_client::body::State;
use cards_client::{Client, Error, ErrorKind, Mode, Range, Wait};
use cards_config::{Api, Config, Coordinator, Disk, EmbeddedHome, Origin};
use cards_core::rendezvous::Members;
use cards_core::{NodeId, PlacementKind};
use tempfile::TempDir;

use crate::Daemon;
use crate::locks::{LockView, limits};

const LEASE: Duration = Duration::from_millis(300);
const TTL: Duration = Duration::from_secs(10);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Bytes of the disk: three regions.
const SIZE: u64 = 3 * limits::REGION_BYTES;

struct Cluster {
    dir: TempDir,
    daemons: Vec<Daemon>,
    tcp: String,
}

impl Cluster {
    /// `nodes` daemons. The first one has the disk and a TCP port. One alone has no view yet.
    fn start(nodes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::File::create(dir.path().join("disk.img")).unwrap().set_len(SIZE).unwrap();
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        let secret = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(dir.path().join("token"), secret).unwrap();
        // Ports are given back before the daemons take them; nobody else is likely to take them in between.
        let ports: Vec<TcpListener> =
            (0..=nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let mut addresses: Vec<String> = ports.iter().map(|p| p.local_addr().unwrap().to_string()).collect();
        drop(ports);
        let tcp = addresses.pop().unwrap();
        let home = EmbeddedHome { lease: LEASE, ..EmbeddedHome::new("n0", &addresses[0]) };
        let start = |i: usize| {
            let mut config = Config::new("test", &format!("n{i}"));
            if nodes > 1 {
                config.address = Some(addresses[i].clone());
                config.coordinator = Some(Coordinator::Embedded(home.clone()));
            }
            config.cache = 16 << 20;
            config.runtime_dir = dir.path().join(format!("n{i}"));
            config.state_dir = config.runtime_dir.join("state");
            config.data_threads = 1;
            config.prefault = false;
            config.lease = LEASE;
            config.peer_timeout = LEASE / 3;
            config.disk_wait = Duration::from_secs(2);
            if i == 0 {
                config.disks = vec![Disk::new("disk", Origin::Path(dir.path().join("disk.img")))];
                config.api =
                    Some(Api { listen: tcp.clone(), tls: None, token_file: dir.path().join("token") });
            }
            Daemon::start(config).unwrap()
        };
        let daemons = (0..nodes).map(start).collect();
        let cluster = Self { dir, daemons, tcp };
        // All know of the disk.
        let begin = Instant::now();
        while !cluster.daemons.iter().all(|daemon| daemon.node.volume("disk").is_some()) {
            assert!(begin.elapsed() < Duration::from_secs(10), "the nodes do not meet");
            std::thread::sleep(Duration::from_millis(10));
        }
        cluster
    }

    /// All are members, from now on.
    fn tell_view(&self) {
        let nodes: Vec<NodeId> = (0..self.daemons.len() as u16).map(NodeId).collect();
        let members = Members::new(1, nodes.clone(), PlacementKind::Rendezvous);
        for daemon in &self.daemons {
            let lives = nodes.iter().map(|node| (*node, 1)).collect();
            daemon.node.locks.member_until(daemon.node.now() + Duration::from_secs(3600));
            daemon.node.locks.view(LockView { members: members.clone(), joined: 1, lives });
        }
    }

    fn socket(&self, node: usize) -> std::path::PathBuf {
        self.dir.path().join(format!("n{node}/api.sock"))
    }

    fn client(&self, node: usize) -> Client {
        Client::unix(self.socket(node))
    }

    /// What the API answers to bytes behind which nothing follows.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket(0)).unwrap();
        // It may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(stream)
    }

    /// What it answers to a request without a body. The client listens until the answer is whole: a daemon that sees
    /// the end of what a client sends may take it for gone, and not answer.
    fn get(&self, path: &str) -> String {
        let mut stream = UnixStream::connect(self.socket(0)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        rest(stream)
    }

    /// What it answers to a request with this body.
    fn post(&self, path: &str, body: &str) -> serde_json::Value {
        let mut stream = UnixStream::connect(self.socket(0)).unwrap();
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\nconnection: close");
        write!(stream, "{head}\r\n\r\n{body}").unwrap();
        let answer = rest(stream);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

fn rest(mut stream: UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    let error = result.unwrap_err();
    error.kind().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn without_a_coordinator_the_api_says_what_to_add() {
    let cluster = Cluster::start(1);
    run(async {
        let error = cluster.client(0).session("early", TTL).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::NoCoordinator));
        assert!(error.to_string().contains("[coordinator]"), "{error}");
    });
}

#[test]
fn a_group_that_one_node_has_is_refused_to_another_and_given_to_it_afterwards() {
    let cluster = Cluster::start(2);
    cluster.tell_view();
    run(async {
        let (one, two) = (cluster.client(0), cluster.client(1));
        let first = one.session("first", TTL).await.unwrap();
        let second = two.session("second", TTL).await.unwrap();
        // All of the disk: parts in three regions, with homes at both nodes.
        let all = [Range::write("disk", 0, SIZE)];
        let group = first.lock(&all, Wait::Forever).await.unwrap();
        assert!(group.still_held() && group.parts().len() == 3, "{group:?}");

        let some = [Range::read("disk", limits::REGION_BYTES - 1, 2)];
        assert_eq!(kind(second.lock(&some, Wait::None).await), ErrorKind::WouldBlock);
        assert_eq!(kind(second.lock(&some, Wait::Seconds(0.2)).await), ErrorKind::TimedOut);

        let shown = one.show(group.id()).await.unwrap().group.unwrap();
        assert_eq!((shown.state, shown.parts.len()), (State::Held, 3));
        let known: Vec<_> = {
            let listing =
                (one.list_volume("disk", Some((0, SIZE))).await.unwrap(), two.list().await.unwrap());
            assert_eq!((&listing.0.elsewhere, listing.0.sessions.len()), (&vec!["n1".to_owned()], 1));
            listing.0.holdings.into_iter().chain(listing.1.holdings).collect()
        };
        assert_eq!(known.len(), 3, "{known:?}");
        assert!(
            known.iter().all(|h| h.group == group.id() && h.node == "n0" && h.token.is_some()),
            "{known:?}"
        );

        // The one waits while the other holds, for longer than a lease, and has it as soon as it is free.
        let token = group.parts()[1].token.clone();
        let waits = second.lock(&some, Wait::Forever);
        let holds = async {
            tokio::time::sleep(LEASE * 4).await;
            assert!(group.still_held());
            group.release().await.unwrap();
        };
        let (next, ()) = tokio::join!(waits, holds);
        let next = next.unwrap();
        assert!(next.parts()[1].token > token, "{next:?} after {token}");
        drop(next);
        first.close().await.unwrap();
        second.close().await.unwrap();
        assert!(one.list().await.unwrap().sessions.is_empty());
    });
}

#[test]
fn a_group_that_only_reads_from_now_on_lets_readers_of_other_nodes_in() {
    let cluster = Cluster::start(2);
    cluster.tell_view();
    run(async {
        let (one, two) = (cluster.client(0), cluster.client(1));
        let first = one.session("first", TTL).await.unwrap();
        let second = two.session("second", TTL).await.unwrap();
        // All of the disk: parts in three regions, with homes at both nodes.
        let mut group = first.lock(&[Range::write("disk", 0, SIZE)], Wait::Forever).await.unwrap();
        let written = group.parts().to_vec();
        let all = [Range::read("disk", 0, SIZE)];
        assert_eq!(kind(second.lock(&all, Wait::None).await), ErrorKind::WouldBlock);

        group.downgrade().await.unwrap();
        assert!(group.still_held());
        for (part, written) in group.parts().iter().zip(&written) {
            assert_eq!((part.ranges[0].mode, &part.token), (Mode::Read, &written.token));
        }
        let reader = second.lock(&all, Wait::None).await.unwrap();
        assert!(reader.parts().iter().zip(&written).all(|(later, part)| later.token > part.token));
        let some = [Range::write("disk", SIZE - 1, 1)];
        assert_eq!(kind(second.lock(&some, Wait::None).await), ErrorKind::WouldBlock);

        group.downgrade().await.expect("there is nothing left to change");
        let name = group.id().to_owned();
        assert_eq!(kind(two.downgrade(second.id(), &name).await), ErrorKind::NoGroup, "it is another's");
        group.release().await.unwrap();
        assert_eq!(kind(one.downgrade(first.id(), &name).await), ErrorKind::NoGroup, "it is gone");
    });
}

#[test]
fn a_client_that_dies_loses_its_locks_after_its_ttl() {
    let cluster = Cluster::start(2);
    cluster.tell_view();
    // Without the library: nobody keeps the session alive.
    let session = cluster.post("/v1/locks/sessions", r#"{"name": "short", "ttl_ms": 3000}"#);
    let path = format!("/v1/locks/sessions/{}", session["session"].as_str().unwrap());
    let ask = r#"{"ranges": [{"volume": "disk", "offset": 0, "length": 10}], "wait": 5}"#;
    let group = cluster.post(&format!("{path}/groups"), ask);
    let begin = Instant::now();
    assert_eq!(group["state"], "held", "{group}");
    assert_eq!(group["parts"][0]["token"]["text"].as_str().unwrap().len(), 33, "{group}");
    run(async {
        let other = cluster.client(1).session("other", TTL).await.unwrap();
        let next = other.lock(&[Range::write("disk", 9, 1)], Wait::Seconds(8.0)).await.unwrap();
        assert!(next.still_held() && begin.elapsed() > Duration::from_millis(1_200), "{:?}", begin.elapsed());
    });
    let gone = cluster.post(&format!("{path}/keep-alive"), "");
    assert_eq!(gone["error"]["kind"], "no_session", "{gone}");
}

#[test]
fn who_stops_waiting_leaves_nothing_behind() {
    let cluster = Cluster::start(1);
    cluster.tell_view();
    run(async {
        let session = cluster.client(0).session("all", TTL).await.unwrap();
        let range = [Range::write("disk", 0, 4096)];
        let group = session.lock(&range, Wait::Forever).await.unwrap();
        let impatient = tokio::time::timeout(Duration::from_millis(200), session.lock(&range, Wait::Forever));
        assert!(impatient.await.is_err());
        group.release().await.unwrap();
        let next = session.lock(&range, Wait::Seconds(5.0)).await.unwrap();
        next.release().await.unwrap();
        assert!(cluster.client(0).list().await.unwrap().holdings.is_empty());
    });
}

#[test]
fn when_the_daemon_is_gone_nothing_is_believed_for_longer_than_a_lease() {
    let mut cluster = Cluster::start(1);
    cluster.tell_view();
    run(async {
        let session = cluster.client(0).session("left", Duration::from_secs(1)).await.unwrap();
        let group = session.lock(&[Range::read("disk", 0, 1)], Wait::Forever).await.unwrap();
        // Kept alive for some time.
        tokio::time::sleep(LEASE * limits::LEASES * 2).await;
        assert!(group.still_held() && session.is_open());
        cluster.daemons.clear();
        group.lost().await;
        assert!(!group.still_held());
        session.lost().await;
        assert!(!session.is_open());
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_harms_nobody() {
    let cluster = Cluster::start(1);
    cluster.tell_view();
    for garbage in [&b"\x00\xff\x16\x03\x01 rubbish\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"CARD\x03", b""]
    {
        let answer = cluster.raw(garbage);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let huge = [b"GET /".to_vec(), vec![b'a'; 1 << 20], b" HTTP/1.1\r\n\r\n".to_vec()].concat();
    let answer = cluster.raw(&huge);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let long = format!("POST /v1/locks/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 2 << 20);
    let answer = cluster.raw(&[long.into_bytes(), vec![b' '; 2 << 20]].concat());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 429"), "{answer}");

    let session = cluster.post("/v1/locks/sessions", "{}");
    assert_eq!((&session["ttl_ms"], &session["groups"][0]), (&10_000.into(), &serde_json::Value::Null));
    let groups = format!("/v1/locks/sessions/{}/groups", session["session"].as_str().unwrap());
    for (path, body, kind) in [
        ("/v1/locks/sessions", "", "bad_request"),
        ("/v1/locks/sessions", "[[[[", "bad_request"),
        ("/v1/locks/sessions", r#"{"ttl_ms": 999}"#, "bad_request"),
        ("/v1/locks/sessions", r#"{"ttl_ms": 3600001}"#, "bad_request"),
        ("/v1/locks/sessions", r#"{"ttl_ms": -1}"#, "bad_request"),
        ("/v1/locks/sessions", r#"{"tll_ms": 1000}"#, "bad_request"),
        ("/v1/locks/sessions", r#"{"name": "a\nb"}"#, "bad_request"),
        ("/v1/locks/elsewhere", "{}", "no_route"),
        ("/v1/locks/sessions/0.1/keep-alive", "", "no_session"),
        ("/v1/locks/sessions/%00/keep-alive", "", "no_session"),
        (&groups, "{}", "bad_request"),
        (&groups, r#"{"ranges": []}"#, "bad_request"),
        (&groups, r#"{"ranges": [{"volume": "disc", "offset": 0, "length": 1}]}"#, "no_volume"),
        (&groups, r#"{"ranges": [{"volume": "disk", "offset": 0, "length": 0}]}"#, "bad_request"),
        (&groups, r#"{"ranges": [{"volume": "disk", "offset": 201326592, "length": 1}]}"#, "bad_request"),
        (
            &groups,
            r#"{"ranges": [{"volume": "disk", "offset": 18446744073709551615, "length": 9}]}"#,
            "bad_request",
        ),
        (
            &groups,
            r#"{"ranges": [{"volume": "disk", "offset": 0, "length": 9, "mode": "own"}]}"#,
            "bad_request",
        ),
        (
            &groups,
            r#"{"ranges": [{"volume": "disk", "offset": 0, "length": 9}], "wait": "long"}"#,
            "bad_request",
        ),
        (
            &groups,
            r#"{"ranges": [{"volume": "disk", "offset": 0, "length": 9}, {"volume": "disk", "offset": 8, "length": 9}]}"#,
            "bad_request",
        ),
    ] {
        let answer = cluster.post(path, body);
        assert_eq!(answer["error"]["kind"], kind, "{path} {body}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().len() > 20, "{answer}");
    }
    let many: Vec<_> =
        (0..300).map(|i| format!(r#"{{"volume": "disk", "offset": {i}, "length": 1}}"#)).collect();
    let answer = cluster.post(&groups, &format!(r#"{{"ranges": [{}]}}"#, many.join(",")));
    assert_eq!(answer["error"]["kind"], "too_much", "{answer}");
    for query in [
        "volume=disk&offset=x&length=1",
        "volume=disk&offset=1",
        "session=1.2.3",
        "what=ever",
        "volume=disc",
        "volume=disk&volume=disk",
    ] {
        let answer = cluster.get(&format!("/v1/locks?{query}"));
        assert!(answer.starts_with("HTTP/1.1 40"), "{query}: {answer}");
    }
    run(async {
        let session = cluster.client(0).session("sound", TTL).await.unwrap();
        session.lock(&[Range::write("disk", 0, 1)], Wait::Forever).await.unwrap().release().await.unwrap();
    });
}

#[test]
fn over_tcp_only_the_token_opens_the_door() {
    let cluster = Cluster::start(1);
    cluster.tell_view();
    run(async {
        for wrong in ["", "0123456789abcdef", "ffffffffffffffffffffffffffffffff"] {
            let refused = Client::tcp(&cluster.tcp, wrong).session("stranger", TTL).await;
            assert_eq!(kind(refused), ErrorKind::Unauthorized, "{wrong:?}");
        }
        let session = Client::tcp(&cluster.tcp, TOKEN).session("friend", TTL).await.unwrap();
        session.lock(&[Range::write("disk", 0, 1)], Wait::Forever).await.unwrap();
    });
    let mut stranger = TcpStream::connect(&cluster.tcp).unwrap();
    stranger.write_all(b"GET /v1/locks HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).expect("the connection is closed");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[test]
fn nobody_but_the_user_of_the_daemon_may_open_the_socket() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut cluster = Cluster::start(1);
    let mode = std::fs::metadata(cluster.socket(0)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    cluster.daemons.clear();
    assert!(!cluster.socket(0).exists(), "it is removed at the end");
}
