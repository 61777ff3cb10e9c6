//! Records as keys of etcd, effects as transactions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::ids::Incarnation;
use crate::record::{
    Damage, HEAD, Head, Record, Write, attachment_key, attachments_prefix, certificate_key, disk_key,
    group_key, managed_key, map_key, member_key, store_key, striped_key, volume_key,
};
use crate::registry::{Effects, LeaseChange};

use super::Snapshot;
use super::api::{Compare, LeaseId, Operation, RangeRequest, Transaction, TransactionResponse};
use super::client::Client;
use super::error::EtcdError;

/// What the keys that live as long as a lease begin with, after the prefix.
pub(super) const LEASE: &str = "lease/";

/// The keys of one registry.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, cluster: &str) -> Self {
        Self { prefix: format!("{}/{cluster}/", prefix.trim_end_matches('/')) }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key in etcd of a key of the registry.
    pub(super) fn of(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The key that a member's lease keeps.
    pub(super) fn lease(&self, name: &str) -> String {
        format!("{}{LEASE}{name}", self.prefix)
    }

    /// From the first key to after the last.
    pub(super) fn all(&self) -> (String, String) {
        span(&self.prefix)
    }

    /// The key of the registry of a key in etcd.
    pub(super) fn strip<'a>(&self, key: &'a [u8]) -> Result<&'a str, Damage> {
        let text = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(self.prefix.as_str()));
        text.ok_or_else(|| Damage {
            key: key.escape_ascii().to_string(),
            problem: "is no key of a registry".to_owned(),
        })
    }
}

/// All keys that begin with a prefix that ends in a slash: up to the same with the next character.
fn span(prefix: &str) -> (String, String) {
    let stem = prefix.strip_suffix('/').unwrap_or(prefix);
    (prefix.to_owned(), format!("{stem}0"))
}

/// Value of the key that a member's lease keeps.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseValue {
    pub(super) incarnation: Incarnation,
}

impl LeaseValue {
    pub(super) fn parse(key: &str, value: &[u8]) -> Result<Self, Damage> {
        serde_json::from_slice(value).map_err(|e| Damage {
            key: key.to_owned(),
            problem: format!("has a value that does not parse: {e}"),
        })
    }
}

/// Puts the head of a new registry; false if there is one.
pub(super) async fn create(
    client: &Client,
    keys: &Keys,
    head: &Head,
    deadline: Instant,
) -> Result<bool, EtcdError> {
    let record = Record::Head(head.clone());
    let transaction = Transaction {
        compare: vec![Compare::unchanged(keys.of(HEAD), 0)],
        success: vec![Operation::put(keys.of(HEAD), record.value(), 0)],
    };
    let reply = client.call::<_, TransactionResponse>("/v3/kv/txn", &transaction, deadline).await?;
    Ok(reply.answer.succeeded)
}

/// What has been sent on behalf of one change, over all attempts.
#[derive(Default)]
pub(super) struct Sent {
    /// A transaction may have been made although nobody said so.
    pub(super) unknown: bool,
    /// A lease for the member that joins, while no key holds it.
    grant: Option<LeaseId>,
}

impl Sent {
    /// Makes the effects one transaction; false if the registry has changed since it was read.
    pub(super) async fn commit(
        &mut self,
        client: &Client,
        keys: &Keys,
        snapshot: &Snapshot,
        effects: &Effects,
        lease: Duration,
        deadline: Instant,
    ) -> Result<bool, EtcdError> {
        let mut success: Vec<Operation> = effects.writes.iter().map(|write| operation(keys, write)).collect();
        let mut ended = Vec::new();
        for change in &effects.leases {
            match change {
                LeaseChange::Begin(name) => {
                    let id = match self.grant {
                        Some(id) if client.keep_alive(id, deadline).await? => id,
                        _ => client.grant(lease.as_secs().try_into().unwrap_or(i64::MAX), deadline).await?,
                    };
                    self.grant = Some(id);
                    let member = effects.writes.iter().find_map(|write| match write {
                        Write::Put(Record::Member(member)) if member.name == *name => Some(member),
                        _ => None,
                    });
                    let incarnation = member.map(|member| member.incarnation).unwrap_or_default();
                    let value = serde_json::to_string(&LeaseValue { incarnation }).expect("it is one number");
                    success.push(Operation::put(keys.lease(name), value, id));
                    // The lease of a life that this one succeeds.
                    ended.extend(snapshot.leases.get(name));
                }
                LeaseChange::End(name) => {
                    success.push(Operation::delete(keys.lease(name)));
                    ended.extend(snapshot.leases.get(name));
                }
                LeaseChange::Extend(_) => {}
            }
        }
        let transaction =
            Transaction { compare: vec![Compare::unchanged(keys.of(HEAD), snapshot.head_revision)], success };
        let reply = client.call::<_, TransactionResponse>("/v3/kv/txn", &transaction, deadline).await;
        match reply {
            Ok(reply) if reply.answer.succeeded => {}
            Ok(_) => return Ok(false),
            // The new lease ended before the transaction came.
            Err(EtcdError::NoLease { .. }) => {
                self.grant = None;
                return Ok(false);
            }
            Err(error) => {
                self.unknown |= error.may_have_happened();
                return Err(error);
            }
        }
        self.grant = None;
        for id in ended {
            client.revoke(id).await;
        }
        Ok(true)
    }

    /// The lease turns out to be held by a key: a transaction was made whose answer was lost.
    pub(super) fn is_held(&mut self, id: LeaseId) {
        self.grant.take_if(|grant| *grant == id);
    }

    /// Gives back a lease that no key came to hold. Where nobody knows whether one did, it ends by itself.
    pub(super) async fn forget_grant(&mut self, client: &Client) {
        if let Some(id) = self.grant.take()
            && !self.unknown
        {
            client.revoke(id).await;
        }
    }
}

fn operation(keys: &Keys, write: &Write) -> Operation {
    match write {
        Write::Put(record) => Operation::put(keys.of(&record.key()), record.value(), 0),
        Write::DeleteMember(name) => Operation::delete(keys.of(&member_key(name))),
        Write::DeleteStore(node) => Operation::delete(keys.of(&store_key(node))),
        Write::DeleteDisk(id) => Operation::delete(keys.of(&disk_key(id))),
        Write::DeleteVolume(name) => Operation::delete(keys.of(&volume_key(name))),
        Write::DeleteAttachment { node, volume } => Operation::delete(keys.of(&attachment_key(node, volume))),
        Write::DeleteCertificate { name, key } => Operation::delete(keys.of(&certificate_key(name, key))),
        Write::DeleteManagedDisk(uuid) => Operation::delete(keys.of(&managed_key(uuid))),
        Write::DeleteStriped(name) => Operation::delete(keys.of(&striped_key(name))),
        Write::DeleteGroup(name) => Operation::delete(keys.of(&group_key(name))),
        Write::DeleteMap(number) => Operation::delete(keys.of(&map_key(*number))),
        Write::DeleteAttachmentsOf(node) => {
            Operation::Delete(RangeRequest::span(span(&keys.of(&attachments_prefix(node)))))
        }
    }
}
