//! Connections to the server of an object: one request at a time on each, and kept for the next one.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Empty;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::failure::{ObjectError, ObjectFailure, causes};
use super::target::{Ask, Target};

/// Longest head of an answer, in bytes; bytes of bodies are received in pieces of at most as many.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most lines of a head.
const HEAD_LINES_MAX: usize = 100;
/// A connection that was idle for longer is not used again: servers, and what is on the way to them, forget it.
const IDLE_MAX: Duration = Duration::from_secs(50);

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    /// Whether it has had an answer: the server may have closed it since.
    pub(super) is_used: bool,
}

impl Connection {
    /// Connects, in the clear or with TLS.
    pub(super) async fn open(target: &Target) -> Result<Self, ObjectFailure> {
        let web = &target.web;
        let unreachable = |error: io::Error| ObjectFailure::new(ObjectError::NoConnection, error);
        let stream = TcpStream::connect((web.host.as_str(), web.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        match &target.tls {
            None => Self::start(TokioIo::new(stream)).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name.clone(), stream).await.map_err(of_tls)?;
                Self::start(TokioIo::new(stream)).await
            }
        }
    }

    async fn start<S>(stream: S) -> Result<Self, ObjectFailure>
    where
        S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEAD_LINES_MAX);
        let (sender, driver) = builder.handshake(stream).await.map_err(|e| ObjectFailure::of_http(&e))?;
        // Ends when the connection is dropped or the server hangs up; the reason comes with the answer that is missing.
        drop(tokio::spawn(driver));
        Ok(Self { sender, is_used: false })
    }

    /// Sends a request and waits for the head of the answer. The connection can be used again when the body was read to its end.
    pub(super) async fn send(&mut self, ask: Ask) -> Result<Response<Incoming>, hyper::Error> {
        self.sender.ready().await?;
        self.sender.send_request(ask).await
    }
}

fn of_tls(error: io::Error) -> ObjectFailure {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => {
            ObjectFailure::new(ObjectError::Certificate, causes(&error))
        }
        _ => ObjectFailure::new(ObjectError::NoConnection, format!("TLS: {error}")),
    }
}

/// The connections that wait for a request.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Vec<(Instant, Connection)>>);

impl Idle {
    /// The one that was used last, if it is not too old.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.lock();
        idle.retain(|(since, connection)| since.elapsed() < IDLE_MAX && !connection.sender.is_closed());
        idle.pop().map(|(_, connection)| connection)
    }

    /// Keeps one whose answer was read to its end.
    pub(super) fn put(&self, mut connection: Connection) {
        connection.is_used = true;
        self.lock().push((Instant::now(), connection));
    }

    /// Closes all.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Connection)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
