//! The one port of a node: peers, members that ask the registry, machines that join, and strangers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use cards_config::{Config, Coordinator, EmbeddedHome};
use cards_coordinator::{
    Change, Epoch, Grant, Incarnation, Join, Remote, RemoteConfig, Seat, Tokens, WallClock, admit,
};
use cards_tls::{
    Authority, Files, Fingerprint, HandshakeError, Identity, Name, NodeKey, Purpose, Shown, Wire,
};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::cluster::{BLOCK, Cluster, free_address};
use super::http::{address, ask, web};

/// As long as nobody waits by himself here: a machine that says nothing is given up after 5 s.
const SOON: Duration = Duration::from_secs(3);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What is heard there by who says this, until the node hangs up.
fn heard(address: &str, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(said).unwrap();
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("no end: {error}"),
        _ => heard,
    }
}

/// Two nodes that prove who they are; the authority is at the keeper.
struct Proven {
    cluster: Cluster,
    authority: Authority,
    dir: TempDir,
}

impl Proven {
    fn start() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl Fn(&mut Config)) -> Self {
        let authority = Authority::create("test").unwrap();
        let cluster = Cluster::with(2, 16 * BLOCK, |config| {
            change(config);
            authority.equip(&config.node, &[], &config.identity_files()).unwrap();
            if config.is_keeper() {
                let save = |at: &Path| authority.save(&at.join("authority.pem"), &at.join("authority.key"));
                cards_tls::place(&config.authority(), save).unwrap();
            }
        });
        Self { cluster, authority, dir: tempfile::tempdir().unwrap() }
    }

    /// Where a node is reached, by everybody.
    fn address(&self, node: usize) -> &str {
        self.cluster.config(node).address.as_deref().unwrap()
    }

    /// What the authority gives to a node of this name.
    fn identity(&self, authority: &Authority, node: &str) -> Identity {
        let files = Files::within(&self.dir.path().join(format!("{node}-{}", authority.fingerprint())));
        authority.equip(node, &[], &files).unwrap();
        Identity::load(&Name::new("test", node), &files).unwrap()
    }

    async fn joining(&self, authority: &Fingerprint) -> Result<Wire, HandshakeError> {
        let stream = tokio::net::TcpStream::connect(self.address(1)).await.unwrap();
        cards_tls::connect_to_join(stream, authority, &Name::new("test", "n1")).await
    }
}

#[test]
fn a_machine_gets_a_certificate_at_the_port_of_peers_and_joins_there() {
    let mut proven = Proven::start();
    let tokens = Tokens::within(&proven.cluster.config(1).authority());
    let grant = Grant { uses: 1, life: Duration::from_secs(60), rejoin: None };
    let (token, _) = tokens.make(proven.authority.fingerprint(), grant).unwrap();
    let key = NodeKey::kept(&proven.dir.path().join("key")).unwrap();
    let keeper = Name::new("test", "n1");
    let admitted = block_on(admit(proven.address(1), &keeper, &token, "n3", &[], &key.public())).unwrap();
    let third = proven.cluster.join_as(|config| {
        config.identity_files().write(&key, &admitted.certificate, &admitted.authority).unwrap();
    });
    proven.cluster.wait_ready(third);
    assert!(proven.cluster.client(third).read(0, 16 * BLOCK).unwrap() == proven.cluster.content);
    // The keeper comes back, and is asked again by those who were members.
    proven.cluster.kill(1);
    proven.cluster.restart(1);
    for node in 1..=third {
        proven.cluster.wait_ready(node);
        proven.cluster.wait("it knows all", || proven.cluster.status(node).problems.is_empty());
    }
}

#[test]
fn a_certificate_gets_the_host_of_the_address_and_the_web_answers_to_all_its_names() {
    let proven = Proven::with(|config| {
        // One that certificates do not have anyhow.
        let elsewhere = |address: &str| address.replace("127.0.0.1", "127.0.0.2");
        config.address = config.address.as_deref().map(elsewhere);
        let Some(Coordinator::Embedded(home)) = &mut config.coordinator else { panic!() };
        home.address = elsewhere(&home.address);
        web(config);
    });
    for node in [1, 2] {
        let files = proven.cluster.config(node).identity_files();
        let shown = || Shown::in_pem(&std::fs::read_to_string(&files.certificate).unwrap()).unwrap();
        proven.cluster.wait("it is signed for anew", || shown().is_for_host("127.0.0.2"));
        assert!(shown().is_for_host("localhost") && shown().is(&Name::new("test", &format!("n{node}"))));
        let web = address(&proven.cluster, node);
        let own = format!("n{node}.test.cards:{}", web.port());
        assert!(ask(web, "GET", "/metrics", &own).0.starts_with("HTTP/1.1 200"), "{own}");
        assert!(ask(web, "GET", "/metrics", "n3.test.cards").0.starts_with("HTTP/1.1 421"));
    }
}

#[test]
fn strangers_learn_nothing_whatever_they_say_that_they_want() {
    let proven = Proven::start();
    let other = Authority::create("test").unwrap();
    // Whoever does not know the door sees the connection end, and not a byte.
    let identity = proven.identity(&other, "n2");
    for purpose in [Purpose::Registry, Purpose::Peer] {
        let called = block_on(async {
            let stream = tokio::net::TcpStream::connect(proven.address(1)).await.unwrap();
            cards_tls::connect(stream, &identity, purpose, &Name::new("test", "n1")).await
        });
        assert!(matches!(called, Err(HandshakeError::Io(_))), "{purpose:?}");
    }
    let called = block_on(proven.joining(&other.fingerprint()));
    assert!(matches!(called, Err(HandshakeError::Io(_))));
    for node in [1, 2] {
        for said in [&b"GET /v1/coordinator/view HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"CARD\0\0\0\0"] {
            assert_eq!(heard(proven.address(node), said), b"", "n{node}");
        }
    }
    // A member is led on by who does not lead the registry, and a machine gets nothing where the authority is not.
    let mut config = RemoteConfig::new(proven.address(2), "test");
    config.identity = Some((proven.identity(&proven.authority, "n1"), Name::new("test", "n2")));
    let kept = block_on(Remote::open(config)).unwrap().kept();
    assert_eq!(kept.leader.unwrap().address, proven.address(1));
    let called = block_on(async {
        let stream = tokio::net::TcpStream::connect(proven.address(2)).await.unwrap();
        cards_tls::connect_to_join(stream, &proven.authority.fingerprint(), &Name::new("test", "n2")).await
    });
    assert!(matches!(called, Err(HandshakeError::Io(_))));
}

#[test]
fn machines_that_join_and_say_nothing_make_way() {
    let proven = Proven::start();
    block_on(async {
        let mut machines = Vec::new();
        for _ in 0..130 {
            machines.push(proven.joining(&proven.authority.fingerprint()).await.unwrap());
        }
        let gone = timeout(SOON, machines[0].read(&mut [0; 1])).await.expect("the oldest has had to go");
        assert!(matches!(gone, Ok(0) | Err(_)));
        let mut config = RemoteConfig::new(proven.address(1), "test");
        let identity = proven.identity(&proven.authority, "n2");
        config.identity = Some((identity, Name::new("test", "n1")));
        config.patience = SOON;
        Remote::open(config).await.unwrap();
        let last = timeout(Duration::from_millis(50), machines[129].read(&mut [0; 1])).await;
        assert!(last.is_err(), "the latest stays");
    });
}

/// It may ask the registry, to be told so. Who has its key has no more of the keeper than any stranger: the places of the
/// registry are for members.
#[test]
fn who_was_forgotten_and_says_nothing_makes_way() {
    let proven = Proven::start();
    let (forgotten, keeper) = (proven.identity(&proven.authority, "n3"), Name::new("test", "n1"));
    block_on(async {
        let mut config = RemoteConfig::new(proven.address(1), "test");
        config.identity = Some((forgotten.clone(), keeper.clone()));
        let seat = Seat { name: "n3".into(), incarnation: Incarnation(1) };
        let join = Join {
            cluster: "test".into(),
            seat: seat.clone(),
            address: "127.0.0.1:1".into(),
            clock: WallClock::now(),
            seen: Epoch(0),
            succeeds: None,
        };
        let remote = Remote::open(config).await.unwrap();
        remote.submit(Change::Join(join)).await.unwrap();
        remote.submit(Change::Leave { seat: seat.clone() }).await.unwrap();
        remote.submit(Change::Left { seat }).await.unwrap();
    });
    assert_eq!(proven.cluster.admin(2).forget("n3", false).unwrap().to_string(), "forgot n3");
    block_on(async {
        let mut visitors = Vec::new();
        for _ in 0..130 {
            let stream = tokio::net::TcpStream::connect(proven.address(1)).await.unwrap();
            let called = cards_tls::connect(stream, &forgotten, Purpose::Registry, &keeper).await;
            visitors.push(called.unwrap().wire);
        }
        let gone = timeout(SOON, visitors[0].read(&mut [0; 1])).await.expect("the oldest has had to go");
        assert!(matches!(gone, Ok(0) | Err(_)));
    });
}

#[test]
fn in_the_clear_the_first_byte_says_who_comes() {
    let cluster = Cluster::coordinated(2, 16 * BLOCK);
    let address = |node: usize| cluster.config(node).address.clone().unwrap();
    // Longer than the head of a frame.
    let asked =
        b"GET /v1/coordinator/view HTTP/1.1\r\nhost: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\ncards-cluster: test\r\nconnection: close\r\n\r\n";
    let answer = String::from_utf8(heard(&address(1), asked)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"n2\""), "{answer}");
    let answer = String::from_utf8(heard(&address(2), asked)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("n1 ("), "it does not lead: {answer}");
    assert_eq!(heard(&address(1), &[0; 4096]), b"", "it is no frame, and no HTTP");
}

#[test]
fn a_registry_with_a_port_of_its_own_is_asked_at_both() {
    let before = free_address();
    let mut cluster = Cluster::with(2, 16 * BLOCK, |config| {
        let Some(Coordinator::Embedded(home)) = &mut config.coordinator else { panic!() };
        home.address.clone_from(&before);
    });
    let keeper = cluster.config(1).address.clone().unwrap();
    assert_eq!(cluster.config(1).registry_port(), Some(before.as_str()));
    let third = cluster.join_as(|config| {
        let lease = config.coordinator.as_ref().unwrap().lease();
        config.coordinator =
            Some(Coordinator::Embedded(EmbeddedHome { lease, ..EmbeddedHome::new("n1", &keeper) }));
    });
    cluster.wait_ready(third);
    // At last the keeper's file is changed, and that of the other member.
    for node in [2, 1] {
        cluster.kill(node);
        cluster.change(node, |config| {
            let Some(Coordinator::Embedded(home)) = &mut config.coordinator else { panic!() };
            home.address.clone_from(&keeper);
        });
        cluster.restart(node);
    }
    for node in 1..=third {
        cluster.wait_ready(node);
        cluster.wait("it knows all", || cluster.status(node).problems.is_empty());
    }
    TcpStream::connect(before).unwrap_err();
}
