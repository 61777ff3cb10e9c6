use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::{Encryption, Records, Sealed, Wire};
use crate::record::{DATA, HANDSHAKE, Key};
use crate::session::{IDLE_COST, IDLE_MAX, KEY_UPDATE, Session};
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

/// A connection whose records the daemon has, and one whose records the kernel has, if it can.
const BOTH: [Purpose; 2] = [Purpose::Registry, Purpose::Peer];

async fn pair(a: &Identity, b: &Identity, purpose: Purpose) -> (Wire, Wire) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let answers = async { accept(listener.accept().await.unwrap().0, b, &[purpose]).await.unwrap() };
    let calls = async { connect(stream, a, purpose, b.name()).await.unwrap() };
    let (calls, answers) = tokio::join!(calls, answers);
    assert!(answers.shown.is(a.name()) && !answers.shown.is(b.name()) && calls.shown.is(b.name()));
    assert_eq!(answers.purpose, purpose);
    (calls.wire, answers.wire)
}

fn sealed(wire: &mut Wire) -> &mut Sealed {
    let Records::Daemon(sealed) = &mut wire.records else { panic!("not sealed here") };
    sealed
}

fn session(wire: &mut Wire) -> &mut Session {
    match &mut wire.records {
        Records::None => panic!("in the clear"),
        Records::Daemon(sealed) => &mut sealed.session,
        Records::Kernel(kernel) => &mut kernel.session,
    }
}

/// Whether the kernel has TLS, but no second key for a connection.
fn kernel_keeps_keys() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    let release: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    Path::new("/proc/net/tls_stat").exists() && release < (6, 14)
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
    for purpose in BOTH {
        run(async {
            let (mut one, mut other) = pair(&a, &b, purpose).await;
            if one.encryption() == Encryption::Daemon || !kernel_keeps_keys() {
                session(&mut one).blocks_max = 7_000;
                session(&mut other).blocks_max = 5_000;
            }
            let bytes = data(5_000_000);
            let (_, there) = tokio::join!(send(&mut one, &bytes), receive(&mut other, bytes.len()));
            assert!(there == bytes);
            // To another event loop, and back the other way.
            let mut other = other.set_adrift().unwrap().moor().unwrap();
            let (_, back) = tokio::join!(send(&mut other, &bytes), receive(&mut one, bytes.len()));
            assert!(back == bytes);
        });
    }
}

/// Where the kernel has no TLS the daemon seals: nothing else is different.
#[test]
fn the_kernel_seals_what_nodes_say_if_it_can() {
    let (_dir, a, b) = two();
    run(async {
        let (peer, _) = pair(&a, &b, Purpose::Peer).await;
        // The first connection may have loaded the module.
        let expected = match Path::new("/proc/net/tls_stat").exists() {
            true => Encryption::Kernel,
            false => Encryption::Daemon,
        };
        assert_eq!((peer.encryption(), peer.holds_received()), (expected, false));
        let (registry, _) = pair(&a, &b, Purpose::Registry).await;
        assert_eq!(registry.encryption(), Encryption::Daemon);
        let plain = Wire::plain(TcpStream::from_std(peer.set_adrift().unwrap().stream).unwrap());
        assert_eq!(plain.encryption(), Encryption::None);
    });
}

/// The end whose key has sealed enough, and the one that hears of its next key, say what is the matter.
#[test]
fn a_kernel_that_keeps_its_keys_ends_a_connection_with_the_reason() {
    if !kernel_keeps_keys() {
        return;
    }
    let (_dir, a, b) = two();
    run(async {
        let (mut one, mut other) = pair(&a, &b, Purpose::Peer).await;
        send(&mut one, b"the last").await;
        session(&mut one).blocks_max = 1;
        let refused = std::future::poll_fn(|cx| one.poll_write_vectored(cx, &[IoSlice::new(b"x")])).await;
        assert_eq!(receive(&mut other, 8).await, b"the last");
        let mut byte = [0];
        let parts = &mut [IoSliceMut::new(&mut byte)];
        let heard = std::future::poll_fn(|cx| other.poll_read_vectored(cx, parts)).await;
        for error in [refused.unwrap_err(), heard.unwrap_err()] {
            assert!(error.to_string().contains("Linux 6.14"), "{error}");
        }
    });
}

#[test]
fn whoever_closes_is_seen_to_close() {
    let (_dir, a, b) = two();
    for (purpose, says_so) in BOTH.into_iter().flat_map(|purpose| [(purpose, false), (purpose, true)]) {
        run(async {
            let (mut one, mut other) = pair(&a, &b, purpose).await;
            send(&mut one, b"the last").await;
            if says_so {
                one.shutdown().await.unwrap();
            }
            let _open = says_so.then_some(one);
            assert_eq!(receive(&mut other, 8).await, b"the last");
            let mut byte = [0];
            let mut end = pin!(std::future::poll_fn(|cx| {
                other.poll_read_vectored(cx, &mut [IoSliceMut::new(&mut byte)])
            }));
            assert_eq!(end.as_mut().await.unwrap(), 0);
            assert_eq!(session(&mut other).ended, says_so);
        });
    }
}

/// Another implementation of TLS at the other end: the library itself, with all that it may send.
#[test]
fn the_library_understands_what_is_made_here() {
    let (_dir, a, b) = two();
    BOTH.into_iter().for_each(|purpose| talk_with_the_library(&a, &b, purpose));
}

fn talk_with_the_library(a: &Identity, b: &Identity, purpose: Purpose) {
    let renews = purpose == Purpose::Registry || !kernel_keeps_keys();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = data(3_000_000);
    let config = Arc::new(client(&a.now(), purpose, b.name()).unwrap());
    let door = ServerName::try_from(a.now().believed[0].door.as_str().to_owned()).unwrap();
    let sent = bytes.clone();
    let library = std::thread::spawn(move || {
        let connection = ClientConnection::new(config, door).unwrap();
        let mut stream = StreamOwned::new(connection, StdStream::connect(address).unwrap());
        for (number, part) in sent.chunks(100_000).enumerate() {
            stream.write_all(part).unwrap();
            if renews && number % 3 == 0 {
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
        let mut wire = accept(listener.accept().await.unwrap().0, b, &[purpose]).await.unwrap().wire;
        if renews {
            session(&mut wire).blocks_max = 20_000;
        }
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
    let mut seals_broken = [0, 0];
    let places = [100, 5_000, 40_000, 40_001, 40_002, 300_001];
    for (number, place) in (0..2).flat_map(|number| places.map(|place| (number, place))) {
        let purpose = BOTH[number];
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
                let Ok(proven) = connect(stream, &a, purpose, b.name()).await else { return };
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
                let Ok(proven) = accept(behind.accept().await.unwrap().0, &b, &[purpose]).await else {
                    return there;
                };
                let mut wire = proven.wire;
                let mut room = [0; 5000];
                loop {
                    let parts = &mut [IoSliceMut::new(&mut room)];
                    match std::future::poll_fn(|cx| wire.poll_read_vectored(cx, parts)).await {
                        Ok(0) => break,
                        Ok(count) => there.extend_from_slice(&room[..count]),
                        Err(error) => {
                            seals_broken[number] += u32::from(error.to_string().contains("seal is broken"));
                            break;
                        }
                    }
                }
                there
            };
            let ((), there) = tokio::join!(sends, receives);
            assert!(there.len() < place, "{} bytes, and {place} was changed", there.len());
            assert!(there == bytes[..there.len()]);
        });
        between.join().unwrap();
    }
    // A byte of a header may lead to another end.
    assert!(seals_broken.iter().all(|&count| count > 0), "{seals_broken:?}");
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
    let sealed = sealed(wire);
    for _ in 0..count {
        match content {
            HANDSHAKE => {
                sealed
                    .to_send
                    .seal(&mut sealed.outgoing, HANDSHAKE, |out| out.extend_from_slice(&KEY_UPDATE));
                sealed.to_send = Key::new(sealed.session.next_to_send().unwrap()).unwrap();
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
            let (mut one, mut other) = pair(&a, &b, Purpose::Registry).await;
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
