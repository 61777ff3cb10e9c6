//! The registry in a file of one named node. Nothing to install; while that node is away, nobody joins, leaves or
//! is declared dead.

mod attention;
mod store;

#[cfg(test)]
mod crash_tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::change::{Applied, Change};
use crate::error::{Error, FileError};
use crate::ids::{Now, Revision, WallClock};
use crate::record::Certificate;
use crate::registry::{Effects, Registry, Terms};
use crate::view::View;

use attention::Attention;
use store::Store;

/// A registry in a file. Clones share it.
#[derive(Clone, Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    /// The revision of the last durable change.
    revision: watch::Sender<Revision>,
    clock: Attention,
    cluster: String,
    lease: Duration,
}

#[derive(Debug)]
struct Kept {
    registry: Registry,
    store: Store,
    /// A write failed: the file may or may not hold it.
    stopped: bool,
}

impl Embedded {
    /// Makes a new registry at `file` and opens it. Either the whole file is there afterwards or none.
    ///
    /// # Errors
    /// There is one already, the terms are none, or the disk refuses.
    pub fn create(file: &Path, terms: &Terms) -> Result<Self, Error> {
        Store::create(file, &terms.head()?)?;
        Ok(Self::open(file)?)
    }

    /// Opens the registry at `file`. All leases begin anew: nobody knows how long the coordinator was away.
    ///
    /// # Errors
    /// There is none, another process has it, or it is not what was last written.
    pub fn open(file: &Path) -> Result<Self, FileError> {
        Self::over(Store::open(file)?)
    }

    fn over((store, records): (Store, Vec<crate::record::Record>)) -> Result<Self, FileError> {
        let registry = Registry::load(records, |_, head| head.lease())
            .map_err(|damage| FileError::Record { file: store.file().to_owned(), damage })?;
        let revision = watch::Sender::new(registry.head().revision);
        let (cluster, lease) = (registry.head().cluster.clone(), registry.head().lease());
        let kept = Mutex::new(Kept { registry, store, stopped: false });
        Ok(Self { shared: Arc::new(Shared { kept, revision, clock: Attention::new(lease), cluster, lease }) })
    }

    /// While this future is polled, time in which the process stands still ends nobody's lease: whoever renewed
    /// meanwhile is heard first.
    pub async fn attend(&self) {
        self.shared.clock.pay().await;
    }

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

    /// Makes a change. It is durable when this returns.
    ///
    /// # Errors
    /// The change is refused, or the disk refuses to write.
    pub async fn submit(&self, change: Change) -> Result<Applied, Error> {
        self.blocking(move |shared| shared.submit(&change)).await
    }

    /// The same for a caller that has shown this certificate, which is recorded first. If its key was revoked, nothing changes.
    pub(crate) async fn submit_as(&self, certificate: Certificate, change: Change) -> Result<Applied, Error> {
        self.blocking(move |shared| {
            shared.with_current(|kept, now| {
                let known = kept.registry.decide(now, &Change::Certify { certificate, alone: false })?;
                shared.keep(kept, now, known)?;
                let effects = kept.registry.decide(now, &change)?;
                Ok(shared.keep(kept, now, effects)?)
            })
        })
        .await
    }

    /// The registry as it is now, after declaring dead who is.
    ///
    /// # Errors
    /// The disk refuses to write.
    pub async fn view(&self) -> Result<View, Error> {
        self.blocking(|shared| shared.with_current(|kept, _| Ok(kept.registry.view()))).await
    }

    /// As after a write that failed.
    #[cfg(test)]
    pub(crate) fn stop(&self) {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
    }

    /// The revision as it is now, after declaring dead who is.
    pub(crate) async fn revision(&self) -> Result<Revision, Error> {
        self.blocking(|shared| shared.with_current(|kept, _| Ok(kept.registry.head().revision))).await
    }

    /// Waits until the registry is at another revision than `after`. Members whose lease ends meanwhile are
    /// declared dead.
    ///
    /// # Errors
    /// The disk refuses to write.
    pub async fn changed(&self, after: Revision) -> Result<View, Error> {
        let mut revision = self.shared.revision.subscribe();
        loop {
            revision.mark_unchanged();
            let (view, next) = self.blocking(move |shared| shared.look(after)).await?;
            if let Some(view) = view {
                return Ok(view);
            }
            let lease_end = async {
                match next {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            // The sender lives as long as `self`, so the first branch ends only with a change.
            tokio::select! {
                _ = revision.changed() => {}
                () = lease_end => {}
            }
        }
    }

    /// Runs what waits for the disk where it holds up nobody else.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(&self.shared);
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down: nobody is left to hear the answer.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Shared {
    fn submit(&self, change: &Change) -> Result<Applied, Error> {
        self.with_current(|kept, now| {
            let effects = kept.registry.decide(now, change)?;
            Ok(self.keep(kept, now, effects)?)
        })
    }

    /// The view if it is of another revision than `after`, and how long until the next lease ends.
    fn look(&self, after: Revision) -> Result<(Option<View>, Option<Duration>), Error> {
        self.with_current(|kept, now| {
            let view = (kept.registry.head().revision != after).then(|| kept.registry.view());
            let next = kept.registry.next_lease_end().map(|end| end.saturating_sub(now.mono));
            Ok((view, next))
        })
    }

    /// Runs `work` on a registry in which everybody is dead whose lease has ended.
    fn with_current<T>(&self, work: impl FnOnce(&mut Kept, Now) -> Result<T, Error>) -> Result<T, Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.stopped {
            return Err(FileError::Stopped { file: kept.store.file().to_owned() }.into());
        }
        let now = Now { mono: self.clock.counted(), wall: WallClock::now() };
        loop {
            let effects = kept.registry.decide(now, &Change::Expire)?;
            if effects.writes.is_empty() {
                return work(&mut kept, now);
            }
            self.keep(&mut kept, now, effects)?;
        }
    }

    /// Durable first, visible second, answered third.
    fn keep(&self, kept: &mut Kept, now: Now, effects: Effects) -> Result<Applied, FileError> {
        if !effects.writes.is_empty() {
            // Until the write is known to have succeeded, it is taken to have failed: also if it panics.
            kept.stopped = true;
            let began = Instant::now();
            kept.store.commit(&effects.writes)?;
            kept.stopped = false;
            // Renewals had to wait.
            self.clock.leave_out(began.elapsed());
        }
        let applied = kept.registry.take(now, effects);
        self.revision
            .send_if_modified(|revision| std::mem::replace(revision, applied.revision) != applied.revision);
        Ok(applied)
    }
}
