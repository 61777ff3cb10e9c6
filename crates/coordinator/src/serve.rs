//! Answers other nodes out of a registry in a local file, over HTTP/1.1.
//!
//! One task per connection, and one that follows the registry and has its JSON made once per revision, however many
//! nodes wait for it. Whoever holds a connection without using it loses it: [`Bounds`]. Whoever has not proven to be a node
//! takes no member's place: [`Strangers`].

mod answer;
mod documents;
mod strangers;
mod stream;

#[cfg(test)]
mod bounds_tests;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cards_tls::{Identity, Proven, Purpose, Shown, Wire};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::admission::Office;
use crate::embedded::Embedded;
use crate::wire::POLL;

use answer::{Caller, Desk};
use strangers::Strangers;
pub use strangers::network;
use stream::Impatient;

/// Pause after the system could not accept a connection, for want of file descriptors, say.
const PAUSE: Duration = Duration::from_millis(100);
/// How long requests that are being handled have when the server stops.
const GRACE: Duration = Duration::from_secs(1);
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What one client, or all of them, can take from the server.
#[derive(Clone, Debug)]
struct Bounds {
    /// Connections at a time: two for each member, and some for tools. Others wait until one is closed.
    connections: usize,
    /// Beside them, connections of those who have not proven to be nodes, where that is to be proven: with one more, one has
    /// to go.
    strangers: usize,
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
            strangers: 128,
            request: Duration::from_secs(5),
            answer: Duration::from_secs(10),
            poll: POLL,
        }
    }
}

/// Answers on `listener` until `stop` comes, and for a second more what has been asked by then: with an `identity` only
/// those who have proven to be nodes of the cluster, and with an `office` also machines that have a token to become nodes:
/// they get a certificate, and nothing else. Needs a Tokio runtime with time and I/O; one with a single thread
/// will do.
pub async fn serve(
    listener: TcpListener,
    registry: Embedded,
    identity: Option<Identity>,
    office: Option<Office>,
    stop: impl Future<Output = ()>,
) {
    within(Bounds::default(), listener, registry, identity, office, stop).await;
}

async fn within(
    bounds: Bounds,
    listener: TcpListener,
    registry: Embedded,
    identity: Option<Identity>,
    office: Option<Office>,
    stop: impl Future<Output = ()>,
) {
    let (publish, documents) = watch::channel(None);
    let (halt, halted) = watch::channel(false);
    let mut follower = JoinSet::new();
    follower.spawn(documents::follow(registry.clone(), identity.clone(), publish));
    follower.spawn({
        let registry = registry.clone();
        async move { registry.attend().await }
    });
    let (connections_max, mut strangers) = (bounds.connections, Strangers::new(bounds.strangers));
    let desk = Arc::new(Desk::new(registry, identity.clone(), office, bounds, documents, halted.clone()));
    let identity = identity.map(Arc::new);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let (desk, halted) = (Arc::clone(&desk), halted.clone());
        let has_room = connections.len() < connections_max;
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            proven = strangers.next(), if has_room && !strangers.are_gone() => {
                if let Some((wire, shown)) = proven.flatten() {
                    connections.spawn(converse(wire, Caller::Node(shown), desk, halted));
                }
            }
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, from)) => {
                    // Without it answers are only slower.
                    drop(stream.set_nodelay(true));
                    match &identity {
                        Some(identity) => {
                            strangers.admit(from.ip(), receive(stream, Arc::clone(identity), desk, halted));
                        }
                        None => {
                            connections.spawn(converse(Wire::plain(stream), Caller::Anybody, desk, halted));
                        }
                    }
                }
                Err(_) => sleep(PAUSE).await,
            },
        }
    }
    drop(listener);
    halt.send_replace(true);
    let drained = async {
        while connections.join_next().await.is_some() {}
        while !strangers.are_gone() {
            strangers.next().await;
        }
    };
    // Who does not take its answer in time is dropped with the set.
    drop(timeout(GRACE, drained).await);
}

/// Has a stranger prove to be a node, and says which. One that wants to become a node is answered, and stays a stranger.
async fn receive(
    stream: TcpStream,
    identity: Arc<Identity>,
    desk: Arc<Desk>,
    halted: watch::Receiver<bool>,
) -> Option<(Wire, Shown)> {
    let purposes: &[Purpose] = match desk.signs() {
        true => &[Purpose::Registry, Purpose::Join],
        false => &[Purpose::Registry],
    };
    let proof = cards_tls::accept(stream, &identity, purposes);
    // Strangers are told nothing, and whoever meant well sees it at its own end.
    let Proven { purpose, wire, shown } = timeout(desk.bounds().request, proof).await.ok()?.ok()?;
    match purpose {
        Purpose::Registry => return Some((wire, shown)),
        Purpose::Join => converse(wire, Caller::Machine, desk, halted).await,
        Purpose::Peer => {}
    }
    None
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
