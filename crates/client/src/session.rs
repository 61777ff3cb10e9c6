//! A session, which keeps itself alive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::body::{Acquire, GroupState, SessionState};
use crate::clock::Moment;
use crate::{Client, Error, ErrorKind, Group, Range, Wait};

/// The pause after a request to keep a session alive that was not answered.
const RETRY: Duration = Duration::from_millis(200);
/// How long the daemon may take beyond the time that a request may wait for a lock.
const PATIENCE: Duration = Duration::from_secs(30);

/// A user of locks. When it is dropped it is closed, and its groups are lost.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    keeper: AbortHandle,
}

/// What a session and its groups share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) id: String,
    ttl_ms: u64,
    keep_alive: Duration,
    known: watch::Sender<Known>,
}

/// What is known of a session.
#[derive(Debug)]
pub(crate) struct Known {
    /// It is open before then, if it is not kept alive until then.
    pub(crate) until: Moment,
    /// It was closed.
    pub(crate) over: bool,
    /// Until when each of its groups may be relied upon.
    pub(crate) groups: BTreeMap<String, Moment>,
}

impl Session {
    pub(crate) fn start(client: Client, state: &SessionState, sent: Moment) -> Self {
        let until = sent.after_ms(state.ttl_ms);
        let shared = Arc::new(Shared {
            client,
            id: state.session.clone(),
            ttl_ms: state.ttl_ms,
            keep_alive: Duration::from_millis(state.keep_alive_ms.max(1)),
            known: watch::Sender::new(Known { until, over: false, groups: BTreeMap::new() }),
        });
        let keeper = tokio::spawn(keep_alive(Arc::clone(&shared))).abort_handle();
        Self { shared, keeper }
    }

    /// Its name in the API.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Locks all of `ranges`, or none.
    ///
    /// To wait for one group while holding another invites deadlock; wait for a limited time then. A future that
    /// is dropped before it is ready holds nothing.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses: see [`ErrorKind`].
    pub async fn lock(&self, ranges: &[Range], wait: Wait) -> Result<Group, Error> {
        let limit = match wait {
            Wait::None => Some(PATIENCE),
            Wait::Seconds(seconds) => {
                let seconds = seconds.clamp(0.0, crate::body::WAIT_SECONDS_MAX);
                Some(PATIENCE + Duration::from_secs_f64(seconds))
            }
            Wait::Forever => None,
        };
        let path = format!("/v1/locks/sessions/{}/groups", self.shared.id);
        let ask = Acquire { ranges: ranges.to_vec(), wait };
        let asked = Moment::now();
        let state: GroupState = self.shared.client.call(Method::POST, &path, &ask, limit).await?;
        let until = asked.after_ms(state.left_ms.unwrap_or(0));
        self.shared.add(&state.group, until);
        let group = Group::new(Arc::clone(&self.shared), state);
        if until.left() < self.shared.keep_alive * 2 {
            // The answer was long in coming, and counts from the question: so that is asked again.
            self.shared.refresh().await?;
        }
        if group.still_held() { Ok(group) } else { Err(lease_ended()) }
    }

    /// Whether it is open, as far as is known here.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let known = self.shared.known.borrow();
        !known.over && !known.until.left().is_zero()
    }

    /// Waits until the session is over: the daemon has closed it, or could not be reached for its ttl.
    pub async fn lost(&self) {
        let mut known = self.shared.known.subscribe();
        // The sender is there as long as this is.
        let _ = known.wait_for(|known| known.over).await;
    }

    /// Closes it; its groups are released.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses; it closes the session itself after its ttl then.
    pub async fn close(self) -> Result<(), Error> {
        self.shared.end();
        self.keeper.abort();
        self.shared.client.close(&self.shared.id).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.keeper.abort();
        if self.shared.end()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = Arc::clone(&self.shared);
            // If it fails, the daemon closes the session after its ttl.
            runtime.spawn(async move { shared.client.close(&shared.id).await });
        }
    }
}

impl Shared {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    /// Until when a group may be relied upon; none if it is lost.
    pub(crate) fn until(&self, group: &str) -> Option<Moment> {
        self.known.borrow().until(group)
    }

    pub(crate) fn forget(&self, group: &str) {
        self.known.send_modify(|known| {
            known.groups.remove(group);
        });
    }

    fn add(&self, group: &str, until: Moment) {
        self.known.send_modify(|known| {
            known.groups.insert(group.into(), until);
        });
    }

    /// Notes that the session is over; false if it was before.
    fn end(&self) -> bool {
        self.known.send_if_modified(|known| !std::mem::replace(&mut known.over, true))
    }

    /// Keeps the session alive, and learns what it has.
    async fn refresh(&self) -> Result<(), Error> {
        // What is added after the question may be missing in the answer.
        let before: Vec<String> = self.known.borrow().groups.keys().cloned().collect();
        let sent = Moment::now();
        let path = format!("/v1/locks/sessions/{}/keep-alive", self.id);
        let answer: Result<SessionState, Error> = self.client.post(&path, &()).await;
        if let Err(Error::Refused { kind: ErrorKind::NoSession, .. }) = &answer {
            self.end();
        }
        let state = answer?;
        self.known.send_modify(|known| {
            known.until = known.until.max(sent.after_ms(self.ttl_ms));
            for group in before {
                let told = state.groups.iter().find(|told| told.group == group);
                match told.and_then(|told| told.left_ms) {
                    Some(left_ms) => {
                        if let Some(until) = known.groups.get_mut(&group) {
                            *until = (*until).max(sent.after_ms(left_ms));
                        }
                    }
                    None => {
                        known.groups.remove(&group);
                    }
                }
            }
        });
        Ok(())
    }
}

impl Known {
    /// See [`Shared::until`].
    pub(crate) fn until(&self, group: &str) -> Option<Moment> {
        self.groups.get(group).copied().filter(|_| !self.over)
    }
}

/// Keeps a session alive until it is over.
async fn keep_alive(shared: Arc<Shared>) {
    let mut pause = shared.keep_alive;
    loop {
        tokio::time::sleep(pause).await;
        let until = shared.known.borrow().until;
        let answered = tokio::time::timeout(until.left(), shared.refresh()).await;
        pause = match answered {
            Ok(Ok(())) => shared.keep_alive,
            Ok(Err(_)) if !until.left().is_zero() && !shared.known.borrow().over => {
                RETRY.min(shared.keep_alive)
            }
            Ok(Err(_)) | Err(_) => break,
        };
    }
    shared.end();
}

fn lease_ended() -> Error {
    let message = "the group was lost as soon as it was granted: ask again".into();
    Error::Refused { kind: ErrorKind::LeaseEnded, message }
}
