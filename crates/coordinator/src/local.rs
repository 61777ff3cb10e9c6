//! This node's part of a registry that several nodes keep together, and the way to the rest.
//!
//! | file | noun |
//! |---|---|
//! | `open` | what a node begins with: its store, a new registry, or one of an earlier release |
//! | `actor` | the thread that has the store: votes, and leads if it is elected |
//! | `mailbox` | what is brought to that thread |
//! | `courier` | what brings requests to the other arbiters, and their replies back |
//! | `lookout` | asks others whether they know a later registry, before a lone arbiter trusts its own |
//! | `recover` | the registry goes on from the part of one arbiter, because the others are lost |
//! | `import` | the registry file of an earlier release |
//!
//! What is asked is done here if this node leads, else by the node that does, over [`Remote`].

mod actor;
mod courier;
mod import;
mod lookout;
mod mailbox;
mod open;
mod recover;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cards_register::{Led, Reply, Request, StoreId};
use hyper::StatusCode;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::change::{Applied, Change};
use crate::error::Error;
use crate::ids::{History, Revision};
use crate::kept::{Kept, Route};
use crate::lease::{BootTime, Lease};
use crate::record::Certificate;
use crate::refusal::Refusal;
use crate::remote::{Answer, Ask, Missed, Remote, RemoteConfig, Seen, submission, unanswered};
use crate::view::View;
use crate::wire::{CHANGED, POLL, VIEW};

use actor::Message;
pub(crate) use actor::NotHere;
pub use import::earlier_records;
use open::Aside;
pub use open::{Blank, Opened};
pub use recover::{RecoverError, Survivor};

/// Pause before something is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a node that ends waits until another one leads the registry: longer than an election takes.
const RESIGN: Duration = Duration::from_millis(500);
/// How long an arbiter that is away is waited for before another takes its place.
const LOST_AFTER: Duration = Duration::from_secs(600);

/// What a node's part of a registry is opened with.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// The file of its store.
    pub file: std::path::PathBuf,
    /// This node.
    pub node: String,
    /// How the others are reached. Its `own` is this node's address.
    pub remote: RemoteConfig,
    /// How long an arbiter that was declared dead is waited for before another node takes its place. Default 10 min.
    pub lost_after: Duration,
}

impl LocalConfig {
    /// The node of this name with a store in this file, and the default of everything else.
    #[must_use]
    pub fn new(file: &std::path::Path, node: &str, remote: RemoteConfig) -> Self {
        Self { file: file.to_owned(), node: node.to_owned(), remote, lost_after: LOST_AFTER }
    }
}

/// A node's part of a registry, and the way to the rest. Clones share it. Needs a Tokio runtime with time and I/O.
#[derive(Clone, Debug)]
pub struct Local {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cluster: String,
    lease: Duration,
    store: StoreId,
    /// What is wrong with the store, since it was opened.
    problem: Option<String>,
    /// The part that this node had, if it was put aside and nothing of the registry is here yet.
    aside: Option<Aside>,
    actor: mailbox::Sender<Message>,
    published: watch::Receiver<Published>,
    remote: Remote,
    /// Somebody follows another registry.
    stranger: Mutex<Option<Instant>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread of the store has last said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// The registry, while this node leads.
    pub(crate) view: Option<Arc<View>>,
    /// Who keeps it, as the store says.
    pub(crate) kept: Kept,
    /// The store of this node is one of those.
    pub(crate) keeps: bool,
    /// The store cannot be used any more.
    pub(crate) failed: Option<String>,
    /// Its disk is so slow that it may keep nodes from leading.
    pub(crate) slow: Option<String>,
    /// Who keeps it cannot change, while this node leads.
    pub(crate) held_up: Option<String>,
}

/// What is asked of a registry.
enum Op {
    Submit(Change),
    View,
    Changed(Revision),
}

/// What is answered.
enum Told {
    Applied(Applied, Lease),
    View(View),
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn close(&self) {
        let _ = self.actor.send(Message::Stop);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Local {
    /// Name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.shared.cluster
    }

    /// Length of a lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.shared.lease
    }

    /// The store by which this node can keep a part of the registry; none if it cannot be used.
    #[must_use]
    pub fn store(&self) -> Option<StoreId> {
        self.shared.published.borrow().failed.is_none().then_some(self.shared.store)
    }

    /// Ends this node's part, whoever still has a clone: when this returns, its store is not used any more.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Which registry it is.
    #[must_use]
    pub fn history(&self) -> Option<History> {
        let history = self.shared.published.borrow().kept.history;
        history.or_else(|| self.shared.remote.history())
    }

    /// Who keeps it, as far as this node knows.
    #[must_use]
    pub fn kept(&self) -> Kept {
        let mut kept = self.shared.remote.kept();
        kept.learn(&self.shared.published.borrow().kept);
        kept
    }

    /// The way to the others.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        &self.shared.remote
    }

    /// What to do about the part that this node had, if it was put aside and no other node that keeps the registry is known yet.
    #[must_use]
    pub fn aside(&self) -> Option<&str> {
        let is_known = !self.kept().arbiters.is_empty();
        self.shared.aside.as_ref().filter(|_| !is_known).map(|aside| aside.says.as_str())
    }

    /// That the disk of this node's part is so slow that it may keep nodes from leading the registry: what to say where nobody leads it.
    #[must_use]
    pub fn slow(&self) -> Option<String> {
        self.shared.published.borrow().slow.clone()
    }

    /// What an operator has to know of this node's part.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let Published { failed, held_up, view, keeps, .. } = self.shared.published.borrow().clone();
        let held_up = held_up.filter(|_| view.is_some());
        let stranger = *self.shared.stranger.lock().unwrap_or_else(PoisonError::into_inner);
        let stranger = stranger.is_some_and(|at| at.elapsed() < Duration::from_secs(60)).then(|| {
            "nodes of a cluster of this name follow another registry than this node's. If the cluster has gone on with this one (`cards \
             cluster recover`), they were forgotten and have to join anew. Only if this node has lost its state_dir, stop it, remove \
             `register` and `membership.json` there, and have `[coordinator.embedded]` in its file name one of those nodes"
                .to_owned()
        });
        // What was put aside is wanted no more once this node keeps a part again.
        let aside = self.shared.problem.clone().filter(|_| !keeps);
        [aside, failed, held_up, stranger].into_iter().flatten().collect()
    }

    /// Makes a change. It is durable when this returns.
    ///
    /// # Errors
    /// The change is refused, or nobody who leads the registry is found; then it may have been made.
    pub async fn submit(&self, change: Change) -> Result<Applied, Error> {
        Ok(self.leased(change).await?.0)
    }

    /// The same of a membership.
    pub(crate) async fn leased(&self, change: Change) -> Result<(Applied, Lease), Error> {
        match self.ask(&Op::Submit(change)).await? {
            Told::Applied(applied, lease) => Ok((applied, lease)),
            Told::View(_) => unreachable!("a change is answered by what it has led to"),
        }
    }

    /// The registry as it is now, after declaring dead who is.
    ///
    /// # Errors
    /// Nobody who leads it is found.
    pub async fn view(&self) -> Result<View, Error> {
        self.viewed(&Op::View).await
    }

    /// This node does not lead the registry from now on, nor is it elected: its process ends. If it led, waits a moment until another one does.
    pub async fn resign(&self) {
        let mut published = self.published();
        let (leads, others) = {
            let published = published.borrow();
            (published.view.is_some(), published.kept.arbiters.len() > 1)
        };
        if others && self.shared.actor.send(Message::Resign).is_ok() && leads {
            let own = &self.shared.remote.config().own;
            let leads = |route: &Route| own.as_ref() != Some(&route.address);
            let led = published.wait_for(|published| published.kept.leader.as_ref().is_some_and(leads));
            let _ = timeout(RESIGN, led).await;
        }
    }

    /// Waits until the registry is at another revision than `after`.
    ///
    /// # Errors
    /// Nobody who leads it is found.
    pub async fn changed(&self, after: Revision) -> Result<View, Error> {
        self.viewed(&Op::Changed(after)).await
    }

    async fn viewed(&self, op: &Op) -> Result<View, Error> {
        match self.ask(op).await? {
            Told::View(view) => Ok(view),
            Told::Applied(..) => unreachable!("a question is answered by a view"),
        }
    }

    /// What this node makes of a request to its arbiter; nothing if it gets no reply.
    pub(crate) async fn decide(&self, request: Request<Led<Vec<u8>>>) -> Option<Reply<Led<Vec<u8>>>> {
        let (reply, replied) = oneshot::channel();
        self.shared.actor.send(Message::Request { request, reply }).ok()?;
        replied.await.ok().flatten()
    }

    /// Another node says who keeps the registry. Only a node that has found its own part to be an old copy turns to those: what is said of
    /// a version may be of a value that was never chosen. One whose part was put aside asks them, and believes what they answer.
    pub(crate) fn hear_of(&self, kept: Kept) {
        if self.aside().is_some() && kept.history == self.history() {
            self.shared.remote.learn(&kept, Seen::default());
        }
        let is_of_use = {
            let published = self.shared.published.borrow();
            published.failed.is_some() && kept.version > published.kept.version
        };
        if !is_of_use {
            return;
        }
        let _ = self.shared.actor.send(Message::Outdated(kept));
    }

    /// Another registry has succeeded this node's: it turns to that one, and its part of the earlier one is put aside.
    pub(crate) fn is_succeeded(&self, kept: Kept) {
        self.shared.remote.learn(&kept, Seen::default());
        // Those that went before have met this node as the one that was behind.
        *self.shared.stranger.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.shared.actor.send(Message::Succeeded(kept));
    }

    /// A change by this node alone: not if another one leads. `seen` is the latest that the asker has heard of.
    pub(crate) async fn submit_here(
        &self,
        shown: Option<Certificate>,
        change: Change,
        seen: Seen,
    ) -> Result<Applied, NotHere> {
        let (answer, answered) = oneshot::channel();
        let asked = Message::Ask { shown, change: Box::new(change), seen, answer };
        self.shared.actor.send(asked).map_err(|_| NotHere::Failed)?;
        answered.await.unwrap_or(Err(NotHere::Failed))
    }

    /// The registry, and what becomes of it, as this node says while it leads.
    pub(crate) fn published(&self) -> watch::Receiver<Published> {
        self.shared.published.clone()
    }

    /// Where others reach this node.
    pub(crate) fn own_address(&self) -> Option<&String> {
        self.shared.remote.config().own.as_ref()
    }

    /// Somebody follows another registry of a cluster of the same name.
    pub(crate) fn met_stranger(&self) {
        *self.shared.stranger.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Has it done here or there.
    async fn ask(&self, op: &Op) -> Result<Told, Error> {
        let remote = &self.shared.remote;
        let patience = remote.config().patience;
        let (mut deadline, mut may_be_done) = (None, false);
        loop {
            let began = Instant::now();
            let kept = remote.kept();
            let own = self.shared.published.borrow().kept.clone();
            if kept.has_succeeded(own.history) {
                self.is_succeeded(kept);
            } else if kept.version > own.version && !own.arbiters.is_empty() {
                let _ = self.shared.actor.send(Message::Heard(kept));
            }
            match self.here(op).await {
                Ok(told) => return Ok(told),
                Err(NotHere::Refused(refusal)) => return Err(refusal.into()),
                Err(NotHere::Unknown) => may_be_done = true,
                Err(NotHere::NotLeader | NotHere::Failed | NotHere::Busy) => {}
            }
            remote.learn(&self.shared.published.borrow().kept, Seen::default());
            let mut published = self.published();
            let missed = tokio::select! {
                told = self.there(op) => match told {
                    Ok(told) => return told,
                    Err(missed) => missed,
                },
                // Whoever is waited for there does not lead any more.
                _ = published.wait_for(|published| published.view.is_some()), if matches!(op, Op::Changed(_)) => {
                    continue;
                }
            };
            may_be_done |= missed.may_be_done && matches!(op, Op::Submit(_));
            // Time in which somebody answered that nothing had changed is no silence.
            let failing_since = if began.elapsed() > POLL / 2 { Instant::now() } else { began };
            if Instant::now() + PAUSE >= *deadline.get_or_insert(failing_since + patience) {
                return Err(unanswered(missed.error, may_be_done).into());
            }
            sleep(PAUSE).await;
        }
    }

    /// Has it done by this node, if it leads.
    async fn here(&self, op: &Op) -> Result<Told, NotHere> {
        let seen = self.shared.remote.seen();
        match op {
            Op::Submit(change) => {
                let asked = BootTime::now();
                let shown = change.seat().and_then(|_| self.own_certificate());
                let applied = self.submit_here(shown, change.clone(), seen).await?;
                let Applied { epoch, revision, .. } = applied;
                self.shared.remote.learn(&Kept::default(), Seen { epoch, revision });
                Ok(Told::Applied(applied, Lease { asked, length: self.lease() }))
            }
            Op::View => Ok(Told::View(self.view_here(seen).await?)),
            Op::Changed(after) => {
                let mut published = self.published();
                loop {
                    published.mark_unchanged();
                    let view = self.view_here(seen).await?;
                    if view.revision != *after {
                        return Ok(Told::View(view));
                    }
                    if published.changed().await.is_err() {
                        return Err(NotHere::Failed);
                    }
                }
            }
        }
    }

    /// What this node shows to others: the registry knows of it as of theirs.
    fn own_certificate(&self) -> Option<Certificate> {
        let (identity, _) = self.shared.remote.config().identity.as_ref()?;
        Certificate::of(&identity.shown(), identity.name())
    }

    /// The registry as it is now, if this node leads.
    async fn view_here(&self, seen: Seen) -> Result<View, NotHere> {
        // What has happened by then is published before it is answered.
        let applied = self.submit_here(None, Change::Expire, seen).await?;
        let view = self.shared.published.borrow().view.clone();
        let view = view.filter(|view| view.revision >= applied.revision).ok_or(NotHere::NotLeader)?;
        Ok((*view).clone())
    }

    /// Has it done by whoever of the others leads.
    async fn there(&self, op: &Op) -> Result<Result<Told, Error>, Missed> {
        let remote = &self.shared.remote;
        let (ask, wait) = match op {
            Op::Submit(change) => match submission(change) {
                Ok(ask) => (ask, Duration::ZERO),
                Err(error) => return Ok(Err(error.into())),
            },
            Op::View => (Ask { path: VIEW.to_owned(), body: None }, Duration::ZERO),
            Op::Changed(after) => (Ask { path: format!("{CHANGED}?after={after}"), body: None }, POLL),
        };
        loop {
            let answer: Answer = remote.round(&ask, wait).await?;
            if answer.status == StatusCode::NO_CONTENT {
                continue;
            }
            return Ok(match op {
                Op::Submit(_) => {
                    remote.applied(&answer).map(|(applied, lease)| Told::Applied(applied, lease))
                }
                Op::View | Op::Changed(_) => remote.viewed(&answer).map(Told::View),
            });
        }
    }
}

impl From<Refusal> for NotHere {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What the others have to know of this node: where it is.
fn own_route(config: &LocalConfig) -> Route {
    let address = config.remote.own.clone().unwrap_or_default();
    Route { node: config.node.clone(), address }
}

/// What a lone arbiter says of itself when others know a later registry.
fn outdated(detail: &str) -> String {
    format!(
        "this node's copy of the registry is an old one: {detail}. It keeps no part of the registry until its daemon is restarted; if it \
         was the only one to keep it, bring back the newer file `register` first"
    )
}
