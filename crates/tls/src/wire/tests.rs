use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tokio::net::{TcpListener, TcpStream};

use super::{IDLE_COST, IDLE_MAX, KEY_UPDATE, Wire};
use crate::record::{DATA, HANDSHAKE, Key};
use crate::settings::{Purpose, client, provider};
use crate::{Authority, Files, Identity, Name, accept, connect};

fn identity(authority: &Authority, dir: &Path, node: &str) -> Identity {
    let files = Files::within(&dir.join(node));
    authority.equip(node, &[], &files).unwrap();
    Identity::load(&Name::new("lab", node), &files).unwrap()
}

fn two() -> (tempfile::TempDir, Identity, Identity) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (a, b) = (identity(&authority, dir.path(), "a"), identity(&authority, dir.path(), "b"));
    (dir, a, b)
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// Bytes that differ from place to place.
fn data(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

async fn pair(a: &Identity, b: &Identity) -> (Wire, Wire) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let answers = async { accept(listener.accept().await.unwrap().0, b, &[Purpose::Peer]).await.unwrap() };
    let calls = async { connect(stream, a, Purpose::Peer, b.name()).await.unwrap() };
    let (calls, answers) = tokio::join!(calls, answers);
    assert!(answers.shown.is(a.name()) && !answers.shown.is(b.name()) && calls.shown.is(b.name()));
    assert_eq!(answers.purpose, Purpose::Peer);
    (calls.wire, answers.wire)
}

/// Sends all of `bytes` in parts of odd lengths.
async fn send(wire: &mut Wire, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        let left = &bytes[sent..];
        let (first, rest) = left.split_at(left.len().min(1 + sent % 64));
        let (second, third) = rest.split_at(rest.len().min(4096));
        let third = &third[..third.len().min(70_001)];
        let parts = [IoSlice::new(first), IoSlice::new(second), IoSlice::new(&[]), IoSlice::new(third)];
        let taken = std::future::poll_fn(|cx| wire.poll_write_vectored(cx, &parts)).await.unwrap();
        assert!(taken > 0);
        sent += taken;
    }
    std::future::poll_fn(|cx| wire.poll_flush(cx)).await.unwrap();
}

/// Receives so many bytes, into parts of odd lengths.
async fn receive(wire: &mut Wire, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let (mut first, mut second) = ([0; 333], [0; 9000]);
        let wanted = (length - bytes.len()).min(9333);
        let (one, two) = (wanted.min(333), wanted.saturating_sub(333));
        let mut parts = [IoSliceMut::new(&mut first[..one]), IoSliceMut::new(&mut second[..two])];
        let taken = std::future::poll_fn(|cx| wire.poll_read_vectored(cx, &mut parts)).await.unwrap();
        assert!(taken > 0, "{} of {length}", bytes.len());
        bytes.extend_from_slice(&first[..taken.min(one)]);
        bytes.extend_from_slice(&second[..taken.saturating_sub(one)]);
    }
    bytes
}

#[test]
fn bytes_arrive_as_they_were_sent_over_many_keys() {
    let (_dir, a, b) = two();
    run(async {
        let (mut one, mut other) = pair(&a, &b).await;
        one.sealed.as_mut().unwrap().records_max = 7;
        other.sealed.as_mut().unwrap().records_max = 5;
        let bytes = data(5_000_000);
        let (_, there) = tokio::join!(send(&mut one, &bytes), receive(&mut other, bytes.len()));
        assert!(there == bytes);
        // To another event loop, and back the other way.
        let mut other = other.set_adrift().unwrap().moor().unwrap();
        let (_, back) = tokio::join!(send(&mut other, &bytes), receive(&mut one, bytes.len()));
        assert!(back == bytes);
    });
}

#[test]
fn whoever_closes_is_seen_to_close() {
    let (_dir, a, b) = two();
    run(async {
        let (mut one, mut other) = pair(&a, &b).await;
        send(&mut one, b"the last").await;
        drop(one);
        assert_eq!(receive(&mut other, 8).await, b"the last");
        let mut byte = [0];
        let mut end = pin!(std::future::poll_fn(|cx| {
            other.poll_read_vectored(cx, &mut [IoSliceMut::new(&mut byte)])
        }));
        assert_eq!(end.as_mut().await.unwrap(), 0);
    });
}

/// Another implementation of TLS at the other end: the library itself, with all that it may send.
#[test]
fn the_library_understands_what_is_made_here() {
    let (_dir, a, b) = two();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = data(3_000_000);
    let config = Arc::new(client(&a.now(), Purpose::Peer, b.name()).unwrap());
    let door = ServerName::try_from(a.now().believed[0].door.as_str().to_owned()).unwrap();
    let sent = bytes.clone();
    let library = std::thread::spawn(move || {
        let connection = ClientConnection::new(config, door).unwrap();
        let mut stream = StreamOwned::new(connection, StdStream::connect(address).unwrap());
        for (number, part) in sent.chunks(100_000).enumerate() {
            stream.write_all(part).unwrap();
            if number % 3 == 0 {
                // It asks the other end for its next key as well.
                stream.conn.refresh_traffic_keys().unwrap();
            }
        }
        let mut back = vec![0; sent.len()];
        stream.read_exact(&mut back).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        assert!(back == sent);
    });
    run(async {
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let mut wire = accept(listener.accept().await.unwrap().0, &b, &[Purpose::Peer]).await.unwrap().wire;
        wire.sealed.as_mut().unwrap().records_max = 20;
        let there = receive(&mut wire, bytes.len()).await;
        assert!(there == bytes);
        send(&mut wire, &there).await;
        let mut byte = [0];
        let end = std::future::poll_fn(|cx| wire.poll_read_vectored(cx, &mut [IoSliceMut::new(&mut byte)]));
        assert_eq!(end.await.unwrap(), 0);
    });
    library.join().unwrap();
}

/// One byte is changed on its way: nothing of its record is believed, or of what follows.
#[test]
fn a_changed_byte_ends_the_connection() {
    let (_dir, a, b) = two();
    let bytes = data(500_000);
    for place in [100, 5_000, 40_000, 40_001, 40_002, 300_001] {
        let behind = StdListener::bind("127.0.0.1:0").unwrap();
        let before = StdListener::bind("127.0.0.1:0").unwrap();
        let (address, to) = (before.local_addr().unwrap(), behind.local_addr().unwrap());
        let between = std::thread::spawn(move || {
            let (mut from, mut to) = (before.accept().unwrap().0, StdStream::connect(to).unwrap());
            let (mut back, mut there) = (to.try_clone().unwrap(), from.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut there);
                let _ = there.shutdown(std::net::Shutdown::Both);
            });
            let mut room = [0; 4096];
            let mut passed = 0;
            while let Ok(count @ 1..) = from.read(&mut room) {
                if (passed..passed + count).contains(&place) {
                    room[place - passed] ^= 1;
                }
                passed += count;
                if to.write_all(&room[..count]).is_err() {
                    return;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
        run(async {
            behind.set_nonblocking(true).unwrap();
            let behind = TcpListener::from_std(behind).unwrap();
            let sends = async {
                let stream = TcpStream::connect(address).await.unwrap();
                let Ok(proven) = connect(stream, &a, Purpose::Peer, b.name()).await else { return };
                let mut wire = proven.wire;
                let mut sent = 0;
                while sent < bytes.len() {
                    let part = [IoSlice::new(&bytes[sent..])];
                    match std::future::poll_fn(|cx| wire.poll_write_vectored(cx, &part)).await {
                        Ok(count) => sent += count,
                        Err(_) => return,
                    }
                }
                let _ = std::future::poll_fn(|cx| wire.poll_flush(cx)).await;
            };
            let receives = async {
                let mut there = Vec::new();
                let Ok(proven) = accept(behind.accept().await.unwrap().0, &b, &[Purpose::Peer]).await else {
                    return there;
                };
                let mut wire = proven.wire;
                let mut room = [0; 5000];
                while let Ok(count @ 1..) =
                    std::future::poll_fn(|cx| wire.poll_read_vectored(cx, &mut [IoSliceMut::new(&mut room)]))
                        .await
                {
                    there.extend_from_slice(&room[..count]);
                }
                there
            };
            let ((), there) = tokio::join!(sends, receives);
            assert!(there.len() < place, "{} bytes, and {place} was changed", there.len());
            assert!(there == bytes[..there.len()]);
        });
        between.join().unwrap();
    }
}

/// A caller that speaks nothing newer than TLS 1.2 is not served.
#[test]
fn nothing_older_is_spoken() {
    let (_dir, a, b) = two();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(
            WebPkiServerVerifier::builder_with_provider(
                Arc::clone(&a.now().authorities),
                Arc::new(provider()),
            )
            .build()
            .unwrap(),
        )
        .with_no_client_auth();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let door = ServerName::try_from(a.now().believed[0].door.as_str().to_owned()).unwrap();
    let old = std::thread::spawn(move || {
        let mut config = config;
        config.alpn_protocols = vec![b"cards".to_vec()];
        let connection = ClientConnection::new(Arc::new(config), door).unwrap();
        let mut stream = StreamOwned::new(connection, StdStream::connect(address).unwrap());
        stream.write_all(b"hello").and_then(|()| stream.flush()).unwrap_err()
    });
    run(async {
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        assert!(accept(listener.accept().await.unwrap().0, &b, &[Purpose::Peer]).await.is_err());
    });
    old.join().unwrap();
}

/// Makes records without data, so many of them.
fn idle(wire: &mut Wire, content: u8, count: usize) {
    let sealed = wire.sealed.as_mut().unwrap();
    for _ in 0..count {
        match content {
            HANDSHAKE => {
                sealed
                    .to_send
                    .seal(&mut sealed.outgoing, HANDSHAKE, |out| out.extend_from_slice(&KEY_UPDATE));
                sealed.to_send = Key::new(sealed.secrets.next_to_send().unwrap()).unwrap();
            }
            _ => sealed.to_send.seal(&mut sealed.outgoing, content, |_| {}),
        }
    }
}

/// Records that carry nothing cost whoever opens them far more than whoever sends them.
#[test]
fn who_says_nothing_again_and_again_is_not_listened_to() {
    let (_dir, a, b) = two();
    for content in [HANDSHAKE, DATA] {
        run(async {
            let (mut one, mut other) = pair(&a, &b).await;
            idle(&mut one, content, IDLE_MAX as usize);
            for _ in 0..IDLE_COST {
                send(&mut one, b"x").await;
                receive(&mut other, 1).await;
            }
            idle(&mut one, content, 1);
            let much = data(500_000);
            tokio::join!(send(&mut one, &much), receive(&mut other, much.len()));
            // A byte now and then is no cover.
            let mut heard = Ok(1);
            for _ in 0..IDLE_COST {
                idle(&mut one, content, IDLE_MAX as usize / 2);
                send(&mut one, b"x").await;
                let mut room = [0; 9];
                heard = std::future::poll_fn(|cx| {
                    other.poll_read_vectored(cx, &mut [IoSliceMut::new(&mut room)])
                })
                .await;
                if heard.is_err() {
                    break;
                }
            }
            let error = heard.unwrap_err().to_string();
            assert!(error.contains("without data"), "{error}");
        });
    }
}
