//! Machines that become nodes: over a real socket, with the keeper of a registry at the other end.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cards_coordinator::{
    AdmitError, Change, Grant, Local, NotAdmitted, Office, Refusal, Remote, RemoteConfig, RemoteError, Token,
    Tokens, Visit, WallClock, admit, serve,
};
use cards_tls::{
    Authority, Files, Fingerprint, Identity, Name, NodeKey, Proven, PublicKey, Purpose, Shown, Wire,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::common::{alone, join, seat, terms, visits};

/// A keeper with the cluster's authority.
struct Keeper {
    address: SocketAddr,
    registry: Local,
    authority: Fingerprint,
    tokens: Tokens,
    dir: TempDir,
}

fn keeper_name() -> Name {
    Name::new("lab", "n1")
}

async fn keeper() -> Keeper {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("authority");
    let authority = Authority::create("lab").unwrap();
    cards_tls::place(&at, |at| authority.save(&at.join("authority.pem"), &at.join("authority.key"))).unwrap();
    let files = Files::within(&dir.path().join("identity"));
    authority.equip("n1", &[], &files).unwrap();
    let identity = Identity::load(&keeper_name(), &files).unwrap();
    let office = Office::open(&at, &identity).unwrap();
    assert!(office.is_some());
    let registry = Local::found(alone(&dir.path().join("registry")), &terms(300)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let visits = visits(listener, Some(identity.clone()));
    tokio::spawn(serve(
        visits,
        registry.clone(),
        Some(identity),
        office,
        Some(keeper_name()),
        std::future::pending(),
    ));
    Keeper { address, registry, authority: authority.fingerprint(), tokens: Tokens::within(&at), dir }
}

impl Keeper {
    fn token(&self, uses: u32) -> Token {
        self.made(Grant { uses, life: Duration::from_secs(3600), rejoin: None })
    }

    fn made(&self, grant: Grant) -> Token {
        self.tokens.make(self.authority, grant).unwrap().0
    }

    /// A machine that has got its certificate.
    async fn admits(&self, token: &Token, node: &str) -> Result<Identity, AdmitError> {
        let key = NodeKey::generate().unwrap();
        let address = self.address.to_string();
        let admission = admit(&address, &keeper_name(), token, node, &[], &key.public()).await?;
        let files = Files::within(&self.dir.path().join("nodes").join(node));
        let _ = std::fs::remove_dir_all(files.key.parent().unwrap());
        files.write(&key, &admission.certificate, &admission.authority).unwrap();
        Ok(Identity::load(&Name::new("lab", node), &files).unwrap())
    }

    async fn refuses(&self, token: &Token, node: &str) -> NotAdmitted {
        match self.admits(token, node).await {
            Err(AdmitError::NotAdmitted(why)) => why,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("{node} is admitted"),
        }
    }

    async fn remote(&self, identity: Identity) -> Remote {
        let mut config = RemoteConfig::new(&self.address.to_string(), "lab");
        config.identity = Some((identity, keeper_name()));
        Remote::open(config).await.unwrap()
    }

    fn uses(&self, token: &Token) -> u32 {
        let all = self.tokens.list().unwrap();
        all.iter().find(|granted| granted.id == token.id).unwrap().uses
    }
}

#[tokio::test]
async fn a_machine_with_a_token_becomes_a_node_and_the_next_one_does_not() {
    let keeper = keeper().await;
    let token: Token = keeper.token(1).to_string().parse().unwrap();
    let identity = keeper.admits(&token, "n2").await.unwrap();
    let remote = keeper.remote(identity).await;
    remote.submit(Change::Join(join("n2", 1, WallClock::now()))).await.unwrap();
    assert!(remote.view().await.unwrap().members.contains_key("n2"));
    // It is that node, and no other.
    let error = remote.submit(Change::Join(join("n3", 1, WallClock::now()))).await.unwrap_err().to_string();
    assert!(error.contains("not one of node `n3`"), "{error}");
    assert_eq!(keeper.refuses(&token, "n3").await, NotAdmitted::UsedUp { token: token.id });
}

/// Its connection makes way in the moment in which its token is used, as a crowd of others at the port can have it.
#[tokio::test]
async fn who_has_to_go_while_it_is_signed_for_has_not_lost_its_token() {
    let keeper = keeper().await;
    let token = keeper.token(1);
    let files = Files::within(&keeper.dir.path().join("identity"));
    let identity = Identity::load(&keeper_name(), &files).unwrap();
    let office = Office::open(&keeper.dir.path().join("authority"), &identity).unwrap();
    let (bring, visits) = mpsc::channel(1);
    let registry = keeper.registry.clone();
    tokio::spawn(serve(
        visits,
        registry,
        Some(identity.clone()),
        office,
        Some(keeper_name()),
        std::future::pending(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tokens, id) = (keeper.tokens.clone(), token.id);
    tokio::spawn(async move {
        for is_first in [true, false] {
            let (stream, tokens) = (listener.accept().await.unwrap().0, tokens.clone());
            let Proven { wire, .. } = cards_tls::accept(stream, &identity, &[Purpose::Join]).await.unwrap();
            let has_to_go = async move {
                let is_used = || tokens.list().unwrap().iter().any(|known| known.id == id && known.uses == 0);
                while !is_first || !is_used() {
                    tokio::task::yield_now().await;
                }
            };
            let visit = Visit::of_machine(wire.set_adrift().unwrap(), has_to_go);
            bring.send(visit).await.unwrap_or_else(|_| panic!("it is served"));
        }
    });
    let key = NodeKey::generate().unwrap().public();
    let first = admit(&address, &keeper_name(), &token, "n2", &[], &key).await;
    assert!(matches!(first, Err(AdmitError::Unanswered(_))));
    admit(&address, &keeper_name(), &token, "n2", &[], &key).await.unwrap();
}

#[tokio::test]
async fn nobody_gets_the_name_of_another() {
    let keeper = keeper().await;
    let token = keeper.token(9);
    let joins = |incarnation| Change::Join(join("n2", incarnation, WallClock::now()));
    keeper.registry.submit(joins(1)).await.unwrap();
    let again = Grant { uses: 1, life: Duration::from_secs(60), rejoin: Some("n2".into()) };
    let again = keeper.made(again);
    assert!(matches!(keeper.refuses(&token, "n2").await, NotAdmitted::NameInUse { .. }));
    assert!(matches!(keeper.refuses(&again, "n2").await, NotAdmitted::NameInUse { .. }));
    assert!(matches!(keeper.refuses(&token, "n1").await, NotAdmitted::KeepersName { .. }));
    for name in ["", "a/b", "\u{e9}", &"a".repeat(64)] {
        assert!(matches!(keeper.refuses(&token, name).await, NotAdmitted::BadName { .. }), "{name}");
    }

    // It is dead after its lease, or has left: the name is still its own.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let why = keeper.refuses(&token, "n2").await;
    assert!(why.to_string().contains("--rejoin n2"), "{why}");
    keeper.registry.submit(joins(2)).await.unwrap();
    let seat = seat("n2", 2);
    keeper.registry.submit(Change::Leave { seat: seat.clone() }).await.unwrap();
    assert!(matches!(keeper.refuses(&again, "n2").await, NotAdmitted::NameInUse { .. }), "it is leaving");
    keeper.registry.submit(Change::Left { seat }).await.unwrap();
    assert!(matches!(keeper.refuses(&token, "n2").await, NotAdmitted::NameTaken { .. }));
    assert_eq!((keeper.uses(&token), keeper.uses(&again)), (9, 1), "a refusal costs no use");
    keeper.admits(&again, "n2").await.unwrap();
    assert_eq!(keeper.uses(&again), 0);
}

#[tokio::test]
async fn a_token_that_somebody_has_changed_is_not_sent() {
    let keeper = keeper().await;
    let token = keeper.token(1);
    let mut tampered = token.clone();
    tampered.authority.0[0] ^= 1;
    let error = keeper.admits(&tampered, "n2").await.unwrap_err();
    assert!(matches!(error, AdmitError::Remote(RemoteError::Stranger { .. })), "{error}");
    let wrong: Token = {
        let mut text = keeper.token(1).to_string();
        let other = if text.as_bytes()[15] == b'A' { "B" } else { "A" };
        text.replace_range(15..16, other);
        text.parse().unwrap()
    };
    assert!(matches!(keeper.refuses(&wrong, "n2").await, NotAdmitted::UnknownToken { .. }));
    assert_eq!(keeper.uses(&token), 1);
}

/// What the keeper answers to these bytes.
async fn heard(mut wire: Wire, request: &str) -> String {
    wire.write_all(request.as_bytes()).await.unwrap();
    wire.flush().await.unwrap();
    let mut answer = Vec::new();
    drop(wire.read_to_end(&mut answer).await);
    String::from_utf8(answer).unwrap()
}

fn request(line: &str, body: &str) -> String {
    let length = body.len();
    format!("{line} HTTP/1.1\r\nhost: x\r\ncards-cluster: lab\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn who_is_no_node_yet_cannot_read_the_registry() {
    let keeper = keeper().await;
    keeper.registry.submit(Change::Join(join("hidden", 1, WallClock::now()))).await.unwrap();
    let submit = r#"{"change":"expire"}"#;
    for (line, body) in [
        ("GET /v1/coordinator/view", ""),
        ("GET /v1/coordinator/changed?after=0", ""),
        ("POST /v1/coordinator/submit", submit),
        ("GET /", ""),
    ] {
        let stream = TcpStream::connect(keeper.address).await.unwrap();
        let wire = cards_tls::connect_to_join(stream, &keeper.authority, &keeper_name()).await.unwrap();
        // The second request of a connection is not even answered.
        let answer = heard(wire, &request(line, body).repeat(2)).await;
        assert!(answer.starts_with("HTTP/1.1 404 ") && !answer.contains("hidden"), "{line}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{line}: {answer}");
    }
    let long = request("POST /v1/coordinator/sign", &"x".repeat(5000));
    for (asked, status) in [
        (request("POST /v1/coordinator/sign", "{}"), 400),
        (
            request("POST /v1/coordinator/sign", r#"{"token":"00000000","secret":"","node":"n2","key":""}"#),
            400,
        ),
        (request("GET /v1/coordinator/sign", ""), 405),
        (long, 413),
    ] {
        let stream = TcpStream::connect(keeper.address).await.unwrap();
        let wire = cards_tls::connect_to_join(stream, &keeper.authority, &keeper_name()).await.unwrap();
        let answer = heard(wire, &asked).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{asked:.60}: {answer}");
    }
}

#[tokio::test]
async fn a_node_gets_no_certificate_for_another() {
    let keeper = keeper().await;
    let token = keeper.token(2);
    let identity = keeper.admits(&token, "n2").await.unwrap();
    let stream = TcpStream::connect(keeper.address).await.unwrap();
    let proven = cards_tls::connect(stream, &identity, Purpose::Registry, &keeper_name()).await.unwrap();
    let asked =
        request("POST /v1/coordinator/sign", "{}").replace("host: x\r\n", "host: x\r\nconnection: close\r\n");
    let answer = heard(proven.wire, &asked).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[test]
fn a_keeper_without_the_key_signs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (authority, other) = (Authority::create("lab").unwrap(), Authority::create("lab").unwrap());
    let files = Files::within(Path::new(&file("identity")));
    authority.equip("n1", &[], &files).unwrap();
    let identity = Identity::load(&keeper_name(), &files).unwrap();
    assert!(Office::open(dir.path(), &identity).unwrap().is_none());
    other.save(&file("authority.pem"), &file("authority.key")).unwrap();
    let error = Office::open(dir.path(), &identity).unwrap_err().to_string();
    assert!(error.contains("of another authority"), "{error}");
}

/// A machine's own key, and what it gets for it.
async fn asks(keeper: &Keeper, token: &Token, node: &str, key: &NodeKey) -> Result<(), AdmitError> {
    let address = keeper.address.to_string();
    admit(&address, &keeper_name(), token, node, &[], &key.public()).await.map(drop)
}

fn refusal(asked: Result<(), AdmitError>) -> NotAdmitted {
    match asked {
        Err(AdmitError::NotAdmitted(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_name_is_one_machines_from_its_certificate_on() {
    let keeper = keeper().await;
    let token = keeper.token(1);
    let (one, two) = (NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    asks(&keeper, &token, "n2", &one).await.unwrap();
    // It has crashed before it had the answer on its disk.
    asks(&keeper, &token, "n2", &one).await.unwrap();
    assert_eq!(keeper.uses(&token), 0);
    assert!(matches!(refusal(asks(&keeper, &token, "n2", &two).await), NotAdmitted::UsedUp { .. }));
    assert!(matches!(refusal(asks(&keeper, &token, "n3", &one).await), NotAdmitted::UsedUp { .. }));

    let token = keeper.token(3);
    let why = refusal(asks(&keeper, &token, "n2", &two).await);
    assert!(why.to_string().contains("cards forget n2") && why.to_string().contains("--node"), "{why}");
    let why = refusal(asks(&keeper, &token, "n3", &one).await);
    assert!(matches!(why, NotAdmitted::KeyKnown { .. }) && why.to_string().contains("joining.key"), "{why}");
    assert_eq!(keeper.uses(&token), 3, "a refusal costs no use");

    keeper.registry.submit(Change::Forget { name: "n2".into() }).await.unwrap();
    assert!(matches!(refusal(asks(&keeper, &token, "n2", &one).await), NotAdmitted::KeyKnown { .. }));
    asks(&keeper, &token, "n2", &two).await.unwrap();
    assert_eq!(keeper.uses(&token), 2);

    // The machine has lost its key, and has never been a member.
    let again = Grant { uses: 1, life: Duration::from_secs(60), rejoin: Some("n2".into()) };
    asks(&keeper, &keeper.made(again), "n2", &NodeKey::generate().unwrap()).await.unwrap();
    let revoked = keeper.registry.view().await.unwrap().revoked();
    assert_eq!(revoked, [one.public().fingerprint(), two.public().fingerprint()].into());
}

/// Machines with an earlier release have keys of Ed25519.
#[tokio::test]
async fn the_keeper_signs_for_keys_of_both_kinds() {
    let keeper = keeper().await;
    let new = NodeKey::generate().unwrap().public();
    for (node, key) in [("n2", new), ("n3", PublicKey::Ed25519([7; 32]))] {
        let address = keeper.address.to_string();
        let admission = admit(&address, &keeper_name(), &keeper.token(1), node, &[], &key).await.unwrap();
        assert_eq!(Shown::in_pem(&admission.certificate).unwrap().public_key(), Some(key));
    }
}

#[tokio::test]
async fn a_node_renews_its_own_certificate_and_no_other() {
    let keeper = keeper().await;
    let identity = keeper.admits(&keeper.token(1), "n2").await.unwrap();
    let remote = keeper.remote(identity.clone()).await;
    let renewed = remote.renew_certificate("n2").await.unwrap();
    let files = Files::within(&keeper.dir.path().join("nodes").join("n2"));
    let key = identity.shown().key();
    let mut last = 0;
    identity.replace_certificate(&files, &renewed).unwrap();
    assert_eq!(identity.shown().key(), key);
    assert_eq!(identity.shown().hosts(), ["localhost", "127.0.0.1", "::1"]);
    assert_eq!(keeper.registry.view().await.unwrap().certificates.len(), 1);

    // It has another address since it was signed for: the new certificate has that, beside what was there.
    for address in ["10.9.0.2:7400", "10.9.0.2:7401", "0.0.0.0:7400", "n9.lab.cards:7400"] {
        let number = keeper.registry.view().await.unwrap().revision.0 + 1;
        let mut join = join("n2", number, WallClock::now());
        (join.address, join.succeeds) = (address.into(), Some(cards_coordinator::Incarnation(last)));
        last = number;
        // As after a restart: what counts is what a connection has shown when it began.
        let remote = keeper.remote(identity.clone()).await;
        remote.submit(Change::Join(join)).await.unwrap();
        identity.replace_certificate(&files, &remote.renew_certificate("n2").await.unwrap()).unwrap();
        assert_eq!(identity.shown().hosts(), ["localhost", "127.0.0.1", "::1", "10.9.0.2"], "{address}");
    }

    for node in ["n1", "n3", "n2x", ""] {
        let error = remote.renew_certificate(node).await.unwrap_err().to_string();
        assert!(error.contains("403") && error.contains("not one of node"), "{error}");
    }
    for (body, status) in [
        (String::new(), 400),
        ("{}".into(), 400),
        (r#"{"node":"n2","key":"x"}"#.into(), 400),
        ("\u{0}\u{ff}".into(), 400),
        (format!(r#"{{"node":"{}"}}"#, "x".repeat(5000)), 413),
    ] {
        let stream = TcpStream::connect(keeper.address).await.unwrap();
        let proven = cards_tls::connect(stream, &identity, Purpose::Registry, &keeper_name()).await.unwrap();
        let asked = request("POST /v1/coordinator/renew", &body)
            .replace("host: x\r\n", "host: x\r\nconnection: close\r\n");
        let answer = heard(proven.wire, &asked).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{body:.60}: {answer}");
    }
    let certify = Change::Certify {
        certificate: cards_coordinator::Certificate {
            name: "n2.lab.cards".into(),
            key: Fingerprint([7; 32]),
            ends: u64::MAX,
            revoked: false,
        },
        alone: true,
    };
    let error = remote.submit(certify).await.unwrap_err().to_string();
    assert!(error.contains("403"), "{error}");
}

#[tokio::test]
async fn whoever_is_forgotten_gets_nothing_but_the_reason() {
    let keeper = keeper().await;
    let identity = keeper.admits(&keeper.token(1), "n2").await.unwrap();
    let other = keeper.admits(&keeper.token(1), "n3").await.unwrap();
    let (remote, other) = (keeper.remote(identity.clone()).await, keeper.remote(other).await);
    let joins = |incarnation| Change::Join(join("n2", incarnation, WallClock::now()));
    remote.submit(joins(1)).await.unwrap();
    let mut revision = remote.view().await.unwrap().revision;
    let waits = tokio::spawn({
        let remote = remote.clone();
        async move {
            loop {
                match remote.changed(revision).await {
                    Ok(view) => revision = view.revision,
                    Err(error) => return error,
                }
            }
        }
    });
    // It is dead when its lease has ended.
    while let Err(error) = other.submit(Change::Forget { name: "n2".into() }).await {
        assert!(matches!(error.refusal(), Some(Refusal::StillLive { .. })), "{error}");
        tokio::task::yield_now().await;
    }
    // Its open connection ends, and the next one has the reason for all that it asks for.
    let errors = [
        waits.await.unwrap(),
        remote.submit(joins(2)).await.unwrap_err(),
        remote.view().await.unwrap_err(),
        remote.renew_certificate("n2").await.unwrap_err(),
    ];
    for error in errors {
        let refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
        assert!(matches!(refusal, Refusal::Revoked { .. }), "{refusal}");
        assert!(refusal.to_string().contains("cards cluster token"), "{refusal}");
    }
    assert!(other.view().await.unwrap().members.is_empty());
    // With a new key, by a token, it is a member again.
    let again = keeper.admits(&keeper.token(1), "n2").await.unwrap();
    keeper.remote(again).await.submit(joins(3)).await.unwrap();
}
