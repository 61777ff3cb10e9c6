//! Who is believed, and who is not.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cards_tls::{
    Authority, Error, Files, HandshakeError, Identity, Name, NodeKey, PublicKey, Purpose, Shown, accept,
    connect,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::{TcpListener, TcpStream};

fn equip(authority: &Authority, dir: &Path, cluster: &str, node: &str) -> Identity {
    let files = Files::within(&dir.join(cluster).join(node));
    authority.equip(node, &[], &files).unwrap();
    Identity::load(&Name::new(cluster, node), &files).unwrap()
}

/// What both ends say of a connection from one to the other.
fn meet(
    caller: &Identity,
    whom: &Name,
    answerer: &Identity,
) -> (Result<(), HandshakeError>, Result<Shown, HandshakeError>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let answers = async {
            let proven = accept(listener.accept().await.unwrap().0, answerer, &[Purpose::Registry]).await?;
            assert_eq!(proven.purpose, Purpose::Registry);
            Ok(proven.shown)
        };
        let calls = async {
            let mut proven = connect(stream, caller, Purpose::Registry, whom).await?;
            // In TLS 1.3 the caller is believed, or not, after it believes.
            let mut room = [0; 1];
            let read = tokio::io::AsyncReadExt::read(&mut proven.wire, &mut room).await;
            match read {
                Ok(0) => Ok(()),
                Ok(_) => panic!("nobody has said anything"),
                Err(error) => Err(error.into()),
            }
        };
        tokio::join!(calls, answers)
    })
}

#[test]
fn nodes_of_one_authority_believe_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (a, b) =
        (equip(&authority, dir.path(), "lab", "a"), equip(&authority, dir.path(), "lab", "B.example"));
    let (caller, answerer) = meet(&a, b.name(), &b);
    caller.unwrap();
    assert!(answerer.unwrap().is(a.name()));
}

#[test]
fn a_certificate_of_another_node_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (a, b) = (equip(&authority, dir.path(), "lab", "a"), equip(&authority, dir.path(), "lab", "b"));
    let (caller, answerer) = meet(&a, &Name::new("lab", "c"), &b);
    assert!(caller.unwrap_err().to_string().contains("another node's"));
    answerer.err().unwrap();
    // It is the right one, of a cluster whose name was mistyped.
    let told = meet(&a, &Name::new("lba", "b"), &b).0.unwrap_err().to_string();
    assert!(told.contains("it is node b of cluster lab, and node b of cluster lba was expected"), "{told}");
}

#[test]
fn a_cluster_of_the_same_name_is_another_if_its_authority_is() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (one, two) = (Authority::create("lab").unwrap(), Authority::create("lab").unwrap());
    let (a, b) = (equip(&one, dir.path(), "lab", "a"), equip(&two, other.path(), "lab", "b"));
    let (caller, answerer) = meet(&a, b.name(), &b);
    assert!(matches!(answerer.err().unwrap(), HandshakeError::Door));
    caller.unwrap_err();
}

/// Whoever has seen the door, on the wire say, but has no certificate of the authority.
#[test]
fn the_door_alone_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Authority::create("lab").unwrap(), Authority::create("lab").unwrap());
    let b = equip(&one, dir.path(), "lab", "b");
    let files = Files::within(&dir.path().join("lab").join("thief"));
    two.equip("a", &[], &files).unwrap();
    // It believes the right authority, and has its certificate from another.
    std::fs::write(&files.authority, one.certificate()).unwrap();
    let thief = Identity::load(&Name::new("lab", "a"), &files).unwrap();
    let (caller, answerer) = meet(&thief, b.name(), &b);
    let error = answerer.err().unwrap().to_string();
    assert!(error.contains("not signed by this cluster's authority"), "{error}");
    caller.unwrap_err();
}

/// An authority that has others beside the nodes of one cluster, and that signs whatever it is asked to.
struct Company {
    key: rcgen::KeyPair,
    params: rcgen::CertificateParams,
    certificate: String,
}

impl Company {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let mut params = rcgen::CertificateParams::new([]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "Company");
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { key, params, certificate }
    }

    fn equip(&self, dir: &Path, name: &Name, names: &[&str]) -> Identity {
        let files = Files::within(&dir.join(&name.cluster).join(&name.node));
        let key = NodeKey::generate().unwrap();
        let names: Vec<String> = names.iter().copied().map(String::from).collect();
        let leaf = rcgen::CertificateParams::new(names).unwrap();
        let issuer = rcgen::Issuer::from_params(&self.params, &self.key);
        let certificate = leaf.signed_by(&key.public(), &issuer).unwrap().pem();
        files.write(&key, &certificate, &self.certificate).unwrap();
        Identity::load(name, &files).unwrap()
    }
}

#[test]
fn whoever_is_no_node_of_this_cluster_is_refused_whoever_has_signed_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let company = Company::new();
    let b = company.equip(dir.path(), &Name::new("lab", "b"), &["b.lab.cards"]);
    for (node, names, is_believed) in [
        ("a", &["www.example.org", "a.lab.cards"][..], true),
        ("c", &["C.LAB.cards"], true),
        ("d", &["d.prod.cards", "lab.cards", "x.d.lab.cards", "d.lab.cards.example.org"], false),
    ] {
        let name = Name::new(if is_believed { "lab" } else { "prod" }, node);
        let caller = company.equip(dir.path(), &name, names);
        let (_, answerer) = meet(&caller, b.name(), &b);
        match answerer {
            Ok(shown) => assert!(is_believed && shown.is(caller.name()), "{names:?}"),
            Err(error) => assert!(!is_believed && error.to_string().contains("is not a node's"), "{error}"),
        }
    }
}

/// A node's certificate is no authority's, whatever its owner signs with the key.
#[test]
fn a_node_signs_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (b, thief) =
        (equip(&authority, dir.path(), "lab", "b"), equip(&authority, dir.path(), "lab", "thief"));
    let files = Files::within(&dir.path().join("lab").join("thief"));
    let signer = rcgen::KeyPair::from_pem(&std::fs::read_to_string(&files.key).unwrap()).unwrap();
    let mut params = rcgen::CertificateParams::new([]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, thief.name().to_string());
    let issuer = rcgen::Issuer::from_params(&params, &signer);
    let key = NodeKey::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(["a.lab.cards".to_owned()]).unwrap();
    let forged = leaf.signed_by(&key.public(), &issuer).unwrap().pem();
    let chain = forged + &std::fs::read_to_string(&files.certificate).unwrap();
    let files = Files::within(&dir.path().join("lab").join("a"));
    files.write(&key, &chain, authority.certificate()).unwrap();
    let forged = Identity::load(&Name::new("lab", "a"), &files).unwrap();
    assert!(forged.ends().is_none());
    let (caller, answerer) = meet(&forged, b.name(), &b);
    caller.unwrap_err();
    answerer.err().unwrap();
    let (caller, answerer) = meet(&b, forged.name(), &forged);
    caller.unwrap_err();
    answerer.err().unwrap();
}

#[test]
fn an_expired_certificate_is_refused_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (a, b) = (equip(&authority, dir.path(), "lab", "a"), equip(&authority, dir.path(), "lab", "b"));
    let year = a.ends().unwrap().duration_since(SystemTime::now()).unwrap();
    let days = year.as_secs() / 86_400;
    assert!((363..=365).contains(&days), "{days}");

    let files = Files::within(&dir.path().join("lab").join("a"));
    let key = rcgen_key(&files.key);
    std::fs::write(&files.certificate, authority.sign_for("a", &[], &key, Duration::ZERO).unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let late = Identity::load(&Name::new("lab", "a"), &files).unwrap();
    assert!(late.ends().is_none());
    let (caller, answerer) = meet(&late, b.name(), &b);
    let error = answerer.err().unwrap().to_string();
    assert!(error.contains("its certificate has expired"), "{error}");
    assert!(caller.unwrap_err().to_string().contains("45"), "the alert for an expired certificate");
}

/// The public half of the key in a file.
fn rcgen_key(path: &Path) -> cards_tls::PublicKey {
    let pair = rcgen::KeyPair::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap();
    cards_tls::PublicKey::from_bytes(rcgen::PublicKeyData::der_bytes(&pair)).unwrap()
}

#[test]
fn strangers_learn_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let b = equip(&authority, dir.path(), "lab", "b");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let strangers: [&[u8]; 5] =
        [b"", b"\x00", b"GET / HTTP/1.1\r\n\r\n", b"CARD\x09", &[22, 3, 1, 255, 255, 0, 0, 0, 0, 0, 0, 0]];
    let count = strangers.len();
    let answers = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            for _ in 0..count {
                assert!(accept(listener.accept().await.unwrap().0, &b, &[Purpose::Peer]).await.is_err());
            }
        });
    });
    for said in strangers {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(said).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.is_empty(), "{said:?}: {heard:?}");
    }
    answers.join().unwrap();
}

#[test]
fn files_that_make_no_identity_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let name = Name::new("lab", "a");
    let files = Files::within(&dir.path().join("a"));
    assert!(!files.any());
    assert!(matches!(Identity::load(&name, &files), Err(Error::File { .. })));
    authority.equip("a", &[], &files).unwrap();
    assert!(files.any());
    assert!(authority.equip("a", &[], &files).is_err(), "an identity is not written over");
    assert!(matches!(Identity::load(&Name::new("lab", "b"), &files), Err(Error::Other { .. })));

    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(Identity::load(&name, &files), Err(Error::Exposed { .. })));
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let good = std::fs::read(&files.certificate).unwrap();
    for bad in [&b""[..], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff\x00"] {
        std::fs::write(&files.certificate, bad).unwrap();
        let error = Identity::load(&name, &files).unwrap_err().to_string();
        assert!(error.contains("node.pem"), "{error}");
    }
    std::fs::write(&files.certificate, good).unwrap();
    let other = Files::within(&dir.path().join("b"));
    authority.equip("a", &[], &other).unwrap();
    std::fs::copy(&other.key, &files.key).unwrap();
    let error = Identity::load(&name, &files).unwrap_err().to_string();
    assert!(error.contains("not the key of"), "{error}");
}

#[test]
fn an_authority_is_kept_in_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("authority.pem"), dir.path().join("authority.key"));
    let authority = Authority::create("lab").unwrap();
    authority.save(&certificate, &key).unwrap();
    assert!(authority.save(&certificate, &key).is_err(), "an authority is not written over");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let again = Authority::load("lab", &certificate, &key).unwrap();
    let (a, b) = (equip(&authority, dir.path(), "lab", "a"), equip(&again, dir.path(), "lab", "b"));
    let (caller, answerer) = meet(&a, b.name(), &b);
    caller.unwrap();
    assert!(answerer.unwrap().is(a.name()));
}

/// Whoever joins gets the file of the certificate as it is.
#[test]
fn a_key_beside_the_certificate_of_an_authority_is_not_given_away() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("authority.pem"), dir.path().join("authority.key"));
    let authority = Authority::create("lab").unwrap();
    authority.save(&certificate, &key).unwrap();
    let both = authority.certificate().to_owned() + &std::fs::read_to_string(&key).unwrap();
    std::fs::write(&certificate, both).unwrap();
    let error = Authority::load("lab", &certificate, &key).unwrap_err().to_string();
    assert!(error.contains("authority.pem") && error.contains("a key as well"), "{error}");
}

#[test]
fn a_key_of_another_authority_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let authority = Authority::create("lab").unwrap();
    authority.save(&file("a.pem"), &file("a.key")).unwrap();
    Authority::create("lab").unwrap().save(&file("b.pem"), &file("b.key")).unwrap();
    let again = Authority::load("lab", &file("a.pem"), &file("a.key")).unwrap();
    assert_eq!(again.fingerprint(), authority.fingerprint());
    for (cluster, certificate, key) in [("lab", "a.pem", "b.key"), ("other", "a.pem", "a.key")] {
        let error = Authority::load(cluster, &file(certificate), &file(key)).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("made together"), "{error}");
    }
}

/// How a certificate of a node ends, in seconds from now.
fn left(identity: &Identity) -> u64 {
    identity.ends().unwrap().duration_since(SystemTime::now()).unwrap().as_secs()
}

#[test]
fn a_certificate_that_takes_the_place_of_another_is_shown_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (a, b) = (equip(&authority, dir.path(), "lab", "a"), equip(&authority, dir.path(), "lab", "b"));
    let files = Files::within(&dir.path().join("lab").join("a"));
    let held = a.clone();
    let key = held.shown().public_key().unwrap();
    assert_eq!(held.shown().key(), Some(key.fingerprint()));
    let renewed = |life| authority.sign_for("a", &["10.0.0.1".into()], &key, life).unwrap();
    a.replace_certificate(&files, &renewed(Duration::from_secs(3600))).unwrap();
    assert!((3590..=3600).contains(&left(&held)), "all clones have it");
    assert!((3590..=3600).contains(&held.life().as_secs()), "{:?}", held.life());
    assert_eq!(held.shown().hosts(), ["localhost", "127.0.0.1", "::1", "10.0.0.1"]);
    let (caller, answerer) = meet(&held, b.name(), &b);
    caller.unwrap();
    let ends = answerer.unwrap().ends().unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(ends < Duration::from_secs(3601), "the other end sees it");
    assert!((3590..=3600).contains(&left(&Identity::load(a.name(), &files).unwrap())), "it is on the disk");
    assert_eq!(std::fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);

    // What nobody would believe takes no place, in memory or on the disk.
    let before = std::fs::read(&files.certificate).unwrap();
    let stranger = Authority::create("lab").unwrap();
    for bad in [
        String::new(),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
        authority.sign("b", &[], &key).unwrap(),
        authority.sign("a", &[], &NodeKey::generate().unwrap().public()).unwrap(),
        stranger.sign("a", &[], &key).unwrap(),
    ] {
        a.replace_certificate(&files, &bad).unwrap_err();
        assert!((3590..=3600).contains(&left(&a)));
        assert_eq!(std::fs::read(&files.certificate).unwrap(), before);
        assert_eq!(std::fs::read_dir(dir.path().join("lab").join("a")).unwrap().count(), 3);
    }
}

/// A daemon can be killed at any moment: whatever is on the disk then, it comes up with, and renews again.
#[test]
fn every_state_of_a_renewal_that_was_cut_off_is_an_identity() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let a = equip(&authority, dir.path(), "lab", "a");
    let files = Files::within(&dir.path().join("lab").join("a"));
    let new = files.certificate.with_file_name("node.pem.new");
    let key = a.shown().public_key().unwrap();
    let renewed = authority.sign_for("a", &[], &key, Duration::from_secs(3600)).unwrap();
    for written in (0..=renewed.len()).step_by(renewed.len() / 4) {
        std::fs::write(&new, &renewed[..written]).unwrap();
        let started = Identity::load(a.name(), &files).unwrap();
        assert!(left(&started) > 3600, "the old one");
    }
    std::fs::write(&new, &renewed).unwrap();
    std::fs::rename(&new, &files.certificate).unwrap();
    assert!(left(&Identity::load(a.name(), &files).unwrap()) <= 3600, "the new one");
    std::fs::write(&new, "half").unwrap();
    let started = Identity::load(a.name(), &files).unwrap();
    started.replace_certificate(&files, &authority.sign("a", &[], &key).unwrap()).unwrap();
    assert!(left(&started) > 3600 && !new.exists());
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let a = equip(&authority, dir.path(), "lab", "a");
    let files = Files::within(&dir.path().join("lab").join("a"));
    let other = Files::within(&dir.path().join("other"));
    authority.equip_for("a", &[], &other, Duration::from_secs(3600)).unwrap();
    // As somebody copies them, one after the other.
    std::fs::copy(&other.certificate, &files.certificate).unwrap();
    let error = a.reload(&files).unwrap_err().to_string();
    assert!(error.contains("node.key") && error.contains("not the key of"), "{error}");
    assert!(left(&a) > 3600, "the old ones are in use");
    std::fs::copy(&other.key, &files.key).unwrap();
    a.reload(&files).unwrap();
    assert!(left(&a) <= 3600);
    let years =
        a.authority_ends().unwrap().duration_since(SystemTime::now()).unwrap().as_secs() / 86_400 / 365;
    assert!((19..=20).contains(&years), "{years}");
}

#[test]
fn a_key_that_is_kept_is_the_same_when_it_is_wanted_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state").join("joining.key");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file.with_file_name("joining.key.new"), "half").unwrap();
    let key = NodeKey::kept(&file).unwrap().public();
    assert_eq!(NodeKey::kept(&file).unwrap().public(), key);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&file, "no key").unwrap();
    assert!(NodeKey::kept(&file).err().unwrap().to_string().contains("remove it"));
}

#[test]
fn a_revoked_certificate_opens_no_connection_between_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let (a, b) = (equip(&authority, dir.path(), "lab", "a"), equip(&authority, dir.path(), "lab", "b"));
    let key = a.shown().key().unwrap();
    b.clone().revoke([key].into());
    assert!(b.has_revoked(&key));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(b.revoked(&key));
    runtime.block_on(async {
        for (caller, answerer) in [(&a, &b), (&b, &a)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (called, answered) =
                tokio::join!(connect(stream, caller, Purpose::Peer, answerer.name()), async {
                    accept(listener.accept().await.unwrap().0, answerer, &[Purpose::Peer]).await
                });
            let by_b = if std::ptr::eq(caller, &a) { answered.err() } else { called.err() };
            assert!(matches!(by_b, Some(HandshakeError::Revoked { .. })), "{by_b:?}");
        }
    });
    b.revoke([].into());
    let (caller, answerer) = meet(&a, b.name(), &b);
    caller.unwrap();
    answerer.unwrap();
}

/// The kind of the key in a file, and the version of its PKCS #8.
fn kind(file: &Path) -> (&'static rcgen::SignatureAlgorithm, u8) {
    let pair = rcgen::KeyPair::from_pem(&std::fs::read_to_string(file).unwrap()).unwrap();
    // SEQUENCE, INTEGER of one byte, both shorter than 128 or 256 bytes.
    let der = pair.serialize_der();
    let version = if der[1] < 0x80 { der[4] } else { der[5] };
    (rcgen::PublicKeyData::algorithm(&pair), version)
}

#[test]
fn new_keys_are_ones_that_every_browser_and_library_reads() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let authority = Authority::create("lab").unwrap();
    authority.save(&file("authority.pem"), &file("authority.key")).unwrap();
    let files = Files::within(&file("n1"));
    authority.equip("n1", &[], &files).unwrap();
    NodeKey::kept(&file("joining.key")).unwrap();
    for key in [file("authority.key"), files.key, file("joining.key")] {
        assert_eq!(kind(&key), (&rcgen::PKCS_ECDSA_P256_SHA256, 0), "{}", key.display());
    }
}

/// An authority and the key of a node as earlier releases have made them.
fn earlier(dir: &Path) -> (Authority, NodeKey) {
    let old = |name: &str| {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let file = dir.join(name);
        std::fs::write(&file, pair.serialize_pem()).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(kind(&file), (&rcgen::PKCS_ED25519, 1));
        (file, pair)
    };
    let (key, pair) = old("authority.key");
    let mut params = rcgen::CertificateParams::new([]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "CARDs authority of cluster lab");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    params.not_after = (SystemTime::now() + Duration::from_secs(20 * 365 * 86_400)).into();
    let certificate = dir.join("authority.pem");
    std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    let node = NodeKey::kept(&old("joining.key").0).unwrap();
    (Authority::load("lab", &certificate, &key).unwrap(), node)
}

/// Its authority signs for keys of both kinds, and so does a new one.
#[test]
fn a_cluster_of_an_earlier_release_works_on_and_takes_new_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, key) = earlier(dir.path());
    let new = Authority::create("lab").unwrap();
    for (number, authority) in [authority, new].into_iter().enumerate() {
        let dir = dir.path().join(number.to_string());
        let files = Files::within(&dir.join("lab").join("a"));
        let certificate = authority.sign("a", &[], &key.public()).unwrap();
        files.write(&key, &certificate, authority.certificate()).unwrap();
        let a = Identity::load(&Name::new("lab", "a"), &files).unwrap();
        assert!(matches!(a.shown().public_key(), Some(PublicKey::Ed25519(_))));
        let b = equip(&authority, &dir, "lab", "b");
        assert!(matches!(b.shown().public_key(), Some(PublicKey::P256(_))));
        for (caller, answerer) in [(&a, &b), (&b, &a)] {
            let (called, answered) = meet(caller, answerer.name(), answerer);
            called.unwrap();
            assert!(answered.unwrap().is(caller.name()));
        }
        // A renewal keeps the key, of whichever kind.
        for (identity, node) in [(a, "a"), (b, "b")] {
            let own = identity.shown().public_key().unwrap();
            let renewed = authority.sign_for(node, &[], &own, Duration::from_secs(3600)).unwrap();
            let files = Files::within(&dir.join("lab").join(node));
            identity.replace_certificate(&files, &renewed).unwrap();
            assert_eq!(identity.shown().public_key(), Some(own));
        }
    }
}

#[test]
fn a_public_key_is_read_back_from_its_bytes_only() {
    let new = NodeKey::generate().unwrap().public();
    let old = PublicKey::Ed25519([7; 32]);
    for key in [new, old] {
        assert_eq!(PublicKey::from_bytes(key.bytes()), Some(key));
    }
    for bad in [&[][..], &[4; 33], &[3; 65], &[0; 65], &new.bytes()[..64]] {
        assert_eq!(PublicKey::from_bytes(bad), None, "{bad:?}");
    }
}

/// Browsers refuse two certificates of one authority with one number.
#[test]
fn no_two_certificates_have_one_serial_number() {
    let authority = Authority::create("lab").unwrap();
    let key = NodeKey::generate().unwrap().public();
    let number = || {
        let signed = authority.sign("a", &[], &key).unwrap();
        let signed = CertificateDer::from_pem_slice(signed.as_bytes()).unwrap();
        webpki::EndEntityCert::try_from(&signed).unwrap().serial().to_vec()
    };
    let (one, two) = (number(), number());
    assert!(one != two && one.len() <= 20 && one[0] < 0x80, "{one:02x?} {two:02x?}");
}
