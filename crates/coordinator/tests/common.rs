//! What the tests share.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use cards_coordinator::{
    AttachMode, Coordinator, Epoch, Error, Incarnation, Join, Local, LocalConfig, NewGroup, Now, Opened,
    Record, Registry, RemoteConfig, Seat, Terms, ToldDisk, View, Visit, Volume, WallClock,
};
use cards_layout::format::Uuid;
use cards_tls::{HandshakeError, Identity, Proven, Purpose, Wire};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

pub(crate) const NOON: WallClock = WallClock(1_700_000_000_000);

pub(crate) fn at(ms: u64) -> Now {
    Now { mono: Duration::from_millis(ms), wall: NOON }
}

pub(crate) fn seat(name: &str, incarnation: u64) -> Seat {
    Seat { name: name.into(), incarnation: Incarnation(incarnation) }
}

/// A join of cluster `lab` at an address of the node's own.
pub(crate) fn join(name: &str, incarnation: u64, clock: WallClock) -> Join {
    Join {
        cluster: "lab".into(),
        seat: seat(name, incarnation),
        address: format!("{name}.lan:7700"),
        clock,
        seen: Epoch(0),
        succeeds: None,
    }
}

pub(crate) fn volume(name: &str, disk: &str) -> Volume {
    Volume {
        name: name.into(),
        disk: disk.into(),
        block_bytes: 65536,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive]),
    }
}

/// The UUID of a disk or volume.
pub(crate) const fn uuid(number: u8) -> Uuid {
    Uuid([number; 16])
}

/// A managed disk `d` with pieces of 1 MiB, in the domain of its node.
pub(crate) fn told_disk(number: u8, free: u64) -> ToldDisk {
    let (bytes, piece_bytes) = (1 << 30, 1 << 20);
    ToldDisk { uuid: uuid(number), name: "d".into(), bytes, free, piece_bytes, domain: None }
}

/// A volume of 4 MiB with two copies.
pub(crate) fn new_group(name: &str, number: u8) -> NewGroup {
    NewGroup {
        name: name.into(),
        uuid: uuid(number),
        bytes: 4 << 20,
        block_bytes: 65536,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive]),
        copies: 2,
        on: Vec::new(),
    }
}

/// Those of cluster `lab` with leases of so many milliseconds.
pub(crate) fn terms(lease_ms: u64) -> Terms {
    Terms { lease: Duration::from_millis(lease_ms), ..Terms::new("lab") }
}

/// An empty registry of cluster `lab` with leases of 3 s.
pub(crate) fn registry() -> Registry {
    let head = Terms::new("lab").head().unwrap();
    Registry::load([Record::Head(head)], |_, head| head.lease()).unwrap()
}

/// Makes each kind of change at a member: two members, of which one goes, a disk and a volume.
pub(crate) async fn fill(home: &Coordinator) {
    let a = seat("a", 1);
    let joined = home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert_eq!(joined.applied.id, Some(0));
    assert_eq!(joined.lease.length, Duration::from_secs(60));
    home.put_disk(&a, "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    home.set_policy("v", "none").await.unwrap();
    home.attach(&a, "v", AttachMode::Ro).await.unwrap();
    home.join(join("b", 1, WallClock::now())).await.unwrap();
    home.leave(&seat("b", 1)).await.unwrap();
    assert_eq!(home.view().await.unwrap().epoch.0, 3);
}

/// Takes back what [`fill`] has made but the first member; the registry then.
pub(crate) async fn empty(home: &Coordinator) -> View {
    home.detach(&seat("a", 1), "v").await.unwrap();
    home.remove_volume("v").await.unwrap();
    home.remove_disk("wwn-1").await.unwrap();
    home.left(&seat("b", 1)).await.unwrap();
    home.forget("b").await.unwrap();
    let view = home.view().await.unwrap();
    assert!(view.disks.is_empty() && view.volumes.is_empty() && view.attachments.is_empty());
    assert_eq!(view.members.len(), 1);
    view
}

/// What a node that is the only one keeps a registry in this file with.
pub(crate) fn alone(file: &Path) -> LocalConfig {
    let own = "127.0.0.1:1".to_owned();
    LocalConfig::new(
        file,
        "keeper",
        RemoteConfig { own: Some(own.clone()), ..RemoteConfig::new(&own, "lab") },
    )
}

/// The registry that is kept there.
pub(crate) async fn opened(file: &Path) -> Result<Local, Error> {
    match Local::open(alone(file)).await? {
        Opened::Keeps(local) => Ok(local),
        other => panic!("{other:?}"),
    }
}

/// Whoever comes there, as a node brings them: with an identity only those who have proven to be nodes, and machines that
/// want to be some.
pub(crate) fn visits(listener: TcpListener, identity: Option<Identity>) -> mpsc::Receiver<Visit> {
    let (bring, visits) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => accepted.unwrap().0,
                () = bring.closed() => return,
            };
            let (bring, identity) = (bring.clone(), identity.clone());
            tokio::spawn(async move {
                if let Ok(visit) = visit(stream, identity).await {
                    let _ = bring.send(visit).await;
                }
            });
        }
    });
    visits
}

async fn visit(stream: TcpStream, identity: Option<Identity>) -> Result<Visit, HandshakeError> {
    let Some(identity) = identity else {
        return Ok(Visit::of_anybody(Wire::plain(stream).set_adrift()?));
    };
    let purposes = [Purpose::Registry, Purpose::Join];
    let Proven { purpose, wire, shown } = cards_tls::accept(stream, &identity, &purposes).await?;
    let wire = wire.set_adrift()?;
    Ok(match purpose {
        Purpose::Join => Visit::of_machine(wire, std::future::pending()),
        _ => Visit::of_node(wire, shown),
    })
}
