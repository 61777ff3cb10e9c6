//! A daemon from its first moment to the one in which it serves: what it waits for, and what it answers meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cards_admin::{
    Cache, Counters, DiskEngine, DiskEngineKind, Refusal, RefusalKind, Reply, Request, SlowRequests, Status,
};
use cards_config::{Config, Coordinator};

use crate::clock::Clock;

/// The start of a daemon.
#[derive(Debug)]
pub(crate) struct Starting {
    config: Config,
    clock: Clock,
    since: Instant,
    wait: Mutex<Option<Wait>>,
    /// Clients and peers may be served from now on: there is something to drain.
    is_open: AtomicBool,
    sockets: Mutex<Vec<PathBuf>>,
}

#[derive(Debug)]
struct Wait {
    what: String,
    since: Instant,
    reason: Option<String>,
}

impl Starting {
    /// A start that begins now.
    pub(crate) fn new(config: Config) -> Self {
        let (since, clock) = (Instant::now(), Clock::start());
        let (wait, sockets) = (Mutex::default(), Mutex::default());
        Self { config, clock, since, wait, is_open: AtomicBool::new(false), sockets }
    }

    /// Notes that the start cannot go on without `what`, and why it has that not yet; without a reason, the one before holds.
    pub(crate) fn waits_for(&self, what: impl Into<String>, reason: Option<String>) {
        let (what, mut wait) = (what.into(), self.wait());
        let before = wait.take().filter(|wait| wait.what == what);
        let since = before.as_ref().map_or_else(Instant::now, |before| before.since);
        let reason = reason.or_else(|| before?.reason);
        *wait = Some(Wait { what, since, reason });
    }

    /// Notes that the start goes on.
    pub(crate) fn goes_on(&self) {
        *self.wait() = None;
    }

    /// Notes that clients and peers are served from now on.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::SeqCst)
    }

    /// The unix sockets that are bound, for their removal at the end.
    pub(crate) fn sockets(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the unix sockets.
    pub(crate) fn remove_sockets(&self) {
        for path in self.sockets().drain(..) {
            let _ = std::fs::remove_file(path);
        }
    }

    fn wait(&self) -> MutexGuard<'_, Option<Wait>> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> cards_admin::Starting {
        match &*self.wait() {
            None => cards_admin::Starting {
                waiting_s: self.since.elapsed().as_secs(),
                ..cards_admin::Starting::default()
            },
            Some(Wait { what, since, reason }) => cards_admin::Starting {
                waits_for: Some(what.clone()),
                waiting_s: since.elapsed().as_secs(),
                reason: reason.clone(),
            },
        }
    }

    /// The answer to a request line.
    pub(crate) fn answer(&self, line: &[u8]) -> Reply {
        match cards_admin::parse_request(line) {
            Ok(Request::Status {}) => Reply::Status(Box::new(self.status())),
            Ok(_) => Reply::Error(Refusal { kind: RefusalKind::Starting, message: self.headline() }),
            Err(refusal) => Reply::Error(refusal),
        }
    }

    /// What is said to whoever asks for more than the status: one sentence.
    pub(crate) fn headline(&self) -> String {
        self.status().headline()
    }

    fn status(&self) -> Status {
        let Config { cluster, node, coordinator, cache, replacement, .. } = &self.config;
        let starting = self.state();
        Status {
            cluster: cluster.clone(),
            node: node.clone(),
            coordinator: coordinator.as_ref().map(Coordinator::describe),
            registry: None,
            epoch: 0,
            version: env!("CARGO_PKG_VERSION").into(),
            secure: !self.config.insecure && self.config.identity_files().any(),
            in_clear: Vec::new(),
            certificate_ends_s: None,
            uptime_s: self.since.elapsed().as_secs(),
            time_ms: self.clock.now_and_utc_us().1 / 1_000,
            web: None,
            nbd: None,
            healthy: false,
            problems: vec![starting.to_string()],
            limit: None,
            failing: Vec::new(),
            starting: Some(starting),
            members: Vec::new(),
            volumes: Vec::new(),
            cache: Cache {
                bytes: *cache,
                blocks: 0,
                used: 0,
                pinned: 0,
                index_bytes: 0,
                replacement: *replacement,
            },
            disk_engine: DiskEngine { kind: DiskEngineKind::None, reason: "starting".into() },
            counters: Counters::default(),
            slow: SlowRequests::default(),
            losses: Vec::new(),
            disks: Vec::new(),
        }
    }
}
