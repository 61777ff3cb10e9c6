//! Who is let in as a client, and that a client is never let in as a node.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::Service;
use crate::settings::provider;
use crate::{
    Authority, Client, ClientFiles, Door, Files, HandshakeError, Identity, Name, Purpose, Shown, accept,
};

const DAY: Duration = Duration::from_secs(86_400);

fn node(authority: &Authority, dir: &Path) -> Identity {
    let files = Files::within(&dir.join("n1"));
    authority.equip("n1", &["10.0.0.1".into(), "store1.lan".into()], &files).unwrap();
    Identity::load(&Name::new("lab", "n1"), &files).unwrap()
}

fn client(authority: &Authority, dir: &Path, name: &str, life: Duration) -> ClientFiles {
    let files = ClientFiles::within(&dir.join(name));
    std::fs::create_dir_all(dir.join(name)).unwrap();
    authority.equip_client(name, life, &files).unwrap();
    files
}

/// What the library is told that others use, who know nothing of doors: a list of authorities, and who one is.
fn config(authority: &Path, shown: Option<(&Path, &Path)>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
        }
    }
}

fn shows(files: &ClientFiles) -> ClientConfig {
    config(&files.authority, Some((&files.certificate, &files.key)))
}

/// Calls the host, and says what it hears.
fn call(config: ClientConfig, host: &str, listener: &StdListener) -> std::thread::JoinHandle<String> {
    let (address, host) = (listener.local_addr().unwrap(), ServerName::try_from(host.to_owned()).unwrap());
    std::thread::spawn(move || {
        let connection = ClientConnection::new(Arc::new(config), host).unwrap();
        let mut stream = StreamOwned::new(connection, StdStream::connect(address).unwrap());
        let mut heard = String::new();
        match stream.write_all(b"hello").and_then(|()| stream.read_to_string(&mut heard)) {
            Ok(_) => heard,
            Err(error) => error.to_string(),
        }
    })
}

/// What comes of a call, at the service and at the caller.
fn comes(
    service: &Service,
    config: ClientConfig,
    host: &str,
) -> (Result<Option<Client>, HandshakeError>, String) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let caller = call(config, host, &listener);
    let answer =
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            listener.set_nonblocking(true).unwrap();
            let stream = TcpListener::from_std(listener).unwrap().accept().await.unwrap().0;
            let (mut wire, client) = service.accept(stream).await?;
            let mut heard = [0; 5];
            wire.read_exact(&mut heard).await?;
            assert_eq!(&heard, b"hello");
            wire.write_all(b"welcome").await?;
            // The library takes an end without a word for an attack.
            wire.shutdown().await?;
            Ok(client.map(|(client, _)| client))
        });
    (answer, caller.join().unwrap())
}

#[test]
fn clients_of_the_cluster_come_in_by_name_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, other) = (Authority::create("lab").unwrap(), Authority::create("lab").unwrap());
    let identity = node(&lab, dir.path());
    let service = Service::for_clients(&identity, None).unwrap();
    let backup = client(&lab, dir.path(), "Back.up", DAY);
    for host in ["localhost", "127.0.0.1", "10.0.0.1", "store1.lan", "n1.lab.cards"] {
        let (came, heard) = comes(&service, shows(&backup), host);
        assert_eq!(came.unwrap(), Some(Client::Own("Back.up".into())), "{host}");
        assert_eq!(heard, "welcome");
    }
    let (came, heard) = comes(&service, shows(&backup), "store2.lan");
    assert!(came.is_err() && heard.contains("not valid for name"), "the client wants another host: {heard}");

    let refused = |config, why: &str| {
        let (came, heard) = comes(&service, config, "localhost");
        let error = came.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!heard.contains("welcome"), "{heard}");
    };
    refused(config(&backup.authority, None), "shows no certificate");
    let late = client(&lab, dir.path(), "late", Duration::ZERO);
    // Times in certificates are whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    refused(shows(&late), "expired");
    let stranger = client(&other, dir.path(), "stranger", DAY);
    refused(config(&backup.authority, Some((&stranger.certificate, &stranger.key))), "not signed by");
    let lost = client(&lab, dir.path(), "lost", DAY);
    assert!(comes(&service, shows(&lost), "localhost").0.is_ok());
    let key = Shown::in_pem(&std::fs::read_to_string(&lost.certificate).unwrap()).unwrap().key().unwrap();
    identity.revoke([key].into());
    let (came, heard) = comes(&service, shows(&lost), "localhost");
    assert!(matches!(came, Err(HandshakeError::Revoked { .. })) && heard != "welcome", "{heard}");
    assert!(comes(&service, shows(&backup), "localhost").0.is_ok());
    // A node's certificate is none of a client.
    let of_node = (&*dir.path().join("n1/node.pem"), &*dir.path().join("n1/node.key"));
    refused(config(&backup.authority, Some(of_node)), "nor a node's a client's");
}

#[test]
fn clients_of_another_authority_come_in_if_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, other) = (Authority::create("lab").unwrap(), Authority::create("far").unwrap());
    let identity = node(&lab, dir.path());
    let stranger = client(&other, dir.path(), "stranger", DAY);
    let service = Service::for_clients(&identity, Some(&stranger.authority)).unwrap();
    let backup = client(&lab, dir.path(), "backup", DAY);
    let foreign = config(&backup.authority, Some((&stranger.certificate, &stranger.key)));
    let (came, _) = comes(&service, foreign, "localhost");
    assert_eq!(came.unwrap(), Some(Client::Other(vec!["stranger.clients.far.cards".into()])));
    let (came, _) = comes(&service, shows(&backup), "localhost");
    assert_eq!(came.unwrap(), Some(Client::Own("backup".into())));
    // Of another authority that calls itself the cluster's a client is not the cluster's.
    let twin = Authority::create("lab").unwrap();
    let twin = client(&twin, dir.path(), "twin", DAY);
    let service = Service::for_clients(&identity, Some(&twin.authority)).unwrap();
    let foreign = config(&backup.authority, Some((&twin.certificate, &twin.key)));
    let (came, _) = comes(&service, foreign, "localhost");
    assert_eq!(came.unwrap(), Some(Client::Other(vec!["twin.clients.lab.cards".into()])));
    assert!(Service::for_clients(&identity, Some(&dir.path().join("none"))).is_err());
}

#[test]
fn whoever_comes_for_http_shows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Authority::create("lab").unwrap();
    let identity = node(&lab, dir.path());
    let service = Service::for_http(&identity);
    let backup = client(&lab, dir.path(), "backup", DAY);
    let mut plain = config(&backup.authority, None);
    plain.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (came, heard) = comes(&service, plain, "store1.lan");
    assert_eq!((came.unwrap(), heard.as_str()), (None, "welcome"));
}

/// Where nodes come, a client's certificate opens nothing, whatever its owner says of itself.
#[test]
fn a_client_is_no_node() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Authority::create("lab").unwrap();
    let identity = node(&lab, dir.path());
    let backup = client(&lab, dir.path(), "backup", DAY);
    let door = Door::of(&lab.fingerprint());
    for (purpose, protocol) in [(Purpose::Peer, "cards"), (Purpose::Registry, "cards-registry")] {
        let mut config = shows(&backup);
        // It knows the door and what to ask for; its trust in the node is not the question here.
        config.alpn_protocols = vec![protocol.into()];
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        config.dangerous().set_certificate_verifier(Arc::new(crate::settings::tests::Anybody));
        let caller = call(config, door.as_str(), &listener);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let stream = TcpListener::from_std(listener).unwrap().accept().await.unwrap().0;
            accept(stream, &identity, &[purpose]).await.map(|_| ()).unwrap_err()
        });
        assert!(error.to_string().contains("a client's is not a node's"), "{error}");
        assert_ne!(caller.join().unwrap(), "");
    }
}

#[test]
fn a_certificate_names_no_host_that_is_a_name_of_nodes_or_clients() {
    let lab = Authority::create("lab").unwrap();
    let key = crate::NodeKey::generate().unwrap().public();
    for host in ["n2.lab.cards", "a.clients.lab.CARDS", "cards.", "", "a b", "*.lan", "a/b", "é"] {
        let refused = lab.sign("n1", &[host.into()], &key).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("no host"), "{host:?}: {refused}");
    }
    lab.sign("n1", &["n1.cards.lan".into(), "fd00::1".into(), "localhost".into()], &key).unwrap();
}
