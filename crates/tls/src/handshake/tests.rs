//! Who wants to join says nothing to anybody but the node that it was sent to.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::{Authority, Files};

const SECRET: &[u8] = b"the secret";

fn equip(authority: &Authority, dir: &Path, node: &str) -> Identity {
    let files = Files::within(&dir.join(node));
    authority.equip(node, &[], &files).unwrap();
    Identity::load(&Name::new("lab", node), &files).unwrap()
}

/// What a caller that knows this fingerprint comes to, and what the other end hears of its secret.
async fn join(
    authority: &Fingerprint,
    whom: &str,
    answerer: &Identity,
) -> (Result<(), HandshakeError>, Result<Vec<u8>, HandshakeError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let answers = async {
        let stream = listener.accept().await.unwrap().0;
        let mut proven = accept(stream, answerer, &[Purpose::Registry, Purpose::Join]).await?;
        assert!(proven.purpose == Purpose::Join && !proven.shown.is(answerer.name()));
        let mut heard = vec![0; SECRET.len()];
        proven.wire.read_exact(&mut heard).await?;
        Ok(heard)
    };
    let calls = async {
        let mut wire = connect_to_join(stream, authority, &Name::new("lab", whom)).await?;
        wire.write_all(SECRET).await?;
        wire.flush().await?;
        Ok(())
    };
    tokio::join!(calls, answers)
}

/// A program that is no node calls by an address that nobody has signed for.
#[tokio::test]
async fn whoever_calls_by_another_host_is_told_which_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let node = equip(&authority, dir.path(), "n1");
    let trust = crate::Trust::read(&Files::within(&dir.path().join("n1")).authority).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let answers = async {
        let service = crate::Service::for_http(&node);
        let _ = service.accept(listener.accept().await.unwrap().0).await;
    };
    let (called, ()) = tokio::join!(trust.connect(stream, "10.9.0.1"), answers);
    let error = called.err().unwrap().to_string();
    assert!(
        error.contains("does not name 10.9.0.1, only n1.lab.cards, localhost, 127.0.0.1, ::1: "),
        "{error}"
    );
}

#[tokio::test]
async fn the_fingerprint_is_enough_to_know_the_node_by() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let keeper = equip(&authority, dir.path(), "n1");
    let (called, heard) = join(&authority.fingerprint(), "n1", &keeper).await;
    called.unwrap();
    assert_eq!(heard.unwrap(), SECRET);
}

#[tokio::test]
async fn another_fingerprint_opens_no_door() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let keeper = equip(&authority, dir.path(), "n1");
    let mut tampered = authority.fingerprint();
    tampered.0[31] ^= 1;
    let (called, heard) = join(&tampered, "n1", &keeper).await;
    assert!(matches!(heard, Err(HandshakeError::Door)));
    called.unwrap_err();
}

/// Who has read the door off the wire, and shows what it can: its own authority, and the right one's certificate.
#[tokio::test]
async fn whoever_stands_in_between_hears_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let wanted = authority.fingerprint();
    let thief = equip(&Authority::create("lab").unwrap(), dir.path(), "n1");
    thief.alter(|thief| thief.believed[0].door = Door::of(&wanted));
    let (called, heard) = join(&wanted, "n1", &thief).await;
    let error = called.unwrap_err().to_string();
    assert!(error.contains("not signed by this cluster's authority"), "{error}");
    heard.unwrap_err();

    let right = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap();
    thief.alter(|thief| thief.believed[0].certificate = right);
    let (called, heard) = join(&wanted, "n1", &thief).await;
    let error = called.unwrap_err().to_string();
    assert!(error.contains("not signed by this cluster's authority"), "{error}");
    heard.unwrap_err();
}

#[tokio::test]
async fn another_node_of_the_cluster_hears_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let other = equip(&authority, dir.path(), "n2");
    let (called, heard) = join(&authority.fingerprint(), "n1", &other).await;
    assert!(called.unwrap_err().to_string().contains("another node's"));
    heard.unwrap_err();
}

/// Whoever has nothing to show is answered as one that wants to join only, whatever it says that it wants.
#[tokio::test]
async fn who_shows_nothing_is_no_node() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let keeper = equip(&authority, dir.path(), "n1");
    for purpose in [Purpose::Registry, Purpose::Peer] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let answers = async {
            let stream = listener.accept().await.unwrap().0;
            accept(stream, &keeper, &[Purpose::Registry, Purpose::Peer, Purpose::Join]).await.err()
        };
        let calls = async {
            let mut config = client_to_join(&authority.fingerprint(), keeper.name()).unwrap();
            config.alpn_protocols = vec![purpose.protocol().to_vec()];
            let door = named(&Door::of(&authority.fingerprint()));
            let end = UnbufferedClientConnection::new(Arc::new(config), door).unwrap();
            drive(&mut stream, end, &mut Vec::new()).await.err()
        };
        let (called, answered) = tokio::join!(calls, answers);
        // It is not shown the authority either.
        assert!(called.is_some() && answered.is_some(), "{purpose:?}");
    }
}
