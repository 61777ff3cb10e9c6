//! The registry in an etcd cluster, version 3.4 or later, over its JSON gateway.
//!
//! Every change is decided by the same [`Registry`] as in the other home, on a snapshot read from etcd at one revision,
//! and committed by one transaction that compares the revision of the head: if anything has changed meanwhile,
//! nothing is written and the change is decided anew. A live member also has a key with an etcd lease, which etcd
//! deletes when the lease ends; whoever sees it missing declares the member dead, by such a transaction.
//!
//! An etcd lease is no mutual exclusion: a node that was paused does not know that its lease has ended. What
//! protects the disks is the epoch that they compare.

mod api;
mod client;
mod config;
pub(crate) mod error;
mod http;
mod tls;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::change::{Applied, Change};
use crate::error::Error;
use crate::ids::{Incarnation, Now, Revision, WallClock};
use crate::record::{Damage, HEAD, Member, Record, member_key};
use crate::registry::{Effects, LeaseChange, Registry, Terms};
use crate::view::View;

use api::{KeyValue, LeaseId, Operation, RangeRequest, RangeResponse, Transaction, TransactionResponse};
use client::Client;
pub use config::{EtcdConfig, Login, TlsFiles};
pub use error::EtcdError;
use transaction::{Keys, LeaseValue, Sent};

/// Least length of a lease here: what etcd gives with its default election timeout.
const LEASE_MIN: Duration = Duration::from_secs(2);
/// How long a watch is trusted to tell of a change before the registry is read again.
const WATCH_MAX: Duration = Duration::from_secs(5);
/// Pause after a watch, and after a transaction that met another one.
const PAUSE: Duration = Duration::from_millis(50);

/// A registry in etcd. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    keys: Keys,
    lease: Duration,
    patience: Duration,
}

/// The registry as etcd had it at one moment.
struct Snapshot {
    registry: Registry,
    /// Etcd's revision of the head, which a transaction compares.
    head_revision: i64,
    /// Etcd's revision of the whole, from which a watch begins.
    revision: i64,
    /// The etcd lease of every member that has one.
    leases: BTreeMap<String, LeaseId>,
    /// Time of day at the etcd member that answered.
    wall: WallClock,
}

impl Snapshot {
    /// An etcd lease has ended or it has not; when it will is nobody's business here.
    const fn now(&self) -> Now {
        Now { mono: Duration::ZERO, wall: self.wall }
    }
}

/// What became of an attempt to commit.
enum Outcome {
    Done(Applied),
    /// Something has changed since the snapshot was read.
    Again,
}

impl Etcd {
    /// Makes a new registry and opens it. Leases are rounded up to whole seconds, at least two.
    ///
    /// # Errors
    /// There is one already, the terms are none, or etcd does not do it.
    pub async fn create(config: &EtcdConfig, terms: &Terms) -> Result<Self, Error> {
        let seconds = terms.lease.as_millis().div_ceil(1000).max(LEASE_MIN.as_secs().into());
        let lease = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
        let head = Terms { lease, ..terms.clone() }.head()?;
        let client = Client::new(config)?;
        let keys = Keys::new(&config.prefix, &terms.cluster);
        let deadline = Instant::now() + config.patience;
        let created = transaction::create(&client, &keys, &head, deadline).await?;
        if !created {
            return Err(EtcdError::Exists { key: keys.of(HEAD) }.into());
        }
        Self::open(config, &terms.cluster).await
    }

    /// Opens the registry of `cluster`.
    ///
    /// # Errors
    /// There is none, its records contradict each other, or etcd cannot be read.
    pub async fn open(config: &EtcdConfig, cluster: &str) -> Result<Self, Error> {
        let client = Client::new(config)?;
        let keys = Keys::new(&config.prefix, cluster);
        let mut shared = Shared { client, keys, lease: Duration::ZERO, patience: config.patience };
        let snapshot = shared.read(Instant::now() + config.patience).await?;
        shared.lease = snapshot.registry.head().lease();
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Length of a lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.shared.lease
    }

    /// Makes a change. It is durable when this returns.
    ///
    /// # Errors
    /// The change is refused, or etcd does not do it.
    pub async fn submit(&self, change: Change) -> Result<Applied, Error> {
        let deadline = Instant::now() + self.shared.patience;
        let mut sent = Sent::default();
        let result = self.shared.submit(&change, deadline, &mut sent).await;
        sent.forget_grant(&self.shared.client).await;
        match result {
            Err(Error::Etcd(cause)) if sent.unknown => {
                Err(EtcdError::OutcomeUnknown { cause: Box::new(cause) }.into())
            }
            other => other,
        }
    }

    /// The registry as it is now, after declaring dead who is. A full etcd takes no such declaration; then the
    /// registry is what it was.
    ///
    /// # Errors
    /// Etcd cannot be read.
    pub async fn view(&self) -> Result<View, Error> {
        Ok(self.shared.current(Instant::now() + self.shared.patience).await?.registry.view())
    }

    /// Waits until the registry is at another revision than `after`. Members whose lease ends meanwhile are
    /// declared dead.
    ///
    /// # Errors
    /// Etcd cannot be read.
    pub async fn changed(&self, after: Revision) -> Result<View, Error> {
        loop {
            let snapshot = self.shared.current(Instant::now() + self.shared.patience).await?;
            if snapshot.registry.head().revision != after {
                return Ok(snapshot.registry.view());
            }
            // A watch only says when to look again: one that hangs, fails or cries wolf costs time, not truth.
            let watch = self.shared.client.watch(self.shared.keys.all(), snapshot.revision + 1);
            drop(tokio::time::timeout(WATCH_MAX, watch).await);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Shared {
    async fn submit(&self, change: &Change, deadline: Instant, sent: &mut Sent) -> Result<Applied, Error> {
        if let Change::Renew { seat, .. } = change
            && let Some(applied) = self.renew(&seat.name, change, deadline, sent).await?
        {
            return Ok(applied);
        }
        loop {
            let snapshot = self.declared(deadline).await?;
            let effects = snapshot.registry.decide(snapshot.now(), change)?;
            if let Outcome::Done(applied) = self.commit(&snapshot, effects, deadline, sent).await? {
                return Ok(applied);
            }
            if Instant::now() >= deadline {
                return Err(EtcdError::Contended { key: self.keys.of(HEAD) }.into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The registry with everybody declared dead who is, if etcd takes it.
    async fn current(&self, deadline: Instant) -> Result<Snapshot, Error> {
        match self.declared(deadline).await {
            Err(Error::Etcd(EtcdError::Full { .. })) => Ok(self.read(deadline).await?),
            other => other,
        }
    }

    /// Reads the registry and declares dead who has no lease any more, until nobody is left to declare.
    async fn declared(&self, deadline: Instant) -> Result<Snapshot, Error> {
        loop {
            let snapshot = self.read(deadline).await?;
            let effects = snapshot.registry.decide(snapshot.now(), &Change::Expire)?;
            if effects.writes.is_empty() {
                return Ok(snapshot);
            }
            // Another node that saw the same may have been first; either way the registry is read again.
            self.commit(&snapshot, effects, deadline, &mut Sent::default()).await?;
            if Instant::now() >= deadline {
                return Err(EtcdError::Contended { key: self.keys.of(HEAD) }.into());
            }
        }
    }

    /// Makes the effects durable if the registry is still the one they were decided on.
    async fn commit(
        &self,
        snapshot: &Snapshot,
        effects: Effects,
        deadline: Instant,
        sent: &mut Sent,
    ) -> Result<Outcome, EtcdError> {
        // A change of leases alone concerns nobody else's records.
        if effects.writes.is_empty() {
            for lease in &effects.leases {
                let (LeaseChange::Begin(name) | LeaseChange::Extend(name) | LeaseChange::End(name)) = lease;
                let Some(id) = snapshot.leases.get(name) else { return Ok(Outcome::Again) };
                if !self.client.keep_alive(*id, deadline).await? {
                    return Ok(Outcome::Again);
                }
                // A member cut off from the others may have answered. This read is answered by the majority: with the
                // key there, the lease had not ended by then. A leader that was deposed a moment ago may still have
                // renewed in vain; what protects from that is the epoch.
                if self.lease_of(name, deadline).await? != Some(*id) {
                    return Ok(Outcome::Again);
                }
                sent.is_held(*id);
            }
            return Ok(Outcome::Done(effects.applied));
        }
        let done = sent.commit(&self.client, &self.keys, snapshot, &effects, self.lease, deadline).await?;
        Ok(if done { Outcome::Done(effects.applied) } else { Outcome::Again })
    }

    async fn lease_of(&self, name: &str, deadline: Instant) -> Result<Option<LeaseId>, EtcdError> {
        let request = RangeRequest::one(self.keys.lease(name));
        let reply = self.client.call::<_, RangeResponse>("/v3/kv/range", &request, deadline).await?;
        Ok(reply.answer.kvs.first().map(|kv| kv.lease))
    }

    /// Renews without reading more than the member's own records; nothing if there is more to say than yes.
    async fn renew(
        &self,
        name: &str,
        change: &Change,
        deadline: Instant,
        sent: &mut Sent,
    ) -> Result<Option<Applied>, Error> {
        let keys = [self.keys.of(HEAD), self.keys.of(&member_key(name)), self.keys.lease(name)];
        let success = keys.into_iter().map(RangeRequest::one).map(Operation::Range).collect();
        let request = Transaction { compare: Vec::new(), success };
        let reply = self.client.call::<_, TransactionResponse>("/v3/kv/txn", &request, deadline).await?;
        let found = reply.answer.responses.into_iter().filter_map(|response| response.response_range);
        let snapshot =
            self.snapshot(found.flat_map(|range| range.kvs), reply.answer.header.revision, reply.date)?;
        let Ok(effects) = snapshot.registry.decide(snapshot.now(), change) else { return Ok(None) };
        match self.commit(&snapshot, effects, deadline, sent).await? {
            Outcome::Done(applied) => Ok(Some(applied)),
            Outcome::Again => Ok(None),
        }
    }

    /// Reads everything at one revision.
    async fn read(&self, deadline: Instant) -> Result<Snapshot, EtcdError> {
        let request = RangeRequest::span(self.keys.all());
        let reply = self.client.call::<_, RangeResponse>("/v3/kv/range", &request, deadline).await?;
        self.snapshot(reply.answer.kvs, reply.answer.header.revision, reply.date)
    }

    fn snapshot(
        &self,
        found: impl IntoIterator<Item = KeyValue>,
        revision: i64,
        wall: WallClock,
    ) -> Result<Snapshot, EtcdError> {
        let damaged = |damage: Damage| EtcdError::Damaged { prefix: self.keys.prefix().to_owned(), damage };
        let mut records = Vec::new();
        let mut head_revision = None;
        let mut leases = BTreeMap::new();
        for kv in found {
            let key = self.keys.strip(&kv.key).map_err(damaged)?;
            if let Some(name) = key.strip_prefix(transaction::LEASE) {
                let value = LeaseValue::parse(key, &kv.value).map_err(damaged)?;
                leases.insert(name.to_owned(), (kv.lease, value.incarnation));
                continue;
            }
            if key == HEAD {
                head_revision = Some(kv.mod_revision);
            }
            records.push(Record::parse(key, &kv.value).map_err(damaged)?);
        }
        let Some(head_revision) = head_revision else {
            return Err(EtcdError::NoRegistry { key: self.keys.of(HEAD) });
        };
        let registry = Registry::load(records, |member, _| lease_end(&leases, member)).map_err(damaged)?;
        let leases = leases.into_iter().map(|(name, (id, _))| (name, id)).collect();
        Ok(Snapshot { registry, head_revision, revision, leases, wall })
    }
}

fn lease_end(leases: &BTreeMap<String, (LeaseId, Incarnation)>, member: &Member) -> Duration {
    match leases.get(&member.name) {
        Some((_, incarnation)) if *incarnation == member.incarnation => Duration::MAX,
        _ => Duration::ZERO,
    }
}
