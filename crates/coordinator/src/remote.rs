//! The registry in a file of another node, asked over HTTP/1.1.
//!
//! A request that got no answer is asked again until the patience ends: every change does nothing the second time.
//! That a connection broke says nothing about whether the change was made; only an answer does.

mod admit;
mod config;
mod connection;
mod error;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::admission::Admission;
use crate::change::{Applied, Change};
use crate::error::Error;
use crate::ids::Revision;
use crate::lease::Lease;
use crate::refusal::Refusal;
use crate::registry::check_name;
use crate::view::View;
use crate::wire::{CHANGED, POLL, Problem, RENEW, REQUEST_BYTES_MAX, Renewal, SUBMIT, VIEW};

pub use admit::{AdmitError, admit};
pub use config::RemoteConfig;
use connection::{Answer, Ask, Connection, Failed, Peer, Shows};
pub use error::RemoteError;

/// Pause before a request is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// A registry at another node. Clones share it.
#[derive(Clone, Debug)]
pub struct Remote {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    peer: Peer,
    config: RemoteConfig,
    /// An open connection that nobody uses.
    idle: Mutex<Option<Connection>>,
}

impl Remote {
    /// Makes sure that the coordinator of the cluster is there.
    ///
    /// # Errors
    /// The address is none, nobody answers there, or another than this cluster's coordinator.
    pub async fn open(config: RemoteConfig) -> Result<Self, Error> {
        check_name("cluster", &config.cluster)?;
        let shows = match config.identity.clone() {
            Some((identity, keeper)) => Shows::Identity(identity, keeper),
            None => Shows::Nothing,
        };
        let peer = Peer::of(&config.address, &config.cluster, shows)?;
        let remote = Self { shared: Arc::new(Shared { peer, config, idle: Mutex::new(None) }) };
        remote.view().await?;
        Ok(remote)
    }

    /// Makes a change. It is durable when this returns.
    ///
    /// # Errors
    /// The change is refused, or the coordinator gives no answer; then it may have been made.
    pub async fn submit(&self, change: Change) -> Result<Applied, Error> {
        Ok(self.leased(change).await?.0)
    }

    /// Makes a change of a membership. The lease counts from the moment at which the attempt that was answered
    /// began: the coordinator heard of it later than that.
    pub(crate) async fn leased(&self, change: Change) -> Result<(Applied, Lease), Error> {
        let body =
            serde_json::to_vec(&change).expect("changes have only strings, numbers and sets of strings");
        if body.len() > REQUEST_BYTES_MAX {
            return Err(RemoteError::TooLong { bytes: body.len(), bytes_max: REQUEST_BYTES_MAX }.into());
        }
        let ask = Ask { path: SUBMIT.to_owned(), body: Some(body.into()) };
        let answer = self.shared.call(&ask, Duration::ZERO).await?;
        let applied = self.shared.told(&answer)?;
        Ok((applied, Lease { asked: answer.asked, length: answer.lease }))
    }

    /// The registry as it is now, after declaring dead who is.
    ///
    /// # Errors
    /// The coordinator gives no answer.
    pub async fn view(&self) -> Result<View, Error> {
        let answer = self.shared.call(&Ask { path: VIEW.to_owned(), body: None }, Duration::ZERO).await?;
        self.shared.told(&answer)
    }

    /// Waits until the registry is at another revision than `after`.
    ///
    /// # Errors
    /// The coordinator gives no answer.
    pub async fn changed(&self, after: Revision) -> Result<View, Error> {
        let ask = Ask { path: format!("{CHANGED}?after={after}"), body: None };
        loop {
            let answer = self.shared.call(&ask, POLL).await?;
            if answer.status != StatusCode::NO_CONTENT {
                return self.shared.told(&answer);
            }
        }
    }

    /// A certificate (PEM) that follows the one by which this node, of that name, is known here: of the same key.
    ///
    /// # Errors
    /// The coordinator refuses, does not sign, or gives no answer.
    pub async fn renew_certificate(&self, node: &str) -> Result<String, Error> {
        let body = serde_json::to_vec(&Renewal { node: node.to_owned() }).expect("it has only strings");
        let ask = Ask { path: RENEW.to_owned(), body: Some(body.into()) };
        let answer = self.shared.call(&ask, Duration::ZERO).await?;
        let admission: Admission = self.shared.told(&answer)?;
        Ok(admission.certificate)
    }
}

impl Shared {
    /// Asks until there is an answer or the patience ends. The answer may come later than usual by `wait`, during
    /// which patience is not lost.
    async fn call(&self, ask: &Ask, wait: Duration) -> Result<Answer, RemoteError> {
        let mut deadline = None;
        let mut may_be_done = false;
        let cause = loop {
            let began = Instant::now();
            let attempt = self.attempt(ask, self.config.request_timeout + wait).await;
            let error = match attempt.and_then(|answer| self.judged(answer).map_err(Failed::Final)) {
                Ok(answer) => return Ok(answer),
                Err(Failed::Final(error)) => break error,
                Err(Failed::Unsent(error)) => error,
                Err(Failed::Sent(error)) => {
                    may_be_done |= ask.body.is_some();
                    error
                }
            };
            let failing_since = if wait.is_zero() { began } else { Instant::now() };
            if Instant::now() + PAUSE >= *deadline.get_or_insert(failing_since + self.config.patience) {
                break error;
            }
            sleep(PAUSE).await;
        };
        Err(match may_be_done {
            true => {
                let address = self.config.address.clone();
                RemoteError::OutcomeUnknown { address, cause: Box::new(cause) }
            }
            false => cause,
        })
    }

    async fn attempt(&self, ask: &Ask, limit: Duration) -> Result<Answer, Failed> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let open = match idle.filter(|idle| self.peer.shows_key() == idle.key()) {
            Some(idle) => idle.ready(self.config.connect_timeout).await,
            None => None,
        };
        let mut connection = match open {
            Some(open) => open,
            None => self.peer.connect(self.config.connect_timeout).await?,
        };
        let answer = timeout(limit, connection.exchange(&self.peer, ask)).await.unwrap_or_else(|_| {
            let address = self.config.address.clone();
            Err(Failed::Sent(RemoteError::Slow { address, timeout_ms: limit.as_millis() }))
        })?;
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(answer)
    }

    /// The answer if it is one to what was asked, or what it says instead.
    fn judged(&self, answer: Answer) -> Result<Answer, RemoteError> {
        let address = || self.config.address.clone();
        let wanted = &self.config.cluster;
        if answer.cluster != *wanted {
            let (wanted, cluster) = (wanted.clone(), answer.cluster);
            return Err(RemoteError::WrongCluster { address: address(), wanted, cluster });
        }
        let said = || match serde_json::from_slice::<Problem>(&answer.body) {
            Ok(problem) => printable(&problem.error),
            Err(_) => "nothing more".to_owned(),
        };
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::CONFLICT => Ok(answer),
            StatusCode::INTERNAL_SERVER_ERROR => {
                Err(RemoteError::File { address: address(), message: said() })
            }
            status => Err(self.odd(format!("HTTP status {status}, `{}`", said()))),
        }
    }

    /// What an answer has, if it is no refusal.
    fn told<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Error> {
        match answer.status {
            StatusCode::CONFLICT => Err(self.parsed::<Refusal>(&answer.body)?.into()),
            _ => Ok(self.parsed(&answer.body)?),
        }
    }

    fn parsed<T: DeserializeOwned>(&self, body: &Bytes) -> Result<T, RemoteError> {
        serde_json::from_slice(body).map_err(|e| self.odd(format!("its answer does not parse: {e}")))
    }

    fn odd(&self, problem: String) -> RemoteError {
        RemoteError::Protocol { address: self.config.address.clone(), problem }
    }
}

/// Text from outside as a message may show it.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(500).collect()
}
