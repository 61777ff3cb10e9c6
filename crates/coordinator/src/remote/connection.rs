//! One HTTP/1.1 connection to a coordinator.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use cards_tls::{Fingerprint, HandshakeError, Identity, Name, Purpose, Wire};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::ids::History;
use crate::kept::{Kept, Route};
use crate::lease::BootTime;
use crate::wire::{ANSWER_BYTES_MAX, CLUSTER, FRAME, HISTORY, KEPT, LEASE, REGISTER, SEEN};

use super::{RemoteConfig, RemoteError, Seen};

/// What is asked.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Path and query.
    pub(crate) path: String,
    /// A change, or a frame of the register. Requests without only read.
    pub(crate) body: Option<Bytes>,
}

/// What the asker knows of the registry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Which one it is.
    pub(crate) history: Option<History>,
    /// The latest that it has heard of.
    pub(crate) seen: Option<Seen>,
    /// Who keeps it.
    pub(crate) kept: Option<Kept>,
}

/// An answer of a coordinator, read to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The cluster that answers.
    pub(crate) cluster: String,
    /// Length of a lease there.
    pub(crate) lease: Duration,
    /// Which registry it is.
    pub(crate) history: Option<History>,
    /// Who keeps it.
    pub(crate) kept: Option<Kept>,
    pub(crate) body: Bytes,
    /// When this attempt began.
    pub(crate) asked: BootTime,
}

/// Why an attempt has no answer.
pub(crate) enum Failed {
    /// It never will have.
    Final(RemoteError),
    /// Nobody was asked.
    Unsent(RemoteError),
    /// The request may have been handled.
    Sent(RemoteError),
}

/// Where the coordinator is, and what every request says.
#[derive(Debug)]
pub(crate) struct Peer {
    /// As configured, for messages.
    address: String,
    host: String,
    port: u16,
    /// As the `Host` header has it.
    authority: HeaderValue,
    cluster: HeaderValue,
    shows: Shows,
}

/// What is shown to the coordinator, and who it must be.
#[derive(Debug)]
pub(crate) enum Shows {
    /// Nothing is proven, in the clear.
    Nothing,
    /// This, to that node.
    Identity(Identity, Name),
    /// Nothing yet, to that node of the authority with this fingerprint.
    Joins(Fingerprint, Name),
}

impl Peer {
    /// A node that proves itself as in this configuration.
    pub(crate) fn at(route: &Route, config: &RemoteConfig) -> Result<Self, RemoteError> {
        let shows = match &config.identity {
            Some((identity, _)) => Shows::Identity(identity.clone(), Name::new(&config.cluster, &route.node)),
            None => Shows::Nothing,
        };
        Self::of(&route.address, &config.cluster, shows)
    }

    pub(super) fn of(address: &str, cluster: &str, shows: Shows) -> Result<Self, RemoteError> {
        let bad =
            |problem: &str| RemoteError::Address { address: address.to_owned(), problem: problem.to_owned() };
        let (host, port) = address.rsplit_once(':').ok_or_else(|| bad("names no port"))?;
        let port = port.parse().map_err(|_| bad("names no port"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(bad("names no host"));
        }
        if bare.bytes().any(|byte| !byte.is_ascii_graphic() || b"/@[]".contains(&byte)) {
            return Err(bad("has characters that no host has"));
        }
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| bad("fits no header"));
        let (authority, cluster) = (value(address)?, value(cluster)?);
        let (address, host) = (address.to_owned(), bare.to_owned());
        Ok(Self { address, host, port, authority, cluster, shows })
    }

    /// The key by which this node proves itself now; none if it does not.
    pub(crate) fn shows_key(&self) -> Option<Fingerprint> {
        match &self.shows {
            Shows::Identity(identity, _) => identity.shown().key(),
            Shows::Nothing | Shows::Joins(..) => None,
        }
    }

    /// Connects, or says why not.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Connection, Failed> {
        let unsent = |problem: &dyn std::fmt::Display| Failed::Unsent(self.unreachable(problem));
        let connecting = async {
            let key = self.shows_key();
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| unsent(&e))?;
            stream.set_nodelay(true).map_err(|e| unsent(&e))?;
            let wire = match &self.shows {
                Shows::Nothing => Wire::plain(stream),
                Shows::Identity(identity, keeper) => {
                    let proven = cards_tls::connect(stream, identity, Purpose::Registry, keeper).await;
                    proven.map_err(|e| Failed::Unsent(self.unproven(&e)))?.wire
                }
                Shows::Joins(authority, keeper) => {
                    let wire = cards_tls::connect_to_join(stream, authority, keeper).await;
                    wire.map_err(|e| Failed::Final(self.stranger(keeper, &e)))?
                }
            };
            let (sender, driver) = handshake(TokioIo::new(wire)).await.map_err(|e| unsent(&e))?;
            Ok(Connection { sender, driver: tokio::spawn(driver), key })
        };
        timeout(limit, connecting).await.unwrap_or_else(|_| Err(unsent(&"no connection in time")))
    }

    fn request(&self, ask: &Ask, known: Known) -> Result<Request<Full<Bytes>>, Failed> {
        let method = if ask.body.is_some() { Method::POST } else { Method::GET };
        let content = if ask.path == REGISTER { FRAME } else { "application/json" };
        let mut request = Request::builder()
            .method(method)
            .uri(&ask.path)
            .header(HOST, &self.authority)
            .header(CLUSTER, &self.cluster)
            .header(CONTENT_TYPE, content);
        if let Some(history) = known.history {
            request = request.header(HISTORY, history.to_string());
        }
        if let Some(Seen { epoch, revision }) = known.seen {
            request = request.header(SEEN, format!("{epoch} {revision}"));
        }
        // Names and addresses of members have only characters that a header can have.
        if let Some(kept) = known.kept.and_then(|kept| serde_json::to_vec(&kept).ok()) {
            request = request.header(KEPT, kept);
        }
        request
            .body(Full::new(ask.body.clone().unwrap_or_default()))
            .map_err(|e| Failed::Final(self.odd(format!("it cannot be asked: {e}"))))
    }

    fn unreachable(&self, problem: &dyn std::fmt::Display) -> RemoteError {
        RemoteError::Unreachable { address: self.address.clone(), problem: problem.to_string() }
    }

    /// Nothing was agreed on, or the connection broke before.
    fn unproven(&self, error: &HandshakeError) -> RemoteError {
        use io::ErrorKind::{ConnectionReset, UnexpectedEof};
        let problem = match error {
            HandshakeError::Io(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => {
                "it hangs up when this node says which authority it believes: that is another cluster's, probably; compare \
                 authority.pem in `identity` of the state_dir of both"
                    .into()
            }
            HandshakeError::Io(error) => return self.unreachable(error),
            error => error.to_string(),
        };
        RemoteError::Unproven { address: self.address.clone(), problem }
    }

    /// It is not whom a token is of.
    fn stranger(&self, keeper: &Name, error: &HandshakeError) -> RemoteError {
        let problem = match error {
            HandshakeError::Io(error) => format!("it hangs up ({error})"),
            error => error.to_string(),
        };
        RemoteError::Stranger { address: self.address.clone(), keeper: keeper.to_string(), problem }
    }

    pub(super) fn odd(&self, problem: String) -> RemoteError {
        RemoteError::Protocol { address: self.address.clone(), problem }
    }

    /// The connection broke, or what came over it is no HTTP.
    fn failed(&self, error: &hyper::Error) -> Failed {
        if speaks_http(error) {
            Failed::Sent(self.unreachable(error))
        } else {
            Failed::Final(self.odd(format!("it does not speak HTTP/1.1 ({error})")))
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes; ends with the connection.
    driver: JoinHandle<hyper::Result<()>>,
    /// By which this node has proven itself.
    key: Option<Fingerprint>,
}

impl Connection {
    pub(crate) const fn key(&self) -> Option<Fingerprint> {
        self.key
    }

    /// The same once its last answer is done with; nothing if the coordinator has hung up meanwhile.
    pub(crate) async fn ready(mut self, limit: Duration) -> Option<Self> {
        let ready = timeout(limit, self.sender.ready()).await;
        matches!(ready, Ok(Ok(()))).then_some(self)
    }

    /// One request and its whole answer.
    pub(crate) async fn exchange(&mut self, peer: &Peer, ask: &Ask, known: Known) -> Result<Answer, Failed> {
        let asked = BootTime::now();
        let request = peer.request(ask, known)?;
        let response = match self.sender.send_request(request).await {
            Ok(response) => response,
            Err(error) => return Err(self.why(peer, &error).await),
        };
        let status = response.status();
        let header = |name| text(response.headers(), name);
        let (Some(cluster), Some(lease_ms)) =
            (header(CLUSTER), header(LEASE).and_then(|lease| lease.parse().ok()))
        else {
            return Err(Failed::Final(
                peer.odd(format!("HTTP status {status} without `{CLUSTER}` and `{LEASE}`")),
            ));
        };
        let history = header(HISTORY).and_then(|history| history.parse().ok());
        let kept = response.headers().get(KEPT).and_then(|kept| serde_json::from_slice(kept.as_bytes()).ok());
        let lease = Duration::from_millis(lease_ms);
        let body = body(peer, response).await?;
        Ok(Answer { status, cluster, lease, history, kept, body, asked })
    }

    /// What ended the connection while a request was on its way: whoever reads from it knows better than the sender.
    async fn why(&mut self, peer: &Peer, error: &hyper::Error) -> Failed {
        if (error.is_canceled() || error.is_closed())
            && let Ok(Err(cause)) = (&mut self.driver).await
        {
            return peer.failed(&cause);
        }
        peer.failed(error)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn body(peer: &Peer, response: Response<Incoming>) -> Result<Bytes, Failed> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|e| {
        if e.is::<LengthLimitError>() {
            Failed::Final(peer.odd(format!("its answer is longer than {ANSWER_BYTES_MAX} bytes")))
        } else {
            Failed::Sent(peer.unreachable(&e))
        }
    })?;
    Ok(body.to_bytes())
}

/// A header as it may be shown: cut to what a name or a number can have.
fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().take(64).collect())
}

/// Whether what came before the error, if anything, was HTTP.
fn speaks_http(error: &hyper::Error) -> bool {
    error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || error.is_body_write_aborted()
        || error.is_shutdown()
        || error.source().is_some_and(|source| source.is::<io::Error>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (address, host) in [("a.lan:7700", "a.lan"), ("[::1]:7700", "::1"), ("10.0.0.1:7700", "10.0.0.1")]
        {
            let peer = Peer::of(address, "lab", Shows::Nothing).unwrap();
            assert_eq!((peer.host.as_str(), peer.port), (host, 7700));
            assert_eq!(peer.authority, address);
        }
    }
}
