//! Who comes before the node runs: other nodes that ask its part of the registry.
//!
//! A node that keeps a part of the registry answers for it before it is a member: when all nodes are started at once, none of them
//! could join before. Peers are sent away, and come again.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use cards_coordinator::Visit;
use cards_tls::{Identity, Proven, Purpose, Wire};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::greet::DEADLINE;
use super::port::{ACCEPT_RETRY, STRANGERS_MAX, speaks_http};
use crate::lobby::Lobby;

/// What all connections share.
struct Vestibule {
    identity: Option<Identity>,
    visits: mpsc::Sender<Visit>,
    lobby: Arc<Lobby>,
}

/// Answers for as long as it is polled. Needs a local runtime.
pub(crate) async fn attend(
    listeners: Vec<std::net::TcpListener>,
    identity: Option<Identity>,
    visits: mpsc::Sender<Visit>,
) {
    let vestibule = Rc::new(Vestibule { identity, visits, lobby: Lobby::new(2 * STRANGERS_MAX) });
    let mut doors = JoinSet::new();
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(doors.spawn_local(Rc::clone(&vestibule).accept(listener))),
            Err(error) => tracing::warn!(%error, "the peer port is not answered before the node runs"),
        }
    }
    while doors.join_next().await.is_some() {}
}

impl Vestibule {
    async fn accept(self: Rc<Self>, listener: TcpListener) {
        let mut guests = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => drop(guests.spawn_local(Rc::clone(&self).serve(stream, from))),
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
                Some(_) = guests.join_next() => {}
            }
        }
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, from: SocketAddr) {
        let Some(permit) = self.lobby.admit(Some(from.ip())) else { return };
        let greeted = tokio::select! {
            greeted = tokio::time::timeout(DEADLINE, self.greet(stream)) => greeted,
            () = permit.evicted() => return,
        };
        // Whoever is refused here is told why when the node runs.
        if let Ok(Ok(Some(visit))) = greeted {
            let _ = self.visits.try_send(visit);
        }
    }

    async fn greet(&self, stream: TcpStream) -> io::Result<Option<Visit>> {
        stream.set_nodelay(true)?;
        let Some(identity) = &self.identity else {
            return match speaks_http(&stream).await? {
                true => Ok(Some(Visit::of_anybody(Wire::plain(stream).set_adrift()?))),
                false => Ok(None),
            };
        };
        let Ok(Proven { wire, shown, .. }) = cards_tls::accept(stream, identity, &[Purpose::Registry]).await
        else {
            return Ok(None);
        };
        match shown.key().is_some_and(|key| identity.has_revoked(&key)) {
            true => Ok(None),
            false => Ok(Some(Visit::of_node(wire.set_adrift()?, shown))),
        }
    }
}
