//! The registry of another node, used as a node uses it.

use std::net::SocketAddr;

use cards_coordinator::{
    Change, Coordinator, Local, MemberState, Refusal, Remote, RemoteConfig, Revision, WallClock, serve,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::common::{alone, empty, fill, join, seat, terms, visits};

/// A coordinator that serves its file on a port of its own.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    /// As the coordinator's own node uses it.
    pub(crate) home: Local,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
    _directory: TempDir,
}

pub(crate) async fn served(lease_ms: u64) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let home = Local::found(alone(&directory.path().join("registry")), &terms(lease_ms)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(visits(listener, None), home.clone(), None, None, None, async {
        drop(stopped.await)
    }));
    Served { address, home, stop, server, _directory: directory }
}

impl Served {
    pub(crate) async fn client(&self) -> Coordinator {
        let config = RemoteConfig::new(&self.address.to_string(), "lab");
        Coordinator::Remote(Remote::open(config).await.unwrap())
    }
}

#[tokio::test]
async fn another_node_uses_the_registry_like_the_one_that_keeps_it() {
    let served = served(60_000).await;
    let home = served.client().await;
    let a = seat("a", 1);
    fill(&home).await;
    assert_eq!(home.view().await.unwrap(), served.home.view().await.unwrap());
    assert_eq!(home.renew(&a, WallClock::now()).await.unwrap().applied.coordinator_clock, None);
    assert!(home.renew(&a, WallClock(0)).await.unwrap().applied.coordinator_clock.is_some());
    assert_eq!(empty(&home).await, served.home.view().await.unwrap());
}

#[tokio::test]
async fn a_waiter_elsewhere_sees_a_change() {
    let served = served(3_600_000).await;
    let home = served.client().await;
    let start = home.view().await.unwrap();
    let waiter = tokio::spawn({
        let home = home.clone();
        async move { home.changed(start.revision).await }
    });
    served.home.submit(Change::Join(join("a", 1, WallClock::now()))).await.unwrap();
    let joined = waiter.await.unwrap().unwrap();
    assert_eq!((joined.revision, joined.members["a"].state), (Revision(1), MemberState::Joined));
    let behind = home.changed(Revision(77)).await.unwrap();
    assert_eq!(behind.revision, joined.revision, "who waits for another registry's revision gets this one's");
}

#[tokio::test]
async fn a_waiter_elsewhere_sees_a_death() {
    let served = served(200).await;
    let home = served.client().await;
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    let dead = home.changed(Revision(1)).await.unwrap();
    assert_eq!((dead.revision, dead.members["a"].state), (Revision(2), MemberState::Dead));
    let renew = home.renew(&seat("a", 1), WallClock::now()).await.unwrap_err();
    assert!(matches!(renew.refusal(), Some(Refusal::LeaseEnded { .. })), "{renew}");
}

#[tokio::test]
async fn a_stopped_server_answers_who_waits_and_is_gone() {
    let served = served(60_000).await;
    let home = served.client().await;
    let waiter = tokio::spawn({
        let home = home.clone();
        async move { home.changed(Revision(0)).await }
    });
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().revision, Revision(1));
    served.stop.send(()).unwrap();
    served.server.await.unwrap();
    assert!(std::net::TcpStream::connect(served.address).is_err());
    assert_eq!(served.home.view().await.unwrap().revision, Revision(1));
}

#[tokio::test]
async fn fifty_clients_that_join_at_once_get_fifty_numbers() {
    let served = served(3_600_000).await;
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let config = RemoteConfig::new(&served.address.to_string(), "lab");
            tokio::spawn(async move {
                let home = Coordinator::Remote(Remote::open(config).await.unwrap());
                home.join(join(&format!("n{n}"), 1, WallClock::now())).await.unwrap().applied
            })
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(task.await.unwrap().id.unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..50).collect::<Vec<u16>>());
    assert_eq!(served.home.view().await.unwrap().epoch.0, 50, "each has joined once");
}
