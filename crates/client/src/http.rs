//! One request, one connection: so a request that is given up is a connection that is closed, which the daemon
//! notices.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use cards_tls::{HandshakeError, Trust};

use crate::Error;
use crate::body::{Refused, RefusedError};

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Where the API of a daemon is.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp { address: String, token: Arc<str>, trust: Option<Trust> },
}

/// The host of `host:port`, without the brackets of an address.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']'])
}

impl Address {
    fn name(&self) -> String {
        match self {
            Self::Unix(path) => path.display().to_string(),
            Self::Tcp { address, .. } => address.clone(),
        }
    }

    /// Sends a request and reads its answer, within `limit` if there is one.
    pub(crate) async fn call<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
        limit: Option<Duration>,
    ) -> Result<A, Error> {
        let exchange = async {
            let failed = |error: std::io::Error| self.unreachable(&error);
            match self {
                Self::Unix(path_of_socket) => {
                    let stream = UnixStream::connect(path_of_socket).await.map_err(failed)?;
                    self.exchange(stream, method, path, body).await
                }
                Self::Tcp { address, trust, .. } => {
                    let stream = TcpStream::connect(address).await.map_err(failed)?;
                    stream.set_nodelay(true).map_err(failed)?;
                    let Some(trust) = trust else { return self.exchange(stream, method, path, body).await };
                    let wire =
                        trust.connect(stream, host_of(address)).await.map_err(|error| match error {
                            HandshakeError::Io(error) => self.unreachable(&format_args!("TLS: {error}")),
                            error => Error::Untrusted { address: self.name(), reason: error.to_string() },
                        })?;
                    self.exchange(wire, method, path, body).await
                }
            }
        };
        let Some(limit) = limit else { return exchange.await };
        let late = |_| self.unreachable(&format_args!("no answer within {} s", limit.as_secs_f64()));
        tokio::time::timeout(limit, exchange).await.map_err(late)?
    }

    async fn exchange<A: DeserializeOwned>(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, Error> {
        let body = serde_json::to_vec(body).map_err(|error| self.bad_answer(&error))?;
        let mut request = Request::builder().method(method).uri(path).header("host", "cards");
        if let Self::Tcp { token, .. } = self {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| self.unreachable(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error))?;
        let talk = async {
            let response = sender.send_request(request).await.map_err(|error| self.unreachable(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.unreachable(&error))?.to_bytes();
            if status.is_success() {
                return serde_json::from_slice(&body).map_err(|error| self.bad_answer(&error));
            }
            Err(match serde_json::from_slice(&body) {
                Ok(Refused { error: RefusedError { kind, message } }) => Error::Refused { kind, message },
                Err(_) => self.bad_answer(&format_args!("status {status}")),
            })
        };
        // Whatever ends the connection ends the talk.
        let connection = async {
            let _ = connection.await;
            std::future::pending().await
        };
        tokio::select! {
            answer = talk => answer,
            never = connection => never,
        }
    }

    fn unreachable(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::Unreachable { address: self.name(), reason: reason.to_string() }
    }

    fn bad_answer(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::BadAnswer { address: self.name(), reason: reason.to_string() }
    }
}
