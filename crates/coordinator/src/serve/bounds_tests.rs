//! Clients that take without giving: with room for one connection, the next client is served only when the one before
//! has lost its own.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use cards_register::{Ballot, Request, RequestBody};
use cards_tls::{Authority, Files, Identity, Name, Purpose, Wire};
use cards_wire::register::encode_request;
use hyper::rt::Write as _;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::change::{Change, Join};
use crate::error::Error;
use crate::ids::{Epoch, Incarnation, Revision, WallClock};
use crate::local::{Local, LocalConfig};
use crate::registry::Terms;
use crate::remote::{Remote, RemoteConfig, RemoteError};
use crate::seat::Seat;

use super::{Bounds, Impatient, Visit, within};

const SOON: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::from_secs(3600);
/// Room for one, who may stay for ever.
const ROOM_FOR_ONE: Bounds = Bounds { connections: 1, request: NEVER, answer: NEVER, poll: NEVER };
const HEAD: &str = "host: x\r\ncards-cluster: lab\r\n";

struct Server {
    address: std::net::SocketAddr,
    home: Local,
    directory: TempDir,
}

fn alone(directory: &TempDir) -> LocalConfig {
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let own = "127.0.0.1:1".to_owned();
    let remote = RemoteConfig { own: Some(own.clone()), ..RemoteConfig::new(&own, "lab") };
    LocalConfig::new(&home.join("register"), "keeper", remote)
}

async fn server(bounds: Bounds) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let home = Local::found(alone(&directory), &Terms::new("lab")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (bring, visits) = mpsc::channel(1);
    tokio::spawn(within(bounds, visits, home.clone(), None, (None, None), std::future::pending()));
    tokio::spawn(async move {
        loop {
            let wire = Wire::plain(listener.accept().await.unwrap().0).set_adrift().unwrap();
            bring.send(Visit::of_anybody(wire)).await.unwrap_or_else(|_| panic!("it is served"));
        }
    });
    Server { address, home, directory }
}

fn equip(authority: &Authority, dir: &std::path::Path, node: &str) -> Identity {
    let files = Files::within(&dir.join(node));
    authority.equip(node, &[], &files).unwrap();
    Identity::load(&Name::new("lab", node), &files).unwrap()
}

impl Server {
    async fn client(&self) -> Remote {
        Remote::open(RemoteConfig::new(&self.address.to_string(), "lab")).await.unwrap()
    }

    /// A client that says this much.
    async fn greedy(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn join(&self, name: &str) {
        self.home.submit(joining(name)).await.unwrap();
    }
}

fn joining(name: &str) -> Change {
    Change::Join(Join {
        cluster: "lab".into(),
        seat: Seat { name: name.into(), incarnation: Incarnation(1) },
        address: format!("{name}:1"),
        clock: WallClock::now(),
        seen: Epoch(0),
        succeeds: None,
    })
}

#[tokio::test]
async fn a_client_that_never_ends_its_head_is_dropped() {
    let server = server(Bounds { request: SOON, ..ROOM_FOR_ONE }).await;
    let _greedy = server.greedy("GET /v1/coordinator/view HTTP/1.1\r\nhost: x\r\n").await;
    server.client().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_dropped() {
    let server = server(Bounds { request: SOON, ..ROOM_FOR_ONE }).await;
    let _greedy = server.greedy("").await;
    server.client().await;
}

#[tokio::test]
async fn a_client_that_never_ends_its_body_is_told_so_and_dropped() {
    let server = server(Bounds { request: SOON, ..ROOM_FOR_ONE }).await;
    let request = format!("POST /v1/coordinator/submit HTTP/1.1\r\n{HEAD}content-length: 100\r\n\r\n{{");
    let mut greedy = server.greedy(&request).await;
    server.client().await;
    let mut answer = String::new();
    greedy.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn frames_that_do_not_come_keep_no_short_one_from_the_arbiter() {
    let server = server(Bounds { connections: 10, ..ROOM_FOR_ONE }).await;
    let head =
        format!("POST /v1/coordinator/register HTTP/1.1\r\n{HEAD}connection: close\r\ncontent-length:");
    let mut greedy = Vec::new();
    for _ in 0..4 {
        greedy.push(server.greedy(&format!("{head} 1000000\r\n\r\nC")).await);
    }
    tokio::time::sleep(SOON).await;
    let body = RequestBody::Prepare(Ballot::FIRST);
    let frame = encode_request(&Request { store: server.home.store().unwrap(), body }).unwrap();
    let mut short = server.greedy(&format!("{head} {}\r\n\r\n", frame.len())).await;
    short.write_all(&frame).await.unwrap();
    let mut answer = Vec::new();
    timeout(100 * SOON, short.read_to_end(&mut answer)).await.expect("it is answered").unwrap();
    // A reply, or none because another proposer leads.
    assert!(answer.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped() {
    let server = server(Bounds { answer: SOON, ..ROOM_FOR_ONE }).await;
    for n in 0..20 {
        server.join(&format!("{n}-{}", "x".repeat(50))).await;
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut greedy = socket.connect(server.address).await.unwrap();
    let request = format!("GET /v1/coordinator/view HTTP/1.1\r\n{HEAD}\r\n");
    // As long as the server takes any: it stops when its answers pile up, and then hangs up.
    while greedy.write_all(request.as_bytes()).await.is_ok() {}
    server.client().await;
}

#[tokio::test]
async fn who_finds_no_room_waits_until_there_is_some() {
    let server = server(ROOM_FOR_ONE).await;
    let request = format!("GET /v1/coordinator/changed?after=0 HTTP/1.1\r\n{HEAD}connection: close\r\n\r\n");
    let mut first = server.greedy(&request).await;
    let config = RemoteConfig {
        request_timeout: SOON,
        patience: SOON,
        ..RemoteConfig::new(&server.address.to_string(), "lab")
    };
    let slow = Remote::open(config).await.unwrap_err();
    assert!(matches!(slow, Error::Remote(RemoteError::Slow { .. })), "{slow}");
    server.join("a").await;
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.client().await;
}

#[tokio::test]
async fn a_wait_without_a_change_is_answered_and_asked_again() {
    let server = server(Bounds { connections: 10, poll: SOON, ..ROOM_FOR_ONE }).await;
    let request = format!("GET /v1/coordinator/changed?after=0 HTTP/1.1\r\n{HEAD}connection: close\r\n\r\n");
    let mut waiter = server.greedy(&request).await;
    let mut answer = String::new();
    waiter.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    let client = server.client().await;
    let changed = tokio::spawn(async move { client.changed(Revision(0)).await });
    tokio::time::sleep(3 * SOON).await;
    assert!(!changed.is_finished());
    server.join("a").await;
    assert_eq!(changed.await.unwrap().unwrap().revision, Revision(1));
}

#[tokio::test]
async fn a_store_that_has_failed_is_told_in_the_words_of_its_node() {
    let server = server(Bounds::default()).await;
    let config = RemoteConfig { patience: 3 * SOON, ..RemoteConfig::new(&server.address.to_string(), "lab") };
    let client = Remote::open(config).await.unwrap();
    server.join("a").await;
    // The next state finds no place.
    let home = server.directory.path().join("home");
    std::fs::rename(&home, server.directory.path().join("away")).unwrap();
    let join = client.submit(joining("b")).await.unwrap_err();
    assert!(
        matches!(join, Error::Remote(RemoteError::OutcomeUnknown { .. } | RemoteError::NoLeader { .. })),
        "{join}"
    );
    for error in [client.view().await.unwrap_err(), client.submit(Change::Expire).await.unwrap_err()] {
        assert!(matches!(error, Error::Remote(RemoteError::NoLeader { .. })), "{error}");
        assert!(
            error.to_string().contains("cannot be read or written")
                && error.to_string().contains("see to its disk"),
            "{error}"
        );
    }
    assert!(server.home.store().is_none() && server.home.problems()[0].contains("see to its disk"));
}

#[tokio::test]
async fn a_client_that_does_not_read_the_end_of_its_answer_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (one, other) = (equip(&authority, dir.path(), "one"), equip(&authority, dir.path(), "other"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (called, answered) =
        tokio::join!(cards_tls::connect(stream, &one, Purpose::Registry, other.name()), async {
            cards_tls::accept(listener.accept().await.unwrap().0, &other, &[Purpose::Registry]).await
        });
    let _unread = called.unwrap().wire;
    let mut stream = Impatient::new(TokioIo::new(answered.unwrap().wire), SOON);
    let ended = async {
        loop {
            // Sealed, and taken; the system takes it until it does not.
            poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &[0; 10_000])).await?;
            poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await?;
        }
    };
    let ended: io::Result<()> = timeout(100 * SOON, ended).await.expect("it ends");
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
}
