//! Answers other nodes out of the registry while this node leads it, and says who does if it does not, over HTTP/1.1.
//!
//! Connections are brought ([`Visit`]): whoever has accepted them knows who comes. One task per connection, and one
//! that follows the registry and has its JSON made once per revision, however many nodes wait for it. Whoever holds a
//! connection without using it loses it: [`Bounds`].

mod answer;
mod documents;
mod stream;
mod visit;

#[cfg(test)]
mod bounds_tests;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cards_tls::{Identity, Name, Wire};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::admission::Office;
use crate::local::Local;
use crate::wire::POLL;

use answer::{Caller, Desk};
use stream::Impatient;
pub use visit::Visit;

/// How long requests that are being handled have when the server stops.
const GRACE: Duration = Duration::from_secs(1);
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What one client, or all of them, can take from the server.
#[derive(Clone, Debug)]
struct Bounds {
    /// Connections at a time: two for each member, and some for machines that join and for tools. Others wait until
    /// one is closed.
    connections: usize,
    /// How long a request may take to come, its head and then its body; also how long a connection may be idle.
    request: Duration,
    /// How long the client may take to read an answer, from when it first keeps the server waiting.
    answer: Duration,
    /// How long the server waits for a change before it says that there was none.
    poll: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 2200,
            request: Duration::from_secs(5),
            answer: Duration::from_secs(10),
            poll: POLL,
        }
    }
}

/// Answers those who are brought until `stop` comes, and for a second more what has been asked by then. Certificates
/// that the registry says are revoked are good for nothing in `identity` from then on; with an `office`, machines that
/// have a token get a certificate. What the node `authority` says that it has signed is believed. Needs a Tokio runtime with time and
/// I/O; one with a single thread will do.
pub async fn serve(
    visits: mpsc::Receiver<Visit>,
    registry: Local,
    identity: Option<Identity>,
    office: Option<Office>,
    authority: Option<Name>,
    stop: impl Future<Output = ()>,
) {
    within(Bounds::default(), visits, registry, identity, (office, authority), stop).await;
}

async fn within(
    bounds: Bounds,
    mut visits: mpsc::Receiver<Visit>,
    registry: Local,
    identity: Option<Identity>,
    signing: (Option<Office>, Option<Name>),
    stop: impl Future<Output = ()>,
) {
    let (publish, documents) = watch::channel(None);
    let (halt, halted) = watch::channel(false);
    let mut follower = JoinSet::new();
    follower.spawn(documents::follow(registry.clone(), identity.clone(), publish));
    let connections_max = bounds.connections;
    let desk = Arc::new(Desk::new(registry, identity, signing, bounds, documents, halted.clone()));
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            Some(visit) = visits.recv(), if connections.len() < connections_max => {
                connections.spawn(receive(visit, Arc::clone(&desk), halted.clone()));
            }
        }
    }
    drop(visits);
    halt.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    // Who does not take its answer in time is dropped with the set.
    drop(timeout(GRACE, drained).await);
}

async fn receive(visit: Visit, desk: Arc<Desk>, halted: watch::Receiver<bool>) {
    let Visit { wire, caller, has_to_go } = visit;
    let Ok(wire) = wire.moor() else { return };
    tokio::select! {
        () = converse(wire, caller, desk, halted) => {}
        () = has_to_go => {}
    }
}

/// Answers the requests of one connection, one after the other.
async fn converse(wire: Wire, caller: Caller, desk: Arc<Desk>, mut halted: watch::Receiver<bool>) {
    let bounds = desk.bounds();
    let caller = Arc::new(caller);
    let was_revoked = desk.has_revoked(&caller);
    let stream = Impatient::new(TokioIo::new(wire), bounds.answer);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(bounds.request).max_buf_size(HEAD_BYTES_MAX);
    // A machine has one request, and a caller whose certificate was revoked one refusal.
    builder.keep_alive(!matches!(*caller, Caller::Machine) && !was_revoked);
    let service = service_fn(|request| {
        let (desk, caller) = (Arc::clone(&desk), Arc::clone(&caller));
        async move { Ok::<_, Infallible>(desk.answer(request, &caller).await) }
    });
    let mut connection = pin!(builder.serve_connection(stream, service));
    // However a connection ends, it concerns its client only, who sees it too.
    tokio::select! {
        ended = connection.as_mut() => return drop(ended),
        // Its next connection is told why.
        () = desk.revoked(&caller), if !was_revoked => return,
        _ = halted.wait_for(|halted| *halted) => connection.as_mut().graceful_shutdown(),
    }
    drop(connection.await);
}
