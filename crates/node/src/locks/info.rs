//! What a service knows, for clients and for people.

use cards_core::rendezvous::Members;
use cards_core::{Instant, PgId};
use cards_locks::{GroupKey, Holding, LockRange, SessionId};

use super::Service;
use super::session::{Group, GroupInfo, Session, SessionInfo, Stage};

impl Service {
    /// The sessions of this node.
    pub(crate) fn sessions(&self, now: Instant) -> Vec<SessionInfo> {
        self.sessions.keys().filter_map(|&number| self.info(now, number)).collect()
    }

    /// A group of a session of this node.
    pub(crate) fn group(&self, now: Instant, key: GroupKey) -> Option<GroupInfo> {
        let session = self.sessions.get(&key.session.number).filter(|_| key.session.node == self.me)?;
        session.groups.get(&key.group).map(|group| group_info(now, session, key, group))
    }

    /// What the home at this node knows of a group.
    pub(crate) fn by_group(&self, key: GroupKey) -> Vec<Holding> {
        self.home.by_group(key)
    }

    /// What the home at this node knows of a session.
    pub(crate) fn by_session(&self, session: SessionId) -> Vec<Holding> {
        self.home.by_session(session)
    }

    /// Who has, or wants, any position of a range in the regions whose home is here.
    pub(crate) fn by_range(&self, volume: PgId, range: LockRange) -> Vec<Holding> {
        self.home.by_range(volume, range)
    }

    /// The members, once there is a view.
    pub(crate) fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// A session that is not gone.
    pub(super) fn info(&self, now: Instant, number: u64) -> Option<SessionInfo> {
        let session = self.sessions.get(&number)?;
        let id = SessionId { node: self.me, number };
        let group = |(&group, known)| group_info(now, session, GroupKey { session: id, group }, known);
        Some(SessionInfo {
            id,
            name: session.name.clone(),
            ttl: session.ttl,
            left: session.expires.since(now),
            groups: session.groups.iter().map(group).collect(),
        })
    }
}

fn group_info(now: Instant, session: &Session, key: GroupKey, group: &Group) -> GroupInfo {
    let grant = session.client.grant(now, key.group);
    // The session's end is the group's end.
    let held = grant.map(|grant| (grant.until.min(session.expires).since(now), grant.parts));
    GroupInfo { key, wants: group.wants.clone(), held, releasing: matches!(group.stage, Stage::Releasing) }
}
