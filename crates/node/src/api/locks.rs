//! What the lock service does for a request, and how it tells what it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cards_client::body;
use cards_client::body::ErrorKind;
use cards_core::rendezvous::{Members, RegionId};
use cards_core::{NodeId, PgId};
use cards_locks::{GroupKey, Holding, LockError, LockRange, Locked, Mode, SessionId, Wait, Want};
use serde::Serialize;
use tokio::sync::oneshot;

use super::answer::Failure;
use super::ids::{clip, session};
use super::names::Names;
use crate::locks::{Refusal, limits};
use crate::node::Node;

/// How long a request that is not to wait for others may wait for the homes, which may be in a take-over.
const ANSWER: Duration = Duration::from_secs(10);
/// Regions of a range that are looked through for their homes.
const REGIONS_MAX: usize = 1 << 16;

/// An answer that says nothing more.
#[derive(Serialize)]
pub(super) struct Done {}

/// `POST /v1/locks/sessions`.
pub(super) fn open(node: &Node, ask: body::OpenSession) -> Result<body::SessionState, Failure> {
    let ttl = ask.ttl_ms.map_or(limits::TTL_DEFAULT, Duration::from_millis);
    if !limits::TTL.contains(&ttl) {
        let message = format!(
            "ttl_ms: {} is not within {} and {}",
            ttl.as_millis(),
            limits::TTL.start().as_millis(),
            limits::TTL.end().as_millis()
        );
        return Err(Failure::new(ErrorKind::BadRequest, message));
    }
    if ask.name.len() > limits::NAME_BYTES || ask.name.chars().any(char::is_control) {
        let message = format!(
            "name: {:?} is longer than {} bytes or cannot be printed",
            clip(&ask.name),
            limits::NAME_BYTES
        );
        return Err(Failure::new(ErrorKind::BadRequest, message));
    }
    let names = Names::new(node);
    let state = node.locks.with(|service, now| {
        let id = service.open(now, ask.name, ttl)?;
        service.keep_alive(now, id)
    });
    Ok(names.session(state?))
}

/// `POST /v1/locks/sessions/{session}/keep-alive`.
pub(super) fn keep_alive(node: &Node, id: SessionId) -> Result<body::SessionState, Failure> {
    let names = Names::new(node);
    let state = node.locks.with(|service, now| service.keep_alive(now, id))?;
    Ok(names.session(state))
}

/// `DELETE /v1/locks/sessions/{session}`.
pub(super) fn close(node: &Node, id: SessionId) -> Result<Done, Failure> {
    node.locks.with(|service, now| service.close(now, id))?;
    Ok(Done {})
}

/// `POST /v1/locks/sessions/{session}/groups`: waits until the group is granted or refused.
pub(super) async fn acquire(
    node: &Arc<Node>,
    id: SessionId,
    ask: body::Acquire,
) -> Result<body::GroupState, Failure> {
    if ask.ranges.len() > limits::GROUP_PARTS {
        return Err(Refusal::TooManyParts { given: ask.ranges.len() as u64 }.into());
    }
    let wants = ask.ranges.iter().map(|range| want(node, range)).collect::<Result<Vec<Want>, Failure>>()?;
    let (answer, heard) = oneshot::channel();
    let key = node.locks.with(|service, now| {
        let wait = match ask.wait {
            body::Wait::None => Wait::Try,
            body::Wait::Seconds(seconds) => Wait::Until(now + Duration::from_secs_f64(seconds)),
            body::Wait::Forever => Wait::Forever,
        };
        service.acquire(now, id, wants, wait, answer)
    })?;
    // A client that goes away does not want it any more.
    let mut unwanted = Unwanted { node, key: Some(key) };
    let heard = match ask.wait {
        body::Wait::None => tokio::time::timeout(ANSWER, heard).await.map_err(|_| no_answer())?,
        body::Wait::Seconds(_) | body::Wait::Forever => heard.await,
    };
    match heard {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(Refusal::Locks(error).into()),
        Err(_) => return Err(Refusal::NoSession(id).into()),
    }
    let names = Names::new(node);
    let group = node.locks.with(|service, now| service.group(now, key)).filter(|group| group.held.is_some());
    let group = group.ok_or(Refusal::Locks(LockError::LeaseEnded))?;
    unwanted.key = None;
    Ok(names.group(group))
}

fn no_answer() -> Failure {
    let message = format!(
        "the homes of these ranges have not answered within {} s: members may have changed just now; try again, or \
         wait for it",
        ANSWER.as_secs()
    );
    Failure::new(ErrorKind::NoAnswer, message)
}

/// A group that nobody has been told of.
struct Unwanted<'a> {
    node: &'a Node,
    key: Option<GroupKey>,
}

impl Drop for Unwanted<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let (done, _) = oneshot::channel();
            // A session that is over has released it.
            let _ = self.node.locks.with(|service, now| service.release(now, key, done));
        }
    }
}

/// `POST /v1/locks/sessions/{session}/groups/{group}/downgrade`: waits until the homes know.
pub(super) async fn downgrade(node: &Node, key: GroupKey) -> Result<body::GroupState, Failure> {
    let (done, heard) = oneshot::channel();
    node.locks.with(|service, now| service.downgrade(now, key, done))?;
    tokio::time::timeout(ANSWER, heard)
        .await
        .map_err(|_| no_answer())?
        .map_err(|_| Refusal::Locks(LockError::LeaseEnded))?;
    let names = Names::new(node);
    let group = node.locks.with(|service, now| service.group(now, key)).filter(|group| group.held.is_some());
    Ok(names.group(group.ok_or(Refusal::NoGroup(key))?))
}

/// `DELETE /v1/locks/sessions/{session}/groups/{group}`: waits until the homes know.
pub(super) async fn release(node: &Node, key: GroupKey) -> Result<Done, Failure> {
    let (done, heard) = oneshot::channel();
    node.locks.with(|service, now| service.release(now, key, done))?;
    // It also ends with its session.
    let _ = heard.await;
    Ok(Done {})
}

/// `GET /v1/locks/groups/{group}`.
pub(super) fn show(node: &Node, key: GroupKey) -> Result<body::GroupListing, Failure> {
    let names = Names::new(node);
    let (group, holdings) = node.locks.with(|service, now| (service.group(now, key), service.by_group(key)));
    if group.is_none() && holdings.is_empty() {
        return Err(Refusal::NoGroup(key).into());
    }
    Ok(body::GroupListing {
        group: group.map(|group| names.group(group)),
        holdings: holdings.iter().map(|holding| names.holding(holding)).collect(),
    })
}

/// `GET /v1/locks`, `?session=S`, or `?volume=V&offset=O&length=L`.
pub(super) fn list(node: &Node, query: &str) -> Result<body::Listing, Failure> {
    let names = Names::new(node);
    let (sessions, holdings, elsewhere) = match Query::parse(node, query)? {
        Query::All => node.locks.with(|service, now| {
            let all = LockRange::new(0, u64::MAX).into_iter();
            let all = all.flat_map(|all| names.volumes.keys().map(move |&volume| (volume, all)));
            let holdings = all.flat_map(|(volume, all)| service.by_range(volume, all)).collect();
            (service.sessions(now), holdings, BTreeSet::new())
        }),
        Query::Session(id) => node.locks.with(|service, now| {
            let sessions = service.sessions(now).into_iter().filter(|session| session.id == id).collect();
            (sessions, service.by_session(id), BTreeSet::new())
        }),
        Query::Range(volume, range) => {
            let (sessions, holdings, members) = node.locks.with(|service, now| {
                let wants = |want: &Want| want.volume == volume && want.locked.range.overlaps(range);
                let mut sessions = service.sessions(now);
                for session in &mut sessions {
                    session.groups.retain(|group| group.wants.iter().any(wants));
                }
                sessions.retain(|session| !session.groups.is_empty());
                (sessions, service.by_range(volume, range), service.members().cloned())
            });
            let elsewhere = members.map(|members| other_homes(&members, node.me, volume, range));
            (sessions, holdings, elsewhere.unwrap_or_default())
        }
    };
    Ok(body::Listing {
        sessions: sessions.into_iter().map(|session| names.session(session)).collect(),
        holdings: holdings.iter().map(|holding: &Holding| names.holding(holding)).collect(),
        elsewhere: elsewhere.into_iter().map(|home| node.name(home)).collect(),
    })
}

/// The homes of a range but for `me`.
fn other_homes(members: &Members, me: NodeId, volume: PgId, range: LockRange) -> BTreeSet<NodeId> {
    let (first, last) = (range.start() / limits::REGION_BYTES, (range.end() - 1) / limits::REGION_BYTES);
    let others = members.nodes().len() - usize::from(members.contains(me));
    let mut homes = BTreeSet::new();
    for index in (first..=last).take(REGIONS_MAX).map_while(|index| u32::try_from(index).ok()) {
        if homes.len() == others {
            break;
        }
        homes.extend(members.home(RegionId { volume, index }).filter(|home| *home != me));
    }
    homes
}

/// What a listing is to be about.
enum Query {
    All,
    Session(SessionId),
    Range(PgId, LockRange),
}

impl Query {
    fn parse(node: &Node, query: &str) -> Result<Self, Failure> {
        let strange = || {
            let message = format!(
                "?{} is not understood: ask for session=S, volume=V, volume=V&offset=O&length=L, or nothing",
                clip(query)
            );
            Failure::new(ErrorKind::BadRequest, message)
        };
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (key, value) = field.split_once('=').unwrap_or((field, ""));
            if fields.insert(key, value).is_some() {
                return Err(strange());
            }
        }
        let number = |key: &str, default: u64| match fields.get(key) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| {
                let message = format!("{key}={:?} is no number of bytes", clip(value));
                Failure::new(ErrorKind::BadRequest, message)
            }),
        };
        let keys: Vec<&str> = fields.keys().copied().collect();
        match keys[..] {
            [] => Ok(Self::All),
            ["session"] => session(fields["session"]).map(Self::Session),
            ["volume"] | ["length", "offset", "volume"] => {
                let whole = body::Range::read(fields["volume"], 0, 1);
                let size = volume(node, &whole)?.1;
                let (offset, length) = (number("offset", 0)?, number("length", size)?);
                let want = want(node, &body::Range { offset, length, ..whole })?;
                Ok(Self::Range(want.volume, want.locked.range))
            }
            _ => Err(strange()),
        }
    }
}

/// The volume of a range, and its size in bytes.
fn volume(node: &Node, range: &body::Range) -> Result<(PgId, u64), Failure> {
    let spec =
        node.volume(&range.volume).ok_or_else(|| cards_admin::Refusal::no_such_volume(&range.volume))?;
    Ok((spec.id, spec.size_bytes))
}

fn want(node: &Node, range: &body::Range) -> Result<Want, Failure> {
    let (volume, size) = volume(node, range)?;
    let end = range.offset.checked_add(range.length).filter(|end| *end <= size);
    let inside = end.and_then(|end| LockRange::new(range.offset, end)).ok_or_else(|| {
        let message = format!(
            "offset {} and length {} are not within volume {:?} of {size} bytes, or empty",
            range.offset, range.length, range.volume
        );
        Failure::new(ErrorKind::BadRequest, message)
    })?;
    let mode = match range.mode {
        body::Mode::Read => Mode::Read,
        body::Mode::Write => Mode::Write,
    };
    Ok(Want { volume, locked: Locked { range: inside, mode } })
}
