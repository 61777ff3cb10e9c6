//! Calls to whichever member answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::ids::WallClock;

use super::api::{
    AuthenticateRequest, AuthenticateResponse, Failure, GrantRequest, GrantResponse, Ignored,
    KeepAliveResponse, LeaseId, LeaseRequest, RangeRequest, Streamed, WatchCreate, WatchRequest,
    WatchResponse,
};
use super::config::{EtcdConfig, Login};
use super::error::EtcdError;
use super::http::{Answer, Connection, Endpoint};
use super::tls;

/// Pause between two rounds over all members.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest message of a watch that is read, in bytes. A longer one tells of a change as well.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// All members, and the token of the user.
#[derive(Debug)]
pub(super) struct Client {
    members: Vec<Member>,
    /// The member that answered last.
    current: AtomicUsize,
    login: Option<Login>,
    token: Mutex<Option<String>>,
    connect_timeout: Duration,
    request_timeout: Duration,
}

#[derive(Debug)]
struct Member {
    endpoint: Endpoint,
    /// An open connection that nobody uses.
    idle: Mutex<Option<Connection>>,
}

/// What a member answered, and its time of day.
pub(super) struct Reply<T> {
    pub(super) answer: T,
    pub(super) date: WallClock,
}

/// How to go on after a failed attempt.
enum Failed {
    /// With another member: this one did not answer, or cannot.
    Elsewhere(EtcdError),
    /// With a new token.
    Token(EtcdError),
    /// Not at all.
    Here(EtcdError),
}

impl Client {
    pub(super) fn new(config: &EtcdConfig) -> Result<Self, EtcdError> {
        let tls = config.tls.as_ref().map(tls::client_config).transpose()?;
        let endpoints = config.endpoints.iter().map(|url| Endpoint::parse(url, tls.as_ref()));
        let members: Vec<Member> = endpoints
            .map(|endpoint| endpoint.map(|endpoint| Member { endpoint, idle: Mutex::new(None) }))
            .collect::<Result<_, _>>()?;
        if members.is_empty() {
            return Err(EtcdError::Endpoint { endpoint: String::new(), problem: "is missing".to_owned() });
        }
        Ok(Self {
            members,
            current: AtomicUsize::new(0),
            login: config.login.clone(),
            token: Mutex::new(None),
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
        })
    }

    /// Asks one member after the other until one answers; after the deadline nobody is asked any more. The request may then have been
    /// carried out more than once: whoever calls must not mind.
    pub(super) async fn call<Q: Serialize + Sync, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
        deadline: Instant,
    ) -> Result<Reply<A>, EtcdError> {
        let body =
            Bytes::from(serde_json::to_vec(request).expect("requests have only strings, numbers and lists"));
        let mut last = None;
        let mut logins = 0;
        loop {
            let mut tried = 0;
            while tried < self.members.len() {
                let at = self.current.load(Ordering::Relaxed) % self.members.len();
                let late = last.is_some() && Instant::now() >= deadline;
                let Some(member) = self.members.get(at).filter(|_| !late) else { break };
                match self.attempt(member, path, body.clone()).await {
                    Ok(reply) => return Ok(reply),
                    Err(Failed::Here(error)) => return Err(error),
                    Err(Failed::Token(error)) if logins == 2 => return Err(error),
                    Err(Failed::Token(_)) => {
                        logins += 1;
                        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    }
                    Err(Failed::Elsewhere(error)) => {
                        // Who is slow or without quorum tells more than who is not there.
                        if last.is_none() || !matches!(error, EtcdError::Unreachable { .. }) {
                            last = Some(error);
                        }
                        self.current.store(at + 1, Ordering::Relaxed);
                        tried += 1;
                    }
                }
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(last.unwrap_or_else(|| self.nobody()));
            }
            sleep(PAUSE).await;
        }
    }

    fn nobody(&self) -> EtcdError {
        let endpoint = self.members.first().map(|member| member.endpoint.url.clone()).unwrap_or_default();
        EtcdError::Unreachable { endpoint, problem: "there was no time to ask it".to_owned() }
    }

    async fn attempt<A: DeserializeOwned>(
        &self,
        member: &Member,
        path: &str,
        body: Bytes,
    ) -> Result<Reply<A>, Failed> {
        let token = self.token(member).await?;
        let answer = self.exchange(member, path, token.as_deref(), body).await.map_err(Failed::Elsewhere)?;
        self.read(member, &answer)
    }

    /// One request and its whole answer.
    async fn exchange(
        &self,
        member: &Member,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> Result<Answer, EtcdError> {
        let (endpoint, limit) = (&member.endpoint, self.request_timeout);
        let idle = member.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut connection = match ready(idle, limit).await {
            Some(connection) => connection,
            None => endpoint.connect(self.connect_timeout).await?,
        };
        let talk = async {
            let response = endpoint.send(&mut connection, path, token, body).await?;
            endpoint.receive(response).await
        };
        let answer = timeout(limit, talk).await.unwrap_or_else(|_| {
            Err(EtcdError::Slow { endpoint: endpoint.url.clone(), timeout_ms: limit.as_millis() })
        })?;
        *member.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(answer)
    }

    /// Makes an answer, or the reason why there is none, of what came.
    fn read<A: DeserializeOwned>(&self, member: &Member, answer: &Answer) -> Result<Reply<A>, Failed> {
        let endpoint = member.endpoint.url.clone();
        if answer.status != StatusCode::OK {
            return Err(self.failure(endpoint, answer));
        }
        let odd = |problem: String| Failed::Here(EtcdError::Protocol { endpoint: endpoint.clone(), problem });
        let date =
            answer.date.ok_or_else(|| odd("its answer has no `Date`, so its clock is unknown".to_owned()))?;
        let parsed = serde_json::from_slice(&answer.body)
            .map_err(|e| odd(format!("its answer does not parse: {e}")))?;
        Ok(Reply { answer: parsed, date })
    }

    fn failure(&self, endpoint: String, answer: &Answer) -> Failed {
        let Ok(failure) = serde_json::from_slice::<Failure>(&answer.body) else {
            // Etcd's own words: it would take the certificate's name for the user, and must not.
            if answer.body.starts_with(b"CommonName") {
                return Failed::Here(EtcdError::CommonName { endpoint });
            }
            return Failed::Here(EtcdError::Protocol {
                endpoint,
                problem: format!("HTTP status {}", answer.status),
            });
        };
        let message = if failure.message.is_empty() { failure.error } else { failure.message };
        let user = self
            .login
            .as_ref()
            .map_or_else(|| "a client without user".to_owned(), |login| format!("`{}`", login.user));
        match failure.code {
            // Unavailable, deadline exceeded, cancelled.
            14 | 4 | 1 => Failed::Elsewhere(EtcdError::NoQuorum { endpoint, message }),
            // Resource exhausted.
            8 if message.contains("space") => Failed::Here(EtcdError::Full { endpoint }),
            8 => Failed::Elsewhere(EtcdError::NoQuorum { endpoint, message }),
            // Not found: of all that is asked for by name, only leases are.
            5 => Failed::Here(EtcdError::NoLease { endpoint, message }),
            // Permission denied.
            7 => Failed::Here(EtcdError::Denied { user, message }),
            // Unauthenticated.
            16 => Failed::Token(EtcdError::Login { user, message }),
            // Invalid argument.
            3 if message.contains("revision of auth store is old") => {
                Failed::Token(EtcdError::Login { user, message })
            }
            3 if message.contains("authentication failed") || message.contains("user name is empty") => {
                Failed::Here(EtcdError::Login { user, message })
            }
            code => {
                Failed::Here(EtcdError::Protocol { endpoint, problem: format!("`{message}` (code {code})") })
            }
        }
    }

    /// The token of the user, asked for when there is none.
    async fn token(&self, member: &Member) -> Result<Option<String>, Failed> {
        let Some(login) = &self.login else { return Ok(None) };
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if token.is_some() {
            return Ok(token);
        }
        let request = AuthenticateRequest { name: &login.user, password: &login.password };
        let body = Bytes::from(serde_json::to_vec(&request).expect("a login has only strings"));
        let path = "/v3/auth/authenticate";
        let answer = self.exchange(member, path, None, body).await.map_err(Failed::Elsewhere)?;
        let token = self.read::<AuthenticateResponse>(member, &answer)?.answer.token;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(Some(token))
    }

    /// A new lease of at least `seconds`.
    pub(super) async fn grant(&self, seconds: i64, deadline: Instant) -> Result<LeaseId, EtcdError> {
        let reply = self
            .call::<_, GrantResponse>("/v3/lease/grant", &GrantRequest { ttl: seconds }, deadline)
            .await?;
        if reply.answer.ttl < seconds {
            let problem = format!("it gave a lease of {} s, {seconds} s were asked for", reply.answer.ttl);
            return Err(EtcdError::Protocol { endpoint: "etcd".to_owned(), problem });
        }
        Ok(reply.answer.id)
    }

    /// Renews a lease; false if it has ended.
    pub(super) async fn keep_alive(&self, id: LeaseId, deadline: Instant) -> Result<bool, EtcdError> {
        let path = "/v3/lease/keepalive";
        let reply = self.call::<_, Streamed<KeepAliveResponse>>(path, &LeaseRequest { id }, deadline).await?;
        Ok(reply.answer.result.ttl > 0)
    }

    /// Ends a lease, if etcd answers at once. If not, it ends by itself.
    pub(super) async fn revoke(&self, id: LeaseId) {
        let deadline = Instant::now() + self.request_timeout;
        drop(self.call::<_, Ignored>("/v3/lease/revoke", &LeaseRequest { id }, deadline).await);
    }

    /// Waits until a key of the span changes at or after a revision of etcd.
    pub(super) async fn watch(&self, span: (String, String), revision: i64) -> Result<(), EtcdError> {
        let at = self.current.load(Ordering::Relaxed) % self.members.len();
        let Some(member) = self.members.get(at) else { return Err(self.nobody()) };
        let endpoint = &member.endpoint;
        let token = self.token(member).await.map_err(Failed::into_error)?;
        let create_request = WatchCreate { range: RangeRequest::span(span), start_revision: revision };
        let request = WatchRequest { create_request };
        let body = Bytes::from(serde_json::to_vec(&request).expect("a watch has only strings and numbers"));
        let mut connection = endpoint.connect(self.connect_timeout).await?;
        let response = endpoint.send(&mut connection, "/v3/watch", token.as_deref(), body).await?;
        let mut stream = response.into_body();
        let mut line = Vec::new();
        while let Some(frame) = stream.frame().await {
            let frame = frame.map_err(|e| endpoint.broken(&e))?;
            for byte in frame.into_data().unwrap_or_default() {
                if byte != b'\n' {
                    line.push(byte);
                } else if tells_of_a_change(&line) {
                    return Ok(());
                } else {
                    line.clear();
                }
            }
            if line.len() > EVENT_BYTES_MAX {
                return Ok(());
            }
        }
        Err(endpoint.broken(&"the watch ended"))
    }
}

impl Failed {
    fn into_error(self) -> EtcdError {
        match self {
            Self::Elsewhere(error) | Self::Token(error) | Self::Here(error) => error,
        }
    }
}

/// An idle connection once its last answer is done with; nothing if the member has hung up meanwhile.
async fn ready(idle: Option<Connection>, limit: Duration) -> Option<Connection> {
    let mut idle = idle?;
    let ready = timeout(limit, idle.ready()).await;
    matches!(ready, Ok(Ok(()))).then_some(idle)
}

/// Whether one line of a watch means that the registry should be read again. What is not understood does.
fn tells_of_a_change(line: &[u8]) -> bool {
    match serde_json::from_slice::<Streamed<WatchResponse>>(line) {
        Ok(message) => message.result.canceled || !message.result.events.is_empty(),
        Err(_) => true,
    }
}
