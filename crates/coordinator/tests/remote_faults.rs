//! A coordinator that is away, silent, another cluster's or something else.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use cards_coordinator::{Coordinator, Error, Remote, RemoteConfig, RemoteError, WallClock};

use crate::common::join;
use crate::proxy::Proxy;
use crate::remote::served;

fn impatient(address: SocketAddr) -> RemoteConfig {
    RemoteConfig {
        connect_timeout: Duration::from_millis(300),
        request_timeout: Duration::from_millis(300),
        patience: Duration::from_millis(700),
        ..RemoteConfig::new(&address.to_string(), "lab")
    }
}

fn remote_error(error: Error) -> RemoteError {
    match error {
        Error::Remote(error) => error,
        other => panic!("{other:?}"),
    }
}

async fn error_at(address: SocketAddr) -> RemoteError {
    remote_error(Remote::open(impatient(address)).await.unwrap_err())
}

/// A port on which nobody listens.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// When a server that is no coordinator speaks.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Asked,
    AtOnce,
    Never,
}

/// A port where something says these bytes on each connection, then waits for it to be closed.
fn says(when: When, bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, bytes) = (stream.unwrap(), bytes.clone());
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                if when == When::AtOnce || stream.read(&mut request).is_ok() && when == When::Asked {
                    drop(stream.write_all(&bytes));
                }
                while matches!(stream.read(&mut request), Ok(1..)) {}
            });
        }
    });
    address
}

#[tokio::test]
async fn a_coordinator_that_is_away_is_unreachable() {
    let error = error_at(closed()).await;
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("start its node or correct the address"), "{error}");
}

#[tokio::test]
async fn a_coordinator_that_does_not_answer_is_slow() {
    let error = error_at(says(When::Never, "")).await;
    assert!(matches!(error, RemoteError::Slow { timeout_ms: 300, .. }), "{error}");
}

#[tokio::test]
async fn a_change_that_nobody_answers_may_have_been_made_and_may_be_asked_again() {
    let served = served(3_600_000).await;
    let proxy = Proxy::before(served.address).await;
    let second = Duration::from_secs(1);
    let config = RemoteConfig { request_timeout: second, patience: second, ..impatient(proxy.address) };
    let home = Coordinator::Remote(Remote::open(config).await.unwrap());
    let hello = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    // After the answer is lost, there is silence, or something else.
    for (name, next) in [("a", says(When::Never, "")), ("b", says(When::Asked, hello))] {
        proxy.lead_to(served.address);
        proxy.cut("POST", true, {
            let proxy = proxy.clone();
            move || proxy.lead_to(next)
        });
        let error = remote_error(home.join(join(name, 1, WallClock::now())).await.unwrap_err());
        assert!(error.to_string().contains("ask again, which is safe"), "{error}");
        let RemoteError::OutcomeUnknown { cause, .. } = error else { panic!("{error}") };
        let again = remote_error(home.view().await.unwrap_err());
        assert_eq!(cause.to_string(), again.to_string(), "nothing is unknown about a view");
        let joined = served.client().await.join(join(name, 1, WallClock::now())).await.unwrap();
        assert!(!joined.applied.changed, "it had been made");
    }
    assert_eq!(served.home.view().await.unwrap().epoch.0, 2);
}

#[tokio::test]
async fn what_is_no_coordinator_is_called_so() {
    let mut random = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random.to_be_bytes()[0]
    })
    .take(5000)
    .collect();
    let ours = "cards-cluster: lab\r\ncards-lease-ms: 1000\r\n";
    for (when, bytes, problem) in [
        (
            When::Asked,
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec(),
            "without `cards-cluster`",
        ),
        (When::Asked, b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno".to_vec(), "HTTP status 404"),
        (When::Asked, noise.clone(), "does not speak HTTP/1.1"),
        (When::AtOnce, noise, "does not speak HTTP/1.1"),
        (When::AtOnce, b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "does not speak HTTP/1.1"),
        (
            When::Asked,
            format!("HTTP/1.1 200 OK\r\n{ours}content-length: 5\r\n\r\nhello").into_bytes(),
            "does not parse",
        ),
        (
            When::Asked,
            format!("HTTP/1.1 500 No\r\n{ours}content-length: 13\r\n\r\n{{\"error\":\"x\"}}").into_bytes(),
            "says: x",
        ),
        (
            When::Asked,
            format!("HTTP/1.1 404 No\r\n{ours}content-length: 13\r\n\r\n{{\"error\":\"x\"}}").into_bytes(),
            "HTTP status 404 Not Found, `x`",
        ),
    ] {
        let error = error_at(says(when, bytes)).await;
        assert!(matches!(error, RemoteError::Protocol { .. } | RemoteError::File { .. }), "{error:?}");
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[tokio::test]
async fn the_coordinator_of_another_cluster_is_named() {
    let served = served(3_600_000).await;
    let config = RemoteConfig { cluster: "prod".into(), ..impatient(served.address) };
    let error = remote_error(Remote::open(config).await.unwrap_err());
    assert!(matches!(error, RemoteError::WrongCluster { .. }), "{error}");
    assert!(error.to_string().contains("is the coordinator of cluster `lab`, not of `prod`"), "{error}");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_before_anything_connects() {
    for address in ["", "host", "host:", ":1", "[]:1", "host:70000", "a b:1", "http://a:1", "a/b:1", "ä:1"] {
        let error = Remote::open(RemoteConfig::new(address, "lab")).await.unwrap_err();
        assert!(matches!(error, Error::Remote(RemoteError::Address { .. })), "{address}: {error}");
    }
    let error = Remote::open(RemoteConfig::new("host:1", "a b")).await.unwrap_err();
    assert!(error.refusal().is_some(), "{error}");
}

#[tokio::test]
async fn a_change_that_is_too_long_is_not_even_sent() {
    let served = served(3_600_000).await;
    let home = served.client().await;
    let error = remote_error(home.set_policy("v", &"x".repeat(1 << 20)).await.unwrap_err());
    assert!(matches!(error, RemoteError::TooLong { .. }), "{error}");
}
