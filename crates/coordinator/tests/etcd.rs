//! The registry in a real etcd on loopback. Without the `etcd` binary (Debian: `etcd-server`) each test says so and
//! passes.

pub(crate) mod cluster;

use std::time::Duration;

use cards_coordinator::{
    AttachMode, Coordinator, Error, Etcd, EtcdConfig, EtcdError, Incarnation, Join, Login, MemberState,
    Refusal, Terms, TlsFiles, WallClock,
};

use crate::common::{join, seat, volume};
use crate::proxy::Proxy;
use cluster::{Cluster, missing};

fn terms() -> Terms {
    Terms { lease: Duration::from_secs(2), ..Terms::new("lab") }
}

fn etcd_error(error: Error) -> EtcdError {
    match error {
        Error::Etcd(error) => error,
        other => panic!("{other}"),
    }
}

async fn created(config: &EtcdConfig) -> Coordinator {
    Coordinator::Etcd(Etcd::create(config, &terms()).await.unwrap())
}

async fn opened(config: &EtcdConfig) -> Coordinator {
    Coordinator::Etcd(Etcd::open(config, "lab").await.unwrap())
}

#[tokio::test]
async fn the_same_registry_as_in_a_file() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let none = etcd_error(Etcd::open(&cluster.config(), "lab").await.unwrap_err());
    assert!(matches!(none, EtcdError::NoRegistry { .. }), "{none}");
    let home = created(&cluster.config()).await;
    let exists = etcd_error(Etcd::create(&cluster.config(), &terms()).await.unwrap_err());
    assert!(matches!(exists, EtcdError::Exists { .. }), "{exists}");

    let (a, b) = (seat("a", 1), seat("b", 1));
    let joined = home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert_eq!((joined.applied.id, joined.applied.epoch.0), (Some(0), 1));
    let again = home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert!(!again.applied.changed, "a join whose answer was lost is repeated");
    home.put_disk(&a, "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    home.attach(&a, "v", AttachMode::Exclusive).await.unwrap();
    home.renew(&a, WallClock::now()).await.unwrap();

    // Another node, with its own connection, sees and obeys the same.
    let other = opened(&cluster.config()).await;
    assert_eq!(other.view().await.unwrap(), home.view().await.unwrap());
    let taken = other.join(join("a", 2, WallClock::now())).await.unwrap_err();
    assert!(matches!(taken.refusal(), Some(Refusal::NameInUse { .. })), "{taken}");
    let hours = WallClock(WallClock::now().0 - 5 * 3_600_000);
    let off = other.join(join("b", 1, hours)).await.unwrap_err();
    assert!(matches!(off.refusal(), Some(Refusal::ClockOff { .. })), "{off}");
    other.join(join("b", 1, WallClock::now())).await.unwrap();
    let told = other.renew(&b, hours).await.unwrap().applied.coordinator_clock;
    assert!(told.is_some_and(|clock| clock > hours), "{told:?}");
    assert_eq!(other.renew(&b, WallClock::now()).await.unwrap().applied.coordinator_clock, None);
    let held = other.attach(&b, "v", AttachMode::Rw).await.unwrap_err();
    assert!(matches!(held.refusal(), Some(Refusal::AttachConflict { .. })), "{held}");
    let unknown = other.set_policy("w", "none").await.unwrap_err();
    assert!(matches!(unknown.refusal(), Some(Refusal::UnknownVolume { .. })), "{unknown}");
    home.detach(&a, "v").await.unwrap();
    other.leave(&b).await.unwrap();
    other.left(&b).await.unwrap();
    let left = other.renew(&b, WallClock::now()).await.unwrap_err();
    assert!(matches!(left.refusal(), Some(Refusal::HasLeft { .. })), "{left}");
    home.renew(&a, WallClock::now()).await.unwrap();
    let view = home.view().await.unwrap();
    assert_eq!((view.epoch.0, view.members["b"].state), (4, MemberState::Left));
    assert!(cluster.keys_under("/cards/lab/").iter().all(|key| key != "/cards/lab/lease/b"));

    // The waiter is woken by the change of another node.
    let waiter = tokio::spawn({
        let home = home.clone();
        async move { home.changed(view.revision).await }
    });
    other.set_policy("v", "none").await.unwrap();
    let woken = waiter.await.unwrap().unwrap();
    assert_eq!(woken.volumes["v"].policy, "none");
}

#[tokio::test]
async fn a_node_that_restarts_with_proof_takes_over_its_own_life_and_keeps_the_lease() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let home = created(&cluster.config()).await;
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    home.put_disk(&seat("a", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    home.attach(&seat("a", 1), "v", AttachMode::Exclusive).await.unwrap();
    let next = Join { succeeds: Some(Incarnation(1)), ..join("a", 2, WallClock::now()) };
    let joined = home.join(next).await.unwrap();
    assert_eq!((joined.applied.id, joined.applied.epoch.0), (Some(0), 2));
    let late = home.renew(&seat("a", 1), WallClock::now()).await.unwrap_err();
    assert!(matches!(late.refusal(), Some(Refusal::NameTaken { .. })), "{late}");
    // Longer than the lease of the earlier life would have lasted.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        home.renew(&seat("a", 2), WallClock::now()).await.unwrap();
    }
    let view = home.view().await.unwrap();
    assert_eq!((view.epoch.0, view.attachments.len(), view.disks.len()), (2, 0, 1));
}

#[tokio::test]
async fn a_join_whose_answer_is_lost_on_the_way_keeps_its_lease() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    drop(created(&cluster.config()).await);
    let direct = &cluster.config().endpoints[0];
    let proxy = Proxy::before(direct.strip_prefix("http://").unwrap().parse().unwrap()).await;
    let config = EtcdConfig { endpoints: vec![format!("http://{}", proxy.address)], ..cluster.config() };
    let home = opened(&config).await;
    proxy.cut("POST /v3/kv/txn", true, || {});
    let joined = home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert!(proxy.is_cut());
    assert_eq!(joined.applied.epoch.0, 1);
    home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
}

#[tokio::test]
async fn a_node_that_stops_to_renew_is_dead_and_a_paused_one_is_told_so() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let home = created(&cluster.config()).await;
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    home.join(join("b", 1, WallClock::now())).await.unwrap();
    home.put_disk(&seat("b", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    let start = home.attach(&seat("b", 1), "v", AttachMode::Exclusive).await.unwrap();
    // `a` goes on renewing, `b` is silent.
    let renewing = tokio::spawn({
        let home = home.clone();
        async move {
            loop {
                home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
        }
    });
    let view = home.changed(start.revision).await.unwrap();
    assert_eq!(view.members["b"].state, MemberState::Dead);
    assert_eq!(view.members["a"].state, MemberState::Joined);
    assert_eq!((view.epoch.0, view.attachments.len()), (3, 0));
    // It wakes up: its lease is no protection, but every answer tells it, and its epoch is old.
    let paused = home.renew(&seat("b", 1), WallClock::now()).await.unwrap_err();
    assert!(matches!(paused.refusal(), Some(Refusal::LeaseEnded { .. })), "{paused}");
    let paused = home.attach(&seat("b", 1), "v", AttachMode::Rw).await.unwrap_err();
    assert!(matches!(paused.refusal(), Some(Refusal::LeaseEnded { .. })), "{paused}");
    home.attach(&seat("a", 1), "v", AttachMode::Exclusive).await.unwrap();
    let back = home.join(join("b", 2, WallClock::now())).await.unwrap();
    assert_eq!((back.applied.epoch.0, back.applied.id), (4, Some(1)));
    renewing.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_of_which_one_is_killed_lose_no_change() {
    if missing("etcd") {
        return;
    }
    let mut cluster = Cluster::start(3, &[]);
    // Long leases: an election under load is no death here.
    let terms = Terms { lease: Duration::from_secs(60), ..terms() };
    let home = Coordinator::Etcd(Etcd::create(&cluster.config(), &terms).await.unwrap());
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    home.put_disk(&seat("a", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    let before = home.view().await.unwrap();

    // Three nodes change the registry as fast as they can, each over its own connections; all keep node `a` alive.
    let mut writers = Vec::new();
    for writer in 0..3 {
        let config = cluster.config_from(writer);
        writers.push(tokio::spawn(async move {
            let home = opened(&config).await;
            let mut revisions = Vec::new();
            for turn in 0..40 {
                home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
                let applied = home.set_policy("v", &format!("writer {writer} turn {turn}")).await.unwrap();
                if applied.changed {
                    revisions.push(applied.revision);
                }
            }
            revisions
        }));
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    cluster.kill(0);
    let mut revisions = Vec::new();
    for writer in writers {
        revisions.extend(writer.await.unwrap());
    }
    let after = home.view().await.unwrap();
    let acknowledged = revisions.len() as u64;
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len() as u64, acknowledged, "no revision was given out twice");
    // A change whose answer was lost with the killed member is found made when it is repeated; or it is made again,
    // if another writer has undone it by then. Each writer had at most one on its way.
    let made = after.revision.0 - before.revision.0;
    assert!((acknowledged..=120 + 3).contains(&made), "{made} made, {acknowledged} acknowledged");
    assert!(acknowledged >= 60, "{acknowledged}");
    assert_eq!(after.epoch, before.epoch, "nobody died");

    // Without a majority nothing is answered, and it is said why; with it everything goes on.
    cluster.kill(1);
    let hurried = EtcdConfig { patience: Duration::from_secs(3), ..cluster.config() };
    let alone = etcd_error(Etcd::open(&hurried, "lab").await.unwrap_err());
    assert!(matches!(alone, EtcdError::Slow { .. } | EtcdError::NoQuorum { .. }), "{alone}");
    cluster.restart(1);
    assert_eq!(home.view().await.unwrap().volumes, after.volumes);
}

#[tokio::test]
async fn an_etcd_that_hangs_is_slow_and_answers_again_when_it_goes_on() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let config = EtcdConfig {
        request_timeout: Duration::from_millis(300),
        patience: Duration::from_millis(800),
        ..cluster.config()
    };
    created(&cluster.config()).await.join(join("a", 1, WallClock::now())).await.unwrap();
    let home = opened(&config).await;
    cluster.signal(0, libc::SIGSTOP);
    let slow = etcd_error(home.view().await.unwrap_err());
    assert!(matches!(slow, EtcdError::Slow { .. }), "{slow}");
    let slow = etcd_error(home.renew(&seat("a", 1), WallClock::now()).await.unwrap_err());
    assert!(matches!(slow, EtcdError::Slow { .. }), "{slow}");
    cluster.signal(0, libc::SIGCONT);
    let patient = opened(&cluster.config()).await;
    assert_eq!(patient.view().await.unwrap().members.len(), 1);
}

#[tokio::test]
async fn a_full_etcd_is_called_full_and_can_still_be_read_and_renewed() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "100000"]);
    let home = created(&cluster.config()).await;
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    home.put_disk(&seat("a", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    let mut turn = 0;
    let full = loop {
        match home.set_policy("v", &format!("{turn} ").repeat(250)).await {
            Ok(_) => turn += 1,
            Err(error) => break etcd_error(error),
        }
        home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
        assert!(turn < 2000, "it never fills");
    };
    assert!(matches!(full, EtcdError::Full { .. }), "{full}");
    assert!(full.to_string().contains("compact and defragment it"), "{full}");
    home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
    assert_eq!(home.view().await.unwrap().members["a"].state, MemberState::Joined);
}

#[tokio::test]
async fn tls_and_a_password_are_asked_for_and_given() {
    if missing("etcd") || missing("openssl") {
        return;
    }
    let cluster = Cluster::start_tls();
    let authorities = cluster.path("ca.pem");
    let with = |client, password: Option<&str>| EtcdConfig {
        endpoints: vec![cluster.https()],
        tls: Some(TlsFiles { authorities: authorities.clone(), client }),
        login: password.map(|password| Login { user: "root".into(), password: password.into() }),
        ..cluster.config()
    };
    let client = Some((cluster.path("client.pem"), cluster.path("client.key")));
    cluster.require_password("right");
    let home = created(&with(client.clone(), Some("right"))).await;
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
    let view = home.view().await.unwrap();
    let waiter = tokio::spawn({
        let home = home.clone();
        async move { home.changed(view.revision).await }
    });
    home.left(&seat("a", 1)).await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().epoch.0, 2);

    let wrong = etcd_error(Etcd::open(&with(client.clone(), Some("wrong")), "lab").await.unwrap_err());
    assert!(matches!(wrong, EtcdError::Login { .. }), "{wrong}");
    assert!(
        !format!("{wrong:?} {:?}", with(None, Some("wrong"))).contains("\"wrong\""),
        "a password is not printed"
    );
    let nobody = etcd_error(Etcd::open(&with(client, None), "lab").await.unwrap_err());
    assert!(matches!(nobody, EtcdError::Login { .. } | EtcdError::Denied { .. }), "{nobody}");
    assert!(nobody.to_string().contains("a client without user"), "{nobody}");
    let named = Some((cluster.path("node.pem"), cluster.path("node.key")));
    let named = etcd_error(Etcd::open(&with(named, Some("right")), "lab").await.unwrap_err());
    assert!(matches!(named, EtcdError::CommonName { .. }), "{named}");
    // Certificates: of an authority nobody knows, and none at all.
    let stranger = EtcdConfig {
        tls: Some(TlsFiles { authorities: cluster.path("other-ca.pem"), client: None }),
        patience: Duration::from_secs(1),
        ..with(None, Some("right"))
    };
    let untrusted = etcd_error(Etcd::open(&stranger, "lab").await.unwrap_err());
    assert!(untrusted.to_string().contains("certificate"), "{untrusted}");
    let anonymous = EtcdConfig { patience: Duration::from_secs(1), ..with(None, Some("right")) };
    let anonymous = etcd_error(Etcd::open(&anonymous, "lab").await.unwrap_err());
    assert!(matches!(anonymous, EtcdError::Unreachable { .. }), "{anonymous}");
}

#[tokio::test]
async fn a_record_changed_by_hand_is_refused_by_its_key() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let home = created(&cluster.config()).await;
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    cluster.put("/cards/lab/member/a", r#"{"name":"a"}"#);
    let damaged = etcd_error(home.view().await.unwrap_err());
    assert!(matches!(damaged, EtcdError::Damaged { .. }), "{damaged}");
    assert!(damaged.to_string().contains("key `member/a` has a value that does not parse"), "{damaged}");
}
