//! One HTTP/1.1 connection to one member.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::ids::WallClock;

use super::error::EtcdError;

/// Longest answer that is read, in bytes: a full registry is far shorter.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Etcd's port for clients.
const PORT: u16 = 2379;

/// A member of etcd.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// As configured, for messages.
    pub(super) url: String,
    host: String,
    port: u16,
    /// As the `Host` header has it.
    authority: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// An open connection.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// An answer, read to its end.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Time of day at the member.
    pub(super) date: Option<WallClock>,
    pub(super) body: Bytes,
}

impl Endpoint {
    pub(super) fn parse(url: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Self, EtcdError> {
        let bad =
            |problem: &str| EtcdError::Endpoint { endpoint: url.to_owned(), problem: problem.to_owned() };
        let uri: Uri = url.parse().map_err(|e| bad(&format!("is no URL ({e})")))?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if uri.path().len() > 1 || uri.query().is_some() {
            return Err(bad("has a path"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("has a user in it, which belongs into the login"));
        }
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                let config =
                    tls.ok_or_else(|| bad("needs certificates of authorities, and none are configured"))?;
                let name =
                    ServerName::try_from(host.clone()).map_err(|_| bad("names a host no certificate can"))?;
                Some((Arc::clone(config), name))
            }
            _ => return Err(bad("has another scheme")),
        };
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        Ok(Self { url: url.to_owned(), host, port: uri.port_u16().unwrap_or(PORT), authority, tls })
    }

    /// Connects, or says why not.
    pub(super) async fn connect(&self, limit: Duration) -> Result<Connection, EtcdError> {
        let unreachable = |problem: &dyn std::fmt::Display| EtcdError::Unreachable {
            endpoint: self.url.clone(),
            problem: problem.to_string(),
        };
        let connecting = async {
            let stream =
                TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| unreachable(&e))?;
            stream.set_nodelay(true).map_err(|e| unreachable(&e))?;
            match &self.tls {
                None => self.handshake(TokioIo::new(stream)).await,
                Some((config, name)) => {
                    let connector = TlsConnector::from(Arc::clone(config));
                    let stream =
                        connector.connect(name.clone(), stream).await.map_err(|e| unreachable(&e))?;
                    self.handshake(TokioIo::new(stream)).await
                }
            }
        };
        timeout(limit, connecting).await.unwrap_or_else(|_| Err(unreachable(&"no connection in time")))
    }

    async fn handshake<S>(&self, stream: S) -> Result<Connection, EtcdError>
    where
        S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (sender, connection) = handshake(stream).await.map_err(|e| self.broken(&e))?;
        // Ends when the sender is dropped or the member hangs up; who waits for an answer sees the reason.
        drop(tokio::spawn(connection));
        Ok(sender)
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>, EtcdError> {
        let mut request = Request::post(path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::new(body)).map_err(|e| EtcdError::Protocol {
            endpoint: self.url.clone(),
            problem: format!("it gave a token that no header can hold ({e})"),
        })?;
        connection.send_request(request).await.map_err(|e| self.broken(&e))
    }

    /// Reads an answer to its end.
    pub(super) async fn receive(&self, response: Response<Incoming>) -> Result<Answer, EtcdError> {
        let status = response.status();
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(WallClock::from_http_date);
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|e| {
            if e.is::<LengthLimitError>() {
                let problem = format!("its answer is longer than {ANSWER_BYTES_MAX} bytes");
                EtcdError::Protocol { endpoint: self.url.clone(), problem }
            } else {
                self.broken(&e)
            }
        })?;
        Ok(Answer { status, date, body: body.to_bytes() })
    }

    pub(super) fn broken(&self, problem: &dyn std::fmt::Display) -> EtcdError {
        EtcdError::Unreachable { endpoint: self.url.clone(), problem: problem.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_scheme_a_host_and_a_port() {
        let endpoint = Endpoint::parse("http://[::1]:23", None).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("::1", 23));
        assert_eq!(Endpoint::parse("http://etcd.lan", None).unwrap().port, PORT);
        for (url, problem) in [
            ("https://a:1", "needs certificates"),
            ("a:1", "another scheme"),
            ("ftp://a:1", "another scheme"),
            ("http://a:1/v3", "has a path"),
            ("http://u:p@a:1", "has a user"),
            ("http://", "is no URL"),
            ("", "is no URL"),
            ("http://a b", "is no URL"),
        ] {
            let error = Endpoint::parse(url, None).unwrap_err().to_string();
            assert!(error.contains(problem), "{url}: {error}");
        }
    }
}
