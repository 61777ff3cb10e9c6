//! The registry at other nodes, asked over HTTP/1.1.
//!
//! One of those that keep it leads, and answers; the others say who does, as far as they know. Who is silent is passed over
//! for the next. A request that got no answer is asked again until the patience ends: every change does nothing the second
//! time. That a connection broke says nothing about whether the change was made; only an answer does.

mod admit;
mod config;
mod connection;
pub(crate) mod error;
mod ways;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::admission::Admission;
use crate::change::{Applied, Change};
use crate::error::Error;
use crate::ids::{Epoch, History, Revision};
use crate::kept::{Kept, Route};
use crate::lease::Lease;
use crate::refusal::Refusal;
use crate::registry::check_name;
use crate::view::View;
use crate::wire::{CHANGED, POLL, Problem, RENEW, REQUEST_BYTES_MAX, Renewal, SUBMIT, VIEW};

pub use admit::{AdmitError, admit};
pub use config::RemoteConfig;
pub(crate) use connection::{Answer, Ask, Connection, Failed, Known, Peer};
pub use error::RemoteError;
pub use ways::Seen;
use ways::Ways;

/// Pause before a request is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Longest that one of several nodes may take to answer.
const TURN: Duration = Duration::from_secs(1);

/// A registry at other nodes. Clones share it.
#[derive(Clone, Debug)]
pub struct Remote {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: RemoteConfig,
    /// The node that is named in the configuration.
    home: Route,
    ways: Mutex<Ways>,
    /// Another node answers than before.
    moved: watch::Sender<()>,
}

/// Why a round among all nodes has no answer.
pub(crate) struct Missed {
    pub(crate) error: RemoteError,
    /// It will have none if it is asked again.
    pub(crate) is_final: bool,
    /// The request may have been handled.
    pub(crate) may_be_done: bool,
}

impl Remote {
    /// Makes sure that the coordinator of the cluster is there.
    ///
    /// # Errors
    /// The address is none, nobody answers there, or another than this cluster's coordinator.
    pub async fn open(config: RemoteConfig) -> Result<Self, Error> {
        let remote = Self::new(config)?;
        remote.view().await?;
        Ok(remote)
    }

    /// The same, and nobody is asked yet.
    pub(crate) fn new(config: RemoteConfig) -> Result<Self, Error> {
        check_name("cluster", &config.cluster)?;
        let node = config.identity.as_ref().map(|(_, keeper)| keeper.node.clone()).unwrap_or_default();
        let home = Route { node, address: config.address.clone() };
        // What was seen of a registry without a name says nothing of the one that answers.
        let seen = config.history.map_or(Epoch(0), |_| config.seen);
        let (history, seen) = (config.history, Seen { epoch: seen, revision: Revision(0) });
        let ways = Mutex::new(Ways::of(history, seen));
        let shared = Shared { config, home, ways, moved: watch::Sender::new(()) };
        shared.peer(&shared.home)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Who keeps the registry, as far as this one has heard.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.shared.ways().kept.clone()
    }

    /// Which registry it is.
    #[must_use]
    pub fn history(&self) -> Option<History> {
        self.shared.ways().history
    }

    /// The latest that this node has heard of.
    pub(crate) fn seen(&self) -> Seen {
        self.shared.ways().seen
    }

    /// Hears of something from elsewhere.
    pub(crate) fn learn(&self, kept: &Kept, seen: Seen) {
        let mut ways = self.shared.ways();
        ways.hear(kept);
        ways.seen.join(seen);
    }

    pub(crate) fn config(&self) -> &RemoteConfig {
        &self.shared.config
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
        let ask = submission(&change)?;
        let answer = self.shared.call(&ask, Duration::ZERO).await?;
        self.applied(&answer)
    }

    /// What an answer to a change says.
    pub(crate) fn applied(&self, answer: &Answer) -> Result<(Applied, Lease), Error> {
        let applied: Applied = self.shared.told(answer)?;
        self.shared.ways().seen.join(Seen { epoch: applied.epoch, revision: applied.revision });
        Ok((applied, Lease { asked: answer.asked, length: answer.lease }))
    }

    /// The registry that an answer has.
    pub(crate) fn viewed(&self, answer: &Answer) -> Result<View, Error> {
        let view: View = self.shared.told(answer)?;
        self.shared.ways().seen.join(Seen { epoch: view.epoch, revision: view.revision });
        Ok(view)
    }

    /// Asks one after the other, once.
    pub(crate) async fn round(&self, ask: &Ask, wait: Duration) -> Result<Answer, Missed> {
        self.shared.round(ask, wait, None).await
    }

    /// The registry as it is now, after declaring dead who is.
    ///
    /// # Errors
    /// The coordinator gives no answer.
    pub async fn view(&self) -> Result<View, Error> {
        let answer = self.shared.call(&Ask { path: VIEW.to_owned(), body: None }, Duration::ZERO).await?;
        self.viewed(&answer)
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
                return self.viewed(&answer);
            }
        }
    }

    /// A certificate (PEM) that follows the one by which this node, of that name, is known: of the same key. The node that is named in
    /// the configuration has the cluster's authority, whoever leads the registry.
    ///
    /// # Errors
    /// The coordinator refuses, does not sign, or gives no answer.
    pub async fn renew_certificate(&self, node: &str) -> Result<String, Error> {
        let body = serde_json::to_vec(&Renewal { node: node.to_owned() }).expect("it has only strings");
        let ask = Ask { path: RENEW.to_owned(), body: Some(body.into()) };
        let answer = self.shared.call_at(&ask, Duration::ZERO, Some(&self.shared.home)).await?;
        let admission: Admission = self.shared.told(&answer)?;
        Ok(admission.certificate)
    }
}

/// The request that makes a change.
pub(crate) fn submission(change: &Change) -> Result<Ask, RemoteError> {
    let body = serde_json::to_vec(change).expect("changes have only strings, numbers and sets of strings");
    if body.len() > REQUEST_BYTES_MAX {
        return Err(RemoteError::TooLong { bytes: body.len(), bytes_max: REQUEST_BYTES_MAX });
    }
    Ok(Ask { path: SUBMIT.to_owned(), body: Some(body.into()) })
}

impl Shared {
    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer(&self, route: &Route) -> Result<Peer, RemoteError> {
        Peer::at(route, &self.config)
    }

    /// Asks until there is an answer or the patience ends. The answer may come later than usual by `wait`, during
    /// which patience is not lost.
    async fn call(&self, ask: &Ask, wait: Duration) -> Result<Answer, RemoteError> {
        self.call_at(ask, wait, None).await
    }

    /// The same of one node only.
    async fn call_at(&self, ask: &Ask, wait: Duration, only: Option<&Route>) -> Result<Answer, RemoteError> {
        let mut deadline = None;
        let mut may_be_done = false;
        let cause = loop {
            let began = Instant::now();
            let missed = match self.round(ask, wait, only).await {
                Ok(answer) => return Ok(answer),
                Err(missed) => missed,
            };
            may_be_done |= missed.may_be_done;
            let failing_since = if wait.is_zero() { began } else { Instant::now() };
            let deadline = *deadline.get_or_insert(failing_since + self.config.patience);
            if missed.is_final || Instant::now() + PAUSE >= deadline {
                break missed.error;
            }
            sleep(PAUSE).await;
        };
        Err(unanswered(cause, may_be_done))
    }

    /// Asks one after the other, once, or only that one. Who says who leads is followed.
    async fn round(&self, ask: &Ask, wait: Duration, only: Option<&Route>) -> Result<Answer, Missed> {
        let mut moved = self.moved.subscribe();
        'anew: loop {
            let mut next: VecDeque<Route> = match only {
                Some(route) => [route.clone()].into(),
                None => self.routes().into(),
            };
            let is_one_of_many = next.len() > 1;
            let limit = match is_one_of_many {
                true => self.config.request_timeout.min(TURN),
                false => self.config.request_timeout,
            };
            let (mut tried, mut missed) = (BTreeSet::new(), None::<Missed>);
            while let Some(route) = next.pop_front() {
                if !tried.insert(route.address.clone()) {
                    continue;
                }
                moved.mark_unchanged();
                let attempt = self.attempt(&route, ask, limit + wait);
                let attempt = tokio::select! {
                    attempt = attempt => attempt,
                    // Others have found another node that answers: this one is waited for in vain, perhaps for long.
                    _ = moved.changed(), if !wait.is_zero() && only.is_none() => continue 'anew,
                };
                let (error, is_final, may_be_done) = match attempt {
                    Ok(answer) => match self.judged(&route, answer) {
                        Ok(answer) => return Ok(answer),
                        Err(Judged::Elsewhere(leader, said)) => {
                            let leader =
                                leader.filter(|_| only.is_none()).filter(|leader| !self.is_own(leader));
                            leader.into_iter().for_each(|leader| next.push_front(leader));
                            (RemoteError::NoLeader { address: route.address.clone(), said }, false, false)
                        }
                        // It is who was looked for, and says no.
                        Err(Judged::Final(
                            error @ (RemoteError::Protocol { .. } | RemoteError::File { .. }),
                        )) => {
                            let may_be_done = missed.is_some_and(|before| before.may_be_done);
                            return Err(Missed { error, is_final: true, may_be_done });
                        }
                        Err(Judged::Final(error)) => (error, true, false),
                    },
                    Err(Failed::Final(error)) => (error, true, false),
                    Err(Failed::Unsent(error)) => (error, false, false),
                    Err(Failed::Sent(error)) => (error, false, ask.body.is_some()),
                };
                missed = Some(match missed {
                    None => Missed { error, is_final, may_be_done },
                    // What is said of the one that can still answer is worth more.
                    Some(before) if is_final || !before.is_final => {
                        Missed { may_be_done: before.may_be_done || may_be_done, ..before }
                    }
                    Some(before) => {
                        Missed { error, is_final, may_be_done: before.may_be_done || may_be_done }
                    }
                });
            }
            return Err(missed.unwrap_or_else(|| Missed {
                error: RemoteError::NoLeader {
                    address: self.home.address.clone(),
                    said: "it knows of no other node that could".to_owned(),
                },
                is_final: false,
                may_be_done: false,
            }));
        }
    }

    /// All nodes that can be asked.
    fn routes(&self) -> Vec<Route> {
        let mut named = vec![self.home.clone()];
        named.extend(self.config.others.iter().cloned());
        self.ways().all(&named, self.config.own.as_deref())
    }

    fn is_own(&self, route: &Route) -> bool {
        self.config.own.as_deref() == Some(route.address.as_str())
    }

    async fn attempt(&self, route: &Route, ask: &Ask, limit: Duration) -> Result<Answer, Failed> {
        let peer = self.peer(route).map_err(Failed::Final)?;
        let idle = self.ways().take_idle(route);
        let open = match idle.filter(|idle| peer.shows_key() == idle.key()) {
            Some(idle) => idle.ready(self.config.connect_timeout).await,
            None => None,
        };
        let mut connection = match open {
            Some(open) => open,
            None => peer.connect(self.config.connect_timeout).await?,
        };
        let known = {
            let ways = self.ways();
            Known { history: ways.history, seen: Some(ways.seen), kept: Some(ways.kept.clone()) }
        };
        let answer = timeout(limit, connection.exchange(&peer, ask, known)).await.unwrap_or_else(|_| {
            let address = route.address.clone();
            Err(Failed::Sent(RemoteError::Slow { address, timeout_ms: limit.as_millis() }))
        })?;
        let leads = matches!(answer.status, StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::CONFLICT);
        // What a node says that keeps another registry is not remembered.
        if leads && self.is_same(&answer) && self.ways().answered(route, connection) {
            self.moved.send_replace(());
        }
        Ok(answer)
    }

    /// The answer is not of another registry of a cluster of the same name.
    fn is_same(&self, answer: &Answer) -> bool {
        self.ways().history.is_none_or(|history| answer.history == Some(history))
    }

    /// The answer if it is one to what was asked, or what it says instead.
    fn judged(&self, route: &Route, answer: Answer) -> Result<Answer, Judged> {
        let address = || route.address.clone();
        let wanted = &self.config.cluster;
        if answer.cluster != *wanted {
            let (wanted, cluster) = (wanted.clone(), answer.cluster);
            return Err(Judged::Final(RemoteError::WrongCluster { address: address(), wanted, cluster }));
        }
        let said = || match serde_json::from_slice::<Problem>(&answer.body) {
            Ok(problem) => printable(&problem.error),
            Err(_) => "nothing more".to_owned(),
        };
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::CONFLICT if !self.is_same(&answer) => {
                Err(Judged::Final(RemoteError::OtherRegistry { address: address() }))
            }
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::CONFLICT => {
                let mut ways = self.ways();
                ways.history = answer.history;
                if let Some(kept) = &answer.kept {
                    ways.kept.learn(kept);
                }
                drop(ways);
                Ok(answer)
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                let said = said();
                let Some(kept) = answer.kept else { return Err(Judged::Elsewhere(None, said)) };
                let mut ways = self.ways();
                let is_ours = ways.history.is_none() || kept.history == ways.history;
                if is_ours {
                    ways.kept.learn(&kept);
                }
                Err(Judged::Elsewhere(kept.leader.filter(|_| is_ours), said))
            }
            StatusCode::GONE
                if let Some(kept) = &answer.kept
                    && kept.history == answer.history
                    && kept.has_succeeded(self.ways().history) =>
            {
                self.ways().hear(kept);
                Err(Judged::Elsewhere(kept.leader.clone(), said()))
            }
            StatusCode::GONE => Err(Judged::Final(RemoteError::OtherRegistry { address: address() })),
            StatusCode::INTERNAL_SERVER_ERROR => {
                Err(Judged::Final(RemoteError::File { address: address(), message: said() }))
            }
            status => Err(Judged::Final(odd(address(), format!("HTTP status {status}, `{}`", said())))),
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
        let address = || self.ways().all(&[], None).first().unwrap_or(&self.home).address.clone();
        serde_json::from_slice(body).map_err(|e| odd(address(), format!("its answer does not parse: {e}")))
    }
}

/// What an answer is, if not one to what was asked.
enum Judged {
    /// The node does not lead; that one does, perhaps.
    Elsewhere(Option<Route>, String),
    /// It says something else.
    Final(RemoteError),
}

/// What is said of a request without an answer.
pub(crate) fn unanswered(cause: RemoteError, may_be_done: bool) -> RemoteError {
    match may_be_done {
        true => RemoteError::OutcomeUnknown { address: cause.address(), cause: Box::new(cause) },
        false => cause,
    }
}

fn odd(address: String, problem: String) -> RemoteError {
    RemoteError::Protocol { address, problem }
}

/// Text from outside as a message may show it.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(500).collect()
}
