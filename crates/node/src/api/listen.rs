//! Sockets of the API and their connections.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::answer::{self, Answer};
use super::opening::Opening;
use super::patient::Patient;
use super::route;
use super::token::Token;
use super::visitors::{self, Hosts};
use crate::lobby::Permit;
use crate::node::Node;
use crate::places::{Place, Places};
use crate::starting::Starting;
use cards_disk::Seldom;

/// Connections of one socket at a time, of which idle ones give way: each request for a lock that waits has one.
const CONNECTIONS_MAX: usize = 1_024;
/// The same of visitors, who wait for nothing; answers may be large.
const VISITORS_MAX: usize = 256;
/// How long the headers of a request may take, the pause since the last answer included.
const HEADERS: Duration = Duration::from_secs(30);
/// Bytes of the headers of a request.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// How long to wait when a connection cannot be accepted (no descriptor, no memory).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A socket that listens.
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener, Arc<Token>, Arc<Opening>),
    Web(TcpListener, Arc<Hosts>, Arc<Opening>),
}

impl Listener {
    pub(super) fn unix(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        UnixListener::from_std(listener).map(Self::Unix)
    }

    pub(super) fn tcp(listener: std::net::TcpListener, token: Token, opening: Opening) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::from_std(listener)?, Arc::new(token), Arc::new(opening)))
    }

    pub(super) fn web(listener: std::net::TcpListener, hosts: Hosts, opening: Opening) -> io::Result<Self> {
        Ok(Self::Web(TcpListener::from_std(listener)?, Arc::new(hosts), Arc::new(opening)))
    }

    async fn accept(&self) -> io::Result<(Stream, Door)> {
        Ok(match self {
            Self::Unix(listener) => (Stream::Unix(listener.accept().await?.0), Door::Own),
            Self::Tcp(listener, token, opening) => {
                (Stream::tcp(listener.accept().await?.0, opening), Door::Token(Arc::clone(token)))
            }
            Self::Web(listener, hosts, opening) => {
                (Stream::tcp(listener.accept().await?.0, opening), Door::Web(Arc::clone(hosts)))
            }
        })
    }

    /// Serves whoever comes; never ends.
    pub(super) async fn serve(self, daemon: Behind) {
        let most = match self {
            Self::Unix(_) | Self::Tcp(..) => CONNECTIONS_MAX,
            Self::Web(..) => VISITORS_MAX,
        };
        let (places, seldom) = (Places::new(most), Seldom::default());
        loop {
            match self.accept().await {
                Ok((stream, door)) => {
                    let (daemon, place) = (daemon.clone(), places.admit().await);
                    tokio::spawn(async move {
                        tokio::select! {
                            biased;
                            () = place.evicted() => {}
                            () = stream.serve(daemon, door, &place) => {}
                        }
                    });
                }
                Err(error) => {
                    if seldom.may() {
                        tracing::warn!(%error, "cannot accept a client of the API; are there too few descriptors?");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// What is behind a door.
#[derive(Clone)]
pub(super) enum Behind {
    /// A daemon that serves.
    Node(Arc<Node>),
    /// One that starts.
    Start(Arc<Starting>),
}

/// A connection.
enum Stream {
    Unix(UnixStream),
    /// With what its socket demands, and its place among those that begin.
    Tcp(TcpStream, Arc<Opening>, Option<Permit>),
}

impl Stream {
    fn tcp(stream: TcpStream, opening: &Arc<Opening>) -> Self {
        // Answers are short and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let place = opening.admit(&stream);
        Self::Tcp(stream, Arc::clone(opening), place)
    }

    /// Serves it to its end.
    async fn serve(self, daemon: Behind, door: Door, place: &Arc<Place>) {
        match self {
            Self::Unix(stream) => talk(stream, daemon, door, place).await,
            Self::Tcp(stream, opening, Some(permit)) => {
                if let Some(wire) = opening.begin(stream, permit).await {
                    talk(wire, daemon, door, place).await;
                }
            }
            // All who begin have been through in the meantime, or it would have had to go.
            Self::Tcp(_, _, None) => {}
        }
    }
}

/// What opens the door of a socket, and to what.
enum Door {
    /// Who can open the socket may do everything.
    Own,
    /// Who has the token, too.
    Token(Arc<Token>),
    /// Whoever calls the node by one of its names may look.
    Web(Arc<Hosts>),
}

impl Door {
    async fn answer(&self, daemon: &Behind, request: Request<Incoming>) -> Answer {
        match (self, daemon) {
            (Self::Token(token), _) if !token.is_in(request.headers()) => answer::unauthorized(),
            (Self::Own | Self::Token(_), Behind::Node(node)) => route::answer(node, request).await,
            (Self::Own | Self::Token(_), Behind::Start(starting)) => answer::starting(starting.headline()),
            (Self::Web(hosts), Behind::Node(node)) => visitors::answer(node, hosts, &request).await,
            (Self::Web(hosts), Behind::Start(starting)) => visitors::answer_early(starting, hosts, &request),
        }
    }
}

/// Answers the requests of one connection, which is busy from the last header of a request until its answer has been
/// handed to the kernel: the answer is written in the turn in which it is there, or [`Patient`] is busy with the rest.
async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, daemon: Behind, door: Door, place: &Arc<Place>) {
    let door = Arc::new(door);
    let service = service_fn(|request| {
        let (daemon, door, busy) = (daemon.clone(), Arc::clone(&door), place.busy());
        async move {
            let answer = door.answer(&daemon, request).await;
            drop(busy);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream, place)), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the API ended");
    }
}
